// Counts of waiting times: 256 equal bins an octave, so that a bin is at most 1/256 of the wait wide.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

class WaitHistogram {
 public:
  static constexpr int lowest_exponent = -20, octaves = 64, bins_per_octave = 256;

  WaitHistogram() : counts_(octaves * bins_per_octave + 2) {}

  // The first bin takes all waits below 2^-20 (most of them zero), the last bin all from 2^44 on.
  void record(double wait) {
    const auto bin = static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(wait) >> 44) - first_key + 1;
    ++counts_[static_cast<std::size_t>(std::clamp<std::int64_t>(bin, 0, octaves * bins_per_octave + 1))];
  }
  const std::vector<std::uint64_t>& counts() const { return counts_; }

 private:
  // A double's exponent and its first 8 fraction bits, as one integer, number the bins in order.
  static constexpr std::int64_t first_key = static_cast<std::int64_t>(1023 + lowest_exponent) * bins_per_octave;
  std::vector<std::uint64_t> counts_;
};
