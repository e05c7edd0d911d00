#include "tcp_sender.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace {
constexpr std::uint64_t duplicates_that_tell_a_loss = 3;
constexpr int most_settling_steps = 255, recoveries_that_keep_steps = 16;  // RFC 8985, section 6.2, and Linux
constexpr Time timer_margin = 2 * picoseconds_per_second / 1000;           // Linux's TCP_TIMEOUT_MIN
}

TcpSender::TcpSender(const TcpSettings& settings, std::unique_ptr<CongestionControl> control)
    : settings_(settings),
      boundaries_(settings.segment_bytes, settings.boundary_spread_bytes, settings.boundary_key),
      control_(std::move(control)),
      stays_open_(true),
      window_{settings.initial_window, 1e18},
      round_trip_(settings.minimum_timeout, settings.initial_timeout),
      ecn_(settings.ecn || control_->wants_precise_ecn()) {
  if (control_->owns_window()) rate_.emplace();
}

TcpSender::TcpSender(const TcpSettings& settings, std::unique_ptr<CongestionControl> control, std::uint64_t bytes)
    : TcpSender(settings, std::move(control)) {
  stays_open_ = false;
  bytes_ = bytes;
  segments_ = boundaries_.count(bytes);
  last_length_ = static_cast<std::uint32_t>(bytes - boundaries_.start(segments_ - 1));
}

void TcpSender::append(std::uint64_t bytes, Time now) {
  if (rate_ && !more_expected_ && in_flight() < allowed()) rate_->limit_by_application(in_flight());
  if (settings_.slow_start_after_idle && !rate_ && outstanding() == 0 && next_ > 0) restart_after(now - last_sent_);
  const std::uint64_t count = (bytes + settings_.segment_bytes - 1) / settings_.segment_bytes;
  segments_ += count;
  bytes_ = segments_ * settings_.segment_bytes;
  last_length_ = static_cast<std::uint32_t>(bytes - (count - 1) * settings_.segment_bytes);
}

// Linux's tcp_cwnd_restart: half the window for each timeout of silence, down to the initial window.
void TcpSender::restart_after(Time idle) {
  const Time timeout = round_trip_.timeout();
  if (idle <= timeout) return;
  const double floor = std::min(settings_.initial_window, window_.segments);
  window_.threshold = std::max(window_.threshold, window_.segments * 3 / 4);
  for (Time left = idle - timeout; left > 0 && window_.segments > floor; left -= timeout) window_.segments /= 2;
  window_.segments = std::max(window_.segments, floor);
}

// RFC 8684's companion rule for a subflow that holds the others up (Raiciu et al., NSDI 2012, section 4.2).
void TcpSender::penalise() {
  if (state_ != State::open) return;
  if (!window_.in_slow_start()) window_.threshold = std::max(window_.threshold / 2, 2.0);
  window_.segments = std::max(window_.segments / 2, 1.0);
}

void TcpSender::connect(Time now) {
  if (attempts_++ > 0) round_trip_.back_off();
  syn_sent_ = now;
  deadline_ = now + round_trip_.timeout();
}

void TcpSender::on_connected(Time now) {
  if (connected_) return;
  connected_ = true;
  deadline_ = timeout_at_ = never;
  round_trip_.forget_back_off();
  if (attempts_ == 1) round_trip_.sample(now - syn_sent_);  // else nobody knows which SYN was answered
  if (attempts_ > 2) window_.segments = 1;                  // as Linux after two lost SYNs
  control_->on_connected(window_, round_trip_.smoothed(), now);
}

void TcpSender::finish() {
  stays_open_ = false;
  segments_ = next_;
  bytes_ = std::min(bytes_, boundaries_.start(next_));
}

