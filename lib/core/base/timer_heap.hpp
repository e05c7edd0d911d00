// A heap of timers by time, with four children a node. Timers of one time come in the order in which they were set, or
// in that of their kinds and owners. The unit of time is the caller's: picoseconds in the simulator and Dummynet,
// nanoseconds in real traffic.
#pragma once
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

class TimerHeap {
 public:
  struct Timer {
    std::int64_t time;
    std::uint64_t order;
    std::uint32_t kind, owner;
    bool operator<(const Timer& other) const { return time != other.time ? time < other.time : order < other.order; }
  };

  void order_by_owner() { by_owner_ = true; }  // before anything is set

  std::int64_t time() const {
    return timers_.empty() ? std::numeric_limits<std::int64_t>::max() : timers_.front().time;
  }

  const Timer& first() const { return timers_.front(); }

  void set(std::int64_t time, std::uint32_t kind, std::uint32_t owner) {
    Timer timer{time, by_owner_ ? std::uint64_t{kind} << 32 | owner : order_++, kind, owner};
    std::size_t place = timers_.size();
    timers_.push_back(timer);
    while (place > 0 && timer < timers_[(place - 1) / 4]) {
      timers_[place] = timers_[(place - 1) / 4];
      place = (place - 1) / 4;
    }
    timers_[place] = timer;
  }

  Timer take() {
    assert(!timers_.empty());
    const Timer first = timers_.front(), last = timers_.back();
    timers_.pop_back();
    const std::size_t size = timers_.size();
    if (size == 0) return first;
    std::size_t place = 0;
    for (;;) {
      const std::size_t child = 4 * place + 1;
      if (child >= size) break;
      std::size_t best = child;
      for (std::size_t i = child + 1; i < std::min(child + 4, size); ++i)
        if (timers_[i] < timers_[best]) best = i;
      if (!(timers_[best] < last)) break;
      timers_[place] = timers_[best];
      place = best;
    }
    timers_[place] = last;
    return first;
  }

 private:
  std::vector<Timer> timers_;
  std::uint64_t order_ = 0;
  bool by_owner_ = false;
};
