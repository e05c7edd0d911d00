#include "congestion/bbr3.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

const char* Bbr3::phase() const {
  constexpr const char* names[] = {"startup", "drain", "down", "cruise", "refill", "up", "probe_rtt"};
  return names[static_cast<int>(mode_)];
}

void Bbr3::on_connected(const CongestionWindow& window, Time round_trip, Time now) {
  if (round_trip > 0) least_round_trip_ = recent_round_trip_ = round_trip;
  least_round_trip_at_ = recent_round_trip_at_ = surplus_began_ = now;
  last_window_ = window.segments;
  set_first_pacing_rate(round_trip);
}

// Paces the initial window over one round trip, or over 1 ms until there is a sample.
void Bbr3::set_first_pacing_rate(Time round_trip) {
  round_trip_known_ = round_trip > 0;
  pacing_rate_ = startup_gain * initial_window_ * segment_bytes_ / (round_trip_known_ ? to_seconds(round_trip) : 1e-3);
}

double Bbr3::pacing_gain() const {
  switch (mode_) {
    case Mode::startup:
      return startup_gain;
    case Mode::drain:
      return drain_gain;
    case Mode::down:
      return down_gain;
    case Mode::up:
      return up_gain;
    case Mode::cruise:
    case Mode::refill:
    case Mode::probe_round_trip:
      break;
  }
  return 1;
}

double Bbr3::window_gain() const {
  return mode_ == Mode::up                 ? up_window_gain
         : mode_ == Mode::probe_round_trip ? probe_round_trip_gain
                                           : usual_window_gain;
}

double Bbr3::bandwidth_delay_product(double bandwidth, double gain) const {
  return least_round_trip_ == never ? initial_window_ : gain * bandwidth * to_seconds(least_round_trip_);
}

// Three times what hosts may hand down at once, which is what they send in a millisecond.
double Bbr3::offload_budget() const {
  const double quantum = std::min(pacing_rate_ * quantum_s, largest_quantum_bytes) / segment_bytes_;
  return quantums_in_hosts * std::max(quantum, 2.0);
}

double Bbr3::with_budget(double volume) const {
  volume = std::max({volume, offload_budget(), smallest_window});
  return mode_ == Mode::up ? volume + 2 : volume;
}

double Bbr3::target_in_flight(double window) const { return std::min(bandwidth_delay_product(bandwidth_, 1), window); }

double Bbr3::in_flight_with_headroom() const {
  if (long_term_in_flight_ == infinity) return infinity;
  return std::max(long_term_in_flight_ - std::max(1.0, headroom * long_term_in_flight_), smallest_window);
}

double Bbr3::probe_round_trip_window() const {
  return std::max(bandwidth_delay_product(bandwidth_, probe_round_trip_gain), smallest_window);
}

// Acknowledgements.

void Bbr3::on_delivery(CongestionWindow&, const Delivery& delivery) {
  delivered_ += delivery.segments;
  delivered_in_round_ += delivery.segments;
  heeds_marks_ |= ecn_round_trip_ == 0 || least_round_trip_ <= ecn_round_trip_;
  if (!heeds_marks_) return;
  marked_in_round_ += delivery.marked_segments;
  mark_in_round_ |= delivery.marked_segments > 0;
  mark_in_cycle_ |= delivery.marked_segments > 0;
}

void Bbr3::on_rate_sample(CongestionWindow& window, const RateSample& sample) {
  if (recovery_ != RateSample::State::open && sample.state == RateSample::State::open) restores_window_ = true;
  recovery_ = sample.state;
  restore_window(window);
  read(sample);
  update_latest(sample);
  update_congestion(window, sample);
  update_aggregation(window.segments, sample);
  check_full_bandwidth(sample);
  check_startup(window, sample);
  check_drained(sample);
  update_cycle(window, sample);
  update_round_trip(sample);
  check_probe_round_trip(window, sample);
  restore_window(window);
  if (loss_round_starts_) {
    latest_bandwidth_ = rate_;
    latest_in_flight_ = delivered_since_;
  }
  bandwidth_ = std::min(largest_bandwidth_, short_term_bandwidth_);
  if (!round_trip_known_ && sample.round_trip > 0) set_first_pacing_rate(sample.round_trip);
  set_pacing_rate(pacing_gain());
  set_window(window, sample);
  last_window_ = window.segments;
}

