#include "captures/flow_meter.hpp"

#include <algorithm>

namespace {

constexpr int64_t kTwoSegmentLifetimesUs = 240'000'000;  // of 2 minutes each (RFC 9293, 3.4.2)

}  // namespace

FlowMeter::FlowMeter(const MeterSettings& settings)
    : settings_(settings),
      linger_us_(std::min(kTwoSegmentLifetimesUs, settings.timeout_us)),
      decoder_(counts_),
      reader_(*this, counts_) {}

void FlowMeter::on_packet(const CapturedPacket& packet) {
  const uint64_t number = counts_.packets++;
  if (packet.captured_bytes < packet.wire_bytes) ++counts_.shortened_records;
  if (!packet.has_time) ++counts_.without_time;
  const int64_t now_us = packet.has_time || number == 0 ? packet.time_us : last_us_;
  // A single time stamp in the far future must not end every flow: the clock is the earlier of two packets.
  const int64_t clock_us = std::min(now_us, last_us_);
  if (number > 0 && now_us < last_us_) ++counts_.backwards_in_capture;
  last_us_ = now_us;

  DecodedPacket decoded;
  if (!decoder_.decode(packet, decoded)) return;
  ++counts_.metered;

  auto [at, is_new] = flows_.try_emplace(decoded.key, decoded, now_us, number);
  if (is_new && add_to_closed(decoded, now_us)) {
    flows_.erase(at);
    return;
  }
  if (!is_new && now_us - at->second.last_us > settings_.timeout_us) {
    write_row(at->second, FlowEnd::timeout);
    at->second = FlowRecord(decoded, now_us, number);
    is_new = true;
  }
  FlowRecord& flow = at->second;
  if (is_new) {
    expiries_.push_back({now_us + settings_.timeout_us, decoded.key, number});
    constexpr uint8_t answer = kSyn | kAcknowledge;
    const bool answers = decoded.key.protocol == kTcp && (decoded.tcp_flags & answer) == answer;
    if (settings_.forward_is_opener && answers) flow.forward_is_low = !decoded.from_low;
  }
  flow.add(decoded, now_us, settings_, counts_);
  if (settings_.end_on_close && flow.closed()) {
    closed_.put(FlowKeyHash{}(flow.key), flow_count(), [&](uint32_t row) { return has_key(row, flow.key); });
    write_row(flow, FlowEnd::closed);
    flows_.erase(at);
  }
  expire_silent_flows(clock_us);
}

bool FlowMeter::is_from(std::size_t row, const uint64_t* address, uint16_t port) const {
  return columns_.source_address[2 * row] == address[0] && columns_.source_address[2 * row + 1] == address[1] &&
         columns_.source_port[row] == port;
}

bool FlowMeter::has_key(std::size_t row, const FlowKey& key) const {
  const auto is_to = [&](const uint64_t* address, uint16_t port) {
    return columns_.destination_address[2 * row] == address[0] &&
           columns_.destination_address[2 * row + 1] == address[1] && columns_.destination_port[row] == port;
  };
  return columns_.protocol[row] == key.protocol && columns_.ip_version[row] == key.ip_version &&
         ((is_from(row, key.low_address, key.low_port) && is_to(key.high_address, key.high_port)) ||
          (is_from(row, key.high_address, key.high_port) && is_to(key.low_address, key.low_port)));
}

// Whether the packet is left over from a connection that has closed.
bool FlowMeter::add_to_closed(const DecodedPacket& packet, int64_t now_us) {
  const FlowKey& key = packet.key;
  const bool opens = (packet.tcp_flags & (kSyn | kAcknowledge | kReset)) == kSyn;
  if (opens || key.protocol != kTcp) return false;
  const uint32_t row = closed_.find(FlowKeyHash{}(key), [&](uint32_t other) { return has_key(other, key); });
  if (row == ClosedRows::kNone || now_us - columns_.end_us[row] > linger_us_) return false;

  const bool backward = packet.from_low != is_from(row, key.low_address, key.low_port);
  ++counts_.after_close;
  ++(backward ? columns_.backward_packets : columns_.forward_packets)[row];
  (backward ? columns_.backward_bytes : columns_.forward_bytes)[row] += packet.ip_bytes;
  if (now_us < columns_.end_us[row]) ++counts_.backwards_in_flow;
  columns_.end_us[row] = std::max(columns_.end_us[row], now_us);
  return true;
}

// The queue holds one entry a flow, made when the flow began; one that has been heard since goes back in line.
void FlowMeter::expire_silent_flows(int64_t now_us) {
  while (!expiries_.empty() && expiries_.front().due_us < now_us) {
    Expiry next = expiries_.front();
    expiries_.pop_front();
    const auto at = flows_.find(next.key);
    if (at == flows_.end() || at->second.number != next.number) continue;
    next.due_us = at->second.last_us + settings_.timeout_us;
    if (next.due_us < now_us) {
      write_row(at->second, FlowEnd::timeout);
      flows_.erase(at);
    } else {
      expiries_.push_back(next);
    }
  }
}

void FlowMeter::end_capture() {
  for (const auto& [key, flow] : flows_) write_row(flow, FlowEnd::end_of_capture);
  flows_.clear();
  closed_ = {};
  expiries_.clear();
}

void FlowMeter::write_row(const FlowRecord& flow, FlowEnd end) {
  const bool low_first = flow.forward_is_low;
  const FlowKey& key = flow.key;
  for (int word = 0; word < 2; ++word) {
    columns_.source_address.push_back(low_first ? key.low_address[word] : key.high_address[word]);
    columns_.destination_address.push_back(low_first ? key.high_address[word] : key.low_address[word]);
  }
  columns_.source_port.push_back(low_first ? key.low_port : key.high_port);
  columns_.destination_port.push_back(low_first ? key.high_port : key.low_port);
  columns_.protocol.push_back(key.protocol);
  columns_.ip_version.push_back(key.ip_version);
  columns_.valid.push_back(flow.valid);
  columns_.starts_with_syn.push_back(flow.starts_with_syn);
  columns_.end.push_back(static_cast<uint8_t>(end));
  columns_.number.push_back(flow.number);
  columns_.forward_packets.push_back(flow.packets[0]);
  columns_.forward_bytes.push_back(flow.ip_bytes[0]);
  columns_.backward_packets.push_back(flow.packets[1]);
  columns_.backward_bytes.push_back(flow.ip_bytes[1]);
  columns_.start_us.push_back(flow.start_us);
  columns_.end_us.push_back(flow.last_us);
  columns_.features.resize(columns_.features.size() + FlowRecord::kFeatures);
  flow.write_features(columns_.features.data() + columns_.features.size() - FlowRecord::kFeatures, settings_);
  for (const auto& lengths : flow.first_lengths) {
    columns_.first_lengths.insert(columns_.first_lengths.end(), lengths.begin(), lengths.end());
    columns_.first_lengths.resize(columns_.first_lengths.size() + settings_.first_lengths - lengths.size(), 0);
  }
}
