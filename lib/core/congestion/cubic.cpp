#include "congestion/cubic.hpp"

namespace {
// By Newton's method, of plain arithmetic, so that it is the same on every machine. For x >= 0.
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
  if (left > 0) window.segments += left / acknowledgements_per_segment(window.segments, left, delivery.now);
}

double Cubic::acknowledgements_per_segment(double window, double acknowledged, Time now) {
  if (epoch_start_ == never) {
    epoch_start_ = now;
    reno_window_ = window;
    plateau_ = std::max(last_maximum_, window);
    time_to_plateau_s_ = cube_root((plateau_ - window) / scale);
  }
  const Time round_trip = smallest_round_trip_ == never ? 0 : smallest_round_trip_;
  const double distance_s = to_seconds(now + round_trip - epoch_start_) - time_to_plateau_s_;
  const double target = plateau_ + scale * distance_s * distance_s * distance_s;
  double needed = target > window ? window / (target - window) : 100 * window;
  if (last_maximum_ == 0) needed = std::min(needed, 20.0);  // no plateau is known yet
  // Not slower than a Reno of the same loss rate (RFC 9438, section 4.3).
  reno_window_ += acknowledged * 3 * (1 - beta) / (1 + beta) / window;
  if (reno_window_ > window) needed = std::min(needed, window / (reno_window_ - window));
  return std::max(needed, 2.0);
}

double Cubic::ssthresh_after_loss(const CongestionWindow& window) {
  epoch_start_ = never;
  // Fast convergence: who lost before reaching the last plateau leaves room for others.
  last_maximum_ = window.segments < last_maximum_ ? window.segments * (1 + beta) / 2 : window.segments;
  return std::max(window.segments * beta, 2.0);
}
