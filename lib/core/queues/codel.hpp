// Controlled delay (RFC 8289): drops or marks at departure once packets have waited `target` for an `interval`. Linux's
// is linux_codel.hpp.
//
// Versions differ in where they begin when they have to drop again soon after they had stopped: with how many drops
// (`count`) the gap to the next one is reckoned.
#pragma once
#include <cmath>

#include "queues/queue_numbers.hpp"
#include "queues/queue_rule.hpp"

class CoDel {
 public:
  static constexpr const char* name = "codel";
  static constexpr bool decides_at_departure = true;
  enum class Reentry : std::uint8_t { rfc8289, ns2_2012, draft01 };
  static CoDel from(const QueueNumbers& numbers) {
    return CoDel(numbers.whole(0), numbers.time(1), numbers.time(2), numbers.flag(3),
                 static_cast<Reentry>(numbers.whole(4)), numbers.whole(5));
  }

  // Nothing is dropped while no more than `least_bytes` wait: a packet of the greatest size.
  CoDel(std::uint64_t limit_packets, Time target, Time interval, bool ecn, Reentry reentry = Reentry::rfc8289,
        std::uint64_t least_bytes = full_packet_bytes)
      : limit_packets_(limit_packets),
        target_(target),
        interval_(interval),
        least_bytes_(least_bytes),
        ecn_(ecn),
        reentry_(reentry) {}

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
    last_count_ = count_ = first_count(now);
    next_ = law(now);
    if (marks) return Verdict::mark;
    step_ = Step::entered;
    return Verdict::drop;
  }

 private:
  enum class Step : std::uint8_t { none, entered, dropped };

  bool stays_above_target(const Backlog& left, Time waited, Time now) {
    if (waited < target_ || left.bytes <= least_bytes_) return above_ = false;
    if (!above_) return above_ = true, first_above_ = now + interval_, false;
    return now >= first_above_;
  }
  // Near the rate that worked a moment ago.
  std::uint64_t first_count(Time now) const {
    const Time since = now - next_;
    switch (reentry_) {
      case Reentry::ns2_2012:  // of Nichols and Jacobson's own simulations
        return count_ > 1 && since < 16 * interval_ ? count_ - 1 : 1;
      case Reentry::draft01:  // draft-nichols-tsvwg-codel-01
        return count_ > 2 && since < 8 * interval_ ? count_ - 2 : 1;
      case Reentry::rfc8289:
        break;
    }
    const std::uint64_t recent = count_ - last_count_;
    return recent > 1 && since < 16 * interval_ ? recent : 1;
  }
  Time law(Time from) const {
    return from + static_cast<Time>(static_cast<double>(interval_) / std::sqrt(static_cast<double>(count_)));
  }

  std::uint64_t limit_packets_;
  Time target_, interval_;
  std::uint64_t least_bytes_;
  bool ecn_;
  Reentry reentry_;
  bool dropping_ = false, above_ = false;
  Step step_ = Step::none;
  Time first_above_ = 0, next_ = 0;
  std::uint64_t count_ = 0, last_count_ = 0;
};
