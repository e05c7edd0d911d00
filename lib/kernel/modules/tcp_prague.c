// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP Prague (draft-briscoe-iccrg-prague-congestion-control), a sender of L4S (RFC 9331), by the rules of the
 * simulator's control (lib/core/congestion/prague.hpp). The window falls by half the share of marked segments, a moving
 * average, and by half for a loss. It grows for each segment that comes without a mark, also while it is being reduced.
 * It has fractions, which whole windows follow by a segment at each acknowledgement. It is paced.
 *
 * After rounds_before rounds outside slow start a round trip below virtual_round_trip_us counts like that one. The
 * window grows by the square of their ratio, and it is reduced and the average updated at most once a virtual round
 * trip.
 *
 * This kernel lacks AccECN. Instead, acknowledgements echo marks as DCTCP's do (RFC 8257, section 3.2), so both ends
 * need this control. The kernel's TCP sends ECT(0) only. A hook makes it ECT(1) in packets of these sockets, also in
 * acknowledgements.
 */
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <net/inet_ecn.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

static uint alpha_on_init = 1024; /* in 1024ths */
static uint virtual_round_trip_us = 25000, rounds_before = 500;
module_param(alpha_on_init, uint, 0644);
module_param(virtual_round_trip_us, uint, 0644);
module_param(rounds_before, uint, 0644);

#define WINDOW_BITS 24		/* of a window's fraction */
#define SEGMENT (1ULL << WINDOW_BITS)
#define ALPHA_BITS 20
#define SHARE_BITS 12		/* a share's square has twice as many, as a window has */
#define GAIN_LOG 4
#define LEAST_WINDOW 2

struct prague {
	u64 window, before_mark, before_loss; /* in fractions of a segment */
	u64 averaged_at, reduced_at, reduced_before; /* us */
	u32 alpha, delivered, marked; /* of the connection, as last heard */
	u32 round_delivered, round_marked, round_end, rounds;
	u32 rcv_nxt_before; /* receiver: as it was when the last segment had come */
	bool hears_marks, saw_mark, last_was_marked;
};

static u64 now_us(const struct sock *sk)
{
	return tcp_sk(sk)->tcp_mstamp;
}

static u32 whole_window(const struct prague *ca)
{
	return max_t(u64, (ca->window + SEGMENT - 1) >> WINDOW_BITS, LEAST_WINDOW);
}

static u32 round_trip_us(const struct sock *sk)
{
	return tcp_sk(sk)->srtt_us >> 3;
}

static bool ignores_round_trip(const struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return ca->hears_marks && virtual_round_trip_us && !tcp_in_slow_start(tcp_sk(sk)) &&
	       ca->rounds >= rounds_before;
}

static void pace(struct sock *sk, u64 window, bool doubled)
{
	u32 round_trip = round_trip_us(sk);
	u64 bytes;

	if (!round_trip)
		return;
	bytes = (window * tcp_sk(sk)->mss_cache) >> (WINDOW_BITS - doubled);
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, div_u64(bytes * USEC_PER_SEC, round_trip),
					     READ_ONCE(sk->sk_max_pacing_rate)));
}

static void prague_init(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	BUILD_BUG_ON(sizeof(struct prague) > ICSK_CA_PRIV_SIZE);
	memset(ca, 0, sizeof(*ca));
	ca->window = (u64)tcp_snd_cwnd(tp) << WINDOW_BITS;
	ca->alpha = min(alpha_on_init, 1024U) << (ALPHA_BITS - 10);
	ca->averaged_at = ca->reduced_at = now_us(sk);
	ca->delivered = tp->delivered;
	ca->marked = tp->delivered_ce;
	ca->round_end = tp->snd_una;
	ca->rcv_nxt_before = tp->rcv_nxt;
	ca->hears_marks = tp->ecn_flags & TCP_ECN_OK;
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	pace(sk, ca->window, true);
}

/* By how many segments the window grows in a round trip, in fractions of a segment. */
static u64 increase(const struct sock *sk)
{
	u32 round_trip = round_trip_us(sk);
	u64 share;

	if (!ignores_round_trip(sk) || round_trip >= virtual_round_trip_us)
		return SEGMENT;
	share = div_u64((u64)round_trip << SHARE_BITS, virtual_round_trip_us);
	return share * share;
}

/* The average is not updated before there is proof that some queue marks. */
static void take_round(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (before(tp->snd_una, ca->round_end))
		return;
	if (ignores_round_trip(sk) && now_us(sk) - ca->averaged_at < virtual_round_trip_us)
		return;
	if (ca->saw_mark && ca->round_delivered) {
		u32 marked = min(ca->round_marked, ca->round_delivered);
		s64 share = div_u64((u64)marked << ALPHA_BITS, ca->round_delivered);

		ca->alpha += (share - (s64)ca->alpha) >> GAIN_LOG;
	}
	ca->averaged_at = now_us(sk);
	ca->round_delivered = ca->round_marked = 0;
	ca->round_end = tp->snd_nxt;
	if (!tcp_in_slow_start(tp))
		ca->rounds++;
}

