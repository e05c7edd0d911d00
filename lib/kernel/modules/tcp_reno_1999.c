// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reno as in senders of 1999 and their simulators, to run papers of that time again:
 *
 * ack_counting    the window grows by acknowledgements, whatever they acknowledge
 * paced_reno      segments leave at window over smoothed round trip, times net.ipv4.tcp_pacing_ss_ratio or _ca_ratio,
 *                 from the first one on
 * paced_counting  both
 *
 * Losses are found and repaired as in this kernel.
 */
#include <linux/module.h>
#include <net/tcp.h>

#define UNPACED_SEGMENTS 10	/* which a connection has to have sent before the kernel paces it */

static void pace_from_the_first_on(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->data_segs_out = max_t(u32, tp->data_segs_out, UNPACED_SEGMENTS);
	WRITE_ONCE(sk->sk_pacing_status, SK_PACING_NEEDED);
}

/* Called before anything is sent. It replaces the kernel's own rate, which is set after each acknowledgement. */
static u32 rate_of_window(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct netns_ipv4 *ours = &sock_net(sk)->ipv4;
	bool early = tcp_snd_cwnd(tp) < tp->snd_ssthresh / 2;
	u64 rate = (u64)tcp_snd_cwnd(tp) * tp->mss_cache * (USEC_PER_SEC / 100 << 3);

	rate *= early ? READ_ONCE(ours->sysctl_tcp_pacing_ss_ratio) : READ_ONCE(ours->sysctl_tcp_pacing_ca_ratio);
	if (tp->srtt_us)	/* eight times the smoothed round trip */
		WRITE_ONCE(sk->sk_pacing_rate, div_u64(rate, tp->srtt_us));
	return 1;
}

static void count_acknowledgements(struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, 1);
}

static struct tcp_congestion_ops controls[] = {
	{
		.name = "ack_counting",
		.owner = THIS_MODULE,
		.ssthresh = tcp_reno_ssthresh,
		.cong_avoid = count_acknowledgements,
		.undo_cwnd = tcp_reno_undo_cwnd,
	},
	{
		.name = "paced_reno",
		.owner = THIS_MODULE,
		.init = pace_from_the_first_on,
		.min_tso_segs = rate_of_window,
		.ssthresh = tcp_reno_ssthresh,
		.cong_avoid = tcp_reno_cong_avoid,
		.undo_cwnd = tcp_reno_undo_cwnd,
	},
	{
		.name = "paced_counting",
		.owner = THIS_MODULE,
		.init = pace_from_the_first_on,
		.min_tso_segs = rate_of_window,
		.ssthresh = tcp_reno_ssthresh,
		.cong_avoid = count_acknowledgements,
		.undo_cwnd = tcp_reno_undo_cwnd,
	},
};

static int __init register_all(void)
{
	int each, failed;

	for (each = 0; each < ARRAY_SIZE(controls); each++) {
		failed = tcp_register_congestion_control(&controls[each]);
		if (failed)
			return failed;
	}
	return 0;
}
module_init(register_all);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Reno of 1999");
