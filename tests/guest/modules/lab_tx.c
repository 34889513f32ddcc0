// SPDX-License-Identifier: GPL-2.0
/*
 * Sends packets whose layout in memory the lab chooses: where the head begins,
 * how many bytes are in it, how long the fragments are and where they begin.
 * No interface of user space can do that.
 *
 * /sys/kernel/debug/lab_tx takes requests, each followed by the first bytes of
 * its packet; a generator makes the others. It returns what became of the
 * packets of the last write.
 */
#include <linux/debugfs.h>
#include <linux/etherdevice.h>
#include <linux/if_packet.h>
#include <linux/if_vlan.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/overflow.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <linux/wait.h>
#include <net/net_namespace.h>
#include <net/sock.h>

/* How a packet is sent. */
enum lab_tx_way {
	/* To the device's queueing discipline. */
	LAB_TX_STACK,
	/* The same, the next one when the device is done with this one. */
	LAB_TX_ALONE,
	/* One packet many times straight to the driver, as pktgen does it. */
	LAB_TX_SHARED,
	/* Through a packet socket. */
	LAB_TX_SOCKET,
};

struct lab_tx_fragment {
	__le16 length;
	__le16 offset;
} __packed;

struct lab_tx_request {
	__le32 count;
	__le16 length;
	/* Bytes of the packet behind the request. */
	__le16 given;
	/* Bytes in the head. */
	__le16 head;
	/* What is left to the device to sum up, and where from; or zeroes. */
	__le16 csum_start;
	__le16 csum_offset;
	/* Payload of a segment, if it is to be sent in segments; or zero. */
	__le16 segment_size;
	/* Address of the head, modulo 64. */
	u8 align;
	u8 seed;
	u8 way;
	u8 fragments;
	struct lab_tx_fragment fragment[];
} __packed;

/* Packets under way at a time: less than any queue drops. */
#define LAB_TX_WINDOW	100
/* Packets per doorbell. */
#define LAB_TX_BURST	32
#define LAB_TX_LIMIT	(10 * HZ)
/* What nobody must find on the wire. */
#define LAB_TX_SECRET	0xa5
#define LAB_TX_HEADROOM	64
#define LAB_TX_TAILROOM	128

static char *dev = "eth0";
module_param(dev, charp, 0644);
MODULE_PARM_DESC(dev, "Name of the device to send to");

static unsigned int watchdog_ms;
module_param(watchdog_ms, uint, 0644);
MODULE_PARM_DESC(watchdog_ms, "When a queue of the device counts as stuck");

static DEFINE_MUTEX(lab_tx_lock);
static DECLARE_WAIT_QUEUE_HEAD(lab_tx_wait);
static atomic_t lab_tx_under_way;

/* What became of the packets. */
static struct {
	u32 sent;
	u32 refused;
	u32 busy;
	u32 changed;
	u64 slowest_ns;
} lab_tx_result;

static void lab_tx_done(struct sk_buff *skb)
{
	atomic_dec(&lab_tx_under_way);
	wake_up(&lab_tx_wait);
}

static int lab_tx_wait_until(int under_way)
{
	bool done = wait_event_timeout(lab_tx_wait,
				       atomic_read(&lab_tx_under_way) <=
				       under_way, LAB_TX_LIMIT);

	return done ? 0 : -ETIMEDOUT;
}

/* The bytes of a packet, in order. */
struct lab_tx_source {
	const u8 *given;
	u32 left;
	u32 state;
};

static struct lab_tx_source lab_tx_source(const struct lab_tx_request *request,
					  const u8 *given)
{
	return (struct lab_tx_source) {
		.given = given,
		.left = le16_to_cpu(request->given),
		.state = request->seed | 0x100,
	};
}

static void lab_tx_fill(struct lab_tx_source *source, u8 *to, u32 length)
{
	while (length--) {
		if (source->left) {
			source->left--;
			*to++ = *source->given++;
		} else {
			source->state = source->state * 1664525 + 1013904223;
			*to++ = source->state >> 24;
		}
	}
}

/* Has TCP or UDP, whose header is known to be where it is, sent in segments. */
static void lab_tx_segment(struct sk_buff *skb, u32 size)
{
	bool v6 = vlan_get_protocol(skb) == htons(ETH_P_IPV6);
	struct skb_shared_info *info = skb_shinfo(skb);
	u32 header = skb_transport_offset(skb);

	if (skb->csum_offset == offsetof(struct tcphdr, check)) {
		info->gso_type = v6 ? SKB_GSO_TCPV6 : SKB_GSO_TCPV4;
		header += tcp_hdrlen(skb);
	} else {
		info->gso_type = SKB_GSO_UDP_L4;
		header += sizeof(struct udphdr);
	}
	info->gso_size = size;
	info->gso_segs = DIV_ROUND_UP(skb->len - header, size);
}

