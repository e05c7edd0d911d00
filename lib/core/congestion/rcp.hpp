// A sender's part in the rate control protocol (network/rcp_link.hpp): to keep to the rate that it is told, and to send
// a packet a round trip at least, so as to be told another. It has no window.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/simulated_time.hpp"
#include "congestion/control_context.hpp"
#include "network/packet.hpp"
#include "tcp/congestion_control.hpp"

class RcpControl : public CongestionControl {
 public:
  static constexpr double no_window = 1e9;

  explicit RcpControl(const ControlContext& context) : segment_bytes_(context.tcp.segment_bytes) {}

  void be_told(std::uint32_t kilobits_per_second, Time round_trip) {
    const double on_the_wire = kilobits_per_second * 125.0;
    const double least = round_trip > 0 ? segment_bytes_ / to_seconds(round_trip) : 0;
    rate_ = std::max(on_the_wire * segment_bytes_ / (segment_bytes_ + Packet::header_bytes), least);
  }
  double pacing_rate() const override { return rate_; }
  void grow(CongestionWindow& window, const Delivery&) override { window.segments = no_window; }
  double ssthresh_after_loss(const CongestionWindow&) override { return no_window; }

 private:
  double segment_bytes_, rate_ = 0;
};
