// Marks every ECN-capable packet that finds `threshold` packets or more waiting (Alizadeh et al., SIGCOMM 2010, 3.1).
#pragma once
#include "queues/queue_numbers.hpp"
#include "queues/queue_rule.hpp"

class EcnThreshold {
 public:
  static constexpr const char* name = "ecn_threshold";
  static constexpr bool decides_at_departure = false;
  static EcnThreshold from(const QueueNumbers& numbers) { return EcnThreshold(numbers.whole(0), numbers.whole(1)); }

  EcnThreshold(std::uint64_t limit_packets, std::uint64_t threshold_packets)
      : limit_packets_(limit_packets), threshold_packets_(threshold_packets) {}

  Verdict arrival(const Backlog& waiting, const PacketFacts& packet, Time) {
    if (waiting.packets >= limit_packets_) return Verdict::drop;
    return packet.ecn_capable && waiting.packets >= threshold_packets_ ? Verdict::mark : Verdict::accept;
  }
  Verdict departure(const Backlog&, Time, const PacketFacts&, Time) { return Verdict::accept; }

 private:
  std::uint64_t limit_packets_, threshold_packets_;
};
