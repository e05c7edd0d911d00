// The part of Simulator for programs at its hosts that somebody else runs: datagrams that they send, connections that
// they open, write messages to and close, and the news that there are for them.
#include <stdexcept>
#include <utility>

#include "simulation/simulator.hpp"

void Simulator::reserve_connections(std::uint32_t count, MakeControl control,
                                    const std::shared_ptr<const TcpSettings>& tcp) {
  check_set_up();
  first_program_ = static_cast<std::uint32_t>(flows_.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto flow = static_cast<std::uint32_t>(flows_.size());
    flows_.push_back({0, 0, never, 0, 0, control, true, false, 0, tcp});
    Group& group = groups_[flow];
    group.kind = Group::Kind::program;
    group.members = {flow};
    add_companion(flow, 1, true, true);
  }
  reserved_ = count;
}

Simulator::Dialogue& Simulator::dialogue_of(std::uint32_t connection) {
  const std::uint32_t place = flow_of(connection) - first_program_;
  if (flow_of(connection) < first_program_ || place >= dialogues_.size()) throw std::out_of_range("no such connection");
  return dialogues_[place];
}

Simulator::Speaker& Simulator::speaker_of(std::uint32_t connection) {
  Dialogue& dialogue = dialogue_of(connection);
  return connection == flow_of(connection) ? dialogue.client : dialogue.server;
}

std::uint32_t Simulator::connect(std::uint32_t from, std::uint32_t to) {
  if (!tree_) begin();
  check_ends(from, to);
  if (dialogues_.size() == reserved_) throw std::out_of_range("no connection left");
  const std::uint32_t flow = first_program_ + static_cast<std::uint32_t>(dialogues_.size());
  FlowDescription& description = flows_[flow];
  description.from = from;
  description.to = to;
  description.start = now_;
  dialogues_.emplace_back();
  open_group(groups_.at(flow));
  return flow;
}

void Simulator::write(std::uint32_t flow, bool to_client, std::uint64_t bytes) {
  const std::uint32_t number = groups_.at(flow).members.at(to_client);
  Speaker& speaker = speaker_of(number);
  Connection* connection = connections_[number].get();
  if (!connection) throw std::logic_error("a message on a connection that is closed");
  const std::uint64_t segment = flows_[flow].tcp->segment_bytes;
  speaker.end += (bytes + segment - 1) / segment * segment;
  speaker.unsent.push(bytes);
  speaker.awaited.push({speaker.end, bytes});
  if (!connection->sender.connected()) return;
  pump(number, *connection);
  set_sender_timer(number, *connection);
}

void Simulator::hang_up(std::uint32_t flow) {
  for (std::uint32_t number : groups_.at(flow).members) {
    if (!speaker_of(number).awaited.empty()) throw std::logic_error("a connection closed before its messages arrived");
    Connection* connection = connections_[number].get();
    if (!connection) continue;
    connection->sender.finish();
    close_if_done(number);
  }
}

std::uint32_t Simulator::post(std::uint32_t from, std::uint32_t to, std::uint32_t bytes, std::uint32_t flow) {
  if (!tree_) begin();
  check_ends(from, to);
  if (is_connection(flow)) throw std::invalid_argument("a datagram with the number of a connection");
  const std::uint64_t key = ShortestPaths::mixed((std::uint64_t{from} << 32 | to) ^ ShortestPaths::mixed(flow));
  const std::uint32_t place = new_packet(flow, path_place(from, to, key), bytes, Packet::posted);
  send(place);
  return place;
}

const std::vector<Simulator::News>& Simulator::advance_to_news(Time until) try {
  if (!tree_) begin();
  news_.clear();
  for (show_timers(); tree_->time() <= until && news_.empty(); show_timers()) step();
  if (news_.empty()) now_ = std::max(now_, until);
  return news_;
} catch (...) {
  failed_ = true;
  throw;
}

// A message after all earlier ones have been sent.
void Simulator::supply_message(std::uint32_t number, Connection& connection) {
  Speaker& speaker = speaker_of(number);
  connection.sender.expect_more(!speaker.unsent.empty());
  if (speaker.unsent.empty() || !connection.sender.could_send_new(now_)) return;
  connection.sender.append(speaker.unsent.front(), now_);
  speaker.unsent.pop();
}

void Simulator::take_messages(std::uint32_t number, const Connection& connection) {
  Speaker& speaker = speaker_of(number);
  while (!speaker.awaited.empty() && speaker.awaited.front().end <= connection.receiver.in_order()) {
    dialogue_of(number).delivered_bytes += speaker.awaited.front().bytes;
    speaker.awaited.pop();
    const auto kind = number == flow_of(number) ? News::Kind::message_to_server : News::Kind::message_to_client;
    news_.push_back({now_, kind, flow_of(number)});
  }
}
