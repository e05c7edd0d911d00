#include "captures/flow_record.hpp"

#include <utility>

namespace {

// `own`: the packet was sent by the side whose state this is.
constexpr FlowTcpState next_state(FlowTcpState state, uint32_t flags, bool own) {
  const bool acknowledges = flags & kAcknowledge, opens = flags & kSyn;
  if (flags & kReset) return FlowTcpState::closed;
  if ((flags & kFin) && own) return FlowTcpState::fin;
  if (state == FlowTcpState::fin && acknowledges && !own) return FlowTcpState::closed;
  if (state == FlowTcpState::initial && opens && own) return FlowTcpState::syn;
  if (state == FlowTcpState::syn && opens && acknowledges && !own) return FlowTcpState::syn_ack;
  if (state == FlowTcpState::syn_ack && acknowledges && own) return FlowTcpState::established;
  return state;
}

// A table of next_state() for each state, side and combination of flags: branches on flags are hard to predict.
class NextStates {
 public:
  constexpr NextStates() {
    for (uint32_t flags = 0; flags < kFlags; ++flags) {
      for (uint32_t state = 0; state < kStates; ++state) {
        for (const uint32_t own : {0u, 1u}) {
          states_[place(flags, own) + state] = next_state(static_cast<FlowTcpState>(state), flags, own != 0);
        }
      }
    }
  }

  constexpr FlowTcpState of(FlowTcpState state, uint32_t flags, uint32_t own) const {
    return states_[place(flags % kFlags, own) + static_cast<uint32_t>(state)];
  }

 private:
  static constexpr uint32_t kFlags = 32, kStates = 6;  // the flags up to ACK
  static constexpr uint32_t place(uint32_t flags, uint32_t own) { return (2 * flags + own) * kStates; }

  std::array<FlowTcpState, std::size_t{2} * kFlags * kStates> states_{};
};

constexpr NextStates kNextStates;

}  // namespace

const std::array<const char*, FlowRecord::kFeatures> FlowRecord::kFeatureNames = {
    "total_fpackets", "total_fvolume",  "total_bpackets", "total_bvolume",  "min_fpktl",    "mean_fpktl", "max_fpktl",
    "std_fpktl",      "min_bpktl",      "mean_bpktl",     "max_bpktl",      "std_bpktl",    "min_fiat",   "mean_fiat",
    "max_fiat",       "std_fiat",       "min_biat",       "mean_biat",      "max_biat",     "std_biat",   "duration",
    "min_active",     "mean_active",    "max_active",     "std_active",     "min_idle",     "mean_idle",  "max_idle",
    "std_idle",       "sflow_fpackets", "sflow_fbytes",   "sflow_bpackets", "sflow_bbytes", "fpsh_cnt",   "bpsh_cnt",
    "furg_cnt",       "burg_cnt",       "total_fhlen",    "total_bhlen"};

FlowRecord::FlowRecord(const DecodedPacket& packet, int64_t time_us, uint64_t first_number)
    : key(packet.key),
      number(first_number),
      last_us(time_us),
      forward_is_low(packet.from_low),
      starts_with_syn(key.protocol == kTcp && (packet.tcp_flags & (kSyn | kAcknowledge)) == kSyn),
      start_us(time_us) {}

void FlowRecord::restart(const DecodedPacket& packet, int64_t time_us, uint64_t first_number) {
  FlowRecord next(packet, time_us, first_number);
  for (int side = 0; side < 2; ++side) {
    next.first_lengths[side].swap(first_lengths[side]);
    next.first_lengths[side].clear();
  }
  *this = std::move(next);
}

// Follows the handshake, and returns whether this packet completes it.
bool FlowRecord::follow_handshake(uint32_t flags, uint32_t backward) {
  const bool was_established =
      opener_state_ == FlowTcpState::established || answerer_state_ == FlowTcpState::established;
  opener_state_ = kNextStates.of(opener_state_, flags, 1 - backward);
  answerer_state_ = kNextStates.of(answerer_state_, flags, backward);
  return !was_established &&
         (opener_state_ == FlowTcpState::established || answerer_state_ == FlowTcpState::established);
}

