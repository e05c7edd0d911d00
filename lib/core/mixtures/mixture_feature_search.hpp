#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "mixtures/gaussian_component.hpp"

// One fold of sequential forward selection for a classifier with one Gaussian mixture a class.
//
// A candidate feature is tried without a new fit. Given the responsibilities under the features chosen so far (which
// component answers for which point), the mixture with one more feature is p(chosen | component) times a regression of
// the new feature on the chosen ones. All candidates share the first factor and one pass over the points. The most
// promising candidates are then refined by expectation maximisation.
class MixtureFeatureSearch {
 public:
  struct Settings {
    std::size_t components = 5;
    double regularisation = 1e-6;
    bool weigh_by_prior = true;
    std::vector<bool> scored;  // the classes that the mean F1 is taken over
  };

  // `columns` hold every point; labels are 0, 1, ... in the order of the classes.
  MixtureFeatureSearch(const Columns& columns, const std::vector<uint32_t>& labels,
                       const std::vector<std::size_t>& training, const std::vector<std::size_t>& testing,
                       const Settings& settings);

  // Macro-F1 on the testing points with each candidate added, without refinement.
  std::vector<double> rank(const std::vector<std::size_t>& candidates) const;

  // The same for one candidate after so many iterations of expectation maximisation.
  double try_out(std::size_t candidate, std::size_t iterations);

  // Adds the candidate for good and returns its macro-F1. Iterations that try_out() has done are not repeated.
  double choose(std::size_t candidate, std::size_t iterations);

 private:
  struct ClassModel {
    std::vector<double> responsibilities;  // component by component
    std::vector<double> log_weights;       // minus infinity for a component that answers for nothing
    std::vector<GaussianComponent> components;
  };
  struct Trial {
    std::size_t iterations = 0;
    std::vector<ClassModel> models;
  };
  struct Points {
    std::size_t rows = 0;
    std::vector<double> values;  // feature by feature
    const double* column(std::size_t feature) const { return values.data() + feature * rows; }
    Columns columns(const std::vector<std::size_t>& features) const;
  };

  Points gather(const Columns& columns, const std::vector<std::size_t>& rows) const;
  void start(ClassModel& model, const Points& points, std::size_t feature) const;
  void maximise(ClassModel& model, const Columns& columns, std::size_t rows) const;
  void expect(ClassModel& model, const Columns& columns, std::size_t rows) const;
  std::vector<ClassModel> with_candidate(std::size_t candidate) const;
  void refine(std::vector<ClassModel>& models, std::size_t candidate, std::size_t iterations) const;
  std::vector<std::size_t> chosen_and(std::size_t candidate) const;
  double score_models(const std::vector<ClassModel>& models, const std::vector<std::size_t>& features) const;
  double score_candidate(std::size_t candidate) const;
  std::vector<uint32_t> likeliest(const std::vector<std::vector<double>>& joint) const;
  double macro_f1(const std::vector<uint32_t>& predicted) const;

  std::size_t classes_;
  Settings settings_;
  std::vector<Points> training_;  // of each class
  Points testing_;
  std::vector<uint32_t> truth_;
  std::vector<double> log_priors_;
  std::vector<std::size_t> chosen_;
  std::vector<ClassModel> models_;
  std::map<std::size_t, Trial> trials_;  // candidates tried out since the last choice
  // For each class, what all candidates share: log weight + log density of the testing points by component, and
  // responsibility x deviation from the mean of the training points by component and chosen feature.
  std::vector<std::vector<double>> testing_joint_, weighted_centred_;
};
