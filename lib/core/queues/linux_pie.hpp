// PIE as in Linux, in whole numbers. It differs from RFC 8033: the delay is that of the packet that was sent last (0
// when it left none behind). The time for which a burst is let through counts from one departure to the next. The
// probability decays by 1/64 where both delays are 0 and the queue is empty, and rises by 2 % more above 250 ms. The
// clock of delays has units of 64 ns; the timer has Linux's ticks of a millisecond, one more than asked for.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "queues/draws.hpp"
#include "queues/queue_numbers.hpp"
#include "queues/queue_rule.hpp"

class LinuxPie {
 public:
  static constexpr const char* name = "linux_pie";
  static constexpr bool decides_at_departure = true;  // there it only learns the delay
  static LinuxPie from(const QueueNumbers& numbers) {
    const QueuePlace& place = numbers.place;
    return LinuxPie({numbers.whole(0), numbers.time(1), numbers.time(2), numbers.time(3), numbers.flag(4)},
                    Draws(place.seed, place.stream, place.draws));
  }

  struct Settings {
    std::uint64_t limit_packets;
    Time target, update, burst;  // picoseconds
    bool ecn;
  };

  LinuxPie(const Settings& settings, Draws draws)
      : limit_packets_(settings.limit_packets),
        target_(units(settings.target)),
        burst_(units(settings.burst)),
        every_(((settings.update + tick - 1) / tick + 1) * tick),
        ecn_(settings.ecn),
        draws_(std::move(draws)),
        burst_left_(burst_),
        next_tick_(every_) {}

  Verdict arrival(const Backlog& waiting, const PacketFacts& packet, Time now) {
    work_off_ticks(waiting.bytes, now);
    if (waiting.packets >= limit_packets_) return collected_ = 0, Verdict::drop;
    if (!lot_falls(waiting.bytes)) return Verdict::accept;
    if (ecn_ && packet.ecn_capable && probability_ <= one / 10) return Verdict::mark;
    collected_ = 0;
    return Verdict::drop;
  }

  Verdict departure(const Backlog& left, Time waited, const PacketFacts& packet, Time time) {
    work_off_ticks(left.bytes + packet.bytes, time);
    const std::int64_t now = units(time);
    delay_ = left.bytes > 0 ? now - units(time - waited) : 0;
    if (last_departure_ >= 0) burst_left_ -= std::min(burst_left_, now - last_departure_);
    last_departure_ = now;
    return Verdict::accept;
  }

  double probability() const { return static_cast<double>(probability_) * 0x1p-56; }

 private:
  static constexpr std::uint64_t one = ~std::uint64_t{0} >> 8;  // the probability 1
  static constexpr std::uint64_t few_bytes = 2 * full_packet_bytes;
  static constexpr Time tick = picoseconds_per_second / 1000, unit = 64'000;
  static constexpr std::int64_t units_per_second = picoseconds_per_second / unit;
  static constexpr std::int64_t long_delay = units_per_second / 4;
  // The gains: 0.125 and 1.25 per second.
  static constexpr std::uint64_t alpha = 2 * (one / units_per_second) / 16, beta = 20 * (one / units_per_second) / 16;

  static std::int64_t units(Time time) { return time / unit; }
  bool is_calm(std::int64_t delay) const { return delay < target_ / 2; }

  bool lot_falls(std::uint64_t waiting_bytes) {
    if (burst_left_ > 0 || (is_calm(delay_) && probability_ < one / 5) || waiting_bytes < few_bytes) return false;
    // Derandomisation: it avoids two drops in a row by bad luck, and a long time without any.
    collected_ = probability_ == 0 ? 0 : collected_ + probability_;
    if (collected_ < one / 100 * 85) return false;
    if (collected_ >= one / 2 * 17) return true;
    if (draws_.next(64) >> 8 >= probability_) return false;
    collected_ = 0;
    return true;
  }

  void work_off_ticks(std::uint64_t waiting_bytes, Time now) {
    for (; next_tick_ <= now; next_tick_ += every_) {
      correct_probability(waiting_bytes);
      if (probability_ == 0 && delay_ == 0 && delay_before_ == 0)  // further ticks change nothing
        next_tick_ += (now - next_tick_) / every_ * every_;
    }
  }

  void correct_probability(std::uint64_t waiting_bytes) {
    const std::uint64_t before = probability_;
    const std::uint64_t from_target = static_cast<std::uint64_t>(delay_ - target_),
                        from_last = static_cast<std::uint64_t>(delay_ - delay_before_);
    const int fewer = halvings();
    // Arithmetic modulo 2^64 is right for negative numbers, too.
    auto step = static_cast<std::int64_t>((alpha >> fewer) * from_target + (beta >> fewer) * from_last);
    if (before >= one / 10 && step > static_cast<std::int64_t>(one / 50)) step = one / 100 * 2;
    if (delay_ > long_delay) step += static_cast<std::int64_t>(one / 50);
    probability_ += static_cast<std::uint64_t>(step);
    bool decays = delay_ > 0 || waiting_bytes == 0;
    if (step > 0 && probability_ < before) probability_ = one, decays = false;
    if (step <= 0 && probability_ > before) probability_ = 0;
    if (decays && delay_ == 0 && delay_before_ == 0) probability_ -= probability_ / 64;
    if (is_calm(delay_) && is_calm(delay_before_) && probability_ == 0) {
      burst_left_ = burst_;
      last_departure_ = -1;
      collected_ = 0;
    }
    delay_before_ = delay_;
  }

  // The smaller the probability, the smaller its steps.
  int halvings() const {
    if (probability_ >= one / 10) return 0;
    int count = 1;
    for (std::uint64_t parts = 100; parts <= 1'000'000 && probability_ < one / parts; parts *= 10) count += 2;
    return count;
  }

  std::uint64_t limit_packets_;
  std::int64_t target_, burst_;  // units
  Time every_;
  bool ecn_;
  Draws draws_;
  std::uint64_t probability_ = 0, collected_ = 0;
  std::int64_t delay_ = 0, delay_before_ = 0, burst_left_, last_departure_ = -1;
  Time next_tick_;
};
