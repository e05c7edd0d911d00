#include "simulation/simulator.hpp"

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <utility>

#include "base/refusal.hpp"

namespace {
constexpr double least_rate = 1;  // bit/s: of less, a packet takes longer than all experiments
}

Simulator::Simulator(const Settings& settings, std::size_t nodes)
    : settings_(settings), nodes_(nodes), routes_(nodes), spraying_(stream(spraying, 0)) {}

Simulator::Turn::Turn(const Simulator& simulator) : simulator_(simulator) {
  if (simulator.in_use_.exchange(true))
    throw Refusal("a simulator in use, by another thread or from inside its own run", "use it when that has ended");
  if (!simulator.failed_) return;
  simulator.in_use_ = false;
  throw Refusal("a simulator whose run has failed", "build another one");
}

// Setting up.

std::uint32_t Simulator::add_link(const LinkSettings& link, const std::string& rule,
                                  const std::vector<double>& numbers) {
  check_set_up();
  check_ends(link.from, link.to);
  if (!(link.rate >= least_rate && std::isfinite(link.rate))) throw std::invalid_argument("no rate for a link");
  const auto number = static_cast<std::uint32_t>(links_.size());
  std::shared_ptr<SwitchMemory> memory;
  const auto node_memory = [&] {
    std::shared_ptr<SwitchMemory>& of_node = memories_[link.from];
    if (!of_node) of_node = std::make_shared<SwitchMemory>();
    return memory = of_node;
  };
  const std::uint64_t decisions = rule == "pie" ? pie_decisions : red_decisions;
  const double packet_bytes = settings_.segment_bytes + header_bytes;
  LinkQueue queue = link_queue_named(
      rule, numbers, {link.rate, settings_.seed, (decisions << 40) + number, node_memory, packet_bytes});
  routes_.add_link(link.from, link.to);
  const SimulatedLink::Wire wire{link.rate * skew(number), link.delay,    link.jitter, link.loss,
                                 link.reordering,          link.held_back};
  links_.push_back(std::make_unique<SimulatedLink>(wire, std::move(queue), stream(losses, number),
                                                   stream(jitters, number), stream(reorderings, number)));
  if (memory) memory->ports.push_back(links_[number].get());
  ports_.push_back({.room = link.room, .burst_bytes = link.burst_bytes, .flows = {}});
  return number;
}

void Simulator::give_path(std::uint32_t flow, std::uint32_t place, const std::vector<std::uint32_t>& forward,
                          const std::vector<std::uint32_t>& backward) {
  check_flow(flow);
  check_path(forward), check_path(backward);
  given_paths_[connection_key(flow, place)] = {path_table_.place_of_given(forward),
                                               path_table_.place_of_given(backward)};
}

void Simulator::use_links(Time from, std::vector<bool> in_use) {
  check_set_up();
  if (in_use.size() != links_.size()) throw std::invalid_argument("not a flag for each link");
  link_uses_.push_back({from, std::move(in_use)});
}

void Simulator::set_paths(std::uint32_t from, std::uint32_t to, std::vector<std::vector<std::uint32_t>> paths) {
  check_set_up();
  check_ends(from, to);
  for (const auto& path : paths) check_path(path);
  routes_.set_paths(from, to, std::move(paths));
}

void Simulator::change_link(const LinkChange& change) {
  check_set_up();
  check_link(change.link);
  if (change.rate != 0 && !(change.rate >= least_rate && std::isfinite(change.rate)))
    throw std::invalid_argument("no rate for a link");
  changes_.push_back(change);
}

void Simulator::add_tcp(std::uint32_t from, std::uint32_t to, Time start, std::uint64_t bytes, Time duration,
                        MakeControl control, std::shared_ptr<const TcpSettings> tcp) {
  check_set_up();
  check_ends(from, to);
  flows_.push_back({from, to, start, duration, bytes, control, true, false, 0, std::move(tcp)});
}

void Simulator::add_datagrams(std::uint32_t from, std::uint32_t to, Time start, Time duration, double rate,
                              std::uint32_t bytes, bool poisson) {
  check_set_up();
  check_ends(from, to);
  if (!(rate > 0) || bytes == 0) throw std::invalid_argument("datagrams without rate or bytes");
  const Time gap = from_seconds(8 * bytes / rate);
  flows_.push_back({from, to, start, duration, bytes, nullptr, false, poisson, gap, nullptr});
}

