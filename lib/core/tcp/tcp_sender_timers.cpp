// The part of TcpSender for its timer: timeouts, tail loss probes, the wait for reordered segments, and F-RTO.
#include <algorithm>

#include "tcp/tcp_sender.hpp"

namespace {
constexpr Time timer_margin = 2 * picoseconds_per_second / 1000;  // Linux's TCP_TIMEOUT_MIN
}

void TcpSender::restart_timeout(Time now, bool judges_first) {
  timeout_at_ = board_.outstanding() == 0 ? never : now + round_trip_.timeout();
  if (!judges_first) await_timeout();
}

void TcpSender::await_timeout() {
  deadline_ = timeout_at_;
  purpose_ = Purpose::rto;
}

// RFC 8985, section 7.2, with Linux's allowances: when nothing is known to be missing, a probe answers a silence of two
// round trips, since the timeout would cost the whole window.
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
      newly_delivered_ = 1;  // as in Linux, so that one segment may be sent again
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

void TcpSender::find_losses(Time now) {
  const bool recovering = state_ == State::recovery || state_ == State::loss;
  const Time last_due = losses_.find(board_, recovering, round_trip_, now);
  if (last_due == 0) return;
  const Time due = last_due + timer_margin;
  deadline_ = std::min(due, timeout_at_);
  purpose_ = due < timeout_at_ ? Purpose::reordering : Purpose::rto;
}

// duplicate: the acknowledgement says nothing new, except perhaps what arrived twice.
void TcpSender::take_probe_answer(const Packet& packet, bool duplicate, Time now) {
  if (!probe_.out()) return;
  const bool twice =
      duplicate || (packet.has(Packet::duplicate_seen) && duplicate_end(packet) == end_of(probe_.end() - 1));
  const bool repaired = probe_.take_answer(board_.first(), twice);
  if (repaired && rate_) control_->on_tail_repaired(window_, rate_->delivered(), rate_->application_limited(), now);
  if (!repaired || rate_ || (state_ != State::open && state_ != State::cwr)) return;
  // The network has dropped something, and that still counts.
  begin_reduction(State::cwr, control_->ssthresh_after_mark(window_));
  window_.segments = window_.ssthresh;
  undo_.forget();
  state_ = State::open;
}

void TcpSender::on_timeout(Time now) {
  if (board_.outstanding() == 0) return restart_timeout(now);
  ++timeouts_;
  // One loss causes one reduction: there is no other in a recovery, nor for a retransmission that is lost, too.
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

// Asks F-RTO what an acknowledgement after a timeout shows, where time stamps and duplicates cannot tell.
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
