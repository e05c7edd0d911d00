#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "mixtures/wide_vectors.hpp"

// Returns e^x for x up to 709, within two units in the last place; 0 below -708, where doubles lose digits. Unlike the
// library's function it has no branch, so that a loop over points can use vector registers. Its bytes are the same on
// every machine. x = n ln 2 + r; Taylor's series of e^r ends where its terms no longer count.
WITHIN_WIDE_VECTORS double exponential(double x) {
  constexpr double rounding = 0x1.8p52;  // x + rounding holds the nearest integer in its lowest bits
  constexpr double log2_e = 0x1.71547652b82fep0;
  constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
  constexpr double factors[] = {
      1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
      1.0 / 720,        1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1.0,         1.0};
  const double shifted = x * log2_e + rounding;
  const double n = shifted - rounding;
  const double r = (x - n * ln2_high) - n * ln2_low;
  double series = factors[0];
  for (std::size_t i = 1; i < sizeof factors / sizeof *factors; ++i) series = series * r + factors[i];
  const std::uint64_t power = std::bit_cast<std::uint64_t>(shifted) << 52;  // 2^n as an exponent's increment
  const double value = std::bit_cast<double>(std::bit_cast<std::uint64_t>(series) + power);
  return x < -708 ? 0.0 : value;
}
