// The part of TcpSender for acknowledgements: what one says, and what the sender does then.
#include <algorithm>
#include <utility>

#include "tcp/tcp_sender.hpp"

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
  begin_acknowledgement();
  // As in Linux, SACK blocks are taken first, so that RACK's round trip is that of the cumulative acknowledgement.
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
    // Like Linux's tcp_clean_rtx_queue: an arrival beyond the hole counts that left before the oldest segment did.
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
    board_.mark_lost(board_.first());  // NewReno: a partial acknowledgement shows the next hole
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

void TcpSender::begin_acknowledgement() {
  newly_delivered_ = 0;
  sampled_ = newest_sample_ = 0;
  withholds_repairs_ = original_arrived_ = sends_new_first_ = false;
  losses_.begin(board_);
}

// An acknowledgement that a later one has overtaken may still report arrivals or duplicates. It leaves windows
// alone.
void TcpSender::take_old(const Packet& packet, Time now) {
  if (packet.blocks == 0 && !packet.has(Packet::duplicate_seen)) return;
  begin_acknowledgement();
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

// an_earlier_copy: what arrived is not the copy that was sent last.
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
  const auto acknowledged = board_.acknowledge(to, [&](std::uint64_t segment, const Scoreboard::Sent& sent) {
    take_delivered(segment, sent, now, sent.has(Scoreboard::ever_resent) && stamp_ms < stamp_of(sent.at));
  });
  if (rate_) rate_->forget_below(to);
  if (acknowledged.ambiguous) sampled_ = newest_sample_ = 0;  // Karn: it may answer any of the copies
  if (acknowledged.ambiguous && !settings_.selective) original_arrived_ = false;
  if (settings_.selective || !progress) return;
  // Duplicates stood for segments that this acknowledges: they were counted when they came.
  newly_delivered_ = std::max(1.0, newly_delivered_ - acknowledged.known);
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
  // The last duplicate is counted below.
  if (loss && of_old()) board_.set_arrivals(std::min(LossDetection::dup_thresh, board_.outstanding()) - 1);
  if (board_.count_arrival()) newly_delivered_ = 1;
  if (loss) board_.mark_lost(board_.first());
}

// RFC 2883's blocks: a segment that arrived twice need not have been sent again.
void TcpSender::count_duplicate(const Packet& packet) {
  if (!settings_.selective || !packet.has(Packet::duplicate_seen)) return;
  const std::uint64_t end = duplicate_end(packet);
  const bool of_probe = probe_.is_resent() && end == end_of(probe_.end() - 1);
  losses_.on_duplicate(end, boundaries_, packet.duplicate_end > 0, of_probe);
  undo_.on_duplicate(end, boundaries_);
}

// The delivery in the unit that the sender counts when its window grows.
Delivery TcpSender::counted(Delivery delivery, std::uint64_t bytes) const {
  if (settings_.counts == Counts::acknowledgements) delivery.segments = 1;
  if (settings_.counts == Counts::bytes) delivery.segments = static_cast<double>(bytes) / settings_.segment_bytes;
  return delivery;
}
