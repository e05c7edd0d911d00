// Whether the congestion window is what holds a sender back. As in Linux's tcp_cwnd_validate, once it does, this is
// remembered until a window has been acknowledged. Else the most that was out decides whether slow start may go on. In
// older senders only the time since the last acknowledgement counts.
//
// If data leave although nothing has been acknowledged for a timeout, and the window does not hold them back, then the
// application does (RFC 2861). As in Linux's tcp_cwnd_application_limited, the window then moves half-way to the most
// that was used.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/simulated_time.hpp"
#include "tcp/congestion_control.hpp"
#include "tcp/scoreboard.hpp"

class WindowUsage {
 public:
  explicit WindowUsage(bool of_old) : of_old_(of_old) {}

  // A new segment has left.
  void on_sent(const Scoreboard& board, const CongestionWindow& window, bool fills_window, Time now) {
    if (of_old_) return;
    note(board, fills_window);
    has_sent_ = true;
    if (is_limiting(window, 0))
      start_over(now);
    else
      most_used_ = std::max(most_used_, board.outstanding());
  }
  // The application has nothing more to send for now.
  void on_nothing_left(CongestionWindow& window, double initial_window, Time timeout, Time now) {
    if (!std::exchange(has_sent_, false) || most_used_ == 0 || now - fed_at_ < timeout) return;
    const double used = std::max(static_cast<double>(most_used_), initial_window);
    if (used < window.segments) {
      window.ssthresh = std::max(window.ssthresh, window.three_quarters());
      window.segments = std::floor((window.segments + used) / 2);
    }
    start_over(now);
  }
  void on_acknowledged(Time now) { fed_at_ = now; }
  void start_over(Time now) {
    fed_at_ = now;
    most_used_ = 0;
  }
  // No segment may leave, as the window is full.
  void on_held_back(const Scoreboard& board) { note(board, true); }
  // Whether the window has been full since the last one was acknowledged.
  bool held_back() const { return held_back_; }
  // Whether the window is the limit when an acknowledgement comes. outstanding_before: segments out before it.
  bool is_limiting(const CongestionWindow& window, std::uint64_t outstanding_before) {
    const std::uint64_t out = of_old_ ? outstanding_before : most_out_;
    const bool limiting = held_back_ || (window.in_slow_start() && window.segments < 2 * static_cast<double>(out));
    if (of_old_) held_back_ = false;
    return limiting;
  }

 private:
  void note(const Scoreboard& board, bool held_back) {
    const bool more = !held_back_ && board.outstanding() > most_out_;
    if (!held_back && !more && board.first() < until_) return;
    held_back_ = held_back;
    most_out_ = board.outstanding();
    until_ = board.next();
  }

  bool of_old_, held_back_ = false, has_sent_ = false;
  std::uint64_t most_out_ = 0, until_ = 0, most_used_ = 0;
  Time fed_at_ = 0;  // when last the window was full, or something was acknowledged
};
