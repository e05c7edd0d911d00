// A router's queue kept in user space, under any of the simulator's queue rules.
//
// Packets arrive when their own transmission could have ended, and the link's rate being known, so is when each is due to
// leave: a transmission after the one before. Either packets are handed to a kernel shaper (tbf, at the same rate) a
// little before, so that it and not this process times them: the shaper's clock is then the one that counts, and what
// waits in it, asked now and then, corrects ours. Or the queue paces them itself: they are handed on when they are due,
// by a process that is awake then.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <utility>
#include <variant>
#include <vector>

#include "ecn_bits.hpp"
#include "queue_rules.hpp"
#include "relayed_packet.hpp"

class RelayQueue {
 public:
  static constexpr Time most_lead_ns = 2'000'000, correction_interval_ns = 10'000'000;
  // A link that was held up makes up for so long at most, as the bucket of a kernel's shaper lets it, and not at once:
  // until then it is faster than its rate by that part of it. Else the gap behind a late packet were as much too short
  // as the one before it was too long.
  static constexpr Time catch_up_ns = 128'000, faster_by = 16;
  static constexpr Time longest_alone_ns = 40'000;

  struct Counts {
    std::uint64_t dropped = 0, marked = 0;
  };

  // The rule's times are nanoseconds.
  RelayQueue(QueueRule rule, double rate, bool paces)
      : rule_(std::move(rule)), nanoseconds_per_byte_(8e9 / rate), lead_ns_(paces ? 0 : most_lead_ns) {}
  RelayQueue(RelayQueue&&) = default;
  RelayQueue(const RelayQueue&) = delete;

  // A packet that arrives at `now`, no earlier than those before.
  void offer(RelayedPacket packet, Time now) {
    const PacketFacts facts{packet.size, ecn_bits::capable(packet.bytes.get(), packet.size)};
    Backlog backlog = waiting(now);
    backlog.idle_since += static_cast<Time>(static_cast<double>(queued_bytes_) * nanoseconds_per_byte_);
    came_ = std::max(came_, now - transmission_ns(packet.size));  // as rules take it: before it is sent
    const Verdict verdict = std::visit([&](auto& rule) { return rule.arrival(backlog, facts, came_); }, rule_);
    if (verdict == Verdict::drop) {
      ++counts_.dropped;
      return;
    }
    if (verdict == Verdict::mark) mark(packet);
    packet.release_ns = now;  // from here on: when it began to wait
    queued_bytes_ += packet.size;
    queued_.push_back(std::move(packet));
  }

  // Hands to feed(packet) what will leave within the lead.
  template <class Feed>
  void advance(Time now, Feed&& feed) {
    while (!queued_.empty() && next_departure() <= now + lead_ns_) {
      const Time due = next_due(), departure = next_departure();
      RelayedPacket packet = std::move(queued_.front());
      queued_.pop_front();
      queued_bytes_ -= packet.size;
      const Verdict verdict = at_departure(packet, departure);
      if (verdict == Verdict::drop) {
        ++counts_.dropped;
        continue;
      }
      if (verdict == Verdict::mark) mark(packet);
      free_at_ = due;
      fed_.push_back({departure, packet.size});
      fed_bytes_ += packet.size;
      feed(packet);
      if (paces()) departed(now);
    }
  }

  // The packet that was handed on last, by a queue that paces, has left at that time.
  void departed(Time time) {
    late_ns_ = std::max<Time>(time - free_at_, 0);
  }

  // What waits for the transmitter; the packet being sent does not.
  Backlog waiting(Time now) {
    while (!fed_.empty() && fed_.front().departure <= now) {
      fed_bytes_ -= fed_.front().bytes;
      fed_.pop_front();
    }
    return {queued_.size() + fed_.size(), queued_bytes_ + fed_bytes_, free_at_};
  }

  // When advance has something to do: half the lead before, so that packets go in batches.
  Time next_work() const { return queued_.empty() ? never : next_departure() - lead_ns_ / 2; }