void Simulator::sample_queues(std::vector<std::uint32_t> links, Time interval) {
  check_set_up();
  for (std::uint32_t link : links) check_link(link);
  if (!links.empty() && interval == 0) throw std::invalid_argument("samples without time between them");
  sampled_links_ = std::move(links);
  queue_interval_ = interval;
}

void Simulator::sample_windows(Time interval) {
  check_set_up();
  if (interval == 0) throw std::invalid_argument("samples without time between them");
  window_interval_ = interval;
}

void Simulator::record_departures(std::uint32_t link, std::uint64_t most) {
  check_set_up();
  check_link(link);
  links_[link]->record_departures(most);
}

// Running.

void Simulator::begin() {
  bool transmitters = false;
  for (const auto& link : links_) transmitters |= link->waits_for_transmitter();
  timers_source_ = static_cast<std::uint32_t>(links_.size());
  tree_ = std::make_unique<WinnerTree>(links_.size() * (transmitters ? 2 : 1) + 1);
  results_.resize(flows_.size());
  connections_.resize(flows_.size() + companions_.size());
  for (std::size_t i = 0; i < companions_.size(); ++i)
    groups_.at(companions_[i].flow).members.push_back(static_cast<std::uint32_t>(flows_.size() + i));
  for (Exchange& exchange : exchanges_) exchange.requests = groups_.at(exchange.answers).members.at(1);
  const auto by_time = [](const auto& a, const auto& b) { return a.at < b.at; };
  std::stable_sort(changes_.begin(), changes_.end(), by_time);
  std::stable_sort(link_uses_.begin(), link_uses_.end(), by_time);
  set_use_timer();
  set_change_timer();
  if (rcp_)
    for (const auto& link : links_) offers_.emplace_back(*rcp_, link->bytes_per_second());
  for (std::uint32_t flow = 0; flow < flows_.size(); ++flow)
    if (flows_[flow].start != never) starts_.push_back(flow);  // not those of programs
  std::stable_sort(starts_.begin(), starts_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return flows_[a].start < flows_[b].start; });
  if (!starts_.empty()) set_timer(flows_[starts_[0]].start, flow_start, 0);
  if (!sampled_links_.empty()) set_timer(queue_interval_, queues_due, 0);
  if (window_interval_ != never) set_timer(window_interval_, windows_due, 0);
}

void Simulator::set_use_timer() {
  if (next_use_ < link_uses_.size()) set_timer(std::max(link_uses_[next_use_].at, now_), routes_change, 0);
}

void Simulator::set_change_timer() {
  if (next_change_ < changes_.size()) set_timer(std::max(changes_[next_change_].at, now_), link_changes, 0);
}

bool Simulator::run(std::uint64_t events) try {
  if (!tree_) begin();
  for (; events > 0; --events) {
    show_timers();
    if (tree_->time() > settings_.end) {
      now_ = settings_.end;
      return true;
    }
    step();
  }
  return false;
} catch (...) {
  failed_ = true;
  throw;
}

// Every now and then: a deadline that is set to the present again and again would keep it there for ever.
void Simulator::check_time_passes() {
  if (tree_->time() == looked_at_)
    throw Refusal("time stands still at " + std::to_string(to_seconds(looked_at_)) + " s: " + next_event() +
                      " comes again and again",
                  "report this fault of the simulator, with the experiment (its to_json())");
  looked_at_ = tree_->time();
  next_look_ = events_ + most_events_at_a_time;
}

std::string Simulator::next_event() const {
  const std::uint32_t source = tree_->source();
  if (source < timers_source_) return "an arrival over link " + std::to_string(source);
  if (source > timers_source_) return "the transmitter of link " + std::to_string(source - timers_source_ - 1);
  static constexpr const char* kinds[] = {"the start of a flow",     "the end of a flow",   "the timer of a sender",
                                          "the timer of a receiver", "the port of a host",  "a datagram",
                                          "a sample of queues",      "a sample of windows", "a change of a link",
                                          "a change of routes",      "a request",           "an answer"};
  const TimerHeap::Timer& timer = timers_.first();
  std::string said = kinds[timer.kind];
  if (timer.kind == sender_due || timer.kind == receiver_due) {
    const std::uint32_t flow = flow_of(timer.owner),
                        place = timer.owner == flow ? 0 : companions_[timer.owner - flows_.size()].place;
    said += ", connection " + std::to_string(place) + " of flow " + std::to_string(flow) + ",";
  }
  return said;
}

