#include "sockets/traffic_generator.hpp"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr int unsent_bytes = 1 << 17;  // TCP holds no more than this beyond what its window lets out
constexpr std::size_t write_bytes = 1 << 16, datagrams_at_a_time = 64, datagrams_an_order = 1024;
constexpr std::uint64_t taught_bytes = 1 << 16;
// The receiver of a flow that lasts is woken for half of a first window, not for each packet: nobody waits for its
// bytes, and the processor is others'. With more the kernel sees the receive window read in steps, and grows it late.
constexpr int woken_for_bytes = 5 * 1448;
constexpr std::size_t samples_at_a_time = 4096;
constexpr int multipath_tcp = 262;  // IPPROTO_MPTCP, absent from older headers
constexpr int tcp_syn_sent = 2;     // as TCP_INFO numbers states

// Of /dev/streams: an order of an end, answered in its place, and an end that has come as far as it was to go.
struct StreamRequest {
  std::int32_t socket;
  std::uint32_t number;
  std::uint64_t bytes, done;
  std::int64_t done_at_ns;
  std::uint32_t window, unused;
};
struct DatagramsRequest {  // answers how late those of the last order have left, and how many of them have
  std::int32_t socket;
  std::uint32_t number;
  std::uint64_t times, late;  // addresses of whole ns
  std::uint32_t count, payload_bytes;
};
struct DatagramsCount {
  std::int32_t socket;
  std::uint32_t unused;
  std::int64_t until_ns;
  std::uint64_t came, came_in_time;
};
struct StreamEvent {
  std::int64_t done_at_ns;
  std::uint32_t number, unused;
};
constexpr unsigned long stream_send = _IOWR('s', 1, StreamRequest), stream_receive = _IOWR('s', 2, StreamRequest);
constexpr unsigned long datagrams_send = _IOWR('s', 3, DatagramsRequest);
constexpr unsigned long datagrams_count = _IOWR('s', 4, DatagramsCount);

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

std::int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * second_ns + now.tv_nsec;
}

// How long this thread could have run and did not (proc_pid_schedstat); `none` where the kernel does not count it.
std::int64_t waited_for_processor_ns() {
  std::ifstream counted("/proc/thread-self/schedstat");
  std::int64_t ran_ns = 0, waited_ns = 0;
  return counted >> ran_ns >> waited_ns ? waited_ns : TrafficGenerator::none;
}

