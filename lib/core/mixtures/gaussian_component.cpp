#include "mixtures/gaussian_component.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "mixtures/dot_product.hpp"
#include "mixtures/wide_vectors.hpp"

namespace {

constexpr std::size_t kBlock = 256;  // points handled together, so that their features stay in cache

// Adds four neighbouring features at once, so that `out` is read and written once. The order is that of one by one.
WITHIN_WIDE_VECTORS void add_multiples(double* out, const double* factors, const double* features, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    double sum = out[i];
    for (std::size_t b = 0; b < 4; ++b) sum += factors[b] * features[b * kBlock + i];
    out[i] = sum;
  }
}

WIDE_VECTORS void weighted_sums(const double* weights, const double* const* columns, std::size_t dimensions,
                                std::size_t size, double* out) noexcept {
  dot_products(weights, columns, dimensions, size, out);
}

// Subtracts the mean from the points, then multiplies by their weights.
WIDE_VECTORS void centre(const double* values, double mean, const double* weights, std::size_t size, double* centred,
                         double* weighted) noexcept {
  for (std::size_t i = 0; i < size; ++i) centred[i] = values[i] - mean;
  for (std::size_t i = 0; i < size; ++i) weighted[i] = weights[i] * centred[i];
}

// Squared Mahalanobis distances of a block from the mean; `centred` and `whitened` are work space.
WIDE_VECTORS void squared_distances(const double* const* columns, const double* mean, const double* whitening,
                                    std::size_t dimensions, std::size_t start, std::size_t size, double* centred,
                                    double* whitened, double* out) noexcept {
  std::fill_n(out, size, 0.0);
  for (std::size_t a = 0; a < dimensions; ++a) {
    double* column = centred + a * kBlock;
    for (std::size_t i = 0; i < size; ++i) column[i] = columns[a][start + i] - mean[a];
    std::fill_n(whitened, size, 0.0);
    const double* factors = whitening + a * dimensions;
    std::size_t b = 0;
    for (; b + 4 <= a + 1; b += 4) add_multiples(whitened, factors + b, centred + b * kBlock, size);
    for (; b <= a; ++b) {
      const double* other = centred + b * kBlock;
      for (std::size_t i = 0; i < size; ++i) whitened[i] += factors[b] * other[i];
    }
    for (std::size_t i = 0; i < size; ++i) out[i] += whitened[i] * whitened[i];
  }
}

}  // namespace

void GaussianComponent::fit(const Columns& columns, std::size_t rows, const double* weights, double total_weight,
                            double regularisation) {
  const std::size_t dimensions = columns.size();
  mean_.assign(dimensions, 0);
  covariance_.assign(dimensions * dimensions, 0);
  weighted_sums(weights, columns.data(), dimensions, rows, mean_.data());
  for (double& mean : mean_) mean /= total_weight;

  std::vector<double> centred(dimensions * kBlock), weighted(kBlock), products(dimensions);
  Columns centred_columns;
  for (std::size_t a = 0; a < dimensions; ++a) centred_columns.push_back(centred.data() + a * kBlock);
  for (std::size_t start = 0; start < rows; start += kBlock) {
    const std::size_t size = std::min(kBlock, rows - start);
    for (std::size_t a = 0; a < dimensions; ++a) {
      centre(columns[a] + start, mean_[a], weights + start, size, centred.data() + a * kBlock, weighted.data());
      weighted_sums(weighted.data(), centred_columns.data(), a + 1, size, products.data());
      for (std::size_t b = 0; b <= a; ++b) covariance_[a * dimensions + b] += products[b];
    }
  }
  for (std::size_t a = 0; a < dimensions; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      covariance_[a * dimensions + b] /= total_weight;
      covariance_[b * dimensions + a] = covariance_[a * dimensions + b];
    }
    covariance_[a * dimensions + a] += regularisation;
  }
  invert_cholesky();
}

void GaussianComponent::set(std::vector<double> mean, std::vector<double> covariance) {
  mean_ = std::move(mean);
  covariance_ = std::move(covariance);
  invert_cholesky();
}

void GaussianComponent::invert_cholesky() {
  const std::size_t n = mean_.size();
  std::vector<double> lower(n * n, 0);
  log_scale_ = -0.5 * static_cast<double>(n) * std::log(2 * std::numbers::pi);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      double value = covariance_[a * n + b];
      for (std::size_t c = 0; c < b; ++c) value -= lower[a * n + c] * lower[b * n + c];
      if (a == b) {
        if (!(value > 0) || !std::isfinite(value)) {
          throw std::domain_error("a covariance is not positive definite");
        }
        lower[a * n + a] = std::sqrt(value);
        log_scale_ -= std::log(lower[a * n + a]);
      } else {
        lower[a * n + b] = value / lower[b * n + b];
      }
    }
  }
  whitening_.assign(n * n, 0);
  for (std::size_t a = 0; a < n; ++a) {
    whitening_[a * n + a] = 1 / lower[a * n + a];
    for (std::size_t b = 0; b < a; ++b) {
      double value = 0;
      for (std::size_t c = b; c < a; ++c) value -= lower[a * n + c] * whitening_[c * n + b];
      whitening_[a * n + b] = value / lower[a * n + a];
    }
  }
}

void GaussianComponent::log_density(const Columns& columns, std::size_t rows, double* out) const {
  const std::size_t dimensions = mean_.size();
  std::vector<double> centred(dimensions * kBlock), whitened(kBlock);
  for (std::size_t start = 0; start < rows; start += kBlock) {
    const std::size_t size = std::min(kBlock, rows - start);
    double* block_out = out + start;
    squared_distances(columns.data(), mean_.data(), whitening_.data(), dimensions, start, size, centred.data(),
                      whitened.data(), block_out);
    for (std::size_t i = 0; i < size; ++i) block_out[i] = log_scale_ - 0.5 * block_out[i];
  }
}
