#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "captures/packet_decoder.hpp"
#include "captures/running_statistics.hpp"

struct MeterSettings {
  int64_t timeout_us = 600'000'000;
  int64_t idle_threshold_us = 1'000'000;
  uint64_t first_packets = 0;  // of both directions; 0: all
  bool handshake = true;       // whether the TCP handshake is among them
  bool netmate_quirks = true;
  bool end_on_close = true;        // a closed TCP connection ends the flow at once
  bool forward_is_opener = false;  // where a SYN-ACK comes first, forward is the side that it answers
  std::size_t first_lengths = 10;
};

enum class FlowTcpState : uint8_t { initial, syn, syn_ack, established, fin, closed };

// One bidirectional flow and its features as netmate-flowcalc (netai_flowstats 1.0DArev2) defines them.
// Forward is the direction of the flow's first packet, unless the settings ask for the opener's.
class alignas(64) FlowRecord {
 public:
  static constexpr std::size_t kFeatures = 39;
  static const std::array<const char*, kFeatures> kFeatureNames;

  FlowRecord(const DecodedPacket& packet, int64_t time_us, uint64_t number);

  // Begins another flow in the memory of this one.
  void restart(const DecodedPacket& packet, int64_t time_us, uint64_t number);

  void add(const DecodedPacket& packet, int64_t time_us, const MeterSettings& settings, CaptureCounts& counts);

  // Fetches into the cache what a packet needs, 64 bytes at a time: all but the last two members.
  void prefetch() const {
    const auto* bytes = reinterpret_cast<const char*>(this);
    for (std::size_t at = 0; at < sizeof(FlowRecord) - 2 * sizeof(RunningStatistics); at += 64)
      __builtin_prefetch(bytes + at);
  }

  bool closes() const { return opener_state_ == FlowTcpState::fin || answerer_state_ == FlowTcpState::fin; }
  bool closed() const { return opener_state_ == FlowTcpState::closed && answerer_state_ == FlowTcpState::closed; }
  void write_features(double* features, const MeterSettings& settings) const;

  // These count the whole flow, also what the features leave out. Index 0 is forward, 1 backward.
  FlowKey key;
  uint64_t number;  // of its first packet in the capture
  int64_t last_us;
  bool forward_is_low;
  bool starts_with_syn;
  bool valid = false;  // netmate-flowcalc would export it
  uint64_t packets[2] = {0, 0}, ip_bytes[2] = {0, 0};
  int64_t start_us;
  std::vector<uint32_t> first_lengths[2];

 private:
  static constexpr int64_t kNone = INT64_MIN;
  struct Direction {
    RunningStatistics lengths, gaps_us;
    int64_t last_us = kNone;  // none since the last idle period
    uint64_t push_flags = 0, urgent_flags = 0, header_bytes = 0;
  };

  bool follow_handshake(uint32_t flags, uint32_t backward);
  void note_idle_gap(int64_t now_us, const MeterSettings& settings);

  uint64_t accounted_packets_ = 0;
  int64_t first_accounted_us_ = kNone, last_accounted_us_ = kNone, active_start_us_ = kNone;
  FlowTcpState opener_state_ = FlowTcpState::initial, answerer_state_ = FlowTcpState::initial;
  Direction directions_[2];
  RunningStatistics active_us_, idle_us_;  // last, as few packets need them
};
