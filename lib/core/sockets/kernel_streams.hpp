// Sources and sinks inside the virtual kernel (/dev/streams, lib/kernel/built_in/streams.c). For connected sockets they
// write and read bytes that nobody looks at. All times are CLOCK_MONOTONIC's, in nanoseconds.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

class KernelStreams {
 public:
  struct Finished {  // a stream that has reached its goal, or a source whose last datagram has left
    std::int64_t done_at_ns;
    std::uint32_t number, unused;
  };
  struct Arrivals {  // datagrams
    std::uint64_t all, in_time;
  };

  explicit KernelStreams(int descriptor) : descriptor_(descriptor) {}  // of /dev/streams; -1 where there is none
  bool exist() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }  // readable when streams have finished

  // All functions throw std::system_error. `number` is the name under which `finished` reports the stream.
  // Lets the kernel write or read until it is `bytes` in all. Returns how many it is by now, or nothing where the
  // connection was reset meanwhile, as the socket itself tells. window_bytes bounds the receive window; 0 for no bound.
  std::optional<std::uint64_t> send(int socket, std::uint32_t number, std::uint64_t bytes) const;
  std::optional<std::uint64_t> receive(int socket, std::uint32_t number, std::uint64_t bytes, int window_bytes) const;
  // Lets the kernel send a datagram at each of the times, which replace the rest of the last order. Returns how many
  // datagrams of the last order have left; `late_ns`, with room for them, gets how late each of them was.
  std::size_t send_datagrams(int socket, std::uint32_t number, std::span<const std::int64_t> times_ns,
                             std::span<std::int64_t> late_ns, std::uint32_t payload_bytes) const;
  // Lets the kernel count arriving datagrams. Returns how many have come, and how many of them until `until_ns`.
  Arrivals count_datagrams(int socket, std::int64_t until_ns) const;
  // Puts the streams that have finished since the last call into `room`, and returns the part that is filled.
  std::span<const Finished> finished(std::span<Finished> room) const;

 private:
  struct StreamRequest;
  std::optional<std::uint64_t> order(unsigned long what, StreamRequest& request) const;

  int descriptor_;
};
