// How the connections of a flow speak TCP.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/simulated_time.hpp"

// How a sender recovers from losses. `linux_like`: RACK and PRR with SACK, NewReno and PRR without, and needless
// reductions are undone. The others are older senders, all but the first without SACK: `sack` (RFC 6675 with the
// immediate halving of Fall and Floyd 1996), `newreno` (RFC 6582), `reno` (1990: fast recovery ends with the first new
// acknowledgement), `tahoe` (1988: slow start from one segment, and all data again).
enum class Recovery : std::uint8_t { linux_like, sack, newreno, reno, tahoe };
// What lets a window grow: segments that are acknowledged as a whole, bytes, or acknowledgements of any kind.
enum class Counts : std::uint8_t { segments, bytes, acknowledgements };
// A receiver may misbehave (Savage et al., CCR 1999): acknowledge a segment in pieces, repeat an acknowledgement, or
// acknowledge data that have not come yet.
enum class ReceiverPolicy : std::uint8_t {
  honest,
  ack_division,
  duplicate_spoofing,
  first_duplicate_spoofing,
  optimistic
};

// What a receiver knows of ECN: all that it is asked for, RFC 3168's, or nothing.
enum class ReceiverEcn : std::uint8_t { accurate, classic, none };

class SubflowScheduler;
using MakeScheduler = std::unique_ptr<SubflowScheduler> (*)();

struct TcpSettings {
  std::uint32_t segment_bytes;
  double initial_window;  // segments
  std::uint64_t receive_window_bytes;
  std::uint64_t send_buffer_bytes = ~std::uint64_t{0};  // payload that a sender may have under way, besides that
  bool offers_all;  // all of the window from the start; else a window of 1 MiB or more grows
  Time minimum_timeout, initial_timeout;
  // The limit up to which a timeout doubles.
  Time maximum_timeout = 120 * picoseconds_per_second;
  std::uint64_t syn_linear_timeouts = 0;  // so many repeated SYNs do not double the timeout
  Time acknowledgement_delay;             // 0: every segment is acknowledged at once
  bool selective;                         // SACK
  bool tail_loss_probe;                   // with SACK only
  bool ecn;                               // ask for ECN even where the congestion control does not need it
  bool accurate_ecn = false;              // ask for AccECN (RFC 9768)
  bool ect_1 = false;                     // with AccECN: data have the code point of L4S (RFC 9331)
  ReceiverEcn receiver_ecn = ReceiverEcn::accurate;
  bool pacing;
  double pacing_slow_start_ratio, pacing_ratio;  // to window / smoothed round trip
  std::uint64_t unpaced_segments;                // at the start of a connection
  bool bursts = false;                           // segments leave in bursts, as Linux's TCP builds them
  bool slow_start_after_idle;                    // RFC 2861 as in Linux: after a silent timeout the window starts again
  double dctcp_first_alpha;
  Time prague_round_trip = 0;       // shorter ones of Prague count as this one; 0: none do
  std::uint64_t prague_rounds = 0;  // this holds after so many rounds
  bool prague_heeds_marks = true;
  Time bbr3_ecn_round_trip = 0;        // up to this least round trip BBRv3 heeds marks; 0: any
  double slow_start_exit_share = 0.5;  // of its window that Reno keeps where a loss ends slow start
  bool hystart, hystart_rounds_from_start;
  Recovery recovery;
  Counts counts;
  ReceiverPolicy receiver;
  std::uint32_t receiver_count;  // pieces, or copies
  Time receiver_interval;        // between optimistic acknowledgements
  bool cumulative_nonce;         // the sender ignores what an acknowledgement cannot prove
  // Each segment ends at one of so many more places. Acknowledgements that end elsewhere are ignored.
  std::uint32_t boundary_spread_bytes = 0;
  std::uint64_t boundary_key = 0;  // of a connection: decides where
  int suss_rounds;                 // rounds at most in which SUSS quadruples
  bool suss_guard, suss_pacing;
  bool opportunistic_retransmission, penalisation;  // of subflows
  MakeScheduler scheduler;                          // of subflows
};

// Bytes that a sender may have under way, whatever its congestion window says.
inline std::uint64_t window_limit(const TcpSettings& tcp) {
  return std::min(tcp.receive_window_bytes, tcp.send_buffer_bytes);
}
