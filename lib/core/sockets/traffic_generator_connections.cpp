// The part of TrafficGenerator for TCP: connections from their opening to their end, and the bytes on them.
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "sockets/socket_address.hpp"
#include "sockets/system_calls.hpp"
#include "sockets/tcp_state.hpp"
#include "sockets/traffic_generator.hpp"

namespace {

constexpr std::uint64_t learning_bytes = 1 << 16;
// The receiver of a flow with a duration is woken for half of a first window, not for each packet: nobody waits for its
// bytes, and others need the processor. With more the kernel sees the window read in steps, and grows it late.
constexpr int woken_for_bytes = 5 * 1448;
constexpr int tcp_syn_sent = 2;  // as TCP_INFO numbers states

// The error that has ended the connection; 0 while it is open. The kernel tells it only once.
int error_of(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace

void TrafficGenerator::open_tcp(std::size_t number) {
  Connection& connection = connections_[number];
  const Flow& wanted = flows_[connection.flow];
  const bool requests = answers_requests(connection.flow);
  if (!requests) connection.opener.to_write = wanted.duration_ns ? ~std::uint64_t{0} : wanted.size_bytes;
  const SocketKind& kind = kind_of(connection.flow);
  const int made = new_socket(wanted.opener_namespace, SOCK_STREAM, protocol_of(kind), connection.opener_address,
                              source_port(number));
  connection.opener.socket = made;
  set_congestion_control(made, wanted.congestion_control);
  // The mark tells a control that couples subflows which of them belong to one connection.
  if (kind.multipath) set_option(made, SOL_SOCKET, SO_MARK, static_cast<int>(number) + 1, "the mark of subflows");
  send_as_asked(made, kind);
  if (requests) bound_window(made, kind);
  if (kind.segment_bytes) set_option(made, IPPROTO_TCP, TCP_MAXSEG, kind.segment_bytes, "segment size");
  const SocketAddress peer(settings_.ipv6, connection.accepter_address, server_port(wanted));
  connection.state = State::connecting;
  if (connect(made, peer.data(), peer.length()) && errno != EINPROGRESS) throw_errno("connecting");
  watch(made, requests ? EPOLLIN | EPOLLOUT | EPOLLET : EPOLLOUT | EPOLLET, opener, number);
  live_.push_back(number);
  if (wanted.duration_ns && connection.place == 0)
    timers_.set(wanted.start_ns + wanted.duration_ns, stop_flow, static_cast<std::uint32_t>(connection.flow));
}

bool TrafficGenerator::may_stream(std::size_t number) const {
  const Flow& flow = flows_[connections_[number].flow];
  return streams_.exist() && !settings_.kinds[flow.kind].multipath && flow.replication == Replication::none &&
         !answers_requests(connections_[number].flow);
}

// Lets the kernel write or read until it is `bytes` in all, and notes how many it is by now.
void TrafficGenerator::stream(std::size_t number, End& end, std::uint64_t bytes) {
  const bool sends = &end == &connections_[number].opener;
  const auto name = static_cast<std::uint32_t>(number);
  const int window_bytes = kind_of(connections_[number].flow).receive_window_bytes;
  const auto done =
      sends ? streams_.send(end.socket, name, bytes) : streams_.receive(end.socket, name, bytes, window_bytes);
  if (!done) return;
  end.streams = true;
  (sends ? end.written : end.received) = *done;
}

// How many bytes the connection's receiver waits for.
std::uint64_t TrafficGenerator::expected(const Connection& connection) const {
  if (connection.state == State::sent) return connection.opener.written;
  const Flow& flow = flows_[connection.flow];
  return flow.duration_ns ? ~std::uint64_t{0} : flow.size_bytes;
}

void TrafficGenerator::note_received(std::size_t number) {
  Connection& connection = connections_[number];
  if (!connection.accepter.streams || connection.accepter.socket < 0) return;
  if (is_tcp(connection.flow))
    stream(number, connection.accepter, expected(connection));
  else
    count_datagrams(connection);
}

void TrafficGenerator::take_finished_streams() {
  std::array<KernelStreams::Finished, 64> room{};
  for (const KernelStreams::Finished& finished : streams_.finished(room)) {
    const Connection& connection = connections_[finished.number];
    if (!is_tcp(connection.flow))
      order_datagrams(connection.flow, datagrams_an_order);
    else if (connection.state != State::over)
      complete(connection.flow, finished.done_at_ns - began_monotonic_ns_);
  }
}

// Stops a flow that has a duration, and so one connection only.
void TrafficGenerator::stop(std::size_t flow) {
  Connection& connection = connections_[flow];
  if (connection.state == State::over) return;
  if (connection.opener.streams) stream(flow, connection.opener, 0);
  connection.opener.to_write = connection.opener.written;
  if (connection.state == State::sending) connection.state = State::sent;
  if (connection.accepter.streams)
    note_received(flow);
  else if (connection.accepter.socket >= 0 && !kind_of(flow).multipath)
    set_option(connection.accepter.socket, SOL_SOCKET, SO_RCVLOWAT, 1, "waking up");
  complete_if_all_arrived(flow);
}

// Whether the connection is open now.
bool TrafficGenerator::connected(std::size_t number) {
  Connection& connection = connections_[number];
  if (const int error = error_of(connection.opener.socket)) return fail_connection(number, error), false;
  const TcpState state = TcpState::of(connection.opener.socket);
  if (state.info.tcpi_state == tcp_syn_sent) return false;
  connection.attempts = 1 + state.info.tcpi_total_retrans;
  connection.opener.retransmitted_before = connection.opener.timeouts_before = state.info.tcpi_total_retrans;
  connection.timeouts = state.timeouts == TcpState::unknown ? none : 0;
  connection.state = State::sending;
  if (std::int64_t& first = shared_->results[connection.flow].connected_ns; first == none) first = now();
  if (flows_[connection.flow].replication == Replication::repsyn) close_others(number);
  if (answers_requests(connection.flow)) rounds_of(exchange_of_.at(connection.flow)).on_connected(now());
  return true;
}

// Writes what it can, and returns whether all that this end has to write is written.
bool TrafficGenerator::fill(std::size_t number, End& from) {
  while (from.written < from.to_write) {
    const std::size_t wanted = std::min<std::uint64_t>(zeros_.size(), from.to_write - from.written);
    const ssize_t sent = send(from.socket, zeros_.data(), wanted, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (sent < 0) return fail_connection(number, errno), false;
    from.written += static_cast<std::uint64_t>(sent);
  }
  return true;
}

void TrafficGenerator::fill_flow(std::size_t number) {
  Connection& connection = connections_[number];
  End& from = connection.opener;
  if (may_stream(number)) {
    if (const int error = error_of(from.socket)) return fail_connection(number, error);
    stream(number, from, from.to_write);
  } else {
    fill(number, from);
  }
  if (connection.state == State::sending && from.written == from.to_write) connection.state = State::sent;
}

void TrafficGenerator::accept_from(std::size_t listener) {
  for (;;) {
    SocketAddress peer;
    const int made = accept4(listeners_[listener].socket, peer.data(), &peer.length(), SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made < 0) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
      throw_errno("accepting");
    }
    const auto known = connection_from_.find(key(peer.address(), peer.port()));
    if (known == connection_from_.end() || connections_[known->second].state == State::over) {
      close(made);
      continue;
    }
    const std::size_t number = known->second;
    Connection& connection = connections_[number];
    connection.accepter.socket = made;
    if (answers_requests(connection.flow)) {
      const TcpState before = TcpState::of(made);
      connection.accepter.retransmitted_before = before.info.tcpi_total_retrans;
      connection.accepter.timeouts_before = static_cast<std::uint32_t>(std::max<std::int64_t>(before.timeouts, 0));
      send_as_asked(made, kind_of(connection.flow));
      watch(made, EPOLLIN | EPOLLOUT | EPOLLET, accepter, number);
    } else if (may_stream(number)) {
      stream(number, connection.accepter, expected(connection));
      watch(made, EPOLLRDHUP | EPOLLET, accepter, number);
    } else {
      watch(made, EPOLLIN | EPOLLRDHUP, accepter, number);
    }
  }
}

// Reads what is there; returns false when the connection has ended. The kernel drops the bytes (MSG_TRUNC) and does not
// copy them, since nobody looks at them.
bool TrafficGenerator::drain(std::size_t number, End& to) {
  for (;;) {
    const ssize_t got = recv(to.socket, nullptr, 1 << 22, MSG_TRUNC | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return fail_connection(number, got == 0 ? EPIPE : errno), false;
    // From the first full segments the kernel learns how much memory a packet takes, and sets the window's bound anew.
    const std::size_t flow = connections_[number].flow;
    const SocketKind& kind = kind_of(flow);
    if (kind.receive_window_bytes && to.received < learning_bytes)
      set_option(to.socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, kind.receive_window_bytes, "the window");
    const bool had_learned = to.received >= learning_bytes;
    to.received += static_cast<std::uint64_t>(got);
    if (!had_learned && to.received >= learning_bytes && flows_[flow].duration_ns && !kind.multipath)
      set_option(to.socket, SOL_SOCKET, SO_RCVLOWAT, woken_for_bytes, "waking up late");
    if (got < 1 << 22) return true;
  }
}

void TrafficGenerator::read_from(std::size_t number) {
  Connection& connection = connections_[number];
  if (connection.accepter.socket < 0) return;  // closed earlier in this round
  if (!drain(number, connection.accepter)) return;
  note_received(number);
  complete_if_all_arrived(number);
}

void TrafficGenerator::complete_if_all_arrived(std::size_t number) {
  const Connection& connection = connections_[number];
  if (connection.state != State::sent || connection.accepter.received != connection.opener.written) return;
  reset_others(number);
  complete(connection.flow, now());
}

void TrafficGenerator::complete(std::size_t flow, std::int64_t at) {
  shared_->results[flow].completion_ns = at;
  note_result(flow);
  for_connections(flow, [&](std::size_t number) { close_ends(number); });
}

// A replicated flow has failed when the last of its connections has.
void TrafficGenerator::fail_connection(std::size_t number, int error) {
  const std::size_t flow = connections_[number].flow;
  note_result(flow);
  close_ends(number);
  if (!has_open_connection(flow)) shared_->results[flow].error = error;
}

void TrafficGenerator::close_ends(std::size_t number) {
  Connection& connection = connections_[number];
  for (End* each : {&connection.opener, &connection.accepter})
    if (each->socket >= 0) close(std::exchange(each->socket, -1));
  if (std::exchange(connection.state, State::over) == State::over) return;
  if (--open_ == 0 && settings_.until_complete) ended_ = true;
}
