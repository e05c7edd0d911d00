// Sources and sinks of the virtual kernel's own (/dev/streams, lib/kernel/built_in/streams.c): for sockets that are
// connected, they write and read what nobody looks at. All times are CLOCK_MONOTONIC's, in nanoseconds.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

class KernelStreams {
 public:
  struct Finished {  // a stream that has come as far as it was to go, or a source whose last datagram has left
    std::int64_t done_at_ns;
    std::uint32_t number, unused;
  };
  struct Arrivals {  // datagrams
    std::uint64_t all, in_time;
  };

  explicit KernelStreams(int descriptor) : descriptor_(descriptor) {}  // of /dev/streams; -1 where there is none
  bool exist() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }  // readable when there are finished ones

  // All of them throw std::system_error. `number` is what `finished` calls the stream.
  // Lets the kernel write or read until it is `bytes` in all; the answer is how many it is by now, or nothing when the
  // connection was reset meanwhile, as the socket itself tells. window_bytes bounds the receive window; 0 for none.
  std::optional<std::uint64_t> send(int socket, std::uint32_t number, std::uint64_t bytes) const;
  std::optional<std::uint64_t> receive(int socket, std::uint32_t number, std::uint64_t bytes, int window_bytes) const;
  // Has a datagram sent at each of the times, which replace what is left of the last order. The answer is how many of
  // the last order have left; `late_ns`, with room for them, gets how late each of them did.
  std::size_t send_datagrams(int socket, std::uint32_t number, std::span<const std::int64_t> times_ns,
                             std::span<std::int64_t> late_ns, std::uint32_t payload_bytes) const;
  // Has those that come counted, and says how many have, and how many of them until `until_ns`.
  Arrivals count_datagrams(int socket, std::int64_t until_ns) const;
  // Puts what has finished since the last call into `room`, and returns the part that is filled.
  std::span<const Finished> finished(std::span<Finished> room) const;

 private:
  struct StreamRequest;
  std::optional<std::uint64_t> order(unsigned long what, StreamRequest& request) const;

  int descriptor_;
};
