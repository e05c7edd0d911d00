// SPDX-License-Identifier: GPL-2.0-only
/*
 * piece_counting: Reno whose window grows with every acknowledgement of new data, even of a part of a segment.
 *
 * This kernel's own controls, and ack_counting, hear only of acknowledgements that cover a whole segment. Losses are
 * found and repaired as in this kernel.
 */
#include <linux/module.h>
#include <net/tcp.h>

struct seen {
	u32 acknowledged;
};

static void begin(struct sock *sk)
{
	struct seen *seen = inet_csk_ca(sk);

	seen->acknowledged = tcp_sk(sk)->snd_una;
}

static void count_piece(struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct seen *seen = inet_csk_ca(sk);

	if (sk->sk_state != TCP_ESTABLISHED || !after(tp->snd_una, seen->acknowledged))
		return;
	seen->acknowledged = tp->snd_una;
	if (inet_csk(sk)->icsk_ca_state <= TCP_CA_Disorder)
		tcp_reno_cong_avoid(sk, tp->snd_una, 1);
}

static void is_counted_already(struct sock *sk, u32 ack, u32 acked)
{
}

static struct tcp_congestion_ops control = {
	.name = "piece_counting",
	.owner = THIS_MODULE,
	.init = begin,
	.in_ack_event = count_piece,
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = is_counted_already,
	.undo_cwnd = tcp_reno_undo_cwnd,
};

static int __init register_control(void)
{
	return tcp_register_congestion_control(&control);
}
module_init(register_control);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Reno that counts acknowledgements of pieces");