void Simulator::step() {
  if (events_ == next_look_) check_time_passes();
  assert(tree_->time() >= now_);
  now_ = tree_->time();
  ++events_;
  const std::uint32_t source = tree_->source();
  if (source < timers_source_) {
    on_arrival(source);
  } else if (source == timers_source_) {
    on_timer(timers_.take());
  } else {
    const std::uint32_t link = source - timers_source_ - 1;
    tree_->set(source, never);
    start_transmission(link);
    serve_port(link);
  }
}

void Simulator::on_timer(const TimerHeap::Timer& timer) {
  switch (timer.kind) {
    case flow_start:
      looked_at_ = now_;  // many may start at once
      next_look_ = events_ + most_events_at_a_time;
      start_flow(starts_[next_start_++]);
      if (next_start_ < starts_.size()) set_timer(flows_[starts_[next_start_]].start, flow_start, 0);
      break;
    case flow_stop:
      if (Connection* connection = connections_[timer.owner].get()) {
        if (is_subflow(*connection)) {
          if (!connection->sender.connected()) break;
          Multipath& multipath = *connection->group->multipath;
          multipath.finish();
          if (multipath.all_arrived()) results_[timer.owner].completion = now_;
          if (multipath.all_acknowledged()) close_all(*connection->group);
          break;
        }
        connection->sender.finish();
        if (connection->sender.connected() && connection->receiver.in_order() == connection->sender.bytes())
          results_[timer.owner].completion = now_;
        close_if_done(timer.owner);
      }
      break;
    case sender_due:
      on_sender_due(timer.owner, timer.time);
      break;
    case receiver_due:
      on_receiver_due(timer.owner, timer.time);
      break;
    case host_port_free:
      if (ports_[timer.owner].timer != timer.time) break;
      ports_[timer.owner].timer = never;
      serve_port(timer.owner);
      break;
    case datagram_due:
      send_datagram(timer.owner);
      break;
    case queues_due:
      for (std::uint32_t link : sampled_links_) {
        const Backlog waiting = links_[link]->waiting(now_);
        queue_samples_.push_back({now_, link, waiting.packets, waiting.bytes});
      }
      set_timer(now_ + queue_interval_, queues_due, 0);
      break;
    case windows_due:
      for (std::uint32_t number = 0; number < connections_.size(); ++number)
        if (const Connection* connection = connections_[number].get()) {
          const CongestionWindow& window = connection->sender.window();
          window_samples_.push_back({now_, flow_of(number), connection->place, window.segments, window.threshold,
                                     connection->sender.round_trip().smoothed()});
        }
      set_timer(now_ + window_interval_, windows_due, 0);
      break;
    case link_changes:
      apply(changes_[next_change_++]);
      set_change_timer();
      break;
    case routes_change:
      routes_.use(link_uses_[next_use_++].in_use);
      reroute();
      set_use_timer();
      break;
    case request_due:
      rounds_of(timer.owner).ask(timer.owner, now_);
      break;
    case answer_due:
      send_answer(timer.owner);
      break;
  }
}

void Simulator::start_flow(std::uint32_t flow) {
  const FlowDescription& description = flows_[flow];
  if (!description.is_tcp) {
    const std::uint32_t forward = paths_of(flow, stream(path_choice, flow).next()).forward;
    DatagramSource& source =
        datagram_sources_.emplace(flow, DatagramSource{forward, stream(datagram_gaps, flow)}).first->second;
    // A Poisson process has its first packet after a gap; a regular one at once.
    return description.poisson ? set_datagram_timer(flow, source) : send_datagram(flow);
  }
  if (description.bytes == TcpSender::unlimited) set_timer(now_ + description.duration, flow_stop, flow);
  const auto found = groups_.find(flow);
  if (found == groups_.end()) return open(flow, nullptr, 0);
  open_group(found->second);
}