  bool paces() const { return lead_ns_ == 0; }

  // For so long before next_work nothing else is begun that takes time, such as handing a packet to a kernel that
  // receives it, and answers it, at once.
  Time alone_ns() const { return std::min<Time>(longest_alone_ns, transmission_ns(full_packet_bytes) / 3); }

  // It is `now`: to a queue that paces no packet was due much earlier.
  void wake(Time now) {
    if (paces()) awake_since_ = now - catch_up_ns;
  }

  bool wants_correction(Time now) const {
    return !paces() && !fed_.empty() && now >= last_correction_ + correction_interval_ns;
  }

  // Sets the clock right by what the shaper holds now.
  void correct(std::int64_t shaper_bytes, Time now) {
    last_correction_ = now;
    waiting(now);
    const double off_bytes = static_cast<double>(shaper_bytes) - static_cast<double>(fed_bytes_);
    if (std::abs(off_bytes) <= one_packet_bytes) return;  // that far both may differ in counting the one being sent
    const auto shift = static_cast<Time>(off_bytes * nanoseconds_per_byte_);
    for (Fed& each : fed_) each.departure += shift;
    free_at_ += shift;
  }

  // Another rate, of the shaper behind too: for what has not left, but for the packet that is next.
  void set_rate(double rate, Time now) {
    const double factor = 8e9 / rate / std::exchange(nanoseconds_per_byte_, 8e9 / rate);
    stretch_rule(rule_, factor);
    waiting(now);
    if (fed_.empty()) return;
    const Time next = fed_.front().departure;
    const auto later = [&](Time time) { return next + static_cast<Time>(static_cast<double>(time - next) * factor); };
    for (Fed& each : fed_) each.departure = later(each.departure);
    free_at_ = later(free_at_);
  }

  const Counts& counts() const { return counts_; }

 private:
  static constexpr double one_packet_bytes = full_packet_bytes;
  struct Fed {
    Time departure;
    std::uint32_t bytes;
  };

  Time next_due() const {
    const RelayedPacket& next = queued_.front();
    return std::max({free_at_ + transmission_ns(next.size), next.release_ns, awake_since_});
  }
  Time next_departure() const {
    const Time sending = transmission_ns(queued_.front().size);
    return std::max(next_due(), free_at_ + sending + late_ns_ - sending / faster_by);
  }
  Time transmission_ns(std::uint32_t bytes) const { return static_cast<Time>(bytes * nanoseconds_per_byte_ + 0.5); }

  Verdict at_departure(const RelayedPacket& packet, Time departure) {
    const PacketFacts facts{packet.size, ecn_bits::capable(packet.bytes.get(), packet.size)};
    const Backlog left{queued_.size(), queued_bytes_, free_at_};
    return std::visit(
        [&](auto& rule) {
          if constexpr (std::decay_t<decltype(rule)>::decides_at_departure)
            return rule.departure(left, departure - packet.release_ns, facts, departure);
          else
            return Verdict::accept;
        },
        rule_);
  }

  void mark(RelayedPacket& packet) {
    ++counts_.marked;
    ecn_bits::mark(packet.bytes.get());
  }

  QueueRule rule_;
  double nanoseconds_per_byte_;
  std::deque<RelayedPacket> queued_;
  std::uint64_t queued_bytes_ = 0;
  std::deque<Fed> fed_;  // given to the shaper, not gone by our clock
  std::uint64_t fed_bytes_ = 0;
  Time lead_ns_, awake_since_ = 0;
  Time free_at_ = 0;  // when the packet handed on last was due
  Time late_ns_ = 0;  // so much later it left
  Time came_ = 0, last_correction_ = 0;
  Counts counts_;
};

// What the relay's queues of one switch share.
class RelayMemory : public BufferPool {
 public:
  std::vector<RelayQueue*> ports;
  std::uint64_t used_bytes(Time now) override {
    std::uint64_t used = 0;
    for (RelayQueue* port : ports) used += port->waiting(now).bytes;
    return used;
  }
};
