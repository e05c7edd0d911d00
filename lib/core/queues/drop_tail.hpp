// First in, first out; a packet that does not fit is dropped. Limits are in packets and in bytes; one that is not used
// is unlimited.
#pragma once
#include "queues/queue_numbers.hpp"
#include "queues/queue_rule.hpp"

class DropTail {
 public:
  static constexpr const char* name = "drop_tail";
  static constexpr bool decides_at_departure = false;
  static DropTail from(const QueueNumbers& numbers) { return DropTail(numbers.limit(0), numbers.limit(1)); }

  DropTail(std::uint64_t limit_packets, std::uint64_t limit_bytes)
      : limit_packets_(limit_packets), limit_bytes_(limit_bytes) {}

  Verdict arrival(const Backlog& waiting, const PacketFacts& packet, Time) {
    const bool fits = waiting.packets < limit_packets_ && waiting.bytes + packet.bytes <= limit_bytes_;
    return fits ? Verdict::accept : Verdict::drop;
  }
  Verdict departure(const Backlog&, Time, const PacketFacts&, Time) { return Verdict::accept; }

 private:
  std::uint64_t limit_packets_, limit_bytes_;
};
