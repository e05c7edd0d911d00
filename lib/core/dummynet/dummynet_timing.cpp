#include "dummynet/dummynet_timing.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace {

constexpr std::uint32_t raw_ip = 101;  // the link type

std::int64_t now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

void write16(std::uint8_t* place, std::uint32_t value) {
  place[0] = static_cast<std::uint8_t>(value >> 8);
  place[1] = static_cast<std::uint8_t>(value);
}

}  // namespace

DummynetTiming::DummynetTiming(Dummynet engine, bool drop_at_entry, Time spacing)
    : engine_(std::move(engine)), drop_at_entry_(drop_at_entry), spacing_(spacing) {
  // From 10.0.0.1:4000 to 10.0.0.2:5000, laid out as in RFC 791 and RFC 768; a UDP checksum of 0 means none.
  const std::array<std::uint8_t, 28> head{0x45, 0, 0,  46, 0, 0, 0,    0,    64,   17,   0, 0,  10, 0,
                                          0,    1, 10, 0,  0, 2, 0x0F, 0xA0, 0x13, 0x88, 0, 26, 0,  0};
  std::memcpy(datagram_.data(), head.data(), head.size());
  for (std::size_t place = 0; place < 20; place += 2)
    checksum_ += static_cast<std::uint32_t>(datagram_[place] << 8 | datagram_[place + 1]);
}

std::uint32_t DummynetTiming::generate() {
  if (free_.empty()) {
    buffers_.emplace_back();
    free_.push_back(static_cast<std::uint32_t>(buffers_.size() - 1));
  }
  const std::uint32_t buffer = free_.back();
  free_.pop_back();
  std::uint8_t* bytes = buffers_[buffer].bytes.data();
  std::memcpy(bytes, datagram_.data(), datagram_.size());
  const std::uint32_t identification = offered_ & 0xFFFF;
  std::uint32_t sum = checksum_ + identification;
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  write16(bytes + 4, identification);
  write16(bytes + 10, ~sum);
  ++offered_;
  return buffer;
}

void DummynetTiming::input(std::uint32_t buffer) {
  if (drop_at_entry_) {
    ++dropped_at_entry_;
    return finish(buffer);
  }
  const std::uint8_t* bytes = buffers_[buffer].bytes.data();
  DecodedPacket packet;
  decoder_.decode({bytes, datagram_bytes, datagram_bytes, 0, false, raw_ip}, packet);
  engine_.offer(buffer, DummynetHeader::of(packet), now_, [this](std::uint32_t name, Dummynet::Fate fate, bool, Time) {
    ++fates_[static_cast<std::size_t>(fate)];
    finish(name);
  });
}

void DummynetTiming::finish(std::uint32_t buffer) {
  const std::uint8_t* bytes = buffers_[buffer].bytes.data();
  const auto identification = static_cast<std::uint16_t>(bytes[4] << 8 | bytes[5]);
  out_of_order_ += identification != next_identification_;
  next_identification_ = static_cast<std::uint16_t>(identification + 1);
  free_.push_back(buffer);
}

std::vector<DummynetTiming::Batch> DummynetTiming::run(std::uint64_t batches, std::uint64_t packets) {
  std::vector<Batch> timed;
  timed.reserve(batches);
  for (std::uint64_t batch = 0; batch < batches; ++batch) {
    const std::int64_t start = now_ns();
    for (std::uint64_t packet = 0; packet < packets; packet += burst) {
      const std::uint64_t count = std::min(burst, packets - packet);
      std::array<std::uint32_t, burst> buffers;
      for (std::uint64_t place = 0; place < count; ++place) buffers[place] = generate();
      for (std::uint64_t place = 0; place < count; ++place, now_ += spacing_) input(buffers[place]);
    }
    const std::int64_t arrived = now_ns();
    engine_.advance(now_, [this](std::uint32_t name, Dummynet::Fate fate, bool, Time) {
      ++fates_[static_cast<std::size_t>(fate)];
      finish(name);
    });
    timed.push_back({arrived - start, now_ns() - arrived});
  }
  return timed;
}
