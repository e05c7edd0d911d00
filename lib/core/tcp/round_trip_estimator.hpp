// Smoothed round trip and retransmission timeout (RFC 6298), with the minimum where Linux has it: under the
// variation, so that the timeout is never less than the round trip plus the minimum.
#pragma once
#include <algorithm>

#include "base/simulated_time.hpp"

class RoundTripEstimator {
 public:
  RoundTripEstimator(Time minimum, Time initial) : minimum_(minimum), initial_(initial) {}

  void sample(Time round_trip) {
    smallest_ = std::min(smallest_, round_trip);
    if (smoothed_ == 0) {
      smoothed_ = round_trip;
      variation_ = round_trip / 2;
    } else {
      const Time error = round_trip - smoothed_;
      variation_ += ((error < 0 ? -error : error) - variation_) / 4;
      smoothed_ += error / 8;
    }
    doublings_ = 0;
  }
  void back_off() { ++doublings_; }
  void forget_back_off() { doublings_ = 0; }

  Time timeout() const {
    const Time base = smoothed_ == 0 ? initial_ : smoothed_ + std::max(minimum_, 4 * variation_);
    Time timeout = base;
    for (int i = 0; i < doublings_ && timeout < largest; ++i) timeout *= 2;
    return std::max(base, std::min(timeout, largest));
  }
  Time smoothed() const { return smoothed_; }
  Time smallest() const { return smallest_; }

 private:
  static constexpr Time largest = 120 * picoseconds_per_second;
  Time minimum_, initial_;
  Time smoothed_ = 0, variation_ = 0, smallest_ = never;
  int doublings_ = 0;
};
