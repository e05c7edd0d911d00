#include "captures/packet_decoder.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace {

constexpr uint32_t kNull = 0, kEthernet = 1, kRawA = 12, kRawB = 14, kRaw = 101, kLoop = 108, kCooked = 113,
                   kRawIpv4 = 228, kRawIpv6 = 229, kCookedV2 = 276;
constexpr uint32_t kEtherIpv4 = 0x0800, kEtherIpv6 = 0x86DD, kEtherMpls = 0x8847, kEtherMplsUpstream = 0x8848,
                   kEtherPppoeDiscovery = 0x8863, kEtherPppoeSession = 0x8864, kEtherLlc = 0x8870;
constexpr uint32_t kLeastEtherType = 0x0600;  // below it, the field is the length of an IEEE 802.2 frame

uint32_t big16(const uint8_t* bytes) { return static_cast<uint32_t>(bytes[0] << 8 | bytes[1]); }

uint64_t big64(const uint8_t* bytes) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | bytes[i];
  return value;
}

bool is_vlan(uint32_t ether_type) { return ether_type == 0x8100 || ether_type == 0x88A8 || ether_type == 0x9100; }

// Ether types of TRILL, MACsec, backbone bridging, VN-tag, E-tag, NSH, fabric path.
bool is_encapsulation(uint32_t ether_type) {
  constexpr uint32_t known[] = {0x22F3, 0x88E5, 0x88E7, 0x8926, 0x893F, 0x894F, 0x8903};
  return std::find(std::begin(known), std::end(known), ether_type) != std::end(known);
}

// Returns 0 for a protocol that is not decoded.
uint32_t ether_type_of_ppp(uint32_t protocol) {
  if (protocol == 0x0021) return kEtherIpv4;
  if (protocol == 0x0057) return kEtherIpv6;
  return protocol == 0x0281 || protocol == 0x0283 ? kEtherMpls : 0;
}

// Whether a control word without flags and fragments starts here, followed by an Ethernet header of a decoded type.
bool is_ethernet_pseudowire(const uint8_t* bytes, uint32_t captured) {
  if (captured < 18 || bytes[0] != 0 || (bytes[1] & 0xC0) != 0) return false;
  const uint32_t ether_type = big16(bytes + 16);
  if (ether_type == kEtherIpv4 || ether_type == kEtherIpv6) {
    return captured == 18 || bytes[18] >> 4 == (ether_type == kEtherIpv4 ? 4 : 6);
  }
  return is_vlan(ether_type) || ether_type == kEtherPppoeSession || ether_type == kEtherMpls || ether_type == 0x0806;
}

}  // namespace

bool PacketDecoder::decode(const CapturedPacket& packet, DecodedPacket& decoded) {
  const uint8_t* bytes = packet.bytes;
  const uint32_t captured = packet.captured_bytes;
  if (captured == 0) {
    ++counts_.empty_records;
    return false;
  }
  uint32_t header = 0;  // of the link layer
  uint32_t ether_type = 0;
  switch (packet.link_type) {
    case kEthernet:
      header = 14;
      break;
    case kCooked:
      header = 16;
      break;
    case kCookedV2:
      header = 20;
      break;
    case kNull:
    case kLoop:
      header = 4;
      break;
    case kRaw:
    case kRawA:
    case kRawB:
    case kRawIpv4:
    case kRawIpv6:
      break;
    default:
      ++counts_.unsupported_link;
      unsupported_links_.insert(packet.link_type);
      return false;
  }
  if (captured <= header) {
    ++counts_.cut_in_headers;
    return false;
  }
  if (packet.link_type == kEthernet || packet.link_type == kCooked) ether_type = big16(bytes + header - 2);
  if (packet.link_type == kCookedV2) ether_type = big16(bytes);
  const bool has_type = header > 4;  // of the link types above
  if (has_type && ether_type != kEtherIpv4 && ether_type != kEtherIpv6 &&
      !unwrap(bytes, captured, header, ether_type)) {
    return false;
  }

  uint32_t version = bytes[header] >> 4;
  if (packet.link_type == kNull || packet.link_type == kLoop) {
    // The header is the address family, in either byte order: 2 is IPv4; 10, 24, 28 or 30 is IPv6, by system.
    const uint32_t family = bytes[0] | bytes[3];
    const bool known = family == 2 || family == 10 || family == 24 || family == 28 || family == 30;
    if (!known || bytes[1] != 0 || bytes[2] != 0) version = 0;
  } else if (has_type ? version != (ether_type == kEtherIpv4 ? 4u : 6u) : version != 4 && version != 6) {
    ++counts_.bad_ip_header;
    return false;
  }
  const uint32_t wire = packet.wire_bytes > header ? packet.wire_bytes - header : captured - header;
  if (version == 4) return decode_ipv4(bytes + header, captured - header, wire, decoded);
  if (version == 6) return decode_ipv6(bytes + header, captured - header, wire, decoded);
  return leave_out(counts_.other_link_protocols);
}

