// A pipe of the Dummynet engine (Rizzo, CCR 1997): a router queue served at a rate, then a line of constant delay. As
// in that paper, packets are reordered where they enter the queue and lost where they leave the line.
//
// Nothing runs between calls. Each call brings the pipe up to its own time, and its owner calls again at next_due().
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/random_stream.hpp"
#include "base/ring.hpp"
#include "base/simulated_time.hpp"
#include "queues/queue_rules.hpp"
#include "queues/ruled_fifo.hpp"

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
        queue_(std::move(settings_.queue)),
        picoseconds_per_byte_(settings_.rate > 0 ? 8 * static_cast<double>(picoseconds_per_second) / settings_.rate
                                                 : 0),
        losses_(losses),
        reorders_(reorders) {}

  // Every packet ends in one call of sink(name, fate, marked, time), at once or in a later call of serve().
  template <class Sink>
  void offer(std::uint32_t name, std::uint32_t bytes, bool ecn_capable, Time now, Sink&& sink) {
    transmit(now, sink);
    const bool idle = queue_.packets() == 0 && free_at_ <= now;
    const Time idle_since = queue_.packets() == 0 ? free_at_ : free_at_ + transmission(queue_.bytes());
    queue_.join(
        {.name = name, .bytes = bytes, .flow = 0, .ecn_capable = ecn_capable, .marked_before = false, .arrived = now},
        idle_since, dropped_);
    if (hand_back(now, sink)) return;
    // A packet that nothing delays leaves at once, as in Dummynet of 2010; others await the timer, as without io_fast.
    if (idle) return begin(now, now, sink);
    if (settings_.reorder > 0 && queue_.packets() > 1 && reorders_.uniform() < settings_.reorder) queue_.swap_last();
  }

  // Lets packets go that are due by `now`. A packet's time is that of the call, which a timer may make late.
  template <class Sink>
  void serve(Time now, Sink&& sink) {
    transmit(now, sink);
    while (!line_.empty() && line_.front().due <= now) {
      const UnderWay packet = line_.front();
      line_.pop();
      leave(packet.name, packet.marked, now, sink);
    }
  }

  // When the next packet leaves the line. While packets wait, one is being sent, and that is on the line already.
  Time next_due() const { return line_.empty() ? never : line_.front().due; }

 private:
  struct UnderWay {
    Time due;
    std::uint32_t name;
    bool marked;
  };

  Time transmission(std::uint64_t bytes) const {
    return static_cast<Time>(static_cast<double>(bytes) * picoseconds_per_byte_ + 0.5);
  }

  // Starts every transmission that begins by `now`. Packets that wait came while another packet was being sent.
  template <class Sink>
  void transmit(Time now, Sink&& sink) {
    while (queue_.packets() > 0 && free_at_ <= now) begin(free_at_, free_at_ - 1, sink);
  }

  // Puts the next packet on the line. It passes an empty line if it is due by `now`.
  template <class Sink>
  void begin(Time start, Time now, Sink&& sink) {
    const auto packet = queue_.next(start, dropped_);
    hand_back(start, sink);
    if (!packet) return;
    free_at_ = start + transmission(packet->bytes);
    const Time due = free_at_ + settings_.delay;
    if (due <= now && line_.empty()) return leave(packet->name, packet->marked, now, sink);
    line_.push({due, packet->name, packet->marked});
  }

  // Returns whether anything was dropped.
  template <class Sink>
  bool hand_back(Time now, Sink&& sink) {
    if (dropped_.empty()) return false;
    for (const QueuedPacket& packet : dropped_) sink(packet.name, Fate::dropped, false, now);
    dropped_.clear();
    return true;
  }

  template <class Sink>
  void leave(std::uint32_t name, bool marked, Time now, Sink&& sink) {
    const bool lost = settings_.loss > 0 && losses_.uniform() < settings_.loss;
    sink(name, lost ? Fate::lost : Fate::delivered, marked, now);
  }

  Settings settings_;
  RuledFifo queue_;
  std::vector<QueuedPacket> dropped_;  // by the queue, a moment ago
  double picoseconds_per_byte_;
  RandomStream losses_, reorders_;
  Time free_at_ = 0;
  Ring<UnderWay> line_;
};
