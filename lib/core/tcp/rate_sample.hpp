// How fast the network delivers (draft-cheng-iccrg-delivery-rate-estimation, as in Linux's tcp_rate.c): segments
// delivered between two acknowledgements, over the time it took to send or to acknowledge them, whichever is longer.
#pragma once
#include <cstdint>

#include "base/simulated_time.hpp"

struct RateSample {
  Time now;
  double delivered = 0;        // segments, 0 without a sample
  Time interval = 0;           // in which they were delivered
  double prior_delivered = 0;  // of the whole connection, when the newest of them was sent
  double total_delivered = 0;  // of the whole connection, now
  bool application_limited = false;
  double newly_delivered = 0, newly_lost = 0;
  double total_lost = 0;    // of the whole connection, now; what is lost twice counts twice
  Time delivered_at = 0;    // when something was last delivered
  Time next_departure = 0;  // when pacing lets the next segment leave, now at the earliest
  double in_flight = 0, in_flight_before = 0;
  double in_flight_at_departure = 0;  // of the newest segment delivered, with it
  double lost = 0, marked = 0;        // segments since it left
  bool window_limited = false;        // the window has been full in this round
  Time round_trip = 0;                // of the newest segment delivered, 0 without one
  bool acknowledgement_delayed = false;
  enum class State : std::uint8_t { open, recovery, loss } state = State::open;

  double rate() const { return interval > 0 ? delivered / to_seconds(interval) : 0; }  // segments a second
};

// What is noted when a segment leaves.
struct RateMark {
  Time first_sent, delivered_at;  // of the sampling interval
  double delivered;
  bool application_limited;
  std::uint32_t in_flight, lost, marked;  // segments: under way, with this one; of the whole connection, modulo 2^32
};
