// The part of TcpSender for the states in which the window shrinks: how they begin and end, and how a needless
// reduction is undone, as Linux's tcp_fastretrans_alert and tcp_process_loss do.
#include <algorithm>

#include "tcp/tcp_sender.hpp"

// A loss begins Recovery; after a timeout, only the loss of a segment that has been sent again since then does.
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
  // As in Linux, a segment that tells the receiver of the reduction must be acknowledged first.
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

// To be called before the window or ssthresh changes. A reduction for a mark that is still going on is not undone.
void TcpSender::prepare_undo(bool reduces) {
  if (of_old()) return;
  const std::uint64_t under_way = board_.resent_count() + probe_.is_resent();
  if (board_.resent_count() == 0 && !board_[board_.first()].has(Scoreboard::ever_resent)) undo_.on_all_well();
  const double ssthresh = reduces ? std::max(window_.ssthresh, window_.three_quarters()) : 0;
  undo_.prepare(board_.first(), {window_.segments, ssthresh}, under_way);
}

void TcpSender::try_undo(const Packet& packet, std::uint64_t first_before) {
  if (!undo_.possible() || state_ == State::cwr) return;
  const bool progress = board_.first() > first_before;
  bool undone = false;
  if (state_ == State::loss) {
    undone = progress && undo_.justified(packet.echo_ms);
    if (undone) undo_reduction(true);
    undone &= settings_.selective;  // without SACK, duplicates of retransmissions would look like a loss
  } else if (state_ == State::recovery && progress && undo_.original_arrived(packet.echo_ms)) {
    losses_.on_late_original(first_before, board_);
    // Some retransmissions may still be needed. Until that is known, new segments leave instead.
    withholds_repairs_ = board_.resent_count() > 0;
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
    if (state_ == State::loss) losses_.judge_from(board_.first());  // so that a segment may be found lost again
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
