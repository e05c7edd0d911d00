#include "captures/capture_reader.hpp"

#include <algorithm>

namespace {

constexpr uint32_t kPcapngSection = 0x0A0D0D0A;  // reads the same in both byte orders
constexpr uint32_t kLongestRecord = 1u << 18;    // libpcap's own limit, unless the file's snap length is larger
constexpr uint32_t kLongestBlock = 1u << 26;
constexpr uint64_t kLatestSecond = 1ull << 36;  // year 4147: beyond it, a time stamp is garbage

uint32_t big32(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | bytes[3];
}

uint32_t little32(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[3]) << 24 | static_cast<uint32_t>(bytes[2]) << 16 |
         static_cast<uint32_t>(bytes[1]) << 8 | bytes[0];
}

bool is_pcap_magic(uint32_t magic) { return magic == 0xA1B2C3D4 || magic == 0xA1B23C4D; }

std::size_t padded(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

}  // namespace

bool CaptureReader::starts_a_capture(const uint8_t* bytes, std::size_t size) {
  return size >= 4 && (is_pcap_magic(big32(bytes)) || is_pcap_magic(little32(bytes)) || big32(bytes) == kPcapngSection);
}

uint16_t CaptureReader::read16(const uint8_t* bytes) const {
  return static_cast<uint16_t>(big_endian_ ? bytes[0] << 8 | bytes[1] : bytes[1] << 8 | bytes[0]);
}

uint32_t CaptureReader::read32(const uint8_t* bytes) const { return big_endian_ ? big32(bytes) : little32(bytes); }

template <typename Take>
void CaptureReader::for_each_option(const uint8_t* options, std::size_t size, Take take) const {
  for (std::size_t at = 0; at + 4 <= size;) {
    const uint16_t code = read16(options + at), length = read16(options + at + 2);
    if (code == 0 || at + 4 + length > size || !take(code, options + at + 4, length)) return;
    at += 4 + padded(length);
  }
}

void CaptureReader::feed(const uint8_t* chunk, std::size_t size) {
  const uint8_t* const end = chunk + size;
  const auto left = [&] { return static_cast<std::size_t>(end - chunk); };
  // Only a record that began in the last chunk is put together in the buffer; what follows it is read in place.
  for (std::size_t step = 4096; !buffer_.empty() && chunk < end; step *= 2) {
    const std::size_t begun = buffer_.size(), copied = std::min(step, left());
    buffer_.insert(buffer_.end(), chunk, chunk + copied);
    const std::size_t taken = take_all(buffer_.data(), buffer_.size());
    if (taken == 0) {
      chunk += copied;
    } else {
      chunk += taken - begun;
      buffer_.clear();
    }
  }
  if (format_ == Format::lost) {
    counts_.unread_bytes += left();
  } else if (chunk < end) {
    chunk += take_all(chunk, left());
    buffer_.assign(chunk, end);
  }
}

std::size_t CaptureReader::take_all(const uint8_t* bytes, std::size_t size) {
  std::size_t used = 0;
  while (const std::size_t taken = take_next(bytes + used, size - used)) used += taken;
  return format_ == Format::lost ? size : used;
}

void CaptureReader::finish() {
  if (!buffer_.empty()) {
    ++counts_.truncated_records;
    counts_.unread_bytes += buffer_.size();
  }
  buffer_.clear();
  interfaces_.clear();
  format_ = Format::unknown;
}

void CaptureReader::lose_track(std::size_t unread_bytes) {
  ++counts_.corrupt_records;
  counts_.unread_bytes += unread_bytes;
  format_ = Format::lost;
}

std::size_t CaptureReader::take_next(const uint8_t* bytes, std::size_t size) {
  switch (format_) {
    case Format::unknown:
      return take_file_header(bytes, size);
    case Format::pcap:
      return take_pcap_record(bytes, size);
    case Format::pcapng:
      return take_block(bytes, size);
    case Format::lost:
      break;
  }
  return 0;
}

std::size_t CaptureReader::take_file_header(const uint8_t* bytes, std::size_t size) {
  if (size < 4) return 0;
  if (!starts_a_capture(bytes, size)) {
    lose_track(size);
    return 0;
  }
  if (big32(bytes) == kPcapngSection) {
    format_ = Format::pcapng;
    return take_block(bytes, size);
  }
  constexpr std::size_t header_bytes = 24;
  if (size < header_bytes) return 0;
  big_endian_ = is_pcap_magic(big32(bytes));
  nanoseconds_ = read32(bytes) == 0xA1B23C4D;
  snap_bytes_ = read32(bytes + 16);
  link_type_ = read32(bytes + 20) & 0xFFFF;  // the bits above give the length of a frame check sequence
  format_ = Format::pcap;
  return header_bytes;
}

std::size_t CaptureReader::take_pcap_record(const uint8_t* bytes, std::size_t size) {
  constexpr std::size_t header_bytes = 16;
  if (size < header_bytes) return 0;
  const uint32_t captured = read32(bytes + 8);
  if (captured > std::max(kLongestRecord, std::min(snap_bytes_, kLongestBlock))) {
    lose_track(size);
    return 0;
  }
  if (size < header_bytes + captured) return 0;
  const int64_t fraction_us = nanoseconds_ ? read32(bytes + 4) / 1000 : read32(bytes + 4);
  const bool in_range = fraction_us < 1'000'000;  // a fraction of a second or more is wrong, and not added
  const int64_t time_us = int64_t{read32(bytes)} * 1'000'000 + (in_range ? fraction_us : 0);
  sink_.on_packet({bytes + header_bytes, captured, read32(bytes + 12), time_us, in_range, link_type_});
  return header_bytes + captured;
}

