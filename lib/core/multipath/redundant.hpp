// Every subflow carries the whole stream, and what arrives first counts (Frömmgen et al., "ReMP TCP", ICC 2016). A
// subflow that falls behind goes on with what is not acknowledged yet.
#pragma once
#include <algorithm>

#include "multipath/subflow_scheduler.hpp"

class Redundant : public SubflowScheduler {
 public:
  void order(std::vector<Subflow>&) const override {}
  bool takes_turns() const override { return true; }
  bool chooses_segments() const override { return true; }
  std::optional<std::uint64_t> segment_for(std::uint32_t subflow, const Stream& stream) const override {
    const std::uint64_t own = subflow < next_.size() ? next_[subflow] : 0;
    const std::uint64_t segment = std::max(own, stream.first);
    return segment < stream.next || stream.may_grow ? std::optional(segment) : std::nullopt;
  }
  void on_carried(std::uint32_t subflow, std::uint64_t segment) override {
    if (subflow >= next_.size()) next_.resize(subflow + 1, 0);
    next_[subflow] = segment + 1;
  }

 private:
  std::vector<std::uint64_t> next_;  // by subflow: the segment that it has not carried yet
};
