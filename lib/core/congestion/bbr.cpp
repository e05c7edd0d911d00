#include "congestion/bbr.hpp"

#include <algorithm>
#include <cmath>

namespace {
constexpr double high_gain = 739.0 / 256, drain_gain = 88.0 / 256;  // 2/ln 2 and its inverse, in Linux's 256ths
constexpr double cycle_gains[] = {1.25, 0.75, 1, 1, 1, 1, 1, 1};
constexpr int cycle_phases = 8;
constexpr double window_gain = 2, smallest_window = 4, pacing_margin = 0.99;
constexpr std::uint64_t bandwidth_rounds = 10;
constexpr Time round_trip_lasts = 10 * picoseconds_per_second, probe_lasts = picoseconds_per_second / 5;
constexpr double still_growing = 1.25;
constexpr int rounds_until_full = 3, surplus_window_rounds = 5;
constexpr double surplus_at_most_s = 0.1;
constexpr int policer_interval_rounds = 4, longest_policer_interval_rounds = 16, policed_rounds = 48;
constexpr double policed_loss = 50.0 / 256, same_rate_share = 1.0 / 8, same_rate_bytes_per_s = 500;
constexpr Time millisecond = picoseconds_per_second / 1000;
constexpr double two_segments_from_rate = 1.2e6 / 8;  // bytes a second
}  // namespace

Bbr::Bbr(const ControlContext& context)
    : segment_bytes_(context.tcp.segment_bytes),
      initial_window_(context.tcp.initial_window),
      random_(context.random, 0),
      pacing_gain_(high_gain) {}

void Bbr::on_connected(const CongestionWindow& window, Time round_trip, Time now) {
  if (round_trip > 0) smallest_round_trip_ = round_trip;
  round_trip_at_ = cycle_began_ = aggregation_began_ = now;
  set_first_pacing_rate(window.segments, round_trip);
}

// Paces the initial window over one round trip, or over 1 ms until there is a sample.
void Bbr::set_first_pacing_rate(double window, Time round_trip) {
  round_trip_known_ = round_trip > 0;
  const double round_trip_s = round_trip_known_ ? to_seconds(round_trip) : 0.001;
  pacing_rate_ = high_gain * pacing_margin * window * segment_bytes_ / round_trip_s;
}

double Bbr::bandwidth_delay_product(double rate, double gain) const {
  if (smallest_round_trip_ == never) return initial_window_;
  return std::ceil(gain * rate * to_seconds(smallest_round_trip_));
}

// The segments that Linux hands down at once: those of a millisecond, where it can.
double Bbr::burst() const {
  const double segments = std::floor(pacing_rate_ / 1024 / segment_bytes_);
  return std::clamp(segments, pacing_rate_ < two_segments_from_rate ? 1.0 : 2.0, 44.0);
}

// Three bursts should fit into the window; a probe for bandwidth needs two segments more.
double Bbr::with_room_for_bursts(double window) const {
  window += 3 * burst();
  window = 2 * std::ceil(window / 2);
  return mode_ == Mode::probe_bandwidth && cycle_ == 0 ? window + 2 : window;
}

// How many segments will be under way when pacing lets the next ones leave; with these, if the gain is above 1.
double Bbr::in_network_at_departure(double in_flight, const RateSample& sample) const {
  const double delivered_until = std::floor(bandwidth() * to_seconds(sample.next_departure - sample.now));
  return std::max(0.0, in_flight + (pacing_gain_ > 1 ? burst() : 0) - delivered_until);
}

double Bbr::gain_of_mode() const {
  switch (mode_) {
    case Mode::startup:
      return high_gain;
    case Mode::drain:
      return drain_gain;
    case Mode::probe_bandwidth:
      return policed_ ? 1 : cycle_gains[cycle_];
    case Mode::probe_round_trip:
      break;
  }
  return 1;
}

void Bbr::on_rate_sample(CongestionWindow& window, const RateSample& sample) {
  update_bandwidth(sample);
  update_aggregation(window, sample);
  update_cycle(sample);
  check_full_pipe(sample);
  check_drained(window, sample);
  update_round_trip(window, sample);
  if (!round_trip_known_ && sample.round_trip > 0) set_first_pacing_rate(window.segments, sample.round_trip);
  pacing_gain_ = gain_of_mode();
  set_pacing_rate(pacing_gain_);
  set_window(window, sample);
}

void Bbr::update_bandwidth(const RateSample& sample) {
  round_starts_ = false;
  if (sample.delivered <= 0 || sample.interval <= 0) return;
  if (sample.prior_delivered >= round_end_) {
    round_end_ = sample.total_delivered;
    ++round_;
    round_starts_ = true;
    conserves_packets_ = false;
  }
  look_for_policer(sample);
  const double rate = sample.rate();
  if (sample.application_limited && rate < largest_bandwidth()) return;
  while (!samples_.empty() && samples_.back().rate <= rate) samples_.pop_back();
  samples_.push_back({round_, rate});
  while (round_ - samples_.front().round > bandwidth_rounds) samples_.pop_front();
}

