#include "simulation/endpoints.hpp"

#include <algorithm>
#include <utility>

#include "network/shortest_paths.hpp"

void Endpoints::start_after(std::uint32_t flow, std::uint32_t earlier) {
  check_flow(flow), check_flow(earlier);
  if (flow == earlier) throw std::invalid_argument("flow " + std::to_string(flow) + " after itself");
  flows_[flow].start = never;
  followers_[earlier].push_back(flow);
}

void Endpoints::record_deliveries(std::uint32_t flow) {
  check_flow(flow);
  followed_[flow] = 0;
}

void Endpoints::begin() {
  results_.resize(flows_.size());
  connections_.resize(numbers());
  for (std::size_t i = 0; i < companions_.size(); ++i)
    group(companions_[i].flow).add_member(static_cast<std::uint32_t>(flows_.size() + i));
  if (!halves_) return;
  halves_->receivers.resize(numbers());
  halves_->grown.resize(flows_.size());
}

// Flows.

void Endpoints::start(std::uint32_t number) {
  const Flow& flow = flows_[number];
  if (!flow.is_tcp) {
    if (halves_ && !halves_->own[flow.from]) return;
    const std::uint32_t path = datagram_path(number);
    const RandomStream gaps = random_.stream(RandomStreams::datagram_gaps, number);
    DatagramSource& source = datagram_sources_.emplace(number, DatagramSource{path, gaps}).first->second;
    // A Poisson process has its first packet after a gap; a regular one at once.
    return flow.poisson ? set_datagram_timer(number, source) : send_datagram(number);
  }
  if (flow.bytes == TcpSender::unlimited)
    schedule_.set_timer(schedule_.now() + flow.duration, timer::flow_stop, number);
  if (halves_) return open_halves(number);
  const auto found = groups_.find(number);
  if (found == groups_.end()) return open(number, nullptr, 0);
  found->second->open();
}

void Endpoints::start_followers(std::uint32_t flow) {
  const auto found = followers_.find(flow);
  if (found == followers_.end()) return;
  for (std::uint32_t follower : found->second) {
    flows_[follower].start = schedule_.now();
    schedule_.set_timer(schedule_.now(), timer::flow_follows, follower);
  }
}

void Endpoints::stop(std::uint32_t flow) {
  Connection* connection = connections_[flow].get();
  if (!connection || (connection->group() && connection->group()->stop())) return;
  TcpSender& sender = connection->sender();
  sender.finish();
  if (halves_) {
    if (sender.connected()) halves_->stops[flow] = {schedule_.now(), sender.bytes()};
    return close_if_done(*connection);
  }
  if (sender.connected() && connection->receiver().in_order() == sender.bytes()) complete_now(flow);
  close_if_done(*connection);
}

void Endpoints::send_datagram(std::uint32_t flow) {
  DatagramSource& source = datagram_sources_.at(flow);
  fabric_.send(fabric_.new_packet(flow, source.path, static_cast<std::uint32_t>(flows_[flow].bytes), 0));
  set_datagram_timer(flow, source);
}

void Endpoints::set_datagram_timer(std::uint32_t number, DatagramSource& source) {
  const Flow& flow = flows_[number];
  const double factor = flow.poisson ? source.gaps.exponential() : 1.0;
  const double gap = std::min(factor * static_cast<double>(flow.gap), 1e18);
  const Time next = schedule_.now() + std::max<Time>(1, static_cast<Time>(gap + 0.5));
  if (next < flow.start + flow.duration) schedule_.set_timer(next, timer::datagram_due, number);
}

// Connections.

void Endpoints::open(std::uint32_t number, ConnectionGroup* group, std::uint32_t place) {
  connections_[number] = new_connection(number, group, place);
  connections_[number]->send_syn();
}

