// Undoes a reduction that proves needless: by time stamps (Eifel, RFC 3522) or by what arrived twice (DSACK, RFC 3708).
// This class keeps what the last reduction goes back to, and how many retransmissions are still unexplained. The sender
// asks it, and changes its window by the answer.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>

#include "base/simulated_time.hpp"
#include "tcp/segment_boundaries.hpp"

class ReductionUndo {
 public:
  struct Former {
    double window, ssthresh;
  };

  // Called before the window or ssthresh changes. `first`: the oldest segment outstanding; `under_way`:
  // retransmissions. An ssthresh of 0: the reduction is right in any case, as a mark asked for it.
  void prepare(std::uint64_t first, Former former, std::uint64_t under_way) {
    possible_ = true;
    first_ = first;
    former_ = former;
    unanswered_.reset();
    if (under_way > 0) unanswered_ = under_way;
  }
  void forget() {
    possible_ = false;
    former_ = {0, 0};
    unanswered_.reset();
  }
  void keep_reduction() { former_.ssthresh = 0; }

  void on_resent(Time now) {
    if (first_resent_at_ == never) first_resent_at_ = now;
    unanswered_ = unanswered_.value_or(0) + 1;
  }
  void on_all_well() { first_resent_at_ = never; }
  // Data that ends at this byte has arrived twice.
  void on_duplicate(std::uint64_t end, const SegmentBoundaries& boundaries) {
    if (possible_ && end > boundaries.start(first_) && unanswered_.value_or(0) > 0) --*unanswered_;
  }

  bool possible() const { return possible_; }
  // All segments that were sent again have arrived twice.
  bool all_needless() const { return unanswered_ == 0; }
  // Whether the acknowledged segment left before any retransmission. Within the same millisecond this is not known.
  bool original_arrived(std::uint32_t stamp_ms) const {
    return first_resent_at_ == never || stamp_ms < stamp_of(first_resent_at_);
  }
  bool justified(std::uint32_t stamp_ms) const { return possible_ && (all_needless() || original_arrived(stamp_ms)); }
  Former take() {
    possible_ = false;
    return former_;
  }

 private:
  bool possible_ = false;
  std::uint64_t first_ = 0;
  Former former_{0, 0};
  std::optional<std::uint64_t> unanswered_;  // sent again since, not known to have arrived twice; none: none was
  Time first_resent_at_ = never;             // since all was last well
};