/* Called for every acknowledgement, in every state. */
static void prague_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *sample)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 segments = tp->delivered - ca->delivered, marked = tp->delivered_ce - ca->marked, window, goal, unmarked;

	ca->delivered = tp->delivered;
	ca->marked = tp->delivered_ce;
	if (!ca->hears_marks)
		marked = 0;
	ca->saw_mark |= marked > 0;
	ca->round_delivered += segments;
	ca->round_marked += marked;
	unmarked = segments > marked ? segments - marked : 0;
	if (unmarked && inet_csk(sk)->icsk_ca_state < TCP_CA_Recovery && tcp_is_cwnd_limited(sk)) {
		if (tcp_in_slow_start(tp)) {
			unmarked = tcp_slow_start(tp, unmarked);
			ca->window = (u64)tcp_snd_cwnd(tp) << WINDOW_BITS;
		}
		ca->window += div64_u64((u64)unmarked * increase(sk) << WINDOW_BITS, ca->window);
	}
	window = tcp_snd_cwnd(tp);
	goal = whole_window(ca);
	if (window > goal) {
		window = max(window - 1, goal);
		tp->snd_ssthresh = window;
	} else if (window < goal) {
		window++;
	}
	tcp_snd_cwnd_set(tp, min(window, tp->snd_cwnd_clamp));
	take_round(sk);
	pace(sk, max3(ca->window, (u64)LEAST_WINDOW << WINDOW_BITS, (u64)tcp_packets_in_flight(tp) << WINDOW_BITS),
	     window < tp->snd_ssthresh / 2);
}

/* Called for a mark, and before set_state for a loss. */
static u32 prague_ssthresh(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	ca->before_mark = ca->window;
	ca->reduced_before = ca->reduced_at;
	if (!ignores_round_trip(sk) || now_us(sk) - ca->reduced_at >= virtual_round_trip_us) {
		ca->reduced_at = now_us(sk);
		ca->window = max_t(u64, ca->window - ((ca->window * ca->alpha) >> (ALPHA_BITS + 1)), SEGMENT);
	}
	return min(tcp_sk(sk)->snd_ssthresh, whole_window(ca));
}

static void prague_set_state(struct sock *sk, u8 state)
{
	struct prague *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u8 from = inet_csk(sk)->icsk_ca_state;

	if (state < TCP_CA_Recovery || from >= TCP_CA_Recovery)
		return;
	if (from < TCP_CA_CWR) { /* takes back what prague_ssthresh has just done, as for a mark */
		ca->window = ca->before_mark;
		ca->reduced_at = ca->reduced_before;
	}
	ca->before_loss = ca->window;
	ca->window = max_t(u64, ca->window / 2, SEGMENT);
	tp->snd_ssthresh = min(tp->snd_ssthresh, whole_window(ca));
}

static u32 prague_undo_cwnd(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	ca->window = max(ca->window, ca->before_loss);
	return max(tcp_snd_cwnd(tcp_sk(sk)), whole_window(ca));
}

static void echo(struct sock *sk, bool mark)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (mark)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/* For the receiver: each acknowledgement is of segments that all had a mark, or all had none. */
static void prague_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct prague *ca = inet_csk_ca(sk);
	bool marked = event == CA_EVENT_ECN_IS_CE;

	if (!marked && event != CA_EVENT_ECN_NO_CE)
		return;
	if (marked != ca->last_was_marked) {
		if (icsk->icsk_ack.pending & ICSK_ACK_TIMER) { /* for those before */
			echo(sk, ca->last_was_marked);
			__tcp_send_ack(sk, ca->rcv_nxt_before, 0);
		}
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	ca->rcv_nxt_before = tcp_sk(sk)->rcv_nxt;
	ca->last_was_marked = marked;
	echo(sk, marked);
}

static struct tcp_congestion_ops prague = {
	.flags = TCP_CONG_NEEDS_ECN,
	.init = prague_init,
	.cong_control = prague_cong_control,
	.ssthresh = prague_ssthresh,
	.set_state = prague_set_state,
	.undo_cwnd = prague_undo_cwnd,
	.cwnd_event = prague_cwnd_event,
	.name = "prague",
	.owner = THIS_MODULE,
};

static unsigned int make_ect_1(void *unused, struct sk_buff *skb, const struct nf_hook_state *state)
{
	const struct sock *sk = skb->sk;

	if (sk && sk_fullsock(sk) && sk->sk_protocol == IPPROTO_TCP && inet_csk(sk)->icsk_ca_ops == &prague)
		INET_ECN_set_ect1(skb);
	return NF_ACCEPT;
}

static const struct nf_hook_ops hooks[] = {
	{ .hook = make_ect_1, .pf = NFPROTO_IPV4, .hooknum = NF_INET_LOCAL_OUT, .priority = NF_IP_PRI_LAST },
	{ .hook = make_ect_1, .pf = NFPROTO_IPV6, .hooknum = NF_INET_LOCAL_OUT, .priority = NF_IP6_PRI_LAST },
};

static int __net_init hook_namespace(struct net *net)
{
	return nf_register_net_hooks(net, hooks, ARRAY_SIZE(hooks));
}

static void __net_exit unhook_namespace(struct net *net)
{
	nf_unregister_net_hooks(net, hooks, ARRAY_SIZE(hooks));
}

static struct pernet_operations of_namespaces = { .init = hook_namespace, .exit = unhook_namespace };

static int __init prague_register(void)
{
	int failed = register_pernet_subsys(&of_namespaces);

	if (failed)
		return failed;
	failed = tcp_register_congestion_control(&prague);
	if (failed)
		unregister_pernet_subsys(&of_namespaces);
	return failed;
}
module_init(prague_register);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("TCP Prague with DCTCP's feedback");
