// Drop-tail in a memory that several ports share, with dynamic thresholds (Choudhury and Hahne, ToN 1998): a port may
// hold up to alpha times the free memory.
#pragma once
#include <memory>

#include "queues/queue_numbers.hpp"
#include "queues/queue_rule.hpp"

class BufferPool {
 public:
  virtual ~BufferPool() = default;
  virtual std::uint64_t used_bytes(Time now) = 0;  // by all ports
};

class SharedBuffer {
 public:
  static constexpr const char* name = "shared_buffer";
  static constexpr bool decides_at_departure = false;
  static SharedBuffer from(const QueueNumbers& numbers) {
    return SharedBuffer(numbers.place.memory(), numbers.whole(0), numbers.real(1), numbers.limit(2));
  }

  SharedBuffer(std::shared_ptr<BufferPool> pool, std::uint64_t limit_bytes, double alpha, std::uint64_t mark_packets)
      : pool_(std::move(pool)), limit_bytes_(limit_bytes), alpha_(alpha), mark_packets_(mark_packets) {}

  Verdict arrival(const Backlog& waiting, const PacketFacts& packet, Time now) {
    const std::uint64_t free = limit_bytes_ - pool_->used_bytes(now);
    if (packet.bytes > free) return Verdict::drop;
    if (static_cast<double>(waiting.bytes) >= alpha_ * static_cast<double>(free)) return Verdict::drop;
    return packet.ecn_capable && waiting.packets >= mark_packets_ ? Verdict::mark : Verdict::accept;
  }
  Verdict departure(const Backlog&, Time, const PacketFacts&, Time) { return Verdict::accept; }

 private:
  std::shared_ptr<BufferPool> pool_;
  std::uint64_t limit_bytes_;
  double alpha_;
  std::uint64_t mark_packets_;
};