void Bbr3::read(const RateSample& sample) {
  delivered_ = sample.total_delivered;
  has_sample_ = sample.interval > 0;
  rate_ = sample.rate();
  delivered_since_ = has_sample_ ? sample.total_delivered - sample.prior_delivered : 0;
}

void Bbr3::update_latest(const RateSample& sample) {
  loss_round_starts_ = false;
  if (!has_sample_) return;
  latest_bandwidth_ = std::max(latest_bandwidth_, rate_);
  latest_in_flight_ = std::max(latest_in_flight_, delivered_since_);
  if (sample.prior_delivered < loss_round_end_) return;
  loss_round_end_ = delivered_;
  loss_round_starts_ = true;
}

void Bbr3::update_congestion(const CongestionWindow& window, const RateSample& sample) {
  update_largest_bandwidth(sample);
  if (round_starts_) update_marked_share();
  if (!loss_round_starts_) return;
  if (!probes()) adapt_short_term(window.segments);
  marks_ceased_ = !mark_in_round_;
  loss_in_round_ = mark_in_round_ = false;
}

void Bbr3::update_largest_bandwidth(const RateSample& sample) {
  round_starts_ = has_sample_ && sample.prior_delivered >= round_end_;
  if (round_starts_) {
    start_round();
    ++round_;
    ++rounds_since_probe_;
  }
  if (rate_ <= 0 || (sample.application_limited && rate_ < largest_bandwidth_)) return;
  largest_of_cycle_[1] = std::max(largest_of_cycle_[1], rate_);
  largest_bandwidth_ = std::max(largest_of_cycle_[0], largest_of_cycle_[1]);
}

void Bbr3::update_marked_share() {
  if (delivered_in_round_ <= 0) return;
  const double share = std::min(marked_in_round_ / delivered_in_round_, 1.0);
  marked_share_ += share_gain * (share - marked_share_);
  marked_rounds_ = share >= most_marked ? marked_rounds_ + 1 : 0;
  marked_in_round_ = delivered_in_round_ = 0;
}

// Moves the short-term limits, once a round outside of probes, towards what the network delivers now.
void Bbr3::adapt_short_term(double window) {
  double after_marks = infinity;
  if ((loss_in_round_ || mark_in_round_) && short_term_in_flight_ == infinity) short_term_in_flight_ = window;
  if (mark_in_round_) after_marks = short_term_in_flight_ * (1 - mark_factor * marked_share_);
  if (loss_in_round_) {
    if (short_term_bandwidth_ == infinity) short_term_bandwidth_ = largest_bandwidth_;
    short_term_bandwidth_ = std::max(latest_bandwidth_, beta * short_term_bandwidth_);
    short_term_in_flight_ = std::max(latest_in_flight_, beta * short_term_in_flight_);
  }
  short_term_in_flight_ = std::min(short_term_in_flight_, after_marks);
}

// Estimates how much more is acknowledged than the bandwidth explains.
void Bbr3::update_aggregation(double window, const RateSample& sample) {
  double expected = bandwidth_ * to_seconds(sample.now - surplus_began_);
  if (surplus_delivered_ <= expected) {
    surplus_delivered_ = expected = 0;
    surplus_began_ = sample.now;
  }
  surplus_delivered_ += sample.newly_delivered;
  const double surplus = std::min(surplus_delivered_ - expected, window);
  while (!surpluses_.empty() && surpluses_.back().segments <= surplus) surpluses_.pop_back();
  surpluses_.push_back({round_, surplus});
  const std::uint64_t rounds = pipe_was_full_ ? surplus_rounds : 1;
  while (round_ - surpluses_.front().round >= rounds) surpluses_.pop_front();
}

