// The part of Simulator for programs at its hosts, which somebody else runs: datagrams that they send, connections that
// they open, write messages to and close, and the news for them.
#include <algorithm>
#include <stdexcept>

#include "network/shortest_paths.hpp"
#include "simulation/simulator.hpp"

void Simulator::reserve_connections(std::uint32_t count, MakeControl control,
                                    const std::shared_ptr<const TcpSettings>& tcp) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t flow = endpoints_.add_flow({0, 0, never, 0, 0, control, true, false, 0, tcp});
    dialogues_.push_back(&endpoints_.new_group<Dialogue>(flow, news_));
    endpoints_.add_companion(flow, 1, true, true);
  }
}

// The connections set aside are the last flows.
Dialogue& Simulator::dialogue(std::uint32_t connection) {
  const std::size_t first = flows() - dialogues_.size();
  if (connection < first || connection - first >= connected_) throw std::out_of_range("no such connection");
  return *dialogues_[connection - first];
}

std::uint32_t Simulator::connect(std::uint32_t from, std::uint32_t to) {
  if (!schedule_.begun()) begin();
  fabric_.check_ends(from, to);
  if (connected_ == dialogues_.size()) throw std::out_of_range("no connection left");
  Dialogue& dialogue = *dialogues_[connected_++];
  const std::uint32_t number = dialogue.members()[0];
  Endpoints::Flow& flow = endpoints_.flow(number);
  flow.from = from;
  flow.to = to;
  flow.start = now();
  dialogue.open();
  return number;
}

void Simulator::write(std::uint32_t connection, bool to_client, std::uint64_t bytes) {
  dialogue(connection).write(to_client, bytes);
}

void Simulator::hang_up(std::uint32_t connection) { dialogue(connection).hang_up(); }

std::uint32_t Simulator::post(std::uint32_t from, std::uint32_t to, std::uint32_t bytes, std::uint32_t flow) {
  if (!schedule_.begun()) begin();
  fabric_.check_ends(from, to);
  if (is_connection(flow)) throw std::invalid_argument("a datagram with the number of a connection");
  const std::uint64_t key = ShortestPaths::mixed((std::uint64_t{from} << 32 | to) ^ ShortestPaths::mixed(flow));
  const std::uint32_t packet = fabric_.new_packet(flow, fabric_.path(from, to, key), bytes, Packet::posted);
  fabric_.send(packet);
  return packet;
}

const std::vector<News>& Simulator::advance_to_news(Time until) try {
  if (!schedule_.begun()) begin();
  news_.clear();
  while (schedule_.next_time() <= until && news_.empty()) step();
  if (news_.empty()) schedule_.wait_until(std::max(now(), until));
  return news_;
} catch (...) {
  failed_ = true;
  throw;
}
