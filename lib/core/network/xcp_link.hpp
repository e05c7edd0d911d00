// The explicit control protocol (Katabi, Handley and Rohrs, "Congestion Control for High Bandwidth-Delay Product
// Networks", SIGCOMM 2002, section 3.5): what a router computes for each of its links, and where packets carry it.
//
// Once in the mean round trip d of its flows a link decides by how many bytes their windows together shall change:
//   phi = alpha d S - beta Q,
// where S is how far its capacity is above the arriving traffic y, and Q is the queue that does not drain. An increase
// is given to all flows alike; a decrease is taken from each in proportion to what it sends. Of traffic y, h = max(0,
// gamma y - |phi|) is taken and given at the same time, so that flows become equal. Each packet has its share.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/simulated_time.hpp"
#include "network/packet.hpp"

// XCP's header, in fields that TCP's packets leave unused. To the receiver it carries the change of the window (bytes),
// the sender's round trip (microseconds) and window (bytes), and back the change that the receiver heard of.
// (__builtin_bit_cast is used as libraries of 2022, like that of Debian's Emscripten, lack std::bit_cast.)
struct XcpHeader {
  static void ask(Packet& packet, Time round_trip, double window, bool wants_more) {
    constexpr std::uint32_t most = ~0u;
    packet.flags |= Packet::asks_feedback;
    packet.selective[0].end = static_cast<std::uint32_t>(std::min<Time>(round_trip / 1'000'000, most));
    packet.selective[1].start = static_cast<std::uint32_t>(std::clamp(window, 1.0, 4e9));
    set_feedback(packet, wants_more && round_trip > 0 ? std::numeric_limits<float>::max() : 0.0);
  }
  static Time round_trip(const Packet& packet) { return Time{packet.selective[0].end} * 1'000'000; }
  static double window(const Packet& packet) { return packet.selective[1].start; }
  static double feedback(const Packet& packet) { return __builtin_bit_cast(float, packet.selective[0].start); }
  static void set_feedback(Packet& packet, double bytes) {
    packet.selective[0].start = __builtin_bit_cast(std::uint32_t, static_cast<float>(bytes));
  }
  static void answer(Packet& packet, double bytes) {
    packet.stream_in_order = __builtin_bit_cast(std::uint32_t, static_cast<float>(bytes));
  }
  static double answered(const Packet& packet) { return __builtin_bit_cast(float, packet.stream_in_order); }
};

class XcpLink {
 public:
  struct Settings {
    double alpha, beta, gamma;
  };

  XcpLink(const Settings& settings, double bytes_per_second) : settings_(settings), capacity_(bytes_per_second) {}

  // A packet comes to the link, which will have sent what it has at busy_until.
  void arrival(Packet& packet, Time busy_until, Time now) {
    work_off_updates(busy_until, now);
    least_queue_ = std::min(least_queue_, queue_at(busy_until, now));
    traffic_ += packet.wire_bytes;
    last_bytes_ = packet.wire_bytes;
    const Time round_trip = packet.flags & Packet::asks_feedback ? XcpHeader::round_trip(packet) : 0;
    if (round_trip > 0) control(packet, round_trip, now);
  }
  void set_capacity(double bytes_per_second) { capacity_ = bytes_per_second; }

 private:
  void control(Packet& packet, Time round_trip_ps, Time now) {
    if (interval_ == 0) begin(round_trip_ps, now);
    const double round_trip = to_seconds(round_trip_ps), bytes = packet.wire_bytes;
    const double each = round_trip * bytes / XcpHeader::window(packet);  // a flow's sum over a second is a second
    flows_ += each;
    round_trips_ += each * round_trip;
    bytes_ += bytes;

    const double more = std::min(to_give_, give_ * each), less = std::min(to_take_, take_ * bytes);
    const double asked = XcpHeader::feedback(packet) / round_trip, ours = more - less;
    if (asked >= ours) {
      XcpHeader::set_feedback(packet, ours * round_trip);
      to_give_ -= more;
      to_take_ -= less;
    } else {  // another link, or the sender, allows less: the rest stays for others
      to_give_ -= std::min(std::max(asked, 0.0), to_give_);
      to_take_ -= std::min(asked > 0 ? ours - asked : std::max(ours, 0.0) - asked, to_take_);
    }
  }

  void begin(Time round_trip, Time now) {
    interval_ = round_trip;
    control_due_ = queue_due_ = now + interval_;
    traffic_ = 0;
  }

  // No packet comes between two calls, so that the queue at every update in between is known.
  void work_off_updates(Time busy_until, Time now) {
    if (interval_ == 0) return;
    for (;;) {
      const Time due = std::min(control_due_, queue_due_);
      if (due > now) return;
      const double queue = queue_at(busy_until, due);
      least_queue_ = std::min(least_queue_, queue);
      if (due == queue_due_) look_at_queue(queue);
      if (due != control_due_) continue;
      const bool silent = traffic_ == 0 && queue == 0;
      update();
      control_due_ += interval_;
      if (!silent) continue;
      control_due_ += std::max<Time>(now - control_due_, 0) / interval_ * interval_;
      queue_due_ = std::max(queue_due_, control_due_);
    }
  }

  // The standing queue is the least one of late, taken over a round trip without the queue's own share of it.
  void look_at_queue(double queue) {
    standing_queue_ = least_queue_;
    least_queue_ = queue;
    queue_due_ += std::max(interval_ - from_seconds(queue / capacity_), interval_ / 10 + 1);
  }

  void update() {
    if (flows_ > 0) {
      const double mean = round_trips_ / flows_;
      const double spare = capacity_ - traffic_ / to_seconds(interval_);
      const double change = settings_.alpha * mean * spare - settings_.beta * standing_queue_;
      const double shuffled = std::max(settings_.gamma * traffic_ - std::abs(change), 0.0);
      to_give_ = (shuffled + std::max(change, 0.0)) / mean;
      to_take_ = (shuffled + std::max(-change, 0.0)) / mean;
      give_ = to_give_ / flows_;
      take_ = to_take_ / bytes_;
      interval_ = std::max<Time>(from_seconds(mean), 1);
    }
    traffic_ = flows_ = round_trips_ = bytes_ = 0;
  }

  // A packet that is being sent is no queue.
  double queue_at(Time busy_until, Time time) const {
    return std::max(to_seconds(std::max<Time>(busy_until - time, 0)) * capacity_ - last_bytes_, 0.0);
  }

  Settings settings_;
  double capacity_;    // bytes a second
  Time interval_ = 0;  // 0 until a packet tells its round trip
  Time control_due_ = 0, queue_due_ = 0;
  double traffic_ = 0, bytes_ = 0;      // bytes of this interval: of all packets, of those with XCP
  double flows_ = 0, round_trips_ = 0;  // sums of rtt s / cwnd (s), and of that times rtt
  double to_give_ = 0, to_take_ = 0;    // bytes a second by which rates may still change in this interval
  double give_ = 0, take_ = 0;          // what a packet gets of them: per second of a flow, per byte
  double standing_queue_ = 0, least_queue_ = 0, last_bytes_ = 0;  // bytes
};
