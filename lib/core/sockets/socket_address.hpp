// An address and a port, as system calls take them.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>

class SocketAddress {
 public:
  // The first byte of IPv6 addresses. Their last four bytes are those of IPv4, and the others are 0.
  static constexpr std::uint8_t ipv6_prefix = 0xFD;

  SocketAddress() = default;
  SocketAddress(bool ipv6, std::uint32_t address, int port) {
    const std::uint16_t packed_port = htons(static_cast<std::uint16_t>(port));
    const std::uint32_t packed = htonl(address);
    if (ipv6) {
      in6_.sin6_family = AF_INET6;
      in6_.sin6_port = packed_port;
      if (address != INADDR_ANY) in6_.sin6_addr.s6_addr[0] = ipv6_prefix;
      std::memcpy(&in6_.sin6_addr.s6_addr[12], &packed, sizeof packed);
    } else {
      in4_.sin_family = AF_INET;
      in4_.sin_port = packed_port;
      in4_.sin_addr.s_addr = packed;
      length_ = sizeof in4_;
    }
  }
  std::uint32_t address() const {  // of IPv6, its last four bytes
    std::uint32_t packed = in4_.sin_addr.s_addr;
    if (in4_.sin_family == AF_INET6) std::memcpy(&packed, &in6_.sin6_addr.s6_addr[12], sizeof packed);
    return ntohl(packed);
  }
  int port() const { return ntohs(in4_.sin_family == AF_INET6 ? in6_.sin6_port : in4_.sin_port); }
  sockaddr* data() { return reinterpret_cast<sockaddr*>(&in6_); }
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&in6_); }
  socklen_t& length() { return length_; }
  socklen_t length() const { return length_; }

 private:
  union {
    sockaddr_in6 in6_{};
    sockaddr_in in4_;
  };
  socklen_t length_ = sizeof in6_;
};
