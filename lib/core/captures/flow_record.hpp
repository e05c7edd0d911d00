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
  bool forward_is_opener = false;  // where a SYN-ACK comes first, forward is whom it answers
  std::size_t first_lengths = 10;
};

enum class TcpState : uint8_t { initial, syn, syn_ack, established, fin, closed };

// One bidirectional flow and its features as netmate-flowcalc (netai_flowstats 1.0DArev2) defines them.
// Forward is the direction of the flow's first packet, unless the settings ask for the opener's.
class FlowRecord {
 public:
  static constexpr std::size_t kFeatures = 39;
  static const std::array<const char*, kFeatures> kFeatureNames;

  FlowRecord(const DecodedPacket& packet, int64_t time_us, uint64_t number);

  void add(const DecodedPacket& packet, int64_t time_us, const MeterSettings& settings, CaptureCounts& counts);

  bool closed() const { return opener_state_ == TcpState::closed && answerer_state_ == TcpState::closed; }
  void write_features(double* features, const MeterSettings& settings) const;

  // The whole flow, whatever the features leave out; index 0 is forward, 1 backward.
  FlowKey key;
  bool forward_is_low;
  bool starts_with_syn;
  bool valid = false;  // netmate-flowcalc would export it
  uint64_t number;     // of its first packet in the capture
  int64_t start_us, last_us;
  uint64_t packets[2] = {0, 0}, ip_bytes[2] = {0, 0};
  std::vector<uint32_t> first_lengths[2];

 private:
  struct Direction {
    RunningStatistics lengths, gaps_us;
    int64_t last_us = kNone;  // none since the last idle period
    uint64_t push_flags = 0, urgent_flags = 0, header_bytes = 0;
  };
  static constexpr int64_t kNone = INT64_MIN;

  bool follow_handshake(uint8_t flags, bool backward);
  void note_idle_gap(int64_t now_us, const MeterSettings& settings);

  Direction directions_[2];
  RunningStatistics active_us_, idle_us_;
  uint64_t accounted_packets_ = 0;
  int64_t first_accounted_us_ = kNone, last_accounted_us_ = kNone, active_start_us_ = kNone;
  TcpState opener_state_ = TcpState::initial, answerer_state_ = TcpState::initial;
};
