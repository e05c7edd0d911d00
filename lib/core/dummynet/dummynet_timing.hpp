// Measures what a packet costs in the Dummynet engine. A generator of smallest UDP datagrams, real bytes in a pool of
// buffers, drives the engine. Batches are timed from outside; the packets' arrivals and the timer's work are timed
// apart.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "captures/capture_counts.hpp"
#include "captures/packet_decoder.hpp"
#include "dummynet/dummynet.hpp"

class DummynetTiming {
 public:
  struct Batch {
    std::int64_t arrivals_ns, timer_ns;
  };
  static constexpr std::uint64_t burst = 32;
  static constexpr std::uint32_t datagram_bytes = 46;  // IPv4 and UDP headers and what fills an Ethernet frame

  // One packet comes every `spacing` of virtual time. With `drop_at_entry` no packet reaches the classifier.
  DummynetTiming(Dummynet engine, bool drop_at_entry, Time spacing);

  // Times so many batches of so many packets, generated in bursts as a ring of netmap hands them over. The timer runs
  // at the end of a batch, which counts in timer_ns; where the engine's tick is shorter, it also runs within the batch,
  // which counts in arrivals_ns.
  std::vector<Batch> run(std::uint64_t batches, std::uint64_t packets);

  std::uint64_t offered() const { return offered_; }
  std::uint64_t dropped_at_entry() const { return dropped_at_entry_; }
  std::uint64_t ended(Dummynet::Fate fate) const { return fates_[static_cast<std::size_t>(fate)]; }
  std::uint64_t out_of_order() const { return out_of_order_; }
  std::uint64_t in_flight() const { return buffers_.size() - free_.size(); }

 private:
  struct alignas(64) Buffer {
    std::array<std::uint8_t, 64> bytes;
  };

  std::uint32_t generate();
  void input(std::uint32_t buffer);
  void finish(std::uint32_t buffer);  // whoever gets the packet reads it, and gives the buffer back

  Dummynet engine_;
  bool drop_at_entry_;
  Time spacing_, now_ = 0;
  CaptureCounts counts_{};
  PacketDecoder decoder_{counts_};
  std::array<std::uint8_t, datagram_bytes> datagram_{};
  std::uint32_t checksum_ = 0;  // of the template, not folded, without its identification
  std::vector<Buffer> buffers_;
  std::vector<std::uint32_t> free_;
  std::uint64_t offered_ = 0, dropped_at_entry_ = 0, out_of_order_ = 0;
  std::uint16_t next_identification_ = 0;
  std::array<std::uint64_t, 5> fates_{};
};
