// SPDX-License-Identifier: GPL-2.0-only
/*
 * A queue discipline "dualpi2": the dual queue of L4S (RFC 9332, appendix A), which Linux has only since 6.17.
 *
 * Packets of L4S flows (ECT(1), or marked before) wait in a queue of their own. At each update a probability p follows
 * the longer of both delays: it changes by alpha times how far the delay is from the target, and by beta times its
 * change. Classic packets are dropped, or marked where they can be, with probability p^2. L4S packets are marked with
 * `coupling` times p, and whenever they have waited longer than a step and had found two or more in their queue. The
 * L4S queue goes first, but while both hold packets the classic one has its share of the bytes. With coupling times p
 * above 1, L4S packets are dropped, too, and nothing is marked in place of a drop. While less than two full packets
 * wait, nothing is drawn.
 *
 * Linux's own discipline updates p by a timer. This one works off the updates when it is next called, since nothing
 * joins or leaves in between. They happen at multiples of their interval on the kernel's clock.
 */
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/skbuff.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>

enum { DUALPI2_PARAMETERS = 1 };

struct dualpi2_parameters {
	u64 target_ns, update_ns, step_ns;
	u64 alpha, beta; /* of p = 2^32, for 2^16 ns */
	u32 limit; /* packets of both queues */
	u32 coupling; /* in 65536ths */
	u32 classic_share; /* in millionths */
	u32 unused;
};

#define ONE (1LL << 32) /* a probability of 1 */
#define MILLION 1000000LL
#define FULL_PACKET 1514
#define LEAST_BEFORE_STEP 2

struct dualpi2 {
	struct dualpi2_parameters wanted;
	struct sk_buff_head l4s, classic;
	s64 p, credit; /* credit: of the classic queue, in millionths of a byte; above 0 it is that queue's turn */
	s64 delay_before;
	u64 next_update;
};

struct dualpi2_packet {
	u64 arrived;
	bool steps; /* it may be marked by the step */
};

enum verdict { ACCEPT, MARK, DROP };

u64 line_drew(u64 drawn); /* built_in/line.c */

static struct dualpi2_packet *packet_of(struct sk_buff *skb)
{
	return (struct dualpi2_packet *)qdisc_skb_cb(skb)->data;
}

static u8 ecn_of(struct sk_buff *skb)
{
	switch (skb_protocol(skb, true)) {
	case htons(ETH_P_IP):
		return pskb_network_may_pull(skb, sizeof(struct iphdr)) ? ip_hdr(skb)->tos & INET_ECN_MASK : 0;
	case htons(ETH_P_IPV6):
		return pskb_network_may_pull(skb, sizeof(struct ipv6hdr)) ?
			       ipv6_get_dsfield(ipv6_hdr(skb)) & INET_ECN_MASK : 0;
	}
	return 0;
}

static s64 first_credit(const struct dualpi2 *dual)
{
	return FULL_PACKET * (2 * (s64)dual->wanted.classic_share - MILLION);
}

static u64 next_multiple(u64 now, u64 interval)
{
	return (div64_u64(now, interval) + 1) * interval;
}

static s64 delay_of(struct sk_buff_head *queue, u64 at)
{
	struct sk_buff *skb = skb_peek(queue);

	return skb ? at - packet_of(skb)->arrived : 0;
}

static void work_off_updates(struct Qdisc *sch, u64 now)
{
	struct dualpi2 *dual = qdisc_priv(sch);
	const struct dualpi2_parameters *wanted = &dual->wanted;

	for (; dual->next_update <= now; dual->next_update += wanted->update_ns) {
		s64 delay = max(delay_of(&dual->l4s, dual->next_update), delay_of(&dual->classic, dual->next_update));
		s64 change = (delay - (s64)wanted->target_ns) * (s64)wanted->alpha +
			     (delay - dual->delay_before) * (s64)wanted->beta;

		dual->p = clamp(dual->p + (change >> 16), 0LL, ONE);
		dual->delay_before = delay;
		if (!dual->p && !sch->q.qlen) { /* further updates change nothing */
			dual->next_update = next_multiple(now, wanted->update_ns);
			return;
		}
	}
}

static bool falls(u64 probability)
{
	return (u32)line_drew(get_random_u32()) < probability;
}

static bool falls_twice(const struct dualpi2 *dual)
{
	return falls(dual->p) && falls(dual->p);
}

static enum verdict judge(struct Qdisc *sch, bool is_l4s)
{
	struct dualpi2 *dual = qdisc_priv(sch);
	u64 coupled = ((u64)dual->p * dual->wanted.coupling) >> 16;

	if (sch->qstats.backlog < 2 * FULL_PACKET)
		return ACCEPT;
	if (!is_l4s)
		return !falls_twice(dual) ? ACCEPT : coupled > ONE ? DROP : MARK;
	if (coupled > ONE)
		return falls_twice(dual) ? DROP : MARK;
	return falls(coupled) ? MARK : ACCEPT;
}

