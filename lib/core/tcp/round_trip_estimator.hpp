// Smoothed round trip and retransmission timeout: RFC 6298's for older senders, or Linux's. Linux's variation is the
// largest of a round trip, forgets slowly, and follows samples below the mean at an eighth of the pace, so that a
// falling round trip does not make the timeout grow. Linux applies the minimum to the variation: the timeout is never
// less than the round trip plus the minimum.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/simulated_time.hpp"

class RoundTripEstimator {
 public:
  // maximum: the limit of doubling; a timeout that is longer without doubling stays as it is.
  RoundTripEstimator(Time minimum, Time maximum, Time initial, bool of_old)
      : minimum_(minimum), maximum_(maximum), initial_(initial), of_old_(of_old) {}

  // round_trip, newest: the time since the first and since the last of the segments left that are acknowledged now.
  // first, next: the oldest segment outstanding, and the next new one.
  void sample(Time round_trip, Time newest, std::uint64_t first, std::uint64_t next) {
    smallest_ = std::min(smallest_, newest);
    doublings_ = 0;
    if (smoothed_ == 0) {
      smoothed_ = round_trip;
      deviation_ = 2 * round_trip;
      variation_ = largest_deviation_ = std::max(deviation_, minimum_);
      round_end_ = next;
      return;
    }
    const Time error = round_trip - smoothed_;
    Time change = (error < 0 ? -error : error) - deviation_ / 4;
    if (!of_old_ && error < 0 && change > 0) change /= 8;
    smoothed_ += error / 8;
    deviation_ += change;
    largest_deviation_ = std::max(largest_deviation_, deviation_);
    variation_ = std::max(variation_, largest_deviation_);
    if (first <= round_end_) return;
    variation_ -= (variation_ - largest_deviation_) / 4;
    largest_deviation_ = minimum_;
    round_end_ = next;
  }
  void back_off() { ++doublings_; }
  void forget_back_off() { doublings_ = 0; }

  Time timeout() const {
    const Time variation = of_old_ ? std::max(minimum_, deviation_) : variation_;
    const Time base = smoothed_ == 0 ? initial_ : smoothed_ + variation;
    Time timeout = base;
    for (int i = 0; i < doublings_ && timeout < maximum_; ++i) timeout *= 2;
    return std::max(base, std::min(timeout, maximum_));
  }
  Time smoothed() const { return smoothed_; }
  Time smallest() const { return smallest_; }

 private:
  Time minimum_, maximum_, initial_;
  bool of_old_;
  Time smoothed_ = 0, smallest_ = never;
  Time deviation_ = 0;  // four times the mean deviation
  // Linux's rttvar_us, mdev_max_us and rtt_seq.
  Time variation_ = 0, largest_deviation_ = 0;
  std::uint64_t round_end_ = 0;
  int doublings_ = 0;
};
