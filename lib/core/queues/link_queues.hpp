// What may stand in front of a link: a rule or a discipline. A rule decides when packets come, so that the link can
// work out at once when each will leave. A discipline is asked for a packet whenever the link may send one.
#pragma once
#include <memory>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "queues/dual_pi2.hpp"
#include "queues/fq_codel.hpp"
#include "queues/linux_fq.hpp"
#include "queues/nic_pacer.hpp"
#include "queues/queue_discipline.hpp"
#include "queues/queue_rules.hpp"
#include "queues/ruled_fifo.hpp"
#include "queues/sfq.hpp"
#include "queues/slotted.hpp"

// The disciplines that are no rules. A new one is added here.
using QueueDisciplines = std::tuple<Sfq, FqCoDel<LinuxCoDel>, FqCoDel<CoDel>, LinuxFq, DualPi2, NicPacer, Slotted>;
using LinkQueue = std::variant<QueueRule, std::unique_ptr<QueueDiscipline>>;

template <class... Disciplines>
std::unique_ptr<QueueDiscipline> find_discipline(const std::tuple<Disciplines...>*, const std::string& name,
                                                 const QueueNumbers& numbers) {
  std::unique_ptr<QueueDiscipline> found;
  ((name == Disciplines::name ? (found = std::make_unique<Disciplines>(Disciplines::from(numbers)), true) : false) ||
   ...);
  return found;
}

// Makes a discipline of a queue. Throws std::invalid_argument for no such name, std::out_of_range for too few numbers.
inline std::unique_ptr<QueueDiscipline> discipline_named(const std::string& name, const std::vector<double>& values,
                                                         const QueuePlace& place) {
  auto found = find_discipline(static_cast<const QueueDisciplines*>(nullptr), name, {values, place});
  return found ? std::move(found) : std::make_unique<RuledFifo>(queue_rule_named(name, values, place));
}

inline LinkQueue link_queue_named(const std::string& name, const std::vector<double>& values, const QueuePlace& place) {
  auto rule = find_queue_rule(static_cast<const QueueRule*>(nullptr), name, {values, place});
  if (rule && !decides_at_departure(*rule)) return std::move(*rule);
  if (rule) return std::make_unique<RuledFifo>(std::move(*rule));
  return discipline_named(name, values, place);
}