std::unique_ptr<Connection> Endpoints::new_connection(std::uint32_t number, ConnectionGroup* group,
                                                      std::uint32_t place) {
  const std::uint32_t flow = flow_of(number);
  const bool same_path = number != flow && companions_[number - flows_.size()].same_path;
  const std::uint64_t key = random_.stream(RandomStreams::path_choice, same_path ? flow : number).next();
  const Connection::Paths paths = paths_of(number, key);
  const bool appends = group && group->appends();
  auto control = control_for(number, group, place);
  TcpSettings tcp = *flows_[flow].tcp;
  tcp.receive_window_bytes = window_limit(tcp);  // for the sender, which heeds the smaller of the two
  if (tcp.boundary_spread_bytes > 0) tcp.boundary_key = random_.stream(RandomStreams::segment_ends, number).next();
  auto* told = dynamic_cast<ExplicitControl*>(control.get());
  if (told) told->adapt(tcp);
  TcpSender sender =
      appends ? TcpSender(tcp, std::move(control)) : TcpSender(tcp, std::move(control), flows_[flow].bytes);
  const TcpReceiver receiver(*flows_[flow].tcp, sender.precise_ecn(), appends);
  return std::make_unique<Connection>(*this, number, group, place, key, paths, std::move(sender), receiver, told);
}

std::unique_ptr<CongestionControl> Endpoints::control_for(std::uint32_t number, const ConnectionGroup* group,
                                                          std::uint32_t place) const {
  const auto own = own_controls_.find(flow_of(number));
  if (own != own_controls_.end()) return own->second();
  const std::uint64_t random = random_.stream(RandomStreams::control_choices, number).next();
  return flows_[flow_of(number)].control({tcp_of(number), group ? group->coupling() : nullptr, place, random});
}

void Endpoints::deliver(std::uint32_t place) {
  const Packet& packet = fabric_.packet(place);
  const std::uint32_t number = packet.flow;
  Connection* connection = connections_[number].get();
  if (connection && !halves_) {
    connection->take(place);
    if (!followed_.empty()) note_delivery(number);
    return;
  }
  if (number < flows_.size() && !flows_[number].is_tcp) {
    const Flow& flow = flows_[number];
    results_[number].delivered_bytes += packet.wire_bytes;
    if (schedule_.now() <= flow.start + flow.duration) results_[number].bytes_within_duration += packet.wire_bytes;
    return fabric_.give_back(place);
  }
  if (halves_) return deliver_to_half(place);
  fabric_.give_back(place);  // a straggler of a closed connection
}

void Endpoints::close_if_done(Connection& connection) {
  if (!connection.is_done()) return;
  if (connection.group()) connection.group()->on_done(connection);
  close(connection.number());
}

void Endpoints::close(std::uint32_t number) {
  record(results_[flow_of(number)], *connections_[number]);
  if (halves_) tell_receiver_of_end(number);
  connections_[number].reset();
}

// Halves of connections.

void Endpoints::divide(std::vector<bool> own_nodes) {
  schedule_.check_set_up();
  if (own_nodes.size() != fabric_.routes().nodes()) throw std::invalid_argument("not a flag for each node");
  bool whole = !followed_.empty() || !groups_.empty() || !own_controls_.empty() || !followers_.empty();
  for (const Flow& flow : flows_) whole |= flow.is_tcp && flow.tcp->receiver == ReceiverPolicy::optimistic;
  if (whole) throw std::invalid_argument("connections that cannot be halves");
  halves_ = std::make_unique<Halves>();
  halves_->own = std::move(own_nodes);
}

void Endpoints::open_halves(std::uint32_t number) {
  const Flow& flow = flows_[number];
  if (halves_->own[flow.to]) halves_->receivers[number] = new_connection(number, nullptr, 0);
  if (halves_->own[flow.from]) open(number, nullptr, 0);
}

void Endpoints::deliver_to_half(std::uint32_t place) {
  const Packet& packet = fabric_.packet(place);
  const std::uint32_t number = packet.flow;
  const bool to_receiver = !packet.has(Packet::acknowledgement);
  Connection* half = (to_receiver ? halves_->receivers : connections_)[number].get();
  if (!half) return fabric_.give_back(place);
  const std::uint64_t before = half->receiver().in_order();
  half->take(place);
  if (to_receiver && half->receiver().in_order() > before) halves_->grown[number] = schedule_.now();
}

void Endpoints::tell_receiver_of_end(std::uint32_t number) {
  const Time at = schedule_.now() + fabric_.delay(connections_[number]->paths().forward);
  if (halves_->own[flows_[number].to])
    schedule_.set_timer(at, timer::receiver_ends, number);
  else
    halves_->ends.push_back({at, number});
}