void Simulator::open(std::uint32_t number, Group* group, std::uint32_t place) {
  const std::uint32_t flow = flow_of(number);
  const FlowDescription& description = flows_[flow];
  const Companion companion = number == flow ? Companion{flow, 0, false, false} : companions_[number - flows_.size()];
  const std::uint64_t key = stream(path_choice, companion.same_path ? flow : number).next();
  const auto [forward, backward] = paths_of(number, key);
  using Kind = Group::Kind;
  const bool piecewise =
      group && (group->kind == Kind::multipath || group->kind == Kind::requests || group->kind == Kind::program);
  auto control = control_for(number, group, place);
  TcpSettings tcp = *description.tcp;
  tcp.receive_window_bytes = window_limit(tcp);  // for the sender, which heeds the smaller of the two
  if (tcp.boundary_spread_bytes > 0) tcp.boundary_key = stream(segment_ends, number).next();
  auto* rcp = dynamic_cast<RcpControl*>(control.get());
  if (rcp) tcp.initial_window = RcpControl::no_window, tcp.unpaced_segments = 0;
  TcpSender sender =
      piecewise ? TcpSender(tcp, std::move(control)) : TcpSender(tcp, std::move(control), description.bytes);
  const TcpReceiver receiver(*description.tcp, sender.precise_ecn(), piecewise);
  connections_[number].reset(new Connection{std::move(sender), receiver, key, forward, backward});
  connections_[number]->group = group;
  connections_[number]->place = place;
  connections_[number]->rcp = rcp;
  send_syn(number, *connections_[number]);
}

std::unique_ptr<CongestionControl> Simulator::control_for(std::uint32_t number, const Group* group,
                                                          std::uint32_t place) const {
  const auto own = own_controls_.find(flow_of(number));
  if (own != own_controls_.end()) return own->second();
  const FlowDescription& flow = flows_[flow_of(number)];
  return flow.control({*flow.tcp, group ? group->coupling : nullptr, place, stream(control_choices, number).next()});
}

void Simulator::send_datagram(std::uint32_t flow) {
  DatagramSource& source = datagram_sources_.at(flow);
  send(new_packet(flow, source.path, static_cast<std::uint32_t>(flows_[flow].bytes), 0));
  set_datagram_timer(flow, source);
}

void Simulator::set_datagram_timer(std::uint32_t flow, DatagramSource& source) {
  const FlowDescription& description = flows_[flow];
  const double factor = description.poisson ? source.gaps.exponential() : 1.0;
  const double gap = std::min(factor * static_cast<double>(description.gap), 1e18);
  const Time next = now_ + std::max<Time>(1, static_cast<Time>(gap + 0.5));
  if (next < description.start + description.duration) set_timer(next, datagram_due, flow);
}

// Timers of connections are lazy: one that turns out early is set again; only an earlier deadline needs a new one. A
// deadline that has passed while nobody asked for it is now: time never goes back.

void Simulator::set_sender_timer(std::uint32_t flow, Connection& connection) {
  const Time deadline = std::max(connection.sender.deadline(), now_);
  if (deadline >= connection.sender_timer) return;
  connection.sender_timer = deadline;
  set_timer(deadline, sender_due, flow);
}

void Simulator::on_sender_due(std::uint32_t flow, Time set_for) {
  Connection* connection = connections_[flow].get();
  if (!connection || connection->sender_timer != set_for) return;
  connection->sender_timer = never;
  if (connection->sender.deadline() <= now_) {
    if (!connection->sender.connected()) return send_syn(flow, *connection);
    const std::uint64_t timeouts = connection->sender.timeouts();
    connection->sender.on_deadline(now_);
    if (is_subflow(*connection) && connection->sender.timeouts() > timeouts) on_subflow_timeout(*connection);
    pump(flow, *connection, true);
  }
  set_sender_timer(flow, *connection);
}

void Simulator::set_receiver_timer(std::uint32_t flow, Connection& connection) {
  const Time deadline = std::max(connection.receiver.deadline(), now_);
  if (deadline >= connection.receiver_timer) return;
  connection.receiver_timer = deadline;
  set_timer(deadline, receiver_due, flow);
}