// An address and a port, as system calls take them.
class Endpoint {
 public:
  Endpoint() = default;
  Endpoint(bool ipv6, std::uint32_t address, int port) {
    const std::uint16_t packed_port = htons(static_cast<std::uint16_t>(port));
    const std::uint32_t packed = htonl(address);
    if (ipv6) {
      in6_.sin6_family = AF_INET6;
      in6_.sin6_port = packed_port;
      if (address != INADDR_ANY) in6_.sin6_addr.s6_addr[0] = TrafficGenerator::ipv6_prefix;
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

void set_option(int socket, int level, int option, int value, const char* what) {
  if (setsockopt(socket, level, option, &value, sizeof value)) fail(what);
}

// Why the connection has ended; 0 while it has not, and once it was asked.
int error_of(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

// Of a connection, from the kernel. Fields that this kernel does not have read as `none`.
struct TcpState {
  tcp_info info{};
  std::int64_t timeouts = TrafficGenerator::none;
};

TcpState ask_kernel(int socket) {
  constexpr std::size_t total_timeouts_at = 240;  // tcpi_total_rto of Linux 6.7, absent from older headers
  std::array<char, 512> bytes{};
  socklen_t length = bytes.size();
  TcpState found;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, bytes.data(), &length)) return found;
  std::memcpy(&found.info, bytes.data(), std::min<std::size_t>(sizeof found.info, length));
  if (length >= total_timeouts_at + sizeof(std::uint16_t)) {
    std::uint16_t timeouts = 0;
    std::memcpy(&timeouts, bytes.data() + total_timeouts_at, sizeof timeouts);
    found.timeouts = timeouts;
  }
  return found;
}

// Of each subflow of a connection: what MPTCP tells (linux/mptcp.h), or the one TCP connection.
std::vector<TcpState> ask_of(int socket, bool multipath) {
  constexpr int level = 284, tcp_infos = 2;
  constexpr std::size_t most = 16, info_bytes = 256, total_timeouts_at = 240;
  struct Header {
    std::uint32_t header_bytes, subflows, kernel_bytes, user_bytes;
  } header{sizeof(Header), 0, 0, info_bytes};
  std::array<char, sizeof(Header) + most * info_bytes> bytes{};
  std::memcpy(bytes.data(), &header, sizeof header);
  socklen_t length = bytes.size();
  std::vector<TcpState> found;
  if (!multipath || getsockopt(socket, level, tcp_infos, bytes.data(), &length)) return {ask_kernel(socket)};
  std::memcpy(&header, bytes.data(), sizeof header);
  for (std::size_t place = 0; place < std::min<std::size_t>(header.subflows, most); ++place) {
    const char* from = bytes.data() + sizeof header + place * header.user_bytes;  // as many as the kernel has
    TcpState& each = found.emplace_back();
    std::memcpy(&each.info, from, std::min<std::size_t>(sizeof each.info, header.user_bytes));
    std::uint16_t timeouts = 0;
    std::memcpy(&timeouts, from + total_timeouts_at, sizeof timeouts);
    if (header.user_bytes >= total_timeouts_at + sizeof timeouts) each.timeouts = timeouts;
  }
  return found;
}

}  // namespace

TrafficGenerator::TrafficGenerator(std::vector<Flow> flows, const std::vector<Replica>& replicas,
                                   const std::vector<Conversation>& conversations, const Settings& settings,
                                   Shared* shared)
    : flows_(std::move(flows)),
      settings_(settings),
      shared_(shared),
      zeros_(std::max<std::size_t>(write_bytes, 65536)) {
  for (std::size_t flow = 0; flow < flows_.size(); ++flow) {
    shared_->results[flow] = {none, none, 0, 0, 0, none, 0, 0};
    random_.emplace_back(settings_.seed, flow);
    connections_.push_back({flow, 0, flows_[flow].opener_address, flows_[flow].accepter_address, {}, {}});
    if (is_tcp(flow)) port_of_.emplace(std::pair(flows_[flow].congestion_control, flows_[flow].kind), 0);
  }
  add_replicas(replicas);
  add_conversations(conversations);
  open_ = connections_.size();
  int port = first_server_port;
  for (auto& [what, its_port] : port_of_) its_port = ++port;  // datagrams have the first
  try {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) fail("epoll");
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (timer_ < 0) fail("timer");
    watch(timer_, EPOLLIN | EPOLLET, timer, 0);
    if (settings_.streams >= 0) watch(settings_.streams, EPOLLIN, finished_streams, 0);
    open_receivers();
  } catch (...) {
    close_all();
    throw;
  }
}

TrafficGenerator::~TrafficGenerator() { close_all(); }

void TrafficGenerator::close_all() {
  for (std::size_t number = 0; number < connections_.size(); ++number) close_ends(number);
  for (const Listener& each : listeners_) close(each.socket);
  for (int each : sinks_) close(each);
  if (timer_ >= 0) close(timer_);
  if (epoll_ >= 0) close(epoll_);
}

std::int64_t TrafficGenerator::now() const { return clock_ns(CLOCK_MONOTONIC) - began_monotonic_ns_; }

void TrafficGenerator::enter(int network_namespace) {
  if (entered_ == network_namespace) return;
  if (setns(network_namespace, CLONE_NEWNET)) fail("entering a network namespace");
  entered_ = network_namespace;
}

