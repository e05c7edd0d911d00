#pragma once
#include <cstddef>
#include <vector>

#include "mixtures/gaussian_component.hpp"

struct Mixture {
  std::vector<double> weights;
  std::vector<GaussianComponent> components;
};

// Component-wise expectation maximisation with the minimum message length criterion:
// M. A. T. Figueiredo and A. K. Jain, "Unsupervised Learning of Finite Mixture Models", IEEE TPAMI 24(3), 2002.
// It starts with too many components; those that too few points support lose their weight and vanish.
class ComponentwiseEm {
 public:
  struct Settings {
    std::size_t smallest_count = 1;  // of components to try
    double regularisation = 1e-6;
    double tolerance = 1e-5;        // relative change of the message length at which a fit has settled
    std::size_t longest_fit = 100;  // sweeps before the next component is removed
  };

  ComponentwiseEm(Columns columns, std::size_t rows, const Settings& settings);

  // Fits, starting from these means (row by row) and one variance for all. Keeps the mixture of the shortest message.
  void fit(const std::vector<double>& means, double variance);

  const Mixture& best() const { return best_; }
  double message_length() const { return best_length_; }  // in nats
  double log_likelihood() const { return best_log_likelihood_; }
  std::size_t sweeps() const { return sweeps_; }
  bool settled() const { return settled_; }  // whether the best mixture's fit did

 private:
  double& log_density(std::size_t row, std::size_t component) { return log_densities_[row * width_ + component]; }
  double& density(std::size_t row, std::size_t component) { return densities_[row * width_ + component]; }

  void evaluate(std::size_t component);
  void scale_row(std::size_t row);
  double total_density(std::size_t row);
  void sweep();
  void normalise_weights();
  double log_likelihood_now();
  double message_length_of(double log_likelihood) const;
  void keep_if_best(double length, double log_likelihood, bool settled);
  void remove_weakest();

  Columns columns_;
  std::size_t rows_, width_ = 0;
  Settings settings_;
  double parameters_;  // of one component
  std::vector<double> weights_;
  std::vector<GaussianComponent> components_;
  std::vector<std::size_t> alive_;
  // Densities are kept relative to a reference of each point, since those of many dimensions underflow.
  std::vector<double> log_densities_, densities_, references_, share_, column_, scaled_;

  Mixture best_;
  double best_length_ = 0, best_log_likelihood_ = 0;
  std::size_t sweeps_ = 0;
  bool settled_ = false;
};
