// Drop-tail with a phantom queue (HULL, Alizadeh et al., NSDI 2012): a counter of bytes that takes in what the link
// sends, in the order and at the time of sending, and drains at a share of the link's rate. A packet that leaves it
// above a threshold is marked.
#pragma once
#include <algorithm>

#include "queues/queue_numbers.hpp"
#include "queues/queue_rule.hpp"

class PhantomQueue {
 public:
  static constexpr const char* name = "phantom_queue";
  static constexpr bool decides_at_departure = false;
  static PhantomQueue from(const QueueNumbers& numbers) {
    return PhantomQueue(numbers.whole(0), numbers.real(1), numbers.real(2), numbers.time_per_byte());
  }

  PhantomQueue(std::uint64_t limit_packets, double drain_share, double threshold_bytes, double time_per_byte)
      : limit_packets_(limit_packets),
        drain_share_(drain_share),
        threshold_bytes_(threshold_bytes),
        time_per_byte_(time_per_byte) {}

  Verdict arrival(const Backlog& waiting, const PacketFacts& packet, Time now) {
    if (waiting.packets >= limit_packets_) return Verdict::drop;
    const double sent = static_cast<double>(std::max(waiting.idle_since, now)) + packet.bytes * time_per_byte_;
    level_ = std::max(level_ - (sent - last_sent_) * drain_share_ / time_per_byte_, 0.0) + packet.bytes;
    last_sent_ = sent;
    return packet.ecn_capable && level_ > threshold_bytes_ ? Verdict::mark : Verdict::accept;
  }
  Verdict departure(const Backlog&, Time, const PacketFacts&, Time) { return Verdict::accept; }
  void stretch(double factor) { time_per_byte_ *= factor; }

  double level() const { return level_; }

 private:
  std::uint64_t limit_packets_;
  double drain_share_, threshold_bytes_, time_per_byte_;
  double level_ = 0, last_sent_ = 0;
};