int TrafficGenerator::new_socket(int network_namespace, int type, int protocol, std::uint32_t address, int port) {
  enter(network_namespace);
  const int made = socket(settings_.ipv6 ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
  if (made < 0) fail("opening a socket");
  const int yes = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const Endpoint own(settings_.ipv6, address, port);
  if (bind(made, own.data(), own.length())) {
    const int error = errno;
    close(made);
    errno = error;
    fail("binding port " + std::to_string(port));
  }
  return made;
}

void TrafficGenerator::set_congestion_control(int socket, const std::string& name) const {
  std::array<char, 16> kept{};
  socklen_t length = kept.size();
  if (setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())))
    fail("congestion control " + name);
  if (getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kept.data(), &length) ||
      std::string(kept.data(), strnlen(kept.data(), kept.size())) != name)
    throw std::runtime_error("the kernel does not keep congestion control " + name);
}

// What both ends that send payload have in common, beside the congestion control.
void TrafficGenerator::send_as_asked(int socket, const SocketKind& kind) const {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1, "no delay");
  set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, unsent_bytes, "unsent bytes");
  if (!kind.paces) return;
  const std::uint64_t most = std::uint64_t{1} << 40;  // bytes a second: paced, and never held back by this
  if (setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &most, sizeof most)) fail("pacing");
}

// Of an end that receives payload, before it is connected.
void TrafficGenerator::bound_window(int socket, const SocketKind& kind) const {
  // The kernel doubles what it is asked for.
  if (kind.receive_buffer_bytes)
    set_option(socket, SOL_SOCKET, SO_RCVBUF, kind.receive_buffer_bytes / 2, "the receive buffer");
  if (kind.receive_window_bytes)
    set_option(socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, kind.receive_window_bytes, "the receive window");
}

void TrafficGenerator::watch(int descriptor, std::uint32_t events, Source source, std::size_t number) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = std::uint64_t{source} << 32 | static_cast<std::uint32_t>(number);
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event)) fail("epoll");
}

