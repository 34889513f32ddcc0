// SPDX-License-Identifier: GPL-2.0
/* C wrappers of static inline functions and macros; no logic in here. */
#include <linux/error-injection.h>

#include "bindings_helper.h"

/* Network device */

bool ravb_helper_netif_running(const struct net_device *dev)
{
	return netif_running(dev);
}

bool ravb_helper_netif_device_present(const struct net_device *dev)
{
	return netif_device_present(dev);
}

void ravb_helper_netif_tx_wake_all_queues(struct net_device *dev)
{
	netif_tx_wake_all_queues(dev);
}

void ravb_helper_netif_tx_disable(struct net_device *dev)
{
	netif_tx_disable(dev);
}

void ravb_helper_netif_tx_stop_queue(struct netdev_queue *txq)
{
	netif_tx_stop_queue(txq);
}

void ravb_helper_netif_tx_start_queue(struct netdev_queue *txq)
{
	netif_tx_start_queue(txq);
}

bool ravb_helper_netif_tx_queue_stopped(const struct netdev_queue *txq)
{
	return netif_tx_queue_stopped(txq);
}

void ravb_helper_netif_tx_lock_bh(struct netdev_queue *txq)
{
	__netif_tx_lock_bh(txq);
}

void ravb_helper_netif_tx_unlock_bh(struct netdev_queue *txq)
{
	__netif_tx_unlock_bh(txq);
}

bool ravb_helper_netdev_tx_sent_queue(struct netdev_queue *txq,
				      unsigned int bytes)
{
	return __netdev_tx_sent_queue(txq, bytes, netdev_xmit_more());
}

void ravb_helper_netdev_tx_completed_queue(struct netdev_queue *txq,
					   unsigned int pkts,
					   unsigned int bytes)
{
	netdev_tx_completed_queue(txq, pkts, bytes);
}

void ravb_helper_netdev_tx_reset_queue(struct netdev_queue *txq)
{
	netdev_tx_reset_queue(txq);
}

bool ravb_helper_netdev_xmit_more(void)
{
	return netdev_xmit_more();
}

netdev_features_t
ravb_helper_vlan_features_check(struct sk_buff *skb, netdev_features_t features)
{
	return vlan_features_check(skb, features);
}

void ravb_helper_eth_hw_addr_set(struct net_device *dev, const u8 *addr)
{
	eth_hw_addr_set(dev, addr);
}

void ravb_helper_eth_hw_addr_random(struct net_device *dev)
{
	eth_hw_addr_random(dev);
}

bool ravb_helper_is_valid_ether_addr(const u8 *addr)
{
	return is_valid_ether_addr(addr);
}

/* ethtool: inline where the kernel has no self-tests. */

void ravb_helper_net_selftest(struct net_device *dev, struct ethtool_test *test,
			      u64 *values)
{
	net_selftest(dev, test, values);
}

int ravb_helper_net_selftest_get_count(void)
{
	return net_selftest_get_count();
}

void ravb_helper_net_selftest_get_strings(u8 *names)
{
	net_selftest_get_strings(names);
}

/* NAPI */

void ravb_helper_netdev_lock(struct net_device *dev)
{
	netdev_lock(dev);
}

void ravb_helper_netdev_unlock(struct net_device *dev)
{
	netdev_unlock(dev);
}

void ravb_helper_netif_napi_add_config_locked(struct net_device *dev,
					      struct napi_struct *napi,
					      int (*poll)(struct napi_struct *,
							  int),
					      int index)
{
	netif_napi_add_config_locked(dev, napi, poll, index);
}

/* Socket buffers */

void ravb_helper_skb_tx_timestamp(struct sk_buff *skb)
{
	skb_tx_timestamp(skb);
}

void ravb_helper_dev_kfree_skb_any_reason(struct sk_buff *skb,
					  enum skb_drop_reason reason)
{
	dev_kfree_skb_any_reason(skb, reason);
}

