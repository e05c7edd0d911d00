// What all versions of CoDel share: the states in which packets are dropped or marked once they have waited `target`
// for an `interval`. A version (Law) says how far apart drops are and with what count they begin:
//   void start_count(Time now);                drops begin: count_ is set
//   Time law(Time from) const;                 when the next drop is due after one at that time
//   void on_drop_more();                       count_ has grown by one
//   static bool is_over(Time now, Time end);   whether an interval is over
#pragma once
#include <cstdint>

#include "queues/queue_rule.hpp"

template <class Law>
class CoDelStates {
 public:
  static constexpr bool decides_at_departure = true;

  Verdict arrival(const Backlog& waiting, const PacketFacts&, Time) {
    return waiting.packets < limit_packets_ ? Verdict::accept : Verdict::drop;
  }

 protected:
  enum class Step : std::uint8_t { none, entered, dropped };

  // Called for each packet taken from the queue until one is accepted or marked; not called when the queue is empty.
  Verdict judge(const Backlog& left, Time waited, const PacketFacts& packet, Time now) {
    Law& law = static_cast<Law&>(*this);
    const bool bad = stays_above_target(left, waited, now);
    const bool marks = ecn_ && packet.ecn_capable;
    const Step after = step_;
    step_ = Step::none;
    if (after == Step::entered) return Verdict::accept;  // the packet after the first drop is always sent
    if (dropping_) {
      if (!bad) return dropping_ = false, Verdict::accept;
      if (after == Step::dropped) next_ = law.law(next_);
      if (now < next_) return Verdict::accept;
      ++count_;
      law.on_drop_more();
      if (marks) return next_ = law.law(next_), Verdict::mark;
      step_ = Step::dropped;
      return Verdict::drop;
    }
    if (!bad) return Verdict::accept;
    dropping_ = true;
    law.start_count(now);
    last_count_ = count_;
    next_ = law.law(now);
    if (marks) return Verdict::mark;
    step_ = Step::entered;
    return Verdict::drop;
  }

  std::uint64_t limit_packets_;
  Time target_, interval_;
  std::uint64_t least_bytes_;
  bool ecn_;
  bool dropping_ = false, above_ = false;
  Step step_ = Step::none;
  Time first_above_ = 0, next_ = 0;
  std::uint64_t count_ = 0, last_count_ = 0;

 private:
  friend Law;  // the only class that may derive from this

  // Times are in the version's unit. Nothing is dropped while at most `least_bytes` wait.
  CoDelStates(std::uint64_t limit_packets, Time target, Time interval, bool ecn, std::uint64_t least_bytes)
      : limit_packets_(limit_packets), target_(target), interval_(interval), least_bytes_(least_bytes), ecn_(ecn) {}

  bool stays_above_target(const Backlog& left, Time waited, Time now) {
    if (waited < target_ || left.bytes <= least_bytes_) return above_ = false;
    if (!above_) return above_ = true, first_above_ = now + interval_, false;
    return Law::is_over(now, first_above_);
  }
};
