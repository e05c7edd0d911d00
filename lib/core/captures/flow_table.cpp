#include "captures/flow_table.hpp"

#include <algorithm>

namespace {

constexpr int64_t kTwoSegmentLifetimesUs = 240'000'000;  // of 2 minutes each (RFC 9293, 3.4.2)
constexpr uint64_t kEnded = UINT64_MAX;                  // the number of a flow whose place is free

}  // namespace

bool FlowRow::is_from(const uint64_t* address, uint16_t port) const {
  return source_address[0] == address[0] && source_address[1] == address[1] && source_port == port;
}

bool FlowRow::has_key(const FlowKey& key) const {
  const auto is_to = [this](const uint64_t* address, uint16_t port) {
    return destination_address[0] == address[0] && destination_address[1] == address[1] && destination_port == port;
  };
  return protocol == key.protocol && ip_version == key.ip_version &&
         ((is_from(key.low_address, key.low_port) && is_to(key.high_address, key.high_port)) ||
          (is_from(key.high_address, key.high_port) && is_to(key.low_address, key.low_port)));
}

FlowTable::FlowTable(const MeterSettings& settings)
    : settings_(settings), linger_us_(std::min(kTwoSegmentLifetimesUs, settings.timeout_us)) {}

// The memory that a packet will need is fetched while earlier packets are sorted in.
void FlowTable::add(std::span<const Arrival> arrivals) {
  constexpr std::size_t ahead = 4;
  const std::size_t count = arrivals.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (i + 2 * ahead < count) open_.prefetch(arrivals[i + 2 * ahead].hash);
    if (i + ahead < count) {
      const uint32_t place = open_.guess(arrivals[i + ahead].hash);
      if (place != KeyIndex::kNone) flows_[place].prefetch();
    }
    add(arrivals[i]);
  }
}

void FlowTable::add(const Arrival& arrival) {
  const DecodedPacket& packet = arrival.packet;
  uint32_t place = open_.find(arrival.hash, [&](uint32_t other) { return flows_[other].key == packet.key; });
  bool is_new = place == KeyIndex::kNone;
  if (is_new) {
    if (add_to_closed(arrival)) return;
    place = open(arrival);
  } else if (arrival.now_us - flows_[place].last_us > settings_.timeout_us) {
    write_row(flows_[place], FlowEnd::timeout);
    flows_[place].restart(packet, arrival.now_us, arrival.number);
    is_new = true;
  }
  FlowRecord& flow = flows_[place];
  if (is_new) {
    expiries_.push_back({arrival.now_us + settings_.timeout_us, arrival.number, place, arrival.hash});
    constexpr uint8_t answer = kSyn | kAcknowledge;
    const bool answers = packet.key.protocol == kTcp && (packet.tcp_flags & answer) == answer;
    if (settings_.forward_is_opener && answers) flow.forward_is_low = !packet.from_low;
  }
  flow.add(packet, arrival.now_us, settings_, counts_);
  if (settings_.end_on_close && flow.closes()) closed_.prefetch(arrival.hash);
  if (settings_.end_on_close && flow.closed()) {
    closed_.put(arrival.hash, static_cast<uint32_t>(rows_.size()),
                [&](uint32_t row) { return rows_[row].has_key(flow.key); });
    end(place, arrival.hash, FlowEnd::closed);
  }
  expire_silent_flows(arrival.clock_us);
}

// Opens a flow that begins with this packet, and returns its place.
uint32_t FlowTable::open(const Arrival& arrival) {
  uint32_t place;
  if (free_.empty()) {
    place = static_cast<uint32_t>(flows_.size());
    flows_.emplace_back(arrival.packet, arrival.now_us, arrival.number);
  } else {
    place = free_.back();
    free_.pop_back();
    flows_[place].restart(arrival.packet, arrival.now_us, arrival.number);
  }
  open_.put(arrival.hash, place, [](uint32_t) { return false; });
  return place;
}

void FlowTable::end(uint32_t place, uint32_t hash, FlowEnd end) {
  write_row(flows_[place], end);
  flows_[place].number = kEnded;
  open_.erase(hash, place);
  free_.push_back(place);
}

// Adds the packet to a connection that has closed, if it belongs to one, and returns whether it does.
bool FlowTable::add_to_closed(const Arrival& arrival) {
  const DecodedPacket& packet = arrival.packet;
  const FlowKey& key = packet.key;
  const bool opens = (packet.tcp_flags & (kSyn | kAcknowledge | kReset)) == kSyn;
  if (opens || key.protocol != kTcp) return false;
  const uint32_t number = closed_.find(arrival.hash, [&](uint32_t other) { return rows_[other].has_key(key); });
  if (number == KeyIndex::kNone || arrival.now_us - rows_[number].end_us > linger_us_) return false;

  FlowRow& row = rows_[number];
  const bool backward = packet.from_low != row.is_from(key.low_address, key.low_port);
  ++counts_.after_close;
  ++(backward ? row.backward_packets : row.forward_packets);
  (backward ? row.backward_bytes : row.forward_bytes) += packet.ip_bytes;
  if (arrival.now_us < row.end_us) ++counts_.backwards_in_flow;
  row.end_us = std::max(row.end_us, arrival.now_us);
  return true;
}

// The queue has one entry a flow, made when the flow began. If a packet has come since, the entry goes to the end.
void FlowTable::expire_silent_flows(int64_t now_us) {
  while (!expiries_.empty() && expiries_.front().due_us < now_us) {
    Expiry next = expiries_.front();
    expiries_.pop_front();
    const FlowRecord& flow = flows_[next.place];
    if (flow.number != next.number) continue;
    next.due_us = flow.last_us + settings_.timeout_us;
    if (next.due_us < now_us) {
      end(next.place, next.hash, FlowEnd::timeout);
    } else {
      expiries_.push_back(next);
    }
  }
}

void FlowTable::end_capture() {
  for (const FlowRecord& flow : flows_) {
    if (flow.number != kEnded) write_row(flow, FlowEnd::end_of_capture);
  }
  flows_ = {};
  free_ = {};
  open_ = closed_ = {};
  expiries_ = {};
}

void FlowTable::write_row(const FlowRecord& flow, FlowEnd end) {
  const FlowKey& key = flow.key;
  FlowRow& row = rows_.emplace_back();
  for (int word = 0; word < 2; ++word) {
    row.source_address[word] = flow.forward_is_low ? key.low_address[word] : key.high_address[word];
    row.destination_address[word] = flow.forward_is_low ? key.high_address[word] : key.low_address[word];
  }
  row.source_port = flow.forward_is_low ? key.low_port : key.high_port;
  row.destination_port = flow.forward_is_low ? key.high_port : key.low_port;
  row.protocol = key.protocol;
  row.ip_version = key.ip_version;
  row.valid = flow.valid;
  row.starts_with_syn = flow.starts_with_syn;
  row.end = static_cast<uint8_t>(end);
  row.number = flow.number;
  row.forward_packets = flow.packets[0];
  row.forward_bytes = flow.ip_bytes[0];
  row.backward_packets = flow.packets[1];
  row.backward_bytes = flow.ip_bytes[1];
  row.start_us = flow.start_us;
  row.end_us = flow.last_us;
  flow.write_features(row.features.data(), settings_);
  for (const auto& lengths : flow.first_lengths) {
    first_lengths_.insert(first_lengths_.end(), lengths.begin(), lengths.end());
    first_lengths_.resize(first_lengths_.size() + settings_.first_lengths - lengths.size(), 0);
  }
}
