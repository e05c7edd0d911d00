// Random early detection (Floyd and Jacobson, ToN 1993, Fig. 2): drops or marks with a probability that grows with the
// average queue and with the packets since the last drop. It has ns-2's options: gentle (Floyd 2000), wait, bytes for
// packets, and adaptive (Floyd, Gummadi and Shenker 2001), which corrects the greatest probability.
#pragma once
#include <algorithm>

#include "base/random_stream.hpp"
#include "queues/queue_numbers.hpp"
#include "queues/queue_rule.hpp"

class Red {
 public:
  static constexpr const char* name = "red";
  static constexpr bool decides_at_departure = false;
  struct Settings {
    std::uint64_t limit_packets;
    double min_threshold, max_threshold;  // packets
    double max_probability, weight;
    bool ecn;
    Time packet_time;       // time to send a packet: while the link is idle, the average falls at this pace
    bool by_bytes = false;  // the queue is counted in bytes, and large packets are dropped rather than small ones
    bool gentle = false;    // above the upper threshold the probability rises to 1 at twice that
    bool wait = false;      // 1/p packets pass after a drop before there may be another
    double mean_bytes = full_packet_bytes;
    Time adapt_every = 0;         // 0: never
    double least_adapted = 0.01;  // of the greatest probability
  };
  static Red from(const QueueNumbers& numbers) {
    const QueuePlace& place = numbers.place;
    const double mean_bytes = numbers.real(9) > 0 ? numbers.real(9) : place.packet_bytes;
    Settings settings{numbers.whole(0),
                      numbers.real(1),
                      numbers.real(2),
                      numbers.real(3),
                      numbers.real(4),
                      numbers.flag(5),
                      numbers.packet_time(mean_bytes)};
    settings.by_bytes = numbers.flag(6);
    settings.gentle = numbers.flag(7);
    settings.wait = numbers.flag(8);
    settings.mean_bytes = mean_bytes;
    settings.adapt_every = numbers.time(10);
    // 1/W for a window W of 1000-byte packets that fills the link over 100 ms, where that is less (as in ns-2)
    if (place.rate > 0) settings.least_adapted = std::min(settings.least_adapted, 80'000 / place.rate);
    return Red(settings, place.seed, place.stream);
  }

  Red(const Settings& settings, std::uint64_t seed, std::uint64_t stream)
      : settings_(settings), random_(seed, stream) {}

  Verdict arrival(const Backlog& waiting, const PacketFacts& packet, Time now) {
    update_average(waiting, now);
    if (settings_.adapt_every > 0 && now > last_adapted_ + settings_.adapt_every) adapt(now);
    if (waiting.packets >= settings_.limit_packets) return start_count(0), Verdict::drop;
    if (average_ < settings_.min_threshold) return start_count(-1), Verdict::accept;
    if (average_ < (settings_.gentle ? 2 : 1) * settings_.max_threshold) {
      if (++since_last_ > 0) bytes_since_last_ += packet.bytes;
      if (!is_due(packet)) return Verdict::accept;
    }
    start_count(0);
    return settings_.ecn && packet.ecn_capable ? Verdict::mark : Verdict::drop;
  }
  Verdict departure(const Backlog&, Time, const PacketFacts&, Time) { return Verdict::accept; }

  void stretch(double factor) {
    settings_.packet_time = static_cast<Time>(static_cast<double>(settings_.packet_time) * factor + 0.5);
  }

  double average() const { return average_; }
  double max_probability() const { return settings_.max_probability; }

 private:
  static constexpr double increment = 0.01, decrement = 0.9, most_adapted = 0.5;  // Floyd et al., section 5

  void start_count(std::int64_t packets) {
    since_last_ = packets;
    bytes_since_last_ = 0;
  }

  // Whether this packet is marked or dropped. Gaps are uniform, not geometric, as the packets since the last one count.
  bool is_due(const PacketFacts& packet) {
    const double base = probability();
    const double packets = settings_.by_bytes ? static_cast<double>(bytes_since_last_) / settings_.mean_bytes
                                              : static_cast<double>(since_last_);
    if (settings_.wait && packets * base < 1) return false;
    const double spread = (settings_.wait ? 2 : 1) - packets * base;
    if (spread <= 0) return true;
    double chance = base / spread;
    if (settings_.by_bytes) chance *= packet.bytes / settings_.mean_bytes;
    return random_.uniform() < chance;
  }

  double probability() const {
    const double low = settings_.min_threshold, high = settings_.max_threshold;
    if (average_ < high) return settings_.max_probability * ((average_ - low) / (high - low));
    return settings_.max_probability + (1 - settings_.max_probability) * (average_ - high) / high;  // gentle
  }

  // Moves the greatest probability so that the average comes into the middle fifth between the thresholds.
  void adapt(Time now) {
    const double part = 0.4 * (settings_.max_threshold - settings_.min_threshold);
    double& probability = settings_.max_probability;
    if (average_ < settings_.min_threshold + part && probability > settings_.least_adapted) {
      probability *= decrement;
    } else if (average_ > settings_.max_threshold - part && probability < most_adapted) {
      probability += std::min(increment, probability / 4);
    } else {
      return;
    }
    last_adapted_ = now;
  }

  void update_average(const Backlog& waiting, Time now) {
    if (waiting.packets == 0 && waiting.idle_since <= now) {
      // (1 - w)^m by squaring, which gives the same bytes whatever mathematical library a machine has.
      double factor = 1 - settings_.weight;
      Time packets = (now - waiting.idle_since) / std::max<Time>(settings_.packet_time, 1);
      for (; packets > 0; packets /= 2) {
        if (packets & 1) average_ *= factor;
        factor *= factor;
      }
    } else {
      const double queue = settings_.by_bytes ? static_cast<double>(waiting.bytes) / settings_.mean_bytes
                                              : static_cast<double>(waiting.packets);
      average_ += settings_.weight * (queue - average_);
    }
  }

  Settings settings_;
  RandomStream random_;
  double average_ = 0;
  std::int64_t since_last_ = -1;  // packets since the last drop or mark
  std::uint64_t bytes_since_last_ = 0;
  Time last_adapted_ = 0;
};
