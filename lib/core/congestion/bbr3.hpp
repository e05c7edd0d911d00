// BBR version 3, by draft-ietf-ccwg-bbr-06 (July 2026): a model of the path sets the pacing rate and the window. As in
// version 1 the model has the bandwidth and the least round trip. New are limits learnt from losses: of the data in
// flight in the long term, and of both rate and data in flight in the short term, until the next probe for bandwidth.
//
// Where the draft is silent, Google's Linux code (google/bbr, branch v3, tcp_bbr.c) is followed:
// - The draft leaves ECN open. As in that code a share alpha of marked segments is averaged, and a round with marks
//   outside of probes takes a third of alpha from the short-term data in flight. More than half of the segments marked
//   end a probe, and after two rounds Startup. When marks cease that came without losses, the next probe comes at once.
//   The code does all this only where the least round trip was once 5 ms or less. Here that limit is a setting, and by
//   default there is none, as the draft asks that marks be heeded.
// - A loss that a tail loss probe repaired counts as one lost of the segments that the last round delivered.
// - A timeout outside of probes starts the short-term data in flight from the window of before.
// - After an idle time, acknowledged data are counted anew for the estimate of aggregation.
// - A cautious probe ends when the data in flight before an acknowledgement reach the limit. After it they never do.
// - If losses before a packet already exceed the threshold, nothing of that packet counts (InflightAtLoss).
//
// Volumes are in segments, not bytes. The long-term limit is whole, as windows are.
#pragma once
#include <deque>
#include <limits>
#include <optional>

#include "base/random_stream.hpp"
#include "congestion/control_context.hpp"
#include "tcp/congestion_control.hpp"

class Bbr3 : public CongestionControl {
 public:
  // The context's random number seeds the times of its probes.
  explicit Bbr3(const ControlContext& context)
      : segment_bytes_(context.tcp.segment_bytes),
        initial_window_(context.tcp.initial_window),
        selective_(context.tcp.selective),
        ecn_round_trip_(context.tcp.bbr3_ecn_round_trip),
        random_(context.random, 0) {}

  bool owns_window() const override { return true; }
  bool hears_losses() const override { return true; }
  double pacing_rate() const override { return pacing_rate_; }
  const char* phase() const override;
  void on_connected(const CongestionWindow& window, Time round_trip, Time now) override;
  void grow(CongestionWindow&, const Delivery&) override {}
  void on_delivery(CongestionWindow& window, const Delivery& delivery) override;
  void on_lost(const CongestionWindow& window, const LostSegment& lost) override;
  void on_tail_repaired(const CongestionWindow& window, double total_delivered, bool application_limited,
                        Time now) override;
  void on_rate_sample(CongestionWindow& window, const RateSample& sample) override;
  bool wants_application_limited_mark() const override { return marks_application_limited_; }
  double ssthresh_after_loss(const CongestionWindow& window) override;
  double ssthresh_after_mark(const CongestionWindow& window) override { return window.ssthresh; }
  double ssthresh_after_loss_and_mark(const CongestionWindow& window) override { return ssthresh_after_loss(window); }
  void on_timeout() override;
  void on_all_lost(const RateSample& sample) override;
  void on_undo() override;
  void on_restart(Time silence, Time now) override;
  void on_sent(CongestionWindow& window, std::uint64_t next, Time now) override;

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr double startup_gain = 2.77, drain_gain = 0.5, down_gain = 0.9, up_gain = 1.25;
  static constexpr double usual_window_gain = 2, up_window_gain = 2.25, probe_round_trip_gain = 0.5;
  static constexpr double pacing_margin = 0.99, smallest_window = 4;
  static constexpr double most_loss = 0.02, beta = 0.7, headroom = 0.15;
  static constexpr double still_growing = 1.25;
  static constexpr int rounds_until_full = 3, most_growth_rounds = 30;
  static constexpr std::uint64_t full_loss_ranges = 6, drain_rounds = 3, surplus_rounds = 10;
  static constexpr double most_rounds_between_probes = 63, least_wait_s = 2;
  static constexpr Time least_round_trip_lasts = 10 * picoseconds_per_second, recent_lasts = 5 * picoseconds_per_second;
  static constexpr Time probe_lasts = picoseconds_per_second / 5;
  static constexpr double quantum_s = 1e-3, largest_quantum_bytes = 65536, quantums_in_hosts = 3;
  // ECN.
  static constexpr double share_gain = 1.0 / 16, mark_factor = 1.0 / 3, most_marked = 0.5, growth_after_marks = 0.5;
  static constexpr int full_marked_rounds = 2;

  enum class Mode : std::uint8_t { startup, drain, down, cruise, refill, up, probe_round_trip };
  // What acknowledgements tell of a probe for bandwidth.
  enum class Feedback : std::uint8_t { none, refilling, starting, coming, stopping };
  struct Surplus {
    std::uint64_t round;
    double segments;
  };

  bool cycles() const { return mode_ >= Mode::down && mode_ <= Mode::up; }
  bool probes() const { return mode_ == Mode::startup || mode_ == Mode::refill || mode_ == Mode::up; }
  double pacing_gain() const;
  double window_gain() const;

