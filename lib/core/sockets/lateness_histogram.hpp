// A histogram of how late things happened, in 8 steps an octave: bucket 8 e + m counts [2^e (1 + m/8), 2^e (1 +
// (m+1)/8)) ns. The counters are plain and have one writer, so that another process can read them while they grow.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

struct LatenessHistogram {
  static constexpr std::size_t buckets = 512;
  std::uint64_t count[buckets];

  void add(std::int64_t late_ns) {
    const auto late = static_cast<std::uint64_t>(std::max<std::int64_t>(late_ns, 8));
    const int octave = static_cast<int>(std::bit_width(late)) - 1;
    ++count[static_cast<std::size_t>(octave) * 8 + ((late >> (octave - 3)) & 7)];
  }
};
