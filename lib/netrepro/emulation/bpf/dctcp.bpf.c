// DCTCP (RFC 8257) as a congestion control of the kernel's, for kernels that come without it.
//
// Compiled with -DNAME=<name>, under which sockets ask for it. Only the fields that are used are declared: the loader
// finds them in the running kernel by their names.
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define FROM_KERNEL __attribute__((preserve_access_index))
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

enum { NON_RESTRICTED = 1, NEEDS_ECN = 2 };                 // flags of a congestion control
enum { DEMAND_CONGESTION_WINDOW_REDUCED = 4 };              // tcp_sock.ecn_flags
enum { TIMER_PENDING = 2, ACKNOWLEDGE_NOW = 16 };           // inet_connection_sock.icsk_ack.pending
enum { TIMEOUT = 3, ECN_IS_CLEAR = 4, ECN_IS_EXPERIENCED = 5 };  // enum tcp_ca_event
enum { RECOVERY = 3 };                                      // tcp_ca_state
enum { ALPHA_BITS = 10, MOST_ALPHA = 1 << ALPHA_BITS, GAIN_BITS = 4, LEAST_WINDOW = 2 };  // gain 1/16, section 4.2

struct sock_common {
  unsigned char skc_state;
} FROM_KERNEL;

struct sock {
  struct sock_common __sk_common;
} FROM_KERNEL;

struct inet_sock {
  struct sock sk;
} FROM_KERNEL;

struct inet_connection_sock {
  struct inet_sock icsk_inet;
  __u8 icsk_ca_state : 5;
  struct {
    __u8 pending;
  } icsk_ack;
  __u64 icsk_ca_priv[13];
} FROM_KERNEL;

struct tcp_sock {
  struct inet_connection_sock inet_conn;
  __u32 rcv_nxt, snd_nxt, snd_una, snd_cwnd, snd_ssthresh, delivered, delivered_ce;
  __u8 ecn_flags;
} FROM_KERNEL;

struct tcp_congestion_ops {
  __u32 (*ssthresh)(struct sock *sk);
  void (*cong_avoid)(struct sock *sk, __u32 acknowledgement, __u32 acknowledged);
  void (*set_state)(struct sock *sk, __u8 state);
  void (*cwnd_event)(struct sock *sk, int event);
  void (*in_ack_event)(struct sock *sk, __u32 flags);
  __u32 (*undo_cwnd)(struct sock *sk);
  char name[16];
  __u32 flags;
  void (*init)(struct sock *sk);
};

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 acknowledgement, __u32 acknowledged) __ksym;

struct dctcp {
  __u32 alpha, next_sequence, old_delivered, old_delivered_marked;
  __u32 received_before, last_was_marked, window_at_loss;
};

static struct tcp_sock *tcp_of(struct sock *sk) { return (struct tcp_sock *)sk; }
static struct dctcp *dctcp_of(struct sock *sk) { return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv; }

static void begin_round(const struct tcp_sock *tcp, struct dctcp *dctcp) {
  dctcp->next_sequence = tcp->snd_nxt;
  dctcp->old_delivered = tcp->delivered;
  dctcp->old_delivered_marked = tcp->delivered_ce;
}

SEC("struct_ops/begin")
void BPF_PROG(begin, struct sock *sk) {
  struct tcp_sock *tcp = tcp_of(sk);
  struct dctcp *dctcp = dctcp_of(sk);
  dctcp->alpha = MOST_ALPHA;
  dctcp->received_before = tcp->rcv_nxt;
  dctcp->last_was_marked = 0;
  dctcp->window_at_loss = 0;
  begin_round(tcp, dctcp);
}