// Linux's bbr_lt_bw_sampling. An interval begins and ends with a loss, when the policer has no tokens left. It lasts 4
// to 16 rounds, and in it a fifth as many segments are lost as are delivered.
void Bbr::look_for_policer(const RateSample& sample) {
  if (policed_) {
    if (mode_ != Mode::probe_bandwidth || !round_starts_ || ++policer_rounds_ < policed_rounds) return;
    forget_policer();
    enter_probe_bandwidth(sample.delivered_at);
    return;
  }
  if (!looks_for_policer_) {
    if (sample.newly_lost <= 0) return;
    begin_policer_interval(sample);
    looks_for_policer_ = true;
  }
  if (sample.application_limited) return forget_policer();
  policer_rounds_ += round_starts_;
  if (policer_rounds_ < policer_interval_rounds) return;
  if (policer_rounds_ > longest_policer_interval_rounds) return forget_policer();
  if (sample.newly_lost <= 0) return;
  const double lost = sample.total_lost - interval_lost_, delivered = sample.total_delivered - interval_delivered_;
  if (delivered <= 0 || lost < policed_loss * delivered) return;
  const std::int64_t lasted_ms = sample.delivered_at / millisecond - interval_began_ms_;
  if (lasted_ms >= 1) end_policer_interval(1000 * delivered / static_cast<double>(lasted_ms), sample);
}

void Bbr::end_policer_interval(double rate, const RateSample& sample) {
  const double difference = std::abs(rate - policed_rate_);
  const bool alike = difference <= same_rate_share * policed_rate_ ||
                     difference * segment_bytes_ * pacing_margin <= same_rate_bytes_per_s;
  if (policed_rate_ > 0 && alike) {
    policed_rate_ = (rate + policed_rate_) / 2;
    policed_ = true;
    pacing_gain_ = 1;
    policer_rounds_ = 0;
    return;
  }
  policed_rate_ = rate;
  begin_policer_interval(sample);
}

void Bbr::begin_policer_interval(const RateSample& sample) {
  interval_began_ms_ = sample.delivered_at / millisecond;
  interval_delivered_ = sample.total_delivered;
  interval_lost_ = sample.total_lost;
  policer_rounds_ = 0;
}

void Bbr::forget_policer() {
  policed_rate_ = 0;
  policed_ = looks_for_policer_ = false;
}

void Bbr::update_aggregation(const CongestionWindow& window, const RateSample& sample) {
  if (sample.newly_delivered <= 0 || sample.delivered <= 0 || sample.interval <= 0) return;
  if (round_starts_ && ++surplus_rounds_ >= surplus_window_rounds) {
    surplus_rounds_ = 0;
    surplus_place_ = 1 - surplus_place_;
    surplus_[surplus_place_] = 0;
  }
  double expected = bandwidth() * to_seconds(sample.now - aggregation_began_);
  if (aggregated_ <= expected) {
    aggregated_ = expected = 0;
    aggregation_began_ = sample.now;
  }
  aggregated_ += sample.newly_delivered;
  const double surplus = std::min(aggregated_ - expected, window.segments);
  surplus_[surplus_place_] = std::max(surplus_[surplus_place_], surplus);
}

void Bbr::update_cycle(const RateSample& sample) {
  if (mode_ != Mode::probe_bandwidth) return;
  const double in_network = in_network_at_departure(sample.in_flight_before, sample);
  bool over = sample.delivered_at - cycle_began_ > smallest_round_trip_;
  if (pacing_gain_ > 1)  // until the probe has had an effect
    over = over && (sample.newly_lost > 0 || in_network >= target_in_flight(pacing_gain_));
  else if (pacing_gain_ < 1)  // or until the queue is gone
    over = over || in_network <= target_in_flight(1);
  if (!over) return;
  cycle_ = (cycle_ + 1) % cycle_phases;
  cycle_began_ = sample.delivered_at;
}

void Bbr::check_full_pipe(const RateSample& sample) {
  if (pipe_is_full_ || !round_starts_ || sample.application_limited) return;
  if (largest_bandwidth() >= full_rate_ * still_growing) {
    full_rate_ = largest_bandwidth();
    rounds_without_growth_ = 0;
    return;
  }
  pipe_is_full_ = ++rounds_without_growth_ >= rounds_until_full;
}

void Bbr::check_drained(CongestionWindow& window, const RateSample& sample) {
  if (mode_ == Mode::startup && pipe_is_full_) {
    mode_ = Mode::drain;
    window.ssthresh = target_in_flight(1);
  }
  if (mode_ == Mode::drain && in_network_at_departure(sample.in_flight, sample) <= target_in_flight(1))
    enter_probe_bandwidth(sample.delivered_at);
}

