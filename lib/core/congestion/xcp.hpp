// A sender's part in the explicit control protocol (network/xcp_link.hpp; Katabi, Handley and Rohrs, SIGCOMM 2002,
// sections 3.2 to 3.4). Its window changes by what links say, and otherwise only by losses, which halve it.
#pragma once
#include <algorithm>
#include <utility>

#include "congestion/control_context.hpp"
#include "congestion/explicit_control.hpp"
#include "network/xcp_link.hpp"

class XcpControl : public ExplicitControl {
 public:
  explicit XcpControl(const ControlContext& context)
      : packet_bytes_(context.tcp.segment_bytes + Packet::header_bytes),
        most_(static_cast<double>(window_limit(context.tcp)) / context.tcp.segment_bytes) {}

  // A sender with less than a window to send asks for no larger one. (The authors' sender in ns-2 does the same.)
  void ask(Packet& packet, const Asking& asking) override {
    XcpHeader::ask(packet, asking.round_trip, asking.window * packet_bytes_, asking.left > asking.window);
  }
  // Several packets may have one answer.
  void hear(const Packet& packet) override { heard_ += XcpHeader::feedback(packet); }
  void answer(Packet& packet) override { XcpHeader::answer(packet, std::exchange(heard_, 0)); }
  void be_told(const Packet& packet, Time) override { told_ += XcpHeader::answered(packet) / packet_bytes_; }

  void on_delivery(CongestionWindow& window, const Delivery&) override {
    window.segments = std::clamp(window.segments + std::exchange(told_, 0), 1.0, std::max(most_, 1.0));
  }
  void grow(CongestionWindow&, const Delivery&) override {}
  double ssthresh_after_loss(const CongestionWindow& window) override { return std::max(window.segments / 2, 2.0); }

 private:
  double packet_bytes_, most_;
  double heard_ = 0, told_ = 0;  // bytes, segments
};
