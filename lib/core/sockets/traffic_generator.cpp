#include "sockets/traffic_generator.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

#include "sockets/socket_address.hpp"
#include "sockets/system_calls.hpp"

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr int unsent_bytes = 1 << 17;         // TCP holds at most this many bytes that its window does not let out
constexpr std::size_t zeros_bytes = 1 << 16;  // written at once; no datagram is longer

// How long this thread was ready and had no processor (proc_pid_schedstat); `none` where the kernel does not count it.
std::int64_t waited_for_processor_ns() {
  std::ifstream counted("/proc/thread-self/schedstat");
  std::int64_t ran_ns = 0, waited_ns = 0;
  return counted >> ran_ns >> waited_ns ? waited_ns : TrafficGenerator::none;
}

}  // namespace

TrafficGenerator::TrafficGenerator(std::vector<Flow> flows, const std::vector<Replica>& replicas,
                                   const std::vector<Conversation>& conversations, const Settings& settings,
                                   Shared* shared)
    : flows_(std::move(flows)), settings_(settings), shared_(shared), streams_(settings.streams), zeros_(zeros_bytes) {
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
    if (epoll_ < 0) throw_errno("epoll");
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (timer_ < 0) throw_errno("timer");
    watch(timer_, EPOLLIN | EPOLLET, timer, 0);
    if (streams_.exist()) watch(streams_.descriptor(), EPOLLIN, finished_streams, 0);
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
  if (setns(network_namespace, CLONE_NEWNET)) throw_errno("entering a network namespace");
  entered_ = network_namespace;
}

int TrafficGenerator::new_socket(int network_namespace, int type, int protocol, std::uint32_t address, int port) {
  enter(network_namespace);
  const int made = socket(settings_.ipv6 ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
  if (made < 0) throw_errno("opening a socket");
  const int yes = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const SocketAddress own(settings_.ipv6, address, port);
  if (bind(made, own.data(), own.length())) {
    const int error = errno;
    close(made);
    errno = error;
    throw_errno("binding port " + std::to_string(port));
  }
  return made;
}

void TrafficGenerator::set_congestion_control(int socket, const std::string& name) const {
  std::array<char, 16> kept{};
  socklen_t length = kept.size();
  if (setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())))
    throw_errno("congestion control " + name);
  if (getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kept.data(), &length) ||
      std::string(kept.data(), strnlen(kept.data(), kept.size())) != name)
    throw std::runtime_error("the kernel does not keep congestion control " + name);
}

// Sets what all ends that send payload have in common, besides the congestion control.
void TrafficGenerator::send_as_asked(int socket, const SocketKind& kind) const {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1, "no delay");
  set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, unsent_bytes, "unsent bytes");
  if (!kind.paces) return;
  const std::uint64_t most = std::uint64_t{1} << 40;  // bytes a second: it turns pacing on, and is never reached
  if (setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &most, sizeof most)) throw_errno("pacing");
}

// Bounds the window of an end that receives payload. It has to be called before the end is connected.
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
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event)) throw_errno("epoll");
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
                                is_tcp(flow) ? protocol_of(kind) : 0, address, port);
    if (is_tcp(flow)) {
      listeners_.push_back({made, wanted.kind});
      set_congestion_control(made, wanted.congestion_control);
      bound_window(made, kind);
      if (kind.segment_bytes) set_option(made, IPPROTO_TCP, TCP_MAXSEG, kind.segment_bytes, "segment size");
      if (listen(made, 4096)) throw_errno("listening");
      watch(made, EPOLLIN, listener, listeners_.size() - 1);
    } else {
      sinks_.push_back(made);
      const int room = 1 << 24;  // bytes, or as many as the machine allows
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
  bool may_be_due = true;  // the clock is read only then
  while (!ended_) {
    if (may_be_due) handle_due();
    if (ended_) break;
    arm_timer();
    may_be_due = false;
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) throw_errno("epoll");
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
  if (timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr)) throw_errno("timer");
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
  const Connection& connection = connections_[number];
  connection_from_[key(connection.opener_address, source_port(number))] = number;
  if (is_tcp(connection.flow))
    open_tcp(number);
  else
    open_datagrams(number);
}
