// The congestion bits of an IPv4 packet in an Ethernet frame (RFC 3168).
#pragma once
#include <cstddef>
#include <cstdint>

namespace ecn_bits {

constexpr std::size_t ethernet_bytes = 14, type_of_service = ethernet_bytes + 1, checksum = ethernet_bytes + 10;

inline bool is_ipv4(const unsigned char* frame, std::size_t size) {
  return size >= ethernet_bytes + 20 && frame[12] == 0x08 && frame[13] == 0x00;
}

inline bool capable(const unsigned char* frame, std::size_t size) {
  return is_ipv4(frame, size) && (frame[type_of_service] & 3) != 0;
}

// Sets Congestion Experienced, and corrects the checksum by the difference (RFC 1624, eqn. 3).
inline void mark(unsigned char* frame) {
  const std::uint32_t before = frame[type_of_service], after = before | 3;
  frame[type_of_service] = static_cast<unsigned char>(after);
  std::uint32_t sum = static_cast<std::uint32_t>(frame[checksum]) << 8 | frame[checksum + 1];
  sum = (~sum & 0xFFFF) + (~before & 0xFFFF) + after;  // the byte is the low one of its 16-bit word
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = ~sum & 0xFFFF;
  frame[checksum] = static_cast<unsigned char>(sum >> 8);
  frame[checksum + 1] = static_cast<unsigned char>(sum);
}

}  // namespace ecn_bits
