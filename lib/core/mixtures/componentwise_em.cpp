#include "mixtures/componentwise_em.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "mixtures/exponential.hpp"
#include "mixtures/wide_vectors.hpp"

namespace {

WIDE_VECTORS void scale(const double* logarithms, const double* references, double largest_exponent, std::size_t rows,
                        double* out) noexcept {
  for (std::size_t row = 0; row < rows; ++row) {
    out[row] = exponential(std::min(logarithms[row] - references[row], largest_exponent));
  }
}

}  // namespace

ComponentwiseEm::ComponentwiseEm(Columns columns, std::size_t rows, const Settings& settings)
    : columns_(std::move(columns)), rows_(rows), settings_(settings) {
  const auto dimensions = static_cast<double>(columns_.size());
  parameters_ = dimensions + dimensions * (dimensions + 1) / 2;
}

void ComponentwiseEm::fit(const std::vector<double>& means, double variance) {
  const std::size_t dimensions = columns_.size();
  width_ = means.size() / dimensions;
  weights_.assign(width_, 1 / static_cast<double>(width_));
  components_.assign(width_, {});
  alive_.clear();
  log_densities_.assign(rows_ * width_, -std::numeric_limits<double>::infinity());
  densities_.assign(rows_ * width_, 0);
  references_.assign(rows_, 0);
  share_.resize(rows_);
  column_.resize(rows_);
  scaled_.resize(rows_);
  std::vector<double> round(dimensions * dimensions, 0);
  for (std::size_t a = 0; a < dimensions; ++a) round[a * dimensions + a] = variance;
  for (std::size_t m = 0; m < width_; ++m) {
    const auto first = means.begin() + static_cast<std::ptrdiff_t>(m * dimensions);
    components_[m].set({first, first + static_cast<std::ptrdiff_t>(dimensions)}, round);
    alive_.push_back(m);
    components_[m].log_density(columns_, rows_, column_.data());
    for (std::size_t row = 0; row < rows_; ++row) log_density(row, m) = column_[row];
  }
  for (std::size_t row = 0; row < rows_; ++row) scale_row(row);

  best_length_ = std::numeric_limits<double>::infinity();
  sweeps_ = 0;
  while (true) {
    double before = std::numeric_limits<double>::infinity(), length = before, log_likelihood = 0;
    bool settled = false;
    for (std::size_t i = 0; i < settings_.longest_fit && !settled; ++i) {
      sweep();
      log_likelihood = log_likelihood_now();
      length = message_length_of(log_likelihood);
      settled = std::abs(length - before) < settings_.tolerance * std::abs(length);
      before = length;
    }
    keep_if_best(length, log_likelihood, settled);
    if (alive_.size() <= std::max<std::size_t>(settings_.smallest_count, 1)) return;
    remove_weakest();
  }
}

void ComponentwiseEm::scale_row(std::size_t row) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const std::size_t m : alive_) largest = std::max(largest, log_density(row, m));
  references_[row] = largest;
  for (const std::size_t m : alive_) density(row, m) = exponential(log_density(row, m) - largest);
}

double ComponentwiseEm::total_density(std::size_t row) {
  constexpr double nearly_none = 1e-200;
  double total = 0;
  for (const std::size_t m : alive_) total += weights_[m] * density(row, m);
  if (total > nearly_none) return total;
  scale_row(row);
  total = 0;
  for (const std::size_t m : alive_) total += weights_[m] * density(row, m);
  return total;
}

void ComponentwiseEm::evaluate(std::size_t component) {
  constexpr double largest_exponent = 200;
  components_[component].log_density(columns_, rows_, column_.data());
  scale(column_.data(), references_.data(), largest_exponent, rows_, scaled_.data());
  for (std::size_t row = 0; row < rows_; ++row) {
    log_density(row, component) = column_[row];
    density(row, component) = scaled_[row];
    if (column_[row] - references_[row] > largest_exponent) scale_row(row);
  }
}

// Each component in turn is weighted, refitted and evaluated before the next one (section 5 of the paper).
void ComponentwiseEm::sweep() {
  ++sweeps_;
  for (const std::size_t m : std::vector<std::size_t>(alive_)) {
    double support = 0;
    for (std::size_t row = 0; row < rows_; ++row) {
      share_[row] = weights_[m] * density(row, m) / total_density(row);
      support += share_[row];
    }
    const bool is_last = alive_.size() == 1;
    weights_[m] = is_last ? 1 : std::max(0.0, support - parameters_ / 2) / static_cast<double>(rows_);
    if (weights_[m] == 0) std::erase(alive_, m);
    normalise_weights();
    if (weights_[m] == 0) continue;
    components_[m].fit(columns_, rows_, share_.data(), support, settings_.regularisation);
    evaluate(m);
  }
}

void ComponentwiseEm::normalise_weights() {
  double total = 0;
  for (const std::size_t m : alive_) total += weights_[m];
  for (const std::size_t m : alive_) weights_[m] /= total;
}

double ComponentwiseEm::log_likelihood_now() {
  double sum = 0;
  for (std::size_t row = 0; row < rows_; ++row) {
    const double total = total_density(row);  // first, because it may change the point's reference
    sum += std::log(total) + references_[row];
  }
  return sum;
}

// The criterion of the authors' own code: the paper's equation 15 without its constant for each component.
double ComponentwiseEm::message_length_of(double log_likelihood) const {
  double log_weights = 0;
  for (const std::size_t m : alive_) log_weights += std::log(weights_[m]);
  const double log_rows = std::log(static_cast<double>(rows_));
  return -log_likelihood + parameters_ / 2 * log_weights +
         (parameters_ + 1) / 2 * static_cast<double>(alive_.size()) * log_rows;
}

void ComponentwiseEm::keep_if_best(double length, double log_likelihood, bool settled) {
  if (!(length < best_length_)) return;
  best_length_ = length;
  best_log_likelihood_ = log_likelihood;
  settled_ = settled;
  best_ = {};
  for (const std::size_t m : alive_) {
    best_.weights.push_back(weights_[m]);
    best_.components.push_back(components_[m]);
  }
}

void ComponentwiseEm::remove_weakest() {
  const auto lighter = [this](std::size_t a, std::size_t b) { return weights_[a] < weights_[b]; };
  alive_.erase(std::min_element(alive_.begin(), alive_.end(), lighter));
  normalise_weights();
}
