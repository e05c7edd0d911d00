#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "captures/flow_record.hpp"
#include "captures/key_index.hpp"

enum class FlowEnd : uint8_t { closed, timeout, end_of_capture };

// One packet of a flow, and when it came.
struct Arrival {
  DecodedPacket packet;
  uint32_t hash;  // of the packet's key
  int64_t now_us;
  int64_t clock_us;  // by which silent flows end
  uint64_t number;   // of the packet in the capture
};

// A finished flow.
struct FlowRow {
  uint64_t source_address[2], destination_address[2];
  uint64_t number;  // of its first packet
  uint64_t forward_packets, forward_bytes, backward_packets, backward_bytes;
  int64_t start_us, end_us;
  uint16_t source_port, destination_port;
  uint8_t protocol, ip_version, valid, starts_with_syn, end;
  std::array<double, FlowRecord::kFeatures> features;

  bool has_key(const FlowKey& key) const;
  bool is_from(const uint64_t* address, uint16_t port) const;
};

// Sorts packets into bidirectional 5-tuple flows and ends a flow that closes or falls silent.
//
// A TCP flow closes with an RST, or when both FINs are acknowledged. Its features end there, as netmate-flowcalc
// exports it then. What its end points send later belongs to it and counts in its totals (FINs sent again, data under
// way, what follows an RST that was ignored). This ends when a SYN without ACK opens a new connection, or when nothing
// has come for twice the segment lifetime (RFC 9293, TIME-WAIT) or the time-out. So late packets never begin a flow
// that a new connection of the same ports would then join.
//
// Memory grows with the flows of one time-out and with the finished rows, never with the packets.
class FlowTable {
 public:
  explicit FlowTable(const MeterSettings& settings);

  void add(std::span<const Arrival> arrivals);
  void end_capture();  // ends every open flow

  // Finished flows, in the order in which they ended.
  const std::deque<FlowRow>& rows() const { return rows_; }
  // 2 * settings.first_lengths a flow: forward, then backward.
  const std::deque<uint32_t>& first_lengths() const { return first_lengths_; }

  const CaptureCounts& counts() const { return counts_; }  // after_close and backwards_in_flow alone

 private:
  struct Expiry {
    int64_t due_us;
    uint64_t number;
    uint32_t place, hash;
  };

  void add(const Arrival& arrival);
  uint32_t open(const Arrival& arrival);
  void end(uint32_t place, uint32_t hash, FlowEnd end);
  bool add_to_closed(const Arrival& arrival);
  void write_row(const FlowRecord& flow, FlowEnd end);
  void expire_silent_flows(int64_t now_us);

  MeterSettings settings_;
  int64_t linger_us_;  // how long a closed flow waits for late packets
  CaptureCounts counts_;
  std::vector<FlowRecord> flows_;  // open flows, and free places
  std::vector<uint32_t> free_;
  KeyIndex open_, closed_;  // places in flows_ and in rows_
  std::deque<Expiry> expiries_;
  std::deque<FlowRow> rows_;  // these tables grow long, and a deque copies nothing then
  std::deque<uint32_t> first_lengths_;
};
