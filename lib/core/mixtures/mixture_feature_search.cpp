#include "mixtures/mixture_feature_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "mixtures/dot_product.hpp"
#include "mixtures/exponential.hpp"
#include "mixtures/wide_vectors.hpp"

namespace {

constexpr std::size_t kBlock = 256;  // points handled together, so that their densities stay in cache
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Turns a block's log densities, one component every `stride`, into shares that sum to one.
WIDE_VECTORS void normalise(double* first, std::size_t count, std::size_t stride, std::size_t size) noexcept {
  double largest[kBlock], total[kBlock];
  std::fill_n(largest, size, kMinusInfinity);
  std::fill_n(total, size, 0.0);
  for (std::size_t k = 0; k < count; ++k) {
    const double* values = first + k * stride;
    for (std::size_t i = 0; i < size; ++i) largest[i] = std::max(largest[i], values[i]);
  }
  for (std::size_t k = 0; k < count; ++k) {
    double* values = first + k * stride;
    for (std::size_t i = 0; i < size; ++i) total[i] += values[i] = exponential(values[i] - largest[i]);
  }
  for (std::size_t k = 0; k < count; ++k) {
    double* values = first + k * stride;
    for (std::size_t i = 0; i < size; ++i) values[i] /= total[i];
  }
}

// Weighted mean and sum of squared deviations, and the dot products of `values` with `count` columns of deviations.
WIDE_VECTORS void weighted_moments(const double* weights, const double* values, std::size_t rows, double support,
                                   const double* const* deviations, std::size_t count, double* squares, double* mean,
                                   double* variation, double* covariations) noexcept {
  dot_products<1>(weights, &values, rows, mean);
  *mean /= support;
  for (std::size_t row = 0; row < rows; ++row) {
    const double deviation = values[row] - *mean;
    squares[row] = weights[row] * deviation * deviation;
  }
  *variation = sum(squares, rows);
  dot_products(values, deviations, count, rows, covariations);
}

WIDE_VECTORS void add_slope(double slope, const double* given, double centre, std::size_t rows, double* out) noexcept {
  for (std::size_t row = 0; row < rows; ++row) out[row] += slope * (given[row] - centre);
}

// Adds the log density of a normal distribution around the value that is expected of each point.
WIDE_VECTORS void add_log_density(const double* values, const double* expected, double variance, std::size_t rows,
                                  double* out) noexcept {
  const double log_scale = -0.5 * std::log(2 * std::numbers::pi * variance);
  for (std::size_t row = 0; row < rows; ++row) {
    const double deviation = values[row] - expected[row];
    out[row] += log_scale - deviation * deviation / (2 * variance);
  }
}

// Solves A x = b for a symmetric positive definite A of n rows, by Cholesky's factors.
std::vector<double> solve(std::vector<double> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double value = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) value -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(value) : value / a[j * n + j];
    }
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

}  // namespace

Columns MixtureFeatureSearch::Points::columns(const std::vector<std::size_t>& features) const {
  Columns out;
  for (const std::size_t feature : features) out.push_back(column(feature));
  return out;
}

MixtureFeatureSearch::MixtureFeatureSearch(const Columns& columns, const std::vector<uint32_t>& labels,
                                           const std::vector<std::size_t>& training,
                                           const std::vector<std::size_t>& testing, const Settings& settings)
    : classes_(settings.scored.size()), settings_(settings) {
  std::vector<std::vector<std::size_t>> members(classes_);
  for (const std::size_t row : training) members[labels[row]].push_back(row);
  for (const auto& rows : members) {
    training_.push_back(gather(columns, rows));
    const double share = settings.weigh_by_prior
                             ? static_cast<double>(rows.size()) / static_cast<double>(training.size())
                             : 1 / static_cast<double>(classes_);
    log_priors_.push_back(std::log(share));
  }
  testing_ = gather(columns, testing);
  for (const std::size_t row : testing) truth_.push_back(labels[row]);
  models_.resize(classes_);
  testing_joint_.resize(classes_);
  weighted_centred_.resize(classes_);
}