void TrafficGenerator::open_receivers() {
  std::map<std::tuple<int, std::uint32_t, int>, int> open;  // namespace, address, port
  for (const Connection& each : connections_) {
    const std::size_t flow = each.flow;
    const Flow& wanted = flows_[flow];
    const SocketKind& kind = kind_of(flow);
    const int port = is_tcp(flow) ? server_port(wanted) : first_server_port;
    const std::uint32_t address = is_tcp(flow) && kind.multipath ? INADDR_ANY : each.accepter_address;
    if (!open.emplace(std::tuple(wanted.accepter_namespace, address, port), 0).second) continue;
    const int made = new_socket(wanted.accepter_namespace, is_tcp(flow) ? SOCK_STREAM : SOCK_DGRAM,
                                is_tcp(flow) && kind.multipath ? multipath_tcp : 0, address, port);
    if (is_tcp(flow)) {
      listeners_.push_back({made, wanted.kind});
      set_congestion_control(made, wanted.congestion_control);
      bound_window(made, kind);
      if (kind.segment_bytes) set_option(made, IPPROTO_TCP, TCP_MAXSEG, kind.segment_bytes, "segment size");
      if (listen(made, 4096)) fail("listening");
      watch(made, EPOLLIN, listener, listeners_.size() - 1);
    } else {
      sinks_.push_back(made);
      const int room = 1 << 24;  // as much of it as the machine allows
      setsockopt(made, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
      setsockopt(made, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
      watch(made, EPOLLIN, datagram_sink, sinks_.size() - 1);
    }
  }
}

void TrafficGenerator::run() {
  prctl(PR_SET_TIMERSLACK, 1UL);
  const std::int64_t waited_before_ns = waited_for_processor_ns();
  for (std::size_t flow = 0; flow < flows_.size(); ++flow)
    timers_.set(flows_[flow].start_ns, start_flow, static_cast<std::uint32_t>(flow));
  timers_.set(settings_.duration_ns, end, 0);
  if (settings_.window_interval_ns) timers_.set(settings_.window_interval_ns, sample_windows, 0);
  if (settings_.since_ns) timers_.set(settings_.since_ns, counting_begins, 0);
  began_monotonic_ns_ = clock_ns(CLOCK_MONOTONIC);
  __atomic_store_n(&shared_->began_ns, clock_ns(CLOCK_REALTIME), __ATOMIC_RELEASE);
  std::array<epoll_event, 256> events{};
  bool may_be_due = true;  // the clock is asked only then
  while (!ended_) {
    if (may_be_due) handle_due();
    if (ended_) break;
    arm_timer();
    may_be_due = false;
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) fail("epoll");
    for (int i = 0; i < count; ++i) {
      const auto source = static_cast<Source>(events[i].data.u64 >> 32);
      may_be_due |= source == timer;
      handle_event(source, static_cast<std::uint32_t>(events[i].data.u64));
    }
  }
  shared_->lasted_ns = now();
  const std::int64_t waited_ns = waited_for_processor_ns();
  shared_->waited_ns = waited_ns == none ? none : waited_ns - waited_before_ns;
  for (std::size_t flow = 0; flow < flows_.size(); ++flow) {
    read_unwoken(flow);
    if (!is_tcp(flow) && connections_[flow].opener.streams) order_datagrams(flow, 0);
    note_result(flow);
  }
  leave_out_before();
  flush_samples();
}

void TrafficGenerator::handle_due() {
  for (std::int64_t at = now(); !ended_ && timers_.time() <= at;) {
    handle(timers_.take(), at);
    if (timers_.time() <= at) at = now();
  }
}

void TrafficGenerator::handle_event(Source source, std::size_t number) {
  switch (source) {
    case timer:
      armed_ns_ = none;
      break;
    case listener:
      accept_from(number);
      break;
    case opener: {
      Connection& connection = connections_[number];
      if (connection.state == State::connecting && !connected(number)) break;
      if (answers_requests(connection.flow))
        take_answers(number);
      else if (connection.state == State::sending)
        fill_flow(number);
      break;
    }
    case accepter:
      if (answers_requests(connections_[number].flow))
        serve_requests(number);
      else
        read_from(number);
      break;
    case datagram_sink:
      read_datagrams(number);
      break;
    case finished_streams:
      take_finished_streams();
      break;
  }
}

void TrafficGenerator::arm_timer() {
  const std::int64_t due = timers_.time();
  if (due == armed_ns_) return;
  armed_ns_ = due;
  const std::int64_t at = began_monotonic_ns_ + due;
  const itimerspec when{{0, 0}, {at / second_ns, at % second_ns}};
  if (timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr)) fail("timer");
}

void TrafficGenerator::handle(const TimerHeap::Timer& due, std::int64_t at) {
  const std::size_t owner = due.owner;
  switch (due.kind) {
    case start_flow:
      shared_->lateness.add(at - due.time);
      start(owner);
      break;
    case stop_flow:
      stop(owner);
      break;
    case send_datagram:
      send_due_datagrams(owner, at);
      break;
    case request_due:
      rounds_of(owner).ask(owner, at);
      break;
    case answer_due:
      rounds_of(owner).answer(owner, at);
      break;
    case sample_windows:
      sample();
      timers_.set(due.time + settings_.window_interval_ns, sample_windows, 0);
      break;
    case counting_begins:
      begin_to_count();
      break;
    default:
      ended_ = true;
  }
}

void TrafficGenerator::start(std::size_t flow) {
  for_connections(flow, [&](std::size_t number) {
    try {
      open(number);
    } catch (const std::system_error& error) {
      fail_connection(number, error.code().value());
    }
  });
}

