// One direction of a cable: a queue, a transmitter, and a wire on which packets travel.
//
// A rule that decides on arrival only lets the link work out at once when a packet will leave and arrive, which takes
// one event a packet. CoDel decides at departure, so that its link also has an event at the end of each transmission.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "codel.hpp"
#include "drop_tail.hpp"
#include "ecn_threshold.hpp"
#include "queue_rule.hpp"
#include "random_stream.hpp"
#include "red.hpp"
#include "ring.hpp"
#include "simulated_time.hpp"

class SimulatedLink {
 public:
  using Rule = std::variant<DropTail, EcnThreshold, Red, CoDel>;
  struct Counts {
    std::uint64_t offered_packets = 0, sent_packets = 0, sent_bytes = 0, dropped_packets = 0, marked_packets = 0,
                  lost_packets = 0;
    Time busy = 0;
  };
  struct Departure {  // of a packet whose last bit has left
    std::uint32_t flow, bytes;
    Time time, waited;
  };

  // Rate in bits per second, jitter the standard deviation of the delay, loss a probability a packet.
  SimulatedLink(double rate, Time delay, Time jitter, double loss, Rule rule, RandomStream losses, RandomStream jitters)
      : picoseconds_per_byte_(8 * static_cast<double>(picoseconds_per_second) / rate),
        delay_(delay),
        jitter_(jitter),
        rule_(std::move(rule)),
        waits_for_transmitter_(std::holds_alternative<CoDel>(rule_)),
        loss_(loss),
        losses_(losses),
        jitters_(jitters) {}

  Verdict offer(std::uint32_t packet, std::uint32_t bytes, std::uint32_t flow, bool ecn_capable, Time now) {
    ++counts_.offered_packets;
    const PacketFacts facts{bytes, ecn_capable};
    const Backlog backlog = waiting(now);
    const Verdict verdict = std::visit([&](auto& rule) { return rule.arrival(backlog, facts, now); }, rule_);
    if (verdict == Verdict::drop) return ++counts_.dropped_packets, verdict;
    counts_.marked_packets += verdict == Verdict::mark;
    if (waits_for_transmitter_) {
      queue_.push({packet, bytes, flow, ecn_capable, now});
      queue_bytes_ += bytes;
    } else {
      transmit(packet, bytes, flow, now, free_at_ > now ? free_at_ : now);
      waiting_bytes_ += bytes;
    }
    return verdict;
  }

  // Packets that wait for the transmitter; the one being sent does not.
  Backlog waiting(Time now) {
    if (waits_for_transmitter_) return {queue_.size(), queue_bytes_, free_at_};
    while (next_to_start_ != wire_.tail() && wire_[next_to_start_].start <= now)
      waiting_bytes_ -= wire_[next_to_start_++].bytes;
    return {wire_.tail() - next_to_start_, waiting_bytes_, free_at_};
  }

  // For rules that decide at departure: sends the next packet if the transmitter is free. discard(packet) and
  // mark(packet) hear what the rule decides. True when a transmission has begun; it ends at free_at().
  template <class Discard, class Mark>
  bool start_transmission(Time now, Discard&& discard, Mark&& mark) {
    if (!waits_for_transmitter_ || free_at_ > now) return false;
    while (!queue_.empty()) {
      const Queued next = queue_.front();
      queue_.pop();
      queue_bytes_ -= next.bytes;
      const Backlog left{queue_.size(), queue_bytes_, free_at_};
      const PacketFacts facts{next.bytes, next.ecn_capable};
      const Verdict verdict = std::get<CoDel>(rule_).departure(left, now - next.arrived, facts, now);
      if (verdict == Verdict::drop) {
        ++counts_.dropped_packets;
        discard(next.packet);
        continue;
      }
      if (verdict == Verdict::mark) ++counts_.marked_packets, mark(next.packet);
      transmit(next.packet, next.bytes, next.flow, next.arrived, now);
      next_to_start_ = wire_.tail();
      return true;
    }
    return false;
  }

  Time next_arrival() const { return wire_.empty() ? never : wire_.front().arrival; }
  // Takes the packet that arrives at the far end next; false when the wire loses it.
  std::pair<std::uint32_t, bool> take_arrival() {
    const std::uint32_t packet = wire_.front().packet;
    wire_.pop();
    if (next_to_start_ < wire_.head()) {  // nobody has looked at the queue since it started
      waiting_bytes_ -= waits_for_transmitter_ ? 0 : wire_[next_to_start_].bytes;
      next_to_start_ = wire_.head();
    }
    const bool kept = loss_ == 0 || losses_.uniform() >= loss_;
    counts_.lost_packets += !kept;
    return {packet, kept};
  }

  bool waits_for_transmitter() const { return waits_for_transmitter_; }
  Time free_at() const { return free_at_; }
  Time last_start() const { return wire_.empty() ? 0 : wire_[wire_.tail() - 1].start; }
  void record_departures() { records_ = true; }
  const std::vector<Departure>& departures() const { return departures_; }

  // What had left by `end`: transmissions under way or still to come are taken out.
  Counts counts(Time end) const {
    Counts counts = counts_;
    for (std::uint64_t number = wire_.tail(); number-- != wire_.head();) {
      const Flight& flight = wire_[number];
      const Time departure = flight.start + transmission_time(flight.bytes);
      if (departure <= end) break;
      --counts.sent_packets;
      counts.sent_bytes -= flight.bytes;
      counts.busy -= departure - (flight.start > end ? flight.start : end);
    }
    return counts;
  }

 private:
  struct Flight {
    Time start, arrival;
    std::uint32_t packet, bytes;
  };
  struct Queued {
    std::uint32_t packet, bytes, flow;
    bool ecn_capable;
    Time arrived;
  };

  void transmit(std::uint32_t packet, std::uint32_t bytes, std::uint32_t flow, Time arrived, Time start) {
    const Time duration = transmission_time(bytes);
    free_at_ = start + duration;
    wire_.push({start, jitter_ == 0 ? free_at_ + delay_ : jittered_arrival(), packet, bytes});
    ++counts_.sent_packets;
    counts_.sent_bytes += bytes;
    counts_.busy += duration;
    if (records_) departures_.push_back({flow, bytes, free_at_, start - arrived});
  }

  Time transmission_time(std::uint32_t bytes) const { return static_cast<Time>(bytes * picoseconds_per_byte_ + 0.5); }

  // A delay from a bell (the sum of four evens), never negative, and nobody overtakes.
  Time jittered_arrival() {
    const double sum = jitters_.uniform() + jitters_.uniform() + jitters_.uniform() + jitters_.uniform();
    const double deviation = (sum - 2) * 1.7320508075688772 * static_cast<double>(jitter_);
    const Time delay = delay_ + static_cast<Time>(deviation);
    return last_arrival_ = std::max(last_arrival_, free_at_ + std::max<Time>(delay, 0));
  }

  double picoseconds_per_byte_;
  Time delay_, jitter_, last_arrival_ = 0;
  Time free_at_ = 0;
  Rule rule_;
  bool waits_for_transmitter_, records_ = false;
  double loss_;
  RandomStream losses_, jitters_;
  Ring<Flight> wire_;                // being sent or under way; with early rules also those that wait
  std::uint64_t next_to_start_ = 0;  // the first of wire_ that has not started
  std::uint64_t waiting_bytes_ = 0;
  Ring<Queued> queue_;  // with CoDel: those that wait
  std::uint64_t queue_bytes_ = 0;
  Counts counts_;
  std::vector<Departure> departures_;
};
