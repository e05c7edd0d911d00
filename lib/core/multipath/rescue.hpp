// What a subflow with room does when a buffer is full of segments that a slower one still carries (Raiciu et al., NSDI
// 2012, section 4.2). The conditions are those of the authors' kernel, mptcp_rcv_buf_optimization in mptcp_sched.c.
#pragma once
#include "base/simulated_time.hpp"

struct Blocked {
  Time now, penalised_until;              // until then the subflow penalises no more
  Time own_round_trip, other_round_trip;  // smoothed; the other one has sent the oldest segment
  double other_window;                    // segments
  bool other_is_open;                     // it neither repairs losses nor heeds a mark
  bool buffer_is_full;                    // and is not only waiting until a third is free
  bool is_carried;                        // by this subflow, too

  // Whether to halve the other's window, even if this subflow has sent the segment again before.
  bool penalises() const {
    return buffer_is_full && now >= penalised_until && own_round_trip < other_round_trip && other_is_open;
  }
  // Whether to send the oldest segment once more, after that.
  bool repeats() const { return !is_carried && (other_window <= 4 || 4 * own_round_trip < other_round_trip); }
};
