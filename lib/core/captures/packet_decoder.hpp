#pragma once
#include <cstdint>

#include "captures/capture_reader.hpp"

// Two end points and a protocol, whichever end sent: the lower end point comes first.
struct FlowKey {
  uint64_t low_address[2], high_address[2];  // IPv4 in the second word
  uint16_t low_port, high_port;
  uint8_t protocol, ip_version;
  bool operator==(const FlowKey&) const = default;
};

// What a flow meter needs of one packet.
struct DecodedPacket {
  FlowKey key;
  bool from_low;             // sent by the key's lower end point
  uint32_t ip_bytes;         // IPv4 total length; IPv6 payload length + 40
  uint32_t ip_header_bytes;  // IPv6: with its extension headers
  uint32_t transport_header_bytes;
  uint8_t tcp_flags;

  bool has_payload() const { return ip_bytes > ip_header_bytes + transport_header_bytes; }
};

inline constexpr uint8_t kIcmp = 1, kTcp = 6, kUdp = 17, kSctp = 132;
inline constexpr uint8_t kFin = 0x01, kSyn = 0x02, kReset = 0x04, kPush = 0x08, kAcknowledge = 0x10, kUrgent = 0x20;

// From a captured record to addresses, ports, lengths and flags; counts what it meets.
// Link types: Ethernet with VLAN tags and 802.1ad, Linux cooked v1 and v2, raw IP, null and loopback.
class PacketDecoder {
 public:
  explicit PacketDecoder(CaptureCounts& counts) : counts_(counts) {}

  // False where the packet cannot belong to a flow; the reason has then been counted.
  bool decode(const CapturedPacket& packet, DecodedPacket& decoded);

 private:
  bool decode_ipv4(const uint8_t* bytes, uint32_t captured, uint32_t wire, DecodedPacket& decoded);
  bool decode_ipv6(const uint8_t* bytes, uint32_t captured, uint32_t wire, DecodedPacket& decoded);
  bool decode_transport(const uint8_t* bytes, uint32_t captured, DecodedPacket& decoded);
  uint32_t ip_bytes_or_wire(uint32_t ip_bytes, bool absent, uint32_t wire);

  CaptureCounts& counts_;
};
