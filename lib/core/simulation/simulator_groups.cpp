// The part of Simulator for flows of more than one connection: replicated ones, subflows, requests and answers.
#include <algorithm>
#include <utility>

#include "simulation/simulator.hpp"

// Setting up.

void Simulator::add_companion(std::uint32_t flow, std::uint32_t place, bool same_path, bool reversed) {
  companions_.push_back({flow, place, same_path, reversed});
}

Simulator::Group& Simulator::new_group(std::uint32_t flow) {
  check_flow(flow);
  const auto [place, is_new] = groups_.try_emplace(flow);
  if (!is_new) throw std::invalid_argument("flow " + std::to_string(flow) + " has its connections already");
  return place->second;
}

void Simulator::replicate(std::uint32_t flow, Replication replication, bool same_path) {
  Group& group = new_group(flow);
  group.kind = replication == Replication::repsyn ? Group::Kind::repsyn : Group::Kind::repflow;
  group.members = {flow};
  add_companion(flow, 1, same_path, false);
}

void Simulator::split(std::uint32_t flow, std::uint32_t subflows) {
  if (subflows < 1 || subflows > most_subflows)
    throw std::invalid_argument(std::to_string(subflows) + " subflows of a flow");
  Group& group = new_group(flow);
  group.kind = Group::Kind::multipath;
  group.members = {flow};
  group.coupling = std::make_shared<Coupling>();
  const TcpSettings& tcp = *flows_[flow].tcp;
  group.multipath = std::make_unique<Multipath>(flows_[flow].bytes, tcp.segment_bytes, tcp.receive_window_bytes,
                                                subflows, tcp.scheduler());
  for (std::uint32_t i = 1; i < subflows; ++i) add_companion(flow, i, false, false);
}

void Simulator::request(std::uint32_t first_answer, std::uint32_t servers, const RequestRounds::Settings& settings) {
  if (servers < 1 || servers > flows_.size() || first_answer > flows_.size() - servers)
    throw std::out_of_range("answers beyond the last flow");
  const std::size_t first = exchanges_.size();
  const auto conversation = static_cast<std::uint32_t>(conversations_.size());
  std::vector<RandomStream> delays;
  for (std::uint32_t answers = first_answer; answers < first_answer + servers; ++answers) {
    Group& group = new_group(answers);
    group.kind = Group::Kind::requests;
    group.members = {answers};
    group.exchange = static_cast<std::uint32_t>(exchanges_.size());
    add_companion(answers, 1, true, true);
    exchanges_.push_back({conversation, answers, 0, 0});
    delays.push_back(stream(answer_delays, answers));
  }
  const std::size_t connections = 2 * std::size_t{servers};
  conversations_.push_back({{*this, settings, first, delays, connections}, flows_[first_answer].tcp->segment_bytes});
}

void Simulator::open_group(Group& group) {
  // The other subflows join when the first is established.
  const std::size_t count = group.kind == Group::Kind::multipath ? 1 : group.members.size();
  for (std::uint32_t place = 0; place < count; ++place) open(group.members[place], &group, place);
}

void Simulator::on_group_connected(std::uint32_t number, Connection& connection) {
  Group& group = *connection.group;
  switch (group.kind) {
    case Group::Kind::repflow:
      break;
    case Group::Kind::repsyn:
      close_others(number, connection);
      break;
    case Group::Kind::program:
      if (!std::exchange(connection.opened, true) && connection.place == 0)
        news_.push_back({now_, News::Kind::connected, number});
      break;
    case Group::Kind::multipath:
      for (std::uint32_t place = 1; place < group.members.size() && connection.place == 0; ++place)
        if (!connections_[group.members[place]]) open(group.members[place], &group, place);
      break;
    case Group::Kind::requests:
      if (!std::exchange(connection.opened, true)) rounds_of(group.exchange).on_connected(now_);
      break;
  }
}