void Bbr3::reset_full_bandwidth(double baseline) {
  full_bandwidth_ = baseline;
  rounds_without_growth_ = 0;
  pipe_is_full_ = false;
}

void Bbr3::check_full_bandwidth(const RateSample& sample) {
  if (pipe_is_full_ || !round_starts_ || sample.application_limited) return;
  if (rate_ >= full_bandwidth_ * still_growing) return reset_full_bandwidth(rate_);
  pipe_is_full_ = ++rounds_without_growth_ >= rounds_until_full;
  pipe_was_full_ |= pipe_is_full_;
}

// Startup and Drain.

void Bbr3::check_startup(CongestionWindow& window, const RateSample& sample) {
  if (!pipe_was_full_ && too_many_lost_in_startup(sample)) {
    leave_startup();
    mode_before_loss_ = Mode::startup;
  } else if (!pipe_was_full_ && marked_rounds_ >= full_marked_rounds) {
    leave_startup();
  }
  if (loss_round_starts_) loss_ranges_ = 0;
  if (mode_ != Mode::startup || !pipe_was_full_) return;
  mode_ = Mode::drain;
  drain_began_ = round_;
  window.ssthresh = in_flight_for(largest_bandwidth_, 1);  // only for measurements, as in Linux
}

bool Bbr3::too_many_lost_in_startup(const RateSample& sample) const {
  if (mode_ != Mode::startup || sample.state != RateSample::State::recovery) return false;
  if (!selective_) return loss_ranges_ > 0;
  return loss_round_starts_ && loss_ranges_ >= full_loss_ranges &&
         too_many_lost(sample.lost, sample.in_flight_at_departure);
}

void Bbr3::leave_startup() {
  pipe_is_full_ = pipe_was_full_ = true;
  long_term_in_flight_ = std::floor(std::max(bandwidth_delay_product(bandwidth_, 1), latest_in_flight_));
}

void Bbr3::check_drained(const RateSample& sample) {
  if (mode_ != Mode::drain) return;
  if (sample.in_flight <= in_flight_for(bandwidth_, 1) || round_ > drain_began_ + drain_rounds) start_down(sample.now);
}

// The cycle of probes for bandwidth.

void Bbr3::start_down(Time now) {
  reset_latest();
  acknowledged_for_one_more_ = infinity;
  rounds_since_probe_ = random_.below(2);
  probe_wait_ = from_seconds(least_wait_s + random_.uniform());
  cycle_began_ = now;
  feedback_ = Feedback::stopping;
  start_round();
  mode_ = Mode::down;
}

void Bbr3::reset_latest() {
  loss_in_round_ = loss_in_cycle_ = mark_in_round_ = mark_in_cycle_ = false;
  latest_bandwidth_ = latest_in_flight_ = 0;
}

void Bbr3::start_refill(int rounds_of_growth) {
  reset_short_term();
  rounds_of_growth_ = rounds_of_growth;
  acknowledged_in_probe_ = 0;
  probed_cautiously_ = false;
  feedback_ = Feedback::refilling;
  start_round();
  mode_ = Mode::refill;
}

void Bbr3::start_up(double window) {
  probe_sampled_ = true;
  feedback_ = Feedback::starting;
  start_round();
  reset_full_bandwidth(rate_);
  mode_ = Mode::up;
  raise_slope(window);
}

