/* Reno in a module: the window halves after a loss and grows by a segment a round. */
#include <linux/module.h>
#include <net/tcp.h>

static u32 my_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)) / 2, 2U);
}

static struct tcp_congestion_ops my_half = {
	.name = "my_half", .owner = THIS_MODULE,
	.ssthresh = my_ssthresh, .cong_avoid = tcp_reno_cong_avoid, .undo_cwnd = tcp_reno_undo_cwnd,
};

static int __init my_init(void)
{
	return tcp_register_congestion_control(&my_half);
}
module_init(my_init);
MODULE_LICENSE("GPL");