void TrafficGenerator::open(std::size_t number) {
  Connection& connection = connections_[number];
  const Flow& wanted = flows_[connection.flow];
  connection_from_[key(connection.opener_address, source_port(number))] = number;
  if (is_tcp(connection.flow)) return open_tcp(number);
  const int made = new_socket(wanted.opener_namespace, SOCK_DGRAM, 0, connection.opener_address, source_port(number));
  connection.opener.socket = made;
  connect_datagrams(made, connection.accepter_address, first_server_port);
  connection.state = State::sending;
  connection.next_ns = wanted.start_ns;
  connection.stop_ns = wanted.start_ns + wanted.duration_ns;
  if (settings_.streams < 0) return send_due_datagrams(connection.flow, now());
  connection.accepter.socket =
      new_socket(wanted.accepter_namespace, SOCK_DGRAM, 0, connection.accepter_address, first_server_port);
  connect_datagrams(connection.accepter.socket, connection.opener_address, source_port(number));
  count_datagrams(connection);
  order_datagrams(connection.flow, datagrams_an_order);
}

void TrafficGenerator::connect_datagrams(int socket, std::uint32_t address, int port) const {
  const Endpoint peer(settings_.ipv6, address, port);
  if (connect(socket, peer.data(), peer.length())) fail("connecting");
}

void TrafficGenerator::open_tcp(std::size_t number) {
  Connection& connection = connections_[number];
  const Flow& wanted = flows_[connection.flow];
  const bool requests = answers_requests(connection.flow);
  if (!requests) connection.opener.to_write = wanted.duration_ns ? ~std::uint64_t{0} : wanted.size_bytes;
  const SocketKind& kind = kind_of(connection.flow);
  const int made = new_socket(wanted.opener_namespace, SOCK_STREAM, kind.multipath ? multipath_tcp : 0,
                              connection.opener_address, source_port(number));
  connection.opener.socket = made;
  set_congestion_control(made, wanted.congestion_control);
  // By which a control that couples subflows knows those of one connection.
  if (kind.multipath) set_option(made, SOL_SOCKET, SO_MARK, static_cast<int>(number) + 1, "the mark of subflows");
  send_as_asked(made, kind);
  if (requests) bound_window(made, kind);
  if (kind.segment_bytes) set_option(made, IPPROTO_TCP, TCP_MAXSEG, kind.segment_bytes, "segment size");
  const Endpoint peer(settings_.ipv6, connection.accepter_address, server_port(wanted));
  connection.state = State::connecting;
  if (connect(made, peer.data(), peer.length()) && errno != EINPROGRESS) fail("connecting");
  watch(made, requests ? EPOLLIN | EPOLLOUT | EPOLLET : EPOLLOUT | EPOLLET, opener, number);
  live_.push_back(number);
  if (wanted.duration_ns && connection.place == 0)
    timers_.set(wanted.start_ns + wanted.duration_ns, stop_flow, static_cast<std::uint32_t>(connection.flow));
}

bool TrafficGenerator::may_stream(std::size_t number) const {
  const Flow& flow = flows_[connections_[number].flow];
  return settings_.streams >= 0 && !settings_.kinds[flow.kind].multipath && flow.replication == Replication::none &&
         !answers_requests(connections_[number].flow);
}

// Lets the kernel write or read until it is `bytes` in all, and notes how many it is by now.
void TrafficGenerator::stream(std::size_t number, End& end, std::uint64_t bytes) {
  const bool sends = &end == &connections_[number].opener;
  const int window_bytes = sends ? 0 : kind_of(connections_[number].flow).receive_window_bytes;
  StreamRequest asked{};
  asked.socket = end.socket;
  asked.number = static_cast<std::uint32_t>(number);
  asked.bytes = bytes;
  asked.window = static_cast<std::uint32_t>(window_bytes);
  if (ioctl(settings_.streams, sends ? stream_send : stream_receive, &asked)) {
    if (errno == ENOTCONN) return;  // reset meanwhile, as the socket itself tells
    fail("a stream of the kernel's");
  }
  end.streams = true;
  (sends ? end.written : end.received) = asked.done;
}