void Bbr3::update_cycle(const CongestionWindow& window, const RateSample& sample) {
  if (!pipe_was_full_ || !has_sample_ || adapt_long_term(window, sample)) return;
  switch (mode_) {
    case Mode::down:
      if (!time_to_probe(window.segments, sample) && time_to_cruise(sample)) mode_ = Mode::cruise;
      break;
    case Mode::cruise:
      time_to_probe(window.segments, sample);
      break;
    case Mode::refill:
      if (round_starts_) start_up(window.segments);
      break;
    case Mode::up:
      if (!time_to_go_down(window.segments, sample)) break;
      probed_too_high_ = false;  // so far
      start_down(sample.now);
      break;
    case Mode::startup:
    case Mode::drain:
    case Mode::probe_round_trip:
      break;
  }
}

// True if it has begun another phase.
bool Bbr3::adapt_long_term(const CongestionWindow& window, const RateSample& sample) {
  if (feedback_ == Feedback::starting && round_starts_) feedback_ = Feedback::coming;
  if (feedback_ == Feedback::stopping && round_starts_) {
    probe_sampled_ = false;
    feedback_ = Feedback::none;
    if (cycles() && !sample.application_limited) {
      largest_of_cycle_[0] = largest_of_cycle_[1];
      largest_of_cycle_[1] = 0;
    }
    if (cycles() && probed_cautiously_ && !probed_too_high_) {
      start_refill(0);
      return true;
    }
  }
  if (heeds_marks_ && sample.marked > most_marked * delivered_since_) {
    if (probe_sampled_)
      take_too_high(sample.in_flight_at_departure, sample.application_limited, window.segments, sample.now);
    return false;
  }
  if (too_many_lost(sample.lost, sample.in_flight_at_departure) || long_term_in_flight_ == infinity) return false;
  long_term_in_flight_ = std::max(long_term_in_flight_, sample.in_flight_at_departure);
  if (mode_ == Mode::up) raise_long_term(window.segments, sample);
  return false;
}

bool Bbr3::too_many_lost(double lost, double in_flight) const {
  return lost > in_flight * most_loss || (lost > 0 && !selective_);
}

void Bbr3::take_too_high(double in_flight, bool application_limited, double window, Time now) {
  probed_too_high_ = true;
  probe_sampled_ = false;
  if (!application_limited) long_term_in_flight_ = std::floor(std::max(in_flight, beta * target_in_flight(window)));
  if (mode_ == Mode::up) start_down(now);
}

// Sets how many acknowledged segments allow one more in flight, so that a round adds 1, 2, 4 ... of them.
void Bbr3::raise_slope(double window) {
  acknowledged_for_one_more_ = std::max(window / std::ldexp(1.0, rounds_of_growth_), 1.0);
  rounds_of_growth_ = std::min(rounds_of_growth_ + 1, most_growth_rounds);
}

void Bbr3::raise_long_term(double window, const RateSample& sample) {
  if (!sample.window_limited || window < long_term_in_flight_) return;
  acknowledged_in_probe_ += sample.newly_delivered;
  if (acknowledged_in_probe_ >= acknowledged_for_one_more_) {
    const double more = std::floor(acknowledged_in_probe_ / acknowledged_for_one_more_);
    acknowledged_in_probe_ -= more * acknowledged_for_one_more_;
    long_term_in_flight_ += more;
  }
  if (round_starts_) raise_slope(window);
}

bool Bbr3::time_to_probe(double window, const RateSample& sample) {
  const bool reprobes =
      mark_in_cycle_ && !loss_in_cycle_ && marks_ceased_ && !mark_in_round_ && sample.state == RateSample::State::open;
  if (reprobes) {
    const double more = long_term_in_flight_ == infinity ? 1 : std::max(growth_after_marks * long_term_in_flight_, 1.0);
    start_refill(std::min(std::ilogb(more), most_growth_rounds));
    return true;
  }
  const bool waited = sample.now > cycle_began_ + probe_wait_;
  const double rounds = std::min(target_in_flight(window), most_rounds_between_probes);
  if (!waited && static_cast<double>(rounds_since_probe_) < rounds) return false;
  start_refill(0);
  return true;
}

