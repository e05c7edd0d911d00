#include "tcp/tcp_sender.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

TcpSender::TcpSender(const TcpSettings& settings, std::unique_ptr<CongestionControl> control)
    : settings_(settings),
      boundaries_(settings.segment_bytes, settings.boundary_spread_bytes, settings.boundary_key),
      control_(std::move(control)),
      reads_pacing_rate_(control_->reads_pacing_rate()),
      stays_open_(true),
      window_{settings.initial_window, 1e18},
      round_trip_(settings.minimum_timeout, settings.maximum_timeout, settings.initial_timeout, of_old()),
      asks_accurate_ecn_(settings.accurate_ecn || control_->wants_l4s()),
      ecn_(settings.ecn || asks_accurate_ecn_ || control_->wants_precise_ecn()),
      precise_(precise_ecn() && settings.receiver_ecn == ReceiverEcn::accurate),
      board_(settings.selective),
      losses_(of_old()),
      duplicates_(of_old()),
      usage_(of_old()),
      pacing_(settings.unpaced_segments) {
  if (control_->owns_window()) rate_.emplace();
  if (control_->hears_losses()) board_.list_losses();
}

TcpSender::TcpSender(const TcpSettings& settings, std::unique_ptr<CongestionControl> control, std::uint64_t bytes)
    : TcpSender(settings, std::move(control)) {
  stays_open_ = false;
  bytes_ = bytes;
  segments_ = boundaries_.count(bytes);
  last_length_ = static_cast<std::uint32_t>(bytes - boundaries_.start(segments_ - 1));
}

void TcpSender::append(std::uint64_t bytes, Time now) {
  if (rate_ && !more_expected_ && board_.in_flight() < allowed()) rate_->limit_by_application(board_.in_flight());
  if (settings_.slow_start_after_idle && !rate_ && board_.outstanding() == 0 && board_.next() > 0) restart_if_idle(now);
  const std::uint64_t count = (bytes + settings_.segment_bytes - 1) / settings_.segment_bytes;
  segments_ += count;
  bytes_ = segments_ * settings_.segment_bytes;
  last_length_ = static_cast<std::uint32_t>(bytes - (count - 1) * settings_.segment_bytes);
}

// Like Linux's tcp_cwnd_restart, it halves the window for each timeout of silence, down to the initial window.
void TcpSender::restart_if_idle(Time now) {
  const Time idle = now - last_sent_, timeout = round_trip_.timeout();
  if (idle <= timeout) return;
  const double floor = std::min(settings_.initial_window, window_.segments);
  window_.ssthresh = std::max(window_.ssthresh, window_.three_quarters());
  for (Time left = idle - timeout; left > 0 && window_.segments > floor; left -= timeout)
    window_.segments = std::floor(window_.segments / 2);
  window_.segments = std::max(window_.segments, floor);
  usage_.start_over(now);
}

// Linux's rule of RFC 2861 for an application that sends less than the window.
void TcpSender::heed_application(Time now) {
  const bool calm = state_ == State::open && board_.delivered_count() == 0;
  if (!settings_.slow_start_after_idle || rate_ || !calm || has_new() || more_expected_) return;
  usage_.on_nothing_left(window_, settings_.initial_window, round_trip_.timeout(), now);
}

// RFC 8684's companion rule for a subflow that holds the others up (Raiciu et al., NSDI 2012, section 4.2).
void TcpSender::penalise() {
  if (state_ != State::open) return;
  if (!window_.in_slow_start()) window_.ssthresh = std::max(std::floor(window_.ssthresh / 2), 2.0);
  window_.segments = std::max(std::floor(window_.segments / 2), 1.0);
}

void TcpSender::connect(Time now) {
  if (attempts_ == 0)
    first_syn_ms_ = stamp_of(now);
  else if (attempts_ > settings_.syn_linear_timeouts)
    round_trip_.back_off();
  ++attempts_;
  syn_sent_ = now;
  deadline_ = now + round_trip_.timeout();
}

void TcpSender::on_connected(std::uint32_t echo_ms, std::uint8_t agreed, Time now) {
  if (connected_) return;
  connected_ = true;
  ecn_ = agreed != accurate_ecn::no_ecn;
  accurate_ = agreed == accurate_ecn::answer;
  control_->on_ecn_agreed(accurate_);
  deadline_ = timeout_at_ = never;
  round_trip_.forget_back_off();
  // With several SYNs, only the time stamp tells which one was answered.
  const Time round_trip = attempts_ == 1 ? now - syn_sent_ : of_old() ? 0 : by_stamp(echo_ms, now);
  if (round_trip > 0) {
    round_trip_.sample(round_trip, round_trip, 0, 0);
    losses_.on_connected(round_trip);
  }
  // As in Linux the window falls to 1 after two lost SYNs, but not where they were sent again needlessly.
  if (attempts_ > 2 && (of_old() || echo_ms != first_syn_ms_)) window_.segments = 1;
  control_->on_connected(window_, round_trip_.smoothed(), now);
}

// The round trip by an echoed time stamp, in whole milliseconds as in Linux, at least one. It is 0, for none, where
// timeouts may be shorter: such timers need finer stamps (Vasudevan et al., SIGCOMM 2009), which are not modelled.
Time TcpSender::by_stamp(std::uint32_t echo_ms, Time now) const {
  constexpr Time millisecond = picoseconds_per_second / 1000;
  if (settings_.minimum_timeout < millisecond) return 0;
  return std::max<Time>(stamp_of(now) - echo_ms, 1) * millisecond;
}

