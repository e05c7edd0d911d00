// The virtual waiting time of one path: what a packet that arrives now would wait. Capacity is one packet a time unit.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/random_stream.hpp"
#include "queueing/size_sampler.hpp"

class UnfinishedWork {
 public:
  // Bursts are a Poisson process, mean_interarrival apart on average (infinity: the path has none of its own).
  UnfinishedWork(const SizeSampler& sizes, double mean_interarrival, std::uint64_t seed, std::uint64_t stream)
      : sizes_(&sizes), mean_interarrival_(mean_interarrival), random_(seed, stream) {
    until_burst_ = mean_interarrival_ * random_.exponential();
  }

  void advance(double duration) {
    while (until_burst_ <= duration) {
      work_ = std::max(0.0, work_ - until_burst_) + (*sizes_)(random_);
      duration -= until_burst_;
      until_burst_ = mean_interarrival_ * random_.exponential();
    }
    work_ = std::max(0.0, work_ - duration);
    until_burst_ -= duration;
  }
  void add(double burst) { work_ += burst; }
  double now() const { return work_; }

 private:
  const SizeSampler* sizes_;
  double mean_interarrival_;
  RandomStream random_;
  double until_burst_ = 0, work_ = 0;
};
