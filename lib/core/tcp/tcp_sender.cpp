#include "tcp/tcp_sender.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace {
constexpr Time timer_margin = 2 * picoseconds_per_second / 1000;  // Linux's TCP_TIMEOUT_MIN
}

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

// Linux's tcp_cwnd_restart: half the window for each timeout of silence, down to the initial window.
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
  // Of more than one, only its time stamp tells which was answered.
  const Time round_trip = attempts_ == 1 ? now - syn_sent_ : of_old() ? 0 : by_stamp(echo_ms, now);
  if (round_trip > 0) {
    round_trip_.sample(round_trip, round_trip, 0, 0);
    losses_.on_connected(round_trip);
  }
  // As Linux after two lost SYNs; not after needless ones.
  if (attempts_ > 2 && (of_old() || echo_ms != first_syn_ms_)) window_.segments = 1;
  control_->on_connected(window_, round_trip_.smoothed(), now);
}

// The round trip by an echoed time stamp, in whole milliseconds as in Linux, one at least. 0, for none, where timeouts
// may be shorter than that: such timers need finer stamps (Vasudevan et al., SIGCOMM 2009), which are not modelled.
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
  // Linux's CA_EVENT_TX_START, which BBR heeds only where the application has held it back.
  if (was_silent && (!rate_ || rate_->application_limited())) control_->on_restart(now - last_sent_, now);
  const std::uint32_t length = board_[segment].length;
  // Linux's packets_out is 0 then: a sole segment that is sent again is one of those that are out.
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
  // RFC 3168, sections 6.1.2 and 6.1.5: new data tells of the reduction, and may be marked. With DCTCP all may.
  const bool cwr = is_new && std::exchange(cwr_pending_, false);
  const bool capable = ecn_ && (is_new || precise_ || (accurate_ && control_->wants_precise_ecn()));
  const bool ect_1 = capable && accurate_ && (settings_.ect_1 || control_->wants_l4s());
  return Segment{boundaries_.start(segment), length, cwr, capable, ect_1};
}

// Pacing.

// Bytes a second; 0 for none. As Linux: the first ratio while the window is below half of ssthresh.
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

// Delivery rate.

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

// Timers.

void TcpSender::restart_timeout(Time now, bool judges_first) {
  timeout_at_ = board_.outstanding() == 0 ? never : now + round_trip_.timeout();
  if (!judges_first) await_timeout();
}

void TcpSender::await_timeout() {
  deadline_ = timeout_at_;
  purpose_ = Purpose::rto;
}

// RFC 8985, section 7.2, with Linux's allowances: when nothing is known to be missing, the silence of two round trips
// is answered by a probe, since the timeout would cost the whole window.
void TcpSender::schedule_probe(Time now) {
  const bool calm = board_.delivered_count() == 0 && (state_ == State::open || state_ == State::cwr);
  if (!settings_.tail_loss_probe || !settings_.selective || !calm || probe_.out() || board_.outstanding() == 0) return;
  if (round_trip_.smoothed() == 0) return;
  const Time answer_delay = board_.outstanding() == 1 ? settings_.minimum_timeout : timer_margin;
  const Time due = now + 2 * round_trip_.smoothed() + answer_delay;
  deadline_ = std::min(due, timeout_at_);  // a timeout that would be earlier waits for the probe's answer
  purpose_ = Purpose::pto;
}

void TcpSender::on_deadline(Time now) {
  if (send_from() <= now) waits_for_pace_ = false;
  if (deadline_ > now) return;
  switch (purpose_) {
    case Purpose::rto:
      return on_timeout(now);
    case Purpose::pto:
      probe_.fall_due();
      return await_timeout();
    case Purpose::reordering:
      await_timeout();
      newly_delivered_ = 1;  // as in Linux, so that one may be sent again
      const std::uint64_t resent_before = board_.resent_count();
      find_losses(now);
      if (may_begin_recovery(resent_before)) {
        enter_recovery();
        if (!rate_ && !of_old()) reduce_proportionally(false);
      }
      tell_losses(now);
      return;
  }
}

