#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings/module.hpp"
#include "mixtures/componentwise_em.hpp"
#include "mixtures/mixture_feature_search.hpp"

namespace py = pybind11;

namespace {

using Matrix = py::array_t<double, py::array::c_style | py::array::forcecast>;

// Features are rows here: the transpose of scikit-learn's layout.
Columns columns_of(const Matrix& features) {
  Columns columns;
  for (py::ssize_t a = 0; a < features.shape(0); ++a) columns.push_back(features.data(a, 0));
  return columns;
}

Matrix stacked(const std::vector<GaussianComponent>& components,
               const std::vector<double>& (GaussianComponent::*part)() const, std::vector<py::ssize_t> shape) {
  shape.insert(shape.begin(), static_cast<py::ssize_t>(components.size()));
  Matrix out(shape);
  double* to = out.mutable_data();
  for (const GaussianComponent& component : components) {
    const std::vector<double>& values = (component.*part)();
    to = std::copy(values.begin(), values.end(), to);
  }
  return out;
}

py::dict fit_componentwise(const Matrix& features, const Matrix& means, double variance, std::size_t smallest_count,
                           double regularisation, double tolerance, std::size_t longest_fit) {
  const auto rows = static_cast<std::size_t>(features.shape(1));
  ComponentwiseEm search(columns_of(features), rows, {smallest_count, regularisation, tolerance, longest_fit});
  const std::vector<double> start(means.data(), means.data() + means.size());
  {
    py::gil_scoped_release release;
    search.fit(start, variance);
  }
  const py::ssize_t dimensions = features.shape(0);
  py::dict out;
  const Mixture& best = search.best();
  out["weights"] = py::array_t<double>(best.weights.size(), best.weights.data());
  out["means"] = stacked(best.components, &GaussianComponent::mean, {dimensions});
  out["covariances"] = stacked(best.components, &GaussianComponent::covariance, {dimensions, dimensions});
  out["message_length"] = search.message_length();
  out["log_likelihood"] = search.log_likelihood();
  out["sweeps"] = search.sweeps();
  out["settled"] = search.settled();
  return out;
}

// Returns one row a component, one column a point.
Matrix gaussian_log_densities(const Matrix& features, const Matrix& means, const Matrix& covariances) {
  const auto dimensions = static_cast<std::size_t>(features.shape(0));
  const auto rows = static_cast<std::size_t>(features.shape(1));
  const Columns columns = columns_of(features);
  Matrix out({means.shape(0), features.shape(1)});
  double* to = out.mutable_data();
  std::vector<GaussianComponent> components(static_cast<std::size_t>(means.shape(0)));
  for (std::size_t m = 0; m < components.size(); ++m) {
    const double* mean = means.data() + m * dimensions;
    const double* covariance = covariances.data() + m * dimensions * dimensions;
    components[m].set({mean, mean + dimensions}, {covariance, covariance + dimensions * dimensions});
  }
  py::gil_scoped_release release;
  for (std::size_t m = 0; m < components.size(); ++m) components[m].log_density(columns, rows, to + m * rows);
  return out;
}

}  // namespace

void bind_mixtures(py::module_& module) {
  module.def("fit_componentwise", &fit_componentwise, py::arg("features"), py::arg("means"), py::kw_only(),
             py::arg("variance"), py::arg("smallest_count"), py::arg("regularisation"), py::arg("tolerance"),
             py::arg("longest_fit"));
  using Search = MixtureFeatureSearch;
  using Places = std::vector<std::size_t>;
  py::class_<Search>(module, "MixtureFeatureSearch")
      .def(py::init([](const Matrix& features, const std::vector<uint32_t>& labels, const Places& training,
                       const Places& testing, std::size_t components, double regularisation, bool weigh_by_prior,
                       const std::vector<bool>& scored) {
             return Search(columns_of(features), labels, training, testing,
                           {components, regularisation, weigh_by_prior, scored});
           }),
           py::arg("features"), py::arg("labels"), py::arg("training"), py::arg("testing"), py::kw_only(),
           py::arg("components"), py::arg("regularisation"), py::arg("weigh_by_prior"), py::arg("scored"))
      .def("rank", &Search::rank, py::call_guard<py::gil_scoped_release>())
      .def("try_out", &Search::try_out, py::call_guard<py::gil_scoped_release>())
      .def("choose", &Search::choose, py::call_guard<py::gil_scoped_release>());
  module.def("gaussian_log_densities", &gaussian_log_densities);
}
