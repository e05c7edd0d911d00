// RFC 5681: the window grows by a segment a round trip and halves after a loss. It is in whole segments as in Linux, or
// in fractions as in older senders.
#pragma once
#include "congestion/control_context.hpp"
#include "tcp/congestion_control.hpp"

class Reno : public CongestionControl {
 public:
  Reno() = default;
  explicit Reno(const ControlContext& context)
      : whole_(context.tcp.recovery == Recovery::linux_like), exit_share_(context.tcp.slow_start_exit_share) {}

  void grow(CongestionWindow& window, const Delivery& delivery) override {
    if (!delivery.window_limited) return;
    double left = delivery.segments;
    if (window.in_slow_start()) left = window.slow_start(left);
    if (left <= 0) return;
    if (whole_)
      window.avoid_congestion(left, window.whole());
    else
      window.segments += left / window.segments;
  }
  double ssthresh_after_loss(const CongestionWindow& window) override {
    const double share = window.in_slow_start() ? exit_share_ : 0.5;
    return std::max(whole_ ? std::floor(window.whole() * share) : window.segments * share, 2.0);
  }

 private:
  bool whole_ = true;
  double exit_share_ = 0.5;
};
