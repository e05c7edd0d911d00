// The part of TrafficGenerator for flows that are more than one stream on one connection: replicated ones, and
// requests with their answers.
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "sockets/traffic_generator.hpp"

void TrafficGenerator::add_replicas(const std::vector<Replica>& replicas) {
  for (const auto& [flow, opener_address, accepter_address] : replicas) {
    replica_of_[flow] = connections_.size();
    connections_.push_back({flow, 1, opener_address, accepter_address, {}, {}});
  }
}

void TrafficGenerator::add_conversations(const std::vector<Conversation>& conversations) {
  auto* answers = reinterpret_cast<Answer*>(shared_->results + flows_.size());
  for (const auto& [first_flow, servers, wanted] : conversations) {
    const std::size_t first = exchanges_.size();
    std::vector<RandomStream> delays;
    for (std::size_t flow = first_flow; flow < first_flow + servers; ++flow) {
      for (std::size_t request = 0; request < wanted.count; ++request)
        answers[request] = {static_cast<std::int64_t>(flow), static_cast<std::int64_t>(request), none, none};
      exchange_of_[flow] = exchanges_.size();
      exchanges_.push_back({rounds_.size(), flow, answers});
      delays.emplace_back(settings_.seed, flow);
      answers += wanted.count;
    }
    rounds_.push_back({*this, wanted, first, delays, servers});
  }
}

bool TrafficGenerator::has_open_connection(std::size_t flow) {
  bool any_open = false;
  for_connections(flow, [&](std::size_t number) { any_open |= connections_[number].state != State::over; });
  return any_open;
}

// The receiving host has all bytes. It refuses the rest of the other copy with a reset.
void TrafficGenerator::reset_others(std::size_t number) {
  for_connections(connections_[number].flow, [&](std::size_t other) {
    const int socket = connections_[other].accepter.socket;
    if (other == number || socket < 0) return;
    const linger at_once{1, 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  });
}

// The sending host no longer needs the other connection.
void TrafficGenerator::close_others(std::size_t number) {
  for_connections(connections_[number].flow, [&](std::size_t other) {
    if (other == number || connections_[other].state == State::over) return;
    note_counters(connections_[other]);
    close_ends(other);
  });
}

bool TrafficGenerator::send_request(std::size_t place, std::uint64_t request, std::int64_t now) {
  const Exchange& exchange = exchanges_[place];
  Connection& connection = connections_[exchange.connection];
  if (connection.state == State::over) return false;
  exchange.answers[request].asked_ns = now;
  connection.opener.to_write += rounds_of(place).settings().request_bytes;
  fill(exchange.connection, connection.opener);
  return true;
}

void TrafficGenerator::send_answer(std::size_t place, std::uint64_t bytes) {
  const std::size_t number = exchanges_[place].connection;
  End& server = connections_[number].accepter;
  if (server.socket < 0) return;
  server.to_write += bytes;
  fill(number, server);
}

void TrafficGenerator::wake(RequestRounds::Due due, std::size_t place, std::int64_t at) {
  timers_.set(at, due == RequestRounds::Due::ask ? request_due : answer_due, static_cast<std::uint32_t>(place));
}

// Sends what waits and reads what has come. Returns false if the end was closed before, or is closed by this.
bool TrafficGenerator::exchange_bytes(std::size_t number, End& end) {
  if (end.socket >= 0) fill(number, end);
  return end.socket >= 0 && drain(number, end);
}

void TrafficGenerator::serve_requests(std::size_t number) {
  const Connection& connection = connections_[number];
  End& server = connections_[number].accepter;
  if (!exchange_bytes(number, server)) return;
  const std::size_t place = exchange_of_.at(connection.flow);
  RequestRounds& rounds = rounds_of(place);
  rounds.on_requests(place, server.received / rounds.settings().request_bytes, now());
}

void TrafficGenerator::take_answers(std::size_t number) {
  const Connection& connection = connections_[number];
  End& client = connections_[number].opener;
  if (!exchange_bytes(number, client)) return;
  const std::size_t place = exchange_of_.at(connection.flow);
  RequestRounds& rounds = rounds_of(place);
  if (!rounds.take_answer(place, client.received / rounds.settings().response_bytes)) return;
  const std::int64_t at = now();
  exchanges_[place].answers[rounds.answered(place) - 1].answered_ns = at;
  if (rounds.is_finished(place)) complete(connection.flow, at);
  rounds.go_on(place, at);
}
