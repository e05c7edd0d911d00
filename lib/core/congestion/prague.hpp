// TCP Prague (draft-briscoe-iccrg-prague-congestion-control, as in the authors' kernel): an L4S sender (RFC 9331). As
// with DCTCP the window falls by half the share of marked segments, a moving average, and by half for a loss. There are
// three differences. The window grows for each segment that comes without a mark, also while it is being reduced. It
// has fractions, which whole windows follow by a segment at each acknowledgement. It is paced at the window over the
// round trip, where a segment counts with its headers, as in the kernel: 3.6 % faster than the payload.
//
// After `rounds` rounds outside slow start, a round trip below a virtual one counts like that one. The window grows by
// the square of their ratio, and it is reduced and the average updated at most once a virtual round trip. So flows with
// shorter round trips do not get more. Without AccECN it is Reno with pacing, and marks are losses (section 2.1.2).
#pragma once
#include <cstdint>

#include "congestion/control_context.hpp"
#include "tcp/congestion_control.hpp"

class Prague : public CongestionControl {
 public:
  explicit Prague(const ControlContext& context)
      : segment_bytes_(context.tcp.segment_bytes),
        virtual_round_trip_(context.tcp.prague_round_trip),
        rounds_before_(context.tcp.prague_rounds),
        heeds_marks_(context.tcp.prague_heeds_marks),
        alpha_(context.tcp.dctcp_first_alpha) {}

  bool wants_precise_ecn() const override { return true; }
  bool wants_l4s() const override { return true; }
  void on_ecn_agreed(bool accurate) override { accurate_ = accurate; }
  void on_connected(const CongestionWindow& window, Time round_trip, Time now) override;
  double pacing_rate() const override { return pacing_rate_; }
  double burst_seconds() const override { return 1.0 / 4096; }
  bool owns_window() const override { return true; }
  void grow(CongestionWindow&, const Delivery&) override {}
  // An acknowledgement is processed once it is known to which state it leads.
  void on_delivery(CongestionWindow&, const Delivery& delivery) override { heard_ = delivery; }
  void on_rate_sample(CongestionWindow& window, const RateSample& sample) override;
  double ssthresh_after_mark(const CongestionWindow& window) override;
  double ssthresh_after_loss(const CongestionWindow& window) override;
  // RFC 8257, section 3.5: a loss halves the window, whatever marks have taken before.
  double ssthresh_after_loss_and_mark(const CongestionWindow& window) override { return ssthresh_after_loss(window); }
  void on_undo() override;

 private:
  static constexpr double gain = 1.0 / 16, least_window = 2;
  static constexpr double header_bytes = 52;  // of IPv4, and of TCP with time stamps

  double whole_window() const;
  double paced_bytes() const { return segment_bytes_ + (accurate_ ? header_bytes : 0); }
  bool ignores_round_trip(const CongestionWindow& window) const {
    return accurate_ && virtual_round_trip_ > 0 && !window.in_slow_start() && rounds_ >= rounds_before_;
  }
  double increase(const CongestionWindow& window) const;
  void take_round(const CongestionWindow& window);
  void follow(CongestionWindow& window) const;

  double segment_bytes_;
  Time virtual_round_trip_;
  std::uint64_t rounds_before_, rounds_ = 0;  // outside slow start
  bool heeds_marks_;                          // false breaks it on purpose
  bool accurate_ = false, saw_mark_ = false;
  Delivery heard_{};
  double fraction_ = 0, before_loss_ = 0;  // of the window, segments
  Time smoothed_ = 0;                      // round trip
  double pacing_rate_ = 0;                 // bytes a second

  double alpha_;  // the share of marked segments
  double delivered_ = 0, marked_ = 0;
  std::uint64_t round_end_ = 0;
  Time averaged_at_ = 0, reduced_at_ = 0;
};
