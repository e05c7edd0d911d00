#include "queueing/replicated_flows.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace {
double rarer(double interarrival, double share) {
  return share > 0 ? interarrival / share : std::numeric_limits<double>::infinity();
}
}  // namespace

ReplicatedFlows::ReplicatedFlows(SizeSampler bursts, const Settings& settings)
    : settings_(settings), bursts_(std::move(bursts)), common_(settings.seed, 0), flows_(settings.seed, 1) {
  if (settings.paths < 1 || settings.copies < 1) throw std::invalid_argument("needs a path and a copy, or more");
  if (settings.choice == Choice::distinct && settings.copies > settings.paths)
    throw std::invalid_argument("more copies than distinct paths");
  common_interarrival_ = rarer(settings.mean_interarrival, settings.correlation);
  until_common_ = common_interarrival_ * common_.exponential();
  const double own_interarrival = rarer(settings.mean_interarrival, 1 - settings.correlation);
  for (std::size_t path = 0; path < settings.paths; ++path)
    work_.emplace_back(bursts_, own_interarrival, settings.seed, 2 + path);
  order_.resize(settings.paths);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  chosen_.resize(settings.copies);
}

void ReplicatedFlows::advance(double duration) {
  while (until_common_ <= duration) {
    const double burst = bursts_(common_);
    for (UnfinishedWork& path : work_) {
      path.advance(until_common_);
      path.add(burst);
    }
    duration -= until_common_;
    until_common_ = common_interarrival_ * common_.exponential();
  }
  for (UnfinishedWork& path : work_) path.advance(duration);
  until_common_ -= duration;
}

void ReplicatedFlows::choose_paths() {
  switch (settings_.choice) {
    case Choice::hashed:
      for (std::size_t& path : chosen_) path = flows_.below(settings_.paths);
      break;
    case Choice::same:
      std::fill(chosen_.begin(), chosen_.end(), flows_.below(settings_.paths));
      break;
    case Choice::distinct:
      for (std::size_t copy = 0; copy < chosen_.size(); ++copy) {
        std::swap(order_[copy], order_[copy + flows_.below(settings_.paths - copy)]);
        chosen_[copy] = order_[copy];
      }
      break;
  }
}

void ReplicatedFlows::run(const double* rounds, std::size_t flows, double* delays) {
  for (std::size_t flow = 0; flow < flows; ++flow, delays += settings_.copies) {
    choose_paths();
    std::fill_n(delays, settings_.copies, 0.0);
    double gap = settings_.flow_gap;
    for (double left = rounds[flow]; left > 0; left -= 1, gap = settings_.round_gap) {
      advance(gap * flows_.exponential());
      const double share = std::min(left, 1.0);
      for (std::size_t copy = 0; copy < settings_.copies; ++copy) delays[copy] += share * work_[chosen_[copy]].now();
    }
  }
}

void ReplicatedFlows::run_first_open(const double* rounds, std::size_t flows, double* delays) {
  for (std::size_t flow = 0; flow < flows; ++flow) {
    choose_paths();
    advance(settings_.flow_gap * flows_.exponential());
    const auto waits_less = [this](std::size_t one, std::size_t other) {
      return work_[one].now() < work_[other].now();
    };
    const UnfinishedWork& path = work_[*std::min_element(chosen_.begin(), chosen_.end(), waits_less)];
    delays[flow] = 0;
    for (double left = rounds[flow]; left > 0; left -= 1) {
      advance(settings_.round_gap * flows_.exponential());
      delays[flow] += std::min(left, 1.0) * path.now();
    }
  }
}
