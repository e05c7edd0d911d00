#include "multipath/subflow_schedulers.hpp"

#include "base/registry.hpp"
#include "multipath/lowest_rtt.hpp"
#include "multipath/redundant.hpp"
#include "multipath/round_robin.hpp"

namespace {
template <class Scheduler>
std::unique_ptr<SubflowScheduler> made() {
  return std::make_unique<Scheduler>();
}

constexpr struct {
  const char* name;
  MakeScheduler make;
} registry[] = {
    {"lowest_rtt", made<LowestRtt>},
    {"round_robin", made<RoundRobin>},
    {"redundant", made<Redundant>},
};
}  // namespace

MakeScheduler scheduler_named(const std::string& name) { return made_by_name(registry, name, "scheduler of subflows"); }

std::vector<std::string> scheduler_names() { return names_in(registry); }
