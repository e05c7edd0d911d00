// What a congestion control is: three answers. Windows are in segments, and need not be whole. One that owns its window
// answers with a model of its own instead, after every acknowledgement.
//
// To add one: derive from it in a file of its own, and name it in congestion_controls.cpp. README.md shows one.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/simulated_time.hpp"
#include "tcp/rate_sample.hpp"

struct CongestionWindow {
  double segments, ssthresh;  // ssthresh: where slow start ends
  Time send_from = 0;         // nothing leaves sooner
  double credit = 0;          // segments acknowledged towards the next one of congestion avoidance
  bool in_slow_start() const { return segments < ssthresh; }
  double three_quarters() const { return std::floor(segments / 2) + std::floor(segments / 4); }
  double whole() const { return std::floor(segments + 1e-9); }  // sums of fractions may miss one by rounding

  // Slow start: one segment for each that was acknowledged, up to ssthresh. Returns how many are left over.
  double slow_start(double acknowledged) {
    const double grown = std::min(segments + acknowledged, ssthresh);
    acknowledged -= grown - segments;
    segments = grown;
    return acknowledged;
  }
  // Congestion avoidance: a whole segment more each time that so many have been acknowledged.
  void avoid_congestion(double acknowledged, double per_segment) {
    if (credit >= per_segment) credit = 0, segments += 1;  // what was counted for a larger window gives one
    credit += acknowledged;
    const double steps = std::floor(credit / per_segment);
    credit -= steps * per_segment;
    segments += steps;
  }
};

struct Delivery {
  Time now;
  double segments;            // acknowledged by this packet, selectively or not
  bool marked;                // with the echo of a mark, or with more of them
  bool window_limited;        // the window, and nothing else, held the sender back
  Time round_trip;            // of the newest sample, 0 without one
  std::uint64_t first, next;  // oldest segment not acknowledged, next one to be sent
  double in_flight;           // segments
  double
      bytes_per_second;  // at which the sender would be paced before this acknowledgement; 0 while unknown or not read
  double marked_segments = 0;  // as many as AccECN tells; else all that are acknowledged with the echo
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
  // Whether deliveries are to tell bytes_per_second, which takes divisions.
  virtual bool reads_pacing_rate() const { return false; }
  // Every acknowledgement, also during recovery: for measuring.
  virtual void on_delivery(CongestionWindow&, const Delivery&) {}
  // An acknowledgement while nothing is wrong: the window may grow.
  virtual void grow(CongestionWindow& window, const Delivery& delivery) = 0;
  // ssthresh after a loss (or, unless overridden, a mark).
  virtual double ssthresh_after_loss(const CongestionWindow& window) = 0;
  virtual double ssthresh_after_mark(const CongestionWindow& window) { return ssthresh_after_loss(window); }
  // ssthresh where a loss is found while the window still comes down for a mark.
  virtual double ssthresh_after_loss_and_mark(const CongestionWindow& window) { return window.ssthresh; }
  virtual void on_timeout() {}
  virtual void on_undo() {}                         // the last reduction was for nothing, and the window is what it was
  virtual void on_ecn_agreed(bool /*accurate*/) {}  // before on_connected
  virtual void on_connected(const CongestionWindow&, Time /*round_trip, 0 if unknown*/, Time /*now*/) {}
  // Bytes a second; 0 leaves pacing to the settings.
  virtual double pacing_rate() const { return 0; }
  // Where senders make bursts: how much of its rate leaves at once (Linux's sk_pacing_shift), two segments at least.
  virtual double burst_seconds() const { return 1.0 / 1024; }
  // Of those that own the window: it is theirs to set, in on_rate_sample, also in recovery.
  virtual bool owns_window() const { return false; }
  virtual void on_rate_sample(CongestionWindow&, const RateSample&) {}
  // Of those, one may hear of each loss, after the reduction has begun and before the sample.
  virtual bool hears_losses() const { return false; }
  virtual void on_lost(const CongestionWindow&, const LostSegment&) {}
  // A tail loss probe has repaired a loss. total_delivered: segments of the whole connection.
  virtual void on_tail_repaired(const CongestionWindow&, double /*total_delivered*/, bool /*application_limited*/,
                                Time /*now*/) {}
  virtual void on_all_lost(const RateSample&) {}  // a timeout has marked what is out: a sample without a rate
  virtual bool wants_application_limited_mark() const { return false; }  // what is sent now is no measure
  virtual void on_sent(CongestionWindow&, std::uint64_t /*next new segment*/, Time /*now*/) {}
  virtual void on_restart(Time /*silence*/, Time /*now*/) {}  // sent with nothing under way
  virtual const char* phase() const { return ""; }            // its name, of controls that have phases
};
