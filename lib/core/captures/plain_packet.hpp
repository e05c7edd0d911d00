#pragma once
#include <algorithm>
#include <cstdint>

#include "captures/packet_decoder.hpp"

// Decodes the most common packet in a third of the time: TCP or UDP in IPv4 without options or fragments, in an
// Ethernet frame without tags, with nothing to count. Returns false for any other packet, which PacketDecoder decodes.
inline bool decode_plain(const CapturedPacket& packet, DecodedPacket& decoded) {
  constexpr uint32_t ethernet = 1, ethernet_bytes = 14, ip_bytes = 20, least_tcp_bytes = 20, udp_bytes = 8;
  const uint8_t* const ip = packet.bytes + ethernet_bytes;
  const uint8_t* const transport = ip + ip_bytes;
  const auto big16 = [](const uint8_t* at) { return static_cast<uint32_t>(at[0] << 8 | at[1]); };
  const auto end_point = [&](const uint8_t* address, const uint8_t* port) {
    return uint64_t{big16(address)} << 32 | uint64_t{big16(address + 2)} << 16 | big16(port);
  };

  if (packet.link_type != ethernet || packet.captured_bytes < ethernet_bytes + ip_bytes + least_tcp_bytes) return false;
  if (big16(packet.bytes + 12) != 0x0800 || ip[0] != 0x45 || (big16(ip + 6) & 0x3FFF) != 0) return false;
  const uint32_t total = big16(ip + 2);
  if (total < ip_bytes || packet.wire_bytes < ethernet_bytes + total) return false;
  const uint8_t protocol = ip[9];
  uint32_t header = udp_bytes;
  uint8_t flags = 0;
  if (protocol == kTcp) {
    header = (transport[12] >> 4) * 4u;
    flags = transport[13];
    if (header < least_tcp_bytes) return false;
  } else if (protocol != kUdp || big16(transport + 4) < udp_bytes) {
    return false;
  }

  const uint64_t from = end_point(ip + 12, transport), to = end_point(ip + 16, transport + 2);
  const uint64_t low = std::min(from, to), high = std::max(from, to);
  decoded.key = {{0, low >> 16},
                 {0, high >> 16},
                 static_cast<uint16_t>(low & 0xFFFF),
                 static_cast<uint16_t>(high & 0xFFFF),
                 protocol,
                 4};
  decoded.from_low = from <= to;
  decoded.ip_bytes = total;
  decoded.ip_header_bytes = ip_bytes;
  decoded.transport_header_bytes = header;
  decoded.tcp_flags = flags;
  return true;
}
