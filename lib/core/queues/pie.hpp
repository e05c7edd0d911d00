// Proportional integral controller enhanced (RFC 8033): drops with a probability that a controller corrects every
// `update` from the delay of the queue. The controller's timer is worked off when the next packet comes. Until then
// nothing joins the queue, so that its delay at every tick in between is known.
#pragma once
#include <algorithm>

#include "base/random_stream.hpp"
#include "queues/queue_numbers.hpp"
#include "queues/queue_rule.hpp"

class Pie {
 public:
  static constexpr const char* name = "pie";
  static constexpr bool decides_at_departure = false;
  struct Settings {
    std::uint64_t limit_packets;
    Time target, update, burst;
    Time second;  // how much time is one second, as gains are per second
    bool ecn;
  };

  static Pie from(const QueueNumbers& numbers) {
    const Settings settings{numbers.whole(0), numbers.time(1),        numbers.time(2),
                            numbers.time(3),  picoseconds_per_second, numbers.flag(4)};
    return Pie(settings, numbers.place.seed, numbers.place.stream);
  }

  Pie(const Settings& settings, std::uint64_t seed, std::uint64_t stream)
      : settings_(settings), random_(seed, stream), burst_left_(settings.burst) {}

  Verdict arrival(const Backlog& waiting, const PacketFacts& packet, Time now) {
    work_off_ticks(waiting.idle_since, now);
    if (waiting.packets >= settings_.limit_packets) return collected_ = 0, Verdict::drop;
    const Verdict verdict = decide(waiting, packet);
    if (probability_ == 0 && is_calm(waiting.idle_since - now) && is_calm(last_delay_)) burst_left_ = settings_.burst;
    return verdict;
  }
  Verdict departure(const Backlog&, Time, const PacketFacts&, Time) { return Verdict::accept; }

  double probability() const { return probability_; }

 private:
  static constexpr double alpha = 0.125, beta = 1.25;  // per second, section 4.2
  static constexpr std::uint64_t few_bytes = 2 * full_packet_bytes;
  static constexpr double mark_at_most = 0.1;  // section 5.1

  bool is_calm(Time delay) const { return delay < settings_.target / 2; }

  Verdict decide(const Backlog& waiting, const PacketFacts& packet) {
    if (burst_left_ > 0) return Verdict::accept;
    if (probability_ == 0) collected_ = 0;
    if ((is_calm(last_delay_) && probability_ < 0.2) || waiting.bytes <= few_bytes) return Verdict::accept;
    // Derandomisation (section 5.4): it avoids two drops in a row by bad luck, and a long time without any.
    collected_ += probability_;
    if (collected_ < 0.85) return Verdict::accept;
    if (collected_ < 8.5 && random_.uniform() >= probability_) return Verdict::accept;
    collected_ = 0;
    return settings_.ecn && packet.ecn_capable && probability_ <= mark_at_most ? Verdict::mark : Verdict::drop;
  }

  void work_off_ticks(Time busy_until, Time now) {
    if (next_tick_ == never) next_tick_ = now + settings_.update;
    while (next_tick_ <= now) {
      tick(std::max<Time>(busy_until - next_tick_, 0));
      next_tick_ += settings_.update;
      if (probability_ > 0 || last_delay_ > 0 || busy_until > next_tick_ || next_tick_ > now) continue;
      // An idle link: further ticks change nothing but how much of a burst is left.
      const Time ticks = (now - next_tick_) / settings_.update + 1;
      burst_left_ = std::max<Time>(burst_left_ - ticks * settings_.update, 0);
      next_tick_ += ticks * settings_.update;
    }
  }

  void tick(Time delay) {
    const double second = static_cast<double>(settings_.second);
    double step = alpha * static_cast<double>(delay - settings_.target) / second +
                  beta * static_cast<double>(delay - last_delay_) / second;
    step *= gain();
    if (probability_ >= 0.1) step = std::min(step, 0.02);  // section 5.5
    probability_ += step;
    if (is_calm(delay) && is_calm(last_delay_)) probability_ *= 0.98;
    probability_ = std::clamp(probability_, 0.0, 1.0);
    burst_left_ = std::max<Time>(burst_left_ - settings_.update, 0);
    last_delay_ = delay;
  }

  // Auto-tuning: the smaller the probability, the smaller its steps.
  double gain() const {
    if (probability_ < 0.000001) return 1.0 / 2048;
    if (probability_ < 0.00001) return 1.0 / 512;
    if (probability_ < 0.0001) return 1.0 / 128;
    if (probability_ < 0.001) return 1.0 / 32;
    if (probability_ < 0.01) return 1.0 / 8;
    if (probability_ < 0.1) return 1.0 / 2;
    return 1;
  }

  Settings settings_;
  RandomStream random_;
  double probability_ = 0, collected_ = 0;
  Time last_delay_ = 0, burst_left_, next_tick_ = never;
};
