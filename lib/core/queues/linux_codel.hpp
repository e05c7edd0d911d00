// CoDel as Linux has it. It is RFC 8289's, but that it takes no root: the reciprocal of the count's is a number of 16
// bits, which a step of Newton's iteration corrects at each drop. It starts from 1 at a count of 1, so that the second
// to fourth drops come .500, .563 and .488 intervals after those before, where RFC 8289 says .707, .577 and .500. Its
// clock has units of 1024 ns, and drops begin after, not at, the end of an interval above the target.
#pragma once
#include <cstdint>

#include "queues/queue_numbers.hpp"
#include "queues/queue_rule.hpp"

class LinuxCoDel {
 public:
  static constexpr const char* name = "linux_codel";
  static constexpr bool decides_at_departure = true;
  static LinuxCoDel from(const QueueNumbers& numbers) {
    return LinuxCoDel(numbers.whole(0), numbers.time(1), numbers.time(2), numbers.flag(3), numbers.whole(4));
  }

  // Times are picoseconds. Nothing is dropped while no more than `least_bytes` wait: the device's greatest packet.
  LinuxCoDel(std::uint64_t limit_packets, Time target, Time interval, bool ecn,
             std::uint64_t least_bytes = full_packet_bytes)
      : limit_packets_(limit_packets),
        target_(units(target)),
        interval_(units(interval)),
        least_bytes_(least_bytes),
        ecn_(ecn) {}

  Verdict arrival(const Backlog& waiting, const PacketFacts&, Time) {
    return waiting.packets < limit_packets_ ? Verdict::accept : Verdict::drop;
  }

  // Called for each packet taken from the queue until one is accepted or marked.
  Verdict departure(const Backlog& left, Time waited, const PacketFacts& packet, Time time) {
    const Time now = units(time);
    const bool bad = stays_above_target(left, now - units(time - waited), now);
    const bool marks = ecn_ && packet.ecn_capable;
    const Step after = step_;
    step_ = Step::none;
    if (after == Step::entered) return Verdict::accept;  // what follows the first drop is sent, come what may
    if (dropping_) {
      if (!bad) return dropping_ = false, Verdict::accept;
      if (after == Step::dropped) next_ += gap();
      if (now < next_) return Verdict::accept;
      ++count_;
      correct_root();
      if (marks) return next_ += gap(), Verdict::mark;
      step_ = Step::dropped;
      return Verdict::drop;
    }
    if (!bad) return Verdict::accept;
    dropping_ = true;
    start_count(now);
    next_ = now + gap();
    if (marks) return Verdict::mark;
    step_ = Step::entered;
    return Verdict::drop;
  }

  // There was no packet to be taken.
  void ran_empty() {
    above_ = dropping_ = false;
    step_ = Step::none;
  }
  // So many were dropped by others.
  void count_drops(std::uint32_t packets) { count_ += packets; }

 private:
  enum class Step : std::uint8_t { none, entered, dropped };
  static constexpr std::uint16_t root_of_one = 0xFFFF;

  static Time units(Time time) { return time / (1024 * picoseconds_per_second / 1'000'000'000); }

  bool stays_above_target(const Backlog& left, Time waited, Time now) {
    if (waited < target_ || left.bytes <= least_bytes_) return above_ = false;
    if (!above_) return above_ = true, first_above_ = now + interval_, false;
    return now > first_above_;
  }
  // Near the rate that worked a moment ago: with as many as were dropped then.
  void start_count(Time now) {
    const std::uint32_t recent = count_ - last_count_;
    if (recent > 1 && now - next_ < 16 * interval_) {
      count_ = recent;
      correct_root();
    } else {
      count_ = 1;
      root_ = root_of_one;
    }
    last_count_ = count_;
  }
  // x <- x (3 - count x^2) / 2. Where others have raised the count by much the bracket is below zero and, without a
  // sign, becomes a large number: then the next gap is any, as in Linux.
  void correct_root() {
    const std::uint64_t x = std::uint64_t{root_} << 16, square = x * x >> 32;  // 32 bits behind the point
    const std::uint64_t quarter = ((std::uint64_t{3} << 32) - count_ * square) >> 2;
    root_ = static_cast<std::uint16_t>(quarter * x >> (31 + 16));
  }
  Time gap() const { return interval_ * root_ >> 16; }

  std::uint64_t limit_packets_;
  Time target_, interval_;
  std::uint64_t least_bytes_;
  bool ecn_;
  bool dropping_ = false, above_ = false;
  Step step_ = Step::none;
  std::uint16_t root_ = 0;
  std::uint32_t count_ = 0, last_count_ = 0;
  Time first_above_ = 0, next_ = 0;
};