void Simulator::on_group_data(const Packet& packet, Connection& connection) {
  Group& group = *connection.group;
  FlowResult& result = results_[flow_of(packet.flow)];
  switch (group.kind) {
    case Group::Kind::repflow:
    case Group::Kind::repsyn:
      if (connection.receiver.in_order() < connection.sender.bytes()) return;
      if (result.completion == never) result.completion = now_;
      reset_other_receivers(packet.flow, connection);
      break;
    case Group::Kind::multipath:
      group.multipath->receive(connection.place, packet.sequence / flows_[flow_of(packet.flow)].tcp->segment_bytes);
      if (group.multipath->all_arrived() && result.completion == never) result.completion = now_;
      break;
    case Group::Kind::program:
      take_messages(packet.flow, connection);
      break;
    case Group::Kind::requests: {
      Conversation& conversation = conversations_[exchanges_[group.exchange].conversation];
      RequestRounds& rounds = conversation.rounds;
      const std::uint64_t in_order = connection.receiver.in_order();
      if (packet.flow == exchanges_[group.exchange].requests)
        rounds.on_requests(group.exchange, conversation.messages_in(in_order, rounds.settings().request_bytes), now_);
      else if (rounds.take_answer(group.exchange, conversation.messages_in(in_order, rounds.settings().response_bytes)))
        on_answer(group.exchange);
      break;
    }
  }
}

// Replicated flows.

// The receiving host has all bytes: it takes no more of the other copy, and says so.
void Simulator::reset_other_receivers(std::uint32_t number, Connection& connection) {
  if (std::exchange(connection.group->decided, true)) return;
  for (std::uint32_t other : connection.group->members) {
    Connection* loser = connections_[other].get();
    if (other == number || !loser) continue;
    loser->receiver_gone = true;
    loser->receiver_timer = never;
    send(new_packet(other, loser->backward, header_bytes, Packet::reset));
  }
}

// The sending host needs the other connections no more. One that is not established yet is reset when it would be.
void Simulator::close_others(std::uint32_t number, Connection& connection) {
  for (std::uint32_t other : connection.group->members) {
    Connection* loser = connections_[other].get();
    if (other == number || !loser) continue;
    if (!loser->sender.connected()) {
      loser->sender_gone = true;
      loser->sender_timer = never;
      continue;
    }
    if (!loser->receiver_gone) send(new_packet(other, loser->forward, header_bytes, Packet::reset));
    close(other);
  }
}

// Subflows.

// A segment of the stream for a subflow that could send one now.
void Simulator::supply(Connection& connection) {
  Multipath& multipath = *connection.group->multipath;
  auto segment = multipath.next_for(connection.place);
  connection.sender.expect_more(segment.has_value());
  if (!connection.sender.could_send_new(now_)) return;
  if (!segment && multipath.blocked()) segment = rescue(connection);
  if (segment) connection.sender.append(multipath.carry(connection.place, *segment), now_);
}

// The receiver's window is full because of a slower subflow (Raiciu et al., NSDI 2012, section 4.2; the conditions are
// those of their kernel): halve its window, and send what it blocks the others with once more.
std::optional<std::uint64_t> Simulator::rescue(Connection& connection) {
  Multipath& multipath = *connection.group->multipath;
  if (multipath.has_carried(connection.place, multipath.first())) return std::nullopt;
  Connection& slow = *connections_[connection.group->members[multipath.blocker()]];
  const Time own = connection.sender.round_trip().smoothed(), other = slow.sender.round_trip().smoothed();
  Time& until = multipath.penalised_until(connection.place);
  const TcpSettings& tcp = *flows_[connection.group->members[0]].tcp;
  if (tcp.penalisation && now_ >= until && own < other && slow.sender.open_state()) {
    slow.sender.penalise();
    until = now_ + own;
  }
  const bool worth_it = slow.sender.window().segments <= 4 || 4 * own < other;
  return tcp.opportunistic_retransmission && worth_it ? std::optional(multipath.first()) : std::nullopt;
}

