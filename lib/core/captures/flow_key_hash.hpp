// For tables of flows.
#pragma once
#include <cstddef>
#include <cstdint>

#include "captures/packet_decoder.hpp"

struct FlowKeyHash {
  std::size_t operator()(const FlowKey& key) const {
    uint64_t hash = uint64_t{key.low_port} << 32 | uint64_t{key.high_port} << 16 | key.protocol;
    for (const auto* address : {key.low_address, key.high_address}) {
      for (int word = 0; word < 2; ++word) {
        hash = (hash ^ address[word]) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 32;
      }
    }
    return hash;
  }
};
