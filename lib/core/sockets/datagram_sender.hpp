// Sends datagrams of the smallest size through the kernel as fast as it takes them, timed in batches.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

// Sends over a connected, blocking UDP socket. A batch is {wall ns, processor ns of this thread, datagrams accepted}. A
// datagram that the kernel refuses (ENOBUFS, as when a filter drops it) counts as sent, for its work was done. Throws
// std::system_error for any other failure.
std::vector<std::array<std::int64_t, 3>> send_datagrams(int socket, std::uint64_t batches, unsigned packets,
                                                        unsigned payload_bytes);
