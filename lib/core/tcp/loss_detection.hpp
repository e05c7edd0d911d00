// How a TCP sender with SACK finds out what is lost: by time as in RACK (RFC 8985), or in older senders by three
// segments beyond it (RFC 6675). This class keeps what has to be remembered of deliveries: when the latest sent of the
// arrived segments left, whether the path reorders, and how long to wait for that. Its verdicts are marks on the
// scoreboard.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/simulated_time.hpp"
#include "tcp/round_trip_estimator.hpp"
#include "tcp/scoreboard.hpp"
#include "tcp/segment_boundaries.hpp"

class LossDetection {
 public:
  static constexpr std::uint64_t dup_thresh = 3;

  explicit LossDetection(bool by_count) : by_count_(by_count) {}

  // For each acknowledgement: begin() before it changes the scoreboard, on_delivered() for each segment, end() at last.
  void begin(const Scoreboard& board) {
    highest_before_ = board.highest_delivered();
    late_from_ = ~std::uint64_t{0};
  }
  void on_delivered(std::uint64_t segment, const Scoreboard::Sent& sent, Time smallest_round_trip, Time now) {
    const bool again = sent.has(Scoreboard::ever_resent);
    if (!again && segment + 1 < highest_before_) late_from_ = std::min(late_from_, segment);
    // If an answer to a segment that was sent again comes at once, it is the original's, and says nothing of the copy.
    if (again && now - sent.at < smallest_round_trip) return;
    newest_delivered_ = std::max(newest_delivered_, sent.at);
    newest_round_trip_ = now - sent.at;
  }
  // The handshake's round trip.
  void on_connected(Time round_trip) { newest_round_trip_ = round_trip; }
  // Segments that left later than this may still arrive, in the time that the last arrival took.
  Time may_arrive_from(Time now) const { return by_count_ ? never : now - newest_round_trip_; }
  void adapt_reo_wnd(Time now);
  // A segment has arrived twice (DSACK), beyond a hole or not.
  void on_duplicate(std::uint64_t end, const SegmentBoundaries& boundaries, bool beyond_acknowledgement,
                    bool of_probe) {
    // Beyond a hole this shows reordering: the segment was sent again, and its original came as well.
    if (beyond_acknowledgement && end < boundaries.start(highest_before_))
      late_from_ = std::min(late_from_, boundaries.holding(end - 1));
    duplicate_came_ |= reordering_seen_ && !of_probe;
  }
  void end(const Scoreboard& board) {
    if (is_late()) note_reordering(late_from_, board);
  }
  // An original came although it had been sent again, where the cumulative acknowledgement stood at `first`.
  void on_late_original(std::uint64_t first, const Scoreboard& board) {
    if (first < highest_before_) note_reordering(first, board);
  }
  // Whether segments come after more others than would show a loss.
  bool reorders_far() const { return !by_count_ && displacement_ > dup_thresh; }
  // A timeout in Open or Disorder: segments that came beyond the hole were no reordering.
  void on_timeout_while_open(const Scoreboard& board) {
    if (board.delivered_count() >= dup_thresh) displacement_ = dup_thresh;
  }
  void on_recovery_ended() { reo_wnd_persist_ -= reo_wnd_persist_ > 0; }
  void on_recovery_needless() { reo_wnd_persist_ = std::min(reo_wnd_persist_ + 1, reo_wnd_persistence); }

  // Marks what is lost. Returns when to ask again even if no acknowledgement comes, 0 for never.
  Time find(Scoreboard& board, bool recovering, const RoundTripEstimator& round_trip, Time now);
  // Judges segments from this one on; those below have been judged.
  void judge_from(std::uint64_t segment) { judged_ = segment; }

 private:
  static constexpr std::uint64_t most_displacement = 300;                  // net.ipv4.tcp_max_reordering
  static constexpr int most_reo_wnd_mult = 255, reo_wnd_persistence = 16;  // RFC 8985, section 6.2, and Linux

  bool is_late() const { return late_from_ < highest_before_; }
  void note_reordering(std::uint64_t late, const Scoreboard& board) {
    reordering_seen_ = true;
    displacement_ = std::max(displacement_, std::min(board.highest_delivered() - late, most_displacement));
  }
  void find_by_count(Scoreboard& board);
  Time find_lost_retransmissions(Scoreboard& board, Time reo_wnd, Time now) const;
  Time current_reo_wnd(const Scoreboard& board, bool recovering, const RoundTripEstimator& round_trip) const;
  Time lost_from(Time sent_at, Time reo_wnd) const { return sent_at + newest_round_trip_ + reo_wnd; }

  bool by_count_;
  std::uint64_t judged_ = 0;  // segments below have been found lost or not
  // When the latest sent of the delivered segments left, and how long the segment heard of last was under way
  // (RACK.xmit_ts and, as in Linux, RACK.rtt).
  Time newest_delivered_ = 0, newest_round_trip_ = 0;
  bool reordering_seen_ = false;             // a segment that was sent only once came after one beyond it
  std::uint64_t displacement_ = dup_thresh;  // by how many segments at most; at least the number that shows a loss
  // How many quarters of the least round trip to wait, and for how many recoveries more that is kept.
  int reo_wnd_mult_ = 1, reo_wnd_persist_ = 0;
  bool duplicate_came_ = false;  // since the number of steps last grew
  Time stretched_at_ = 0;
  // These are of the acknowledgement that is being processed.
  std::uint64_t highest_before_ = 0;  // delivered segment, before it
  std::uint64_t late_from_ = 0;       // the oldest segment that has come after one beyond it
};
