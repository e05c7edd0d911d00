// The random numbers by which a queue decides. They come from its stream; where the decisions of another queue are
// replayed, they are given one after the other.
#pragma once
#include <cassert>
#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <utility>

#include "base/random_stream.hpp"

class Draws {
 public:
  using Given = std::shared_ptr<std::deque<std::uint64_t>>;

  Draws(std::uint64_t seed, std::uint64_t stream, Given given) : random_(seed, stream), given_(std::move(given)) {}

  // Uniform on {0, ..., 2^bits - 1}. Throws std::out_of_range where fewer were given.
  std::uint64_t next(int bits) {
    assert(bits > 0 && bits <= 64);
    if (!given_) return random_.next() >> (64 - bits);
    if (given_->empty()) throw std::out_of_range("a queue draws more random numbers than were given");
    const std::uint64_t drawn = given_->front();
    given_->pop_front();
    return drawn;
  }

 private:
  RandomStream random_;
  Given given_;
};
