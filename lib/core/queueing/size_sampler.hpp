// The size of a job: constant, exponential or from a piecewise-linear distribution function.
#pragma once
#include <utility>
#include <variant>

#include "base/random_stream.hpp"
#include "queueing/piecewise_sampler.hpp"

class SizeSampler {
 public:
  struct Constant {
    double size;
    double operator()(RandomStream&) const { return size; }
  };
  struct Exponential {
    double mean;
    double operator()(RandomStream& random) const { return mean * random.exponential(); }
  };

  explicit SizeSampler(std::variant<Constant, Exponential, PiecewiseSampler> kind) : kind_(std::move(kind)) {}

  // Calls action with the sampler's own type, so that a loop inside it is compiled for that type.
  template <class Action>
  auto visit(Action&& action) const {
    return std::visit(std::forward<Action>(action), kind_);
  }
  double operator()(RandomStream& random) const {
    return visit([&](const auto& sampler) { return sampler(random); });
  }

 private:
  std::variant<Constant, Exponential, PiecewiseSampler> kind_;
};
