// The scheduler that MPTCP began with (Raiciu et al., NSDI 2012; Paasch et al., CSWS 2014): the subflow with the
// shortest round trip sends all that its window allows, then the next one does.
#pragma once
#include <algorithm>

#include "multipath/subflow_scheduler.hpp"

class LowestRtt : public SubflowScheduler {
 public:
  void order(std::vector<Subflow>& subflows) const override {
    std::sort(subflows.begin(), subflows.end(), [](const Subflow& a, const Subflow& b) {
      return a.round_trip != b.round_trip ? a.round_trip < b.round_trip : a.place < b.place;
    });
  }
  bool takes_turns() const override { return false; }
};
