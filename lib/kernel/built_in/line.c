// SPDX-License-Identifier: GPL-2.0-only
/*
 * A queue discipline "line": one direction of a cable, as an experiment describes it.
 *
 * Packets wait in the queue discipline inside it (its only child, of any kind), and are sent one after the other at the
 * line's rate. Then they travel for the delay, longer or shorter by a jitter that keeps their order. Some of them are
 * lost, and some are held back so that those behind overtake. The packet that is being sent is not in the queue. A
 * sender's socket is told that a packet has gone when its last bit has left, as by a network card.
 *
 * What happens to packets is written to a descriptor of the process that this kernel is, so that no program inside
 * spends time on it. See struct line_event, which netrepro/emulation/virtual/events.py reads.
 */
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/red.h>
#include <os.h>

#include "light_timer.h"
#include "step.h"

enum { LINE_PARAMETERS = 1 };
enum { LINE_UP = 1, LINE_REPORT = 2, LINE_RECORD = 4 };

struct line_parameters {
	u64 rate; /* bits per second */
	u64 delay_ns, jitter_ns, held_ns, seed;
	u32 loss, reordering; /* shares of 2^32 - 1 */
	s32 events, capture; /* descriptors, -1 for none */
	u32 port, flags;
};

enum { LINE_QUEUED = 1, LINE_DROPPED = 2, LINE_STARTED = 3, LINE_LEFT = 4, LINE_TOTALS = 5, LINE_DREW = 6 };

struct line_event {
	u64 time_ns;
	/* left: when it was taken from the queue; totals: how long the line was busy; drew: the random number */
	u64 started_ns;
	u32 packet; /* the same number from queued to left; totals: packets lost */
	u16 port;
	u8 kind, ecn; /* queued, dropped: as it came; started, left: with the queue's mark */
	u32 queue_packets, queue_bytes; /* after the event; totals: packets sent, dropped */
	u32 size; /* totals: packets marked */
	/* IPv4 addresses, or the last four bytes of IPv6's; totals: bytes sent, low half first */
	u32 from, to;
	u16 from_port, to_port;
};

#define BUFFERED_EVENTS 1024
#define CAPTURED_BYTES 128
#define CAPTURE_BUFFER 32768

static struct line_event events[BUFFERED_EVENTS];
static unsigned int events_waiting;
static int events_to = -1;

static void line_write(int descriptor, const void *from, size_t size)
{
	while (size) {
		int done = os_write_file(descriptor, from, size);

		if (done == -EINTR)
			continue;
		if (done <= 0)
			panic("line: the outside takes no more events: %d", done);
		from += done;
		size -= done;
	}
}

static void line_flush_events(void)
{
	line_write(events_to, events, events_waiting * sizeof(*events));
	events_waiting = 0;
}

struct line {
	struct line_parameters wanted;
	struct Qdisc *queue;
	struct sk_buff *sending;
	u64 started, sent_at, remainder; /* remainder: of the rate, so that no nanosecond is lost over many packets */
	u64 last_due;
	struct sk_buff_head wire; /* sorted by the time at which they arrive */
	struct rnd_state random;
	struct light_timer timer;
	struct Qdisc *itself;
	bool decides_at_arrival; /* its queue does, and does not depend on when it is asked for a packet */
	bool owners_wait; /* sockets that have sent packets into it wait to hear that these have left */
	bool is_late; /* packets may have been sent some time ago: see line_may_be_late */
	u64 busy_ns, sent_bytes;
	u32 sent, lost, refused, marked_before, marked_after;
	u8 *captured;
	unsigned int capture_bytes;
};

struct line_packet {
	u64 due;
};

static void line_ring(struct light_timer *timer)
{
	rcu_read_lock();
	__netif_schedule(qdisc_root(container_of(timer, struct line, timer)->itself));
	rcu_read_unlock();
}

static struct line_packet *line_packet(struct sk_buff *skb)
{
	return (struct line_packet *)qdisc_skb_cb(skb)->data;
}

static u8 line_ecn(struct sk_buff *skb)
{
	if (skb->protocol == htons(ETH_P_IPV6))
		return ipv6_get_dsfield(ipv6_hdr(skb)) & INET_ECN_MASK;
	return skb->protocol == htons(ETH_P_IP) ? ip_hdr(skb)->tos & INET_ECN_MASK : 0;
}

static struct line_event *line_event(struct line *line, u8 kind, u64 now)
{
	struct line_event *event = &events[events_waiting];