void Simulator::on_receiver_due(std::uint32_t flow, Time set_for) {
  Connection* connection = connections_[flow].get();
  if (!connection || connection->receiver_timer != set_for) return;
  connection->receiver_timer = never;
  if (connection->receiver.deadline() <= now_) {
    if (connection->receiver.optimistic()) {
      if (connection->sender.done()) return;
      connection->receiver.claim_more();
    }
    acknowledge(new_packet(flow, connection->backward, 0, 0), *connection);
  }
  set_receiver_timer(flow, *connection);
}

// Packets.

std::uint32_t Simulator::new_packet(std::uint32_t flow, std::uint32_t path, std::uint32_t wire_bytes,
                                    std::uint16_t flags) {
  const std::uint32_t place = packets_.take();
  ++account_.created;
  Packet& packet = packets_[place];
  packet.flow = flow;
  packet.hop = path;
  if (sprays_ && path_table_.from(path) != PathTable::end)
    packet.hop = path_place(path_table_.from(path), path_table_.to(path), spraying_.next());
  packet.wire_bytes = wire_bytes;
  packet.flags = flags;
  packet.length = 0;
  packet.sequence = 0;
  packet.blocks = 0;
  return place;
}

void Simulator::send(std::uint32_t place) {
  Packet& packet = packets_[place];
  const std::uint32_t number = path_table_[packet.hop];
  SimulatedLink& link = *links_[number];
  if (!offers_.empty()) offer_rate(number, packet);
  const Time before = link.next_arrival();
  const Verdict verdict = link.offer({.name = place,
                                      .bytes = packet.wire_bytes,
                                      .flow = packet.flow,
                                      .ecn_capable = packet.has(Packet::ecn_capable),
                                      .marked_before = packet.has(Packet::congestion_experienced),
                                      .arrived = now_},
                                     [&](std::uint32_t dropped) { drop(dropped); });
  if (verdict == Verdict::drop) return;
  if (verdict == Verdict::mark) packet.flags |= Packet::congestion_experienced;
  if (link.waits_for_transmitter())
    start_transmission(number);
  else if (link.next_arrival() != before)
    tree_->set(number, link.next_arrival());
}

void Simulator::start_transmission(std::uint32_t number) {
  SimulatedLink& link = *links_[number];
  const Time before = link.next_arrival();
  const bool started = link.start_transmission(
      now_, [&](std::uint32_t packet) { drop(packet); },
      [&](std::uint32_t packet) { packets_[packet].flags |= Packet::congestion_experienced; });
  if (!started) {
    if (link.free_at() <= now_) tree_->set(timers_source_ + 1 + number, link.ready_at());
    return;
  }
  tree_->set(timers_source_ + 1 + number, link.free_at());
  if (link.next_arrival() != before) tree_->set(number, link.next_arrival());
}

void Simulator::on_arrival(std::uint32_t number) {
  SimulatedLink& link = *links_[number];
  const auto [place, fate] = link.take_arrival();
  tree_->set(number, link.next_arrival());
  fetch_next();
  if (fate == SimulatedLink::Fate::held_back) return;
  ++hops_;
  if (fate == SimulatedLink::Fate::lost) {
    lose(place);
  } else if (path_table_[++packets_[place].hop] == PathTable::end) {
    deliver(place);
  } else {
    send(place);
  }
}

