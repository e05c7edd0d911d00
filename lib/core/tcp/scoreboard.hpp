// A TCP sender's scoreboard: which segments are out, and what is known of each: when it last left, whether it has
// arrived, is taken for lost, or was sent again. It keeps the marks and their counts, the order of retransmissions and
// the SACK blocks heard last. Others decide what is lost (loss_detection.hpp), and when to send.
//
// Segments are numbered from 0. Without SACK it is only known how many segments have arrived beyond a hole, not which.
#pragma once
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

#include "base/ring.hpp"
#include "base/simulated_time.hpp"
#include "network/packet.hpp"

class Scoreboard {
 public:
  enum Mark : std::uint8_t { delivered = 1, lost = 2, resent = 4, ever_resent = 8 };
  struct Sent {
    Time at;
    std::uint32_t length;
    std::uint8_t marks;
    bool has(unsigned any) const { return marks & any; }
  };
  explicit Scoreboard(bool selective) : selective_(selective) {}

  // From now on it lists the segments that are taken for lost, in that order, until forget_list().
  void list_losses() { lists_losses_ = true; }
  const std::vector<std::uint64_t>& losses() const { return losses_; }
  void forget_list() { losses_.clear(); }

  std::uint64_t first() const { return first_; }  // the oldest that is not acknowledged
  std::uint64_t next() const { return next_; }    // the next new one
  std::uint64_t outstanding() const { return next_ - first_; }
  double in_flight() const {
    assert(delivered_ + lost_ <= outstanding() && resent_ <= lost_);
    return static_cast<double>(outstanding() - delivered_ - lost_ + resent_);
  }
  const Sent& operator[](std::uint64_t segment) const { return board_[segment]; }
  // How many segments bear the mark now.
  std::uint64_t delivered_count() const { return delivered_; }
  std::uint64_t lost_count() const { return lost_; }
  std::uint64_t resent_count() const { return resent_; }
  // Counts of the whole connection.
  std::uint64_t ever_lost() const { return ever_lost_; }
  std::uint64_t retransmissions() const { return retransmissions_; }
  // The segment after the highest one that is known to have arrived.
  std::uint64_t highest_delivered() const { return highest_delivered_; }
  // The newest segment from `from` on, below the highest delivered one, that is missing and not taken for lost.
  std::uint64_t newest_hole(std::uint64_t from) {
    while (newest_hole_ > from && board_[newest_hole_].has(delivered | lost)) --newest_hole_;
    return std::max(newest_hole_, from);
  }

  // Sending.
  bool repairs_wait() const { return lost_ > resent_; }
  std::uint64_t send_new(std::uint32_t length, Time now) {
    board_.push({now, length, 0});
    return next_++;
  }
  // Sends the oldest lost segment that has not been sent again, and returns its number.
  std::uint64_t repair(Time now) {
    std::uint64_t segment = std::max(resend_from_, first_);
    while ((board_[segment].marks & (lost | resent)) != lost) ++segment;
    resend_from_ = segment + 1;
    board_[segment].at = now;
    board_[segment].marks |= resent | ever_resent;
    ++resent_;
    ++retransmissions_;
    resent_order_.push({segment, now});
    return segment;
  }
  // Sends the last segment again as a probe; it counts as sent once.
  std::uint64_t repeat_last(Time now) {
    board_[next_ - 1].at = now;
    board_[next_ - 1].marks |= ever_resent;
    ++retransmissions_;
    return next_ - 1;
  }

  // Acknowledgements. `heard(segment, sent)` is called for each segment that is only now known to have arrived.
  struct Cumulative {
    bool ambiguous = false;  // some had been sent again: it is unknown which copy this answers
    double known = 0;        // segments that were counted before, as duplicates came
  };
  template <class Heard>
  Cumulative acknowledge(std::uint64_t to, const Heard& heard) {
    Cumulative found;
    const std::uint64_t count = to - first_;
    for (; first_ < to; ++first_) {
      const Sent& sent = board_.front();
      if (sent.has(delivered))
        --delivered_;
      else
        arrive(first_, sent, heard);
      found.ambiguous |= sent.has(ever_resent);
      board_.pop();
    }
    if (!selective_ && count > 0) {
      const std::uint64_t before = delivered_;
      delivered_ = std::min(before - std::min(before, count - 1), outstanding());
      found.known = static_cast<double>(before - delivered_);
    }
    resend_from_ = std::max(resend_from_, first_);
    highest_delivered_ = std::max(highest_delivered_, first_);
    return found;
  }
  // `segment_at(byte)`: the segment that begins there.
  template <class SegmentAt, class Heard>
  void take_blocks(const Packet& packet, const SegmentAt& segment_at, const Heard& heard) {
    for (int i = 0; i < packet.blocks; ++i) {
      const std::uint64_t start = packet.sequence + packet.selective[i].start;
      const std::uint64_t end = packet.sequence + packet.selective[i].end;
      // What the last acknowledgement already said need not be looked at again.
      std::uint64_t known_start = end, known_end = end;
      for (int j = 0; j < seen_blocks_; ++j) {
        const std::uint64_t from = seen_base_ + seen_[j].start, to = seen_base_ + seen_[j].end;
        if (from >= start && to <= end && to - from > known_end - known_start) known_start = from, known_end = to;
      }
      take_block(segment_at(start), segment_at(known_start), heard);
      take_block(segment_at(known_end), segment_at(end), heard);
    }
    std::copy_n(packet.selective.begin(), packet.blocks, seen_);
    seen_blocks_ = packet.blocks;
    seen_base_ = packet.sequence;
  }