void TcpSender::finish() {
  stays_open_ = false;
  segments_ = board_.next();
  bytes_ = std::min(bytes_, boundaries_.start(segments_));
}

std::optional<TcpSender::Segment> TcpSender::next_segment(Time now) {
  if (!connected_) return std::nullopt;
  const bool probe = probe_.take_due();
  if (!probe && !repairs_now() && board_.in_flight() >= allowed()) {
    if (has_new() || more_expected_ || (of_old() && has_lost())) usage_.on_held_back(board_);
    burst_left_ = 0;
    return std::nullopt;
  }
  const bool goes_on = burst_left_ >= 1;
  waits_for_pace_ = send_from() > now && !goes_on && !probe && (has_lost() || has_new());
  if (waits_for_pace_) return std::nullopt;
  std::uint64_t segment;
  bool is_new = false;
  const bool was_silent = board_.in_flight() == 0 && last_sent_ > 0;
  if (has_lost()) {
    segment = board_.repair(now);
    repair_due_ = false;
    undo_.on_resent(now);
    if (segment == board_.first()) restart_timeout(now, purpose_ == Purpose::reordering);
  } else if (has_new() && has_room()) {
    is_new = true;
    const std::uint64_t next = board_.next();
    segment = board_.send_new(next + 1 == segments_ ? last_length_ : boundaries_.length(next), now);
    if (timeout_at_ == never) restart_timeout(now);
    usage_.on_sent(board_, window_, board_.in_flight() >= allowed(), now);
  } else if (probe && board_.outstanding() > 0) {
    segment = board_.repeat_last(now);
    probe_.on_resent();
  } else {
    heed_application(now);
    burst_left_ = 0;
    return std::nullopt;
  }
  // This is Linux's CA_EVENT_TX_START. BBR heeds it only where the application has held it back.
  if (was_silent && (!rate_ || rate_->application_limited())) control_->on_restart(now - last_sent_, now);
  const std::uint32_t length = board_[segment].length;
  // Linux tests here whether packets_out is 0: a sole segment that is sent again is one of those that are out.
  const bool alone = is_new && segment == board_.first() && board_.outstanding() == 1;
  if (rate_) rate_->on_sent(segment, alone, board_.in_flight(), board_.ever_lost(), marked_, now);
  burst_left_ = (goes_on ? burst_left_ : burst()) - 1;
  pacing_.on_sent(length, pacing_rate(), goes_on, now);
  last_sent_ = now;
  reduction_.on_sent();
  control_->on_sent(window_, board_.next(), now);
  if (probe) {
    probe_.on_sent(board_.next());
    restart_timeout(now);
  } else {
    schedule_probe(now);
  }
  // RFC 3168, sections 6.1.2 and 6.1.5: new data report the reduction, and may be marked. With DCTCP all data may.
  const bool cwr = is_new && std::exchange(cwr_pending_, false);
  const bool capable = ecn_ && (is_new || precise_ || (accurate_ && control_->wants_precise_ecn()));
  const bool ect_1 = capable && accurate_ && (settings_.ect_1 || control_->wants_l4s());
  return Segment{boundaries_.start(segment), length, cwr, capable, ect_1};
}

// Bytes a second; 0 for none. As in Linux, the first ratio holds while the window is below half of ssthresh.
double TcpSender::pacing_rate() const {
  const double own = control_->pacing_rate();
  return own > 0 || !settings_.pacing ? own : window_rate();
}

// As Linux's tcp_tso_autosize.
double TcpSender::burst() const {
  if (!settings_.bursts) return 1;
  const double own = control_->pacing_rate(), rate = own > 0 ? own : window_rate();
  return std::max(2.0, std::floor(rate * control_->burst_seconds() / settings_.segment_bytes));
}

double TcpSender::window_rate() const {
  if (round_trip_.smoothed() == 0) return 0;
  const double ratio =
      window_.segments < window_.ssthresh / 2 ? settings_.pacing_slow_start_ratio : settings_.pacing_ratio;
  const double window = std::max(window_.segments, static_cast<double>(board_.outstanding()));
  return ratio * window * settings_.segment_bytes / to_seconds(round_trip_.smoothed());
}

void TcpSender::tell_losses(Time now) {
  if (board_.losses().empty()) return;
  auto lost = static_cast<std::uint32_t>(board_.ever_lost() - board_.losses().size());
  for (const std::uint64_t segment : board_.losses()) {
    const RateMark& left = (*rate_)[segment];
    ++lost;
    control_->on_lost(window_, {.now = now,
                                .segment = segment,
                                .in_flight_at_departure = static_cast<double>(left.in_flight),
                                .lost_since = static_cast<double>(lost - left.lost),
                                .total_delivered = rate_->delivered(),
                                .application_limited = left.application_limited});
  }
  board_.forget_list();
}

RateSample TcpSender::rate_sample(Time now, double in_flight_before, std::uint64_t lost_before) {
  RateSample sample = rate_->sample(now, newly_delivered_, board_.ever_lost(), marked_, round_trip_.smallest());
  sample.newly_lost = static_cast<double>(board_.ever_lost() - lost_before);
  sample.total_lost = static_cast<double>(board_.ever_lost());
  sample.next_departure = std::max(send_from(), now);
  sample.in_flight = board_.in_flight();
  sample.in_flight_before = in_flight_before;
  sample.round_trip = newest_sample_;
  sample.acknowledgement_delayed = newly_delivered_ == 1 && board_.outstanding() == 0;
  sample.state = state_ == State::recovery ? RateSample::State::recovery
                 : state_ == State::loss   ? RateSample::State::loss
                                           : RateSample::State::open;
  return sample;
}
