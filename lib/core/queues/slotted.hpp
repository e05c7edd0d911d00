// A first-in first-out queue that is open only in slots, like a channel that many share: the `slot` of Linux's netem. A
// packet that comes after the last slot has begun waits for the next one, which begins after a random gap. Then all
// packets that wait by that time leave one behind the other, up to so many packets or bytes. The gap before the next
// slot begins with the last of these. A packet that comes while a slot's packets leave waits for the next slot.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/random_stream.hpp"
#include "base/ring.hpp"
#include "queues/queue_discipline.hpp"
#include "queues/queue_numbers.hpp"

class Slotted final : public QueueDiscipline {
 public:
  static constexpr const char* name = "slotted";
  struct Settings {
    std::uint64_t limit_packets;
    Time least_gap, most_gap;
    std::uint64_t slot_packets, slot_bytes;
  };
  static Slotted from(const QueueNumbers& numbers) {
    return Slotted({numbers.whole(0), numbers.time(1), numbers.time(2), numbers.limit(3), numbers.limit(4)},
                   RandomStream(numbers.place.seed, numbers.place.stream));
  }

  Slotted(const Settings& settings, RandomStream random)
      : settings_(settings), random_(random), packets_left_(settings.slot_packets), bytes_left_(settings.slot_bytes) {}

  void join(const QueuedPacket& packet, Time, std::vector<QueuedPacket>& dropped) override {
    if (packets() >= settings_.limit_packets) return dropped.push_back(packet);
    count_in(packet);
    waiting_.push(packet);
  }

  std::optional<QueuedPacket> next(Time now, std::vector<QueuedPacket>&) override {
    if (waiting_.empty()) return std::nullopt;
    if (slot_ < waiting_.front().arrived) begin_gap(now);
    if (slot_ > now) return std::nullopt;
    const QueuedPacket packet = waiting_.front();
    waiting_.pop();
    count_out(packet);
    const bool is_last = --packets_left_ == 0 || bytes_left_ <= packet.bytes;
    bytes_left_ -= packet.bytes;
    if (is_last) begin_gap(now);
    return packet;
  }

  Time ready_at() const override { return waiting_.empty() ? never : slot_; }

  void clear(std::vector<QueuedPacket>& dropped) override {
    for (; !waiting_.empty(); waiting_.pop()) {
      count_out(waiting_.front());
      dropped.push_back(waiting_.front());
    }
  }

 private:
  void begin_gap(Time now) {
    const auto more = static_cast<double>(settings_.most_gap - settings_.least_gap);
    slot_ = now + settings_.least_gap + (more > 0 ? static_cast<Time>(random_.uniform() * more) : 0);
    packets_left_ = settings_.slot_packets;
    bytes_left_ = settings_.slot_bytes;
  }

  Settings settings_;
  RandomStream random_;
  Ring<QueuedPacket> waiting_;
  Time slot_ = -1;  // when the last one began, or the next one will
  std::uint64_t packets_left_, bytes_left_;
};