  double bandwidth_delay_product(double bandwidth, double gain) const;
  double offload_budget() const;
  double with_budget(double volume) const;
  double in_flight_for(double bandwidth, double gain) const {
    return with_budget(bandwidth_delay_product(bandwidth, gain));
  }
  double target_in_flight(double window) const;
  double in_flight_with_headroom() const;
  double probe_round_trip_window() const;

  void read(const RateSample& sample);
  void update_latest(const RateSample& sample);
  void update_congestion(const CongestionWindow& window, const RateSample& sample);
  void update_largest_bandwidth(const RateSample& sample);
  void update_marked_share();
  void adapt_short_term(double window);
  void update_aggregation(double window, const RateSample& sample);
  void check_full_bandwidth(const RateSample& sample);
  void check_startup(CongestionWindow& window, const RateSample& sample);
  bool too_many_lost_in_startup(const RateSample& sample) const;
  void leave_startup();
  void check_drained(const RateSample& sample);
  void update_cycle(const CongestionWindow& window, const RateSample& sample);
  bool adapt_long_term(const CongestionWindow& window, const RateSample& sample);
  bool too_many_lost(double lost, double in_flight) const;
  void take_too_high(double in_flight, bool application_limited, double window, Time now);
  void raise_long_term(double window, const RateSample& sample);
  void raise_slope(double window);
  bool time_to_probe(double window, const RateSample& sample);
  bool time_to_cruise(const RateSample& sample) const;
  bool time_to_go_down(double window, const RateSample& sample);
  void update_round_trip(const RateSample& sample);
  void check_probe_round_trip(CongestionWindow& window, const RateSample& sample);
  void check_probe_round_trip_done(Time now);
  void start_round() { round_end_ = delivered_; }
  void start_down(Time now);
  void start_refill(int rounds_of_growth);
  void start_up(double window);
  void reset_full_bandwidth(double baseline = 0);
  void reset_short_term() { short_term_bandwidth_ = short_term_in_flight_ = infinity; }
  void reset_latest();
  void note_loss(double window, double total_delivered);
  void save_window(double window);
  void save_state(double window);
  void restore_window(CongestionWindow& window);
  void set_first_pacing_rate(Time round_trip);
  void set_pacing_rate(double gain);
  void set_window(CongestionWindow& window, const RateSample& sample) const;

  double segment_bytes_, initial_window_;
  bool selective_;
  Time ecn_round_trip_;  // 0: any
  RandomStream random_;
  Mode mode_ = Mode::startup;
  RateSample::State recovery_ = RateSample::State::open;
  double pacing_rate_ = 0;  // bytes a second
  bool round_trip_known_ = false;

  // These are of the acknowledgement that is being processed.
  bool has_sample_ = false, marks_application_limited_ = false;
  double rate_ = 0;               // segments a second
  double delivered_since_ = 0;    // while the newest segment was under way
  double last_window_ = 0;        // after it
  bool restores_window_ = false;  // at the next call that has the window

  double delivered_ = 0;  // of the whole connection
  std::uint64_t round_ = 0, rounds_since_probe_ = 0;
  double round_end_ = 0;
  bool round_starts_ = false;

  double bandwidth_ = 0, largest_bandwidth_ = 0;  // segments a second
  double largest_of_cycle_[2] = {0, 0};           // the one before, this one

  Time least_round_trip_ = never, least_round_trip_at_ = 0;
  Time recent_round_trip_ = never, recent_round_trip_at_ = 0;  // the least of 5 s
  bool recent_expired_ = false;
  Time probe_ends_ = 0;
  bool probe_round_done_ = false, restarts_ = false;

  double full_bandwidth_ = 0;
  int rounds_without_growth_ = 0;
  bool pipe_is_full_ = false, pipe_was_full_ = false;  // in this probe; ever
  std::uint64_t drain_began_ = 0;                      // round

  double long_term_in_flight_ = infinity, short_term_in_flight_ = infinity, short_term_bandwidth_ = infinity;
  double latest_bandwidth_ = 0, latest_in_flight_ = 0;  // the most of a round
  double loss_round_end_ = 0;
  bool loss_round_starts_ = false, loss_in_round_ = false, loss_in_cycle_ = false;
  std::uint64_t loss_ranges_ = 0;  // ranges of lost segments, apart from each other, in this round
  std::uint64_t lost_last_ = 0;    // segment

  bool heeds_marks_ = false;
  double marked_in_round_ = 0, delivered_in_round_ = 0, marked_share_ = 1;  // the latter averaged
  bool mark_in_round_ = false, mark_in_cycle_ = false, marks_ceased_ = false;
  int marked_rounds_ = 0;

  Feedback feedback_ = Feedback::none;
  bool probe_sampled_ = false;  // samples are of a probe that has not been answered yet
  bool probed_too_high_ = false, probed_cautiously_ = false;
  double acknowledged_in_probe_ = 0, acknowledged_for_one_more_ = infinity;
  int rounds_of_growth_ = 0;
  Time cycle_began_ = 0, probe_wait_ = 0;

  Time surplus_began_ = 0;
  double surplus_delivered_ = 0;
  std::deque<Surplus> surpluses_;  // the largest first, each later than the one before

  double saved_window_ = 0;
  std::optional<Mode> mode_before_loss_;
  double long_term_before_ = 0, short_term_before_ = 0, short_term_bandwidth_before_ = 0;
};