  // Without SACK: a segment has arrived, it is unknown which. False if all segments that are out are accounted for.
  bool count_arrival() {
    if (delivered_ + lost_ >= outstanding()) return false;
    ++delivered_;
    return true;
  }
  void set_arrivals(std::uint64_t count) { delivered_ = count; }

  // Losses.
  void mark_lost(std::uint64_t segment) {
    Sent& sent = board_[segment];
    if (!selective_ && sent.has(lost)) return;
    sent.marks |= lost;
    ++lost_;
    ++ever_lost_;
    list(segment);
    if (!selective_ && delivered_ + lost_ > outstanding()) --delivered_;
    resend_from_ = std::min(resend_from_, segment);
  }
  // After a timeout: all segments are lost that have not arrived, except those that left later than `spared_after` and
  // are not the first. Returns the oldest segment that is spared, next() if none is.
  std::uint64_t lose_all(Time spared_after) {
    lost_ = resent_ = 0;
    std::uint64_t spared = next_;
    for (std::uint64_t segment = first_; segment < next_; ++segment) {
      Sent& sent = board_[segment];
      if (sent.has(delivered)) continue;
      const bool is_under_way = !sent.has(lost) || sent.has(resent);
      if (segment > first_ && sent.at > spared_after && is_under_way) {
        spared = std::min(spared, segment);
        lost_ += sent.has(lost);
        resent_ += sent.has(resent);
      } else {
        sent.marks = static_cast<std::uint8_t>((sent.marks & ever_resent) | lost);
        ++lost_;
        ever_lost_ += is_under_way;
        if (is_under_way) list(segment);
      }
    }
    resend_from_ = first_;
    if (resent_ == 0) resent_order_ = {};
    return spared;
  }
  // Takes back all losses: nothing was lost after all.
  void forget_losses() {
    for (std::uint64_t segment = first_; segment < next_; ++segment)
      board_[segment].marks &= static_cast<std::uint8_t>(delivered | ever_resent);
    lost_ = resent_ = 0;
    resent_order_ = {};
  }

  // Retransmissions in the order in which they left, without those that have arrived.
  struct Resent {
    std::uint64_t segment;
    Time at;
  };
  const Resent* oldest_retransmission() {
    for (; !resent_order_.empty(); resent_order_.pop())
      if (waits(resent_order_.front())) return &resent_order_.front();
    return nullptr;
  }
  // When the newest of the retransmissions left that left before `before`. The oldest one is known to have done so.
  Time newest_retransmission(Time before) const {
    std::uint64_t newest = resent_order_.tail() - 1;
    while (resent_order_[newest].at >= before || !waits(resent_order_[newest])) --newest;
    return resent_order_[newest].at;
  }
  void lose_oldest_retransmission() {
    const std::uint64_t segment = resent_order_.front().segment;
    board_[segment].marks &= static_cast<std::uint8_t>(~resent);
    --resent_;
    ++ever_lost_;
    list(segment);
    resend_from_ = std::min(resend_from_, segment);
  }

 private:
  void list(std::uint64_t segment) {
    if (lists_losses_) losses_.push_back(segment);
  }
  bool waits(const Resent& again) const {
    return again.segment >= first_ && board_[again.segment].has(resent) && board_[again.segment].at == again.at;
  }
  template <class Heard>
  void arrive(std::uint64_t segment, const Sent& sent, const Heard& heard) {
    if (sent.has(lost)) --lost_;
    if (sent.has(resent)) --resent_;
    heard(segment, sent);
  }
  template <class Heard>
  void take_block(std::uint64_t from, std::uint64_t to, const Heard& heard) {
    for (std::uint64_t segment = std::max(from, first_); segment < std::min(to, next_); ++segment) {
      Sent& sent = board_[segment];
      if (sent.has(delivered)) continue;
      arrive(segment, sent, heard);
      sent.marks = static_cast<std::uint8_t>((sent.marks & ever_resent) | delivered);
      ++delivered_;
      if (segment > highest_delivered_) newest_hole_ = segment - 1;
      highest_delivered_ = std::max(highest_delivered_, segment + 1);
    }
  }

  bool selective_, lists_losses_ = false;
  std::vector<std::uint64_t> losses_;
  std::uint64_t first_ = 0, next_ = 0;
  Ring<Sent> board_;  // segments first_ to next_
  std::uint64_t delivered_ = 0, lost_ = 0, resent_ = 0, ever_lost_ = 0, retransmissions_ = 0;
  std::uint64_t highest_delivered_ = 0;
  std::uint64_t newest_hole_ = 0;  // no segment between it and highest_delivered_ is missing
  std::uint64_t resend_from_ = 0;  // no lost segment below waits to be sent again
  Ring<Resent> resent_order_;
  Packet::Block seen_[3] = {};  // the blocks of the last acknowledgement, from seen_base_ on
  std::uint64_t seen_base_ = 0;
  int seen_blocks_ = 0;
};
