// All packets in one array. Freed places are used again, so that memory follows the number of packets in flight.
#pragma once
#include <cassert>
#include <cstdint>
#include <vector>

#include "network/packet.hpp"

class PacketSlab {
 public:
  std::uint32_t take() {
    ++alive_;
    if (free_.empty()) {
      packets_.emplace_back();
      return static_cast<std::uint32_t>(packets_.size() - 1);
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    return place;
  }
  void give_back(std::uint32_t place) {
    assert(alive_ > 0 && place < packets_.size());
    --alive_;
    free_.push_back(place);
  }
  Packet& operator[](std::uint32_t place) { return packets_[place]; }
  void fetch(std::uint32_t place) const { __builtin_prefetch(&packets_[place]); }  // into the cache
  std::uint64_t alive() const { return alive_; }

 private:
  std::vector<Packet> packets_;
  std::vector<std::uint32_t> free_;
  std::uint64_t alive_ = 0;
};
