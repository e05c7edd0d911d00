#include "queueing/piecewise_sampler.hpp"

#include <stdexcept>

PiecewiseSampler::PiecewiseSampler(const std::vector<double>& sizes, const std::vector<double>& probabilities) {
  if (sizes.size() != probabilities.size() || sizes.size() < 2)
    throw std::invalid_argument("a distribution needs as many sizes as probabilities, two or more");
  struct Segment {
    double low, width, mass;
  };
  std::vector<Segment> segments;
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const double mass = probabilities[i] - probabilities[i - 1], width = sizes[i] - sizes[i - 1];
    if (!(mass >= 0) || !(width >= 0)) throw std::invalid_argument("points must not decrease");
    if (mass > 0) segments.push_back({sizes[i - 1], width, mass});
  }
  if (segments.empty()) throw std::invalid_argument("the distribution holds no probability");

  const std::size_t columns = segments.size();
  column_count_ = static_cast<double>(columns);
  double total = 0;
  for (const Segment& segment : segments) total += segment.mass;
  std::vector<double> height(columns);
  std::vector<std::size_t> small, large;
  for (std::size_t i = 0; i < columns; ++i) {
    height[i] = segments[i].mass / total * column_count_;
    (height[i] < 1 ? small : large).push_back(i);
  }
  thresholds_.assign(columns, 1.0);
  lines_.resize(2 * columns);
  const auto line = [&](std::size_t segment, double from, double to) {
    const double slope = segments[segment].width / (to - from);
    return Line{segments[segment].low - slope * from, slope};
  };
  while (!small.empty() && !large.empty()) {
    const std::size_t giver = large.back(), column = small.back();
    small.pop_back();
    thresholds_[column] = height[column];
    lines_[2 * column] = line(column, 0, height[column]);
    lines_[2 * column + 1] = line(giver, height[column], 1);
    height[giver] -= 1 - height[column];
    if (height[giver] < 1) {
      large.pop_back();
      small.push_back(giver);
    }
  }
  // What is left differs from a full column by rounding only.
  small.insert(small.end(), large.begin(), large.end());
  for (const std::size_t column : small) lines_[2 * column] = lines_[2 * column + 1] = line(column, 0, 1);
}