/* Page pool */

void ravb_helper_prefetch(const void *p)
{
	prefetch(p);
}

void *ravb_helper_page_address(const struct page *page)
{
	return page_address(page);
}

void ravb_helper_page_pool_put_full_page(struct page_pool *pool,
					 struct page *page, bool allow_direct)
{
	page_pool_put_full_page(pool, page, allow_direct);
}

/* Streaming DMA. DMA_MAPPING_ERROR is the error number -EPERM, in 64 bits. */

dma_addr_t ravb_helper_dma_map_single(struct device *dev, void *ptr,
				      size_t size, enum dma_data_direction dir)
{
	return dma_map_single(dev, ptr, size, dir);
}
ALLOW_ERROR_INJECTION(ravb_helper_dma_map_single, ERRNO);

dma_addr_t ravb_helper_skb_frag_dma_map(struct device *dev,
					const struct sk_buff *skb, int i,
					size_t offset, size_t size,
					enum dma_data_direction dir)
{
	return skb_frag_dma_map(dev, &skb_shinfo(skb)->frags[i], offset, size,
				dir);
}
ALLOW_ERROR_INJECTION(ravb_helper_skb_frag_dma_map, ERRNO);

int ravb_helper_dma_mapping_error(struct device *dev, dma_addr_t addr)
{
	return dma_mapping_error(dev, addr);
}

void ravb_helper_dma_sync_single_for_device(struct device *dev, dma_addr_t addr,
					    size_t size,
					    enum dma_data_direction dir)
{
	dma_sync_single_for_device(dev, addr, size, dir);
}

/* Runtime power management */

void ravb_helper_pm_runtime_get_noresume(struct device *dev)
{
	pm_runtime_get_noresume(dev);
}

int ravb_helper_pm_runtime_suspend(struct device *dev)
{
	return pm_runtime_suspend(dev);
}

int ravb_helper_pm_runtime_resume_and_get(struct device *dev)
{
	return pm_runtime_resume_and_get(dev);
}

void ravb_helper_pm_runtime_put_autosuspend(struct device *dev)
{
	pm_runtime_put_autosuspend(dev);
}

void ravb_helper_pm_runtime_use_autosuspend(struct device *dev)
{
	pm_runtime_use_autosuspend(dev);
}

void ravb_helper_pm_runtime_dont_use_autosuspend(struct device *dev)
{
	pm_runtime_dont_use_autosuspend(dev);
}

void ravb_helper_pm_runtime_disable(struct device *dev)
{
	pm_runtime_disable(dev);
}

bool ravb_helper_device_may_wakeup(struct device *dev)
{
	return device_may_wakeup(dev);
}

/* Work */

void ravb_helper_init_work(struct work_struct *work, work_func_t func)
{
	INIT_WORK(work, func);
}

void ravb_helper_schedule_work(struct work_struct *work)
{
	schedule_work(work);
}

/* Resets, device tree, PHY */

struct reset_control *
ravb_helper_reset_control_get_exclusive(struct device *dev, const char *id)
{
	return reset_control_get_exclusive(dev, id);
}

struct device_node *ravb_helper_of_node_get(struct device_node *node)
{
	return of_node_get(node);
}

void ravb_helper_of_node_put(struct device_node *node)
{
	of_node_put(node);
}

struct device_node *ravb_helper_of_parse_phandle(const struct device_node *np,
						 const char *name, int index)
{
	return of_parse_phandle(np, name, index);
}

unsigned int ravb_helper_num_present_cpus(void)
{
	return num_present_cpus();
}

bool ravb_helper_mdiobus_is_registered(const struct mii_bus *bus)
{
	return bus->state == MDIOBUS_REGISTERED;
}

bool ravb_helper_phy_is_started(struct phy_device *phydev)
{
	return phy_is_started(phydev);
}

void ravb_helper_phy_device_put(struct phy_device *phydev)
{
	put_device(&phydev->mdio.dev);
}
