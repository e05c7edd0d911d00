// The sending half of a TCP connection as in the Linux kernel: slow start, recovery by SACK with RACK and tail loss
// probes (RFC 8985) or by NewReno, proportional rate reduction (RFC 9937), timeouts with back-off. A reduction that
// proves needless, by time stamps (RFC 3522), duplicates (RFC 3708) or F-RTO (RFC 5682), is undone.
//
// It combines parts that do one thing each: the scoreboard, loss detection with and without SACK, the tail loss probe,
// proportional reduction, undo, F-RTO, pacing, the delivery rate. This class has the window, the timer and the states,
// which are Linux's. The recovery point is the next new segment at the time when a state was entered:
//
//   state     entered                          meanwhile                              left for Open
//   Open      at first, and after the others   grow() with each acknowledgement
//   Disorder  with arrivals beyond a hole      as Open, but no probe is scheduled     when the hole is filled
//   CWR       with an echoed mark, from Open   PRR down to ssthresh_after_mark()      beyond the recovery point
//   Recovery  with a loss found, from Open     PRR down to ssthresh_after_loss(),     at the recovery point,
//             or CWR; of a repair, from Loss   lost segments are sent again           or undone as needless
//   Loss      with a timeout, from any state   all is lost that has had a round       at the recovery point,
//                                              trip; grow() from a segment more       or undone as needless
//                                              than the rest; F-RTO before lost
//                                              segments are sent again
//
// Disorder is no State here: it is open while the scoreboard has arrivals beyond a hole. A loss in CWR keeps the
// recovery point and, except with DCTCP, the ssthresh of the mark. A timeout in CWR or Recovery keeps the ssthresh of
// before. In older senders (Recovery in tcp_settings.hpp) the window falls to ssthresh at once, Reno leaves Recovery
// with the first new acknowledgement, and Tahoe goes to Loss with the third duplicate.
//
// It has no clock and sends nothing. The host asks for the next segment while there is room, and gives it the time and
// the acknowledgements. Bytes are cut into segments once, so that segment n is always the same bytes. Appended bytes
// begin a new segment; the last segment before them then counts as a full one in sequence numbers.
//
// tcp_sender.cpp opens the connection and sends; beside it are the parts for acknowledgements, for the timer and for
// the states.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/simulated_time.hpp"
#include "network/packet.hpp"
#include "tcp/accurate_ecn.hpp"
#include "tcp/congestion_control.hpp"
#include "tcp/delivery_rate.hpp"
#include "tcp/duplicate_count.hpp"
#include "tcp/forward_retransmission.hpp"
#include "tcp/loss_detection.hpp"
#include "tcp/pacing.hpp"
#include "tcp/proportional_reduction.hpp"
#include "tcp/reduction_undo.hpp"
#include "tcp/round_trip_estimator.hpp"
#include "tcp/scoreboard.hpp"
#include "tcp/segment_boundaries.hpp"
#include "tcp/tail_loss_probe.hpp"
#include "tcp/tcp_settings.hpp"
#include "tcp/window_usage.hpp"

class TcpSender {
 public:
  struct Segment {
    std::uint64_t sequence;
    std::uint32_t length;
    bool cwr;  // reports a reduction (RFC 3168)
    bool ecn_capable, ect_1;
  };
  static constexpr std::uint64_t unlimited = std::uint64_t{1} << 62;

  // Sends `bytes`, or without end until finish().
  TcpSender(const TcpSettings& settings, std::unique_ptr<CongestionControl> control, std::uint64_t bytes);
  // Sends what is appended, until finish(): sequence numbers are then whole segments.
  TcpSender(const TcpSettings& settings, std::unique_ptr<CongestionControl> control);
  // To be called when all that was given before has been sent at least once.
  void append(std::uint64_t bytes, Time now);

  // Connecting: whenever this is called, a SYN is due. It is called again when deadline() has passed.
  void connect(Time now);
  // What ECN a SYN asks for (accurate_ecn.hpp).
  std::uint8_t asks_ecn() const {
    return !ecn_ ? accurate_ecn::no_ecn : asks_accurate_ecn_ ? accurate_ecn::ask : accurate_ecn::classic_ask;
  }
  // echo_ms: when the answered SYN left. agreed: what the answer says of ECN.
  void on_connected(std::uint32_t echo_ms, std::uint8_t agreed, Time now);
  bool connected() const { return connected_; }

