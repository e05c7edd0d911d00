// A packet in the simulator: where it goes, what it weighs, and the fields of TCP that somebody reads.
#pragma once
#include <array>
#include <cstdint>

struct alignas(64) Packet {                          // a line of a processor's cache
  static constexpr std::uint32_t header_bytes = 66;  // Ethernet 14, IPv4 20, TCP 32 with timestamps; IPv6 has 20 more
  static constexpr std::uint32_t syn_options_bytes = 8;  // beside timestamps

  enum Flag : std::uint16_t {
    acknowledgement = 1,
    synchronise = 2,
    ecn_capable = 4,
    congestion_experienced = 8,
    congestion_echo = 16,            // ECE
    congestion_window_reduced = 32,  // CWR
    duplicate_seen = 64,             // DSACK: what arrived was there already
    reset = 128,                     // RST
    posted = 256,                    // a datagram of a program
    unproven = 512,                  // acknowledgement: the receiver lacks nonces of what it acknowledges
    ect_1 = 1024,                    // ecn_capable, with the code point of L4S (RFC 9331)
    asks_rate = 2048,                // of links with RCP
    asks_feedback = 4096             // of links with XCP
  };
  struct Block {
    std::uint32_t start, end;  // bytes from the cumulative acknowledgement on
  };

  std::uint64_t sequence;  // data: the first byte; acknowledgement: the next byte expected
  std::uint32_t hop;       // place of the current link in the path table
  std::uint32_t flow;
  std::uint32_t wire_bytes;
  union {
    std::uint32_t length;        // data: payload
    std::int32_t duplicate_end;  // DSACK: the end of what came twice, counted from the cumulative acknowledgement
  };
  std::uint16_t flags;
  std::uint8_t blocks;
  std::uint8_t ace;                 // AE, CWR and ECE of a handshake, and with AccECN of acknowledgements
  std::array<Block, 3> selective;   // SACK, the most recent first
  std::uint32_t stream_in_order;    // acknowledgement on a subflow: segments of the stream held in order
  std::uint32_t stamp_ms, echo_ms;  // when it was sent, and the stamp that it echoes (RFC 7323, section 4.3)

  bool has(Flag flag) const { return flags & flag; }
};
