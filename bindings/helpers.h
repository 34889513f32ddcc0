/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C wrappers of static inline functions and macros, one call each: Rust cannot
 * reach those directly. Named ravb_helper_<function>, without its underscores.
 */
#ifndef RAVB_RS_HELPERS_H
#define RAVB_RS_HELPERS_H

#include <linux/types.h>

/* Network device */
bool ravb_helper_netif_running(const struct net_device *dev);
bool ravb_helper_netif_device_present(const struct net_device *dev);
void ravb_helper_netif_tx_wake_all_queues(struct net_device *dev);
void ravb_helper_netif_tx_disable(struct net_device *dev);
void ravb_helper_netif_tx_stop_queue(struct netdev_queue *txq);
void ravb_helper_netif_tx_start_queue(struct netdev_queue *txq);
bool ravb_helper_netif_tx_queue_stopped(const struct netdev_queue *txq);
void ravb_helper_netif_tx_lock_bh(struct netdev_queue *txq);
void ravb_helper_netif_tx_unlock_bh(struct netdev_queue *txq);
bool ravb_helper_netdev_tx_sent_queue(struct netdev_queue *txq,
				      unsigned int bytes);
void ravb_helper_netdev_tx_completed_queue(struct netdev_queue *txq,
					   unsigned int pkts,
					   unsigned int bytes);
void ravb_helper_netdev_tx_reset_queue(struct netdev_queue *txq);
bool ravb_helper_netdev_xmit_more(void);
netdev_features_t
ravb_helper_vlan_features_check(struct sk_buff *skb,
				netdev_features_t features);
void ravb_helper_eth_hw_addr_set(struct net_device *dev, const u8 *addr);
void ravb_helper_eth_hw_addr_random(struct net_device *dev);
bool ravb_helper_is_valid_ether_addr(const u8 *addr);

/* ethtool */
void ravb_helper_net_selftest(struct net_device *dev, struct ethtool_test *test,
			      u64 *values);
int ravb_helper_net_selftest_get_count(void);
void ravb_helper_net_selftest_get_strings(u8 *names);

/* NAPI */
void ravb_helper_netdev_lock(struct net_device *dev);
void ravb_helper_netdev_unlock(struct net_device *dev);
void ravb_helper_netif_napi_add_config_locked(struct net_device *dev,
					      struct napi_struct *napi,
					      int (*poll)(struct napi_struct *,
							  int),
					      int index);

/* Socket buffers */
void ravb_helper_skb_tx_timestamp(struct sk_buff *skb);
void ravb_helper_dev_kfree_skb_any_reason(struct sk_buff *skb,
					  enum skb_drop_reason reason);

/* Page pool */
void ravb_helper_prefetch(const void *p);
void *ravb_helper_page_address(const struct page *page);
void ravb_helper_page_pool_put_full_page(struct page_pool *pool,
					 struct page *page, bool allow_direct);

/* Streaming DMA */
dma_addr_t ravb_helper_dma_map_single(struct device *dev, void *ptr,
				      size_t size, enum dma_data_direction dir);
dma_addr_t ravb_helper_skb_frag_dma_map(struct device *dev,
					const struct sk_buff *skb, int i,
					size_t offset, size_t size,
					enum dma_data_direction dir);
int ravb_helper_dma_mapping_error(struct device *dev, dma_addr_t addr);
void ravb_helper_dma_sync_single_for_device(struct device *dev, dma_addr_t addr,
					    size_t size,
					    enum dma_data_direction dir);

/* Runtime power management */
void ravb_helper_pm_runtime_get_noresume(struct device *dev);
int ravb_helper_pm_runtime_suspend(struct device *dev);
int ravb_helper_pm_runtime_resume_and_get(struct device *dev);
void ravb_helper_pm_runtime_put_autosuspend(struct device *dev);
void ravb_helper_pm_runtime_use_autosuspend(struct device *dev);
void ravb_helper_pm_runtime_dont_use_autosuspend(struct device *dev);
void ravb_helper_pm_runtime_disable(struct device *dev);
bool ravb_helper_device_may_wakeup(struct device *dev);

/* Work */
void ravb_helper_init_work(struct work_struct *work, work_func_t func);
void ravb_helper_schedule_work(struct work_struct *work);

/* Resets, device tree, PHY */
struct reset_control *
ravb_helper_reset_control_get_exclusive(struct device *dev, const char *id);
struct device_node *ravb_helper_of_node_get(struct device_node *node);
void ravb_helper_of_node_put(struct device_node *node);
struct device_node *ravb_helper_of_parse_phandle(const struct device_node *np,
						 const char *name, int index);
unsigned int ravb_helper_num_present_cpus(void);
bool ravb_helper_mdiobus_is_registered(const struct mii_bus *bus);
bool ravb_helper_phy_is_started(struct phy_device *phydev);
void ravb_helper_phy_device_put(struct phy_device *phydev);

#endif