std::optional<TcpSender::Segment> TcpSender::next_segment(Time now) {
  if (!connected_) return std::nullopt;
  const bool probe = std::exchange(probe_due_, false);
  if (!probe && !repairs_now() && in_flight() >= allowed()) {
    window_blocked_ = window_blocked_ || has_lost() || next_ < segments_ || more_expected_;
    return std::nullopt;
  }
  waits_for_pace_ = send_from() > now && !probe && (has_lost() || next_ < segments_);
  if (waits_for_pace_) return std::nullopt;
  std::uint64_t segment;
  const std::uint64_t sent_again = retransmissions_;
  const bool was_silent = in_flight() == 0 && last_sent_ > 0;
  if (has_lost()) {
    segment = std::max(resend_from_, first_);
    while ((board_[segment].marks & (lost | resent)) != lost) ++segment;
    resend_from_ = segment + 1;
    repair_due_ = false;
    Sent& sent = board_[segment];
    sent.at = now;
    sent.marks |= resent | ever_resent;
    ++resent_;
    ++retransmissions_;
    resent_order_.push({segment, now});
    if (first_resent_at_ == never) first_resent_at_ = now;
    undo_.unanswered = undo_.unanswered.value_or(0) + 1;
    if (segment == first_) restart_timeout(now, purpose_ == Purpose::judging);
  } else if (next_ < segments_ && has_room()) {
    segment = next_++;
    board_.push({now, next_ == segments_ ? last_length_ : boundaries_.length(segment), 0});
    if (timeout_at_ == never) restart_timeout(now);
  } else if (probe && outstanding() > 0) {
    segment = next_ - 1;
    board_[segment].at = now;
    board_[segment].marks |= ever_resent;
    ++retransmissions_;
    probe_resent_ = true;
  } else {
    return std::nullopt;
  }
  // Linux's CA_EVENT_TX_START, which BBR heeds only where the application has held it back.
  if (was_silent && (!rate_ || rate_->application_limited())) control_->on_restart(now - last_sent_, now);
  if (rate_) rate_->on_sent(segment, segment == first_ && next_ == first_ + 1, now);
  pace(board_[segment].length, now);
  last_sent_ = now;
  sent_in_reduction_ += 1;
  control_->on_sent(window_, next_, now);
  if (probe) {
    probe_out_ = true;
    probe_end_ = next_;
    restart_timeout(now);
  } else {
    schedule_probe(now);
  }
  // RFC 3168, sections 6.1.2 and 6.1.5: new data tells of the reduction, and may be marked. With DCTCP all may.
  const bool is_new = retransmissions_ == sent_again;
  const bool reduced = is_new && std::exchange(reduction_pending_, false);
  const bool capable = ecn_ && (is_new || control_->wants_precise_ecn());
  return Segment{boundaries_.start(segment), board_[segment].length, reduced, capable};
}

// Pacing.

// Bytes a second; 0 for none. As Linux: the first ratio while the window is below half of the threshold.
double TcpSender::pacing_rate() const {
  const double own = control_->pacing_rate();
  return own > 0 || !settings_.pacing ? own : window_rate();
}

double TcpSender::window_rate() const {
  if (round_trip_.smoothed() == 0) return 0;
  const double ratio =
      window_.segments < window_.threshold / 2 ? settings_.pacing_slow_start_ratio : settings_.pacing_ratio;
  const double window = std::max(window_.segments, static_cast<double>(outstanding()));
  return ratio * window * settings_.segment_bytes / to_seconds(round_trip_.smoothed());
}

void TcpSender::pace(std::uint32_t length, Time now) {
  const double rate = pacing_rate();
  if (rate == 0 || ++sent_ <= settings_.unpaced_segments) return;
  const Time interval = from_seconds(length / rate);
  // Who comes late may catch up by half of the interval.
  const Time late = std::max<Time>(0, now - send_at_);
  send_at_ = now + interval - std::min(interval / 2, late);
}

// Delivery rate.

