#include "congestion/prague.hpp"

#include <algorithm>
#include <cmath>

void Prague::on_connected(const CongestionWindow& window, Time round_trip, Time now) {
  fraction_ = window.segments;
  smoothed_ = round_trip;
  averaged_at_ = reduced_at_ = now;
  if (smoothed_ > 0) pacing_rate_ = 2 * fraction_ * paced_bytes() / to_seconds(smoothed_);
}

double Prague::whole_window() const { return std::max(std::ceil(fraction_ - 1e-9), least_window); }

void Prague::on_rate_sample(CongestionWindow& window, const RateSample& sample) {
  if (heard_.round_trip > 0)
    smoothed_ = smoothed_ == 0 ? heard_.round_trip : smoothed_ + (heard_.round_trip - smoothed_) / 8;
  const double marks = accurate_ && heeds_marks_ ? heard_.marked_segments : 0;
  saw_mark_ |= marks > 0;
  delivered_ += heard_.segments;
  marked_ += marks;
  double unmarked = heard_.segments - marks;
  if (unmarked > 0 && sample.state == RateSample::State::open && heard_.window_limited) {
    if (window.in_slow_start()) {
      unmarked = window.slow_start(unmarked);
      fraction_ = window.segments;
    }
    fraction_ += unmarked * increase(window) / fraction_;
  }
  follow(window);
  take_round(window);
  if (smoothed_ == 0) return;
  const double sends = std::max(std::max(fraction_, least_window), sample.in_flight);
  const double ratio = window.segments < window.ssthresh / 2 ? 2 : 1;
  pacing_rate_ = ratio * sends * paced_bytes() / to_seconds(smoothed_);
}

// By how many segments the window grows in a round trip.
double Prague::increase(const CongestionWindow& window) const {
  if (!ignores_round_trip(window) || smoothed_ >= virtual_round_trip_) return 1;
  const double share = static_cast<double>(smoothed_) / static_cast<double>(virtual_round_trip_);
  return share * share;
}

// The average is not updated before there is proof that some queue marks.
void Prague::take_round(const CongestionWindow& window) {
  if (heard_.first < round_end_) return;
  if (ignores_round_trip(window) && heard_.now - averaged_at_ < virtual_round_trip_) return;
  if (saw_mark_ && delivered_ > 0) alpha_ += gain * (std::min(marked_ / delivered_, 1.0) - alpha_);
  averaged_at_ = heard_.now;
  delivered_ = marked_ = 0;
  round_end_ = heard_.next;
  if (!window.in_slow_start()) ++rounds_;
}

void Prague::follow(CongestionWindow& window) const {
  const double goal = whole_window();
  if (window.segments > goal)
    window.ssthresh = window.segments = std::max(window.segments - 1, goal);
  else if (window.segments < goal)
    window.segments = std::min(window.segments + 1, goal);
}

double Prague::ssthresh_after_mark(const CongestionWindow& window) {
  if (!heeds_marks_) return window.ssthresh;
  if (!ignores_round_trip(window) || heard_.now - reduced_at_ >= virtual_round_trip_) {
    reduced_at_ = heard_.now;
    fraction_ = std::max(fraction_ * (1 - (accurate_ ? alpha_ : 1) / 2), 1.0);
  }
  return std::min(window.ssthresh, whole_window());  // slow start ends
}

double Prague::ssthresh_after_loss(const CongestionWindow& window) {
  before_loss_ = fraction_;
  fraction_ = std::max(fraction_ / 2, 1.0);
  return std::min(window.ssthresh, whole_window());
}

void Prague::on_undo() { fraction_ = std::max(fraction_, before_loss_); }