std::size_t CaptureReader::take_block(const uint8_t* bytes, std::size_t size) {
  constexpr std::size_t smallest_block = 12;
  if (size < smallest_block) return 0;
  const bool is_section = big32(bytes) == kPcapngSection;
  if (is_section) {
    constexpr uint32_t byte_order_magic = 0x1A2B3C4D;
    big_endian_ = big32(bytes + 8) == byte_order_magic;
    if (!big_endian_ && little32(bytes + 8) != byte_order_magic) {
      lose_track(size);
      return 0;
    }
    interfaces_.clear();
  }
  const uint32_t type = read32(bytes);
  const uint32_t length = read32(bytes + 4);
  if (length < smallest_block || length > kLongestBlock || length % 4 != 0) {
    lose_track(size);
    return 0;
  }
  if (size < length) return 0;
  if (read32(bytes + length - 4) != length) {  // a block repeats its length at its end
    ++counts_.corrupt_records;
    counts_.unread_bytes += length;
    return length;
  }
  switch (is_section ? kPcapngSection : type) {
    case kPcapngSection:
      break;
    case 1:
      take_interface(bytes, length);
      break;
    case 2:
      take_packet_block(bytes, length, length >= 32 ? read16(bytes + 8) : 0);
      break;
    case 3:
      take_simple_packet(bytes, length);
      break;
    case 6:
      take_packet_block(bytes, length, length >= 32 ? read32(bytes + 8) : 0);
      break;
    case 4:
    case 5:
    case 9:
    case 10:
    case 0xBAD:
    case 0x40000BAD:
      ++counts_.other_blocks;
      break;
    default:
      ++counts_.unknown_blocks;
      break;
  }
  return length;
}

void CaptureReader::take_interface(const uint8_t* block, std::size_t size) {
  Interface found{0, 0, 1'000'000, 0};
  if (size < 20) {
    ++counts_.corrupt_records;
    counts_.unread_bytes += size;
    interfaces_.push_back(found);  // it still takes up a number
    return;
  }
  found.link_type = read16(block + 8);
  found.snap_bytes = read32(block + 12);
  for_each_option(block + 16, size - 20, [&](uint16_t code, const uint8_t* value, std::size_t length) {
    if (code == 9 && length == 1) {  // if_tsresol: a power of ten, or of two where the top bit is set
      const uint32_t exponent = *value & 0x7F;
      uint64_t ticks = 1;
      const bool binary = *value & 0x80;
      if (exponent > (binary ? 63u : 19u)) ++counts_.corrupt_records;
      for (uint32_t i = 0; i < exponent && exponent <= (binary ? 63u : 19u); ++i) ticks *= binary ? 2 : 10;
      found.ticks_per_second = ticks;
    } else if (code == 14 && length == 8) {  // if_tsoffset, in seconds
      const uint64_t low = read32(big_endian_ ? value + 4 : value);
      const uint64_t high = read32(big_endian_ ? value : value + 4);
      found.offset_s = static_cast<int64_t>(high << 32 | low);
    }
    return true;
  });
  interfaces_.push_back(found);
}

void CaptureReader::take_packet_block(const uint8_t* block, std::size_t size, uint32_t interface_number) {
  const bool readable = size >= 32 && interface_number < interfaces_.size() && read32(block + 20) <= size - 32;
  if (!readable) {
    ++counts_.corrupt_records;
    counts_.unread_bytes += size;
    return;
  }
  const Interface& from = interfaces_[interface_number];
  const uint64_t ticks = uint64_t{read32(block + 12)} << 32 | read32(block + 16);
  const uint64_t whole_s = ticks / from.ticks_per_second;
  const bool plausible = whole_s < kLatestSecond && from.offset_s < static_cast<int64_t>(kLatestSecond) &&
                         from.offset_s > -static_cast<int64_t>(kLatestSecond);
  int64_t time_us = 0;
  if (plausible) {
    const auto remainder = static_cast<unsigned __int128>(ticks % from.ticks_per_second);
    time_us = (static_cast<int64_t>(whole_s) + from.offset_s) * 1'000'000 +
              static_cast<int64_t>(remainder * 1'000'000 / from.ticks_per_second);
  }
  const uint32_t captured = read32(block + 20);
  const std::size_t options = std::min(28 + padded(captured), size - 4);
  std::string_view comment;
  for_each_option(block + options, size - 4 - options, [&](uint16_t code, const uint8_t* value, std::size_t length) {
    if (code == 1) comment = {reinterpret_cast<const char*>(value), length};
    return code != 1;
  });
  sink_.on_packet({block + 28, captured, read32(block + 24), time_us, plausible, from.link_type, comment});
}

void CaptureReader::take_simple_packet(const uint8_t* block, std::size_t size) {
  if (size < 16 || interfaces_.empty()) {
    ++counts_.corrupt_records;
    counts_.unread_bytes += size;
    return;
  }
  const uint32_t wire = read32(block + 8);
  uint32_t captured = std::min(wire, static_cast<uint32_t>(size - 16));
  if (interfaces_[0].snap_bytes > 0) captured = std::min(captured, interfaces_[0].snap_bytes);
  sink_.on_packet({block + 12, captured, wire, 0, false, interfaces_[0].link_type});
}