static struct sk_buff *lab_tx_build(const struct lab_tx_request *request,
				    const u8 *given, struct net_device *ndev)
{
	struct lab_tx_source source = lab_tx_source(request, given);
	u32 head = le16_to_cpu(request->head);
	int network = ETH_HLEN;
	struct sk_buff *skb;
	u32 i;

	skb = alloc_skb(LAB_TX_HEADROOM + head + LAB_TX_TAILROOM, GFP_KERNEL);
	if (!skb)
		return NULL;
	memset(skb->head, LAB_TX_SECRET, skb_end_offset(skb));
	skb_reserve(skb, LAB_TX_HEADROOM);
	skb_reserve(skb, (request->align - (uintptr_t)skb->data) & 63);
	lab_tx_fill(&source, skb_put(skb, head), head);

	for (i = 0; i < request->fragments; i++) {
		u32 offset = le16_to_cpu(request->fragment[i].offset);
		u32 length = le16_to_cpu(request->fragment[i].length);
		struct page *page = alloc_page(GFP_KERNEL);

		if (!page) {
			kfree_skb(skb);
			return NULL;
		}
		memset(page_address(page), LAB_TX_SECRET, PAGE_SIZE);
		lab_tx_fill(&source, page_address(page) + offset, length);
		skb_add_rx_frag(skb, i, page, offset, length, PAGE_SIZE);
	}

	skb->dev = ndev;
	skb_reset_mac_header(skb);
	skb->protocol = eth_hdr(skb)->h_proto;
	/* Behind any tags, as where the stack has put them there. */
	if (eth_type_vlan(skb->protocol))
		vlan_get_protocol_and_depth(skb, skb->protocol, &network);
	skb_set_network_header(skb, network);
	if (request->csum_start &&
	    !skb_partial_csum_set(skb, le16_to_cpu(request->csum_start),
				  le16_to_cpu(request->csum_offset))) {
		kfree_skb(skb);
		return NULL;
	}
	if (request->csum_start && request->segment_size)
		lab_tx_segment(skb, le16_to_cpu(request->segment_size));
	return skb;
}

static int lab_tx_stack(const struct lab_tx_request *request, const u8 *given,
			struct net_device *ndev, int window)
{
	u64 start = ktime_get_ns();
	struct sk_buff *skb;
	int err;

	skb = lab_tx_build(request, given, ndev);
	if (!skb)
		return -ENOMEM;
	skb->destructor = lab_tx_done;
	atomic_inc(&lab_tx_under_way);
	if (dev_queue_xmit(skb))
		lab_tx_result.refused++;
	else
		lab_tx_result.sent++;
	err = lab_tx_wait_until(window - 1);
	lab_tx_result.slowest_ns = max(lab_tx_result.slowest_ns,
				       ktime_get_ns() - start);
	return err;
}

/* Sends a packet up to @count times; returns how often the driver took it. */
static u32 lab_tx_burst(struct sk_buff *skb, struct netdev_queue *txq,
			u32 count)
{
	struct net_device *ndev = skb->dev;
	netdev_tx_t result = NETDEV_TX_OK;
	u32 taken = 0;

	local_bh_disable();
	HARD_TX_LOCK(ndev, txq, smp_processor_id());
	while (taken < count && result == NETDEV_TX_OK) {
		if (netif_xmit_frozen_or_drv_stopped(txq))
			break;
		refcount_inc(&skb->users);
		result = netdev_start_xmit(skb, ndev, txq, taken + 1 < count);
		if (result == NETDEV_TX_OK) {
			taken++;
		} else {
			refcount_dec(&skb->users);
			lab_tx_result.busy++;
		}
	}
	HARD_TX_UNLOCK(ndev, txq);
	local_bh_enable();
	return taken;
}

static int lab_tx_shared(const struct lab_tx_request *request, const u8 *given,
			 struct net_device *ndev)
{
	unsigned long end = jiffies + LAB_TX_LIMIT;
	u32 count = le32_to_cpu(request->count);
	struct sk_buff *skb, *copy;
	int err = 0;

	skb = lab_tx_build(request, given, ndev);
	copy = lab_tx_build(request, given, ndev);
	if (!skb || !copy) {
		err = -ENOMEM;
		goto out;
	}
	while (count || refcount_read(&skb->users) > 1) {
		u32 burst = min_t(u32, count, LAB_TX_BURST);
		u32 taken = 0;

		if (burst)
			taken = lab_tx_burst(skb, netdev_get_tx_queue(ndev, 0),
					     burst);
		lab_tx_result.sent += taken;
		count -= taken;
		if (taken) {
			end = jiffies + LAB_TX_LIMIT;
		} else if (time_after(jiffies, end)) {
			/* The device has it, so that it must stay. */
			skb = NULL;
			err = -ETIMEDOUT;
			goto out;
		} else {
			usleep_range(50, 100);
		}
	}
	if (skb->len != copy->len || skb->data_len != copy->data_len ||
	    memcmp(skb->head, copy->head, skb_end_offset(copy)))
		lab_tx_result.changed++;
out:
	kfree_skb(skb);
	kfree_skb(copy);
	return err;
}

