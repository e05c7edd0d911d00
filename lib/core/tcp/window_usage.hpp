// Whether the congestion window is what holds a sender back. As in Linux's tcp_cwnd_validate, once it does that is
// remembered until a window has been acknowledged; else the most that was out tells whether slow start may go on. Of
// old only the time since the last acknowledgement counts.
#pragma once
#include <cstdint>

#include "tcp/congestion_control.hpp"
#include "tcp/scoreboard.hpp"

class WindowUsage {
 public:
  explicit WindowUsage(bool of_old) : of_old_(of_old) {}

  // A new segment has left.
  void on_sent(const Scoreboard& board, bool fills_window) {
    if (!of_old_) note(board, fills_window);
  }
  // None may leave while the window is full.
  void on_held_back(const Scoreboard& board) { note(board, true); }
  // An acknowledgement comes, before which so many were out.
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

  bool of_old_, held_back_ = false;
  std::uint64_t most_out_ = 0, until_ = 0;
};