void Simulator::deliver(std::uint32_t place) {
  const Packet& packet = packets_[place];
  const std::uint32_t flow = packet.flow;
  ++account_.delivered;
  if (packet.has(Packet::posted)) {
    news_.push_back({now_, News::Kind::datagram, place});
    return packets_.give_back(place);
  }
  if (flow < flows_.size() && !flows_[flow].is_tcp) {
    results_[flow].delivered_bytes += packet.wire_bytes;
    if (now_ <= flows_[flow].start + flows_[flow].duration) results_[flow].bytes_within_duration += packet.wire_bytes;
    return packets_.give_back(place);
  }
  Connection* connection = connections_[flow].get();
  if (!connection) return packets_.give_back(place);  // a straggler of a closed connection
  if (packet.has(Packet::reset)) {
    packets_.give_back(place);
    return close(flow);
  }
  const bool to_receiver = !packet.has(Packet::acknowledgement);
  if (to_receiver && connection->receiver_gone) {
    packets_.give_back(place);
    return send(new_packet(flow, connection->backward, header_bytes, Packet::reset));
  }
  if (packet.has(Packet::synchronise)) {
    if (to_receiver) {
      if (connection->rcp) connection->heard_rate = RcpHeader::offered(packet);
      packets_.give_back(place);
      const std::uint32_t answer =
          new_packet(flow, connection->backward, syn_bytes, Packet::synchronise | Packet::acknowledgement);
      if (connection->rcp) RcpHeader::answer(packets_[answer], connection->heard_rate);
      return send(answer);
    }
    if (connection->rcp) connection->rcp->be_told(RcpHeader::answered(packet), 0);
    packets_.give_back(place);
    if (connection->sender_gone) {
      send(new_packet(flow, connection->forward, header_bytes, Packet::reset));
      return close(flow);
    }
    connection->sender.on_connected(now_);
    if (connection->group) on_group_connected(flow, *connection);
  } else if (packet.has(Packet::acknowledgement)) {
    const std::uint64_t stream_in_order = packet.stream_in_order;
    if (packet.has(Packet::congestion_echo)) links_[path_table_[connection->forward]]->hear_echo(flow, now_);
    if (RcpControl* rcp = connection->rcp)
      rcp->be_told(RcpHeader::answered(packet), connection->sender.round_trip().smoothed());
    connection->sender.on_acknowledgement(packet, now_);
    packets_.give_back(place);
    if (is_subflow(*connection)) return on_subflow_acknowledgement(flow, *connection, stream_in_order);
  } else {
    return take_data(place, *connection);
  }
  if (connection->sender.done()) return close_if_done(flow);
  pump(flow, *connection);
  set_sender_timer(flow, *connection);
}

void Simulator::take_data(std::uint32_t place, Connection& connection) {
  const Packet packet = packets_[place];
  packets_.give_back(place);
  TcpReceiver& receiver = connection.receiver;
  if (connection.rcp) connection.heard_rate = RcpHeader::offered(packet);
  if (receiver.must_acknowledge_before(packet))
    acknowledge(new_packet(packet.flow, connection.backward, 0, 0), connection);
  const RoundTripEstimator& seen = connection.sender.round_trip();
  const bool at_once = receiver.take(packet, now_, seen.smoothed(), seen.smallest());
  if (connection.group) {
    on_group_data(packet, connection);
  } else if (receiver.in_order() == connection.sender.bytes()) {
    FlowResult& result = results_[packet.flow];
    if (result.completion == never) result.completion = now_;
  }
  if (at_once) acknowledge(new_packet(packet.flow, connection.backward, 0, 0), connection);
  set_receiver_timer(packet.flow, connection);
  if (receiver.optimistic()) close_if_done(packet.flow);
}

void Simulator::acknowledge(std::uint32_t place, Connection& connection) {
  const std::uint32_t flow = packets_[place].flow, answers = connection.receiver.answers();
  send_answer(place, connection, 1, answers);
  for (std::uint32_t number = 2; number <= answers; ++number)
    send_answer(new_packet(flow, connection.backward, 0, 0), connection, number, answers);
}

void Simulator::send_answer(std::uint32_t place, Connection& connection, std::uint32_t number, std::uint32_t answers) {
  Packet& packet = packets_[place];
  connection.receiver.acknowledge(packet, number, answers);
  if (is_subflow(connection))
    packet.stream_in_order = static_cast<std::uint32_t>(connection.group->multipath->in_order());
  if (connection.rcp) RcpHeader::answer(packet, connection.heard_rate);
  packet.wire_bytes = header_bytes + (packet.blocks > 0 ? 4 + 8u * packet.blocks : 0);
  send(place);
}

void Simulator::send_syn(std::uint32_t flow, Connection& connection) {
  connection.sender.connect(now_);
  const std::uint32_t syn = new_packet(flow, connection.forward, syn_bytes, Packet::synchronise);
  if (connection.rcp) RcpHeader::ask(packets_[syn], 0);
  send(syn);
  set_sender_timer(flow, connection);
}