// duplicate: the acknowledgement tells nothing but, perhaps, of what arrived twice.
void TcpSender::take_probe_answer(const Packet& packet, bool duplicate, Time now) {
  if (!probe_.out()) return;
  const bool twice =
      duplicate || (packet.has(Packet::duplicate_seen) && duplicate_end(packet) == end_of(probe_.end() - 1));
  const bool repaired = probe_.take_answer(board_.first(), twice);
  if (repaired && rate_) control_->on_tail_repaired(window_, rate_->delivered(), rate_->application_limited(), now);
  if (!repaired || rate_ || (state_ != State::open && state_ != State::cwr)) return;
  // That the network dropped something still counts.
  begin_reduction(State::cwr, control_->ssthresh_after_mark(window_));
  window_.segments = window_.ssthresh;
  undo_.forget();
  state_ = State::open;
}

// Acknowledgements.

void TcpSender::on_acknowledgement(const Packet& packet, Time now) {
  if (settings_.cumulative_nonce && packet.has(Packet::unproven)) return;
  if (packet.sequence != bytes_ && !boundaries_.allow(packet.sequence)) return;
  const std::uint64_t to = segment_at(packet.sequence);
  if (to > board_.next()) return;
  if (to < board_.first()) return take_old(packet, now);
  const std::uint64_t newly_acknowledged = std::max(packet.sequence, acknowledged_) - acknowledged_;
  const bool news = newly_acknowledged > 0;
  acknowledged_ += newly_acknowledged;
  const std::uint64_t outstanding_before = board_.outstanding(), first_before = board_.first();
  const std::uint64_t lost_before = board_.ever_lost();
  const double in_flight_before = board_.in_flight(), rate_before = reads_pacing_rate_ ? window_rate() : 0;
  const bool held_back = usage_.held_back();
  newly_delivered_ = 0;
  sampled_ = newest_sample_ = 0;
  withholds_repairs_ = original_arrived_ = sends_new_first_ = false;
  losses_.begin(board_);
  // As in Linux what it tells of beyond is taken first, so that RACK's round trip is that of what it acknowledges.
  if (settings_.selective) take_blocks(packet, now);
  const double delivered_beyond = newly_delivered_;
  const Time sampled_beyond = std::exchange(sampled_, 0), newest_beyond = std::exchange(newest_sample_, 0);
  take_cumulative(to, packet.echo_ms, now);
  if (sampled_ == 0) sampled_ = sampled_beyond;
  if (newest_beyond > 0) newest_sample_ = newest_beyond;
  const bool progress = board_.first() > first_before;
  if (!settings_.selective && packet.sequence == acknowledged_ && !news && outstanding_before > 0) take_duplicate(now);
  count_duplicate(packet);
  losses_.end(board_);
  if (newly_delivered_ > 0) losses_.adapt_reo_wnd(now);
  if (sampled_ == 0 && progress && !of_old()) sampled_ = newest_sample_ = by_stamp(packet.echo_ms, now);
  if (sampled_ > 0) round_trip_.sample(sampled_, newest_sample_, board_.first(), board_.next());
  if (news) {
    round_trip_.forget_back_off();
    timeouts_without_progress_ = 0;
    usage_.on_acknowledged(now);
    restart_timeout(now);
  } else {
    if (purpose_ == Purpose::reordering) await_timeout();
    // As Linux's tcp_clean_rtx_queue: an arrival beyond the hole, of what left before the oldest segment last did.
    const bool left_before = board_.outstanding() > 0 && sampled_beyond > now - board_[board_.first()].at;
    if (!of_old() && sampled_beyond > 0 && left_before) restart_timeout(now);
  }

  const std::uint64_t marks = accurate_ ? marks_.read(packet.ace, static_cast<std::uint64_t>(newly_delivered_)) : 0;
  marks_heard_ += marks;
  const bool echo = accurate_ ? marks > 0 : ecn_ && packet.has(Packet::congestion_echo);
  const Delivery delivery{.now = now,
                          .segments = newly_delivered_,
                          .marked = echo,
                          .window_limited = usage_.is_limiting(window_, outstanding_before),
                          .round_trip = newest_sample_,
                          .first = board_.first(),
                          .next = board_.next(),
                          .in_flight = board_.in_flight(),
                          .bytes_per_second = rate_before,
                          .marked_segments = accurate_ ? static_cast<double>(marks)
                                             : echo    ? newly_delivered_
                                                       : 0};
  if (rate_) marked_ += delivery.marked_segments;
  control_->on_delivery(window_, delivery);

  take_probe_answer(packet, !news && newly_delivered_ == 0, now);
  if (echo) undo_.keep_reduction();
  if (state_ == State::loss && !of_old()) heed_timeout(packet, progress, delivered_beyond > 0);
  leave_finished_state(packet, news);
  try_undo(packet, first_before);
  const std::uint64_t resent_before = board_.resent_count();
  if (settings_.selective) {
    if (!withholds_repairs_) find_losses(now);
  } else if (progress && (state_ == State::recovery) && board_.outstanding() > 0) {
    board_.mark_lost(board_.first());  // NewReno: a partial acknowledgement tells the next hole
    repair_due_ = of_old();
  }
  if (may_begin_recovery(resent_before)) {
    enter_recovery();
    if (echo) undo_.keep_reduction();
  } else if (echo && state_ == State::open) {
    undo_.forget();
    begin_reduction(State::cwr, control_->ssthresh_after_mark(window_));
  }
  if (rate_) {
    tell_losses(now);
    RateSample sample = rate_sample(now, in_flight_before, lost_before);
    sample.window_limited = held_back;
    control_->on_rate_sample(window_, sample);
    if (control_->wants_application_limited_mark()) rate_->limit_by_application(board_.in_flight());
  } else if (state_ == State::cwr || state_ == State::recovery) {
    if (!of_old()) reduce_proportionally(progress && board_.ever_lost() == lost_before);
  } else if (news || (losses_.reorders_far() && newly_delivered_ > 0)) {
    control_->grow(window_, counted(delivery, newly_acknowledged));
  }
  if (sends_new_first_) send_new_first(now);
  if (progress) schedule_probe(now);
}