	memset(event, 0, sizeof(*event));
	event->time_ns = now;
	event->kind = kind;
	event->port = line->wanted.port;
	event->queue_packets = line->queue->q.qlen;
	event->queue_bytes = line->queue->qstats.backlog;
	return event;
}

static void line_event_done(void)
{
	if (++events_waiting == BUFFERED_EVENTS)
		line_flush_events();
}

/* Notes the ports of TCP or UDP, behind a network header of so many bytes. */
static void line_describe_ports(struct line_event *event, struct sk_buff *skb, int header_bytes)
{
	__be16 ports[2];

	if (skb_copy_bits(skb, skb_network_offset(skb) + header_bytes, ports, sizeof(ports)))
		return;
	event->from_port = ntohs(ports[0]);
	event->to_port = ntohs(ports[1]);
}

/* Says in an event which packet it is. */
static void line_describe(struct line_event *event, struct sk_buff *skb)
{
	event->packet = (u32)(unsigned long)skb;
	event->size = qdisc_pkt_len(skb);
	event->ecn = line_ecn(skb);
	if (skb->protocol == htons(ETH_P_IP)) {
		const struct iphdr *ip = ip_hdr(skb);

		event->from = ntohl(ip->saddr);
		event->to = ntohl(ip->daddr);
		if (!(ip->frag_off & htons(IP_OFFSET)))
			line_describe_ports(event, skb, ip->ihl * 4);
	} else if (skb->protocol == htons(ETH_P_IPV6)) {
		const struct ipv6hdr *ip = ipv6_hdr(skb);

		event->from = ntohl(ip->saddr.s6_addr32[3]);
		event->to = ntohl(ip->daddr.s6_addr32[3]);
		if (ip->nexthdr == IPPROTO_TCP || ip->nexthdr == IPPROTO_UDP)
			line_describe_ports(event, skb, sizeof(*ip));
	}
}

static bool line_records(struct line *line)
{
	return line->wanted.flags & LINE_RECORD;
}

/* Times are those at which the kernel does the work, so that they show whether it was in time. */
static void line_note(struct line *line, u8 kind, u64 now, u64 started, const struct line_event *described)
{
	struct line_event *event;

	if (!line_records(line))
		return;
	event = line_event(line, kind, now);
	event->started_ns = started;
	event->packet = described->packet;
	event->size = described->size;
	event->ecn = described->ecn;
	event->from = described->from;
	event->to = described->to;
	event->from_port = described->from_port;
	event->to_port = described->to_port;
	line_event_done();
}

static void line_note_packet(struct line *line, u8 kind, u64 now, u64 started, struct sk_buff *skb)
{
	struct line_event described = {};

	if (!line_records(line))
		return;
	line_describe(&described, skb);
	line_note(line, kind, now, started, &described);
}

static struct line *deciding; /* the line whose queue decides about a packet at this moment */

/* A queue has drawn a random number that decides what becomes of a packet (patches/draws.patch, modules/sch_*.c). */
u64 line_drew(u64 drawn)
{
	static const struct line_event nothing;

	if (deciding)
		line_note(deciding, LINE_DREW, 0, drawn, &nothing);
	return drawn;
}
EXPORT_SYMBOL_GPL(line_drew);

static void line_flush_capture(struct line *line)
{
	line_write(line->wanted.capture, line->captured, line->capture_bytes);
	line->capture_bytes = 0;
}

/* Writes a record of a pcap file of nanoseconds, stamped as the last bit leaves. */
static void line_capture(struct line *line, struct sk_buff *skb, u64 now)
{
	unsigned int kept = min_t(unsigned int, skb->len, CAPTURED_BYTES);
	u32 header[4], rest;
	u64 at;

	if (line->wanted.capture < 0)
		return;
	at = ktime_to_ns(ktime_mono_to_real(ns_to_ktime(now)));
	if (line->capture_bytes + sizeof(header) + kept > CAPTURE_BUFFER)
		line_flush_capture(line);
	header[0] = div_u64_rem(at, NSEC_PER_SEC, &rest);
	header[1] = rest;
	header[2] = kept;
	header[3] = skb->len;
	memcpy(line->captured + line->capture_bytes, header, sizeof(header));
	line->capture_bytes += sizeof(header);
	skb_copy_bits(skb, 0, line->captured + line->capture_bytes, kept);
	line->capture_bytes += kept;
}

