// Binary increase (Xu, Harfoush and Rhee, INFOCOM 2004) with the constants of Linux's tcp_bic.c. After a loss the
// window goes half of the way (here a quarter) to where it was, again and again, and then beyond it, slowly at first.
// Segments are counted, so that the kernel's correction for receivers that acknowledge every second segment is not
// needed.
#pragma once
#include <algorithm>

#include "tcp/congestion_control.hpp"

class Bic : public CongestionControl {
 public:
  void grow(CongestionWindow& window, const Delivery& delivery) override {
    if (!delivery.window_limited) return;
    double left = delivery.segments;
    if (window.in_slow_start()) left = window.slow_start(left);
    if (left > 0) window.segments += left / acknowledgements_per_segment(window.segments);
  }
  double ssthresh_after_loss(const CongestionWindow& window) override {
    // Fast convergence: a flow that loses before it reaches the last maximum leaves room for others.
    last_maximum_ = window.segments < last_maximum_ ? window.segments * (1 + beta) / 2 : window.segments;
    return std::max(window.segments * (window.segments <= low_window ? 0.5 : beta), 2.0);
  }
  void on_timeout() override { last_maximum_ = 0; }

 private:
  double acknowledgements_per_segment(double window) const {
    if (window <= low_window) return window;
    double increment = most;  // segments a round trip
    const double distance = (last_maximum_ - window) / step, beyond = window - last_maximum_;
    if (distance > 0)
      increment = distance <= 1 ? step / smoothing : std::min(distance, most);
    else if (beyond < step)
      increment = step / smoothing;
    else if (beyond < most * (step - 1))
      increment = beyond / (step - 1);
    double needed = window / increment;
    if (last_maximum_ == 0) needed = std::min(needed, 20.0);  // no maximum is known yet
    return std::max(needed, 1.0);
  }

  static constexpr double beta = 819.0 / 1024, low_window = 14, most = 16, step = 4, smoothing = 20;
  double last_maximum_ = 0;
};
