// A frame that the relay holds until its time has come.
#pragma once
#include <cstdint>
#include <memory>

struct RelayedPacket {
  std::int64_t release_ns;  // CLOCK_REALTIME
  std::uint32_t size;
  std::unique_ptr<unsigned char[]> bytes;
};
