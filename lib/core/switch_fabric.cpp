#include "switch_fabric.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

#include "ecn_bits.hpp"

namespace {

constexpr std::uint32_t ethernet_link = 1, frame_bytes = 2048;
constexpr std::int64_t write_interval_ns = 20'000'000, longest_wait_ns = 50'000'000;
constexpr std::int64_t look_interval_ns = 1'000'000, longest_look_ns = 5'000'000;
constexpr std::size_t frames_a_call = 64;
constexpr int longest_refusal_ms = 100, waiting_column = 11;  // the latter of softnet_stat

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

std::int64_t end_of(std::uint64_t address, std::uint16_t port) { return static_cast<std::int64_t>(address << 16 | port); }

template <class Item>
void append(int descriptor, std::vector<Item>& items) {
  const std::size_t size = items.size() * sizeof(Item);
  if (write(descriptor, items.data(), size) != static_cast<ssize_t>(size)) fail("writing records");
  items.clear();
}

}  // namespace

SwitchFabric::SwitchFabric(Simulator& network, const std::vector<Host>& hosts, const std::vector<Cable>& cables,
                           const std::vector<GivenPath>& paths, Changes changes, const Settings& settings,
                           Shared* shared)
    : network_(network), settings_(settings), shared_(shared), changes_(std::move(changes)), began_ns_(now_ns()) {
  for (const Host& host : hosts) node_named_[host.address] = host.node;
  for (const Cable& cable : cables) {
    cable_behind_[cable.interface] = cable;
    interface_behind_[cable.to_host] = cable.interface;
  }
  for (const GivenPath& path : paths) given_[{path.source_address, path.source_port, path.destination_address}] = path;
  network_.deliver_guests_to(
      [this](std::uint32_t place, std::uint32_t link, bool marked) { take_out(place, link, marked); });
  network_.advance(0);
  is_watched_.resize(network_.links().size());
  sender_ = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (sender_ < 0) fail("packet socket");
  const int yes = 1;
  setsockopt(sender_, SOL_PACKET, PACKET_QDISC_BYPASS, &yes, sizeof yes);  // only faster
  receivers_ = open("/proc/net/softnet_stat", O_RDONLY | O_CLOEXEC);
}

SwitchFabric::~SwitchFabric() {
  if (sender_ >= 0) close(sender_);
  if (receivers_ >= 0) close(receivers_);
}

std::int64_t SwitchFabric::now_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);  // the clock of packet stamps
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// From the ring into the network.
void SwitchFabric::take_in(const PacketRing::Arrival& arrival) {
  const auto cable = cable_behind_.find(arrival.interface);
  if (cable == cable_behind_.end()) return;
  ++shared_->received;
  DecodedPacket packet;
  const CapturedPacket captured{arrival.bytes, arrival.size, arrival.size, 0, false, ethernet_link};
  if (!arrival.whole || !decoder_.decode(captured, packet) || packet.key.ip_version != 4) {
    ++shared_->failed;
    return;
  }
  const std::uint64_t receiver = packet.from_low ? packet.key.high_address[1] : packet.key.low_address[1];
  if (!node_named_.contains(static_cast<std::uint32_t>(receiver))) {
    ++shared_->failed;
    return;
  }
  // Two processors may fill the ring out of order, by microseconds.
  const Time time = std::max(virtual_time(arrival.stamp_ns), network_.now());
  advance(time);
  Connection& connection = connection_of(packet);
  const std::uint32_t path = way_of(connection, packet, cable->second);
  record_links();  // before the place of a packet that was lost inside is another's
  const std::uint32_t place =
      network_.admit(path, arrival.size, ecn_bits::capable(arrival.bytes, arrival.size), connection.number);
  if (place >= frames_.size()) frames_.resize(place + 1);
  Frame& frame = frames_[place];
  if (!frame.bytes && !spare_.empty()) {
    frame.bytes = std::move(spare_.back());
    spare_.pop_back();
  }
  if (!frame.bytes) frame.bytes = std::make_unique_for_overwrite<unsigned char[]>(frame_bytes);
  std::memcpy(frame.bytes.get(), arrival.bytes, arrival.size);
  frame.size = arrival.size;
  frame.connection = connection.number;
}

