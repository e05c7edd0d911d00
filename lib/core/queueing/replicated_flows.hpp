// Flows that are sent several times over parallel M/G/1 paths, and how long each copy waits in queues.
//
// Bursts load every path alike; a share of them may hit all paths at once (correlation). Flows are probes: once a round
// they look at the unfinished work of their paths. They add no work, since their load is part of the bursts'. The times
// of these looks are independent of the queues, so that every look sees the stationary wait. The paths' bursts depend
// on the seed only: runs that differ in copies or choice of paths see the same queues.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random_stream.hpp"
#include "queueing/size_sampler.hpp"
#include "queueing/unfinished_work.hpp"

class ReplicatedFlows {
 public:
  enum class Choice { hashed, distinct, same };  // each copy draws its path | all paths differ | one path for all
  struct Settings {
    std::size_t paths;
    double mean_interarrival;  // between bursts on one path, common ones included
    double correlation;        // share of a path's bursts that hit all paths at once, 0 to 1
    std::size_t copies;
    Choice choice;
    double round_gap, flow_gap;  // mean time from one look to the next; from a flow's last look to the next flow
    std::uint64_t seed;
  };

  ReplicatedFlows(SizeSampler bursts, const Settings& settings);
  ReplicatedFlows(const ReplicatedFlows&) = delete;  // the paths point into it
  ReplicatedFlows& operator=(const ReplicatedFlows&) = delete;

  double mean_interarrival() const { return settings_.mean_interarrival; }
  std::size_t copies() const { return settings_.copies; }
  void advance(double duration);
  // Runs one flow after another. rounds[i] may end in a fraction: the last look counts by that fraction only. delays[i
  // * copies + j] becomes the sum of the waits that copy j of flow i meets.
  void run(const double* rounds, std::size_t flows, double* delays);
  // The same with RepSYN: a round before the data, a SYN looks at each copy's path. The data take the path whose SYN
  // waited least. delays[i] becomes the sum of the waits that the data of flow i meet.
  void run_first_open(const double* rounds, std::size_t flows, double* delays);

 private:
  void choose_paths();

  Settings settings_;
  SizeSampler bursts_;
  RandomStream common_, flows_;
  double until_common_;
  double common_interarrival_;
  std::vector<UnfinishedWork> work_;
  std::vector<std::size_t> order_, chosen_;
};