RateSample TcpSender::rate_sample(Time now, double in_flight_before, std::uint64_t lost_before) {
  RateSample sample = rate_->sample(now, newly_delivered_, round_trip_.smallest());
  sample.newly_lost = static_cast<double>(ever_lost_ - lost_before);
  sample.in_flight = in_flight();
  sample.in_flight_before = in_flight_before;
  sample.round_trip = newest_sample_;
  sample.acknowledgement_delayed = newly_delivered_ == 1 && outstanding() == 0;
  sample.state = state_ == State::recovery ? RateSample::State::recovery
                 : state_ == State::loss   ? RateSample::State::loss
                                           : RateSample::State::open;
  return sample;
}

// Timers.

void TcpSender::restart_timeout(Time now, bool judges_first) {
  timeout_at_ = outstanding() == 0 ? never : now + round_trip_.timeout();
  if (judges_first) return;
  deadline_ = timeout_at_;
  purpose_ = Purpose::timeout;
}

// RFC 8985, section 7.2, with Linux's allowances: when nothing is known to be missing, the silence of two round trips
// is answered by a probe, since the timeout would cost the whole window.
void TcpSender::schedule_probe(Time now) {
  const bool calm = delivered_ == 0 && (state_ == State::open || state_ == State::reducing);
  if (!settings_.tail_loss_probe || !settings_.selective || !calm || probe_out_ || outstanding() == 0) return;
  if (round_trip_.smoothed() == 0) return;
  const Time due = now + 2 * round_trip_.smoothed() + (outstanding() == 1 ? settings_.minimum_timeout : timer_margin);
  deadline_ = std::min(due, timeout_at_);  // a timeout that would be earlier waits for the probe's answer
  purpose_ = Purpose::probe;
}

void TcpSender::on_deadline(Time now) {
  if (send_from() <= now) waits_for_pace_ = false;
  if (deadline_ > now) return;
  switch (purpose_) {
    case Purpose::timeout:
      return on_timeout(now);
    case Purpose::probe:
      probe_due_ = true;
      probe_resent_ = false;
      deadline_ = timeout_at_;
      purpose_ = Purpose::timeout;
      return;
    case Purpose::judging:
      deadline_ = timeout_at_;
      purpose_ = Purpose::timeout;
      newly_delivered_ = 1;  // as in Linux, so that one may be sent again
      find_losses(now);
      if (lost_ > 0 && (state_ == State::open || state_ == State::reducing)) {
        enter_recovery();
        if (!rate_ && !of_old()) reduce_proportionally(false);
      }
      return;
  }
}

void TcpSender::take_probe_answer(const Packet& packet) {
  if (!probe_out_) return;
  if (!probe_resent_) {
    probe_out_ = first_ < probe_end_;
  } else if (packet.has(Packet::duplicate_seen)) {
    probe_out_ = false;  // the original had arrived: nothing was lost
  } else if (first_ > probe_end_) {
    // The probe itself repaired the loss: that the network dropped something still counts.
    probe_out_ = false;
    if (state_ == State::open && !rate_) {
      window_.segments = window_.threshold = control_->threshold_after_loss(window_);
      undo_ = {};
      tell_of_reduction();
    }
  }
}

// Acknowledgements.

