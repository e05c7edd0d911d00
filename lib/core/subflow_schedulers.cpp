#include "subflow_schedulers.hpp"

#include <stdexcept>

#include "lowest_rtt.hpp"
#include "redundant.hpp"
#include "round_robin.hpp"

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

MakeScheduler scheduler_named(const std::string& name) {
  for (const auto& entry : registry)
    if (name == entry.name) return entry.make;
  throw std::invalid_argument("no scheduler of subflows " + name);
}

std::vector<std::string> scheduler_names() {
  std::vector<std::string> names;
  for (const auto& entry : registry) names.emplace_back(entry.name);
  return names;
}