  void on_acknowledgement(const Packet& packet, Time now);
  void on_deadline(Time now);
  Time deadline() const { return waits_for_pace_ ? std::min(deadline_, send_from()) : deadline_; }

  // The segment to send now, if windows allow one; it counts as sent.
  std::optional<Segment> next_segment(Time now);
  // Whether there would be one. A sender that only waits for its pace asks to be called at deadline().
  bool wants_to_send(Time now) {
    const bool has_some = has_lost() || (has_new() && has_room());
    return probe_.due() ||
           (connected_ && has_some && (repairs_now() || board_.in_flight() < allowed()) && pace_allows(now));
  }
  // To be called in place of next_segment() when there is none.
  void heed_application(Time now);
  void finish();  // sends nothing beyond what has been sent already

  bool done() const { return connected_ && !stays_open_ && board_.first() == segments_; }
  // For callers that hand data out bit by bit: whether a new segment could leave at once if it were there.
  bool could_send_new(Time now) {
    return connected_ && !has_lost() && !has_new() && has_room() && board_.in_flight() < allowed() && pace_allows(now);
  }
  void expect_more(bool more) { more_expected_ = more; }
  std::uint64_t first_unacknowledged() const { return board_.first(); }
  std::uint64_t next_new() const { return board_.next(); }
  bool open_state() const { return state_ == State::open; }
  bool repairs_timeout() const { return state_ == State::loss; }
  bool repairs() const { return state_ == State::recovery || state_ == State::loss; }
  // How many segments leave together, where the settings ask for bursts; else 1.
  double burst() const;
  void wait_for_burst() { usage_.on_held_back(board_); }  // the window has no room for a burst
  Time last_sent() const { return last_sent_; }
  bool waits_for_pace() const { return waits_for_pace_; }
  void penalise();
  std::uint64_t bytes() const { return bytes_; }
  // Whether marks are echoed as in RFC 8257, since the control needs all of them. AccECN, if asked for, counts them.
  bool precise_ecn() const { return control_->wants_precise_ecn() && !asks_accurate_ecn_; }
  std::uint64_t marks_heard() const { return marks_heard_; }  // by AccECN
  const CongestionWindow& window() const { return window_; }
  double in_flight() const { return board_.in_flight(); }  // segments
  const RoundTripEstimator& round_trip() const { return round_trip_; }
  std::uint64_t retransmissions() const { return board_.retransmissions(); }
  std::uint64_t timeouts() const { return timeouts_; }
  std::uint64_t connection_attempts() const { return attempts_; }

 private:
  enum class State : std::uint8_t { open, cwr, recovery, loss };
  double allowed() const { return std::max(1.0, window_.whole()); }
  bool has_new() const { return board_.next() < segments_; }
  bool has_lost() const { return board_.repairs_wait() && !withholds_repairs_; }
  bool has_room() const {
    return (board_.outstanding() + 1) * settings_.segment_bytes <= settings_.receive_window_bytes;
  }
  Time send_from() const { return std::max(pacing_.send_from(), window_.send_from); }
  bool pace_allows(Time now) {
    const bool waits = send_from() > now && burst_left_ < 1;
    waits_for_pace_ |= waits;
    return !waits;
  }
  bool of_old() const { return settings_.recovery != Recovery::linux_like; }
  bool repairs_now() const { return repair_due_ && has_lost(); }
  std::uint64_t end_of(std::uint64_t segment) const { return std::min(boundaries_.start(segment + 1), bytes_); }
  std::uint64_t segment_at(std::uint64_t byte) const { return byte >= bytes_ ? segments_ : boundaries_.holding(byte); }
  void restart_if_idle(Time now);
  Time by_stamp(std::uint32_t echo_ms, Time now) const;
  double pacing_rate() const;
  double window_rate() const;
  void tell_losses(Time now);
  RateSample rate_sample(Time now, double in_flight_before, std::uint64_t lost_before);