void TcpSender::on_acknowledgement(const Packet& packet, Time now) {
  if (settings_.cumulative_nonce && packet.has(Packet::unproven)) return;
  if (packet.sequence != bytes_ && !boundaries_.allow(packet.sequence)) return;
  const std::uint64_t to = packet.sequence >= bytes_ ? segments_ : boundaries_.holding(packet.sequence);
  if (to < first_ || to > next_) return;
  const std::uint64_t newly_acknowledged = std::max(packet.sequence, acknowledged_) - acknowledged_;
  const bool news = newly_acknowledged > 0;
  acknowledged_ += newly_acknowledged;
  const std::uint64_t outstanding_before = outstanding(), first_before = first_, lost_before = ever_lost_;
  const double in_flight_before = in_flight(), rate_before = window_rate();
  newly_delivered_ = 0;
  sampled_ = newest_sample_ = 0;
  withholds_repairs_ = false;
  highest_before_ = highest_delivered_;
  take_cumulative(to, now);
  const bool progress = first_ > first_before;
  if (settings_.selective)
    take_selective(packet, now);
  else if (packet.sequence == acknowledged_ && !news && outstanding_before > 0)
    take_duplicate(now);
  count_duplicate(packet);
  adapt_settling_time(now);
  if (sampled_ > 0) round_trip_.sample(sampled_);
  if (news) {
    round_trip_.forget_back_off();
    timeouts_without_progress_ = 0;
    restart_timeout(now);
  } else if (purpose_ == Purpose::judging) {
    deadline_ = timeout_at_;
    purpose_ = Purpose::timeout;
  }

  const bool echo = ecn_ && packet.has(Packet::congestion_echo);
  const bool limited =
      window_blocked_ || (window_.in_slow_start() && window_.segments < 2 * static_cast<double>(outstanding_before));
  window_blocked_ = false;
  const Delivery delivery{now,   newly_delivered_, echo,       limited, newest_sample_, first_,
                          next_, in_flight(),      rate_before};
  control_->on_delivery(window_, delivery);

  if (echo) undo_.threshold = 0;
  leave_finished_state(packet, news);
  try_undo(packet, first_before);
  take_probe_answer(packet);
  if (settings_.selective) {
    if (!withholds_repairs_) find_losses(now);
  } else if (progress && (state_ == State::recovery) && outstanding() > 0) {
    mark_lost(first_);  // NewReno: a partial acknowledgement tells the next hole
    repair_due_ = of_old();
  }
  if (lost_ > 0 && (state_ == State::open || state_ == State::reducing)) {
    enter_recovery();
    if (echo) undo_.threshold = 0;
  } else if (echo && state_ == State::open) {
    undo_ = {};
    begin_reduction(State::reducing, control_->threshold_after_mark(window_));
  }
  if (rate_) {
    control_->on_rate_sample(window_, rate_sample(now, in_flight_before, lost_before));
    if (control_->wants_application_limited_mark()) rate_->limit_by_application(in_flight());
  } else if (state_ == State::reducing || state_ == State::recovery) {
    if (!of_old()) reduce_proportionally(progress && ever_lost_ == lost_before);
  } else if (news) {
    control_->grow(window_, counted(delivery, newly_acknowledged));
  }
  if (progress) schedule_probe(now);
}

// What lets the window grow, by what the sender counts.
Delivery TcpSender::counted(Delivery delivery, std::uint64_t bytes) const {
  if (settings_.counts == Counts::acknowledgements) delivery.segments = 1;
  if (settings_.counts == Counts::bytes) delivery.segments = static_cast<double>(bytes) / settings_.segment_bytes;
  return delivery;
}

void TcpSender::enter_recovery() {
  prepare_undo(state_ == State::open);
  if (state_ == State::open) begin_reduction(State::recovery, control_->threshold_after_loss(window_));
  state_ = State::recovery;
  high_ = next_;
  repair_due_ = of_old();
  if (settings_.recovery == Recovery::newreno) be_careful();
  if (purpose_ == Purpose::probe) {
    deadline_ = timeout_at_;
    purpose_ = Purpose::timeout;
  }
}

void TcpSender::take_delivered(std::uint64_t segment, const Sent& sent, Time now) {
  newly_delivered_ += 1;
  if (rate_) rate_->on_delivered(segment, sent.at);
  if (sent.marks & lost) --lost_;
  if (sent.marks & resent) --resent_;
  const bool again = sent.marks & ever_resent;
  reordering_seen_ |= !again && segment + 1 < highest_before_;
  // What was sent again and comes back at once is the original, which tells nothing about the retransmission.
  if (sent.at >= newest_delivered_ && (!again || now - sent.at >= round_trip_.smallest())) {
    newest_delivered_ = sent.at;
    newest_round_trip_ = now - sent.at;
  }
  if (again) return;
  sampled_ = std::max(sampled_, now - sent.at);
  newest_sample_ = newest_sample_ == 0 ? now - sent.at : std::min(newest_sample_, now - sent.at);
}

