#include "sockets/datagram_sender.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "sockets/system_calls.hpp"

namespace {
constexpr unsigned most_at_once = 64;
}

std::vector<std::array<std::int64_t, 3>> send_datagrams(int socket, std::uint64_t batches, unsigned packets,
                                                        unsigned payload_bytes) {
  std::vector<char> payload(payload_bytes);
  iovec part{payload.data(), payload.size()};
  std::array<mmsghdr, most_at_once> messages{};
  for (mmsghdr& message : messages) message.msg_hdr.msg_iov = &part, message.msg_hdr.msg_iovlen = 1;
  std::vector<std::array<std::int64_t, 3>> timed;
  timed.reserve(batches);
  for (std::uint64_t batch = 0; batch < batches; ++batch) {
    const std::int64_t wall = clock_ns(CLOCK_MONOTONIC), processor = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    std::int64_t accepted = 0;
    for (unsigned left = packets; left > 0;) {
      const int sent = sendmmsg(socket, messages.data(), std::min(left, most_at_once), 0);
      if (sent > 0) {
        accepted += sent;
        left -= static_cast<unsigned>(sent);
      } else if (errno == ENOBUFS) {
        --left;
      } else if (errno != EINTR) {
        throw_errno("sendmmsg");
      }
    }
    timed.push_back({clock_ns(CLOCK_MONOTONIC) - wall, clock_ns(CLOCK_THREAD_CPUTIME_ID) - processor, accepted});
  }
  return timed;
}