// Hosts. As TCP small queues do, a sender waits while its own port has packets enough, and never overflows it.

bool Simulator::send_segment(std::uint32_t flow, Connection& connection) {
  if (is_subflow(connection)) supply(connection);
  if (is_program(connection)) supply_message(flow, connection);
  const auto segment = connection.sender.next_segment(now_);
  if (!segment) return false;
  std::uint16_t flags = segment->ecn_capable ? Packet::ecn_capable : 0;
  if (segment->window_reduced) flags |= Packet::congestion_window_reduced;
  const std::uint32_t place = new_packet(flow, connection.forward, segment->length + header_bytes, flags);
  packets_[place].sequence = segment->sequence;
  packets_[place].length = segment->length;
  packets_[place].stamp_ms = stamp_of(now_);
  if (connection.rcp) RcpHeader::ask(packets_[place], connection.sender.round_trip().smoothed());
  send(place);
  return true;
}

// With segmentation offload a sender lets its window open until it has a burst to hand over, or the rest, as Linux's
// does: of a third of the window at most, and not while it repairs losses or while nothing is under way that could open
// it.
bool Simulator::collects_burst(std::uint32_t number, const Connection& connection, const HostPort& port) const {
  const TcpSender& sender = connection.sender;
  if (port.burst_bytes == 0 || is_subflow(connection)) return false;
  if (!sender.open_state() || sender.next_new() == sender.first_unacknowledged()) return false;
  const TcpSettings& tcp = *flows_[flow_of(number)].tcp;
  const std::uint64_t segment = tcp.segment_bytes;
  const std::uint64_t window =
      std::min(static_cast<std::uint64_t>(sender.window().segments), window_limit(tcp) / segment);
  const std::uint64_t end = sender.first_unacknowledged() + window;  // of what it may send
  const std::uint64_t burst = std::min(port.burst_bytes / segment, window / 3);
  return end < sender.next_new() + burst && end * segment < sender.bytes();
}

// Sends what windows and the port allow, or one segment of it. True if that was the one, and more may follow.
bool Simulator::pump(std::uint32_t flow, Connection& connection, bool at_once, bool one_segment) {
  if (connection.waits_for_port) return false;
  const std::uint32_t link = path_table_[connection.forward];
  HostPort& port = ports_[link];
  if (!at_once && collects_burst(flow, connection, port)) return false;
  if (port.flows.empty())
    while (links_[link]->waiting(now_).packets < port.room) {
      if (!send_segment(flow, connection)) return false;
      if (one_segment) return true;
    }
  if (!connection.sender.wants_to_send(now_) && !supply_waits(flow, connection)) return false;
  connection.waits_for_port = true;
  port.flows.push(flow);
  set_port_timer(link);
  return false;
}

void Simulator::serve_port(std::uint32_t link) {
  HostPort& port = ports_[link];
  while (!port.flows.empty() && links_[link]->waiting(now_).packets < port.room) {
    const std::uint32_t flow = port.flows.front();
    port.flows.pop();
    Connection* connection = connections_[flow].get();
    if (!connection) continue;
    connection->waits_for_port = send_segment(flow, *connection);
    if (connection->waits_for_port) port.flows.push(flow);
    set_sender_timer(flow, *connection);
    if (!connection->waits_for_port && is_subflow(*connection)) pump_all(*connection->group);
  }
  set_port_timer(link);
}

void Simulator::set_port_timer(std::uint32_t link) {
  HostPort& port = ports_[link];
  // A transmitter that takes packets itself calls serve_port each time.
  if (port.flows.empty() || port.timer != never || links_[link]->waits_for_transmitter()) return;
  port.timer = std::max(now_, links_[link]->last_start());
  set_timer(port.timer, host_port_free, link);
}

void Simulator::close_if_done(std::uint32_t number) {
  Connection& connection = *connections_[number];
  if (!connection.sender.done()) return;
  if (connection.receiver.optimistic() && connection.receiver.in_order() < connection.sender.bytes()) return;
  if (connection.group && connection.group->kind == Group::Kind::repflow) close_others(number, connection);
  close(number);
}

