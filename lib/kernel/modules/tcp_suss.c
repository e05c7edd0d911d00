// SPDX-License-Identifier: GPL-2.0-only
/*
 * SUSS (Arghavani et al., SIGCOMM 2024): CUBIC (RFC 9438) with HyStart. Its slow start multiplies the window by four
 * instead of two in its first rounds, as long as the acknowledgements of a round come soon and without delay.
 *
 * A round's blue part is clocked by acknowledgements. Its red part, which is what is sent beyond a doubling, waits for
 * a guard interval and is then paced over most of the round trip. Acknowledgements of red segments open no window.
 *
 * With fourfold_rounds=0 it is CUBIC alone. rounds_from_start says how rounds of HyStart begin: before 2025 Linux began
 * them only once the window had 16 segments, so that all of them began in the middle (rounds_from_start=0). CUBIC
 * alone, too, are
 *
 * cubic_counting  whose window grows by acknowledgements, whatever they acknowledge
 * cubic_paced     which paces, where it is asked to, from the first segment on
 * cubic_both      which does both
 */
#include <linux/module.h>
#include <net/tcp.h>

static int fourfold_rounds = 3;
static bool guards = true, paces = true, hystart = true, rounds_from_start;
module_param(fourfold_rounds, int, 0644);
module_param(guards, bool, 0644);
module_param(paces, bool, 0644);
module_param(hystart, bool, 0644);
module_param(rounds_from_start, bool, 0644);

#define KEPT 717		/* of the window after a loss, in 1024ths */
#define RENO_ACKS 15		/* a Reno of the same loss rate grows by a segment in 15/8 windows */
#define TRAIN_US 2000		/* acknowledgements that follow each other this closely are of one train */
#define LOW_WINDOW 16		/* below it HyStart does not look */
#define SAMPLES 8
#define LEAST_ROUND_TRIP_US 10000
#define UNPACED_SEGMENTS 10	/* which a connection has to have sent before the kernel paces it */
#define AT_ONCE (1UL << 34)	/* bytes a second: hardly paced, but the control is still asked after each segment */

/* guarding: the blue part is being sent; pacing: the red part is; off: what is left is CUBIC. */
enum mode { CLOCKED, GUARDING, PACING, OFF };
enum colour { BLUE, LAST_BLUE, RED };

struct suss {
	u64 red_from;		/* ns; when the red part may begin */
	u32 red_rate;		/* bytes a second, 0 for as fast as it goes */
	/* CUBIC; times in ms */
	u32 last_maximum, plateau, rises_for, epoch, reno_window, reno_acked;
	/* HyStart; times in us */
	u32 smallest, round_end, round_start, train_last, round_smallest;
	/* SUSS: head and tail are the end of what was sent before the round, and of its blue part */
	u32 head, tail, blue_start, blue_acked, train_before, limit, cap;
	u8 samples, mode, colour, round, smallest_in, paced_rounds, initial_window;
	bool quadruples, counts_acks, found;	/* found: HyStart has ended slow start, and is not asked again */
};

static u32 now_us(const struct sock *sk)
{
	return tcp_sk(sk)->tcp_mstamp;
}

static u32 now_ms(const struct sock *sk)
{
	return max_t(u32, div_u64(tcp_sk(sk)->tcp_mstamp, USEC_PER_MSEC), 1);
}

static void begin_hystart_round(struct sock *sk)
{
	struct suss *ca = inet_csk_ca(sk);

	ca->round_start = ca->train_last = now_us(sk);
	ca->round_end = tcp_sk(sk)->snd_nxt;
	ca->round_smallest = ~0U;
	ca->samples = 0;
}

static void suss_init(struct sock *sk)
{
	struct suss *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	BUILD_BUG_ON(sizeof(struct suss) > ICSK_CA_PRIV_SIZE);
	memset(ca, 0, sizeof(*ca));
	ca->smallest = ~0U;
	begin_hystart_round(sk);
	ca->initial_window = min(tcp_snd_cwnd(tp), 255U);
	ca->head = tp->snd_una;
	ca->tail = tp->snd_una + ca->initial_window * tp->mss_cache;
	ca->colour = RED;
	ca->round = ca->smallest_in = 1;
	ca->quadruples = true;
	if (fourfold_rounds == 0 || sk->sk_pacing_status != SK_PACING_NONE)
		ca->mode = OFF;
}

