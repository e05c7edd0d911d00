#include "congestion/suss.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace {
constexpr Time least_round_trip = 10 * picoseconds_per_second / 1000;
}

Suss::Suss(const ControlContext& context)
    : Cubic(context),
      initial_window_(context.tcp.initial_window),
      most_rounds_(context.tcp.suss_rounds),
      guards_(context.tcp.suss_guard),
      paces_(context.tcp.suss_pacing),
      tail_(static_cast<std::uint64_t>(context.tcp.initial_window)) {
  if (context.tcp.pacing || most_rounds_ == 0) mode_ = Mode::off;
}

void Suss::on_delivery(CongestionWindow& window, const Delivery& delivery) {
  if (mode_ == Mode::off) {
    if (std::exchange(off_by_now_, false)) window.send_from = 0;
    return Cubic::on_delivery(window, delivery);
  }
  if (!is_measure(delivery)) return;
  if (delivery.round_trip < smallest_round_trip_) {
    smallest_round_trip_ = delivery.round_trip;
    smallest_in_round_ = round_;
  }
  if (!window.in_slow_start() || !signs_.look(window, delivery)) return;
  const bool grew = signs_.round_trips_grew(delivery.round_trip, smallest_round_trip_);
  if (!hystart_) return;
  // HyStart's train is of the blue part alone. So it is as many times shorter as the window exceeds a doubling.
  if (cap_ == 0 && mode_ == Mode::clocked && colour_ != Colour::red) {
    const Time longest = HyStart::longest_train(smallest_round_trip_, delivery.bytes_per_second) / 2;
    if (signs_.train_is_long(delivery.now, longest >> paced_rounds_))
      cap_ = window.segments + blue_acknowledged_ * ((1 << paced_rounds_) - 1);
  } else if (cap_ > 0 && window.segments > cap_) {
    stop(window, delivery);
  }
  if (grew) stop(window, delivery);
}

// Slow start ends here. What was let into the network faster than it delivers is not repeated.
void Suss::stop(CongestionWindow& window, const Delivery& delivery) {
  mode_ = Mode::off;
  window.send_from = 0;
  if (paced_rounds_ > 1) window.segments = std::max(2.0, std::min(window.segments, delivery.in_flight));
  window.ssthresh = window.segments;
  found_ = true;
}

void Suss::grow(CongestionWindow& window, const Delivery& delivery) {
  if (mode_ != Mode::off && cap_ == 0 && window.in_slow_start()) take_round(window, delivery);
  const bool red = (mode_ == Mode::guarding || mode_ == Mode::pacing) && colour_ == Colour::red;
  if (!red || !window.in_slow_start()) Cubic::grow(window, delivery);
}

void Suss::take_round(CongestionWindow& window, const Delivery& delivery) {
  if (colour_ == Colour::last_blue) colour_ = Colour::red;
  if (delivery.first > head_) {  // the first acknowledgement of a round
    colour_ = Colour::blue;
    blue_acknowledged_ = 0;
    ++round_;
    round_start_ = delivery.now;
    head_ = delivery.next;
    mode_ = Mode::clocked;
    window.send_from = 0;
  }
  if (delivery.first >= tail_) {  // the last of its blue part
    colour_ = Colour::last_blue;
    const double blue = initial_window_ * std::exp2(round_ - 1);
    tail_ = head_ + static_cast<std::uint64_t>(blue);
    // There is one gap less than there are segments, and the present one is not counted yet.
    const double share = blue_acknowledged_ > 0 ? blue / (2 * blue_acknowledged_) : 1;
    const Time train = static_cast<Time>(static_cast<double>(delivery.now - round_start_) * share);
    if (quadruples_) quadruples_ = may_quadruple(train);
    if (quadruples_) plan_red(window, delivery, blue, train);
    if (mode_ == Mode::guarding && delivery.next >= tail_) begin_red(window);
  }
  if (colour_ != Colour::red) blue_acknowledged_ += delivery.segments;
}

// Conditions C1 and C2: if trains double with the window and delays grow as they did, HyStart will find neither sign in
// the next round.
bool Suss::may_quadruple(Time train) {
  if (round_ - 2 >= most_rounds_) return false;
  if (round_ == 2) {
    const bool may = smallest_round_trip_ > least_round_trip && train < smallest_round_trip_ / 4;
    if (!may) mode_ = Mode::off;
    return may;
  }
  const double length = static_cast<double>(train) * std::exp2(round_ - 2);
  const double before = static_cast<double>(train_before_) * std::exp2(round_ - 3);
  const double growth = before > 0 ? length / (2 * before) : 1;
  const auto smallest = static_cast<double>(smallest_round_trip_);
  if (2 * growth * length > smallest) return false;
  const double rounds = round_ - smallest_in_round_;
  return (rounds + 1) * static_cast<double>(signs_.round_smallest()) <= (rounds + 1) * smallest + rounds * smallest / 8;
}

void Suss::plan_red(const CongestionWindow& window, const Delivery& delivery, double blue, Time train) {
  train_before_ = train;
  const double red = blue * std::exp2(round_ - 1) - blue;
  const double red_to_come = blue / 2 * std::exp2(round_ - 2) - blue / 2;  // acknowledgements of red segments
  const Time rest = smallest_round_trip_ >> (round_ - 1), lasts = smallest_round_trip_ - rest;
  if (rest <= train) return;
  mode_ = Mode::guarding;
  ++paced_rounds_;
  limit_ = window.segments + delivery.segments + red - red_to_come;
  interval_ = paces_ ? static_cast<Time>(static_cast<double>(lasts) / red) : 0;
  red_from_ = delivery.now + (guards_ ? (rest - train) / 2 : 0);
}

void Suss::begin_red(CongestionWindow& window) {
  mode_ = Mode::pacing;
  window.send_from = red_from_;
  window.segments = std::max(window.segments, std::min(window.segments + 2, limit_));
}

void Suss::on_sent(CongestionWindow& window, std::uint64_t next, Time now) {
  if (mode_ == Mode::guarding && next >= tail_) return begin_red(window);
  if (mode_ != Mode::pacing) return;
  window.send_from = now + interval_ - std::min(now - window.send_from, interval_ / 2);  // a late segment may catch up
  window.segments = std::max(window.segments, std::min(window.segments + 2, limit_));
}
