// How the connections of a flow speak TCP.
#pragma once
#include <cstdint>

#include "simulated_time.hpp"

struct TcpSettings {
  std::uint32_t segment_bytes;
  double initial_window;  // segments
  std::uint64_t receive_window_bytes;
  Time minimum_timeout, initial_timeout;
  Time acknowledgement_delay;  // 0: every segment is acknowledged at once
  bool selective;              // SACK
  bool tail_loss_probe;        // with SACK only
  bool ecn;                    // ask for ECN even where the congestion control does not need it
  bool pacing;
  double pacing_slow_start_ratio, pacing_ratio;  // to the window over the smoothed round trip
  std::uint64_t unpaced_segments;                // at the start of a connection
  bool slow_start_after_idle;  // RFC 2861 as in Linux: after a silent timeout the window starts again
  double dctcp_first_alpha;
  bool hystart;
  bool opportunistic_retransmission, penalisation;  // of subflows
};