static void cubic_init(struct sock *sk, bool counts_acks, bool paces_all)
{
	struct suss *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	suss_init(sk);
	ca->mode = OFF;
	ca->counts_acks = counts_acks;
	if (paces_all)
		tp->data_segs_out = max_t(u32, tp->data_segs_out, UNPACED_SEGMENTS);
}

static void counting_init(struct sock *sk)
{
	cubic_init(sk, true, false);
}

static void paced_init(struct sock *sk)
{
	cubic_init(sk, false, true);
}

static void both_init(struct sock *sk)
{
	cubic_init(sk, true, true);
}

/* The red part is over: acknowledgements clock again. */
static void back_to(struct sock *sk, enum mode mode)
{
	struct suss *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (ca->mode == GUARDING || ca->mode == PACING) {
		WRITE_ONCE(sk->sk_pacing_status, SK_PACING_NONE);
		tp->tcp_wstamp_ns = min(tp->tcp_wstamp_ns, tp->tcp_clock_cache);
	}
	ca->mode = mode;
}

/* Slow start ends here. What was let into the network faster than it delivers is not repeated. */
static void end_slow_start(struct sock *sk)
{
	struct suss *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	back_to(sk, OFF);
	if (ca->paced_rounds > 1)
		tcp_snd_cwnd_set(tp, max(2U, min(tcp_snd_cwnd(tp), tcp_packets_in_flight(tp))));
	tp->snd_ssthresh = tcp_snd_cwnd(tp);
	ca->found = true;
}

/* Whether the train that this acknowledgement is part of is too long: longer than half of the least round trip. */
static bool train_is_long(struct sock *sk, int doubled)
{
	struct suss *ca = inet_csk_ca(sk);
	u64 rate = READ_ONCE(sk->sk_pacing_rate);
	u32 most = ca->smallest, now = now_us(sk);

	if (now - ca->train_last > TRAIN_US)
		return false;
	ca->train_last = now;
	if (rate)	/* the kernel's allowance for packets that are handed on together */
		most += min_t(u64, USEC_PER_MSEC, div64_u64((u64)sk->sk_gso_max_size * 4 * USEC_PER_SEC, rate));
	if (ca->mode != OFF || sk->sk_pacing_status == SK_PACING_NONE)
		most /= 2;
	return ((u64)(now - ca->round_start) << doubled) > most;
}

static bool round_trips_grew(struct suss *ca, u32 round_trip)
{
	ca->round_smallest = min(ca->round_smallest, round_trip);
	if (ca->samples < SAMPLES) {
		ca->samples++;
		return false;
	}
	return ca->round_smallest > ca->smallest + clamp(ca->smallest / 8, 4000U, 16000U);
}

/* Called for every acknowledgement, before the window grows. */
static void suss_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct suss *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	bool large = tcp_snd_cwnd(tp) >= LOW_WINDOW, train, grew;
	u32 round_trip = max(sample->rtt_us, 1);

	if (sample->rtt_us < 0 || (ca->epoch && now_ms(sk) - ca->epoch < MSEC_PER_SEC))
		return;		/* nothing measured, or soon after a loss */
	if (round_trip < ca->smallest) {
		ca->smallest = round_trip;
		ca->smallest_in = ca->round;
	}
	if (ca->found || !tcp_in_slow_start(tp))
		return;
	if ((large || rounds_from_start) && after(tp->snd_una, ca->round_end))
		begin_hystart_round(sk);
	if (!large)
		return;
	if (ca->mode == OFF) {
		train = train_is_long(sk, 0);
		grew = round_trips_grew(ca, round_trip);
		if (hystart && (train || grew)) {
			ca->found = true;
			tp->snd_ssthresh = tcp_snd_cwnd(tp);
		}
		return;
	}
	grew = round_trips_grew(ca, round_trip);
	if (!hystart)
		return;
	/* The train is of the blue part alone. So it is as many times shorter as the window exceeds a doubling. */
	if (!ca->cap && ca->mode == CLOCKED && ca->colour != RED) {
		if (train_is_long(sk, ca->paced_rounds))
			ca->cap = tcp_snd_cwnd(tp) + ca->blue_acked * ((1 << ca->paced_rounds) - 1);
	} else if (ca->cap && tcp_snd_cwnd(tp) > ca->cap) {
		end_slow_start(sk);
	}
	if (grew && ca->mode != OFF)
		end_slow_start(sk);
}

