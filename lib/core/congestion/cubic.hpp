// CUBIC (RFC 9438) with HyStart, with the constants and the whole segments of the Linux kernel.
#pragma once
#include "congestion/control_context.hpp"
#include "congestion/hystart.hpp"
#include "tcp/congestion_control.hpp"

class Cubic : public CongestionControl {
 public:
  explicit Cubic(const ControlContext& context)
      : Cubic(context.tcp.hystart, context.tcp.pacing, HyStart(context.tcp.hystart_rounds_from_start)) {}
  bool reads_pacing_rate() const override { return true; }
  void on_delivery(CongestionWindow& window, const Delivery& delivery) override;
  void grow(CongestionWindow& window, const Delivery& delivery) override;
  double ssthresh_after_loss(const CongestionWindow& window) override;
  void on_timeout() override { *this = Cubic(hystart_, paced_, signs_.after_timeout()); }
  void on_restart(Time silence, Time now) override {
    if (epoch_start_ != never) epoch_start_ = std::min(epoch_start_ + silence, now);  // silence is no time to grow
  }

 protected:
  // Whether the sample tells something of the network; for a second after a loss Linux does not trust it.
  bool is_measure(const Delivery& delivery) const {
    return delivery.round_trip > 0 && (epoch_start_ == never || delivery.now - epoch_start_ >= picoseconds_per_second);
  }

  bool hystart_, paced_, found_ = false;  // found_: HyStart has ended slow start, and is not asked again
  HyStart signs_;
  Time smallest_round_trip_ = never;

 private:
  Cubic(bool hystart, bool paced, HyStart signs) : hystart_(hystart), paced_(paced), signs_(signs) {}
  double acknowledgements_per_segment(double window, double acknowledged, Time now);
  double of_the_cubic(double window, Time now) const;

  static constexpr double beta = 717.0 / 1024, scale = 410.0 / 1024;
  static constexpr double per_reno_segment = 15.0 / 8;  // of a window's acknowledgements: 3 (1 - beta)/(1 + beta)
  static constexpr Time tick = picoseconds_per_second / 1000, lasts = picoseconds_per_second / 32;
  // The cubic: where it levels out, and how long after the start of the epoch.
  Time epoch_start_ = never;
  double last_maximum_ = 0, plateau_ = 0, time_to_plateau_s_ = 0;
  // How many acknowledgements give a segment more, and when and for which window this was computed.
  double needed_ = 0, found_for_ = 0;
  Time found_at_ = 0;
  double reno_window_ = 0, reno_credit_ = 0;  // acknowledged towards its next segment
};
