#include "captures/flow_meter.hpp"

#include <algorithm>

#include "captures/flow_key_hash.hpp"
#include "captures/plain_packet.hpp"

namespace {

// Arrivals a batch, of 96 bytes each: as many as a core's nearest memory holds, and enough to be worth waking a thread.
constexpr std::size_t kSmallBatch = 128, kLargeBatch = 2048;

}  // namespace

FlowMeter::FlowMeter(const MeterSettings& settings, bool two_cores)
    : decoder_(counts_),
      reader_(*this, counts_),
      table_(settings),
      batch_size_(two_cores ? kLargeBatch : kSmallBatch),
      batch_{std::vector<Arrival>(batch_size_)} {
  if (two_cores) thread_ = std::make_unique<BatchThread<Batch>>([this](const Batch& batch) { sort_in(batch); });
}

void FlowMeter::on_packet(const CapturedPacket& packet) {
  const uint64_t number = counts_.packets++;
  if (packet.captured_bytes < packet.wire_bytes) ++counts_.shortened_records;
  if (!packet.has_time) ++counts_.without_time;
  const int64_t now_us = packet.has_time || number == 0 ? packet.time_us : last_us_;
  // A single time stamp in the far future must not end every flow, so the clock is the earlier of two packets' times.
  const int64_t clock_us = std::min(now_us, last_us_);
  if (number > 0 && now_us < last_us_) ++counts_.backwards_in_capture;
  last_us_ = now_us;

  Arrival& arrival = batch_.arrivals[batch_.count];
  if (!decode_plain(packet, arrival.packet) && !decoder_.decode(packet, arrival.packet)) return;
  ++counts_.metered;
  arrival.hash = hash_of(arrival.packet.key);
  arrival.now_us = now_us;
  arrival.clock_us = clock_us;
  arrival.number = number;
  if (++batch_.count == batch_size_) hand_over();
}

void FlowMeter::sort_in(const Batch& batch) { table_.add(std::span(batch.arrivals).first(batch.count)); }

void FlowMeter::hand_over() {
  if (thread_) {
    thread_->hand_over(batch_);
    batch_.arrivals.resize(batch_size_);
  } else {
    sort_in(batch_);
  }
  batch_.count = 0;
}

void FlowMeter::end_capture() {
  hand_over();
  if (thread_) thread_->wait();
  table_.end_capture();
}

CaptureCounts FlowMeter::counts() const {
  CaptureCounts counts = counts_;
  counts.after_close = table_.counts().after_close;
  counts.backwards_in_flow = table_.counts().backwards_in_flow;
  return counts;
}