// An acknowledgement that a later one has overtaken may tell of arrivals or duplicates all the same. Windows are left
// alone.
void TcpSender::take_old(const Packet& packet, Time now) {
  if (packet.blocks == 0 && !packet.has(Packet::duplicate_seen)) return;
  newly_delivered_ = 0;
  sampled_ = newest_sample_ = 0;
  withholds_repairs_ = original_arrived_ = sends_new_first_ = false;
  losses_.begin(board_);
  take_blocks(packet, now);
  count_duplicate(packet);
  losses_.end(board_);
  if (state_ == State::loss && !of_old()) heed_timeout(packet, false, newly_delivered_ > 0);
  try_undo(packet, board_.first());
  const std::uint64_t resent_before = board_.resent_count();
  find_losses(now);
  if (may_begin_recovery(resent_before)) enter_recovery();
  tell_losses(now);
}

// What lets the window grow, by what the sender counts.
Delivery TcpSender::counted(Delivery delivery, std::uint64_t bytes) const {
  if (settings_.counts == Counts::acknowledgements) delivery.segments = 1;
  if (settings_.counts == Counts::bytes) delivery.segments = static_cast<double>(bytes) / settings_.segment_bytes;
  return delivery;
}

// With a loss, or after a timeout with that of a segment that was sent again since.
bool TcpSender::may_begin_recovery(std::uint64_t resent_before) const {
  if (state_ == State::loss) return board_.resent_count() < resent_before;
  return state_ != State::recovery && board_.lost_count() > 0;
}

void TcpSender::enter_recovery() {
  prepare_undo(state_ != State::cwr);
  if (state_ != State::cwr)
    begin_reduction(State::recovery, control_->ssthresh_after_loss(window_));
  else
    window_.ssthresh = control_->ssthresh_after_loss_and_mark(window_);
  state_ = State::recovery;
  repair_due_ = of_old();
  if (of_old()) recovery_point_ = board_.next();
  if (settings_.recovery == Recovery::newreno) duplicates_.be_careful(recovery_point_ + 1);
  if (purpose_ == Purpose::pto) await_timeout();
}

// an_earlier_copy: than the one that was sent last.
void TcpSender::take_delivered(std::uint64_t segment, const Scoreboard::Sent& sent, Time now, bool an_earlier_copy) {
  newly_delivered_ += 1;
  if (rate_) rate_->on_delivered(segment, sent.at);
  if (!an_earlier_copy) losses_.on_delivered(segment, sent, round_trip_.smallest(), now);
  if (sent.has(Scoreboard::ever_resent)) return;
  original_arrived_ |= segment < recovery_point_;
  sampled_ = std::max(sampled_, now - sent.at);
  newest_sample_ = newest_sample_ == 0 ? now - sent.at : std::min(newest_sample_, now - sent.at);
}