// How many bytes its receiver waits for.
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
  std::array<StreamEvent, 64> events{};
  const ssize_t size = read(settings_.streams, events.data(), sizeof events);
  if (size < 0) fail("finished streams");
  for (std::size_t place = 0; place < static_cast<std::size_t>(size) / sizeof(StreamEvent); ++place) {
    const Connection& connection = connections_[events[place].number];
    if (!is_tcp(connection.flow))
      order_datagrams(connection.flow, datagrams_an_order);
    else if (connection.state != State::over)
      complete(connection.flow, events[place].done_at_ns - began_monotonic_ns_);
  }
}

// Of a flow with a duration, which has one connection.
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
  const TcpState found = ask_kernel(connection.opener.socket);
  if (found.info.tcpi_state == tcp_syn_sent) return false;
  connection.attempts = 1 + found.info.tcpi_total_retrans;
  connection.opener.retransmitted_before = connection.opener.timeouts_before = found.info.tcpi_total_retrans;
  connection.timeouts = found.timeouts < 0 ? none : 0;
  connection.state = State::sending;
  if (std::int64_t& first = shared_->results[connection.flow].connected_ns; first == none) first = now();
  if (flows_[connection.flow].replication == Replication::repsyn) close_others(number);
  if (answers_requests(connection.flow)) rounds_of(exchange_of_.at(connection.flow)).on_connected(now());
  return true;
}

