// The tail loss probe (RFC 8985, section 7): one at a time, answered when all that was out with it is acknowledged.
// This class knows whether one is due or out, and what its answer shows; the timer is the sender's.
#pragma once
#include <cstdint>
#include <utility>

class TailLossProbe {
 public:
  void fall_due() {
    due_ = true;
    resent_ = false;
  }
  bool due() const { return due_; }
  bool take_due() { return std::exchange(due_, false); }
  void cancel() { out_ = due_ = false; }
  void forget() { out_ = false; }  // its answer no longer shows anything

  // A probe has left: all below segment `end` is out. Before that, on_resent() says that it had been sent before.
  void on_resent() { resent_ = true; }
  void on_sent(std::uint64_t end) {
    out_ = true;
    end_ = end;
  }
  bool out() const { return out_; }
  bool is_resent() const { return out_ && resent_; }
  std::uint64_t end() const { return end_; }

  // All segments below `first` are acknowledged. arrived_twice: the probe did, or an acknowledgement has come that says
  // nothing new. True if the probe itself repaired a loss.
  bool take_answer(std::uint64_t first, bool arrived_twice) {
    if (!out_ || first < end_) return false;
    if (!resent_ || arrived_twice) {
      out_ = false;  // it was new, or its original had arrived: nothing was lost
    } else if (first > end_) {
      out_ = false;
      return true;
    }
    return false;
  }

 private:
  bool due_ = false, out_ = false, resent_ = false;
  std::uint64_t end_ = 0;
};
