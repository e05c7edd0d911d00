// Finds the earliest event of many sources, each of which has at most one pending event. It is a tournament: a change
// replays only the matches on the way to the root. Events of one time come out in the order in which they were set, or
// in that of their sources.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/simulated_time.hpp"

class WinnerTree {
 public:
  explicit WinnerTree(std::size_t sources)
      : leaves_(std::bit_ceil(sources)), times_(2 * leaves_, never), winners_(2 * leaves_, 0), orders_(leaves_, 0) {
    if (sources > most_sources) throw std::invalid_argument("too many event sources");
    for (std::size_t place = 2 * leaves_; --place > 0;)
      winners_[place] = place >= leaves_ ? static_cast<std::uint32_t>(place - leaves_) : winners_[2 * place];
  }

  void order_by_source() { by_source_ = true; }  // before anything is set

  // Sets the source's next event to `time`; the time `never` removes it.
  void set(std::uint32_t source, Time time) {
    std::size_t place = leaves_ + source;
    const bool was_none = times_[place] == never;
    times_[place] = time;
    orders_[source] = by_source_ ? source : ++sequence_;
    if (was_none) {  // this source had no event, so the new one wins until it meets an earlier one
      while (place > 1 &&
             (time < times_[place >>= 1] || (time == times_[place] && comes_before(winners_[place], source)))) {
        times_[place] = time;
        winners_[place] = source;
      }
      return;
    }
    std::uint32_t winner = source;
    while (place > 1) {
      const Time rival_time = times_[place ^ 1];
      const std::uint32_t rival = winners_[place ^ 1];
      bool loses = rival_time < time;
      if (rival_time == time) [[unlikely]]
        loses = orders_[rival] < orders_[winner];
      time = loses ? rival_time : time;
      winner = loses ? rival : winner;
      place >>= 1;
      times_[place] = time;
      winners_[place] = winner;
    }
  }

  Time time() const { return times_[1]; }  // never when nothing is pending
  std::uint32_t source() const { return winners_[1]; }

 private:
  // Whether `source`, set just now, comes before an older event of the same time: never in the order of setting.
  bool comes_before(std::uint32_t older, std::uint32_t source) const { return by_source_ && source < older; }

  static constexpr std::size_t most_sources = std::size_t{1} << 24;

  std::size_t leaves_;
  bool by_source_ = false;
  std::uint64_t sequence_ = 0;
  // By place: the root is 1, the matches below n are 2n and 2n + 1, the leaves are the sources.
  std::vector<Time> times_;
  std::vector<std::uint32_t> winners_;
  std::vector<std::uint64_t> orders_;  // by source: when it was set
};
