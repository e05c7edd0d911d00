#pragma once
#include <cstdint>
#include <set>

#include "captures/capture_reader.hpp"

// Two end points and a protocol. The lower end point comes first, so that both directions have one key.
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

// Decodes a captured record into addresses, ports, lengths and flags; counts what it meets.
// Link types: Ethernet, Linux cooked v1 and v2, raw IP, null and loopback. Between link and IP, in any order: VLAN tags
// (802.1Q, 802.1ad), LLC with SNAP (RFC 1042), PPPoE sessions (RFC 2516), MPLS labels (RFC 3032). The first four bits
// after the last label tell what follows: IPv4, IPv6, or a pseudowire's control word (RFC 4385). The latter is taken
// for Ethernet (RFC 4448) only where an Ethernet header with a known type follows.
class PacketDecoder {
 public:
  explicit PacketDecoder(CaptureCounts& counts) : counts_(counts) {}

  // Returns false where the packet cannot belong to a flow, and counts the reason.
  bool decode(const CapturedPacket& packet, DecodedPacket& decoded);
  const std::set<uint32_t>& unsupported_links() const { return unsupported_links_; }

 private:
  // Moves `header` past all headers between link and IP; ether_type is then IPv4 or IPv6. Returns false as above.
  bool unwrap(const uint8_t* bytes, uint32_t captured, uint32_t& header, uint32_t& ether_type);
  bool leave_out(uint64_t& kind);  // counts the packet as not IP
  bool decode_ipv4(const uint8_t* bytes, uint32_t captured, uint32_t wire, DecodedPacket& decoded);
  bool decode_ipv6(const uint8_t* bytes, uint32_t captured, uint32_t wire, DecodedPacket& decoded);
  bool decode_transport(const uint8_t* bytes, uint32_t captured, DecodedPacket& decoded);
  uint32_t ip_bytes_or_wire(uint32_t ip_bytes, bool absent, uint32_t wire);

  CaptureCounts& counts_;
  std::set<uint32_t> unsupported_links_;
};