/* Whether HyStart will find neither sign in the next round, if trains double with the window and delays grow as now. */
static bool may_quadruple(struct sock *sk, u32 train)
{
	struct suss *ca = inet_csk_ca(sk);
	u64 length, before;
	u32 rounds;

	if (ca->round - 2 >= fourfold_rounds)
		return false;
	if (ca->round == 2) {
		if (ca->smallest > LEAST_ROUND_TRIP_US && train < ca->smallest / 4)
			return true;
		back_to(sk, OFF);
		return false;
	}
	length = (u64)train << (ca->round - 2);
	before = (u64)ca->train_before << (ca->round - 3);
	if (before ? length * length > ca->smallest * before : 2 * length > ca->smallest)
		return false;
	rounds = ca->round - ca->smallest_in;
	return (u64)(rounds + 1) * ca->round_smallest <= (u64)(rounds + 1) * ca->smallest + (u64)rounds * ca->smallest / 8;
}

static void plan_red(struct sock *sk, u32 acked, u32 blue, u32 train)
{
	struct suss *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 red = (blue << (ca->round - 1)) - blue;
	u32 red_to_come = (blue / 2 << (ca->round - 2)) - blue / 2;	/* acknowledgements of red segments */
	u32 rest = ca->smallest >> (ca->round - 1), lasts = ca->smallest - rest;

	ca->train_before = train;
	if (rest <= train)
		return;
	ca->mode = GUARDING;
	ca->paced_rounds++;
	ca->limit = tcp_snd_cwnd(tp) + acked + red - red_to_come;
	ca->red_rate = paces ? div_u64((u64)red * tp->mss_cache * USEC_PER_SEC, lasts) : 0;
	ca->red_from = tp->tcp_clock_cache + (guards ? (rest - train) / 2 * NSEC_PER_USEC : 0);
	WRITE_ONCE(sk->sk_pacing_status, SK_PACING_NEEDED);
}

static void follow_rounds(struct sock *sk, u32 acked)
{
	struct suss *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 blue, train;

	if (ca->colour == LAST_BLUE)
		ca->colour = RED;
	if (after(tp->snd_una, ca->head)) {	/* the first acknowledgement of a round */
		ca->colour = BLUE;
		ca->blue_acked = 0;
		ca->round = min(ca->round + 1, 20);
		ca->blue_start = now_us(sk);
		ca->head = tp->snd_nxt;
		back_to(sk, CLOCKED);
	}
	if (!before(tp->snd_una, ca->tail)) {	/* the last one of its blue part */
		ca->colour = LAST_BLUE;
		blue = ca->initial_window << min(ca->round - 1, 16);	/* in 2^31 bytes */
		ca->tail = ca->head + blue * tp->mss_cache;
		train = now_us(sk) - ca->blue_start;
		if (ca->blue_acked)	/* one gap less than segments; the present one is not counted yet */
			train = div_u64((u64)train * blue, 2 * ca->blue_acked);
		ca->quadruples = ca->quadruples && may_quadruple(sk, train);
		if (ca->quadruples)
			plan_red(sk, acked, blue, train);
	}
	if (ca->colour != RED)
		ca->blue_acked += acked;
}

/* Called whenever something might be sent. */
static u32 suss_before_sending(struct sock *sk)
{
	struct suss *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (ca->mode == GUARDING && !before(tp->snd_nxt, ca->tail)) {
		ca->mode = PACING;
		tp->tcp_wstamp_ns = max(tp->tcp_wstamp_ns, ca->red_from);
	}
	if (ca->mode == PACING && tcp_snd_cwnd(tp) < ca->limit)
		tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp) + 2, ca->limit));
	if (ca->mode == GUARDING || ca->mode == PACING)
		WRITE_ONCE(sk->sk_pacing_rate, ca->mode == PACING && ca->red_rate ? ca->red_rate : AT_ONCE);
	return 1;
}

