// Where a host's packets enter the network. As with TCP small queues, a sender waits while its own port has enough
// packets, and never overflows it. Senders that wait take turns.
#pragma once
#include <cstdint>

#include "base/ring.hpp"
#include "base/simulated_time.hpp"

struct HostPort {
  std::uint64_t room, burst_bytes;
  Ring<std::uint32_t> waiting;  // connections that would send if fewer packets waited
  Time timer = never;           // the one that is set
};
