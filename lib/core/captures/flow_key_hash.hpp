// The hash of a flow's key, for tables of flows.
#pragma once
#include <cstdint>

#include "captures/packet_decoder.hpp"

// The products do not wait for one another; the last steps mix the upper bits into the lower ones.
inline uint32_t hash_of(const FlowKey& key) {
  const uint64_t ends =
      uint64_t{key.low_port} << 32 | uint64_t{key.high_port} << 16 | uint64_t{key.protocol} << 8 | key.ip_version;
  uint64_t hash = ends * 0x9E3779B97F4A7C15 + key.low_address[0] * 0xBF58476D1CE4E5B9 +
                  key.low_address[1] * 0x94D049BB133111EB + key.high_address[0] * 0xD6E8FEB86659FD93 +
                  key.high_address[1] * 0xA0761D6478BD642F;
  hash = (hash ^ hash >> 32) * 0xE7037ED1A0B428DB;
  return static_cast<uint32_t>(hash >> 32);
}
