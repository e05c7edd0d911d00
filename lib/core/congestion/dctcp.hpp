// Data Center TCP (RFC 8257): the window falls by half the share of marked segments, estimated once a window.
#pragma once
#include <algorithm>
#include <cmath>

#include "congestion/control_context.hpp"
#include "congestion/reno.hpp"

class Dctcp : public Reno {
 public:
  explicit Dctcp(const ControlContext& context) : alpha_(context.tcp.dctcp_first_alpha) {}

  bool wants_precise_ecn() const override { return true; }
  void on_delivery(CongestionWindow&, const Delivery& delivery) override {
    delivered_ += delivery.segments;
    if (delivery.marked) marked_ += delivery.segments;
    if (delivery.first < window_end_) return;
    if (delivered_ > 0) alpha_ += gain * (marked_ / delivered_ - alpha_);
    delivered_ = marked_ = 0;
    window_end_ = delivery.next;
  }
  double ssthresh_after_mark(const CongestionWindow& window) override {
    const double whole = window.whole();  // and Linux takes whole ones away
    return std::max(whole - std::floor(whole * alpha_ / 2), 2.0);
  }
  double alpha() const { return alpha_; }

 private:
  static constexpr double gain = 1.0 / 16;
  double alpha_;
  double delivered_ = 0, marked_ = 0;
  std::uint64_t window_end_ = 0;
};
