#pragma once
#include <cstddef>

// Four sums side by side: the processor adds them at once, and the order of additions is the same everywhere.
inline double dot_product(const double* a, const double* b, std::size_t size) {
  double sums[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= size; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < size; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
