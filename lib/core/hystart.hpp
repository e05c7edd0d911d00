// HyStart (Ha and Rhee 2011) as Linux has it: two signs that slow start has gone far enough. Acknowledgements that
// follow each other closely for half of the least round trip say that the window fills the path; round trips that
// grow say that a queue does.
#pragma once
#include <algorithm>

#include "congestion_control.hpp"

class HyStart {
 public:
  // rounds_from_the_start: a round begins with the acknowledgement of the first segment that was sent in the last one.
  // Before 2025 Linux began rounds only once the window had 16 segments, so that all of them began in the middle.
  explicit HyStart(bool rounds_from_the_start) : rounds_from_the_start_(rounds_from_the_start) {}

  HyStart anew() const { return HyStart(rounds_from_the_start_); }

  // Called with every acknowledgement in slow start that gives a round trip; whether it is time to look for signs.
  bool look(const CongestionWindow& window, const Delivery& delivery) {
    const bool large = window.segments >= from_segments;
    if (rounds_from_the_start_ ? delivery.first > round_end_ : large && delivery.first >= round_end_) {
      round_end_ = delivery.next;
      round_start_ = last_of_train_ = delivery.now;
      round_smallest_ = never;
      round_samples_ = 0;
    }
    return large;
  }

  // How long the train of acknowledgements lasts that this one is part of; 0 when it is not.
  Time train(Time now) {
    if (now - last_of_train_ > spacing) return 0;
    last_of_train_ = now;
    return now - round_start_;
  }

  bool round_trips_grew(Time round_trip, Time smallest) {
    round_smallest_ = std::min(round_smallest_, round_trip);
    if (++round_samples_ < samples) return false;
    return round_smallest_ >= smallest + std::clamp(smallest / 8, 2 * spacing, 8 * spacing);
  }
  Time round_smallest() const { return round_smallest_; }

 private:
  static constexpr Time spacing = 2 * picoseconds_per_second / 1000;
  static constexpr double from_segments = 16;
  static constexpr int samples = 8;

  bool rounds_from_the_start_;
  std::uint64_t round_end_ = 0;
  Time round_start_ = 0, last_of_train_ = 0, round_smallest_ = never;
  int round_samples_ = 0;
};