void Bbr::enter_probe_bandwidth(Time now) {
  mode_ = Mode::probe_bandwidth;
  // It begins anywhere but at the draining phase.
  cycle_ = (cycle_phases - static_cast<int>(random_.below(cycle_phases - 1))) % cycle_phases;
  cycle_began_ = now;
}

void Bbr::update_round_trip(CongestionWindow& window, const RateSample& sample) {
  const bool expired = sample.now > round_trip_at_ + round_trip_lasts;
  if (sample.round_trip > 0 &&
      (sample.round_trip < smallest_round_trip_ || (expired && !sample.acknowledgement_delayed))) {
    smallest_round_trip_ = sample.round_trip;
    round_trip_at_ = sample.now;
  }
  if (expired && !restarts_ && mode_ != Mode::probe_round_trip) {
    mode_ = Mode::probe_round_trip;  // set first, as in Linux, so that a larger window saved before is kept
    save_window(window.segments);
    probe_ends_ = 0;
  }
  if (mode_ == Mode::probe_round_trip) {
    if (probe_ends_ == 0 && sample.in_flight <= smallest_window) {
      probe_ends_ = sample.now + probe_lasts;
      probe_round_done_ = false;
      round_end_ = sample.total_delivered;
    } else if (probe_ends_ != 0) {
      probe_round_done_ |= round_starts_;
      if (probe_round_done_ && sample.now > probe_ends_) leave_probe_round_trip(window, sample.now);
    }
  }
  if (sample.delivered > 0) restarts_ = false;
}

void Bbr::leave_probe_round_trip(CongestionWindow& window, Time now) {
  round_trip_at_ = now;
  window.segments = std::max(window.segments, saved_window_);
  if (pipe_is_full_)
    enter_probe_bandwidth(now);
  else
    mode_ = Mode::startup;
}

void Bbr::save_window(double window) {
  const bool calm = state_ == RateSample::State::open && mode_ != Mode::probe_round_trip;
  saved_window_ = calm ? window : std::max(saved_window_, window);
}

double Bbr::ssthresh_after_loss(const CongestionWindow& window) {
  save_window(window.segments);
  return window.ssthresh;
}

void Bbr::on_timeout() {
  state_ = RateSample::State::loss;
  full_rate_ = 0;
  round_starts_ = true;
}

// Linux takes a timeout for the end of a round, in which there were losses.
void Bbr::on_all_lost(const RateSample& sample) {
  RateSample lossy = sample;
  lossy.newly_lost = 1;
  look_for_policer(lossy);
}

// The pipe may not have been full.
void Bbr::on_undo() {
  full_rate_ = 0;
  rounds_without_growth_ = 0;
  forget_policer();
}

void Bbr::on_restart(Time, Time) {
  restarts_ = true;
  aggregated_ = 0;
  if (mode_ == Mode::probe_bandwidth) set_pacing_rate(1);
}

void Bbr::set_pacing_rate(double gain) {
  const double rate = gain * pacing_margin * bandwidth() * segment_bytes_;
  if (pipe_is_full_ || rate > pacing_rate_) pacing_rate_ = rate;
}

void Bbr::set_window(CongestionWindow& window, const RateSample& sample) {
  if (sample.newly_delivered > 0 && !set_window_in_recovery(window, sample)) {
    const double gain = mode_ == Mode::probe_bandwidth ? window_gain : mode_ == Mode::probe_round_trip ? 1 : high_gain;
    double target = bandwidth_delay_product(bandwidth(), gain);
    if (pipe_is_full_) target += std::min(std::max(surplus_[0], surplus_[1]), bandwidth() * surplus_at_most_s);
    target = with_room_for_bursts(target);
    if (pipe_is_full_)
      window.segments = std::min(window.segments + sample.newly_delivered, target);
    else if (window.segments < target || sample.total_delivered < initial_window_)
      window.segments += sample.newly_delivered;
    window.segments = std::max(window.segments, smallest_window);
  }
  if (mode_ == Mode::probe_round_trip) window.segments = std::min(window.segments, smallest_window);
}

// Conserves packets in the first round of a recovery, and restores the window of before at its end.
bool Bbr::set_window_in_recovery(CongestionWindow& window, const RateSample& sample) {
  if (sample.newly_lost > 0) window.segments = std::max(window.segments - sample.newly_lost, 1.0);
  if (sample.state == RateSample::State::recovery && state_ != RateSample::State::recovery) {
    conserves_packets_ = true;
    round_end_ = sample.total_delivered;
    window.segments = sample.in_flight + sample.newly_delivered;
  } else if (sample.state == RateSample::State::open && state_ != RateSample::State::open) {
    window.segments = std::max(window.segments, saved_window_);
    conserves_packets_ = false;
  }
  state_ = sample.state;
  if (conserves_packets_) window.segments = std::max(window.segments, sample.in_flight + sample.newly_delivered);
  return conserves_packets_;
}