static u32 cube_root(u64 number)
{
	u32 root = 0, bit;

	for (bit = 1 << 20; bit; bit >>= 1)
		if ((u64)(root + bit) * (root + bit) * (root + bit) <= number)
			root += bit;
	return root;
}

/* How many acknowledged segments make the window a segment larger: 0.4 segments per cubic second from the plateau. */
static u32 acks_per_segment(struct sock *sk, u32 window, u32 acked)
{
	struct suss *ca = inet_csk_ca(sk);
	u64 away, distance;
	u32 needed, target;
	s32 late;

	if (!ca->epoch) {
		ca->epoch = now_ms(sk);
		ca->reno_window = window;
		ca->reno_acked = 0;
		ca->plateau = max(ca->last_maximum, window);
		ca->rises_for = cube_root((u64)(ca->plateau - window) * 2500000000ULL);
	}
	late = now_ms(sk) + ca->smallest / USEC_PER_MSEC - ca->epoch - ca->rises_for;
	away = min_t(u32, abs(late), 1 << 20);
	distance = div64_u64(away * away * away, 2500000000ULL);
	target = late < 0 ? ca->plateau - distance : ca->plateau + distance;
	needed = target > window ? window / (target - window) : 100 * window;
	if (!ca->last_maximum)
		needed = min(needed, 20U);	/* no plateau is known yet */
	ca->reno_acked += acked;
	while (ca->reno_acked > window * RENO_ACKS / 8) {
		ca->reno_acked -= window * RENO_ACKS / 8;
		ca->reno_window++;
	}
	if (ca->reno_window > window)
		needed = min(needed, window / (ca->reno_window - window));
	return max(needed, 2U);
}

static void suss_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct suss *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_in_slow_start(tp)) {
		if (ca->mode != OFF && !ca->cap)
			follow_rounds(sk, acked);
		if ((ca->mode == GUARDING || ca->mode == PACING) && ca->colour == RED)
			return;
	}
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (ca->counts_acks)
		acked = 1;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, acks_per_segment(sk, tcp_snd_cwnd(tp), acked), acked);
}

static u32 suss_ssthresh(struct sock *sk)
{
	struct suss *ca = inet_csk_ca(sk);
	u32 window = tcp_snd_cwnd(tcp_sk(sk));

	back_to(sk, OFF);
	ca->epoch = 0;
	/* A flow that loses before it reaches the last plateau leaves room for others. */
	ca->last_maximum = window < ca->last_maximum ? window * (1024 + KEPT) / 2048 : window;
	return max(window * KEPT / 1024, 2U);
}

static void suss_set_state(struct sock *sk, u8 state)
{
	struct suss *ca = inet_csk_ca(sk);

	if (state != TCP_CA_Loss)
		return;
	back_to(sk, OFF);
	ca->last_maximum = ca->epoch = 0;
	ca->smallest = ~0U;
	ca->found = false;
	begin_hystart_round(sk);
}

/* An epoch is only time in which the window could grow. */
static void suss_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct suss *ca = inet_csk_ca(sk);
	s32 idle = tcp_jiffies32 - tcp_sk(sk)->lsndtime;

	if (event == CA_EVENT_TX_START && ca->epoch && idle > 0)
		ca->epoch = min(ca->epoch + jiffies_to_msecs(idle), now_ms(sk));
}

#define CUBIC(its_name, its_init)			\
	.name = its_name,				\
	.owner = THIS_MODULE,				\
	.init = its_init,				\
	.pkts_acked = suss_pkts_acked,			\
	.cong_avoid = suss_cong_avoid,			\
	.ssthresh = suss_ssthresh,			\
	.set_state = suss_set_state,			\
	.cwnd_event = suss_cwnd_event,			\
	.undo_cwnd = tcp_reno_undo_cwnd

static struct tcp_congestion_ops controls[] = {
	{ CUBIC("suss", suss_init), .min_tso_segs = suss_before_sending },
	{ CUBIC("cubic_counting", counting_init) },
	{ CUBIC("cubic_paced", paced_init) },
	{ CUBIC("cubic_both", both_init) },
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
MODULE_DESCRIPTION("SUSS over CUBIC with HyStart");
