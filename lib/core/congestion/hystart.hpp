// HyStart (Ha and Rhee 2011) as in Linux: two signs that slow start has gone far enough. If acknowledgements follow
// each other closely for half of the least round trip, the window fills the path. If round trips grow, a queue does.
#pragma once
#include <algorithm>

#include "tcp/congestion_control.hpp"

class HyStart {
 public:
  // rounds_from_the_start: rounds are told apart from the first segments on. Before 2025 Linux did so only once the
  // window had 16 segments, so that all its rounds began in the middle of one.
  explicit HyStart(bool rounds_from_the_start) : rounds_from_the_start_(rounds_from_the_start) {}

  // After a timeout the first round is all that was sent before it. It has no train of acknowledgements.
  HyStart after_timeout() const {
    HyStart fresh(rounds_from_the_start_);
    fresh.round_end_unknown_ = true;
    return fresh;
  }
  // Called at least with the first acknowledgement after a timeout.
  void learn_of_timeout(const Delivery& delivery) {
    if (round_end_unknown_) round_end_ = delivery.next, round_end_unknown_ = false;
  }

  // Called with every acknowledgement in slow start that gives a round trip. Returns whether it is time to look for
  // signs. A round ends once something is acknowledged that was sent after it began.
  bool look(const CongestionWindow& window, const Delivery& delivery) {
    const bool large = window.segments >= from_segments;
    if ((large || rounds_from_the_start_) && delivery.first > round_end_) {
      round_end_ = delivery.next;
      round_start_ = last_of_train_ = delivery.now;
      round_smallest_ = never;
      round_samples_ = 0;
    }
    return large;
  }

  // Whether the train of acknowledgements that this one is part of lasts for longer than `most`.
  bool train_is_long(Time now, Time most) {
    if (now - last_of_train_ > spacing) return false;
    last_of_train_ = now;
    return now - round_start_ > most;
  }
  // A train longer than this is too long; without pacing, one longer than half of it. Linux adds the time of four of
  // its largest bursts (64 KiB without headers), as receivers may hand them on together.
  static Time longest_train(Time smallest_round_trip, double bytes_per_second) {
    if (bytes_per_second == 0) return smallest_round_trip;
    return smallest_round_trip +
           std::min(most_allowance, from_seconds(std::min(4 * burst_bytes / bytes_per_second, 1.0)));
  }

  // Linux compares round trips only after this many samples in the round.
  bool round_trips_grew(Time round_trip, Time smallest) {
    round_smallest_ = std::min(round_smallest_, round_trip);
    if (round_samples_ < samples) return ++round_samples_, false;
    return round_smallest_ > smallest + std::clamp(smallest / 8, 2 * spacing, 8 * spacing);
  }
  Time round_smallest() const { return round_smallest_; }

 private:
  static constexpr Time spacing = 2 * picoseconds_per_second / 1000, most_allowance = picoseconds_per_second / 1000;
  static constexpr double from_segments = 16, burst_bytes = 65'536 - 320;
  static constexpr int samples = 8;

  bool rounds_from_the_start_, round_end_unknown_ = false;
  std::uint64_t round_end_ = 0;
  Time round_start_ = 0, last_of_train_ = -2 * spacing, round_smallest_ = never;
  int round_samples_ = 0;
};
