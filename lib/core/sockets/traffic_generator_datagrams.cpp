// The part of TrafficGenerator for datagrams: this thread sends and counts them, or the kernel does.
#include <sys/socket.h>

#include <array>
#include <cmath>
#include <span>

#include "sockets/socket_address.hpp"
#include "sockets/system_calls.hpp"
#include "sockets/traffic_generator.hpp"

namespace {
constexpr std::size_t datagrams_at_a_time = 64;
}

void TrafficGenerator::open_datagrams(std::size_t number) {
  Connection& connection = connections_[number];
  const Flow& wanted = flows_[connection.flow];
  connection.opener.socket =
      new_socket(wanted.opener_namespace, SOCK_DGRAM, 0, connection.opener_address, source_port(number));
  connect_datagrams(connection.opener.socket, connection.accepter_address, first_server_port);
  connection.state = State::sending;
  connection.next_ns = wanted.start_ns;
  connection.stop_ns = wanted.start_ns + wanted.duration_ns;
  if (!streams_.exist()) return send_due_datagrams(connection.flow, now());
  connection.accepter.socket =
      new_socket(wanted.accepter_namespace, SOCK_DGRAM, 0, connection.accepter_address, first_server_port);
  connect_datagrams(connection.accepter.socket, connection.opener_address, source_port(number));
  count_datagrams(connection);
  order_datagrams(connection.flow, datagrams_an_order);
}

void TrafficGenerator::connect_datagrams(int socket, std::uint32_t address, int port) const {
  const SocketAddress peer(settings_.ipv6, address, port);
  if (connect(socket, peer.data(), peer.length())) throw_errno("connecting");
}

std::int64_t TrafficGenerator::next_gap_ns(std::size_t flow) {
  const Flow& wanted = flows_[flow];
  const double mean_ns = wanted.packet_bytes * 8 / wanted.rate * 1e9;
  return static_cast<std::int64_t>(std::llround(wanted.poisson ? mean_ns * random_[flow].exponential() : mean_ns));
}

// Gives the kernel the times of the next `most` datagrams, and notes how late those of the last order left.
void TrafficGenerator::order_datagrams(std::size_t flow, std::size_t most) {
  Connection& connection = connections_[flow];
  std::array<std::int64_t, datagrams_an_order> times, late;
  std::size_t count = 0;
  for (; count < most && connection.next_ns < connection.stop_ns; connection.next_ns += next_gap_ns(flow))
    times[count++] = began_monotonic_ns_ + connection.next_ns;
  const std::size_t left =
      streams_.send_datagrams(connection.opener.socket, static_cast<std::uint32_t>(flow), std::span(times).first(count),
                              late, flows_[flow].packet_bytes - datagram_header_bytes());
  connection.opener.streams = true;
  for (std::size_t place = 0; place < left; ++place) shared_->lateness.add(late[place]);
}

// Lets the kernel count arriving datagrams, and notes how many have come.
void TrafficGenerator::count_datagrams(Connection& connection) {
  const auto arrived = streams_.count_datagrams(connection.accepter.socket, began_monotonic_ns_ + connection.stop_ns);
  connection.accepter.streams = true;
  connection.accepter.received = arrived.all * flows_[connection.flow].packet_bytes;
  connection.accepter.within_duration = arrived.in_time * flows_[connection.flow].packet_bytes;
}

// Sends all datagrams that are due, so that lateness shifts packets and never lowers the rate.
void TrafficGenerator::send_due_datagrams(std::size_t flow, std::int64_t at) {
  const Flow& wanted = flows_[flow];
  Connection& connection = connections_[flow];
  for (std::size_t count = 0; count < datagrams_at_a_time; ++count) {
    if (count > 0 && connection.next_ns <= at) at = now();
    const std::int64_t late = at - connection.next_ns;
    if (late < 0 || connection.next_ns >= connection.stop_ns) break;
    shared_->lateness.add(late);
    // A datagram that a full buffer refuses is lost.
    (void)send(connection.opener.socket, zeros_.data(), wanted.packet_bytes - datagram_header_bytes(), MSG_NOSIGNAL);
    connection.next_ns += next_gap_ns(flow);
  }
  if (connection.next_ns < connection.stop_ns)
    timers_.set(connection.next_ns, send_datagram, static_cast<std::uint32_t>(flow));
}

void TrafficGenerator::read_datagrams(std::size_t sink) {
  static std::array<SocketAddress, datagrams_at_a_time> from;
  static std::array<mmsghdr, datagrams_at_a_time> messages;
  for (std::size_t i = 0; i < datagrams_at_a_time; ++i) {
    messages[i] = {};
    messages[i].msg_hdr.msg_name = from[i].data();
    messages[i].msg_hdr.msg_namelen = sizeof(sockaddr_in6);
  }
  const int count = recvmmsg(sinks_[sink], messages.data(), datagrams_at_a_time, MSG_DONTWAIT | MSG_TRUNC, nullptr);
  const std::int64_t came_at = now();
  for (int i = 0; i < count; ++i) {
    const auto known = connection_from_.find(key(from[i].address(), from[i].port()));
    if (known == connection_from_.end()) continue;
    Connection& connection = connections_[known->second];
    const std::uint64_t bytes = messages[i].msg_len + datagram_header_bytes();
    connection.accepter.received += bytes;
    if (came_at <= connection.stop_ns) connection.accepter.within_duration += bytes;
  }
}
