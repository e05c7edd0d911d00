#include "sockets/tcp_state.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

TcpState TcpState::from(const char* told, std::size_t bytes) {
  constexpr std::size_t total_timeouts_at = 240;  // tcpi_total_rto of Linux 6.7, absent from older headers
  TcpState state;
  std::memcpy(&state.info, told, std::min(sizeof state.info, bytes));
  std::uint16_t timeouts = 0;
  if (bytes < total_timeouts_at + sizeof timeouts) return state;
  std::memcpy(&timeouts, told + total_timeouts_at, sizeof timeouts);
  state.timeouts = timeouts;
  return state;
}

TcpState TcpState::of(int socket) {
  std::array<char, 512> told{};
  socklen_t length = told.size();
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, told.data(), &length)) return {};
  return from(told.data(), length);
}

std::vector<TcpState> TcpState::of_subflows(int socket, bool multipath) {
  constexpr int mptcp_level = 284, mptcp_tcp_infos = 2;  // SOL_MPTCP, MPTCP_TCPINFO of linux/mptcp.h
  constexpr std::size_t most_subflows = 16, info_bytes = 256;
  struct Header {
    std::uint32_t header_bytes, subflows, kernel_bytes, user_bytes;
  } header{sizeof(Header), 0, 0, info_bytes};
  std::array<char, sizeof(Header) + most_subflows * info_bytes> told{};
  std::memcpy(told.data(), &header, sizeof header);
  socklen_t length = told.size();
  if (!multipath || getsockopt(socket, mptcp_level, mptcp_tcp_infos, told.data(), &length)) return {of(socket)};
  std::memcpy(&header, told.data(), sizeof header);
  std::vector<TcpState> states;
  for (std::size_t place = 0; place < std::min<std::size_t>(header.subflows, most_subflows); ++place)
    states.push_back(from(told.data() + sizeof header + place * header.user_bytes, header.user_bytes));
  return states;
}
