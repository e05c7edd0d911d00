// BBR v1 (Cardwell et al., ACM Queue 2016; draft-cardwell-iccrg-bbr-congestion-control-00) with the constants of
// Linux's tcp_bbr.c. A model of the path, its bandwidth and its round trip, sets both the pacing rate and the window.
// Where two intervals with many losses deliver equally fast, a token-bucket policer is taken to be the cause, and that
// rate is kept for a while (long-term bandwidth).
#pragma once
#include <deque>

#include "base/random_stream.hpp"
#include "congestion/control_context.hpp"
#include "tcp/congestion_control.hpp"

class Bbr : public CongestionControl {
 public:
  // The context's random number seeds the choice of where gain cycles begin.
  explicit Bbr(const ControlContext& context);

  bool owns_window() const override { return true; }
  double pacing_rate() const override { return pacing_rate_; }
  void on_connected(const CongestionWindow& window, Time round_trip, Time now) override;
  void on_rate_sample(CongestionWindow& window, const RateSample& sample) override;
  bool wants_application_limited_mark() const override { return mode_ == Mode::probe_round_trip; }
  double ssthresh_after_loss(const CongestionWindow& window) override;
  void on_timeout() override;
  void on_all_lost(const RateSample& sample) override;
  void on_restart(Time, Time) override;
  void on_undo() override;
  void grow(CongestionWindow&, const Delivery&) override {}

 private:
  enum class Mode : std::uint8_t { startup, drain, probe_bandwidth, probe_round_trip };
  struct BandwidthSample {
    std::uint64_t round;
    double rate;
  };

  // Bandwidth in segments a second: the largest of ten rounds, and the one that the model works with.
  double largest_bandwidth() const { return samples_.empty() ? 0 : samples_.front().rate; }
  double bandwidth() const { return policed_ ? policed_rate_ : largest_bandwidth(); }
  double bandwidth_delay_product(double rate, double gain) const;
  double burst() const;
  double with_room_for_bursts(double window) const;
  double target_in_flight(double gain) const {
    return with_room_for_bursts(bandwidth_delay_product(largest_bandwidth(), gain));
  }
  double in_network_at_departure(double in_flight, const RateSample& sample) const;
  double gain_of_mode() const;
  void update_bandwidth(const RateSample& sample);
  void look_for_policer(const RateSample& sample);
  void end_policer_interval(double rate, const RateSample& sample);
  void begin_policer_interval(const RateSample& sample);
  void forget_policer();
  void update_aggregation(const CongestionWindow& window, const RateSample& sample);
  void update_cycle(const RateSample& sample);
  void check_full_pipe(const RateSample& sample);
  void check_drained(CongestionWindow& window, const RateSample& sample);
  void update_round_trip(CongestionWindow& window, const RateSample& sample);
  void enter_probe_bandwidth(Time now);
  void leave_probe_round_trip(CongestionWindow& window, Time now);
  void save_window(double window);
  void set_first_pacing_rate(double window, Time round_trip);
  void set_pacing_rate(double gain);
  void set_window(CongestionWindow& window, const RateSample& sample);
  bool set_window_in_recovery(CongestionWindow& window, const RateSample& sample);

  std::uint32_t segment_bytes_;
  double initial_window_;
  RandomStream random_;
  Mode mode_ = Mode::startup;
  double pacing_rate_ = 0;  // bytes a second
  double pacing_gain_;      // of the last acknowledgement
  bool round_trip_known_ = false;

  std::deque<BandwidthSample> samples_;  // the largest first, each later than the one before
  std::uint64_t round_ = 0;
  double round_end_ = 0;  // segments delivered when it ends
  bool round_starts_ = false;

  Time smallest_round_trip_ = never, round_trip_at_ = 0;
  Time probe_ends_ = 0;
  bool probe_round_done_ = false, restarts_ = false;

  double full_rate_ = 0;
  int rounds_without_growth_ = 0;
  bool pipe_is_full_ = false;

  // Long-term bandwidth: intervals that begin and end with a loss.
  bool looks_for_policer_ = false, policed_ = false;
  int policer_rounds_ = 0;   // in this interval, or since the policer was noticed
  double policed_rate_ = 0;  // segments a second; 0 before the first interval
  double interval_delivered_ = 0, interval_lost_ = 0;
  std::int64_t interval_began_ms_ = 0;

  int cycle_ = 0;
  Time cycle_began_ = 0;

  double saved_window_ = 0;
  RateSample::State state_ = RateSample::State::open;
  bool conserves_packets_ = false;

  // Aggregation of acknowledgements: how many segments more come than the bandwidth explains.
  Time aggregation_began_ = 0;
  double aggregated_ = 0, surplus_[2] = {0, 0};
  int surplus_rounds_ = 0, surplus_place_ = 0;
};
