#include "congestion/cubic.hpp"

#include <algorithm>
#include <cmath>

namespace {
// The cube root of x >= 0 by Newton's method, in plain arithmetic, so that it is the same on every machine.
double cube_root(double x) {
  if (x == 0) return 0;
  double root = x > 1 ? x : 1;
  for (double before = root + 1; root < before;) {  // falls until rounding stops it
    before = root;
    root = (2 * before + x / (before * before)) / 3;
  }
  return root;
}
}  // namespace

void Cubic::on_delivery(CongestionWindow& window, const Delivery& delivery) {
  signs_.learn_of_timeout(delivery);
  if (!is_measure(delivery)) return;
  smallest_round_trip_ = std::min(smallest_round_trip_, delivery.round_trip);
  if (!hystart_ || found_ || !window.in_slow_start() || !signs_.look(window, delivery)) return;
  const Time longest = HyStart::longest_train(smallest_round_trip_, delivery.bytes_per_second);
  const bool long_train = signs_.train_is_long(delivery.now, paced_ ? longest : longest / 2);
  const bool queue_grows = signs_.round_trips_grew(delivery.round_trip, smallest_round_trip_);
  found_ = long_train || queue_grows;
  if (found_) window.ssthresh = window.segments;
}

void Cubic::grow(CongestionWindow& window, const Delivery& delivery) {
  if (!delivery.window_limited) return;
  double left = delivery.segments;
  if (window.in_slow_start()) left = window.slow_start(left);
  if (left > 0) window.avoid_congestion(left, acknowledgements_per_segment(window.whole(), left, delivery.now));
}

double Cubic::acknowledgements_per_segment(double window, double acknowledged, Time now) {
  reno_credit_ += acknowledged;
  if (window == found_for_ && now - found_at_ <= lasts) return needed_;
  if (epoch_start_ == never || now / tick != found_at_ / tick) {
    found_for_ = window;
    found_at_ = now;
    if (epoch_start_ == never) {
      epoch_start_ = now;
      reno_window_ = window;
      reno_credit_ = acknowledged;
      plateau_ = std::max(last_maximum_, window);
      time_to_plateau_s_ = cube_root((plateau_ - window) / scale);
    }
    needed_ = of_the_cubic(window, now);
  }
  // The window grows no slower than that of a Reno with the same loss rate (RFC 9438, section 4.3).
  for (const double each = std::floor(per_reno_segment * window); reno_credit_ > each; reno_credit_ -= each)
    reno_window_ += 1;
  if (reno_window_ > window) needed_ = std::min(needed_, std::floor(window / (reno_window_ - window)));
  return needed_ = std::max(needed_, 2.0);
}

double Cubic::of_the_cubic(double window, Time now) const {
  const Time round_trip = smallest_round_trip_ == never ? 0 : smallest_round_trip_;
  const double distance_s = to_seconds(now + round_trip - epoch_start_) - time_to_plateau_s_;
  const double away = std::floor(scale * std::abs(distance_s * distance_s * distance_s));
  const double target = distance_s < 0 ? plateau_ - away : plateau_ + away;
  const double needed = target > window ? std::floor(window / (target - window)) : 100 * window;
  return last_maximum_ == 0 ? std::min(needed, 20.0) : needed;  // 0: no plateau is known yet
}

double Cubic::ssthresh_after_loss(const CongestionWindow& window) {
  const double whole = window.whole();
  epoch_start_ = never;
  // Fast convergence: a flow that loses before it reaches the last plateau leaves room for others.
  last_maximum_ = whole < last_maximum_ ? std::floor(whole * (1 + beta) / 2) : whole;
  return std::max(std::floor(whole * beta), 2.0);
}
