// Data Center TCP (RFC 8257): the window falls by half the share of marked segments, estimated once a window, and by
// half for a loss. The estimate is in 1024ths and rounded down, as in Linux, so that it reaches 0 when marks stay away.
#pragma once
#include <algorithm>
#include <cmath>

#include "congestion/control_context.hpp"
#include "congestion/reno.hpp"

class Dctcp : public Reno {
 public:
  explicit Dctcp(const ControlContext& context)
      : Reno(context), alpha_(std::round(one * context.tcp.dctcp_first_alpha)) {}

  bool wants_precise_ecn() const override { return true; }
  void on_delivery(CongestionWindow&, const Delivery& delivery) override {
    delivered_ += delivery.segments;
    marked_ += delivery.marked_segments;
    if (delivery.first < window_end_) return;
    const double forgotten = std::floor(alpha_ * gain);
    alpha_ -= forgotten > 0 ? forgotten : alpha_;
    if (marked_ > 0) alpha_ = std::min(alpha_ + std::floor(one * gain * marked_ / delivered_), one);
    delivered_ = marked_ = 0;
    window_end_ = delivery.next;
  }
  double ssthresh_after_mark(const CongestionWindow& window) override {
    const double whole = window.whole();  // Linux takes whole segments away
    return std::max(whole - std::floor(whole * alpha_ / (2 * one)), 2.0);
  }
  // RFC 8257, section 3.5: a loss halves the window, whatever marks have taken before.
  double ssthresh_after_loss_and_mark(const CongestionWindow& window) override { return ssthresh_after_loss(window); }

 private:
  static constexpr double gain = 1.0 / 16, one = 1024;
  double alpha_;  // 1024ths
  double delivered_ = 0, marked_ = 0;
  std::uint64_t window_end_ = 0;
};
