// RED as in Linux (Floyd and Jacobson's Fig. 17, in whole numbers). It counts bytes. It draws a number of packets, not
// a lot for each packet: when the average comes between the thresholds, and after each mark that the number has
// decided. A packet is marked once the packets since the draw, times the present probability, reach the number. Above
// the upper threshold all packets are marked and the number is discarded. The weight is a power of two. While the link
// is idle the average falls linearly at first, then by halves, as a table of 256 steps says. Packets that do not fit
// are dropped after all that.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "queues/draws.hpp"
#include "queues/queue_numbers.hpp"
#include "queues/queue_rule.hpp"

class LinuxRed {
 public:
  static constexpr const char* name = "linux_red";
  static constexpr bool decides_at_departure = false;
  static LinuxRed from(const QueueNumbers& numbers) {
    const QueuePlace& place = numbers.place;
    const double packet_bytes = numbers.real(6) > 0 ? numbers.real(6) : place.packet_bytes;
    const auto rounded = [](double value) { return static_cast<std::uint64_t>(std::nearbyint(value)); };
    Settings settings{numbers.whole(0),
                      rounded(numbers.real(1) * packet_bytes),
                      rounded(numbers.real(2) * packet_bytes),
                      std::min(rounded(numbers.real(3) * 0x1p32), all),
                      static_cast<int>(std::max(std::nearbyint(-std::log2(numbers.real(4))), 0.0)),
                      numbers.flag(5),
                      place.rate > 0 ? packet_bytes * 8e6 / place.rate : 0,
                      numbers.flag(7)};
    return LinuxRed(settings, Draws(place.seed, place.stream, place.draws));
  }

  struct Settings {
    std::uint64_t limit_packets;
    std::uint64_t min_bytes, max_bytes;  // thresholds
    std::uint64_t max_probability;       // of 2^32
    int weight_log;                      // of 1/weight, to the base 2
    bool ecn;
    double packet_us;  // time to send a packet
    bool adapts;       // every half second the greatest probability follows the average
  };

  LinuxRed(const Settings& settings, Draws draws) : settings_(settings), draws_(std::move(draws)) {
    correct_chance();
    // 2^idle_log us is about the time in which an idle link's average falls to 1/e of it.
    const double kept = 1 - std::ldexp(1.0, -settings.weight_log);
    const double falls_us = kept > 0 ? -settings.packet_us / std::log(kept) : settings.packet_us;
    idle_log_ = falls_us > 0 ? static_cast<int>(std::clamp(std::nearbyint(std::log2(falls_us)), 0.0, 31.0)) : 0;
    falls_us_ = falls_us;
  }

  Verdict arrival(const Backlog& waiting, const PacketFacts& packet, Time now) {
    if (settings_.adapts) work_off_ticks(waiting, now);
    average_ = waiting.packets == 0 && waiting.idle_since <= now ? average_after(idle_from(waiting), now)
                                                                 : average_ + waiting.bytes - whole(average_);
    last_arrival_ = now;
    const bool due = is_due();
    if (due && !(settings_.ecn && packet.ecn_capable)) return Verdict::drop;
    if (waiting.packets >= settings_.limit_packets) return Verdict::drop;
    return due ? Verdict::mark : Verdict::accept;
  }
  Verdict departure(const Backlog&, Time, const PacketFacts&, Time) { return Verdict::accept; }

  double average_bytes() const { return std::ldexp(static_cast<double>(average_), -settings_.weight_log); }
  double max_probability() const { return std::ldexp(static_cast<double>(settings_.max_probability), -32); }

 private:
  static constexpr std::uint64_t all = 0xFFFFFFFF, percent = 42'949'673;  // of 2^32
  static constexpr Time us = picoseconds_per_second / 1'000'000;
  static constexpr Time adapt_every = 504 * 1000 * us;  // half a second, as Linux's timers round it up
  static constexpr int steps = 256, most_halvings = 31;