bool PacketDecoder::leave_out(uint64_t& kind) {
  ++counts_.not_ip;
  ++kind;
  return false;
}

bool PacketDecoder::unwrap(const uint8_t* bytes, uint32_t captured, uint32_t& header, uint32_t& ether_type) {
  bool tagged = false, in_session = false, labelled = false;
  const auto skip = [&](uint32_t size) {  // whether at least a byte follows
    header += size;
    if (captured <= header) ++counts_.cut_in_headers;
    return captured > header;
  };
  while (ether_type != kEtherIpv4 && ether_type != kEtherIpv6) {
    const uint8_t* at = bytes + header;
    if (is_vlan(ether_type)) {
      if (!skip(4)) return false;
      counts_.vlan_tagged += !std::exchange(tagged, true);
      ether_type = big16(at + 2);
    } else if (ether_type == kEtherPppoeSession) {
      if (!skip(8)) return false;
      counts_.pppoe_sessions += !std::exchange(in_session, true);
      const bool is_data = at[0] == 0x11 && at[1] == 0;  // version 1, type 1, code 0
      ether_type = is_data ? ether_type_of_ppp(big16(at + 6)) : 0;
      if (ether_type == 0) return leave_out(counts_.ppp_control);
    } else if (ether_type == kEtherMpls || ether_type == kEtherMplsUpstream) {
      if (!skip(4)) return false;
      counts_.mpls_labelled += !std::exchange(labelled, true);
      const bool is_last = at[2] & 1;
      if (!is_last) continue;
      const uint32_t first_bits = at[4] >> 4;
      if (first_bits == 4 || first_bits == 6) {
        ether_type = first_bits == 4 ? kEtherIpv4 : kEtherIpv6;
      } else if (is_ethernet_pseudowire(at + 4, captured - header)) {
        if (!skip(18)) return false;
        ether_type = big16(at + 20);
      } else {
        return leave_out(counts_.mpls_other);
      }
    } else if (ether_type < kLeastEtherType || ether_type == kEtherLlc) {
      constexpr uint8_t snap[] = {0xAA, 0xAA, 0x03, 0, 0, 0};
      if (std::memcmp(at, snap, std::min<std::size_t>(captured - header, sizeof snap)) != 0) {
        return leave_out(counts_.llc);
      }
      if (!skip(8)) return false;
      ether_type = std::max(big16(at + 6), kLeastEtherType);  // here a small value is no length
    } else if (ether_type == kEtherPppoeDiscovery) {
      return leave_out(counts_.ppp_control);
    } else if (ether_type == 0x0806 || ether_type == 0x8035) {
      return leave_out(counts_.arp);
    } else {
      return leave_out(is_encapsulation(ether_type) ? counts_.other_encapsulation : counts_.other_link_protocols);
    }
  }
  return true;
}

uint32_t PacketDecoder::ip_bytes_or_wire(uint32_t ip_bytes, bool absent, uint32_t wire) {
  if (absent) {
    ++counts_.zero_ip_length;
    return wire;
  }
  if (ip_bytes > wire) ++counts_.length_beyond_wire;
  return ip_bytes;
}

bool PacketDecoder::decode_ipv4(const uint8_t* bytes, uint32_t captured, uint32_t wire, DecodedPacket& decoded) {
  if (captured < 20) {
    ++counts_.cut_in_headers;
    return false;
  }
  const uint32_t header = (bytes[0] & 0x0Fu) * 4, total = big16(bytes + 2);
  if (header < 20 || (total != 0 && total < header)) {
    ++counts_.bad_ip_header;
    return false;
  }
  const uint32_t fragment = big16(bytes + 6);
  if ((fragment & 0x1FFF) != 0) {
    ++counts_.later_fragments;
    return false;
  }
  if (captured < header) {
    ++counts_.cut_in_headers;
    return false;
  }
  decoded.ip_header_bytes = header;
  decoded.key.protocol = bytes[9];
  decoded.key.ip_version = 4;
  decoded.key.low_address[0] = decoded.key.high_address[0] = 0;
  decoded.key.low_address[1] = big64(bytes + 12) >> 32;
  decoded.key.high_address[1] = big64(bytes + 12) & 0xFFFFFFFF;
  if (!decode_transport(bytes + header, captured - header, decoded)) return false;
  if ((fragment & 0x2000) != 0) ++counts_.first_fragments;
  decoded.ip_bytes = ip_bytes_or_wire(total, total == 0, wire);
  return true;
}

