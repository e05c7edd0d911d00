#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "captures/capture_counts.hpp"

// One packet record. The bytes are valid only during PacketSink::on_packet.
struct CapturedPacket {
  const uint8_t* bytes;
  uint32_t captured_bytes;
  uint32_t wire_bytes;
  int64_t time_us;  // since 1970
  bool has_time;    // false: there is no time stamp, or it is out of range; time_us is then a guess
  uint32_t link_type;
  std::string_view comment{};  // pcapng: the packet's first comment
};

class PacketSink {
 public:
  virtual ~PacketSink() = default;
  virtual void on_packet(const CapturedPacket& packet) = 0;
};

// Finds the packet records of a pcap or pcapng capture that arrives in chunks of any size.
// Formats: draft-ietf-opsawg-pcap (microseconds, nanoseconds, both byte orders), draft-ietf-opsawg-pcapng.
// It never fails: what it cannot read it counts, and what follows a corrupt length it counts without reading it.
class CaptureReader {
 public:
  CaptureReader(PacketSink& sink, CaptureCounts& counts) : sink_(sink), counts_(counts) {}

  // Whether these first bytes (four suffice) open a capture.
  static bool starts_a_capture(const uint8_t* bytes, std::size_t size);

  void feed(const uint8_t* chunk, std::size_t size);

  // Says that the file has ended. The next feed() starts another one.
  void finish();

 private:
  enum class Format { unknown, pcap, pcapng, lost };
  struct Interface {
    uint32_t link_type;
    uint32_t snap_bytes;
    uint64_t ticks_per_second;
    int64_t offset_s;
  };

  std::size_t take_all(const uint8_t* bytes, std::size_t size);  // returns how many bytes it has used

  // Each takes the item that starts at `bytes` and returns its size. 0: it needs more bytes, or has lost track.
  std::size_t take_next(const uint8_t* bytes, std::size_t size);
  std::size_t take_file_header(const uint8_t* bytes, std::size_t size);
  std::size_t take_pcap_record(const uint8_t* bytes, std::size_t size);
  std::size_t take_block(const uint8_t* bytes, std::size_t size);

  void take_interface(const uint8_t* block, std::size_t size);
  void take_packet_block(const uint8_t* block, std::size_t size, uint32_t interface_number);
  void take_simple_packet(const uint8_t* block, std::size_t size);
  void lose_track(std::size_t unread_bytes);

  // Hands code, value and length of each option to `take`, which returns false after the last that it wants.
  template <typename Take>
  void for_each_option(const uint8_t* options, std::size_t size, Take take) const;

  uint16_t read16(const uint8_t* bytes) const;
  uint32_t read32(const uint8_t* bytes) const;

  PacketSink& sink_;
  CaptureCounts& counts_;
  Format format_ = Format::unknown;
  bool big_endian_ = false;
  bool nanoseconds_ = false;
  uint32_t snap_bytes_ = 0;
  uint32_t link_type_ = 0;
  std::vector<Interface> interfaces_;
  std::vector<uint8_t> buffer_;  // the record that began in the last chunk
};