bool Bbr3::time_to_cruise(const RateSample& sample) const {
  return sample.in_flight <= in_flight_with_headroom() && sample.in_flight <= in_flight_for(largest_bandwidth_, 1);
}

bool Bbr3::time_to_go_down(double window, const RateSample& sample) {
  if (probed_too_high_ && sample.in_flight_before >= long_term_in_flight_) {
    probed_cautiously_ = true;
    return true;
  }
  if (sample.window_limited && window >= long_term_in_flight_) {
    reset_full_bandwidth(rate_);  // the limit holds the rate down, not the path
    return false;
  }
  return pipe_is_full_;
}

// The least round trip.

void Bbr3::update_round_trip(const RateSample& sample) {
  recent_expired_ = sample.now > recent_round_trip_at_ + recent_lasts;
  if (sample.round_trip > 0 && (sample.round_trip < recent_round_trip_ || recent_expired_)) {
    recent_round_trip_ = sample.round_trip;
    recent_round_trip_at_ = sample.now;
  }
  const bool expired = sample.now > least_round_trip_at_ + least_round_trip_lasts;
  if (recent_round_trip_ >= least_round_trip_ && !expired) return;
  least_round_trip_ = recent_round_trip_;
  least_round_trip_at_ = recent_round_trip_at_;
}

void Bbr3::check_probe_round_trip(CongestionWindow& window, const RateSample& sample) {
  if (mode_ != Mode::probe_round_trip && recent_expired_ && !restarts_) {
    mode_ = Mode::probe_round_trip;
    save_window(window.segments);
    probe_ends_ = 0;
    feedback_ = Feedback::stopping;
    start_round();
  }
  marks_application_limited_ = mode_ == Mode::probe_round_trip;
  if (mode_ == Mode::probe_round_trip) {
    if (probe_ends_ == 0 && sample.in_flight <= probe_round_trip_window()) {
      probe_ends_ = sample.now + probe_lasts;
      probe_round_done_ = false;
      start_round();
    } else if (probe_ends_ != 0) {
      probe_round_done_ |= round_starts_;
      if (probe_round_done_) check_probe_round_trip_done(sample.now);
    }
  }
  if (has_sample_) restarts_ = false;
}

void Bbr3::check_probe_round_trip_done(Time now) {
  if (probe_ends_ == 0 || now <= probe_ends_) return;
  recent_round_trip_at_ = now;
  restores_window_ = true;
  reset_short_term();
  if (pipe_was_full_) {
    start_down(now);
    mode_ = Mode::cruise;
  } else {
    mode_ = Mode::startup;
  }
}

// Losses.

void Bbr3::note_loss(double window, double total_delivered) {
  delivered_ = total_delivered;
  if (!loss_in_round_) {
    loss_round_end_ = delivered_;
    save_state(window);
  }
  loss_in_round_ = loss_in_cycle_ = true;
}

void Bbr3::on_tail_repaired(const CongestionWindow& window, double total_delivered, bool application_limited,
                            Time now) {
  note_loss(window.segments, total_delivered);
  const double in_flight = latest_in_flight_ + 1;
  if (probe_sampled_ && too_many_lost(1, in_flight))
    take_too_high(in_flight, application_limited, window.segments, now);
}

void Bbr3::on_lost(const CongestionWindow& window, const LostSegment& lost) {
  note_loss(window.segments, lost.total_delivered);
  if (loss_ranges_ == 0 || lost.segment != lost_last_ + 1) ++loss_ranges_;
  lost_last_ = lost.segment;
  if (!probe_sampled_ || !too_many_lost(lost.lost_since, lost.in_flight_at_departure)) return;
  // Finds the segments in flight at which the losses became too many.
  const double before = lost.in_flight_at_departure - 1, lost_before = lost.lost_since - 1;
  const double of_it = std::max(0.0, (most_loss * before - lost_before) / (1 - most_loss));
  const bool was_up = mode_ == Mode::up;
  take_too_high(before + of_it, lost.application_limited, window.segments, lost.now);
  if (was_up) mode_before_loss_ = Mode::up;
}

