// Controlled delay (RFC 8289): drops or marks at departure once packets have waited `target` for an `interval`.
#pragma once
#include <cmath>

#include "queue_numbers.hpp"
#include "queue_rule.hpp"

class CoDel {
 public:
  static constexpr const char* name = "codel";
  static constexpr bool decides_at_departure = true;
  static CoDel from(const QueueNumbers& numbers) {
    return CoDel(numbers.whole(0), numbers.time(1), numbers.time(2), numbers.flag(3));
  }

  CoDel(std::uint64_t limit_packets, Time target, Time interval, bool ecn)
      : limit_packets_(limit_packets), target_(target), interval_(interval), ecn_(ecn) {}

  Verdict arrival(const Backlog& waiting, const PacketFacts&, Time) {
    return waiting.packets < limit_packets_ ? Verdict::accept : Verdict::drop;
  }

  // Called for each packet taken from the queue until one is accepted or marked. An empty queue calls for nothing.
  Verdict departure(const Backlog& left, Time waited, const PacketFacts& packet, Time now) {
    const bool bad = stays_above_target(left, waited, now);
    const bool marks = ecn_ && packet.ecn_capable;
    const Step after = step_;
    step_ = Step::none;
    if (after == Step::entered) return Verdict::accept;  // what follows the first drop is sent, come what may
    if (dropping_) {
      if (!bad) return dropping_ = false, Verdict::accept;
      if (after == Step::dropped) next_ = law(next_);
      if (now < next_) return Verdict::accept;
      ++count_;
      if (marks) return next_ = law(next_), Verdict::mark;
      step_ = Step::dropped;
      return Verdict::drop;
    }
    if (!bad) return Verdict::accept;
    dropping_ = true;
    const std::uint64_t recent = count_ - last_count_;  // starts near the rate that worked a moment ago
    count_ = recent > 1 && now - next_ < 16 * interval_ ? recent : 1;
    last_count_ = count_;
    next_ = law(now);
    if (marks) return Verdict::mark;
    step_ = Step::entered;
    return Verdict::drop;
  }

 private:
  enum class Step : std::uint8_t { none, entered, dropped };

  bool stays_above_target(const Backlog& left, Time waited, Time now) {
    if (waited < target_ || left.bytes <= full_packet_bytes) return above_ = false;
    if (!above_) return above_ = true, first_above_ = now + interval_, false;
    return now >= first_above_;
  }
  Time law(Time from) const {
    return from + static_cast<Time>(static_cast<double>(interval_) / std::sqrt(static_cast<double>(count_)));
  }

  std::uint64_t limit_packets_;
  Time target_, interval_;
  bool ecn_;
  bool dropping_ = false, above_ = false;
  Step step_ = Step::none;
  Time first_above_ = 0, next_ = 0;
  std::uint64_t count_ = 0, last_count_ = 0;
};