void FlowRecord::add(const DecodedPacket& packet, int64_t time_us, const MeterSettings& settings,
                     CaptureCounts& counts) {
  const uint32_t backward = packet.from_low != forward_is_low;
  const uint32_t flags = packet.tcp_flags;
  const bool was_valid = valid;
  ++packets[backward];
  ip_bytes[backward] += packet.ip_bytes;

  if (time_us < last_us) {
    ++counts.backwards_in_flow;
    if (settings.netmate_quirks) return;  // netmate-flowcalc ignores "reordered" packets altogether
    time_us = last_us;
  }
  last_us = time_us;

  bool in_handshake = false;
  if (key.protocol == kTcp) {
    const bool completes = follow_handshake(flags, backward);
    in_handshake = (flags & kSyn) || (completes && !packet.has_payload());
    const bool established = opener_state_ == FlowTcpState::established || answerer_state_ == FlowTcpState::established;
    valid = valid || (established && packet.has_payload());
  } else if (key.protocol == kUdp) {
    valid = valid || packet.has_payload();
  } else if (key.protocol == kIcmp) {
    valid = true;
  }

  if (in_handshake && !settings.handshake) return;
  if (settings.first_packets != 0 && accounted_packets_ == settings.first_packets) return;
  ++accounted_packets_;

  Direction& direction = directions_[backward];
  const bool counts_header = key.protocol == kTcp || !settings.netmate_quirks || !was_valid;
  direction.header_bytes += packet.ip_header_bytes + (counts_header ? packet.transport_header_bytes : 0);
  direction.push_flags += (flags & kPush) != 0;
  direction.urgent_flags += (flags & kUrgent) != 0;

  if (first_accounted_us_ == kNone) {
    first_accounted_us_ = active_start_us_ = time_us;
  } else {
    note_idle_gap(time_us, settings);
  }
  last_accounted_us_ = time_us;

  direction.lengths.add(packet.ip_bytes, settings.netmate_quirks);
  if (direction.last_us != kNone) {
    direction.gaps_us.add(static_cast<uint64_t>(time_us - direction.last_us), settings.netmate_quirks);
  }
  direction.last_us = time_us;
  if (direction.lengths.count <= settings.first_lengths) {
    first_lengths[backward].push_back(packet.ip_bytes);
  }
}

// An idle period ends the active period before it; gaps between packets do not reach across it.
void FlowRecord::note_idle_gap(int64_t now_us, const MeterSettings& settings) {
  const int64_t gap_us = now_us - last_accounted_us_;
  if (gap_us <= settings.idle_threshold_us) return;
  idle_us_.add(static_cast<uint64_t>(gap_us), settings.netmate_quirks);
  active_us_.add(static_cast<uint64_t>(last_accounted_us_ - active_start_us_), settings.netmate_quirks);
  active_start_us_ = now_us;
  directions_[0].last_us = directions_[1].last_us = kNone;
}

void FlowRecord::write_features(double* features, const MeterSettings& settings) const {
  const bool whole = settings.netmate_quirks;
  const auto put = [&features](double value) { *features++ = value; };
  const auto put_count = [&put](uint64_t value) { put(static_cast<double>(value)); };
  const auto put_statistics = [&](const RunningStatistics& values, double minimum_of_none) {
    const bool none = values.count == 0;
    put(none ? minimum_of_none : static_cast<double>(values.minimum));
    put(none ? minimum_of_none : values.mean(whole));
    put(none ? minimum_of_none : static_cast<double>(values.maximum));
    put(values.deviation(whole));
  };

  RunningStatistics active_us = active_us_;
  int64_t duration_us = 0;
  if (accounted_packets_ > 0) {  // the period that is still open
    active_us.add(static_cast<uint64_t>(last_accounted_us_ - active_start_us_), settings.netmate_quirks);
    duration_us = last_accounted_us_ - first_accounted_us_;
  }

  for (const Direction& direction : directions_) {
    put_count(direction.lengths.count);
    put_count(direction.lengths.sum);
  }
  for (const Direction& direction : directions_) put_statistics(direction.lengths, -1);
  for (const Direction& direction : directions_) put_statistics(direction.gaps_us, 0);
  put(static_cast<double>(duration_us));
  put_statistics(active_us, 0);
  put_statistics(idle_us_, 0);
  for (const Direction& direction : directions_) {
    for (const uint64_t total : {direction.lengths.count, direction.lengths.sum}) {
      RunningStatistics share{active_us.count, 0, 0, total, 0};
      put(share.mean(whole));
    }
  }
  for (const Direction& direction : directions_) put_count(direction.push_flags);
  for (const Direction& direction : directions_) put_count(direction.urgent_flags);
  for (const Direction& direction : directions_) put_count(direction.header_bytes);
}
