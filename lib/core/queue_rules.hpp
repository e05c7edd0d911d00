// Every queue rule there is, and any of them from its name and numbers, as netrepro.networks.compiled.queue_rule writes
// them: what the simulator, the relay and Dummynet's pipes have in front of a link.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "codel.hpp"
#include "drop_tail.hpp"
#include "ecn_threshold.hpp"
#include "phantom_queue.hpp"
#include "pie.hpp"
#include "queue_rule.hpp"
#include "red.hpp"
#include "shared_buffer.hpp"

using QueueRule = std::variant<DropTail, EcnThreshold, Red, CoDel, Pie, PhantomQueue, SharedBuffer>;

struct QueuePlace {
  double rate;                         // of the link, bit/s; 0: none
  Time second;                         // in the clock's units
  std::uint64_t seed, stream;          // of what is random
  std::shared_ptr<BufferPool> memory;  // of a shared buffer
  double packet_bytes = full_packet_bytes;  // of a full packet, by which RED counts idle time
};

// Throws std::invalid_argument for no such rule, std::out_of_range for too few numbers.
inline QueueRule queue_rule_named(const std::string& name, const std::vector<double>& values, const QueuePlace& place) {
  const auto whole = [&](std::size_t i) { return static_cast<std::uint64_t>(values.at(i)); };
  const auto limit = [&](std::size_t i) {
    return whole(i) > 0 ? whole(i) : std::numeric_limits<std::uint64_t>::max();
  };
  const auto second = static_cast<double>(place.second);
  const auto time = [&](std::size_t i) { return static_cast<Time>(std::llround(values.at(i) * second)); };
  const double time_per_byte = place.rate > 0 ? 8 * second / place.rate : 0;
  if (name == "drop_tail") return DropTail(limit(0), limit(1));
  if (name == "ecn_threshold") return EcnThreshold(whole(0), whole(1));
  if (name == "codel") return CoDel(whole(0), time(1), time(2), whole(3) > 0);
  if (name == "red") {
    const auto packet_time = static_cast<Time>(std::llround(place.packet_bytes * time_per_byte));
    const Red::Settings settings{whole(0),     values.at(1), values.at(2), values.at(3),
                                 values.at(4), whole(5) > 0, packet_time};
    return Red(settings, place.seed, place.stream);
  }
  if (name == "pie")
    return Pie({whole(0), time(1), time(2), time(3), place.second, whole(4) > 0}, place.seed, place.stream);
  if (name == "phantom_queue") return PhantomQueue(whole(0), values.at(1), values.at(2), time_per_byte);
  if (name == "shared_buffer") return SharedBuffer(place.memory, whole(0), values.at(1), limit(2));
  throw std::invalid_argument("no queue rule " + name);
}