void Simulator::close(std::uint32_t number) {
  record(results_[flow_of(number)], number, *connections_[number]);
  connections_[number].reset();
}

// The network.

Simulator::PathPair Simulator::paths_of(std::uint32_t number, std::uint64_t key) {
  const std::uint32_t flow = flow_of(number);
  const std::uint32_t place = number == flow ? 0 : companions_[number - flows_.size()].place;
  const auto given = given_paths_.find(connection_key(flow, place));
  if (given != given_paths_.end()) return given->second;
  const FlowDescription& ends = flows_[flow];
  const std::uint32_t there = path_place(ends.from, ends.to, key);
  const std::uint32_t back = path_place(ends.to, ends.from, ShortestPaths::mixed(key));
  const bool reversed = number != flow && companions_[number - flows_.size()].reversed;
  return reversed ? PathPair{back, there} : PathPair{there, back};
}

void Simulator::reroute() {
  for (std::uint32_t number = 0; number < connections_.size(); ++number)
    if (Connection* connection = connections_[number].get()) {
      const auto [forward, backward] = paths_of(number, connection->key);
      connection->forward = forward;
      connection->backward = backward;
    }
  for (auto& [flow, source] : datagram_sources_) source.path = paths_of(flow, stream(path_choice, flow).next()).forward;
}

void Simulator::apply(const LinkChange& change) {
  SimulatedLink& link = *links_[change.link];
  if (change.rate > 0) {
    link.set_rate(change.rate * skew(change.link), now_);
    if (!offers_.empty()) offers_[change.link].set_capacity(link.bytes_per_second());
  }
  if (change.state == LinkChange::State::up) link.come_up();
  if (change.state == LinkChange::State::down && link.up())
    link.go_down(now_, [&](std::uint32_t packet) { drop(packet); }, [&](std::uint32_t packet) { lose(packet); });
  tree_->set(change.link, link.next_arrival());
  ports_[change.link].timer = never;
  serve_port(change.link);
}

// RCP.

void Simulator::offer_rate(std::uint32_t number, Packet& packet) {
  const bool asks = !(packet.flags & (Packet::acknowledgement | Packet::reset | Packet::posted)) &&
                    connections_[packet.flow] && connections_[packet.flow]->rcp;
  const Time round_trip = asks ? RcpHeader::round_trip(packet) : 0;
  const double rate = offers_[number].arrival(packet.wire_bytes, round_trip, links_[number]->drained_at(now_), now_);
  if (asks) RcpHeader::offer(packet, rate);
}

// Results.

void Simulator::record(FlowResult& result, std::uint32_t number, const Connection& connection) const {
  std::uint64_t delivered = connection.receiver.in_order();
  if (const Group* group = connection.group) {
    if (is_subflow(connection)) {
      delivered = group->multipath->delivered_bytes();
      if (connection.place == 0) result.retransmissions += group->multipath->repeated();
    } else if (group->kind == Group::Kind::program) {
      delivered = dialogues_[flow_of(number) - first_program_].delivered_bytes;
    } else if (group->kind == Group::Kind::requests) {
      // Sequence numbers are whole segments; the last one of an answer may be shorter.
      const Conversation& conversation = conversations_[exchanges_[group->exchange].conversation];
      const std::uint64_t bytes = conversation.rounds.settings().response_bytes;
      const std::uint64_t answers = conversation.messages_in(delivered, bytes);
      const std::uint64_t rest = delivered - conversation.messages_end(answers, bytes);
      delivered = number == group->members[0] ? answers * bytes + std::min(rest, bytes) : 0;
    }
  }
  result.delivered_bytes = std::max(result.delivered_bytes, delivered);
  result.retransmissions += connection.sender.retransmissions();
  result.timeouts += connection.sender.timeouts();
  result.connection_attempts += connection.sender.connection_attempts();
}

std::vector<Simulator::FlowResult> Simulator::flow_results() const {
  std::vector<FlowResult> results = results_;
  results.resize(flows_.size());
  for (std::uint32_t number = 0; number < connections_.size(); ++number)
    if (connections_[number]) record(results[flow_of(number)], number, *connections_[number]);
  return results;
}

Simulator::Account Simulator::account() const {
  Account account = account_;
  account.inside = packets_.alive();
  return account;
}
