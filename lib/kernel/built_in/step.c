// SPDX-License-Identifier: GPL-2.0-only
/*
 * A queue discipline "step": first in, first out, in a buffer of packets or in a memory that ports of a switch share.
 * The queue's length decides about marks (ECN), not its average.
 *
 * limit: packets; 0 for a shared memory. threshold: an ECN-capable arrival that finds so many packets or more waiting
 * is marked (Alizadeh et al., SIGCOMM 2010); 0 for never. phantom: a queue in which nothing waits; it takes in what
 * leaves and drains at phantom_rate. An ECN-capable packet that leaves it with more than phantom_bytes is marked (HULL,
 * Alizadeh et al., NSDI 2012). Shared: all ports that name the same memory have its bytes in common. A port takes a
 * packet that fits as long as less waits there than alpha times what is free (Choudhury and Hahne, ToN 1998).
 */
#include <linux/init.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>

#include "step.h"

enum { STEP_PARAMETERS = 1 };

struct step_parameters {
	u64 phantom_rate; /* bytes per second, 0 for none */
	u64 memory_bytes; /* of the shared memory, 0 for none */
	u32 limit, threshold, phantom_bytes, memory;
	u32 alpha; /* in 65536ths */
	u32 unused;
};

#define MEMORIES 1024

static u64 memory_used[MEMORIES];

struct step {
	struct step_parameters wanted;
	u64 phantom, phantom_at; /* bytes times NSEC_PER_SEC, when */
};

static u64 *step_memory(struct step *step)
{
	return step->wanted.memory_bytes ? &memory_used[step->wanted.memory % MEMORIES] : NULL;
}

static bool step_fits(struct Qdisc *sch, unsigned int size)
{
	struct step *step = qdisc_priv(sch);
	u64 *used = step_memory(step), left;

	if (!used)
		return sch->q.qlen < step->wanted.limit;
	left = step->wanted.memory_bytes > *used ? step->wanted.memory_bytes - *used : 0;
	return size <= left && sch->qstats.backlog < (left * step->wanted.alpha) >> 16;
}

static int step_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct step *step = qdisc_priv(sch);
	u64 *used = step_memory(step);

	if (!step_fits(sch, qdisc_pkt_len(skb)))
		return qdisc_drop(skb, sch, to_free);
	if (step->wanted.threshold && sch->q.qlen >= step->wanted.threshold)
		INET_ECN_set_ce(skb);
	if (used)
		*used += qdisc_pkt_len(skb);
	return qdisc_enqueue_tail(skb, sch);
}

static void step_phantom(struct step *step, struct sk_buff *skb)
{
	u64 now = ktime_get_ns(), drained;

	if (!step->wanted.phantom_rate)
		return;
	drained = min_t(u64, now - step->phantom_at, NSEC_PER_SEC) * step->wanted.phantom_rate;
	step->phantom -= min(step->phantom, drained);
	step->phantom_at = now;
	step->phantom += (u64)qdisc_pkt_len(skb) * NSEC_PER_SEC;
	if (step->phantom > (u64)step->wanted.phantom_bytes * NSEC_PER_SEC)
		INET_ECN_set_ce(skb);
}

static struct sk_buff *step_dequeue(struct Qdisc *sch)
{
	struct step *step = qdisc_priv(sch);
	struct sk_buff *skb = qdisc_dequeue_head(sch);
	u64 *used = step_memory(step);

	if (!skb)
		return NULL;
	if (used)
		*used -= qdisc_pkt_len(skb);
	step_phantom(step, skb);
	return skb;
}

static void step_reset(struct Qdisc *sch)
{
	u64 *used = step_memory(qdisc_priv(sch));

	if (used)
		*used -= sch->qstats.backlog;
	qdisc_reset_queue(sch);
	sch->qstats.backlog = 0;
}

static int step_change(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	struct step *step = qdisc_priv(sch);
	struct nlattr *found[STEP_PARAMETERS + 1];
	static const struct nla_policy policy[STEP_PARAMETERS + 1] = {
		[STEP_PARAMETERS] = { .type = NLA_BINARY, .len = sizeof(struct step_parameters) },
	};
	int error;

	if (!options)
		return -EINVAL;
	error = nla_parse_nested_deprecated(found, STEP_PARAMETERS, options, policy, extack);
	if (error)
		return error;
	if (!found[STEP_PARAMETERS] || nla_len(found[STEP_PARAMETERS]) != sizeof(step->wanted))
		return -EINVAL;
	sch_tree_lock(sch);
	if (sch->q.qlen) {
		u64 *used = step_memory(step);

		if (used)
			*used -= sch->qstats.backlog;
	}
	memcpy(&step->wanted, nla_data(found[STEP_PARAMETERS]), sizeof(step->wanted));
	if (step_memory(step))
		*step_memory(step) += sch->qstats.backlog;
	sch_tree_unlock(sch);
	return 0;
}

static int step_init(struct Qdisc *sch, struct nlattr *options, struct netlink_ext_ack *extack)
{
	return step_change(sch, options, extack);
}

static int step_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct step *step = qdisc_priv(sch);
	struct nlattr *nest = nla_nest_start_noflag(skb, TCA_OPTIONS);

	if (!nest || nla_put(skb, STEP_PARAMETERS, sizeof(step->wanted), &step->wanted)) {
		nla_nest_cancel(skb, nest);
		return -1;
	}
	return nla_nest_end(skb, nest);
}

static struct Qdisc_ops step_operations;

bool step_decides_alone(struct Qdisc *sch)
{
	struct step *step = qdisc_priv(sch);

	return sch->ops == &step_operations && !step->wanted.phantom_rate && !step_memory(step);
}

static struct Qdisc_ops step_operations __read_mostly = {
	.id = "step",
	.priv_size = sizeof(struct step),
	.enqueue = step_enqueue,
	.dequeue = step_dequeue,
	.peek = qdisc_peek_head,
	.init = step_init,
	.reset = step_reset,
	.change = step_change,
	.dump = step_dump,
	.owner = THIS_MODULE,
};

static int __init step_module_init(void)
{
	BUILD_BUG_ON(sizeof(struct step_parameters) != 40);
	return register_qdisc(&step_operations);
}
device_initcall(step_module_init);