static u32 line_random(struct line *line)
{
	return prandom_u32_state(&line->random);
}

/* A bell-shaped number: the sum of twelve uniform ones has a variance of one. */
static s64 line_jitter(struct line *line)
{
	s64 sum = -6 * 65535;
	int i;

	if (!line->wanted.jitter_ns)
		return 0;
	for (i = 0; i < 12; i++)
		sum += line_random(line) >> 16;
	return (sum * (s64)line->wanted.jitter_ns) >> 16;
}

static void line_start(struct line *line, u64 at, u64 now)
{
	struct sk_buff *skb;
	u64 duration;

	deciding = line;
	skb = line->queue->dequeue(line->queue);
	deciding = NULL;
	if (!skb)
		return;
	duration = div64_u64_rem(qdisc_pkt_len(skb) * 8 * (u64)NSEC_PER_SEC + line->remainder, line->wanted.rate,
				 &line->remainder);
	line->sending = skb;
	line->started = now;
	line->sent_at = at + duration;
	line->busy_ns += duration;
	line->sent++;
	line->sent_bytes += qdisc_pkt_len(skb);
	line->marked_after += line_ecn(skb) == INET_ECN_CE;
	line_note_packet(line, LINE_STARTED, now, 0, skb);
}

static void line_forget(struct Qdisc *sch, struct sk_buff *skb)
{
	sch->q.qlen--;
	sch->qstats.backlog -= qdisc_pkt_len(skb);
}

static void line_travel(struct Qdisc *sch, struct sk_buff *skb, u64 left)
{
	struct line *line = qdisc_priv(sch);
	s64 delay = line->wanted.delay_ns + line_jitter(line);
	struct sk_buff *before;
	u64 due;

	if (line->wanted.loss && line_random(line) < line->wanted.loss) {
		line->lost++;
		line_forget(sch, skb);
		kfree_skb(skb);
		return;
	}
	skb_orphan(skb);
	skb_clear_delivery_time(skb); /* the sender's, which a cable does not carry; fq would take it for its own */
	due = max_t(u64, left + max_t(s64, delay, 0), line->last_due);
	if (line->wanted.reordering && line_random(line) < line->wanted.reordering)
		due += line->wanted.held_ns;
	else
		line->last_due = due;
	line_packet(skb)->due = due;
	skb_queue_reverse_walk(&line->wire, before)
		if (line_packet(before)->due <= due)
			break;
	__skb_queue_after(&line->wire, before, skb); /* without such a packet, behind the list's head */
}

/* Ends the transmissions that are over by now, and begins those of the packets that wait. */
static void line_advance(struct Qdisc *sch, u64 now)
{
	struct line *line = qdisc_priv(sch);

	line->is_late = false;
	while (line->sending && line->sent_at <= now) {
		struct sk_buff *skb = line->sending;
		u64 left = line->sent_at;

		line->sending = NULL;
		line_note_packet(line, LINE_LEFT, now, line->started, skb);
		line_capture(line, skb, now);
		line_travel(sch, skb, left);
		line_start(line, left, now);
	}
}

/*
 * Whether nobody sees when packets leave, but only when they arrive. One wake-up a packet is then enough. A packet that
 * comes, a question or a change finds the line as it is by then (line_catch_up): packets that wait leave in their
 * order, at times that are known, and a packet affects others only by waiting.
 */
static bool line_may_be_late(struct line *line)
{
	struct Qdisc *queue = line->queue;

	if (!line->decides_at_arrival || line->owners_wait || line->wanted.jitter_ns || line->wanted.capture >= 0 ||
	    line_records(line))
		return false;
	return !queue->q.qlen || queue->ops == &pfifo_qdisc_ops || queue->ops == &bfifo_qdisc_ops ||
	       step_decides_alone(queue);
}

static void line_catch_up(struct Qdisc *sch)
{
	struct line *line = qdisc_priv(sch);

	if (line->is_late)
		line_advance(sch, ktime_get_ns());
}

/* Sets the timer for the packet that arrives next, or is sent next. */
static void line_set_timer(struct line *line)
{
	struct sk_buff *skb = skb_peek(&line->wire);
	u64 next = skb ? line_packet(skb)->due : U64_MAX;

	if (line->sending)
		next = min(next, line->sent_at + (line->is_late ? line->wanted.delay_ns : 0));
	if (next != U64_MAX && !test_bit(__QDISC_STATE_DEACTIVATED, &qdisc_root_sleeping(line->itself)->state))
		light_timer_set(&line->timer, next);
}

