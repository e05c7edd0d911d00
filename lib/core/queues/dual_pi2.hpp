// DualPI2 (RFC 9332, appendix A), as in Linux's sch_dualpi2. It has two queues: one for packets of L4S flows (ECT(1),
// or marked before: RFC 9331, section 5.1), and the classic one for all others. A controller corrects a probability p
// every `update` by the longer of their delays. Classic packets are dropped or marked with probability p^2. L4S packets
// are marked with probability k p, for k the coupling, and whenever they have waited longer than a step.
//
// The L4S queue goes first, but while both hold packets the classic one gets a share of the bytes. With k p above 1 the
// L4S queue drops like the classic one, and nothing is marked in place of a drop. While fewer than two full packets
// wait, nothing is decided. The step counts for packets that found two or more in their queue.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/ring.hpp"
#include "queues/draws.hpp"
#include "queues/queue_discipline.hpp"
#include "queues/queue_numbers.hpp"

class DualPi2 final : public QueueDiscipline {
 public:
  static constexpr const char* name = "dualpi2";
  struct Settings {
    std::uint64_t limit_packets;
    Time target, update, step;
    double alpha, beta;  // per second, of delay and of its change, at each update
    double coupling;     // k
    double classic_share;
  };
  static DualPi2 from(const QueueNumbers& numbers) {
    const QueuePlace& place = numbers.place;
    return DualPi2({.limit_packets = numbers.whole(0),
                    .target = numbers.time(1),
                    .update = numbers.time(2),
                    .step = numbers.time(3),
                    .alpha = numbers.real(4),
                    .beta = numbers.real(5),
                    .coupling = numbers.real(6),
                    .classic_share = numbers.real(7)},
                   Draws(place.seed, place.stream, place.draws));
  }

  DualPi2(const Settings& settings, Draws draws)
      : settings_(settings),
        draws_(std::move(draws)),
        classic_weight_(std::round(settings.classic_share * 1e6)),
        first_credit_(full_packet_bytes * (2 * classic_weight_ - 1e6)),
        credit_(first_credit_),
        next_update_(settings.update) {}

  void join(const QueuedPacket& packet, Time, std::vector<QueuedPacket>& dropped) override {
    work_off_updates(packet.arrived);
    if (packets() >= settings_.limit_packets) return dropped.push_back(packet);
    const bool is_l4s = packet.ect_1 || packet.marked_before;
    if (is_l4s)
      l4s_.push({packet, l4s_.size() >= least_before_step});
    else
      classic_.push({packet, false});
    count_in(packet);
  }

  std::optional<QueuedPacket> next(Time now, std::vector<QueuedPacket>& dropped) override {
    work_off_updates(now);
    while (packets() > 0) {
      const bool both = !l4s_.empty() && !classic_.empty();
      const bool is_l4s = !l4s_.empty() && (classic_.empty() || credit_ <= 0);
      auto [packet, steps] = take(is_l4s ? l4s_ : classic_);
      const Verdict verdict = is_l4s ? judge_l4s() : judge_classic(packet);
      if (verdict == Verdict::drop) {
        dropped.push_back(packet);
        continue;
      }
      packet.marked = verdict == Verdict::mark || (steps && now - packet.arrived > settings_.step);
      if (both) credit_ += packet.bytes * (is_l4s ? classic_weight_ : classic_weight_ - 1e6);
      return packet;
    }
    credit_ = first_credit_;
    return std::nullopt;
  }

  void clear(std::vector<QueuedPacket>& dropped) override {
    for (Ring<Waiting>* waiting : {&l4s_, &classic_})
      while (!waiting->empty()) dropped.push_back(take(*waiting).packet);
  }

  double probability() const { return probability_; }

 private:
  static constexpr std::uint64_t least_before_step = 2;
  struct Waiting {
    QueuedPacket packet;
    bool steps;  // it may be marked by the step
  };

  Waiting take(Ring<Waiting>& from) {
    const Waiting waiting = from.front();
    from.pop();
    count_out(waiting.packet);
    return waiting;
  }

  bool falls(double probability) { return static_cast<double>(draws_.next(32)) * 0x1p-32 < probability; }
  bool falls_twice() { return falls(probability_) && falls(probability_); }
  bool is_calm() const { return bytes() < 2 * full_packet_bytes; }
  bool is_overloaded() const { return settings_.coupling * probability_ > 1; }

  Verdict judge_l4s() {
    if (is_calm()) return Verdict::accept;
    if (is_overloaded()) return falls_twice() ? Verdict::drop : Verdict::mark;
    return falls(settings_.coupling * probability_) ? Verdict::mark : Verdict::accept;
  }
  Verdict judge_classic(const QueuedPacket& packet) {
    if (is_calm() || !falls_twice()) return Verdict::accept;
    return packet.ecn_capable && !is_overloaded() ? Verdict::mark : Verdict::drop;
  }

  // Between two calls nothing joins or leaves, so that the delay at each update is known.
  void work_off_updates(Time now) {
    for (; next_update_ <= now; next_update_ += settings_.update) {
      const Time delay = std::max(delay_of(l4s_), delay_of(classic_));
      probability_ +=
          settings_.alpha * to_seconds(delay - settings_.target) + settings_.beta * to_seconds(delay - delay_before_);
      probability_ = std::clamp(probability_, 0.0, 1.0);
      delay_before_ = delay;
      if (probability_ == 0 && packets() == 0)  // further updates change nothing
        next_update_ += (now - next_update_) / settings_.update * settings_.update;
    }
  }
  Time delay_of(const Ring<Waiting>& waiting) const {
    return waiting.empty() ? 0 : next_update_ - waiting.front().packet.arrived;
  }

  Settings settings_;
  Draws draws_;
  Ring<Waiting> l4s_, classic_;
  double classic_weight_;         // of a million, whole: as in Linux, credits are sums without rounding
  double first_credit_, credit_;  // of the classic queue, bytes times a million; above 0 it is its turn
  double probability_ = 0;        // p
  Time delay_before_ = 0, next_update_;
};
