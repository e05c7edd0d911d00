// Virtual time: whole picoseconds, so that sums are exact and a run is the same on every machine.
#pragma once
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

using Time = std::int64_t;

constexpr Time never = std::numeric_limits<Time>::max();
constexpr Time picoseconds_per_second = 1'000'000'000'000;

// TCP's time stamps, as Linux counts them.
inline std::uint32_t stamp_of(Time time) { return static_cast<std::uint32_t>(time / (picoseconds_per_second / 1000)); }

// The longest time that an experiment may describe. Twice as much still fits into a Time.
constexpr double longest_seconds = 4e6;

// Throws std::invalid_argument for NaN, a negative number, or more than longest_seconds.
inline Time from_seconds(double seconds) {
  if (!(seconds >= 0 && seconds <= longest_seconds))
    throw std::invalid_argument("a time of " + std::to_string(seconds) + " s");
  return static_cast<Time>(seconds * static_cast<double>(picoseconds_per_second) + 0.5);
}
inline double to_seconds(Time time) { return static_cast<double>(time) / static_cast<double>(picoseconds_per_second); }