static struct sk_buff *line_dequeue(struct Qdisc *sch)
{
	struct line *line = qdisc_priv(sch);
	u64 now = ktime_get_ns();
	struct sk_buff *skb;

	line_advance(sch, now);
	if (!line->sending) {
		line->remainder = 0;
		line_start(line, now, now);
	}
	skb = skb_peek(&line->wire);
	if (skb && line_packet(skb)->due <= now) {
		__skb_unlink(skb, &line->wire);
		line_forget(sch, skb);
		qdisc_bstats_update(sch, skb);
		return skb;
	}
	line->is_late = line->sending && line_may_be_late(line);
	line_set_timer(line);
	return NULL;
}

static int line_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct line *line = qdisc_priv(sch);
	unsigned int size = qdisc_pkt_len(skb);
	bool marked = line_ecn(skb) == INET_ECN_CE;
	struct line_event described = {};
	int result;

	line_catch_up(sch);
	line->owners_wait |= !!skb->destructor;
	if (line_records(line))
		line_describe(&described, skb);
	if (!(line->wanted.flags & LINE_UP)) {
		line->refused++;
		line_note(line, LINE_DROPPED, ktime_get_ns(), 0, &described);
		return qdisc_drop(skb, sch, to_free);
	}
	deciding = line;
	result = qdisc_enqueue(skb, line->queue, to_free);
	deciding = NULL;
	if (result != NET_XMIT_SUCCESS) {
		if (net_xmit_drop_count(result))
			qdisc_qstats_drop(sch);
		line_note(line, LINE_DROPPED, ktime_get_ns(), 0, &described);
		return result;
	}
	line->marked_before += marked;
	sch->q.qlen++;
	sch->qstats.backlog += size;
	line_note(line, LINE_QUEUED, ktime_get_ns(), 0, &described);
	return NET_XMIT_SUCCESS;
}

static void line_empty(struct Qdisc *sch)
{
	struct line *line = qdisc_priv(sch);

	line_catch_up(sch);
	line->refused += line->queue->q.qlen + !!line->sending;
	line->lost += skb_queue_len(&line->wire);
	qdisc_reset(line->queue);
	if (line->sending) {
		u64 now = ktime_get_ns();

		line->busy_ns -= line->sent_at > now ? line->sent_at - now : 0;
		line->sent--;
		line->sent_bytes -= qdisc_pkt_len(line->sending);
		kfree_skb(line->sending);
		line->sending = NULL;
	}
	__skb_queue_purge(&line->wire);
	line->last_due = 0;
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
	light_timer_stop(&line->timer);
}

static void line_report(struct line *line)
{
	struct line_event *event;

	if (line->wanted.capture >= 0)
		line_flush_capture(line);
	event = line_event(line, LINE_TOTALS, ktime_get_ns());
	event->started_ns = line->busy_ns;
	event->packet = line->lost;
	event->queue_packets = line->sent;
	event->queue_bytes = line->refused + line->queue->qstats.drops;
	event->size = line->marked_after > line->marked_before ? line->marked_after - line->marked_before : 0;
	event->from = lower_32_bits(line->sent_bytes);
	event->to = upper_32_bits(line->sent_bytes);
	line_event_done();
	line_flush_events();
}

/* Makes the line prompt until it is asked for packets again. */
static void line_be_prompt(struct Qdisc *sch)
{
	struct line *line = qdisc_priv(sch);

	if (!line->is_late)
		return;
	line_catch_up(sch);
	line_set_timer(line);
}

static int line_change(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct line *line = qdisc_priv(sch);
	struct line_parameters wanted;
	struct nlattr *found[LINE_PARAMETERS + 1];
	static const struct nla_policy policy[LINE_PARAMETERS + 1] = {
		[LINE_PARAMETERS] = { .type = NLA_BINARY, .len = sizeof(struct line_parameters) },
	};
	int error;

	if (!options)
		return -EINVAL;
	error = nla_parse_nested_deprecated(found, LINE_PARAMETERS, options, policy, extack);
	if (error)
		return error;
	if (!found[LINE_PARAMETERS] || nla_len(found[LINE_PARAMETERS]) != sizeof(wanted))
		return -EINVAL;
	memcpy(&wanted, nla_data(found[LINE_PARAMETERS]), sizeof(wanted));
	if (!wanted.rate)
		return -EINVAL;
	if ((wanted.flags & (LINE_RECORD | LINE_REPORT)) && wanted.events < 0)
		return -EINVAL;
	if (wanted.capture >= 0 && !line->captured) {
		line->captured = kmalloc(CAPTURE_BUFFER, GFP_KERNEL);
		if (!line->captured)
			return -ENOMEM;
	}
	sch_tree_lock(sch);
	line_be_prompt(sch);
	if (wanted.seed != line->wanted.seed)
		prandom_seed_state(&line->random, wanted.seed);
	if ((line->wanted.flags & LINE_UP) && !(wanted.flags & LINE_UP))
		line_empty(sch);
	line->wanted = wanted;
	if (wanted.events >= 0)
		events_to = wanted.events;
	if (wanted.flags & LINE_REPORT)
		line_report(line);
	sch_tree_unlock(sch);
	return 0;
}