void TcpSender::take_cumulative(std::uint64_t to, Time now) {
  const double before = static_cast<double>(delivered_);
  const std::uint64_t count = to - first_;
  bool ambiguous = false;
  for (; first_ < to; ++first_) {
    Sent& sent = board_.front();
    if (sent.marks & delivered)
      --delivered_;
    else
      take_delivered(first_, sent, now);
    ambiguous |= (sent.marks & ever_resent) != 0;
    board_.pop();
    if (rate_) rate_->forget_first();
  }
  if (ambiguous) sampled_ = newest_sample_ = 0;  // Karn: which copy is it that this answers?
  if (!settings_.selective && count > 0) {
    // Duplicates stood for segments that this acknowledges: they were counted when they came.
    const std::uint64_t known = std::min(delivered_, count - 1);
    delivered_ -= known;
    delivered_ = std::min(delivered_, outstanding());
    newly_delivered_ = std::max(1.0, newly_delivered_ - (before - static_cast<double>(delivered_)));
    if (state_ == State::open) delivered_ = 0;
    duplicates_ = 0;
  }
  judged_ = std::max(judged_, first_);
  resend_from_ = std::max(resend_from_, first_);
  highest_delivered_ = std::max(highest_delivered_, first_);
}

void TcpSender::take_selective(const Packet& packet, Time now) {
  const auto number = [&](std::uint64_t byte) { return byte >= bytes_ ? segments_ : boundaries_.holding(byte); };
  const auto take = [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t segment = std::max(from, first_); segment < std::min(to, next_); ++segment) {
      Sent& sent = board_[segment];
      if (sent.marks & delivered) continue;
      take_delivered(segment, sent, now);
      sent.marks = static_cast<std::uint8_t>((sent.marks & ever_resent) | delivered);
      ++delivered_;
      if (segment > highest_delivered_) newest_hole_ = segment - 1;
      highest_delivered_ = std::max(highest_delivered_, segment + 1);
    }
  };
  for (int i = 0; i < packet.blocks; ++i) {
    const std::uint64_t start = packet.sequence + packet.selective[i].start;
    const std::uint64_t end = packet.sequence + packet.selective[i].end;
    // What the last acknowledgement told already need not be looked at again.
    std::uint64_t known_start = end, known_end = end;
    for (int j = 0; j < seen_blocks_; ++j) {
      const std::uint64_t from = seen_base_ + seen_[j].start, to = seen_base_ + seen_[j].end;
      if (from >= start && to <= end && to - from > known_end - known_start) known_start = from, known_end = to;
    }
    take(number(start), number(known_start));
    take(number(known_end), number(end));
  }
  std::copy_n(packet.selective.begin(), packet.blocks, seen_);
  seen_blocks_ = packet.blocks;
  seen_base_ = packet.sequence;
}

void TcpSender::take_duplicate(Time now) {
  if (state_ == State::loss || (state_ != State::recovery && first_ < careful_until_)) return;
  ++duplicates_;
  if (of_old() && state_ != State::recovery) {  // the first ones let nothing go (RFC 3042 came later)
    if (duplicates_ != duplicates_that_tell_a_loss) return;
    if (settings_.recovery == Recovery::tahoe) return begin_again(now);
    delivered_ = std::min(duplicates_, outstanding()) - 1;  // and the last of them below
  }
  if (delivered_ + lost_ < outstanding()) {
    ++delivered_;  // some segment has arrived, nobody knows which
    newly_delivered_ = 1;
  }
  if (duplicates_ == duplicates_that_tell_a_loss && state_ != State::recovery) mark_lost(first_);
}