bool PacketDecoder::decode_ipv6(const uint8_t* bytes, uint32_t captured, uint32_t wire, DecodedPacket& decoded) {
  if (captured < 40) {
    ++counts_.cut_in_headers;
    return false;
  }
  constexpr uint8_t hop_by_hop = 0, routing = 43, fragment = 44, authentication = 51, destination = 60, mobility = 135;
  const uint32_t payload = big16(bytes + 4);
  uint8_t next = bytes[6];
  uint32_t header = 40;
  bool first_fragment = false;
  while (next == hop_by_hop || next == routing || next == fragment || next == authentication || next == destination ||
         next == mobility) {
    if (captured < header + 8) {
      ++counts_.cut_in_headers;
      return false;
    }
    const uint8_t* extension = bytes + header;
    if (next == fragment) {
      if ((big16(extension + 2) & 0xFFF8) != 0) {
        ++counts_.later_fragments;
        return false;
      }
      first_fragment = (extension[3] & 1) != 0;
      header += 8;
    } else {
      header += next == authentication ? (extension[1] + 2u) * 4 : (extension[1] + 1u) * 8;
    }
    next = extension[0];
  }
  if (payload != 0 && payload + 40 < header) {
    ++counts_.bad_ip_header;
    return false;
  }
  if (captured < header) {
    ++counts_.cut_in_headers;
    return false;
  }
  decoded.ip_header_bytes = header;
  decoded.key.protocol = next;
  decoded.key.ip_version = 6;
  for (int word = 0; word < 2; ++word) {
    decoded.key.low_address[word] = big64(bytes + 8 + 8 * word);
    decoded.key.high_address[word] = big64(bytes + 24 + 8 * word);
  }
  if (!decode_transport(bytes + header, captured - header, decoded)) return false;
  ++counts_.ipv6;
  if (first_fragment) ++counts_.first_fragments;
  // A payload length of 0: no payload, or offload or a jumbo option has left the length out.
  decoded.ip_bytes = ip_bytes_or_wire(payload + 40, payload == 0 && wire > 40 && next != 59, wire);
  return true;
}

// At first the key has the source's address as low and the destination's as high; here both ends are put in order.
bool PacketDecoder::decode_transport(const uint8_t* bytes, uint32_t captured, DecodedPacket& decoded) {
  FlowKey& key = decoded.key;
  key.low_port = key.high_port = 0;
  decoded.transport_header_bytes = 0;
  decoded.tcp_flags = 0;
  const uint32_t needed = key.protocol == kTcp ? 14 : key.protocol == kUdp ? 8 : key.protocol == kSctp ? 12 : 0;
  if (captured < needed) {
    ++counts_.cut_in_headers;
    return false;
  }
  if (needed != 0) {
    key.low_port = static_cast<uint16_t>(big16(bytes));
    key.high_port = static_cast<uint16_t>(big16(bytes + 2));
  }
  if (key.protocol == kTcp) {
    decoded.transport_header_bytes = (bytes[12] >> 4) * 4u;
    decoded.tcp_flags = bytes[13];
    if (decoded.transport_header_bytes < 20) ++counts_.bad_transport_header;
  } else if (key.protocol == kUdp) {
    decoded.transport_header_bytes = 8;
    if (big16(bytes + 4) < 8) ++counts_.bad_transport_header;
  } else if (key.protocol == kIcmp) {
    decoded.transport_header_bytes = 8;
  } else if (key.protocol == kSctp) {
    decoded.transport_header_bytes = 12;
  }
  const auto order = [](const uint64_t* address, uint16_t port) {
    return std::make_pair(std::make_pair(address[0], address[1]), port);
  };
  decoded.from_low = order(key.low_address, key.low_port) <= order(key.high_address, key.high_port);
  if (!decoded.from_low) {
    std::swap(key.low_address, key.high_address);
    std::swap(key.low_port, key.high_port);
  }
  return true;
}