MixtureFeatureSearch::Points MixtureFeatureSearch::gather(const Columns& columns,
                                                          const std::vector<std::size_t>& rows) const {
  Points out;
  out.rows = rows.size();
  out.values.reserve(columns.size() * rows.size());
  for (const double* column : columns) {
    for (const std::size_t row : rows) out.values.push_back(column[row]);
  }
  return out;
}

// The first feature's components begin as equal shares of the points in order of their values.
void MixtureFeatureSearch::start(ClassModel& model, const Points& points, std::size_t feature) const {
  const std::size_t count = std::min(settings_.components, points.rows);
  std::vector<std::size_t> order(points.rows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const double* values = points.column(feature);
  std::stable_sort(order.begin(), order.end(),
                   [values](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  model.responsibilities.assign(count * points.rows, 0);
  for (std::size_t place = 0; place < order.size(); ++place) {
    model.responsibilities[place * count / points.rows * points.rows + order[place]] = 1;
  }
  model.log_weights.assign(count, 0);
  model.components.assign(count, {});
}

void MixtureFeatureSearch::maximise(ClassModel& model, const Columns& columns, std::size_t rows) const {
  constexpr double nothing = 1e-6;  // of a point
  for (std::size_t k = 0; k < model.components.size(); ++k) {
    const double* weights = model.responsibilities.data() + k * rows;
    const double support = sum(weights, rows);
    if (support < nothing) {
      model.log_weights[k] = kMinusInfinity;
      continue;
    }
    model.log_weights[k] = std::log(support / static_cast<double>(rows));
    model.components[k].fit(columns, rows, weights, support, settings_.regularisation);
  }
}

void MixtureFeatureSearch::expect(ClassModel& model, const Columns& columns, std::size_t rows) const {
  const std::size_t count = model.components.size();
  for (std::size_t k = 0; k < count; ++k) {
    double* densities = model.responsibilities.data() + k * rows;
    if (model.log_weights[k] == kMinusInfinity) {
      std::fill_n(densities, rows, kMinusInfinity);
      continue;
    }
    model.components[k].log_density(columns, rows, densities);
    for (std::size_t row = 0; row < rows; ++row) densities[row] += model.log_weights[k];
  }
  for (std::size_t start = 0; start < rows; start += kBlock) {
    normalise(model.responsibilities.data() + start, count, rows, std::min(kBlock, rows - start));
  }
}

std::vector<MixtureFeatureSearch::ClassModel> MixtureFeatureSearch::with_candidate(std::size_t candidate) const {
  std::vector<ClassModel> models = models_;
  for (std::size_t label = 0; label < classes_; ++label) {
    if (chosen_.empty()) start(models[label], training_[label], candidate);
    maximise(models[label], training_[label].columns(chosen_and(candidate)), training_[label].rows);
  }
  return models;
}

void MixtureFeatureSearch::refine(std::vector<ClassModel>& models, std::size_t candidate,
                                  std::size_t iterations) const {
  for (std::size_t label = 0; label < classes_; ++label) {
    const Points& points = training_[label];
    const Columns columns = points.columns(chosen_and(candidate));
    for (std::size_t i = 0; i < iterations; ++i) {
      expect(models[label], columns, points.rows);
      maximise(models[label], columns, points.rows);
    }
  }
}

std::vector<std::size_t> MixtureFeatureSearch::chosen_and(std::size_t candidate) const {
  std::vector<std::size_t> features = chosen_;
  features.push_back(candidate);
  return features;
}

std::vector<double> MixtureFeatureSearch::rank(const std::vector<std::size_t>& candidates) const {
  constexpr std::size_t iterations_alone = 8;  // the first feature has no responsibilities to start from
  std::vector<double> scores;
  for (const std::size_t candidate : candidates) {
    if (chosen_.empty()) {
      std::vector<ClassModel> models = with_candidate(candidate);
      refine(models, candidate, iterations_alone);
      scores.push_back(score_models(models, {candidate}));
    } else {
      scores.push_back(score_candidate(candidate));
    }
  }
  return scores;
}

double MixtureFeatureSearch::try_out(std::size_t candidate, std::size_t iterations) {
  Trial& trial = trials_[candidate];
  if (trial.models.empty() || trial.iterations > iterations) trial = {0, with_candidate(candidate)};
  refine(trial.models, candidate, iterations - trial.iterations);
  trial.iterations = iterations;
  return score_models(trial.models, chosen_and(candidate));
}

double MixtureFeatureSearch::choose(std::size_t candidate, std::size_t iterations) {
  const double score = try_out(candidate, iterations);
  models_ = std::move(trials_[candidate].models);
  trials_.clear();
  chosen_.push_back(candidate);
  const Columns testing = testing_.columns(chosen_);
  for (std::size_t label = 0; label < classes_; ++label) {
    const ClassModel& model = models_[label];
    const Points& points = training_[label];
    const std::size_t count = model.components.size();
    testing_joint_[label].assign(count * testing_.rows, kMinusInfinity);
    weighted_centred_[label].assign(count * chosen_.size() * points.rows, 0);
    for (std::size_t k = 0; k < count; ++k) {
      if (model.log_weights[k] == kMinusInfinity) continue;
      double* joint = testing_joint_[label].data() + k * testing_.rows;
      model.components[k].log_density(testing, testing_.rows, joint);
      for (std::size_t row = 0; row < testing_.rows; ++row) joint[row] += model.log_weights[k];
      const double* weights = model.responsibilities.data() + k * points.rows;
      for (std::size_t a = 0; a < chosen_.size(); ++a) {
        const double* values = points.column(chosen_[a]);
        const double mean = model.components[k].mean()[a];
        double* out = weighted_centred_[label].data() + (k * chosen_.size() + a) * points.rows;
        for (std::size_t row = 0; row < points.rows; ++row) out[row] = weights[row] * (values[row] - mean);
      }
    }
  }
  return score;
}

// `joint` has log weight + log density by component, for each class. The sum over the components lies between its
// largest term and as many times that as there are components. So most classes cannot win; where only one can, it wins
// without exponentials.
std::vector<uint32_t> MixtureFeatureSearch::likeliest(const std::vector<std::vector<double>>& joint) const {
  const std::size_t rows = testing_.rows;
  std::vector<double> largest(classes_ * rows, kMinusInfinity), least(rows, kMinusInfinity);
  for (std::size_t label = 0; label < classes_; ++label) {
    double* top = largest.data() + label * rows;
    for (std::size_t start = 0; start < joint[label].size(); start += rows) {
      const double* values = joint[label].data() + start;
      for (std::size_t row = 0; row < rows; ++row) top[row] = std::max(top[row], values[row]);
    }
    for (std::size_t row = 0; row < rows; ++row) least[row] = std::max(least[row], top[row] + log_priors_[label]);
  }
  std::vector<uint32_t> predicted(rows, 0), contenders(rows, 0);
  std::vector<uint8_t> can_win(classes_ * rows);
  for (std::size_t label = 0; label < classes_; ++label) {
    const double* top = largest.data() + label * rows;
    const double log_count = std::log(static_cast<double>(joint[label].size()) / static_cast<double>(rows));
    for (std::size_t row = 0; row < rows; ++row) {
      const bool can = !(top[row] + log_count + log_priors_[label] < least[row]);
      can_win[label * rows + row] = can;
      contenders[row] += can;
      if (can) predicted[row] = static_cast<uint32_t>(label);
    }
  }
  std::vector<double> best(rows, kMinusInfinity);
  for (std::size_t label = 0; label < classes_; ++label) {
    const double* top = largest.data() + label * rows;
    for (std::size_t row = 0; row < rows; ++row) {
      if (contenders[row] == 1 || !can_win[label * rows + row]) continue;
      double total = 0;
      for (std::size_t at = row; at < joint[label].size(); at += rows)
        total += exponential(joint[label][at] - top[row]);
      const double score = top[row] + std::log(total) + log_priors_[label];
      if (score > best[row]) {
        best[row] = score;
        predicted[row] = static_cast<uint32_t>(label);
      }
    }
  }
  return predicted;
}

double MixtureFeatureSearch::score_models(const std::vector<ClassModel>& models,
                                          const std::vector<std::size_t>& features) const {
  const Columns columns = testing_.columns(features);
  std::vector<std::vector<double>> joint(classes_);
  for (std::size_t label = 0; label < classes_; ++label) {
    const ClassModel& model = models[label];
    joint[label].assign(model.components.size() * testing_.rows, kMinusInfinity);
    for (std::size_t k = 0; k < model.components.size(); ++k) {
      if (model.log_weights[k] == kMinusInfinity) continue;
      double* densities = joint[label].data() + k * testing_.rows;
      model.components[k].log_density(columns, testing_.rows, densities);
      for (std::size_t row = 0; row < testing_.rows; ++row) densities[row] += model.log_weights[k];
    }
  }
  return macro_f1(likeliest(joint));
}

double MixtureFeatureSearch::score_candidate(std::size_t candidate) const {
  const std::size_t dimensions = chosen_.size(), tested = testing_.rows;
  const double* testing_values = testing_.column(candidate);
  std::vector<std::vector<double>> joint = testing_joint_;
  std::vector<double> expected(tested);
  for (std::size_t label = 0; label < classes_; ++label) {
    const ClassModel& model = models_[label];
    const Points& points = training_[label];
    const double* values = points.column(candidate);
    std::vector<double> squares(points.rows);
    Columns deviations;
    for (std::size_t at = 0; at < weighted_centred_[label].size(); at += points.rows)
      deviations.push_back(weighted_centred_[label].data() + at);
    for (std::size_t k = 0; k < model.components.size(); ++k) {
      if (model.log_weights[k] == kMinusInfinity) continue;
      const GaussianComponent& component = model.components[k];
      const double* weights = model.responsibilities.data() + k * points.rows;
      const double support = std::exp(model.log_weights[k]) * static_cast<double>(points.rows);
      double mean = 0, variation = 0;
      std::vector<double> covariances(dimensions);
      weighted_moments(weights, values, points.rows, support, deviations.data() + k * dimensions, dimensions,
                       squares.data(), &mean, &variation, covariances.data());
      for (double& covariance : covariances) covariance /= support;
      const std::vector<double> slopes = solve(component.covariance(), covariances);
      double unexplained = variation / support + settings_.regularisation;
      for (std::size_t a = 0; a < dimensions; ++a) unexplained -= slopes[a] * covariances[a];
      unexplained = std::max(unexplained, settings_.regularisation);

      std::fill(expected.begin(), expected.end(), mean);
      for (std::size_t a = 0; a < dimensions; ++a) {
        add_slope(slopes[a], testing_.column(chosen_[a]), component.mean()[a], tested, expected.data());
      }
      add_log_density(testing_values, expected.data(), unexplained, tested, joint[label].data() + k * tested);
    }
  }
  return macro_f1(likeliest(joint));
}

double MixtureFeatureSearch::macro_f1(const std::vector<uint32_t>& predicted) const {
  std::vector<double> right(classes_, 0), claimed(classes_, 0), present(classes_, 0);
  for (std::size_t row = 0; row < predicted.size(); ++row) {
    ++claimed[predicted[row]];
    ++present[truth_[row]];
    if (predicted[row] == truth_[row]) ++right[truth_[row]];
  }
  double sum = 0, count = 0;
  for (std::size_t label = 0; label < classes_; ++label) {
    if (!settings_.scored[label]) continue;
    ++count;
    if (right[label] > 0) sum += 2 * right[label] / (claimed[label] + present[label]);
  }
  return sum / count;
}
