// SPDX-License-Identifier: GPL-2.0-only
/*
 * LIA (RFC 6356): Reno whose growth is coupled with that of the other subflows of a connection, so that together they
 * take no more of a bottleneck than one TCP would. Slow start and halving are Reno's.
 *
 * MPTCP does not tell a control whose subflow it serves. Sockets of one host with the same mark (SO_MARK, which MPTCP
 * hands on to its subflows) count as those of one connection; a socket without a mark is alone.
 */
#include <linux/module.h>
#include <linux/math64.h>
#include <net/tcp.h>

#define RATE_SHIFT 24		/* of segments a us */
#define SEGMENT (1U << 16)	/* the window's growth is counted in parts of a segment */

struct lia {
	struct list_head node;
	struct sock *sk;
	u32 grown;
};

static LIST_HEAD(subflows);
static DEFINE_SPINLOCK(subflows_lock);

static void lia_init(struct sock *sk)
{
	struct lia *ca = inet_csk_ca(sk);

	BUILD_BUG_ON(sizeof(struct lia) > ICSK_CA_PRIV_SIZE);
	ca->sk = sk;
	ca->grown = 0;
	spin_lock_bh(&subflows_lock);
	list_add_tail(&ca->node, &subflows);
	spin_unlock_bh(&subflows_lock);
}

static void lia_release(struct sock *sk)
{
	struct lia *ca = inet_csk_ca(sk);

	if (ca->sk != sk)	/* it was never connected */
		return;
	ca->sk = NULL;
	spin_lock_bh(&subflows_lock);
	list_del(&ca->node);
	spin_unlock_bh(&subflows_lock);
}

static bool of_one_connection(const struct sock *one, const struct sock *other)
{
	u32 mark = READ_ONCE(one->sk_mark);

	return one == other ||
	       (mark && mark == READ_ONCE(other->sk_mark) && net_eq(sock_net(one), sock_net(other)));
}

/*
 * By how much an acknowledged segment opens the window: the greatest window over squared round trip, divided by the
 * square of the sum of windows over round trips. It is at most Reno's growth. (Section 3, alpha over the total window.)
 */
static u32 growth(struct sock *sk)
{
	u32 most = SEGMENT / tcp_snd_cwnd(tcp_sk(sk));
	u64 best = 0, rate = 0;
	struct lia *each;

	spin_lock_bh(&subflows_lock);
	list_for_each_entry(each, &subflows, node) {
		const struct tcp_sock *tp = tcp_sk(each->sk);
		u64 round_trip = tp->srtt_us >> 3, window = min(tcp_snd_cwnd(tp), 32767U);

		if (!round_trip || !of_one_connection(sk, each->sk))
			continue;
		best = max(best, div64_u64(window << 2 * RATE_SHIFT, round_trip * round_trip));
		rate += div64_u64(window << RATE_SHIFT, round_trip);
	}
	spin_unlock_bh(&subflows_lock);
	if (!rate)
		return most;
	return min_t(u64, most, div64_u64(best * SEGMENT, rate * rate));
}

static void lia_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct lia *ca = inet_csk_ca(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (!acked)
		return;
	ca->grown += acked * growth(sk);
	tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp) + ca->grown / SEGMENT, tp->snd_cwnd_clamp));
	ca->grown %= SEGMENT;
}

static struct tcp_congestion_ops lia = {
	.name = "lia",
	.owner = THIS_MODULE,
	.init = lia_init,
	.release = lia_release,
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = lia_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
};

static int __init lia_register(void)
{
	return tcp_register_congestion_control(&lia);
}
module_init(lia_register);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Coupled congestion control of RFC 6356");
