// The interface of a scheduler of subflows: which subflow is asked first, and which segment of the stream a subflow
// with room for a new one carries. A subflow whose window, pace or port leaves no room is not asked.
//
// To add a scheduler, derive from SubflowScheduler in a file of its own, and name it in subflow_schedulers.cpp.
// README.md shows one.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/simulated_time.hpp"

class SubflowScheduler {
 public:
  struct Subflow {
    std::uint32_t place;  // among those of the flow
    Time round_trip;      // smoothed, 0 while unknown
  };
  // Segments of the stream are numbered from 0.
  struct Stream {
    std::uint64_t first, next;             // the oldest that is not acknowledged, the next new one
    bool may_grow;                         // there is a new one, and the shared receive window takes it
    std::optional<std::uint64_t> repeats;  // one that another subflow is silent about, and this one has not carried
  };

  virtual ~SubflowScheduler() = default;
  virtual void order(std::vector<Subflow>& subflows) const = 0;
  // Whether each subflow sends one segment a turn; else each sends all that it can before the next is asked.
  virtual bool takes_turns() const = 0;
  // Whether segment_for is called, at some cost a packet. Else segments to be repeated come first, then new ones.
  virtual bool chooses_segments() const { return false; }
  virtual std::optional<std::uint64_t> segment_for(std::uint32_t /*subflow*/, const Stream& stream) const {
    return in_order(stream);
  }
  static std::optional<std::uint64_t> in_order(const Stream& stream) {
    if (stream.repeats) return stream.repeats;
    return stream.may_grow ? std::optional(stream.next) : std::nullopt;
  }
  virtual void on_carried(std::uint32_t /*subflow*/, std::uint64_t /*segment*/) {}
};
