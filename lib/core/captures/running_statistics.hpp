#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

// Minimum, mean, maximum and standard deviation of whole numbers, summed exactly.
struct RunningStatistics {
  uint64_t count = 0, minimum = 0, maximum = 0, sum = 0;
  unsigned __int128 sum_of_squares = 0;

  // netmate-flowcalc cannot tell a minimum of 0 from no minimum yet, so that the next value replaces it.
  void add(uint64_t value, bool zero_minimum_is_none) {
    const bool none = zero_minimum_is_none ? minimum == 0 : count == 0;
    if (none || value < minimum) minimum = value;
    maximum = std::max(maximum, value);
    sum += value;
    sum_of_squares += static_cast<unsigned __int128>(value) * value;
    ++count;
  }

  double mean(bool whole) const {
    if (count == 0) return 0;
    const auto floor = sum / count;
    return whole ? static_cast<double>(floor) : static_cast<double>(sum) / static_cast<double>(count);
  }

  // The deviation of a sample (n - 1); 0 for fewer than two values.
  double deviation(bool whole) const {
    if (count < 2) return 0;
    const auto n = static_cast<unsigned __int128>(count);
    const unsigned __int128 numerator = n * sum_of_squares - static_cast<unsigned __int128>(sum) * sum;
    const unsigned __int128 denominator = n * (n - 1);
    if (!whole) return std::sqrt(static_cast<double>(numerator) / static_cast<double>(denominator));
    const unsigned __int128 variance = numerator / denominator;
    auto root = static_cast<unsigned __int128>(std::sqrt(static_cast<double>(variance)));
    while (root * root > variance) --root;  // the floating-point root may be off by one
    while ((root + 1) * (root + 1) <= variance) ++root;
    return static_cast<double>(root);
  }
};