SwitchFabric::Connection& SwitchFabric::connection_of(const DecodedPacket& packet) {
  const FlowKey& key = packet.key;
  const auto [found, is_new] = connections_.try_emplace(key);
  Connection& connection = found->second;
  if (!is_new) return connection;
  connection.number = static_cast<std::uint32_t>(connections_.size() - 1);
  const std::int64_t low = end_of(key.low_address[1], key.low_port), high = end_of(key.high_address[1], key.high_port);
  records_.push_back({real_time(network_.now()), no_link, connection.number, packet.from_low ? low : high,
                      packet.from_low ? high : low});
  return connection;
}

// A connection keeps its way until routes change, or its host's kernel takes another cable.
std::uint32_t SwitchFabric::way_of(Connection& connection, const DecodedPacket& packet, const Cable& cable) {
  Way& way = packet.from_low ? connection.from_low : connection.from_high;
  if (way.cable != cable.from_host || way.routings != network_.routings())
    way = {path_of(packet, cable), cable.from_host, network_.routings()};
  return way.path;
}

// Every router hashes addresses, ports and protocol in a way of its own; a path that was given comes first.
std::uint32_t SwitchFabric::path_of(const DecodedPacket& packet, const Cable& cable) const {
  const FlowKey& key = packet.key;
  auto source = static_cast<std::uint32_t>(key.low_address[1]), destination = static_cast<std::uint32_t>(key.high_address[1]);
  std::uint16_t source_port = key.low_port, destination_port = key.high_port;
  if (!packet.from_low) {
    std::swap(source, destination);
    std::swap(source_port, destination_port);
  }
  const auto there = given_.find({source, source_port, destination});
  if (there != given_.end()) return network_.given_path(there->second.forward);
  const auto back = given_.find({destination, destination_port, source});
  if (back != given_.end()) return network_.given_path(back->second.backward);
  const std::uint64_t ends = std::uint64_t{source} << 32 | destination;
  const std::uint64_t ports = std::uint64_t{key.protocol} << 32 | std::uint64_t{source_port} << 16 | destination_port;
  const std::uint64_t hash = ShortestPaths::mixed(ends ^ ShortestPaths::mixed(ports ^ ShortestPaths::mixed(settings_.seed)));
  const std::uint32_t to = node_named_.at(destination);
  if (cable.is_chosen) return network_.path_over(cable.from_host, to, hash);
  return network_.shortest_path(network_.node_before(cable.from_host), to, hash);
}

// Changes are due at instants of the experiment, which begins long after this process.
void SwitchFabric::follow_experiment() {
  const std::int64_t began_ns = __atomic_load_n(&shared_->began_ns, __ATOMIC_ACQUIRE);
  if (began_ns == 0 || (changes_.links.empty() && changes_.uses.empty())) return;
  const Time origin = virtual_time(began_ns);
  for (Simulator::LinkChange& change : changes_.links) {
    change.at += origin;
    network_.change_link(change);
  }
  for (LinkUse& use : changes_.uses) network_.use_links(use.at + origin, std::move(use.in_use));
  changes_ = {};
  network_.start_changes();
}

// Lets virtual time pass, and samples queues meanwhile.
void SwitchFabric::advance(Time until) {
  const std::int64_t every = __atomic_load_n(&shared_->sample_every, __ATOMIC_RELAXED);
  if (every == 0) {
    next_sample_ns_ = 0;
  } else {
    if (next_sample_ns_ == 0) next_sample_ns_ = (real_time(network_.now()) / every + 1) * every;
    for (; virtual_time(next_sample_ns_) <= until; next_sample_ns_ += every) {
      network_.advance(virtual_time(next_sample_ns_));
      for (std::size_t link = 0; link < network_.links().size(); ++link) {
        if (!shared_->links[link].sampled) continue;
        const Backlog waiting = network_.links()[link]->waiting(network_.now());
        samples_.push_back({next_sample_ns_, static_cast<std::int64_t>(link), static_cast<std::int64_t>(waiting.packets),
                            static_cast<std::int64_t>(waiting.bytes)});
      }
    }
  }
  network_.advance(until);
}

