// A token bucket that drops packets beyond its rate and burst, and has no queue: Linux's act_police, with its whole
// nanoseconds. Tokens are time. The bucket holds the time that the burst takes at the rate. A packet that passes takes
// the time of its own bytes, and one that does not pass takes none.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "base/simulated_time.hpp"

class Policer {
 public:
  struct Settings {
    std::uint64_t bytes_per_second;
    std::int64_t burst_ns;
    std::uint64_t most_bytes;  // of a packet that may pass; 0: of any
  };

  // Throws std::invalid_argument for a rate or a burst of 0.
  explicit Policer(const Settings& settings)
      : burst_(settings.burst_ns),
        tokens_(settings.burst_ns),
        most_bytes_(settings.most_bytes > 0 ? settings.most_bytes : std::numeric_limits<std::uint64_t>::max()) {
    if (settings.bytes_per_second == 0 || settings.burst_ns <= 0) throw std::invalid_argument("no rate or burst");
    // As in Linux, a byte's time is a fraction of 32 bits over a power of two.
    const auto scaled = [&] { return (ns_per_second << shift_) / settings.bytes_per_second; };
    while (shift_ < 34 && scaled() >> 31 == 0) ++shift_;
    ns_per_byte_ = scaled();
  }

  // A packet comes, never earlier than the one before.
  bool passes(std::uint32_t bytes, Time at) {
    if (bytes > most_bytes_) return false;
    const std::int64_t now = at / picoseconds_per_nanosecond;
    const std::int64_t takes = static_cast<std::int64_t>(bytes * ns_per_byte_ >> shift_);
    const std::int64_t left = std::min(tokens_ + std::min(now - counted_, burst_), burst_) - takes;
    if (left < 0) return false;
    tokens_ = left;
    counted_ = now;
    return true;
  }

 private:
  static constexpr std::uint64_t ns_per_second = 1'000'000'000;
  static constexpr Time picoseconds_per_nanosecond = picoseconds_per_second / 1'000'000'000;

  std::int64_t burst_, tokens_, counted_ = 0;
  std::uint64_t most_bytes_, ns_per_byte_ = 0;
  unsigned shift_ = 0;
};
