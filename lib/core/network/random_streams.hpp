// The purposes for which a simulation draws random numbers. There is a stream for each purpose and each link, flow or
// connection, so that what one draws changes nothing for the others.
#pragma once
#include <cstdint>

#include "base/random_stream.hpp"

class RandomStreams {
 public:
  enum Purpose : std::uint64_t {  // the order is fixed: the numbers are part of what a seed means
    losses,
    jitters,
    skews,
    red_decisions,
    datagram_gaps,
    path_choice,
    reorderings,
    pie_decisions,
    spraying,
    control_choices,
    answer_delays,
    segment_ends,
    host_delays
  };

  explicit RandomStreams(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t seed() const { return seed_; }
  static std::uint64_t number(Purpose purpose, std::uint64_t owner) {
    return (static_cast<std::uint64_t>(purpose) << 40) + owner;
  }
  RandomStream stream(Purpose purpose, std::uint64_t owner) const { return {seed_, number(purpose, owner)}; }

 private:
  std::uint64_t seed_;
};