void Bbr3::save_window(double window) {
  const bool calm = recovery_ == RateSample::State::open && mode_ != Mode::probe_round_trip;
  saved_window_ = calm ? window : std::max(saved_window_, window);
}

void Bbr3::save_state(double window) {
  save_window(window);
  mode_before_loss_.reset();
  short_term_bandwidth_before_ = short_term_bandwidth_;
  short_term_before_ = short_term_in_flight_;
  long_term_before_ = long_term_in_flight_;
}

double Bbr3::ssthresh_after_loss(const CongestionWindow& window) {
  save_state(window.segments);
  return window.ssthresh;
}

void Bbr3::on_timeout() {
  if (recovery_ != RateSample::State::loss) save_state(last_window_);
  recovery_ = RateSample::State::loss;
}

// The short-term limit begins with the window of before the timeout.
void Bbr3::on_all_lost(const RateSample&) {
  if (!probes() && short_term_in_flight_ == infinity) short_term_in_flight_ = saved_window_;
}

// All that was taken for lost had arrived.
void Bbr3::on_undo() {
  restores_window_ = true;
  loss_in_round_ = false;
  reset_full_bandwidth();
  short_term_bandwidth_ = std::max(short_term_bandwidth_, short_term_bandwidth_before_);
  short_term_in_flight_ = std::max(short_term_in_flight_, short_term_before_);
  long_term_in_flight_ = std::max(long_term_in_flight_, long_term_before_);
  if (mode_before_loss_ == Mode::startup && mode_ != Mode::startup) {
    pipe_was_full_ = false;
    if (mode_ != Mode::probe_round_trip) mode_ = Mode::startup;
  } else if (mode_before_loss_ == Mode::up && mode_ != Mode::up) {
    if (mode_ != Mode::probe_round_trip) start_refill(0);
  }
  mode_before_loss_.reset();
}

// A segment leaves with nothing under way, because the application had nothing to send.
void Bbr3::on_restart(Time, Time now) {
  restarts_ = true;
  surplus_began_ = now;
  surplus_delivered_ = 0;
  if (cycles())
    set_pacing_rate(1);
  else if (mode_ == Mode::probe_round_trip)
    check_probe_round_trip_done(now);
}

void Bbr3::on_sent(CongestionWindow& window, std::uint64_t, Time) { restore_window(window); }

void Bbr3::restore_window(CongestionWindow& window) {
  if (!std::exchange(restores_window_, false)) return;
  window.segments = last_window_ = std::max(window.segments, saved_window_);
}

// Pacing and the window.

void Bbr3::set_pacing_rate(double gain) {
  const double rate = gain * pacing_margin * bandwidth_ * segment_bytes_;
  if (rate > 0 && (pipe_was_full_ || rate > pacing_rate_)) pacing_rate_ = rate;
}

void Bbr3::set_window(CongestionWindow& window, const RateSample& sample) const {
  const double most = with_budget(bandwidth_delay_product(bandwidth_, window_gain()) + surpluses_.front().segments);
  if (pipe_was_full_)
    window.segments = std::min(window.segments + sample.newly_delivered, most);
  else if (window.segments < most || delivered_ < initial_window_)
    window.segments += sample.newly_delivered;
  window.segments = std::max(window.segments, smallest_window);
  if (mode_ == Mode::probe_round_trip) window.segments = std::min(window.segments, probe_round_trip_window());
  double cap = infinity;
  if (mode_ == Mode::probe_round_trip || mode_ == Mode::cruise)
    cap = in_flight_with_headroom();
  else if (cycles())
    cap = long_term_in_flight_;
  cap = std::max(std::min(cap, short_term_in_flight_), smallest_window);
  window.segments = std::min(window.segments, cap);
}
