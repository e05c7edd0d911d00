// The sending half of a TCP connection as the Linux kernel does it: slow start, recovery by SACK with RACK and tail
// loss probes (RFC 8985) or by NewReno, proportional rate reduction (RFC 9937), timeouts with back-off. What proves to
// have been reduced for nothing, by time stamps (RFC 3522) or duplicates (RFC 3708), is undone.
//
// It has no clock and sends nothing: the host asks for the next segment while there is room, and gives it the time
// and the acknowledgements. Bytes are cut into segments once, so that segment n is always the same bytes. What is
// appended later begins a new segment; the last one before it then counts as a full one in sequence numbers.
#pragma once
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>

#include "congestion_control.hpp"
#include "delivery_rate.hpp"
#include "packet.hpp"
#include "ring.hpp"
#include "round_trip_estimator.hpp"
#include "segment_boundaries.hpp"
#include "simulated_time.hpp"
#include "tcp_settings.hpp"

class TcpSender {
 public:
  struct Segment {
    std::uint64_t sequence;
    std::uint32_t length;
    bool window_reduced;  // CWR
    bool ecn_capable;
  };
  static constexpr std::uint64_t unlimited = std::uint64_t{1} << 62;

  // Sends `bytes`, or without end until finish().
  TcpSender(const TcpSettings& settings, std::unique_ptr<CongestionControl> control, std::uint64_t bytes);
  // Sends what is appended, until finish(): sequence numbers are then whole segments.
  TcpSender(const TcpSettings& settings, std::unique_ptr<CongestionControl> control);
  // When all that was given before has been sent at least once.
  void append(std::uint64_t bytes, Time now);

  // Connecting: a SYN is due whenever this is called; it is called again when deadline() has passed.
  void connect(Time now);
  void on_connected(Time now);
  bool connected() const { return connected_; }

  void on_acknowledgement(const Packet& packet, Time now);
  void on_deadline(Time now);
  Time deadline() const { return waits_for_pace_ ? std::min(deadline_, send_from()) : deadline_; }

  // The segment to send now, if windows allow one; it counts as sent.
  std::optional<Segment> next_segment(Time now);
  // Whether there would be one; who only waits for its pace asks to be called at deadline().
  bool wants_to_send(Time now) {
    const bool has_some = has_lost() || (next_ < segments_ && has_room());
    return probe_due_ || (connected_ && has_some && (repairs_now() || in_flight() < allowed()) && pace_allows(now));
  }
  void finish();  // nothing more than what has been sent already

  bool done() const { return connected_ && !stays_open_ && first_ == segments_; }
  // For those who hand data out bit by bit: whether a new segment could leave at once, and whether one would be there.
  bool could_send_new(Time now) {
    return connected_ && !has_lost() && next_ == segments_ && has_room() && in_flight() < allowed() && pace_allows(now);
  }
  void expect_more(bool more) { more_expected_ = more; }
  std::uint64_t first_unacknowledged() const { return first_; }
  std::uint64_t next_new() const { return next_; }
  bool open_state() const { return state_ == State::open; }
  void penalise();
  std::uint64_t bytes() const { return bytes_; }
  bool precise_ecn() const { return control_->wants_precise_ecn(); }
  const CongestionWindow& window() const { return window_; }
  const RoundTripEstimator& round_trip() const { return round_trip_; }
  std::uint64_t retransmissions() const { return retransmissions_; }
  std::uint64_t timeouts() const { return timeouts_; }
  std::uint64_t connection_attempts() const { return attempts_; }

 private:
  enum class State : std::uint8_t { open, reducing, recovery, loss };
  enum Mark : std::uint8_t { delivered = 1, lost = 2, resent = 4, ever_resent = 8 };
  struct Sent {
    Time at;
    std::uint32_t length;
    std::uint8_t marks;
  };
  struct Resent {
    std::uint64_t segment;
    Time at;
  };
  // What the last reduction goes back to if it proves needless.
  struct Undo {
    bool possible = false;
    std::uint64_t first = 0;                  // the oldest segment outstanding when it began
    double window = 0, threshold = 0;         // threshold 0: it was right in any case, as a mark asked for it
    std::optional<std::uint64_t> unanswered;  // sent again since, and not known to have arrived twice; none: none was
  };

