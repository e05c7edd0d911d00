// A stream of random numbers: xoshiro256++ (Blackman and Vigna 2021), seeded through splitmix64.
// Equal (seed, stream) give equal numbers on every machine; different streams of one seed are independent.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/exponential_table.hpp"

class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t stream) {
    // The multiplier is not splitmix64's own step: with that, stream s would be stream 0 shifted by s words.
    std::uint64_t mixer = splitmix64(seed) + stream * 0xD1342543DE82EF95u;
    for (std::uint64_t& word : state_) word = splitmix64(mixer);
  }

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform on [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Uniform on {0, ..., count - 1}.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(uniform() * static_cast<double>(count)); }

  // Bell-shaped, with mean 0 and standard deviation 1: a sum of four uniform numbers, within +-2 sqrt(3).
  double bell() {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += uniform();
    return (sum - 2) * 1.7320508075688772;
  }

  // Exponential with mean 1. About 98.9 % of calls need one draw: low 8 bits name the layer, high 53 the place in it.
  double exponential() {
    double offset = 0;
    for (;;) {
      const std::uint64_t bits = next();
      const std::size_t layer = bits & 255;
      const double x = static_cast<double>(bits >> 11) * exponential_table.step[layer];
      if (x < exponential_table.edge[layer + 1]) return offset + x;
      if (layer == 0) {
        offset += ExponentialTable::tail_start;  // what lies beyond the edge is exponential again
        continue;
      }
      const double low = exponential_table.height[layer], high = exponential_table.height[layer + 1];
      if (low + uniform() * (high - low) < std::exp(-x)) return offset + x;
    }
  }

 private:
  static std::uint64_t splitmix64(std::uint64_t& state) {
    std::uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  std::array<std::uint64_t, 4> state_{};
};
