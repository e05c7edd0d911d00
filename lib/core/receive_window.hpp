// How a Linux receiver lets its window grow (tcp_input.c: tcp_grow_window, tcp_rcv_space_adjust, tcp_rcvbuf_grow): what
// it offers grows by two segments with each that comes, up to what its buffer holds; the buffer grows with what the
// reader took in a round trip. The reader here takes data at once, so that the window never limits a sender before
// `most_bytes` does. What matters is that Linux acknowledges at once whatever lets the window grow.
#pragma once
#include <algorithm>
#include <cstdint>

#include "simulated_time.hpp"

class ReceiveWindow {
 public:
  ReceiveWindow(std::uint32_t segment_bytes, std::uint64_t most_bytes)
      : segment_bytes_(segment_bytes),
        most_(most_bytes),
        limit_(std::min(most_, first_limit)),
        offered_(std::min(limit_, first_offer - first_offer % segment_bytes)),
        taken_in_round_(10.0 * segment_bytes) {}

  // Called with every segment; tells whether it let the window grow.
  bool grow() {
    if (offered_ >= limit_) return false;
    offered_ = std::min(limit_, offered_ + 2 * segment_bytes_);
    return true;
  }

  // Called with every segment: the reader has taken all up to `taken`, `held` bytes from there on wait with holes.
  void read(std::uint64_t taken, std::uint64_t held, Time now, Time round_trip) {
    double wanted = 0;
    if (round_trip > 0 && now - round_began_ >= round_trip) {
      const auto newly = static_cast<double>(taken - taken_at_begin_);
      if (newly > taken_in_round_) {  // a sender in slow start is about to double
        wanted = 2 * newly * (1 + 2 * (newly / taken_in_round_ - 1));
        taken_in_round_ = newly;
      }
      taken_at_begin_ = taken;
      round_began_ = now;
    }
    if (held > 0) wanted = std::max(wanted, 2 * taken_in_round_);
    wanted = std::min(wanted + static_cast<double>(held), static_cast<double>(most_));
    limit_ = std::max(limit_, static_cast<std::uint64_t>(wanted));
  }

 private:
  // Of tcp_rmem's default 131,072 bytes Linux offers half at first, and 1448 / 2304 (what a full segment takes up)
  // when it has seen segments.
  static constexpr std::uint64_t first_offer = 65'536, first_limit = 81'920;

  std::uint32_t segment_bytes_;
  std::uint64_t most_, limit_, offered_;
  double taken_in_round_;
  std::uint64_t taken_at_begin_ = 0;
  Time round_began_ = 0;
};