bool Simulator::supply_waits(std::uint32_t number, Connection& connection) {
  if (is_program(connection)) return connection.sender.could_send_new(now_) && !speaker_of(number).unsent.empty();
  return is_subflow(connection) && connection.sender.could_send_new(now_) &&
         connection.group->multipath->next_for(connection.place).has_value();
}

void Simulator::on_subflow_acknowledgement(std::uint32_t number, Connection& connection,
                                           std::uint64_t stream_in_order) {
  Group& group = *connection.group;
  group.multipath->forget(connection.place, connection.sender.first_unacknowledged());
  group.multipath->acknowledge(stream_in_order);
  if (group.multipath->all_acknowledged()) return close_all(group);
  pump_all(group);
  set_sender_timer(number, connection);
}

void Simulator::on_subflow_timeout(Connection& connection) {
  Group& group = *connection.group;
  group.multipath->repeat_elsewhere(connection.place, connection.sender.first_unacknowledged());
  pump_all(group);
}

// In the order of the scheduler. Unless subflows take turns, those behind the same port wait while one before them
// does.
void Simulator::pump_all(Group& group) {
  const SubflowScheduler& scheduler = group.multipath->scheduler();
  const bool in_turn = scheduler.takes_turns();
  for (bool again = true; again;) {
    again = false;
    std::vector<SubflowScheduler::Subflow> order;
    for (std::uint32_t place = 0; place < group.members.size(); ++place)
      if (const Connection* connection = connections_[group.members[place]].get())
        if (connection->sender.connected()) order.push_back({place, connection->sender.round_trip().smoothed()});
    scheduler.order(order);
    std::vector<std::uint32_t> taken_ports;
    for (const auto& [place, round_trip] : order) {
      const std::uint32_t number = group.members[place];
      Connection& connection = *connections_[number];
      const std::uint32_t port = path_table_[connection.forward];
      if (in_turn || connection.sender.wants_to_send(now_) ||
          std::find(taken_ports.begin(), taken_ports.end(), port) == taken_ports.end())
        again |= pump(number, connection, false, in_turn);
      if (connection.waits_for_port) taken_ports.push_back(port);
      set_sender_timer(number, connection);
    }
  }
}

void Simulator::close_all(Group& group) {
  for (std::uint32_t number : group.members)
    if (connections_[number]) close(number);
}

// Requests and answers.

void Simulator::send_message(std::uint32_t number, std::uint64_t bytes) {
  Connection& connection = *connections_[number];
  connection.sender.append(bytes, now_);
  pump(number, connection);
  set_sender_timer(number, connection);
}

bool Simulator::send_request(std::size_t place, std::uint64_t request, Time now) {
  Exchange& exchange = exchanges_[place];
  exchange.result = request_results_.size();
  request_results_.push_back({exchange.answers, request, now});
  send_message(exchange.requests, rounds_of(place).settings().request_bytes);
  return true;
}

void Simulator::send_answer(std::size_t place) {
  send_message(exchanges_[place].answers, rounds_of(place).settings().response_bytes);
}

void Simulator::wake(RequestRounds::Due due, std::size_t place, Time at) {
  set_timer(at, due == RequestRounds::Due::ask ? request_due : answer_due, static_cast<std::uint32_t>(place));
}

void Simulator::on_answer(std::uint32_t place) {
  const Exchange& exchange = exchanges_[place];
  RequestRounds& rounds = rounds_of(place);
  request_results_[exchange.result].answered = now_;
  if (rounds.is_finished(place)) {
    results_[exchange.answers].completion = now_;
    connections_[exchange.answers]->sender.finish();  // closes when the acknowledgement of this answer is there
    connections_[exchange.requests]->sender.finish();
    close_if_done(exchange.requests);
  }
  rounds.go_on(place, now_);
}