static int line_init(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct line *line = qdisc_priv(sch);

	light_timer_init(&line->timer, line_ring);
	line->itself = sch;
	__skb_queue_head_init(&line->wire);
	line->wanted.events = line->wanted.capture = -1;
	line->queue = fifo_create_dflt(sch, &pfifo_qdisc_ops, 1000, extack);
	if (IS_ERR(line->queue)) {
		int error = PTR_ERR(line->queue);

		line->queue = &noop_qdisc;
		return error;
	}
	qdisc_hash_add(line->queue, true);
	return line_change(sch, options, extack);
}

static void line_reset(struct Qdisc *sch)
{
	line_empty(sch);
}

static void line_destroy(struct Qdisc *sch)
{
	struct line *line = qdisc_priv(sch);

	if (line->itself)
		light_timer_stop(&line->timer);
	qdisc_put(line->queue);
	kfree(line->captured);
}

static int line_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct line *line = qdisc_priv(sch);
	struct nlattr *nest;

	sch_tree_lock(sch);
	line_be_prompt(sch);
	sch_tree_unlock(sch);
	nest = nla_nest_start_noflag(skb, TCA_OPTIONS);

	if (!nest || nla_put(skb, LINE_PARAMETERS, sizeof(line->wanted), &line->wanted)) {
		nla_nest_cancel(skb, nest);
		return -1;
	}
	return nla_nest_end(skb, nest);
}

static int line_graft(struct Qdisc *sch, unsigned long place, struct Qdisc *new, struct Qdisc **old,
		      struct netlink_ext_ack *extack)
{
	struct line *line = qdisc_priv(sch);

	if (!new)
		new = &noop_qdisc;
	sch_tree_lock(sch);
	line_be_prompt(sch);
	sch_tree_unlock(sch);
	*old = qdisc_replace(sch, new, &line->queue);
	line->decides_at_arrival = new->ops == &pfifo_qdisc_ops || new->ops == &bfifo_qdisc_ops ||
				   !strcmp(new->ops->id, "step");
	return 0;
}

static struct Qdisc *line_leaf(struct Qdisc *sch, unsigned long place)
{
	struct line *line = qdisc_priv(sch);

	return line->queue;
}

static unsigned long line_find(struct Qdisc *sch, u32 class)
{
	return 1;
}

static void line_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	if (!walker->stop && walker->count >= walker->skip && walker->fn(sch, 1, walker) < 0)
		walker->stop = 1;
	walker->count++;
}

static int line_dump_class(struct Qdisc *sch, unsigned long place, struct sk_buff *skb, struct tcmsg *message)
{
	struct line *line = qdisc_priv(sch);

	message->tcm_handle |= TC_H_MIN(1);
	message->tcm_info = line->queue->handle;
	return 0;
}

static const struct Qdisc_class_ops line_class_operations = {
	.graft = line_graft,
	.leaf = line_leaf,
	.find = line_find,
	.walk = line_walk,
	.dump = line_dump_class,
};

static struct Qdisc_ops line_operations __read_mostly = {
	.id = "line",
	.cl_ops = &line_class_operations,
	.priv_size = sizeof(struct line),
	.enqueue = line_enqueue,
	.dequeue = line_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = line_init,
	.reset = line_reset,
	.destroy = line_destroy,
	.change = line_change,
	.dump = line_dump,
	.owner = THIS_MODULE,
};

static int __init line_module_init(void)
{
	BUILD_BUG_ON(sizeof(struct line_event) != 48 || sizeof(struct line_parameters) != 64);
	return register_qdisc(&line_operations);
}
device_initcall(line_module_init);
