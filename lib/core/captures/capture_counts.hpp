#pragma once
#include <cstdint>

// Counts what a capture holds, odd or not. Each packet record has exactly one of these outcomes: metered, not_ip,
// unsupported_link, cut_in_headers, bad_ip_header, later_fragments, empty_records. They sum to packets.
struct CaptureCounts {
  uint64_t packets = 0;  // packet records found
  uint64_t metered = 0;  // packets that belong to a flow

  // left out of the flows
  uint64_t not_ip = 0;            // the sum of the kinds below
  uint64_t unsupported_link = 0;  // link types that are not decoded
  uint64_t cut_in_headers = 0;    // the captured bytes end before the ports, flags and lengths
  uint64_t bad_ip_header = 0;
  uint64_t later_fragments = 0;  // no ports in them
  uint64_t empty_records = 0;    // no captured bytes

  // kinds of not_ip
  uint64_t arp = 0;
  uint64_t llc = 0;                   // IEEE 802.2 frames other than IP in SNAP: spanning tree, CDP, ...
  uint64_t ppp_control = 0;           // PPPoE discovery; PPP that is neither IP nor MPLS: LCP, IPCP, ...
  uint64_t mpls_other = 0;            // neither IP nor a recognisable Ethernet pseudowire
  uint64_t other_encapsulation = 0;   // tags and tunnels below IP that are not decoded
  uint64_t other_link_protocols = 0;  // LLDP, EAPOL, ...

  // metered, but worth knowing
  uint64_t ipv6 = 0;
  uint64_t vlan_tagged = 0;
  uint64_t mpls_labelled = 0;
  uint64_t pppoe_sessions = 0;  // packets in one
  uint64_t first_fragments = 0;
  uint64_t zero_ip_length = 0;        // segmentation offload: the length on the wire is used instead
  uint64_t length_beyond_wire = 0;    // the IP length exceeds what was on the wire
  uint64_t bad_transport_header = 0;  // a TCP data offset below 5, a UDP length below 8
  uint64_t after_close = 0;           // of a closed TCP connection: in its flow's totals, not in its features
  uint64_t without_time = 0;          // no time stamp, or one out of range: the time of the packet before is used
  uint64_t backwards_in_capture = 0;  // earlier than the packet before it in the capture
  uint64_t backwards_in_flow = 0;     // earlier than the packet before it in its flow
  uint64_t shortened_records = 0;     // fewer bytes captured than were on the wire

  // structure of the file
  uint64_t other_blocks = 0;       // pcapng: statistics, names, secrets, custom blocks
  uint64_t unknown_blocks = 0;     // pcapng: block types that no standard names
  uint64_t corrupt_records = 0;    // a record or block whose lengths contradict each other
  uint64_t truncated_records = 0;  // the file ends within a record
  uint64_t unread_bytes = 0;       // after a corrupt record, or of a truncated one
};
