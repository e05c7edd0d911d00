// What the kernel says of a TCP connection (TCP_INFO).
#pragma once
#include <linux/tcp.h>

#include <cstddef>
#include <cstdint>
#include <vector>

struct TcpState {
  static constexpr std::int64_t unknown = -1;

  tcp_info info{};  // fields that this kernel does not have are 0
  std::int64_t timeouts = unknown;

  static TcpState of(int socket);  // the values above, where the kernel refuses to tell
  // The states of an MPTCP connection's subflows; else, or where the kernel cannot tell, that of the connection.
  static std::vector<TcpState> of_subflows(int socket, bool multipath);

 private:
  static TcpState from(const char* told, std::size_t bytes);
};
