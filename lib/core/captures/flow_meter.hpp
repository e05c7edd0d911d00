#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "captures/batch_thread.hpp"
#include "captures/flow_table.hpp"

// Reads and decodes captures, and hands their packets to a table of flows in batches. With two cores the table has a
// thread of its own. It gets the same packets in the same order, so that the results are the same.
class FlowMeter : public PacketSink {
 public:
  FlowMeter(const MeterSettings& settings, bool two_cores);
  FlowMeter(const FlowMeter&) = delete;  // its parts refer to each other
  FlowMeter& operator=(const FlowMeter&) = delete;

  void feed(const uint8_t* chunk, std::size_t size) { reader_.feed(chunk, size); }
  void end_file() { reader_.finish(); }
  void end_capture();  // ends every open flow; rows and counts are whole from here on

  void on_packet(const CapturedPacket& packet) override;

  CaptureCounts counts() const;
  const std::set<uint32_t>& unsupported_links() const { return decoder_.unsupported_links(); }
  const FlowTable& table() const { return table_; }

 private:
  struct Batch {
    std::vector<Arrival> arrivals;
    std::size_t count = 0;
  };

  void sort_in(const Batch& batch);
  void hand_over();

  CaptureCounts counts_;
  PacketDecoder decoder_;
  CaptureReader reader_;
  int64_t last_us_ = 0;
  FlowTable table_;
  std::size_t batch_size_;
  Batch batch_;
  std::unique_ptr<BatchThread<Batch>> thread_;  // last member, so destroyed first: it uses the others
};
