// How the receiver of Linux 6.12 lets its window grow. The offered window grows by two segments with each one that
// comes, up to what the buffer holds. The buffer grows with what the reader took in a round trip. The reader here takes
// data at once, so that the window never limits a sender before `most_bytes` does. What matters is that Linux
// acknowledges at once whatever lets the window grow.
//
// Buffers are counted in memory, of which a segment takes more than its bytes. Windows are the share of it that holds
// bytes, in 256ths as in Linux. A window of less than 1 MiB is offered from the first segment on. So is a window that
// was given all of its buffer; Linux then finds that the buffer holds more than it had assumed, and the window goes on
// growing.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/simulated_time.hpp"

class ReceiveWindow {
 public:
  ReceiveWindow(std::uint32_t segment_bytes, std::uint64_t most_bytes, bool offers_all)
      : segment_(segment_bytes), grows_(most_bytes >= large_window), most_(2 * static_cast<std::int64_t>(most_bytes)) {
    if (segment_ > first_segment) share_ = 256 * segment_ / memory(segment_);
    buffer_ = offers_all ? most_ : std::min(first_buffer, most_);
    const std::int64_t first_offer = buffer_ / 2;
    offered_ = std::min(first_offer - first_offer % segment_, first_offer - advertised());
    taken_in_round_ = std::min(offered_, 10 * advertised());
  }

  bool grows() const { return grows_; }

  // Called with every segment; returns whether it let the window grow. in_order: the segment waits for the reader, as
  // do `held` bytes beyond a hole.
  bool grow(bool in_order, std::uint64_t held) {
    if (!grows_) return std::exchange(small_, false);
    const std::int64_t waits = static_cast<std::int64_t>(held) * memory(segment_) / segment_;
    const std::int64_t room = window(buffer_ - waits - (in_order ? memory(segment_) : 0)) - offered_;
    if (room <= 0) return false;
    offered_ += std::min(room, 2 * segment_);
    return true;
  }

  // Called with every segment before it is taken. The receiver estimates the round trip from the first segment with
  // another echo, in whole milliseconds; samples below 1 ms say nothing. The estimate falls to every smaller sample at
  // once, and each round of a slow start begins with those.
  void measure(std::int64_t length, std::uint32_t echo_ms, Time now) {
    const bool full = length >= largest_;
    largest_ = std::max(largest_, length);
    if (echo_ms == last_echo_ms_) return;
    last_echo_ms_ = echo_ms;
    const std::int64_t sample_us = std::int64_t{stamp_of(now) - echo_ms} * 1000;
    if (!full || sample_us == 0) return;
    const bool smallest = eight_round_trips_us_ == 0 || 8 * sample_us < eight_round_trips_us_;
    eight_round_trips_us_ = smallest ? 8 * sample_us : eight_round_trips_us_ - eight_round_trips_us_ / 8 + sample_us;
  }

  // 0 while unknown.
  Time round_trip() const { return eight_round_trips_us_ / 8 * (picoseconds_per_second / 1'000'000); }

  // The reader has taken all from `before` up to `taken`, one segment after the other.
  void read(std::uint64_t before, std::uint64_t taken, Time now) {
    if (round_began_ == never) round_began_ = now;  // close to when it was connected
    const Time waits = round_trip();
    if (!grows_ || taken == before || waits == 0 || now - round_began_ < waits) return;
    const std::int64_t newly = static_cast<std::int64_t>(taken) - round_began_at_;
    round_began_at_ = static_cast<std::int64_t>(taken);
    round_began_ = now;
    if (newly <= taken_in_round_) return;
    const std::int64_t once = 2 * newly + 16 * advertised();
    const double more = 2.0 * static_cast<double>(once) * static_cast<double>(newly - taken_in_round_) /
                        static_cast<double>(taken_in_round_);  // a sender in slow start is about to double
    taken_in_round_ = newly;
    const double wanted = (static_cast<double>(once) + more) * 256 / static_cast<double>(share_);
    buffer_ = std::max(buffer_, wanted < static_cast<double>(most_) ? static_cast<std::int64_t>(wanted) : most_);
  }

 private:
  // Memory of a packet beside its bytes; time stamps; the segment that Linux assumes before it has seen one.
  static constexpr std::int64_t head_bytes = 832, stamp_bytes = 12, first_segment = 536;
  static constexpr std::int64_t first_buffer = 131'072;  // tcp_rmem's default
  static constexpr std::uint64_t large_window = 1 << 20;
  static constexpr std::uint32_t no_echo = ~0u;

  std::int64_t advertised() const { return segment_ + stamp_bytes; }  // Linux's advmss
  static std::int64_t memory(std::int64_t bytes) { return head_bytes + bytes; }
  std::int64_t window(std::int64_t buffer) const { return buffer * share_ / 256; }

  std::int64_t segment_;
  bool grows_, small_ = true;
  std::int64_t most_, share_ = 128, buffer_, offered_, taken_in_round_;
  std::int64_t largest_ = std::min(segment_, first_segment);  // of the segments that came
  std::int64_t eight_round_trips_us_ = 0;                     // as Linux keeps it
  std::uint32_t last_echo_ms_ = no_echo;
  std::int64_t round_began_at_ = 0;
  Time round_began_ = never;
};