// Section 3.3: once a round trip, alpha moves a sixteenth of the way to the share of marked segments.
SEC("struct_ops/on_acknowledgement")
void BPF_PROG(on_acknowledgement, struct sock *sk, __u32 flags) {
  struct tcp_sock *tcp = tcp_of(sk);
  struct dctcp *dctcp = dctcp_of(sk);
  if ((__s32)(tcp->snd_una - dctcp->next_sequence) < 0) return;
  __u32 marked = tcp->delivered_ce - dctcp->old_delivered_marked;
  __u32 all = tcp->delivered - dctcp->old_delivered;
  __u32 alpha = dctcp->alpha;
  __u32 decay = alpha >> GAIN_BITS;
  alpha -= decay ? decay : alpha;  // or it would never come to 0
  if (marked) alpha += (marked << (ALPHA_BITS - GAIN_BITS)) / (all ? all : 1);
  dctcp->alpha = alpha > MOST_ALPHA ? MOST_ALPHA : alpha;
  begin_round(tcp, dctcp);
}

static __u32 at_least(__u32 window) { return window > LEAST_WINDOW ? window : LEAST_WINDOW; }

SEC("struct_ops/threshold")
__u32 BPF_PROG(threshold, struct sock *sk) {
  __u32 window = tcp_of(sk)->snd_cwnd;
  dctcp_of(sk)->window_at_loss = window;
  return at_least(window - ((window * dctcp_of(sk)->alpha) >> (ALPHA_BITS + 1)));
}

// Section 3.5: a loss, unlike a mark, halves the window.
static void react_to_loss(struct sock *sk) {
  struct tcp_sock *tcp = tcp_of(sk);
  dctcp_of(sk)->window_at_loss = tcp->snd_cwnd;
  tcp->snd_ssthresh = at_least(tcp->snd_cwnd >> 1);
}

SEC("struct_ops/on_state")
void BPF_PROG(on_state, struct sock *sk, __u8 state) {
  if (state == RECOVERY && state != tcp_of(sk)->inet_conn.icsk_ca_state) react_to_loss(sk);
}

SEC("struct_ops/undo")
__u32 BPF_PROG(undo, struct sock *sk) {
  __u32 window = tcp_of(sk)->snd_cwnd, before = dctcp_of(sk)->window_at_loss;
  return window > before ? window : before;
}

// Section 3.2: acknowledgements say exactly which segments were marked, so a change of the mark ends a delayed one.
SEC("struct_ops/on_event")
void BPF_PROG(on_event, struct sock *sk, int event) {
  if (event == TIMEOUT) react_to_loss(sk);
  if (event != ECN_IS_CLEAR && event != ECN_IS_EXPERIENCED) return;
  struct tcp_sock *tcp = tcp_of(sk);
  struct dctcp *dctcp = dctcp_of(sk);
  __u32 marked = event == ECN_IS_EXPERIENCED;
  if (marked != dctcp->last_was_marked) {
    if (tcp->inet_conn.icsk_ack.pending & TIMER_PENDING) bpf_tcp_send_ack(tcp, dctcp->received_before);
    tcp->inet_conn.icsk_ack.pending |= ACKNOWLEDGE_NOW;
  }
  dctcp->received_before = tcp->rcv_nxt;
  dctcp->last_was_marked = marked;
  if (marked)
    tcp->ecn_flags |= DEMAND_CONGESTION_WINDOW_REDUCED;
  else
    tcp->ecn_flags &= ~DEMAND_CONGESTION_WINDOW_REDUCED;
}

SEC("struct_ops/grow")
void BPF_PROG(grow, struct sock *sk, __u32 acknowledgement, __u32 acknowledged) {
  tcp_reno_cong_avoid(sk, acknowledgement, acknowledged);
}

SEC(".struct_ops")
struct tcp_congestion_ops NAME = {
    .init = (void *)begin,
    .in_ack_event = (void *)on_acknowledgement,
    .cwnd_event = (void *)on_event,
    .ssthresh = (void *)threshold,
    .cong_avoid = (void *)grow,
    .undo_cwnd = (void *)undo,
    .set_state = (void *)on_state,
    .flags = NEEDS_ECN | NON_RESTRICTED,
    .name = TEXT(NAME),
};

char LICENSE[] SEC("license") = "Dual MIT/GPL";  // the kernel lends its functions to GPL-compatible programs only