static int lab_tx_socket(const struct lab_tx_request *request, const u8 *given,
			 struct net_device *ndev)
{
	struct lab_tx_source source = lab_tx_source(request, given);
	u32 length = le16_to_cpu(request->length);
	struct sockaddr_ll to = {
		.sll_family = AF_PACKET,
		.sll_ifindex = ndev->ifindex,
		.sll_halen = ETH_ALEN,
	};
	struct msghdr message = { .msg_name = &to, .msg_namelen = sizeof(to) };
	struct kvec data = { .iov_len = length };
	struct socket *socket;
	int err;

	data.iov_base = kmalloc(length, GFP_KERNEL);
	if (!data.iov_base)
		return -ENOMEM;
	lab_tx_fill(&source, data.iov_base, length);
	err = sock_create_kern(&init_net, AF_PACKET, SOCK_RAW, 0, &socket);
	if (!err) {
		err = kernel_sendmsg(socket, &message, &data, 1, length);
		if (err == length)
			lab_tx_result.sent++;
		else
			lab_tx_result.refused++;
		sock_release(socket);
		err = 0;
	}
	kfree(data.iov_base);
	return err;
}

static bool lab_tx_is_valid(const struct lab_tx_request *request)
{
	u32 length = le16_to_cpu(request->head);
	u32 i;

	if (request->fragments > MAX_SKB_FRAGS || length < ETH_HLEN)
		return false;
	for (i = 0; i < request->fragments; i++) {
		u32 size = le16_to_cpu(request->fragment[i].length);

		if (le16_to_cpu(request->fragment[i].offset) + size > PAGE_SIZE)
			return false;
		length += size;
	}
	return length == le16_to_cpu(request->length);
}

static int lab_tx_serve(const struct lab_tx_request *request, const u8 *given,
			struct net_device *ndev)
{
	u32 count = le32_to_cpu(request->count);
	int err = 0;

	if (request->way == LAB_TX_SHARED)
		return lab_tx_shared(request, given, ndev);
	while (count-- && !err) {
		switch (request->way) {
		case LAB_TX_STACK:
			err = lab_tx_stack(request, given, ndev, LAB_TX_WINDOW);
			break;
		case LAB_TX_ALONE:
			err = lab_tx_stack(request, given, ndev, 1);
			break;
		case LAB_TX_SOCKET:
			err = lab_tx_socket(request, given, ndev);
			break;
		default:
			err = -EINVAL;
		}
		cond_resched();
	}
	return err;
}

static int lab_tx_serve_all(const u8 *at, size_t left, struct net_device *ndev)
{
	while (left) {
		const struct lab_tx_request *request = (const void *)at;
		size_t size = sizeof(*request);
		u32 given;
		int err;

		if (left < size)
			return -EINVAL;
		size += flex_array_size(request, fragment, request->fragments);
		given = le16_to_cpu(request->given);
		if (left < size + given || !lab_tx_is_valid(request))
			return -EINVAL;
		err = lab_tx_serve(request, at + size, ndev);
		if (err)
			return err;
		at += size + given;
		left -= size + given;
	}
	return lab_tx_wait_until(0);
}

static ssize_t lab_tx_write(struct file *file, const char __user *from,
			    size_t size, loff_t *position)
{
	struct net_device *ndev;
	u8 *requests;
	int err;

	requests = vmemdup_user(from, size);
	if (IS_ERR(requests))
		return PTR_ERR(requests);
	mutex_lock(&lab_tx_lock);
	memset(&lab_tx_result, 0, sizeof(lab_tx_result));
	ndev = dev_get_by_name(&init_net, dev);
	if (ndev) {
		if (watchdog_ms)
			ndev->watchdog_timeo = msecs_to_jiffies(watchdog_ms);
		err = lab_tx_serve_all(requests, size, ndev);
		dev_put(ndev);
	} else {
		err = -ENODEV;
	}
	mutex_unlock(&lab_tx_lock);
	kvfree(requests);
	return err ?: size;
}

static ssize_t lab_tx_read(struct file *file, char __user *to, size_t size,
			   loff_t *position)
{
	char text[80];
	int length;

	mutex_lock(&lab_tx_lock);
	length = scnprintf(text, sizeof(text), "%u %u %u %u %llu\n",
			   lab_tx_result.sent, lab_tx_result.refused,
			   lab_tx_result.busy, lab_tx_result.changed,
			   lab_tx_result.slowest_ns);
	mutex_unlock(&lab_tx_lock);
	return simple_read_from_buffer(to, size, position, text, length);
}

static const struct file_operations lab_tx_file = {
	.owner = THIS_MODULE,
	.read = lab_tx_read,
	.write = lab_tx_write,
};

/* Packets under way call back, so that this module stays once it is loaded. */
static int __init lab_tx_init(void)
{
	debugfs_create_file("lab_tx", 0600, NULL, NULL, &lab_tx_file);
	return 0;
}
module_init(lab_tx_init);

MODULE_DESCRIPTION("Sends packets of a given layout");
MODULE_LICENSE("GPL");