// Whether all that this end has to write is written.
bool TrafficGenerator::fill(std::size_t number, End& from) {
  while (from.written < from.to_write) {
    const std::size_t wanted = std::min<std::uint64_t>(write_bytes, from.to_write - from.written);
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

void TrafficGenerator::accept_from(std::size_t number) {
  for (;;) {
    Endpoint peer;
    const int made = accept4(listeners_[number].socket, peer.data(), &peer.length(), SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made < 0) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
      fail("accepting");
    }
    const auto found = connection_from_.find(key(peer.address(), peer.port()));
    if (found == connection_from_.end() || connections_[found->second].state == State::over) {
      close(made);
      continue;
    }
    Connection& connection = connections_[found->second];
    connection.accepter.socket = made;
    if (answers_requests(connection.flow)) {
      const TcpState before = ask_kernel(made);
      connection.accepter.retransmitted_before = before.info.tcpi_total_retrans;
      connection.accepter.timeouts_before = static_cast<std::uint32_t>(std::max<std::int64_t>(before.timeouts, 0));
      send_as_asked(made, kind_of(connection.flow));
      watch(made, EPOLLIN | EPOLLOUT | EPOLLET, accepter, found->second);
    } else if (may_stream(found->second)) {
      stream(found->second, connection.accepter, expected(connection));
      watch(made, EPOLLRDHUP | EPOLLET, accepter, found->second);
    } else {
      watch(made, EPOLLIN | EPOLLRDHUP, accepter, found->second);
    }
  }
}

// Reads what is there; false when the connection has ended. Bytes are dropped by the kernel (MSG_TRUNC), not copied:
// nobody looks at them.
bool TrafficGenerator::drain(std::size_t number, End& to) {
  for (;;) {
    const ssize_t got = recv(to.socket, nullptr, 1 << 22, MSG_TRUNC | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return fail_connection(number, got == 0 ? EPIPE : errno), false;
    // The first full segment teaches the kernel what a packet weighs, and it sets the window's bound anew.
    const std::size_t flow = connections_[number].flow;
    const SocketKind& kind = kind_of(flow);
    if (kind.receive_window_bytes && to.received < taught_bytes)
      set_option(to.socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, kind.receive_window_bytes, "the window");
    const bool was_taught = to.received >= taught_bytes;
    to.received += static_cast<std::uint64_t>(got);
    if (!was_taught && to.received >= taught_bytes && flows_[flow].duration_ns && !kind.multipath)
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

void TrafficGenerator::note_counters(Connection& connection) {
  if (!is_tcp(connection.flow) || connection.opener.socket < 0) return;
  if (connection.attempts == 0) {  // not connected yet: all it has sent again are SYNs
    connection.attempts = 1 + ask_kernel(connection.opener.socket).info.tcpi_total_retrans;
    return;
  }
  connection.retransmissions = 0;
  std::int64_t timeouts = 0;
  for (const End* each : {&connection.opener, &connection.accepter}) {
    if (each->socket < 0) continue;
    std::int64_t its_timeouts = 0;
    for (const TcpState& found : ask_of(each->socket, kind_of(connection.flow).multipath)) {
      connection.retransmissions += found.info.tcpi_total_retrans;
      its_timeouts += std::max<std::int64_t>(found.timeouts, 0);
    }
    connection.retransmissions -= each->retransmitted_before;
    timeouts += std::max<std::int64_t>(its_timeouts - each->timeouts_before, 0);
  }
  if (connection.timeouts != none) connection.timeouts = timeouts;
}

// What the flow's connections have counted so far.
void TrafficGenerator::note_result(std::size_t flow) {
  Result& result = shared_->results[flow];
  result.retransmissions = result.connection_attempts = 0;
  result.timeouts = none;
  for_connections(flow, [&](std::size_t number) {
    Connection& each = connections_[number];
    note_counters(each);
    note_received(number);
    const std::uint64_t received = answers_requests(flow) ? each.opener.received : each.accepter.received;
    result.delivered_bytes = std::max(result.delivered_bytes, static_cast<std::int64_t>(received));
    result.bytes_within_duration = static_cast<std::int64_t>(each.accepter.within_duration);
    result.retransmissions += each.retransmissions;
    result.connection_attempts += each.attempts;
    if (each.timeouts != none) result.timeouts = std::max<std::int64_t>(result.timeouts, 0) + each.timeouts;
  });
}

// Reads what its receiver was not woken for.
void TrafficGenerator::read_unwoken(std::size_t flow) {
  if (flows_[flow].duration_ns && !connections_[flow].accepter.streams) read_from(flow);
}

void TrafficGenerator::begin_to_count() {
  for (std::size_t flow = 0; flow < flows_.size(); ++flow) read_unwoken(flow), note_result(flow);
  before_.assign(shared_->results, shared_->results + flows_.size());
}

void TrafficGenerator::leave_out_before() {
  for (std::size_t flow = 0; flow < before_.size(); ++flow) {
    Result& result = shared_->results[flow];
    const Result& before = before_[flow];
    result.delivered_bytes -= before.delivered_bytes;
    result.bytes_within_duration -= before.bytes_within_duration;
    result.retransmissions -= before.retransmissions;
    if (result.timeouts != none) result.timeouts -= std::max<std::int64_t>(before.timeouts, 0);
  }
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
  DatagramsRequest asked{};
  asked.socket = connection.opener.socket;
  asked.number = static_cast<std::uint32_t>(flow);
  asked.times = reinterpret_cast<std::uintptr_t>(times.data());
  asked.late = reinterpret_cast<std::uintptr_t>(late.data());
  asked.count = static_cast<std::uint32_t>(count);
  asked.payload_bytes = flows_[flow].packet_bytes - datagram_header_bytes();
  if (ioctl(settings_.streams, datagrams_send, &asked)) fail("datagrams of the kernel's");
  connection.opener.streams = true;
  for (std::size_t place = 0; place < asked.count; ++place) shared_->lateness.add(late[place]);
}

// Has the kernel count those that come, and notes how many have.
void TrafficGenerator::count_datagrams(Connection& connection) {
  DatagramsCount counted{connection.accepter.socket, 0, began_monotonic_ns_ + connection.stop_ns, 0, 0};
  if (ioctl(settings_.streams, datagrams_count, &counted)) fail("a count of the kernel's");
  connection.accepter.streams = true;
  connection.accepter.received = counted.came * flows_[connection.flow].packet_bytes;
  connection.accepter.within_duration = counted.came_in_time * flows_[connection.flow].packet_bytes;
}

// All that are due are sent, so that lateness shifts packets and never lowers the rate.
void TrafficGenerator::send_due_datagrams(std::size_t flow, std::int64_t at) {
  const Flow& wanted = flows_[flow];
  Connection& connection = connections_[flow];
  for (std::size_t count = 0; count < datagrams_at_a_time; ++count) {
    if (count > 0 && connection.next_ns <= at) at = now();
    const std::int64_t late = at - connection.next_ns;
    if (late < 0 || connection.next_ns >= connection.stop_ns) break;
    shared_->lateness.add(late);
    // What a full buffer refuses is lost.
    (void)send(connection.opener.socket, zeros_.data(), wanted.packet_bytes - datagram_header_bytes(), MSG_NOSIGNAL);
    connection.next_ns += next_gap_ns(flow);
  }
  if (connection.next_ns < connection.stop_ns)
    timers_.set(connection.next_ns, send_datagram, static_cast<std::uint32_t>(flow));
}

void TrafficGenerator::read_datagrams(std::size_t sink) {
  static std::array<Endpoint, datagrams_at_a_time> from;
  static std::array<mmsghdr, datagrams_at_a_time> messages;
  for (std::size_t i = 0; i < datagrams_at_a_time; ++i) {
    messages[i] = {};
    messages[i].msg_hdr.msg_name = from[i].data();
    messages[i].msg_hdr.msg_namelen = sizeof(sockaddr_in6);
  }
  const int count = recvmmsg(sinks_[sink], messages.data(), datagrams_at_a_time, MSG_DONTWAIT | MSG_TRUNC, nullptr);
  const std::int64_t came_at = now();
  for (int i = 0; i < count; ++i) {
    const auto found = connection_from_.find(key(from[i].address(), from[i].port()));
    if (found == connection_from_.end()) continue;
    Connection& connection = connections_[found->second];
    const std::uint64_t bytes = messages[i].msg_len + datagram_header_bytes();
    connection.accepter.received += bytes;
    if (came_at <= connection.stop_ns) connection.accepter.within_duration += bytes;
  }
}

void TrafficGenerator::sample() {
  const std::int64_t at = now();
  std::erase_if(live_, [&](std::size_t number) { return connections_[number].state == State::over; });
  for (const std::size_t number : live_) {
    const Connection& each = connections_[number];
    const int sends = answers_requests(each.flow) ? each.accepter.socket : each.opener.socket;
    if (each.state == State::connecting || sends < 0) continue;
    auto place = static_cast<std::int64_t>(each.place);
    for (const TcpState& found : ask_of(sends, kind_of(each.flow).multipath)) {
      const tcp_info& info = found.info;
      const std::int64_t in_flight = std::int64_t{info.tcpi_unacked} - info.tcpi_sacked - info.tcpi_lost +
                                     info.tcpi_retrans;  // as the kernel's tcp_packets_in_flight
      samples_.push_back({static_cast<std::int64_t>(each.flow), place++, at, info.tcpi_snd_cwnd, info.tcpi_snd_ssthresh,
                          in_flight, info.tcpi_rtt, info.tcpi_snd_mss});
    }
  }
  if (samples_.size() >= samples_at_a_time) flush_samples();
}

void TrafficGenerator::flush_samples() {
  const char* from = reinterpret_cast<const char*>(samples_.data());
  std::size_t left = samples_.size() * sizeof(Sample);
  while (left > 0) {
    const ssize_t wrote = write(settings_.sample_descriptor, from, left);
    if (wrote < 0 && errno != EINTR) fail("writing samples");
    if (wrote > 0) from += wrote, left -= static_cast<std::size_t>(wrote);
  }
  samples_.clear();
}
