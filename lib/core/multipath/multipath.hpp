// One stream of bytes over several TCP connections (MPTCP, RFC 8684): which segment of the stream travels on which
// subflow, as its scheduler says, and in what order the receiver has them. Both ends of the stream are here. One end
// knows of the other only by acknowledge() and receive().
//
// With a send buffer of its own, the writer fills the buffer, sleeps, and wakes when a third of it is free, as in
// Linux.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/ring.hpp"
#include "base/simulated_time.hpp"
#include "multipath/subflow_scheduler.hpp"

class Multipath {
 public:
  static constexpr std::size_t most_subflows = 64;  // a bit each

  // A stream of `bytes` in all. Of those that the receiver does not hold in order, as many may be on their way as its
  // buffer and the sender's hold. Throws std::invalid_argument for no or too many subflows.
  Multipath(std::uint64_t bytes, std::uint32_t segment_bytes, std::uint64_t receive_buffer_bytes,
            std::uint64_t send_buffer_bytes, std::size_t subflows, std::unique_ptr<SubflowScheduler> scheduler)
      : bytes_(bytes),
        segment_bytes_(segment_bytes),
        segments_((bytes + segment_bytes - 1) / segment_bytes),
        window_(std::max<std::uint64_t>(1, receive_buffer_bytes / segment_bytes)),
        send_buffer_(std::clamp<std::uint64_t>(send_buffer_bytes / segment_bytes, 1, segments_)),
        written_(send_buffer_),
        carried_(checked(subflows)),
        scheduler_(std::move(scheduler)),
        chooses_segments_(scheduler_->chooses_segments()),
        penalised_until_(subflows, 0) {}

  const SubflowScheduler& scheduler() const { return *scheduler_; }

  // Sending. The segment that a subflow would carry next.
  std::optional<std::uint64_t> next_for(std::uint32_t subflow) {
    while (!repeats_.empty() && repeats_.front() < first_) repeats_.pop();
    SubflowScheduler::Stream stream{first_, next_, next_ < written_ && next_ - first_ < window_, {}};
    if (!repeats_.empty() && !has_carried(subflow, repeats_.front())) stream.repeats = repeats_.front();
    return chooses_segments_ ? scheduler_->segment_for(subflow, stream) : SubflowScheduler::in_order(stream);
  }
  // Whether the receiver's buffer holds the sender up, or its own buffer, all of which has been sent.
  bool blocked() const { return next_ < segments_ && (next_ == written_ || next_ - first_ >= window_); }
  // As in the authors' kernel: whether the receiver's buffer is full, or nothing has left the sender's since filling.
  bool full() const { return next_ - first_ >= std::min(window_, send_buffer_); }
  std::uint64_t first() const { return first_; }
  // Another subflow that has sent the oldest segment that is not acknowledged, and so blocks this one.
  std::optional<std::uint32_t> blocker(std::uint32_t subflow) const {
    const std::uint64_t others = board_.front() & ~(std::uint64_t{1} << subflow);
    return others ? std::optional(static_cast<std::uint32_t>(std::countr_zero(others))) : std::nullopt;
  }
  bool has_carried(std::uint32_t subflow, std::uint64_t segment) const { return board_[segment] >> subflow & 1; }
  Time& penalised_until(std::uint32_t subflow) { return penalised_until_[subflow]; }

  // Says that the subflow's next segment is this one. Returns its bytes.
  std::uint32_t carry(std::uint32_t subflow, std::uint64_t segment) {
    if (segment == next_) {
      board_.push(0);
      ++next_;
    } else {
      ++repeated_;
      if (!repeats_.empty() && repeats_.front() == segment) repeats_.pop();
    }
    board_[segment] |= std::uint64_t{1} << subflow;
    carried_[subflow].push(segment);
    scheduler_->on_carried(subflow, segment);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(segment_bytes_, bytes_ - segment * segment_bytes_));
  }
  // Offers the other subflows what this one has not got through since its segment `from`.
  void repeat_elsewhere(std::uint32_t subflow, std::uint64_t from) {
    const Ring<std::uint64_t>& carried = carried_[subflow];
    for (std::uint64_t place = std::max(from, carried.head()); place < carried.tail(); ++place)
      if (carried[place] >= first_) repeats_.push(carried[place]);
  }
  void acknowledge(std::uint64_t to) {
    for (; first_ < to; ++first_) board_.pop();
    if (3 * (written_ - first_) <= 2 * send_buffer_) written_ = first_ + std::min(send_buffer_, segments_ - first_);
  }
  // The subflow's own segments below `below` are acknowledged, and are not needed again.
  void forget(std::uint32_t subflow, std::uint64_t below) {
    Ring<std::uint64_t>& carried = carried_[subflow];
    while (carried.head() < below) carried.pop();
  }
  void finish() {
    segments_ = written_ = next_;
    bytes_ = std::min(bytes_, segments_ * segment_bytes_);
  }
  bool all_acknowledged() const { return first_ == segments_; }
  std::uint64_t repeated() const { return repeated_; }

  // Receiving.
  void receive(std::uint32_t subflow, std::uint64_t subflow_segment) {
    const Ring<std::uint64_t>& carried = carried_[subflow];
    if (subflow_segment < carried.head()) return;  // a copy of what was acknowledged
    const std::uint64_t segment = carried[subflow_segment];
    if (segment < arrived_.head()) return;
    while (arrived_.tail() <= segment) arrived_.push(0);
    arrived_[segment] = 1;
    while (!arrived_.empty() && arrived_.front()) arrived_.pop();
  }
  std::uint64_t in_order() const { return arrived_.head(); }
  std::uint64_t delivered_bytes() const { return std::min(bytes_, in_order() * segment_bytes_); }
  bool all_arrived() const { return in_order() == segments_; }

 private:
  static std::size_t checked(std::size_t subflows) {
    if (subflows < 1 || subflows > most_subflows)
      throw std::invalid_argument(std::to_string(subflows) + " subflows of a flow");
    return subflows;
  }

  std::uint64_t bytes_;
  std::uint32_t segment_bytes_;
  std::uint64_t segments_, window_, send_buffer_, written_;
  std::uint64_t first_ = 0, next_ = 0;
  Ring<std::uint64_t> board_;                 // by segment, first_ to next_: which subflows have carried it, a bit each
  Ring<std::uint64_t> repeats_;               // segments that another subflow should carry as well
  std::vector<Ring<std::uint64_t>> carried_;  // by subflow and its own number: the segment of the stream
  std::unique_ptr<SubflowScheduler> scheduler_;
  bool chooses_segments_;
  std::vector<Time> penalised_until_;
  std::uint64_t repeated_ = 0;
  Ring<std::uint8_t> arrived_;  // from the first missing segment on
};
