// A sender's part in the rate control protocol (network/rcp_link.hpp). It keeps to the rate that it is told, and sends
// at least a packet a round trip, so as to be told another rate. It has no window.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/simulated_time.hpp"
#include "congestion/control_context.hpp"
#include "congestion/explicit_control.hpp"
#include "network/rcp_link.hpp"

class RcpControl : public ExplicitControl {
 public:
  static constexpr double no_window = 1e9;

  explicit RcpControl(const ControlContext& context) : segment_bytes_(context.tcp.segment_bytes) {}

  void adapt(TcpSettings& tcp) const override { tcp.initial_window = no_window, tcp.unpaced_segments = 0; }
  void ask(Packet& packet, const Asking& asking) override { RcpHeader::ask(packet, asking.round_trip); }
  void hear(const Packet& packet) override { heard_rate_ = RcpHeader::offered(packet); }
  void answer(Packet& packet) override { RcpHeader::answer(packet, heard_rate_); }
  void be_told(const Packet& packet, Time round_trip) override {
    const double on_the_wire = RcpHeader::answered(packet) * 125.0;
    const double least = round_trip > 0 ? segment_bytes_ / to_seconds(round_trip) : 0;
    rate_ = std::max(on_the_wire * segment_bytes_ / (segment_bytes_ + Packet::header_bytes), least);
  }
  double pacing_rate() const override { return rate_; }
  void grow(CongestionWindow& window, const Delivery&) override { window.segments = no_window; }
  double ssthresh_after_loss(const CongestionWindow&) override { return no_window; }

 private:
  double segment_bytes_, rate_ = 0;
  std::uint32_t heard_rate_ = RcpHeader::unlimited;  // by the receiver
};
