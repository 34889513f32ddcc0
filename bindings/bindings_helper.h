/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads: the kernel headers of everything that net/ wraps and that
 * the kernel crate has no abstraction for.
 */
#include <linux/clk.h>
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/if_vlan.h>
#include <linux/interrupt.h>
#include <linux/mdio-bitbang.h>
#include <linux/netdevice.h>
#include <linux/of_mdio.h>
#include <linux/of_net.h>
#include <linux/phy.h>
#include <linux/platform_device.h>
#include <linux/pm_runtime.h>
#include <linux/pm_wakeup.h>
#include <linux/reset.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <net/netdev_lock.h>
#include <net/netdev_queues.h>
#include <net/page_pool/helpers.h>
#include <net/selftests.h>
#include <net/tso.h>

#include "helpers.h"

/* Macros whose value bindgen cannot evaluate. */
#ifdef __BINDGEN__
static const gfp_t RAVB_RS_CONST_GFP_ATOMIC =
	GFP_ATOMIC | __GFP_NOWARN;
static const gfp_t RAVB_RS_CONST_GFP_KERNEL = GFP_KERNEL;
static const unsigned long RAVB_RS_CONST_NAPIF_STATE_SCHED =
	NAPIF_STATE_SCHED;
static const u64 RAVB_RS_CONST_NETIF_F_RXCSUM = NETIF_F_RXCSUM;
static const u64 RAVB_RS_CONST_NETIF_F_HW_CSUM = NETIF_F_HW_CSUM;
static const u64 RAVB_RS_CONST_NETIF_F_SG = NETIF_F_SG;
static const u64 RAVB_RS_CONST_NETIF_F_TSO = NETIF_F_TSO;
static const u64 RAVB_RS_CONST_NETIF_F_TSO6 = NETIF_F_TSO6;
static const u64 RAVB_RS_CONST_NETIF_F_GSO_UDP_L4 = NETIF_F_GSO_UDP_L4;
static const u64 RAVB_RS_CONST_NETIF_F_GSO_MASK = NETIF_F_GSO_MASK;
static const u64 RAVB_RS_CONST_NETIF_F_RXALL = NETIF_F_RXALL;
static const u32 RAVB_RS_CONST_NETIF_MSG_LINK = NETIF_MSG_LINK;
static const u32 RAVB_RS_CONST_NETIF_MSG_TX_ERR = NETIF_MSG_TX_ERR;
static const unsigned int RAVB_RS_CONST_PP_FLAG_DMA_MAP = PP_FLAG_DMA_MAP;
static const unsigned int RAVB_RS_CONST_PP_FLAG_DMA_SYNC_DEV =
	PP_FLAG_DMA_SYNC_DEV;
static const unsigned int RAVB_RS_CONST_SKBTX_HW_TSTAMP = SKBTX_HW_TSTAMP;
static const size_t RAVB_RS_CONST_SHARED_INFO_SIZE =
	SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
static const size_t RAVB_RS_CONST_PAGE_SIZE = PAGE_SIZE;
static const size_t RAVB_RS_CONST_L1_CACHE_BYTES = L1_CACHE_BYTES;
static const unsigned int RAVB_RS_CONST_MAX_SKB_FRAGS = MAX_SKB_FRAGS;
#endif
