// The list of all queue rules; any of them is made from its name and numbers. A new rule is a file with its class and a
// place in this list; README.md shows it.
#pragma once
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "queues/codel.hpp"
#include "queues/drop_tail.hpp"
#include "queues/ecn_threshold.hpp"
#include "queues/linux_codel.hpp"
#include "queues/linux_pie.hpp"
#include "queues/linux_red.hpp"
#include "queues/phantom_queue.hpp"
#include "queues/pie.hpp"
#include "queues/queue_numbers.hpp"
#include "queues/red.hpp"
#include "queues/shared_buffer.hpp"

using QueueRule =
    std::variant<DropTail, EcnThreshold, LinuxRed, LinuxCoDel, LinuxPie, Red, CoDel, Pie, PhantomQueue, SharedBuffer>;

template <class... Rules>
std::optional<QueueRule> find_queue_rule(const std::variant<Rules...>*, const std::string& name,
                                         const QueueNumbers& numbers) {
  std::optional<QueueRule> found;
  ((name == Rules::name ? (found.emplace(Rules::from(numbers)), true) : false) || ...);
  return found;
}

// Throws std::invalid_argument for an unknown rule, std::out_of_range for too few numbers.
inline QueueRule queue_rule_named(const std::string& name, const std::vector<double>& values, const QueuePlace& place) {
  auto found = find_queue_rule(static_cast<const QueueRule*>(nullptr), name, {values, place});
  if (!found) throw std::invalid_argument("no queue rule " + name);
  return std::move(*found);
}

inline bool decides_at_departure(const QueueRule& rule) {
  return std::visit([](const auto& each) { return std::decay_t<decltype(each)>::decides_at_departure; }, rule);
}

// Tells a rule that packets take so many times as long to send.
inline void stretch_rule(QueueRule& rule, double factor) {
  std::visit(
      [&](auto& each) {
        if constexpr (requires { each.stretch(factor); }) each.stretch(factor);
      },
      rule);
}
