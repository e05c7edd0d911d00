// The earliest of many sources, each with one pending event at most: a tournament in which a change replays only the
// matches on the way to the root. Events of one time come out in the order in which they were set.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/simulated_time.hpp"

class WinnerTree {
 public:
  explicit WinnerTree(std::size_t sources) : leaves_(std::bit_ceil(sources)), keys_(2 * leaves_, none) {
    if (sources >= (std::size_t{1} << source_bits)) throw std::invalid_argument("too many event sources");
  }

  // The source's next event is at `time`; never takes it away.
  void set(std::uint32_t source, Time time) {
    Key key = time == never ? none : Key(static_cast<std::uint64_t>(time)) << 64 | sequence_++ << source_bits | source;
    std::size_t place = leaves_ + source;
    const bool was_none = keys_[place] == none;
    keys_[place] = key;
    if (was_none) {  // nobody waits for this source's old event: it wins until it meets an earlier one
      while (place > 1 && key < keys_[place >>= 1]) keys_[place] = key;
      return;
    }
    while (place > 1) {
      const Key rival = keys_[place ^ 1];
      key = rival < key ? rival : key;
      keys_[place >>= 1] = key;
    }
  }

  Time time() const { return static_cast<Time>(keys_[1] >> 64); }  // beyond every real time when nothing is pending
  std::uint32_t source() const { return static_cast<std::uint32_t>(keys_[1]) & ((1u << source_bits) - 1); }

 private:
  using Key = unsigned __int128;  // time 64, order of setting 40, source 24
  static constexpr unsigned source_bits = 24;
  static constexpr Key none = Key(static_cast<std::uint64_t>(never)) << 64 | ~std::uint64_t{0};

  std::size_t leaves_;
  std::uint64_t sequence_ = 0;
  std::vector<Key> keys_;
};
