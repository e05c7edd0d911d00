// Sizes from a piecewise-linear distribution function, atoms included, in constant time (Walker's alias method).
#pragma once
#include <cstddef>
#include <vector>

#include "base/random_stream.hpp"

class PiecewiseSampler {
 public:
  // sizes and probabilities are the points of the distribution function, both non-decreasing, from 0 to 1.
  PiecewiseSampler(const std::vector<double>& sizes, const std::vector<double>& probabilities);

  // One uniform number serves twice: its whole part picks a column, the rest a segment and the place in it.
  double operator()(RandomStream& random) const {
    const double scaled = random.uniform() * column_count_;
    const auto column = static_cast<std::size_t>(scaled);
    const double rest = scaled - static_cast<double>(column);
    const Line& line = lines_[2 * column + (rest >= thresholds_[column] ? 1 : 0)];
    return line.base + line.slope * rest;
  }

 private:
  struct Line {
    double base, slope;
  };
  double column_count_ = 0;
  std::vector<double> thresholds_;  // one a column
  std::vector<Line> lines_;         // two a column: its own segment below the threshold, another above
};
