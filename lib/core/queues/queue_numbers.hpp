// What a queue is made from: numbers, in the order in which the class of that name in netrepro.networks.queues gives
// them (times are seconds), and the place where it will stand.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "queues/draws.hpp"
#include "queues/queue_rule.hpp"

class BufferPool;

struct QueuePlace {
  double rate;                                          // of the link, bit/s; 0: none
  std::uint64_t seed, stream;                           // of its random numbers
  std::function<std::shared_ptr<BufferPool>()> memory;  // of a shared buffer
  double packet_bytes = full_packet_bytes;              // of a full packet, by which RED counts idle time
  Draws::Given draws = nullptr;                         // of Linux's queues, where they are known beforehand
};

// All members throw std::out_of_range for too few numbers.
class QueueNumbers {
 public:
  QueueNumbers(const std::vector<double>& values, const QueuePlace& place) : place(place), values_(values) {}

  double real(std::size_t i) const { return values_.at(i); }
  std::uint64_t whole(std::size_t i) const { return static_cast<std::uint64_t>(values_.at(i)); }
  bool flag(std::size_t i) const { return whole(i) > 0; }
  std::uint64_t limit(std::size_t i) const {  // 0: none
    return whole(i) > 0 ? whole(i) : std::numeric_limits<std::uint64_t>::max();
  }
  Time time(std::size_t i) const {
    return static_cast<Time>(std::llround(values_.at(i) * static_cast<double>(picoseconds_per_second)));
  }
  double time_per_byte() const {
    return place.rate > 0 ? 8 * static_cast<double>(picoseconds_per_second) / place.rate : 0;
  }
  Time packet_time(double bytes) const { return static_cast<Time>(std::llround(bytes * time_per_byte())); }

  const QueuePlace& place;

 private:
  const std::vector<double>& values_;
};
