// A rule of the Dummynet engine's classifier: what a packet's five-tuple must be, and what then happens to it.
#pragma once
#include <cstdint>

#include "captures/packet_decoder.hpp"

struct DummynetHeader {
  std::uint32_t source, destination;  // IPv4
  std::uint16_t source_port, destination_port;
  std::uint8_t protocol;
  bool ecn_capable;
  std::uint32_t bytes;  // the IP packet

  static DummynetHeader of(const DecodedPacket& packet) {
    const FlowKey& key = packet.key;
    const auto low = static_cast<std::uint32_t>(key.low_address[1]);
    const auto high = static_cast<std::uint32_t>(key.high_address[1]);
    if (packet.from_low) return {low, high, key.low_port, key.high_port, key.protocol, false, packet.ip_bytes};
    return {high, low, key.high_port, key.low_port, key.protocol, false, packet.ip_bytes};
  }
};

class DummynetRule {
 public:
  enum class Action : std::uint8_t { allow, deny, count, pipe };
  struct Prefix {
    std::uint32_t address, mask;
  };
  struct Ports {
    std::uint16_t low, high;
  };
  struct Match {
    int protocol;  // -1: any
    Prefix source, destination;
    Ports source_ports, destination_ports;
  };

  // `pipe`: the place of the pipe in the engine; `probability`: that a packet which fits is matched.
  DummynetRule(const Match& match, Action action, std::uint32_t pipe, double probability)
      : addresses_(both(match.source.address, match.destination.address)),
        address_mask_(both(match.source.mask, match.destination.mask)),
        first_destination_port_(match.destination_ports.low),
        destination_port_span_(static_cast<std::uint16_t>(match.destination_ports.high - match.destination_ports.low)),
        first_source_port_(match.source_ports.low),
        source_port_span_(static_cast<std::uint16_t>(match.source_ports.high - match.source_ports.low)),
        protocol_(static_cast<std::uint8_t>(match.protocol < 0 ? 0 : match.protocol)),
        protocol_mask_(match.protocol < 0 ? 0 : 255),
        action_(action),
        pipe_(pipe),
        probability_(probability) {
    addresses_ &= address_mask_;
  }

  bool matches(const DummynetHeader& header) const {
    return (both(header.source, header.destination) & address_mask_) == addresses_ &&
           (header.protocol & protocol_mask_) == protocol_ &&
           static_cast<std::uint16_t>(header.destination_port - first_destination_port_) <= destination_port_span_ &&
           static_cast<std::uint16_t>(header.source_port - first_source_port_) <= source_port_span_;
  }

  Action action() const { return action_; }
  std::uint32_t pipe() const { return pipe_; }
  double probability() const { return probability_; }

 private:
  static std::uint64_t both(std::uint32_t source, std::uint32_t destination) {
    return std::uint64_t{source} << 32 | destination;
  }

  std::uint64_t addresses_, address_mask_;
  std::uint16_t first_destination_port_, destination_port_span_, first_source_port_, source_port_span_;
  std::uint8_t protocol_, protocol_mask_;
  Action action_;
  std::uint32_t pipe_;
  double probability_;
};