void Endpoints::end_receiver(std::uint32_t number) {
  std::unique_ptr<Connection>& receiver = halves_->receivers[number];
  record(results_[number], *receiver);
  receiver.reset();
}

// Paths.

Connection::Paths Endpoints::paths_of(std::uint32_t number, std::uint64_t key) {
  const std::uint32_t flow = flow_of(number);
  const Companion companion = number == flow ? Companion{flow, 0, false, false} : companions_[number - flows_.size()];
  const auto given = given_paths_.find(path_owner(flow, companion.place));
  if (given != given_paths_.end()) return given->second;
  const Flow& ends = flows_[flow];
  const std::uint32_t there = fabric_.path(ends.from, ends.to, key);
  const std::uint32_t back = fabric_.path(ends.to, ends.from, ShortestPaths::mixed(key));
  return companion.reversed ? Connection::Paths{back, there} : Connection::Paths{there, back};
}

std::uint32_t Endpoints::datagram_path(std::uint32_t flow) {
  return paths_of(flow, random_.stream(RandomStreams::path_choice, flow).next()).forward;
}

void Endpoints::reroute() {
  for (const auto& connection : connections_)
    if (connection) connection->take_paths(paths_of(connection->number(), connection->path_key()));
  if (halves_)
    for (const auto& receiver : halves_->receivers)
      if (receiver) receiver->take_paths(paths_of(receiver->number(), receiver->path_key()));
  for (auto& [flow, source] : datagram_sources_) source.path = datagram_path(flow);
}

// Ports.

void Endpoints::serve_port(std::uint32_t link) {
  HostPort& port = ports_[link];
  while (!port.waiting.empty() && has_room(link)) {
    const std::uint32_t number = port.waiting.front();
    port.waiting.pop();
    Connection* connection = connections_[number].get();
    if (connection && connection->take_turn()) port.waiting.push(number);
  }
  set_port_timer(link);
}

void Endpoints::set_port_timer(std::uint32_t number) {
  HostPort& port = ports_[number];
  const SimulatedLink& link = fabric_.link(number);
  // A transmitter that takes packets itself calls serve_port each time.
  if (port.waiting.empty() || port.timer != never || link.waits_for_transmitter()) return;
  port.timer = std::max(schedule_.now(), link.last_start());
  schedule_.set_timer(port.timer, timer::host_port_free, number);
}

void Endpoints::on_port_free(std::uint32_t link, Time set_for) {
  if (ports_[link].timer != set_for) return;
  ports_[link].timer = never;
  serve_port(link);
}

// Results.

std::uint64_t Endpoints::delivered_bytes(const Connection& connection) {
  const ConnectionGroup* group = connection.group();
  return group ? group->delivered_bytes(connection) : connection.receiver().in_order();
}

// A packet of the connection has arrived, and may have closed it.
void Endpoints::note_delivery(std::uint32_t number) {
  const std::uint32_t flow = flow_of(number);
  const auto followed = followed_.find(flow);
  if (followed == followed_.end()) return;
  std::uint64_t bytes = results_[flow].delivered_bytes;
  if (const Connection* connection = connections_[number].get()) bytes = std::max(bytes, delivered_bytes(*connection));
  if (bytes <= followed->second) return;
  followed->second = bytes;
  deliveries_.push_back({flow, schedule_.now(), bytes});
}

void Endpoints::record(FlowResult& result, const Connection& connection) const {
  const ConnectionGroup* group = connection.group();
  const TcpSender& sender = connection.sender();
  result.delivered_bytes = std::max(result.delivered_bytes, delivered_bytes(connection));
  result.retransmissions += group ? group->retransmissions(connection) : sender.retransmissions();
  result.timeouts += sender.timeouts();
  result.connection_attempts += sender.connection_attempts();
}

std::vector<Endpoints::FlowResult> Endpoints::flow_results() const {
  std::vector<FlowResult> results = results_;
  results.resize(flows_.size());
  for (const auto& connection : connections_)
    if (connection) record(results[flow_of(connection->number())], *connection);
  if (halves_)
    for (const auto& receiver : halves_->receivers)
      if (receiver) record(results[receiver->number()], *receiver);
  return results;
}
