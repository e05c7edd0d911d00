#include "sockets/kernel_streams.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "sockets/system_calls.hpp"

// Requests have the layout of those in streams.c, which writes its answer into the request.
struct KernelStreams::StreamRequest {
  std::int32_t socket;
  std::uint32_t number;
  std::uint64_t bytes, done;
  std::int64_t done_at_ns;
  std::uint32_t window, unused;
};

namespace {

struct DatagramsRequest {
  std::int32_t socket;
  std::uint32_t number;
  std::uint64_t times, late;  // addresses
  std::uint32_t count, payload_bytes;
};
struct DatagramsCount {
  std::int32_t socket;
  std::uint32_t unused;
  std::int64_t until_ns;
  std::uint64_t came, came_in_time;
};
constexpr unsigned long datagrams_send = _IOWR('s', 3, DatagramsRequest);
constexpr unsigned long datagrams_count = _IOWR('s', 4, DatagramsCount);

}  // namespace

std::optional<std::uint64_t> KernelStreams::order(unsigned long what, StreamRequest& request) const {
  if (!ioctl(descriptor_, what, &request)) return request.done;
  if (errno == ENOTCONN) return std::nullopt;
  throw_errno("a stream of the kernel's");
}

std::optional<std::uint64_t> KernelStreams::send(int socket, std::uint32_t number, std::uint64_t bytes) const {
  StreamRequest request{socket, number, bytes, 0, 0, 0, 0};
  return order(_IOWR('s', 1, StreamRequest), request);
}

std::optional<std::uint64_t> KernelStreams::receive(int socket, std::uint32_t number, std::uint64_t bytes,
                                                    int window_bytes) const {
  StreamRequest request{socket, number, bytes, 0, 0, static_cast<std::uint32_t>(window_bytes), 0};
  return order(_IOWR('s', 2, StreamRequest), request);
}

std::size_t KernelStreams::send_datagrams(int socket, std::uint32_t number, std::span<const std::int64_t> times_ns,
                                          std::span<std::int64_t> late_ns, std::uint32_t payload_bytes) const {
  DatagramsRequest request{socket,
                           number,
                           reinterpret_cast<std::uintptr_t>(times_ns.data()),
                           reinterpret_cast<std::uintptr_t>(late_ns.data()),
                           static_cast<std::uint32_t>(times_ns.size()),
                           payload_bytes};
  if (ioctl(descriptor_, datagrams_send, &request)) throw_errno("datagrams of the kernel's");
  return request.count;
}

KernelStreams::Arrivals KernelStreams::count_datagrams(int socket, std::int64_t until_ns) const {
  DatagramsCount counted{socket, 0, until_ns, 0, 0};
  if (ioctl(descriptor_, datagrams_count, &counted)) throw_errno("a count of the kernel's");
  return {counted.came, counted.came_in_time};
}

std::span<const KernelStreams::Finished> KernelStreams::finished(std::span<Finished> room) const {
  const ssize_t size = read(descriptor_, room.data(), room.size_bytes());
  if (size < 0) throw_errno("finished streams");
  return room.first(static_cast<std::size_t>(size) / sizeof(Finished));
}
