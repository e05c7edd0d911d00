// The rate control protocol (Dukkipati and McKeown, CCR 2006; Dukkipati et al., IWQoS 2005): what a router computes for
// each of its links, and where packets carry it.
//
// A link offers every flow the same rate R. Each T it corrects R by how far its capacity C is above the arriving
// traffic y, and by the standing queue q:
//   R <- R (1 + T/d (alpha (C - y) - beta q/d) / C),  where d is the mean round trip.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/simulated_time.hpp"
#include "network/packet.hpp"
#include "queues/queue_rule.hpp"

class RcpLink {
 public:
  struct Settings {
    double alpha, beta;
    Time update;         // T; a round trip where that is shorter
    double first_share;  // of the capacity that the first flow is offered
  };

  RcpLink(const Settings& settings, double bytes_per_second)
      : settings_(settings), capacity_(bytes_per_second), rate_(settings.first_share * bytes_per_second) {}

  // A packet comes to the link, which will have sent what it has at busy_until. Returns the rate in bytes per second.
  double arrival(std::uint32_t bytes, Time round_trip, Time busy_until, Time now) {
    work_off_updates(busy_until, now);
    arrived_bytes_ += bytes;
    last_bytes_ = bytes;
    if (round_trip > 0) learn(static_cast<double>(round_trip), now);
    return rate_;
  }
  void set_capacity(double bytes_per_second) {
    capacity_ = bytes_per_second;
    rate_ = std::min(rate_, capacity_);
  }

 private:
  static constexpr double gain = 0.02;                      // of the mean round trip, per packet
  static constexpr double least_bytes = full_packet_bytes;  // that are offered a round trip

  void learn(double round_trip, Time now) {
    if (mean_round_trip_ > 0) {
      mean_round_trip_ += gain * (round_trip - mean_round_trip_);
    } else {
      mean_round_trip_ = round_trip;
      last_update_ = now;
      arrived_bytes_ = 0;
    }
  }

  // No packet comes between two calls, so that the queue at every update in between is known.
  void work_off_updates(Time busy_until, Time now) {
    if (mean_round_trip_ == 0) return;
    for (;;) {
      const Time interval = std::max<Time>(std::min(settings_.update, static_cast<Time>(mean_round_trip_)), 1);
      if (now - last_update_ < interval) return;
      last_update_ += interval;
      const Time busy = std::max<Time>(busy_until - last_update_, 0);
      update(interval, busy);
      if (rate_ == capacity_ && busy == 0) last_update_ += (now - last_update_) / interval * interval;
    }
  }

  void update(Time interval, Time busy) {
    const double traffic = arrived_bytes_ / to_seconds(interval);
    const double queue = std::max(to_seconds(busy) * capacity_ - last_bytes_, 0.0);  // a packet being sent is none
    const double round_trip = mean_round_trip_ / static_cast<double>(picoseconds_per_second);
    const double spare = settings_.alpha * (capacity_ - traffic) - settings_.beta * queue / round_trip;
    rate_ *= 1 + static_cast<double>(interval) / mean_round_trip_ * spare / capacity_;
    rate_ = std::min(std::max(rate_, least_bytes / round_trip), capacity_);
    arrived_bytes_ = 0;
  }

  Settings settings_;
  double capacity_, rate_, mean_round_trip_ = 0, arrived_bytes_ = 0, last_bytes_ = 0;
  Time last_update_ = 0;
};

// RCP's header, in fields that TCP's packets leave unused, in kilobits per second and microseconds. To the receiver it
// carries the least rate offered so far and the sender's round trip, and back the rate that the receiver heard of.
struct RcpHeader {
  static constexpr std::uint32_t unlimited = ~0u;

  static void ask(Packet& packet, Time round_trip) {
    packet.flags |= Packet::asks_rate;
    packet.selective[0] = {unlimited, static_cast<std::uint32_t>(std::min<Time>(round_trip / 1'000'000, unlimited))};
  }
  static Time round_trip(const Packet& packet) { return Time{packet.selective[0].end} * 1'000'000; }
  static void offer(Packet& packet, double bytes_per_second) {
    const auto rate = static_cast<std::uint32_t>(std::clamp(bytes_per_second * 0.008, 1.0, 4e9));
    packet.selective[0].start = std::min(packet.selective[0].start, rate);
  }
  static std::uint32_t offered(const Packet& packet) { return packet.selective[0].start; }
  static void answer(Packet& packet, std::uint32_t rate) { packet.stream_in_order = rate; }
  static std::uint32_t answered(const Packet& packet) { return packet.stream_in_order; }
};