void TcpSender::mark_lost(std::uint64_t segment) {
  Sent& sent = board_[segment];
  if (!settings_.selective && (sent.marks & lost)) return;
  sent.marks |= lost;
  ++lost_;
  ++ever_lost_;
  if (!settings_.selective && delivered_ + lost_ > outstanding()) --delivered_;
  resend_from_ = std::min(resend_from_, segment);
}

// RACK: lost is what was sent before a segment that has been delivered, whatever their numbers, once it has had a round
// trip and some time for reordering. As in Linux the timer waits for the last of them, and a little longer, so that
// acknowledgements come first if there are any.
void TcpSender::find_losses(Time now) {
  if (of_old()) return find_losses_by_count();
  const Time margin = settling_time();
  Time last_due = 0;
  if (judged_ < next_ && (delivered_ > 0 || board_[judged_].at < newest_delivered_)) {
    for (; judged_ < next_; ++judged_) {
      const Sent& sent = board_[judged_];
      if (sent.marks & (delivered | lost)) continue;
      // Beyond the highest delivered one, only a retransmission that was delivered tells.
      if (judged_ >= highest_delivered_ && sent.at >= newest_delivered_) break;
      if (margin > 0 && settled_at(sent.at, margin) > now) {
        last_due = newest_hole_due(margin);
        break;
      }
      if (sent.at > newest_delivered_) break;
      mark_lost(judged_);
    }
  }
  last_due = std::max(last_due, find_lost_retransmissions(margin, now));
  if (last_due > 0) judge_at(last_due + timer_margin);
}

// RFC 6675: lost is what three segments beyond it have arrived.
void TcpSender::find_losses_by_count() {
  if (delivered_ < duplicates_that_tell_a_loss) return;
  std::uint64_t third = highest_delivered_;
  for (std::uint64_t beyond = 0; beyond < duplicates_that_tell_a_loss;) beyond += board_[--third].marks & delivered;
  for (; judged_ < third; ++judged_)
    if (!(board_[judged_].marks & (delivered | lost))) mark_lost(judged_);
}

Time TcpSender::newest_hole_due(Time margin) {
  while (newest_hole_ > judged_ && (board_[newest_hole_].marks & (delivered | lost))) --newest_hole_;
  return settled_at(board_[std::max(newest_hole_, judged_)].at, margin);
}

// RFC 8985, section 6.2, step 4: none once three segments tell of a loss, on a path that has never reordered.
Time TcpSender::settling_time() const {
  const bool told = state_ == State::recovery || state_ == State::loss || delivered_ >= duplicates_that_tell_a_loss;
  if (told && !reordering_seen_) return 0;
  return std::min(round_trip_.smallest() / 4 * settling_steps_, round_trip_.smoothed());
}

// RFC 8985, section 6.2, step 4.2: a step more in each round trip in which something was sent again needlessly, until
// 16 recoveries have had none.
void TcpSender::adapt_settling_time(Time now) {
  if (newly_delivered_ == 0) return;
  if (newest_delivered_ < stretched_at_) duplicate_came_ = false;
  if (std::exchange(duplicate_came_, false)) {
    settling_steps_ = std::min(settling_steps_ + 1, most_settling_steps);
    settling_keeps_ = recoveries_that_keep_steps;
    stretched_at_ = now;
  } else if (settling_keeps_ == 0) {
    settling_steps_ = 1;
  }
}

void TcpSender::judge_at(Time due) {
  deadline_ = std::min(due, timeout_at_);
  purpose_ = due < timeout_at_ ? Purpose::judging : Purpose::timeout;
}

