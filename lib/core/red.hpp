// Random early detection (Floyd and Jacobson, ToN 1993, Fig. 2): drops or marks with a probability that grows with
// the average queue and with the packets since the last drop.
#pragma once
#include <algorithm>

#include "queue_numbers.hpp"
#include "queue_rule.hpp"
#include "random_stream.hpp"

class Red {
 public:
  static constexpr const char* name = "red";
  static constexpr bool decides_at_departure = false;
  struct Settings {
    std::uint64_t limit_packets;
    double min_threshold, max_threshold;  // packets
    double max_probability, weight;
    bool ecn;
    Time packet_time;  // what a packet takes to send: while the link is idle, the average falls at this pace
  };

  static Red from(const QueueNumbers& numbers) {
    const Settings settings{numbers.whole(0), numbers.real(1), numbers.real(2),      numbers.real(3),
                            numbers.real(4),  numbers.flag(5), numbers.packet_time()};
    return Red(settings, numbers.place.seed, numbers.place.stream);
  }

  Red(const Settings& settings, std::uint64_t seed, std::uint64_t stream)
      : settings_(settings), random_(seed, stream) {}

  Verdict arrival(const Backlog& waiting, const PacketFacts& packet, Time now) {
    update_average(waiting, now);
    if (waiting.packets >= settings_.limit_packets) return since_last_ = 0, Verdict::drop;
    if (average_ < settings_.min_threshold) return since_last_ = -1, Verdict::accept;
    if (average_ < settings_.max_threshold) {
      ++since_last_;
      const double share =
          (average_ - settings_.min_threshold) / (settings_.max_threshold - settings_.min_threshold);
      const double base = settings_.max_probability * share;
      const double spread = 1 - static_cast<double>(since_last_) * base;  // makes gaps uniform, not geometric
      if (spread > 0 && random_.uniform() >= base / spread) return Verdict::accept;
    }
    since_last_ = 0;
    return settings_.ecn && packet.ecn_capable ? Verdict::mark : Verdict::drop;
  }
  Verdict departure(const Backlog&, Time, const PacketFacts&, Time) { return Verdict::accept; }

  void stretch(double factor) {
    settings_.packet_time = static_cast<Time>(static_cast<double>(settings_.packet_time) * factor + 0.5);
  }

  double average() const { return average_; }

 private:
  void update_average(const Backlog& waiting, Time now) {
    if (waiting.packets == 0 && waiting.idle_since <= now) {
      // (1 - w)^m by squaring: the same bytes whatever mathematical library a machine has.
      double factor = 1 - settings_.weight;
      Time packets = (now - waiting.idle_since) / std::max<Time>(settings_.packet_time, 1);
      for (; packets > 0; packets /= 2) {
        if (packets & 1) average_ *= factor;
        factor *= factor;
      }
    } else {
      average_ += settings_.weight * (static_cast<double>(waiting.packets) - average_);
    }
  }

  Settings settings_;
  RandomStream random_;
  double average_ = 0;
  std::int64_t since_last_ = -1;  // packets since the last drop or mark
};