void TcpSender::take_cumulative(std::uint64_t to, std::uint32_t stamp_ms, Time now) {
  const bool progress = to > board_.first();
  const auto found = board_.acknowledge(to, [&](std::uint64_t segment, const Scoreboard::Sent& sent) {
    take_delivered(segment, sent, now, sent.has(Scoreboard::ever_resent) && stamp_ms < stamp_of(sent.at));
  });
  if (rate_) rate_->forget_below(to);
  if (found.ambiguous) sampled_ = newest_sample_ = 0;  // Karn: which copy is it that this answers?
  if (found.ambiguous && !settings_.selective) original_arrived_ = false;
  if (settings_.selective || !progress) return;
  // Duplicates stood for segments that this acknowledges: they were counted when they came.
  newly_delivered_ = std::max(1.0, newly_delivered_ - found.known);
  if (state_ == State::open || state_ == State::loss) board_.set_arrivals(0);
  duplicates_.forget();
}

void TcpSender::take_blocks(const Packet& packet, Time now) {
  board_.take_blocks(
      packet, [&](std::uint64_t byte) { return segment_at(byte); },
      [&](std::uint64_t segment, const Scoreboard::Sent& sent) { take_delivered(segment, sent, now); });
}

void TcpSender::take_duplicate(Time now) {
  if (state_ == State::loss) {
    // A segment that is new since the timeout has arrived.
    if (!of_old() && board_.next() > recovery_point_ && board_.count_arrival()) newly_delivered_ = 1;
    return;
  }
  const auto told = duplicates_.hear(board_.first(), state_ == State::recovery);
  if (told == DuplicateCount::Tells::nothing) return;
  const bool loss = told == DuplicateCount::Tells::loss;
  if (loss && settings_.recovery == Recovery::tahoe) return begin_again(now);
  // The last of them is counted below.
  if (loss && of_old()) board_.set_arrivals(std::min(LossDetection::dup_thresh, board_.outstanding()) - 1);
  if (board_.count_arrival()) newly_delivered_ = 1;
  if (loss) board_.mark_lost(board_.first());
}

void TcpSender::find_losses(Time now) {
  const bool recovering = state_ == State::recovery || state_ == State::loss;
  const Time last_due = losses_.find(board_, recovering, round_trip_, now);
  if (last_due == 0) return;
  const Time due = last_due + timer_margin;
  deadline_ = std::min(due, timeout_at_);
  purpose_ = due < timeout_at_ ? Purpose::reordering : Purpose::rto;
}

void TcpSender::begin_reduction(State state, double ssthresh) {
  reduction_.begin(window_.segments);
  window_.credit = 0;
  window_.ssthresh = ssthresh;
  state_ = state;
  recovery_point_ = board_.next();
  probe_.forget();
  announce_cwr();
  if (of_old() && !rate_) window_.segments = ssthresh;
}

void TcpSender::reduce_proportionally(bool found_no_loss) {
  if (newly_delivered_ == 0) return;
  window_.segments = reduction_.window(newly_delivered_, board_.in_flight(), window_.ssthresh, found_no_loss);
}

void TcpSender::leave_finished_state(const Packet& packet, bool news) {
  const bool at_once = settings_.recovery == Recovery::reno && state_ == State::recovery && news;
  if (state_ == State::open || (board_.first() < recovery_point_ && !at_once)) return;
  // Linux: something must be acknowledged that tells the receiver of the reduction.
  if (state_ == State::cwr && board_.first() == recovery_point_ && !of_old()) return;
  const bool undone = undo_.justified(packet.echo_ms);
  if (undone)
    undo_reduction(state_ == State::loss);
  else if (state_ != State::loss && !rate_)
    window_.segments = window_.ssthresh;
  if (!undone && state_ != State::cwr) losses_.on_recovery_ended();
  if (!settings_.selective) forget_duplicates();
  state_ = State::open;
}

// Undoing what was for nothing, as Linux's tcp_fastretrans_alert and tcp_process_loss do.

// Before the window or ssthresh changes. A reduction that a mark asked for, and that goes on, is not to be undone.
void TcpSender::prepare_undo(bool reduces) {
  if (of_old()) return;
  const std::uint64_t under_way = board_.resent_count() + probe_.is_resent();
  if (board_.resent_count() == 0 && !board_[board_.first()].has(Scoreboard::ever_resent)) undo_.on_all_well();
  const double ssthresh = reduces ? std::max(window_.ssthresh, window_.three_quarters()) : 0;
  undo_.prepare(board_.first(), {window_.segments, ssthresh}, under_way);
}

// RFC 2883's blocks: what arrived twice need not have been sent again.
void TcpSender::count_duplicate(const Packet& packet) {
  if (!settings_.selective || !packet.has(Packet::duplicate_seen)) return;
  const std::uint64_t end = duplicate_end(packet);
  const bool of_probe = probe_.is_resent() && end == end_of(probe_.end() - 1);
  losses_.on_duplicate(end, boundaries_, packet.duplicate_end > 0, of_probe);
  undo_.on_duplicate(end, boundaries_);
}