static int dualpi2_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct dualpi2 *dual = qdisc_priv(sch);
	struct dualpi2_packet *packet = packet_of(skb);
	u64 now = ktime_get_ns();

	work_off_updates(sch, now);
	if (sch->q.qlen >= dual->wanted.limit)
		return qdisc_drop(skb, sch, to_free);
	packet->arrived = now;
	packet->steps = false;
	if (ecn_of(skb) & INET_ECN_ECT_1) { /* or both bits: a mark */
		packet->steps = skb_queue_len(&dual->l4s) >= LEAST_BEFORE_STEP;
		__skb_queue_tail(&dual->l4s, skb);
	} else {
		__skb_queue_tail(&dual->classic, skb);
	}
	sch->q.qlen++;
	qdisc_qstats_backlog_inc(sch, skb);
	return NET_XMIT_SUCCESS;
}

static struct sk_buff *dualpi2_dequeue(struct Qdisc *sch)
{
	struct dualpi2 *dual = qdisc_priv(sch);
	unsigned int dropped = 0, dropped_bytes = 0;
	u64 now = ktime_get_ns();
	struct sk_buff *skb = NULL;

	work_off_updates(sch, now);
	while (sch->q.qlen) {
		bool both = !skb_queue_empty(&dual->l4s) && !skb_queue_empty(&dual->classic);
		bool is_l4s = both ? dual->credit <= 0 : !skb_queue_empty(&dual->l4s);
		enum verdict verdict;

		skb = __skb_dequeue(is_l4s ? &dual->l4s : &dual->classic);
		sch->q.qlen--;
		qdisc_qstats_backlog_dec(sch, skb);
		verdict = judge(sch, is_l4s);
		if (packet_of(skb)->steps && verdict == ACCEPT && now - packet_of(skb)->arrived > dual->wanted.step_ns)
			verdict = MARK;
		if (verdict == MARK && !INET_ECN_set_ce(skb))
			verdict = DROP;
		if (verdict != DROP) {
			s64 share = dual->wanted.classic_share;

			if (both)
				dual->credit += qdisc_pkt_len(skb) * (is_l4s ? share : share - MILLION);
			break;
		}
		dropped++;
		dropped_bytes += qdisc_pkt_len(skb);
		qdisc_qstats_drop(sch);
		kfree_skb(skb);
		skb = NULL;
	}
	if (skb)
		qdisc_bstats_update(sch, skb);
	else
		dual->credit = first_credit(dual);
	if (dropped)
		qdisc_tree_reduce_backlog(sch, dropped, dropped_bytes);
	return skb;
}

static void dualpi2_reset(struct Qdisc *sch)
{
	struct dualpi2 *dual = qdisc_priv(sch);

	__skb_queue_purge(&dual->l4s);
	__skb_queue_purge(&dual->classic);
	dual->credit = first_credit(dual);
	dual->p = dual->delay_before = 0;
}

static int dualpi2_change(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct dualpi2 *dual = qdisc_priv(sch);
	struct dualpi2_parameters wanted;
	struct nlattr *found[DUALPI2_PARAMETERS + 1];
	static const struct nla_policy policy[DUALPI2_PARAMETERS + 1] = {
		[DUALPI2_PARAMETERS] = { .type = NLA_BINARY, .len = sizeof(struct dualpi2_parameters) },
	};
	int error;

	if (!options)
		return -EINVAL;
	error = nla_parse_nested_deprecated(found, DUALPI2_PARAMETERS, options, policy, extack);
	if (error)
		return error;
	if (!found[DUALPI2_PARAMETERS] || nla_len(found[DUALPI2_PARAMETERS]) != sizeof(wanted))
		return -EINVAL;
	memcpy(&wanted, nla_data(found[DUALPI2_PARAMETERS]), sizeof(wanted));
	if (!wanted.update_ns)
		return -EINVAL;
	sch_tree_lock(sch);
	work_off_updates(sch, ktime_get_ns());
	dual->wanted = wanted;
	dual->next_update = next_multiple(ktime_get_ns(), wanted.update_ns);
	sch_tree_unlock(sch);
	return 0;
}

static int dualpi2_init(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct dualpi2 *dual = qdisc_priv(sch);
	int error;

	__skb_queue_head_init(&dual->l4s);
	__skb_queue_head_init(&dual->classic);
	dual->wanted.update_ns = NSEC_PER_SEC;
	dual->next_update = U64_MAX;
	error = dualpi2_change(sch, options, extack);
	dual->credit = first_credit(dual);
	return error;
}

static int dualpi2_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct dualpi2 *dual = qdisc_priv(sch);
	struct nlattr *nest = nla_nest_start_noflag(skb, TCA_OPTIONS);

	if (!nest || nla_put(skb, DUALPI2_PARAMETERS, sizeof(dual->wanted), &dual->wanted)) {
		nla_nest_cancel(skb, nest);
		return -1;
	}
	return nla_nest_end(skb, nest);
}

static struct Qdisc_ops dualpi2_operations __read_mostly = {
	.id = "dualpi2",
	.priv_size = sizeof(struct dualpi2),
	.enqueue = dualpi2_enqueue,
	.dequeue = dualpi2_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = dualpi2_init,
	.reset = dualpi2_reset,
	.change = dualpi2_change,
	.dump = dualpi2_dump,
	.owner = THIS_MODULE,
};

static int __init dualpi2_module_init(void)
{
	BUILD_BUG_ON(sizeof(struct dualpi2_parameters) != 56);
	return register_qdisc(&dualpi2_operations);
}
module_init(dualpi2_module_init);

static void __exit dualpi2_module_exit(void)
{
	unregister_qdisc(&dualpi2_operations);
}
module_exit(dualpi2_module_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("DualPI2, the dual queue of L4S");