  // In tcp_sender_acknowledgements.cpp.
  void begin_acknowledgement();
  void take_old(const Packet& packet, Time now);
  void take_delivered(std::uint64_t segment, const Scoreboard::Sent& sent, Time now, bool an_earlier_copy = false);
  void take_cumulative(std::uint64_t to, std::uint32_t stamp_ms, Time now);
  void take_blocks(const Packet& packet, Time now);
  void take_duplicate(Time now);
  static std::uint64_t duplicate_end(const Packet& packet) {
    return packet.sequence + static_cast<std::uint64_t>(std::int64_t{packet.duplicate_end});
  }
  void count_duplicate(const Packet& packet);
  void forget_duplicates() {
    board_.set_arrivals(0);
    duplicates_.forget();
  }
  Delivery counted(Delivery delivery, std::uint64_t bytes) const;

  // In tcp_sender_timers.cpp.
  void restart_timeout(Time now, bool judges_first = false);
  void await_timeout();
  void schedule_probe(Time now);
  void find_losses(Time now);
  void take_probe_answer(const Packet& packet, bool duplicate, Time now);
  void on_timeout(Time now);
  void begin_again(Time now);
  void heed_timeout(const Packet& packet, bool progress, bool beyond);
  void send_new_first(Time now);
  void send_all_again(Time spared_after);

  // In tcp_sender_states.cpp.
  bool may_begin_recovery(std::uint64_t resent_before) const;
  void enter_recovery();
  void begin_reduction(State state, double ssthresh);
  // Called after any reduction, so that no earlier mark reduces the window again.
  void announce_cwr() { cwr_pending_ = ecn_ && !accurate_ && !precise_; }
  void reduce_proportionally(bool found_no_loss);
  void leave_finished_state(const Packet& packet, bool news);
  void prepare_undo(bool reduces);
  void try_undo(const Packet& packet, std::uint64_t first_before);
  void undo_reduction(bool forgets_losses);

  TcpSettings settings_;
  SegmentBoundaries boundaries_;
  std::unique_ptr<CongestionControl> control_;
  bool reads_pacing_rate_;
  std::uint64_t bytes_ = 0, segments_ = 0;  // bytes_: the end of the sequence numbers
  std::uint32_t last_length_ = 0;           // of segment segments_ - 1
  bool stays_open_ = false, more_expected_ = false;
  Time last_sent_ = 0;
  bool waits_for_pace_ = false;
  double burst_left_ = 0;             // segments, of the burst that has begun
  std::optional<DeliveryRate> rate_;  // where the control owns the window
  double marked_ = 0;                 // segments reported as marked, for rate_
  std::uint64_t acknowledged_ = 0;    // bytes; a receiver may acknowledge a part of a segment
  CongestionWindow window_;
  RoundTripEstimator round_trip_;
  State state_ = State::open;
  bool connected_ = false, asks_accurate_ecn_, ecn_, cwr_pending_ = false;
  bool precise_, accurate_ = false;  // each mark is reported, by RFC 8257 or by AccECN
  accurate_ecn::MarkReader marks_;
  std::uint64_t marks_heard_ = 0;
  // One timer has three purposes, by what happens at the deadline.
  enum class Purpose : std::uint8_t { rto, pto, reordering };
  Purpose purpose_ = Purpose::rto;
  Time deadline_ = never, timeout_at_ = never, syn_sent_ = 0;
  std::uint32_t first_syn_ms_ = 0;

  Scoreboard board_;
  LossDetection losses_;
  DuplicateCount duplicates_;
  TailLossProbe probe_;
  ProportionalReduction reduction_;
  ReductionUndo undo_;
  ForwardRetransmission forward_;
  WindowUsage usage_;
  Pacing pacing_;

  std::uint64_t recovery_point_ = 0;  // cwr, recovery, loss end when this segment is acknowledged
  bool repair_due_ = false;           // in older senders: a lost segment leaves at once, whatever the window
  bool withholds_repairs_ = false;    // for this acknowledgement: originals arrive, or may
  std::uint64_t timeouts_without_progress_ = 0;
  // These are of the acknowledgement that is being processed.
  double newly_delivered_ = 0;
  bool original_arrived_ = false;  // of those below the recovery point, sent only once
  bool sends_new_first_ = false;   // F-RTO
  Time sampled_ = 0, newest_sample_ = 0;
  std::uint64_t timeouts_ = 0, attempts_ = 0;
};
