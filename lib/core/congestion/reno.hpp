// RFC 5681: one segment more a round trip, half after a loss.
#pragma once
#include "congestion/control_context.hpp"
#include "tcp/congestion_control.hpp"

class Reno : public CongestionControl {
 public:
  Reno() = default;
  explicit Reno(const ControlContext& context) : exit_share_(context.tcp.slow_start_exit_share) {}

  void grow(CongestionWindow& window, const Delivery& delivery) override {
    if (!delivery.window_limited) return;
    double left = delivery.segments;
    if (window.in_slow_start()) left = window.slow_start(left);
    if (left > 0) window.segments += left / window.segments;
  }
  double ssthresh_after_loss(const CongestionWindow& window) override {
    return std::max(window.segments * (window.in_slow_start() ? exit_share_ : 0.5), 2.0);
  }

 private:
  double exit_share_ = 0.5;
};
