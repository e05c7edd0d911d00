// M/G/1, first come first served, infinite buffer: the waits of jobs in order of arrival (Lindley's recursion).
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/random_stream.hpp"
#include "queueing/size_sampler.hpp"
#include "queueing/wait_histogram.hpp"

class SingleServerQueue {
 public:
  // Starts empty. Arrivals and sizes come from streams 0 and 1 of the seed.
  SingleServerQueue(SizeSampler sizes, double mean_interarrival, std::uint64_t seed)
      : sizes_(std::move(sizes)), mean_interarrival_(mean_interarrival), arrivals_(seed, 0), services_(seed, 1) {}

  // Serves the next jobs and gives each one's wait to record. Returns the sum of the waits.
  template <class Record>
  double serve(std::uint64_t jobs, Record&& record) {
    return sizes_.visit([&](const auto& size) {
      RandomStream arrivals = arrivals_, services = services_;  // in registers while the loop runs
      double wait = wait_, sum = 0;
      for (std::uint64_t job = 0; job < jobs; ++job) {
        record(wait);
        sum += wait;
        wait = std::max(0.0, wait + size(services) - mean_interarrival_ * arrivals.exponential());
      }
      arrivals_ = arrivals, services_ = services, wait_ = wait;
      return sum;
    });
  }

 private:
  SizeSampler sizes_;
  double mean_interarrival_;
  RandomStream arrivals_, services_;
  double wait_ = 0;
};