  // These convert between bytes and units of 2^-weight_log bytes.
  std::uint64_t whole(std::uint64_t scaled) const { return scaled >> settings_.weight_log; }
  std::uint64_t scaled(std::uint64_t bytes) const { return bytes << settings_.weight_log; }

  bool is_due() {
    if (average_ < scaled(settings_.min_bytes)) return since_draw_ = -1, false;
    if (average_ >= scaled(settings_.max_bytes)) return since_draw_ = -1, true;
    if (++since_draw_ == 0) return draw(), false;  // the first packet only draws
    const std::uint64_t above = whole(average_ - scaled(settings_.min_bytes));
    if (settings_.max_probability == 0 || above * static_cast<std::uint64_t>(since_draw_) < lot_) return false;
    since_draw_ = 0;
    draw();
    return true;
  }
  // Uniform from 0 to 1/p packets, where p is the probability for one byte above the lower threshold.
  void draw() { lot_ = draws_.next(32) / chance_of_byte_; }
  void correct_chance() {
    const std::uint64_t width = std::max<std::uint64_t>(settings_.max_bytes - settings_.min_bytes, 1);
    chance_of_byte_ = std::max<std::uint64_t>(settings_.max_probability / width, 1);
  }

  // A link is idle since it asked for a packet in vain, and also since an arrival that was dropped while it was idle.
  Time idle_from(const Backlog& waiting) const { return std::max(waiting.idle_since, last_arrival_); }

  std::uint64_t average_after(Time idle_from, Time now) const {
    // The number has 32 bits, as in Linux: a very slow link never reaches the table's end.
    const std::uint64_t longest_us = static_cast<std::uint32_t>(std::uint64_t{steps - 1} << idle_log_);
    const std::uint64_t idle_us = std::min(static_cast<std::uint64_t>((now - idle_from) / us), longest_us);
    if (const int halvings = halvings_in(idle_us >> idle_log_); halvings > 0) return average_ >> halvings;
    const std::uint64_t fall = average_ * idle_us >> idle_log_, half = average_ >> 1;
    return fall < half ? average_ - fall : half;
  }
  int halvings_in(std::uint64_t step) const {
    if (step == 0) return 0;
    if (settings_.weight_log == 0) return most_halvings;
    const double halvings = std::ldexp(static_cast<double>(step) + 0.5, idle_log_) / falls_us_ / std::log(2.0);
    return static_cast<int>(std::min<double>(std::nearbyint(halvings), most_halvings));
  }

  // Moves the greatest probability so that the average comes into the middle fifth between the thresholds.
  void work_off_ticks(const Backlog& waiting, Time now) {
    for (; next_tick_ <= now; next_tick_ += adapt_every) {
      const bool idle = waiting.packets == 0 && idle_from(waiting) <= next_tick_;
      const std::uint64_t average = whole(idle ? average_after(idle_from(waiting), next_tick_) : average_);
      const std::uint64_t low = settings_.min_bytes, fifth = (settings_.max_bytes - low) / 5;
      std::uint64_t& chance = settings_.max_probability;
      const bool rises = average > low + 3 * fifth && chance <= 50 * percent;
      const bool falls = average < low + 2 * fifth && chance >= percent;
      if (rises) chance += std::min(percent, chance / 4);
      if (falls) chance = chance / 10 * 9;
      const std::uint64_t width = std::max<std::uint64_t>(settings_.max_bytes - low, 1);
      chance_of_byte_ = std::max<std::uint64_t>((chance + width / 2) / width, 1);
      if (idle && average < low && !falls)  // further ticks change nothing
        next_tick_ += (now - next_tick_) / adapt_every * adapt_every;
    }
  }

  Settings settings_;
  Draws draws_;
  int idle_log_;
  double falls_us_;
  std::uint64_t average_ = 0;     // bytes, scaled
  std::int64_t since_draw_ = -1;  // packets
  std::uint64_t lot_ = 0, chance_of_byte_;
  Time last_arrival_ = 0, next_tick_ = adapt_every;
};
