#pragma once
#include <cstddef>
#include <vector>

// Features as columns of equal length; a selection of features is a selection of pointers.
using Columns = std::vector<const double*>;

// A normal distribution with full covariance, fitted to weighted points.
class GaussianComponent {
 public:
  // Weighted mean and covariance, with `regularisation` added to every variance.
  // Throws std::domain_error where the covariance is not positive definite.
  void fit(const Columns& columns, std::size_t rows, const double* weights, double total_weight, double regularisation);

  // Throws as fit() does; the covariance is row by row.
  void set(std::vector<double> mean, std::vector<double> covariance);

  // The log density of every point.
  void log_density(const Columns& columns, std::size_t rows, double* out) const;

  const std::vector<double>& mean() const { return mean_; }
  const std::vector<double>& covariance() const { return covariance_; }

 private:
  void invert_cholesky();

  std::vector<double> mean_, covariance_;
  std::vector<double> whitening_;  // the inverse of the covariance's lower Cholesky factor
  double log_scale_ = 0;           // the log density at the mean
};
