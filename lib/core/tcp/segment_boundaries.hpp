// Where a connection's segments end: one full segment after the other, or at places that nobody can predict (a remedy
// of Savage et al., CCR 1999, for acknowledgements of data that have not come). In the latter case boundary n lies at n
// steps and up to `spread` bytes, drawn from the key and n alone. So nothing is stored, and every boundary is equally
// hard to guess. Segments are between full - 2 spread and full bytes long.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "base/random_stream.hpp"

class SegmentBoundaries {
 public:
  SegmentBoundaries(std::uint32_t full_bytes, std::uint32_t spread_bytes, std::uint64_t key)
      : step_(full_bytes - spread_bytes), spread_(spread_bytes), key_(key) {
    assert(4 * std::uint64_t{spread_bytes} < full_bytes);
  }

  // The first byte of a segment.
  std::uint64_t start(std::uint64_t segment) const { return segment * step_ + offset(segment); }
  // The segment that a byte belongs to.
  std::uint64_t holding(std::uint64_t byte) const {
    const std::uint64_t segment = byte / step_;
    return spread_ > 0 && start(segment) > byte ? segment - 1 : segment;
  }
  // How many segments so many bytes take.
  std::uint64_t count(std::uint64_t bytes) const { return bytes == 0 ? 0 : holding(bytes - 1) + 1; }
  std::uint32_t length(std::uint64_t segment) const {
    return static_cast<std::uint32_t>(start(segment + 1) - start(segment));
  }
  // Whether an acknowledgement may end here. With equal segments it may at any byte: receivers may acknowledge parts.
  bool allow(std::uint64_t byte) const { return spread_ == 0 || start(holding(byte)) == byte; }

 private:
  std::uint64_t offset(std::uint64_t segment) const {
    return spread_ == 0 || segment == 0 ? 0 : RandomStream(key_, segment).below(std::size_t{spread_} + 1);
  }

  std::uint64_t step_;
  std::uint32_t spread_;
  std::uint64_t key_;
};
