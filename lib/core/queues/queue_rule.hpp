// What every queue rule is told and what it answers. A rule decides; its caller keeps the packets.
//
// A rule has two members. They get the time as an argument, in the unit of the rule's parameters, whichever that is:
//   Verdict arrival(const Backlog& waiting, const PacketFacts& packet, Time now);    a packet wants to join
//   Verdict departure(const Backlog& left, Time waited, const PacketFacts& packet, Time now);   one is next to be sent
// and a constant decides_at_departure. Where it is false, departure always accepts and need not be called, so that a
// link can work out at arrival when each packet will leave. A packet that is being sent no longer waits. A rule that
// knows how long packets take to send also has stretch(double factor); it is called when they take so many times as
// long.
#pragma once
#include <cstdint>

#include "base/simulated_time.hpp"

constexpr std::uint64_t full_packet_bytes = 1514;  // of Ethernet, with its header

enum class Verdict : std::uint8_t { accept, mark, drop };  // mark: accept, and set Congestion Experienced

struct Backlog {
  std::uint64_t packets, bytes;
  Time idle_since;  // when the link last finished sending; while it is busy, when it will have sent what it has so far
                    // (a link that decides at departure: the packet being sent)
};

struct PacketFacts {
  std::uint32_t bytes;
  bool ecn_capable;
  bool ect_1 = false;  // with the code point of L4S (RFC 9331)
};