// When the last of those is due that were sent before one that has been delivered; 0 if there is none.
Time TcpSender::find_lost_retransmissions(Time margin, Time now) {
  const auto waits = [&](const Resent& again) {
    return again.segment >= first_ && (board_[again.segment].marks & resent) && board_[again.segment].at == again.at;
  };
  for (; !resent_order_.empty(); resent_order_.pop()) {
    const Resent oldest = resent_order_.front();
    if (!waits(oldest)) continue;
    if (oldest.at >= newest_delivered_) return 0;
    if (margin > 0 && settled_at(oldest.at, margin) > now) {
      std::uint64_t newest = resent_order_.tail() - 1;  // the oldest at the least
      while (resent_order_[newest].at >= newest_delivered_ || !waits(resent_order_[newest])) --newest;
      return settled_at(resent_order_[newest].at, margin);
    }
    board_[oldest.segment].marks &= static_cast<std::uint8_t>(~resent);
    --resent_;
    ++ever_lost_;
    resend_from_ = std::min(resend_from_, oldest.segment);
  }
  return 0;
}

void TcpSender::begin_reduction(State state, double threshold) {
  before_reduction_ = window_.segments;
  window_.threshold = threshold;
  delivered_in_reduction_ = sent_in_reduction_ = 0;
  state_ = state;
  high_ = next_;
  tell_of_reduction();
  if (of_old() && !rate_) window_.segments = threshold;
}

// RFC 9937, which follows RFC 6937: one more than was delivered only while nothing else is found lost.
void TcpSender::reduce_proportionally(bool found_no_loss) {
  if (newly_delivered_ == 0) return;
  delivered_in_reduction_ += newly_delivered_;
  const double flying = in_flight();
  double send;
  if (flying > window_.threshold) {
    send = std::ceil(window_.threshold * delivered_in_reduction_ / before_reduction_) - sent_in_reduction_;
  } else {
    const double as_delivered = std::max(delivered_in_reduction_ - sent_in_reduction_, newly_delivered_);
    send = std::min(window_.threshold - flying, as_delivered + (found_no_loss ? 1 : 0));
  }
  window_.segments = std::max(flying + std::max(send, sent_in_reduction_ > 0 ? 0.0 : 1.0), 1.0);
}

void TcpSender::leave_finished_state(const Packet& packet, bool news) {
  const bool at_once = settings_.recovery == Recovery::reno && state_ == State::recovery && news;
  if (state_ == State::open || (first_ < high_ && !at_once)) return;
  // Linux: something must be acknowledged that tells the receiver of the reduction.
  if (state_ == State::reducing && first_ == high_ && !of_old()) return;
  const bool undone = may_undo(packet);
  if (undone)
    undo_reduction(state_ == State::loss);
  else if (state_ != State::loss && !rate_)
    window_.segments = window_.threshold;
  if (!undone && state_ != State::reducing && settling_keeps_ > 0) --settling_keeps_;
  if (!settings_.selective) delivered_ = 0, duplicates_ = 0;
  state_ = State::open;
}

// Undoing what was for nothing, as Linux's tcp_fastretrans_alert and tcp_process_loss do.

// Before the window or threshold changes. A reduction that a mark asked for, and that goes on, is not to be undone.
void TcpSender::prepare_undo(bool reduces) {
  if (of_old()) return;
  const std::uint64_t under_way = resent_ + (probe_out_ && probe_resent_);
  if (resent_ == 0 && !(board_[first_].marks & ever_resent)) first_resent_at_ = never;
  undo_ = {true, first_, window_.segments, reduces ? std::max(window_.threshold, window_.segments * 3 / 4) : 0, {}};
  if (under_way > 0) undo_.unanswered = under_way;
}

// RFC 3708, with RFC 2883's blocks: what arrived twice need not have been sent again.
void TcpSender::count_duplicate(const Packet& packet) {
  if (!settings_.selective || !packet.has(Packet::duplicate_seen)) return;
  const std::uint64_t end = packet.sequence + static_cast<std::uint64_t>(std::int64_t{packet.duplicate_end});
  // Beyond a hole: that it was sent again and the original came tells of reordering.
  reordering_seen_ |= packet.duplicate_end > 0 && end < boundaries_.start(highest_before_);
  const bool of_probe = probe_out_ && probe_resent_ && end >= boundaries_.start(probe_end_);
  duplicate_came_ |= reordering_seen_ && !of_probe;
  const bool of_reduction = undo_.possible && end > boundaries_.start(undo_.first);
  if (of_reduction && undo_.unanswered.value_or(0) > 0) --*undo_.unanswered;
}

