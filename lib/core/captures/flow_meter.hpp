#pragma once
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "captures/closed_rows.hpp"
#include "captures/flow_key_hash.hpp"
#include "captures/flow_record.hpp"

enum class FlowEnd : uint8_t { closed, timeout, end_of_capture };

// The finished flows, one column a field.
struct FlowColumns {
  std::vector<uint64_t> source_address, destination_address;  // two words a flow
  std::vector<uint16_t> source_port, destination_port;
  std::vector<uint8_t> protocol, ip_version, valid, starts_with_syn, end;
  std::vector<uint64_t> number, forward_packets, forward_bytes, backward_packets, backward_bytes;
  std::vector<int64_t> start_us, end_us;
  std::vector<double> features;         // kFeatures a flow
  std::vector<uint32_t> first_lengths;  // 2 * settings.first_lengths a flow: forward, then backward
};

// Sorts packets into bidirectional 5-tuple flows and ends a flow that closes or falls silent.
//
// A TCP flow closes with an RST, or when both FINs are acknowledged. Its features end there: netmate-flowcalc exports
// it then. What its end points still send belongs to it and counts in its totals (FINs sent again, data under way,
// what follows an RST that nobody obeyed), until a SYN without ACK opens a new connection, or nothing has come for
// twice the segment lifetime (RFC 9293, TIME-WAIT) or the time-out. So no remnant begins a flow that a connection of
// the same ports would then join.
//
// Memory grows with the flows of one time-out and with the finished rows, never with the packets.
class FlowMeter : public PacketSink {
 public:
  explicit FlowMeter(const MeterSettings& settings);
  FlowMeter(const FlowMeter&) = delete;  // its parts refer to each other
  FlowMeter& operator=(const FlowMeter&) = delete;

  void feed(const uint8_t* chunk, std::size_t size) { reader_.feed(chunk, size); }
  void end_file() { reader_.finish(); }
  void end_capture();  // ends every open flow

  void on_packet(const CapturedPacket& packet) override;

  const CaptureCounts& counts() const { return counts_; }
  const std::set<uint32_t>& unsupported_links() const { return decoder_.unsupported_links(); }
  const FlowColumns& columns() const { return columns_; }
  std::size_t flow_count() const { return columns_.number.size(); }

 private:
  using Flows = std::unordered_map<FlowKey, FlowRecord, FlowKeyHash>;
  struct Expiry {
    int64_t due_us;
    FlowKey key;
    uint64_t number;
  };

  bool is_from(std::size_t row, const uint64_t* address, uint16_t port) const;
  bool has_key(std::size_t row, const FlowKey& key) const;
  bool add_to_closed(const DecodedPacket& packet, int64_t now_us);
  void write_row(const FlowRecord& flow, FlowEnd end);
  void expire_silent_flows(int64_t now_us);

  MeterSettings settings_;
  int64_t linger_us_;  // how long a closed flow waits for what is left over
  CaptureCounts counts_;
  PacketDecoder decoder_;
  CaptureReader reader_;
  Flows flows_;
  ClosedRows closed_;
  std::deque<Expiry> expiries_;
  int64_t last_us_ = 0;
  FlowColumns columns_;
};
