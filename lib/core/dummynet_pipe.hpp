// A pipe of the Dummynet engine (Rizzo, CCR 1997): a router queue served at a rate, then a line of constant delay.
// Reordering happens where packets enter the queue, loss where they leave the line, as in that paper.
//
// Nothing runs between calls: each brings the pipe up to its own time, and whoever owns it calls again at next_due().
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "queue_rules.hpp"
#include "random_stream.hpp"
#include "ring.hpp"
#include "simulated_time.hpp"

class DummynetPipe {
 public:
  enum class Fate : std::uint8_t { delivered, dropped, lost };  // dropped: by the queue; lost: on the line
  struct Settings {
    double rate;  // bit/s; 0: unlimited
    Time delay;
    double loss;     // probability a packet
    double reorder;  // probability that a packet enters ahead of the last one that waits
    QueueRule queue;
  };

  DummynetPipe(Settings settings, RandomStream losses, RandomStream reorders)
      : settings_(std::move(settings)),
        picoseconds_per_byte_(
            settings_.rate > 0 ? 8 * static_cast<double>(picoseconds_per_second) / settings_.rate : 0),
        losses_(losses),
        reorders_(reorders) {}

  // Every packet ends in one call of sink(name, fate, marked, time), at once or in a later call of serve().
  template <class Sink>
  void offer(std::uint32_t name, std::uint32_t bytes, bool ecn_capable, Time now, Sink&& sink) {
    transmit(now, sink);
    const Time idle_since = queue_.empty() ? free_at_ : free_at_ + transmission(queue_bytes_);
    const Backlog waiting{queue_.size(), queue_bytes_, idle_since};
    const PacketFacts facts{bytes, ecn_capable};
    const Verdict verdict =
        std::visit([&](auto& rule) { return rule.arrival(waiting, facts, now); }, settings_.queue);
    if (verdict == Verdict::drop) return sink(name, Fate::dropped, false, now);
    const Waiting packet{now, name, bytes, ecn_capable, verdict == Verdict::mark};
    if (queue_.empty() && free_at_ <= now) {
      // What nothing delays leaves at once, as with Dummynet's io_fast; all else waits for the timer.
      return begin(packet, now, now, sink);
    }
    queue_.push(packet);
    queue_bytes_ += bytes;
    if (settings_.reorder > 0 && queue_.size() > 1 && reorders_.uniform() < settings_.reorder)
      std::swap(queue_[queue_.tail() - 1], queue_[queue_.tail() - 2]);
  }

  // Lets go what is due by `now`; a packet's time is that of the call, which a timer may make late.
  template <class Sink>
  void serve(Time now, Sink&& sink) {
    transmit(now, sink);
    while (!line_.empty() && line_.front().due <= now) {
      const UnderWay packet = line_.front();
      line_.pop();
      leave(packet.name, packet.marked, now, sink);
    }
  }

  // When the next packet leaves the line. While any waits, one is being sent, and that is on the line already.
  Time next_due() const { return line_.empty() ? never : line_.front().due; }

 private:
  struct Waiting {
    Time arrived;
    std::uint32_t name, bytes;
    bool ecn_capable, marked;
  };
  struct UnderWay {
    Time due;
    std::uint32_t name;
    bool marked;
  };

  Time transmission(std::uint64_t bytes) const {
    return static_cast<Time>(static_cast<double>(bytes) * picoseconds_per_byte_ + 0.5);
  }

  // Starts every transmission that begins by `now`.
  template <class Sink>
  void transmit(Time now, Sink&& sink) {
    while (!queue_.empty()) {
      const Waiting packet = queue_.front();
      const Time start = std::max(free_at_, packet.arrived);
      if (start > now) return;
      queue_.pop();
      queue_bytes_ -= packet.bytes;
      begin(packet, start, start - 1, sink);
    }
  }

  // Puts a packet on the line, or past it when the line is empty and the packet due by `now`, or lets the rule drop it.
  template <class Sink>
  void begin(const Waiting& packet, Time start, Time now, Sink&& sink) {
    bool marked = packet.marked;
    if (auto* rule = std::get_if<CoDel>(&settings_.queue)) {
      const Backlog left{queue_.size(), queue_bytes_, free_at_};
      const Verdict verdict = rule->departure(left, start - packet.arrived, {packet.bytes, packet.ecn_capable}, start);
      if (verdict == Verdict::drop) return sink(packet.name, Fate::dropped, false, start);
      marked |= verdict == Verdict::mark;
    }
    free_at_ = start + transmission(packet.bytes);
    const Time due = free_at_ + settings_.delay;
    if (due <= now && line_.empty()) return leave(packet.name, marked, now, sink);
    line_.push({due, packet.name, marked});
  }

  template <class Sink>
  void leave(std::uint32_t name, bool marked, Time now, Sink&& sink) {
    const bool lost = settings_.loss > 0 && losses_.uniform() < settings_.loss;
    sink(name, lost ? Fate::lost : Fate::delivered, marked, now);
  }

  Settings settings_;
  double picoseconds_per_byte_;
  RandomStream losses_, reorders_;
  Ring<Waiting> queue_;
  std::uint64_t queue_bytes_ = 0;
  Time free_at_ = 0;
  Ring<UnderWay> line_;
};
