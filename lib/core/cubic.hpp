// CUBIC (RFC 9438) with HyStart (Ha and Rhee 2011), with the constants of the Linux kernel.
#pragma once
#include "congestion_control.hpp"

class Cubic : public CongestionControl {
 public:
  explicit Cubic(bool hystart) : hystart_(hystart) {}
  void on_delivery(CongestionWindow& window, const Delivery& delivery) override;
  void grow(CongestionWindow& window, const Delivery& delivery) override;
  double threshold_after_loss(const CongestionWindow& window) override;
  void on_timeout() override { *this = Cubic(hystart_); }
  void on_restart(Time silence, Time now) override {
    if (epoch_start_ != never) epoch_start_ = std::min(epoch_start_ + silence, now);  // no time to grow in
  }

 private:
  double acknowledgements_per_segment(double window, double acknowledged, Time now);
  void look_for_the_end_of_slow_start(CongestionWindow& window, const Delivery& delivery);

  static constexpr double beta = 717.0 / 1024, scale = 0.4;
  bool hystart_;
  Time smallest_round_trip_ = never;
  // The cubic: where it levels out, and how long after the start of the epoch.
  Time epoch_start_ = never;
  double last_maximum_ = 0, plateau_ = 0, time_to_plateau_s_ = 0, reno_window_ = 0;
  // HyStart: this round's smallest round trip, and the train of acknowledgements that it came in.
  std::uint64_t round_end_ = 0;
  Time round_start_ = 0, last_of_train_ = 0, round_smallest_ = never;
  int round_samples_ = 0;
};
