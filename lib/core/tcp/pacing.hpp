// Pacing of a TCP sender: when the next segment may leave, at a given rate.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/simulated_time.hpp"

class Pacing {
 public:
  explicit Pacing(std::uint64_t unpaced_segments) : unpaced_(unpaced_segments) {}

  Time send_from() const { return send_from_; }
  // These bytes have left. The first segments of a connection leave at once. goes_on: the segment belongs to the burst
  // of the one before it; a burst is paced as a whole.
  void on_sent(std::uint32_t bytes, double bytes_per_second, bool goes_on, Time now) {
    if (bytes_per_second == 0 || ++sent_ <= unpaced_) return;
    const Time interval = from_seconds(std::min(bytes / bytes_per_second, longest_seconds / 4));
    if (goes_on) return void(send_from_ += interval);
    // A segment that leaves late may catch up by half of the interval.
    const Time late = std::max<Time>(0, now - send_from_);
    send_from_ = now + interval - std::min(interval / 2, late);
  }

 private:
  std::uint64_t unpaced_, sent_ = 0;
  Time send_from_ = 0;
};
