// Controlled delay (RFC 8289): drops or marks at departure once packets have waited `target` for an `interval`. Linux's
// version is linux_codel.hpp.
//
// Versions differ in where they begin when they have to drop again soon after they stopped: in the number of drops
// (`count_`) from which the gap to the next drop is computed.
#pragma once
#include <cmath>

#include "queues/codel_states.hpp"
#include "queues/queue_numbers.hpp"

class CoDel : public CoDelStates<CoDel> {
 public:
  static constexpr const char* name = "codel";
  enum class Reentry : std::uint8_t { rfc8289, ns2_2012, draft01 };
  static CoDel from(const QueueNumbers& numbers) {
    return CoDel(numbers.whole(0), numbers.time(1), numbers.time(2), numbers.flag(3),
                 static_cast<Reentry>(numbers.whole(4)), numbers.whole(5));
  }

  // Nothing is dropped while at most `least_bytes` wait, which is a packet of the greatest size.
  CoDel(std::uint64_t limit_packets, Time target, Time interval, bool ecn, Reentry reentry = Reentry::rfc8289,
        std::uint64_t least_bytes = full_packet_bytes)
      : CoDelStates(limit_packets, target, interval, ecn, least_bytes), reentry_(reentry) {}

  Verdict departure(const Backlog& left, Time waited, const PacketFacts& packet, Time now) {
    return judge(left, waited, packet, now);
  }

 private:
  friend CoDelStates<CoDel>;

  static bool is_over(Time now, Time end) { return now >= end; }
  // Begins near the drop rate that worked a moment ago.
  void start_count(Time now) {
    const Time since = now - next_;
    const std::uint64_t recent = count_ - last_count_;
    switch (reentry_) {
      case Reentry::ns2_2012:  // of Nichols and Jacobson's own simulations
        count_ = count_ > 1 && since < 16 * interval_ ? count_ - 1 : 1;
        break;
      case Reentry::draft01:  // draft-nichols-tsvwg-codel-01
        count_ = count_ > 2 && since < 8 * interval_ ? count_ - 2 : 1;
        break;
      case Reentry::rfc8289:
        count_ = recent > 1 && since < 16 * interval_ ? recent : 1;
        break;
    }
  }
  void on_drop_more() {}
  Time law(Time from) const {
    return from + static_cast<Time>(static_cast<double>(interval_) / std::sqrt(static_cast<double>(count_)));
  }

  Reentry reentry_;
};
