#include "tcp/loss_detection.hpp"

// RACK: a segment is lost if it left before one that has been delivered, whatever their numbers, once it has had a
// round trip and some time for reordering. As in Linux the timer waits for the last such segment, so that
// acknowledgements come first if there are any.
Time LossDetection::find(Scoreboard& board, bool recovering, const RoundTripEstimator& round_trip, Time now) {
  judged_ = std::max(judged_, board.first());
  if (by_count_) {
    find_by_count(board);
    return 0;
  }
  const Time reo_wnd = current_reo_wnd(board, recovering, round_trip);
  Time last_due = 0;
  if (judged_ < board.next() && (board.delivered_count() > 0 || board[judged_].at < newest_delivered_)) {
    for (; judged_ < board.next(); ++judged_) {
      const Scoreboard::Sent& sent = board[judged_];
      if (sent.has(Scoreboard::delivered | Scoreboard::lost)) continue;
      // Beyond the highest delivered segment, only a delivered retransmission shows a loss.
      if (judged_ >= board.highest_delivered() && sent.at >= newest_delivered_) break;
      if (lost_from(sent.at, reo_wnd) > now) {
        // The newest hole by number may have left before this segment, which was sent again.
        last_due = lost_from(std::max(sent.at, board[board.newest_hole(judged_)].at), reo_wnd);
        break;
      }
      if (sent.at > newest_delivered_) break;
      board.mark_lost(judged_);
    }
  }
  return std::max(last_due, find_lost_retransmissions(board, reo_wnd, now));
}

// RFC 6675: a segment is lost once three segments beyond it have arrived.
void LossDetection::find_by_count(Scoreboard& board) {
  if (board.delivered_count() < dup_thresh) return;
  std::uint64_t third = board.highest_delivered();
  for (std::uint64_t beyond = 0; beyond < dup_thresh;) beyond += board[--third].has(Scoreboard::delivered);
  for (; judged_ < third; ++judged_)
    if (!board[judged_].has(Scoreboard::delivered | Scoreboard::lost)) board.mark_lost(judged_);
}

// Marks lost retransmissions. Returns when the last of those is due that left before a delivered segment, or 0.
Time LossDetection::find_lost_retransmissions(Scoreboard& board, Time reo_wnd, Time now) const {
  while (const Scoreboard::Resent* oldest = board.oldest_retransmission()) {
    if (oldest->at >= newest_delivered_) return 0;
    if (lost_from(oldest->at, reo_wnd) > now) return lost_from(board.newest_retransmission(newest_delivered_), reo_wnd);
    board.lose_oldest_retransmission();
  }
  return 0;
}

// RFC 8985, section 6.2, step 4: the time is 0 once three segments show a loss, on a path that has never reordered.
Time LossDetection::current_reo_wnd(const Scoreboard& board, bool recovering,
                                    const RoundTripEstimator& round_trip) const {
  const bool told = recovering || board.delivered_count() >= dup_thresh;
  if (told && !reordering_seen_) return 0;
  const Time quarter = round_trip.smallest() / 4, most = round_trip.smoothed();
  return quarter > most / reo_wnd_mult_ ? most : quarter * reo_wnd_mult_;  // their product may be beyond all times
}

// RFC 8985, section 6.2, step 4.2: the time grows by a step in each round trip in which something was sent again
// needlessly, until 16 recoveries have had none.
void LossDetection::adapt_reo_wnd(Time now) {
  if (newest_delivered_ < stretched_at_) duplicate_came_ = false;
  if (std::exchange(duplicate_came_, false)) {
    reo_wnd_mult_ = std::min(reo_wnd_mult_ + 1, most_reo_wnd_mult);
    reo_wnd_persist_ = reo_wnd_persistence;
    stretched_at_ = now;
  } else if (reo_wnd_persist_ == 0) {
    reo_wnd_mult_ = 1;
  }
}
