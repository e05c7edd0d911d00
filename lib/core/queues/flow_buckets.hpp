// Puts the flows of a fair queue into buckets. A hash chooses a flow's bucket, which is the same for its whole life.
#pragma once
#include <cstdint>

#include "base/random_stream.hpp"

class FlowBuckets {
 public:
  FlowBuckets(std::uint32_t buckets, std::uint64_t seed, std::uint64_t stream)
      : buckets_(buckets), perturbation_(RandomStream(seed, stream).next()) {}

  std::uint32_t of(std::uint32_t flow) const {
    std::uint64_t z = (flow ^ perturbation_) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<std::uint32_t>((z ^ (z >> 31)) % buckets_);
  }
  std::uint32_t count() const { return buckets_; }

 private:
  std::uint32_t buckets_;
  std::uint64_t perturbation_;
};
