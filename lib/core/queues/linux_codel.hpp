// CoDel as in Linux. It differs from RFC 8289 in that it takes no root: the reciprocal of the count's root is a number
// of 16 bits, which one step of Newton's iteration corrects at each drop. It starts from 1 at a count of 1, so that the
// second to fourth drops come .500, .563 and .488 intervals after those before, where RFC 8289 has .707, .577 and .500.
// Its clock has units of 1024 ns, and drops begin after, not at, the end of an interval above the target.
#pragma once
#include <cstdint>

#include "queues/codel_states.hpp"
#include "queues/queue_numbers.hpp"

class LinuxCoDel : public CoDelStates<LinuxCoDel> {
 public:
  static constexpr const char* name = "linux_codel";
  static LinuxCoDel from(const QueueNumbers& numbers) {
    return LinuxCoDel(numbers.whole(0), numbers.time(1), numbers.time(2), numbers.flag(3), numbers.whole(4));
  }

  // Times are picoseconds. Nothing is dropped while at most `least_bytes` wait, which is the device's greatest packet.
  LinuxCoDel(std::uint64_t limit_packets, Time target, Time interval, bool ecn,
             std::uint64_t least_bytes = full_packet_bytes)
      : CoDelStates(limit_packets, units(target), units(interval), ecn, least_bytes) {}

  Verdict departure(const Backlog& left, Time waited, const PacketFacts& packet, Time time) {
    const Time now = units(time), wait = now - units(time - waited);
    const Verdict verdict = judge(left, wait, packet, now);
    const bool may_mark = packet.ecn_capable && (packet.ect_1 || !only_ect_1_);
    return verdict == Verdict::accept && may_mark && wait > threshold_ ? Verdict::mark : verdict;
  }

  // Marks packets that have waited longer than the threshold, whatever CoDel says: all, or only those with ECT(1).
  void mark_after(Time threshold, bool only_ect_1) {
    threshold_ = units(threshold);
    only_ect_1_ = only_ect_1;
  }

  // Called when there was no packet to take.
  void ran_empty() {
    above_ = dropping_ = false;
    step_ = Step::none;
  }
  // Counts packets that were dropped elsewhere.
  void count_drops(std::uint32_t packets) { count_ += packets; }

 private:
  friend CoDelStates<LinuxCoDel>;
  static constexpr std::uint16_t root_of_one = 0xFFFF;

  static Time units(Time time) { return time / (1024 * picoseconds_per_second / 1'000'000'000); }

  static bool is_over(Time now, Time end) { return now > end; }
  // Begins near the drop rate that worked a moment ago: with as many as were dropped then.
  void start_count(Time now) {
    const std::uint64_t recent = count_ - last_count_;
    if (recent > 1 && now - next_ < 16 * interval_) {
      count_ = recent;
      correct_root();
    } else {
      count_ = 1;
      root_ = root_of_one;
    }
  }
  void on_drop_more() { correct_root(); }
  // x <- x (3 - count x^2) / 2. Where others have raised the count by much, the bracket is negative and, as an unsigned
  // number, becomes large. The next gap can then be any, as in Linux.
  void correct_root() {
    const std::uint64_t x = std::uint64_t{root_} << 16, square = x * x >> 32;  // 32 bits behind the point
    const std::uint64_t quarter = ((std::uint64_t{3} << 32) - count_ * square) >> 2;
    root_ = static_cast<std::uint16_t>(quarter * x >> (31 + 16));
  }
  Time law(Time from) const { return from + (interval_ * root_ >> 16); }

  std::uint16_t root_ = 0;
  Time threshold_ = never;  // Linux's ce_threshold
  bool only_ect_1_ = false;
};
