// Subflows carry a segment each in turn; a subflow without room is passed over (Paasch et al., CSWS 2014, section 2.1).
// Where the stream would fill every window anyway, this is as good as any other order.
#pragma once
#include <algorithm>

#include "multipath/subflow_scheduler.hpp"

class RoundRobin : public SubflowScheduler {
 public:
  // `subflows` come in the order of their places. Those behind the one that carried last go first.
  void order(std::vector<Subflow>& subflows) const override {
    const auto behind = std::find_if(subflows.begin(), subflows.end(),
                                     [this](const Subflow& subflow) { return subflow.place > last_; });
    std::rotate(subflows.begin(), behind, subflows.end());
  }
  bool takes_turns() const override { return true; }
  void on_carried(std::uint32_t subflow, std::uint64_t) override { last_ = subflow; }

 private:
  std::uint32_t last_ = 0;
};