void SwitchFabric::take_out(std::uint32_t place, std::uint32_t link, bool marked) {
  record_links();  // while the packet's bytes are here
  Frame& frame = frames_[place];
  if (marked) ecn_bits::mark(frame.bytes.get());
  leaving_.push_back({std::move(frame.bytes), frame.size, interface_behind_.at(link), real_time(network_.now())});
}

// What has arrived, to the hosts: many packets a call. Where so many wait for their receivers' processor that the socket
// takes no more, later ones wait here, and are late.
void SwitchFabric::hand_over() {
  std::array<mmsghdr, frames_a_call> messages;
  std::array<iovec, frames_a_call> parts;
  std::array<sockaddr_ll, frames_a_call> to;
  for (std::size_t first = 0; first < leaving_.size();) {
    const std::size_t count = std::min(frames_a_call, leaving_.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      const Leaving& packet = leaving_[first + i];
      parts[i] = {packet.bytes.get(), packet.size};
      to[i] = {};
      to[i].sll_family = AF_PACKET;
      to[i].sll_ifindex = packet.interface;
      to[i].sll_halen = 6;
      std::memcpy(to[i].sll_addr, packet.bytes.get(), 6);
      std::memcpy(&to[i].sll_protocol, packet.bytes.get() + 12, 2);
      messages[i] = {};
      messages[i].msg_hdr.msg_name = &to[i];
      messages[i].msg_hdr.msg_namelen = sizeof to[i];
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    const std::int64_t now = now_ns();
    const int sent = sendmmsg(sender_, messages.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
    pollfd room{sender_, POLLOUT, 0};
    if (sent < 0 && errno == EAGAIN && poll(&room, 1, longest_refusal_ms) > 0) continue;
    for (int i = 0; i < sent; ++i) shared_->lateness.add(now - leaving_[first + static_cast<std::size_t>(i)].due_ns);
    shared_->delivered += std::max(sent, 0);
    may_wait_ = true;
    shared_->failed += sent <= 0;  // the first of these packets is given up
    first += static_cast<std::size_t>(std::max(sent, 1));
  }
  for (Leaving& packet : leaving_) spare_.push_back(std::move(packet.bytes));
  leaving_.clear();
}

// Adds up how many packets wait for the processors that receive them, of all networks of this kernel. Looked at a tick
// after packets were sent, and as long as some wait; what waits for less than a tick is not seen.
void SwitchFabric::look_at_receivers(std::int64_t now) {
  if (now < last_look_ns_ + look_interval_ns) return;
  std::array<char, 65536> text;
  const ssize_t size = pread(receivers_, text.data(), text.size() - 1, 0);
  if (size <= 0) return;
  text[static_cast<std::size_t>(size)] = 0;
  std::int64_t waiting = 0, received = 0;
  char* next = text.data();
  for (char* end; (end = std::strchr(next, '\n')); next = end + 1) {  // a line a processor, in hexadecimal
    received += static_cast<std::int64_t>(std::strtoul(next, &next, 16));
    unsigned long number = 0;
    for (int column = 1; column <= waiting_column && next < end; ++column) number = std::strtoul(next, &next, 16);
    waiting += static_cast<std::int64_t>(number);
  }
  const std::int64_t since = now - last_look_ns_;
  if (since <= longest_look_ns) {  // else nothing was sent for a while
    shared_->waited_ns += waiting * since;
    shared_->waited += received - received_then_;
  }
  last_look_ns_ = now;
  received_then_ = received;
  may_wait_ = waiting > 0;
}

void SwitchFabric::watch_links() {
  for (std::uint32_t number = 0; number < is_watched_.size(); ++number) {
    if (!shared_->links[number].recorded || is_watched_[number]) continue;
    is_watched_[number] = true;
    network_.links()[number]->record_departures();
    watched_.push_back({number, 0});
  }
}

// What has left recorded links since the last time.
void SwitchFabric::record_links() {
  for (Watched& watched : watched_) {
    const auto& departures = network_.links()[watched.link]->departures();
    for (; watched.written < departures.size() && departures[watched.written].time <= network_.now(); ++watched.written) {
      const SimulatedLink::Departure& departure = departures[watched.written];
      records_.push_back({real_time(departure.time), watched.link, frames_[departure.flow].connection, departure.bytes,
                          departure.waited / 1000});
      if (shared_->links[watched.link].captured) capture(watched.link, departure);
    }
  }
}

void SwitchFabric::capture(std::uint32_t link, const SimulatedLink::Departure& departure) {
  const Frame& frame = frames_[departure.flow];
  const std::size_t kept = std::min<std::size_t>(frame.size, kept_bytes);
  Captured& captured = captured_.emplace_back(
      Captured{real_time(departure.time), link, departure.bytes, static_cast<std::int64_t>(kept), {}});
  std::memcpy(captured.frame, frame.bytes.get(), kept);
  if (departure.marked) ecn_bits::mark(captured.frame);
}

void SwitchFabric::write_out() {
  last_write_ns_ = now_ns();
  watch_links();
  record_links();
  append(settings_.sample_descriptor, samples_);
  append(settings_.packet_descriptor, records_);
  append(settings_.capture_descriptor, captured_);
}

// Whoever asks finds the state of all links, and all records so far in the files.
void SwitchFabric::answer() {
  const std::int64_t asked = __atomic_load_n(&shared_->asked, __ATOMIC_ACQUIRE);
  if (asked == shared_->answered) return;
  write_out();
  for (std::size_t number = 0; number < network_.links().size(); ++number) {
    const SimulatedLink::Counts counts = network_.links()[number]->counts(network_.now());
    LinkState& state = shared_->links[number];
    state.sent_packets = static_cast<std::int64_t>(counts.sent_packets);
    state.sent_bytes = static_cast<std::int64_t>(counts.sent_bytes);
    state.dropped_packets = static_cast<std::int64_t>(counts.dropped_packets);
    state.marked_packets = static_cast<std::int64_t>(counts.marked_packets);
    state.lost_packets = static_cast<std::int64_t>(counts.lost_packets);
  }
  __atomic_store_n(&shared_->answered, asked, __ATOMIC_RELEASE);
}

// While something is about to happen, ticks; else until a packet comes.
void SwitchFabric::wait() const {
  const Time next = network_.next_event();
  const std::int64_t now = now_ns(), wake = now + settings_.tick_ns;
  std::int64_t left = next == never ? longest_wait_ns : std::min(real_time(next) - now, longest_wait_ns);
  if (may_wait_) left = std::min(left, look_interval_ns);
  if (now + left > wake) {
    ring_.wait(left);
  } else {
    const timespec until{wake / 1'000'000'000, wake % 1'000'000'000};
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, nullptr);
  }
}

void SwitchFabric::run() {
  prctl(PR_SET_TIMERSLACK, 1UL);  // a thread's timers are otherwise up to 50 us late on purpose
  for (;;) {
    follow_experiment();
    const std::int64_t now = now_ns();  // before reading, so that no earlier packet comes after it
    look_at_receivers(now);
    ring_.drain([&](const PacketRing::Arrival& arrival) { take_in(arrival); });
    advance(std::max(virtual_time(now), network_.now()));
    hand_over();
    shared_->missed += static_cast<std::int64_t>(ring_.take_missed());
    if (now >= last_write_ns_ + write_interval_ns) write_out();
    answer();
    wait();
  }
}