  std::uint64_t outstanding() const { return next_ - first_; }
  double in_flight() const {
    assert(delivered_ + lost_ <= outstanding() && resent_ <= lost_);
    return static_cast<double>(outstanding() - delivered_ - lost_ + resent_);
  }
  double allowed() const { return std::max(1.0, window_.whole()); }
  bool has_lost() const { return lost_ > resent_ && !withholds_repairs_; }
  bool has_room() const { return (outstanding() + 1) * settings_.segment_bytes <= settings_.receive_window_bytes; }
  Time send_from() const { return std::max(send_at_, window_.send_from); }
  bool pace_allows(Time now) {
    waits_for_pace_ |= send_from() > now;
    return send_from() <= now;
  }
  bool of_old() const { return settings_.recovery != Recovery::linux_like; }
  // What was sent again though it had arrived gives duplicates too: they tell of no loss (ns-2; RFC 6582, section 4.1).
  void be_careful() { careful_until_ = of_old() ? high_ + 1 : 0; }
  bool repairs_now() const { return repair_due_ && has_lost(); }
  void restart_after(Time idle);
  double pacing_rate() const;
  double window_rate() const;
  void pace(std::uint32_t length, Time now);
  RateSample rate_sample(Time now, double in_flight_before, std::uint64_t lost_before);
  bool owns_window() const { return rate_.has_value(); }
  void take_delivered(std::uint64_t segment, const Sent& sent, Time now);
  void take_cumulative(std::uint64_t to, Time now);
  void take_selective(const Packet& packet, Time now);
  void take_duplicate(Time now);
  void mark_lost(std::uint64_t segment);
  void find_losses(Time now);
  void find_losses_by_count();
  Time settling_time() const;
  Time settled_at(Time sent_at, Time margin) const { return sent_at + newest_round_trip_ + margin; }
  void adapt_settling_time(Time now);
  void judge_at(Time due);
  Time newest_hole_due(Time margin);
  Time find_lost_retransmissions(Time margin, Time now);
  void enter_recovery();
  void on_timeout(Time now);
  void begin_again(Time now);
  void send_all_again();
  void restart_timeout(Time now, bool judges_first = false);
  void schedule_probe(Time now);
  void take_probe_answer(const Packet& packet);
  void begin_reduction(State state, double threshold);
  // Whatever the reason, so that no mark of before reduces the window once more.
  void tell_of_reduction() { reduction_pending_ = ecn_ && !control_->wants_precise_ecn(); }
  void reduce_proportionally(bool found_no_loss);
  void leave_finished_state(const Packet& packet, bool news);
  Delivery counted(Delivery delivery, std::uint64_t bytes) const;
  void prepare_undo(bool reduces);
  void count_duplicate(const Packet& packet);
  bool original_arrived(const Packet& packet) const;
  bool may_undo(const Packet& packet) const;
  void try_undo(const Packet& packet, std::uint64_t first_before);
  void undo_reduction(bool forgets_losses);

  TcpSettings settings_;
  SegmentBoundaries boundaries_;
  std::unique_ptr<CongestionControl> control_;
  std::uint64_t bytes_ = 0, segments_ = 0;  // bytes_: the end of the sequence numbers
  std::uint32_t last_length_ = 0;           // of segment segments_ - 1
  bool stays_open_ = false, more_expected_ = false;
  Time last_sent_ = 0;
  Time send_at_ = 0;  // pacing: no sooner
  bool waits_for_pace_ = false;
  std::uint64_t sent_ = 0, ever_lost_ = 0;
  std::optional<DeliveryRate> rate_;    // of those who own their window
  std::uint64_t acknowledged_ = 0;      // bytes; a receiver may acknowledge a part of a segment
  std::uint64_t first_ = 0, next_ = 0;  // oldest segment not acknowledged, next new one
  CongestionWindow window_;
  RoundTripEstimator round_trip_;
  State state_ = State::open;
  bool connected_ = false, ecn_, window_blocked_ = false, reduction_pending_ = false;
  // One timer for three purposes: what happens at the deadline.
  enum class Purpose : std::uint8_t { timeout, probe, judging };
  Purpose purpose_ = Purpose::timeout;
  Time deadline_ = never, timeout_at_ = never, syn_sent_ = 0;

  Ring<Sent> board_;                                     // segments first_ to next_
  std::uint64_t delivered_ = 0, lost_ = 0, resent_ = 0;  // how many of them bear the mark
  std::uint64_t highest_delivered_ = 0;                  // one beyond the highest segment acknowledged selectively
  std::uint64_t newest_hole_ = 0;                        // no segment between it and highest_delivered_ is missing
  std::uint64_t judged_ = 0;                             // segments below have been found lost or not
  std::uint64_t resend_from_ = 0;                        // no lost segment below waits to be sent again
  Ring<Resent> resent_order_;
  // RACK: when the latest sent of the delivered segments was sent, and the round trip it took.
  Time newest_delivered_ = 0, newest_round_trip_ = 0;
  bool reordering_seen_ = false;  // one sent only once was delivered after one beyond it
  // How many quarters of the least round trip to wait, and for how many recoveries more that is kept.
  int settling_steps_ = 1, settling_keeps_ = 0;
  bool duplicate_came_ = false;  // since the steps became more
  Time stretched_at_ = 0;
  std::uint64_t highest_before_ = 0;  // highest_delivered_ before the acknowledgement being taken in
  // Tail loss probe: one at a time, answered when all before probe_end_ is acknowledged.
  bool probe_due_ = false, probe_out_ = false, probe_resent_ = false;
  std::uint64_t probe_end_ = 0;
  Packet::Block seen_[3] = {};  // the blocks of the last acknowledgement, from seen_base_ on
  std::uint64_t seen_base_ = 0;
  int seen_blocks_ = 0;
  std::uint64_t duplicates_ = 0;

  std::uint64_t high_ = 0;  // reducing, recovery, loss end when this segment is acknowledged
  double before_reduction_ = 0, delivered_in_reduction_ = 0, sent_in_reduction_ = 0;
  Undo undo_;
  Time first_resent_at_ = never;     // since all was well last
  std::uint64_t careful_until_ = 0;  // before it, duplicates mean nothing
  bool repair_due_ = false;          // of old: a lost segment leaves at once, whatever the window
  bool withholds_repairs_ = false;   // for this acknowledgement: originals arrive
  std::uint64_t timeouts_without_progress_ = 0;
  // of the acknowledgement being taken in
  double newly_delivered_ = 0;
  Time sampled_ = 0, newest_sample_ = 0;
  std::uint64_t retransmissions_ = 0, timeouts_ = 0, attempts_ = 0;
};