// RFC 3522: what is acknowledged was sent before anything was sent again. Within the same millisecond nobody knows.
bool TcpSender::original_arrived(const Packet& packet) const {
  return first_resent_at_ == never || packet.stamp_ms < stamp_of(first_resent_at_);
}

bool TcpSender::may_undo(const Packet& packet) const {
  return undo_.possible && (undo_.unanswered == 0 || original_arrived(packet));
}

void TcpSender::try_undo(const Packet& packet, std::uint64_t first_before) {
  if (!undo_.possible || state_ == State::reducing) return;
  const bool progress = first_ > first_before;
  bool undone = false;
  if (state_ == State::loss) {
    undone = progress && may_undo(packet);
    if (undone) undo_reduction(true);
    undone &= settings_.selective;  // without, duplicates of what was sent again would look like a loss
  } else if (state_ == State::recovery && progress && original_arrived(packet)) {
    reordering_seen_ |= first_before < highest_before_;
    withholds_repairs_ = resent_ > 0;  // some may still be needed: until that is known, new segments go out instead
    undone = !withholds_repairs_;
    if (undone) undo_reduction(true);
  } else if (undo_.unanswered == 0) {
    undone = true;
    settling_keeps_ = std::min(settling_keeps_ + 1, recoveries_that_keep_steps);
    undo_reduction(false);
  }
  if (undone) state_ = State::open;
}

void TcpSender::undo_reduction(bool forgets_losses) {
  if (forgets_losses) {
    for (std::uint64_t segment = first_; segment < next_; ++segment)
      board_[segment].marks &= static_cast<std::uint8_t>(delivered | ever_resent);
    lost_ = resent_ = 0;
    resent_order_ = {};
    judged_ = first_;
  }
  if (undo_.threshold > 0) {
    control_->on_undo();
    if (!rate_) window_.segments = std::max(window_.segments, undo_.window);
    if (undo_.threshold > window_.threshold) {
      window_.threshold = undo_.threshold;
      reduction_pending_ = false;
    }
  }
  undo_.possible = false;
}

void TcpSender::on_timeout(Time now) {
  if (outstanding() == 0) return restart_timeout(now);
  ++timeouts_;
  // One reduction for one loss: not again in a recovery, nor for a retransmission that is lost as well.
  if (state_ == State::open || (state_ == State::loss && timeouts_without_progress_ == 0)) {
    prepare_undo(true);
    window_.threshold = control_->threshold_after_loss(window_);
  }
  control_->on_timeout();
  ++timeouts_without_progress_;
  send_all_again();
  round_trip_.back_off();
  restart_timeout(now);
}

// Tahoe: three duplicates are as good as a timeout.
void TcpSender::begin_again(Time now) {
  window_.threshold = control_->threshold_after_loss(window_);
  send_all_again();
  restart_timeout(now);
}

void TcpSender::send_all_again() {
  state_ = State::loss;
  high_ = next_;
  be_careful();
  tell_of_reduction();
  window_.segments = 1;
  if (!settings_.selective) delivered_ = duplicates_ = 0;
  lost_ = resent_ = 0;
  for (std::uint64_t segment = first_; segment < next_; ++segment) {
    std::uint8_t& marks = board_[segment].marks;
    if (marks & delivered) continue;
    marks = static_cast<std::uint8_t>((marks & ever_resent) | lost);
    ++lost_;
  }
  judged_ = next_;
  resend_from_ = first_;
  resent_order_ = {};
  probe_out_ = probe_due_ = withholds_repairs_ = repair_due_ = false;
}
