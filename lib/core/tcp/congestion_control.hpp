// The interface of a congestion control: how the window grows, and to what it falls after a loss or a mark. Windows are
// in segments, and need not be whole. A control that owns its window sets it by a model of its own instead, after every
// acknowledgement.
//
// To add a control, derive from CongestionControl in a file of its own, and name it in congestion_controls.cpp.
// README.md shows one.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/simulated_time.hpp"
#include "tcp/rate_sample.hpp"

struct CongestionWindow {
  double segments, ssthresh;  // ssthresh: where slow start ends
  Time send_from = 0;         // no segment leaves sooner
  double credit = 0;          // segments acknowledged towards the next one of congestion avoidance
  bool in_slow_start() const { return segments < ssthresh; }
  double three_quarters() const { return std::floor(segments / 2) + std::floor(segments / 4); }
  double whole() const { return std::floor(segments + 1e-9); }  // sums of fractions may miss one by rounding

  // Slow start: grows by one segment for each acknowledged one, up to ssthresh. Returns how many are left over.
  double slow_start(double acknowledged) {
    const double grown = std::min(segments + acknowledged, ssthresh);
    acknowledged -= grown - segments;
    segments = grown;
    return acknowledged;
  }
  // Congestion avoidance: grows by a whole segment each time that `per_segment` segments have been acknowledged.
  void avoid_congestion(double acknowledged, double per_segment) {
    if (credit >= per_segment) credit = 0, segments += 1;  // credit for a larger window gives one segment
    credit += acknowledged;
    const double steps = std::floor(credit / per_segment);
    credit -= steps * per_segment;
    segments += steps;
  }
};

struct Delivery {
  Time now;
  double segments;            // acknowledged by this packet, selectively or not
  bool marked;                // with the echo of a mark, or with a count of new ones
  bool window_limited;        // the window, and nothing else, held the sender back
  Time round_trip;            // of the newest sample, 0 without one
  std::uint64_t first, next;  // oldest segment not acknowledged, next one to be sent
  double in_flight;           // segments
  double
      bytes_per_second;  // at which the sender would be paced before this acknowledgement; 0 while unknown or not read
  double marked_segments = 0;  // the count of AccECN; else all that are acknowledged with the echo
};

// A segment that is taken for lost.
struct LostSegment {
  Time now;
  std::uint64_t segment;
  double in_flight_at_departure;  // segments, with this one
  double lost_since;              // segments that have been taken for lost since it left, with this one
  double total_delivered;         // of the whole connection
  bool application_limited;       // when it left
};

class CongestionControl {
 public:
  virtual ~CongestionControl() = default;
  virtual bool wants_precise_ecn() const { return false; }
  // An L4S sender (RFC 9331): it asks for AccECN, and with it sends ECT(1).
  virtual bool wants_l4s() const { return false; }
  // Whether deliveries shall have bytes_per_second, which costs divisions.
  virtual bool reads_pacing_rate() const { return false; }
  // Called for every acknowledgement, also during recovery, for measuring.
  virtual void on_delivery(CongestionWindow&, const Delivery&) {}
  // Called for an acknowledgement while nothing is wrong: the window may grow.
  virtual void grow(CongestionWindow& window, const Delivery& delivery) = 0;
  // ssthresh after a loss (or, unless overridden, a mark).
  virtual double ssthresh_after_loss(const CongestionWindow& window) = 0;
  virtual double ssthresh_after_mark(const CongestionWindow& window) { return ssthresh_after_loss(window); }
  // ssthresh where a loss is found while the window still comes down for a mark.
  virtual double ssthresh_after_loss_and_mark(const CongestionWindow& window) { return window.ssthresh; }
  virtual void on_timeout() {}
  virtual void on_undo() {}                         // the last reduction was needless, and the window is restored
  virtual void on_ecn_agreed(bool /*accurate*/) {}  // before on_connected
  virtual void on_connected(const CongestionWindow&, Time /*round_trip, 0 if unknown*/, Time /*now*/) {}
  // Bytes a second; 0 leaves pacing to the settings.
  virtual double pacing_rate() const { return 0; }
  // For senders that make bursts: how much of the rate leaves at once (Linux's sk_pacing_shift), at least two segments.
  virtual double burst_seconds() const { return 1.0 / 1024; }
  // Whether the control owns the window: it alone sets it, in on_rate_sample, also in recovery.
  virtual bool owns_window() const { return false; }
  virtual void on_rate_sample(CongestionWindow&, const RateSample&) {}
  // A control that owns the window may hear of each loss, after the reduction has begun and before the sample.
  virtual bool hears_losses() const { return false; }
  virtual void on_lost(const CongestionWindow&, const LostSegment&) {}
  // A tail loss probe has repaired a loss. total_delivered: segments of the whole connection.
  virtual void on_tail_repaired(const CongestionWindow&, double /*total_delivered*/, bool /*application_limited*/,
                                Time /*now*/) {}
  virtual void on_all_lost(const RateSample&) {}  // a timeout has marked what is out; the sample has no rate
  virtual bool wants_application_limited_mark() const { return false; }  // what is sent now does not measure the path
  virtual void on_sent(CongestionWindow&, std::uint64_t /*next new segment*/, Time /*now*/) {}
  virtual void on_restart(Time /*silence*/, Time /*now*/) {}  // sent with nothing under way
  virtual const char* phase() const { return ""; }            // its name, where the control has phases
};