void TcpSender::try_undo(const Packet& packet, std::uint64_t first_before) {
  if (!undo_.possible() || state_ == State::cwr) return;
  const bool progress = board_.first() > first_before;
  bool undone = false;
  if (state_ == State::loss) {
    undone = progress && undo_.justified(packet.echo_ms);
    if (undone) undo_reduction(true);
    undone &= settings_.selective;  // without, duplicates of what was sent again would look like a loss
  } else if (state_ == State::recovery && progress && undo_.original_arrived(packet.echo_ms)) {
    losses_.on_late_original(first_before, board_);
    withholds_repairs_ =
        board_.resent_count() > 0;  // some may still be needed: until that is known, new segments go out instead
    undone = !withholds_repairs_;
    if (undone) undo_reduction(true);
  } else if (undo_.all_needless()) {
    undone = true;
    losses_.on_recovery_needless();
    undo_reduction(false);
  }
  if (undone) state_ = State::open;
}

void TcpSender::undo_reduction(bool forgets_losses) {
  if (forgets_losses) {
    board_.forget_losses();
    if (state_ == State::loss) losses_.judge_from(board_.first());  // else what was once found lost is not again
  }
  const ReductionUndo::Former former = undo_.take();
  if (former.ssthresh == 0) return;
  control_->on_undo();
  if (!rate_) window_.segments = std::max(window_.segments, former.window);
  if (former.ssthresh > window_.ssthresh) {
    window_.ssthresh = former.ssthresh;
    cwr_pending_ = false;
  }
}

void TcpSender::on_timeout(Time now) {
  if (board_.outstanding() == 0) return restart_timeout(now);
  ++timeouts_;
  // One reduction for one loss: not again in a recovery, nor for a retransmission that is lost as well.
  if (state_ == State::open || board_.first() >= recovery_point_ ||
      (state_ == State::loss && timeouts_without_progress_ == 0)) {
    prepare_undo(true);
    window_.ssthresh = control_->ssthresh_after_loss(window_);
  }
  if (state_ == State::open) losses_.on_timeout_while_open(board_);
  forward_.begin(!of_old() && (state_ == State::open || state_ == State::cwr || timeouts_without_progress_ > 0));
  control_->on_timeout();
  ++timeouts_without_progress_;
  const std::uint64_t lost_before = board_.ever_lost();
  const double in_flight_before = board_.in_flight();
  send_all_again(settings_.selective ? losses_.may_arrive_from(now) : never);
  tell_losses(now);
  if (rate_) control_->on_all_lost(rate_sample(now, in_flight_before, lost_before));
  round_trip_.back_off();
  restart_timeout(now);
}

// Tahoe: three duplicates are as good as a timeout.
void TcpSender::begin_again(Time now) {
  window_.ssthresh = control_->ssthresh_after_loss(window_);
  send_all_again(never);
  restart_timeout(now);
}

// What F-RTO says to an acknowledgement after a timeout, where time stamps and duplicates do not know.
void TcpSender::heed_timeout(const Packet& packet, bool progress, bool beyond) {
  if (progress && undo_.justified(packet.echo_ms)) return;
  const auto told = forward_.hear({.original = original_arrived_,
                                   .beyond = beyond,
                                   .partial = progress && board_.first() < recovery_point_,
                                   .new_sent = board_.next() > recovery_point_});
  sends_new_first_ = told == ForwardRetransmission::Tells::send_new;
  if (told != ForwardRetransmission::Tells::needless) return;
  undo_reduction(true);
  timeouts_without_progress_ = 0;
  state_ = State::open;
}

void TcpSender::send_new_first(Time now) {
  withholds_repairs_ = has_new() && has_room() && board_.in_flight() < allowed() && pace_allows(now);
  if (!withholds_repairs_) forward_.give_up();
}

void TcpSender::send_all_again(Time spared_after) {
  state_ = State::loss;
  recovery_point_ = board_.next();
  duplicates_.be_careful(recovery_point_ + 1);
  announce_cwr();
  if (!settings_.selective) forget_duplicates();
  losses_.judge_from(board_.lose_all(spared_after));
  window_.segments = board_.in_flight() + 1;
  window_.credit = 0;
  probe_.cancel();
  withholds_repairs_ = repair_due_ = false;
}
