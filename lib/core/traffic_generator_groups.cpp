// The part of TrafficGenerator for flows that are more than one stream on one connection: replicated ones, and
// requests with their answers.
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "traffic_generator.hpp"

void TrafficGenerator::add_replicas(const std::vector<Replica>& replicas) {
  for (const auto& [flow, opener_address, accepter_address] : replicas) {
    replica_of_[flow] = connections_.size();
    connections_.push_back({flow, 1, opener_address, accepter_address, {}, {}});
  }
}

void TrafficGenerator::add_conversations(const std::vector<Conversation>& conversations) {
  auto* answers = reinterpret_cast<Answer*>(shared_->results + flows_.size());
  for (const Conversation& wanted : conversations) {
    talks_.push_back({wanted, exchanges_.size(), wanted.servers});
    for (std::size_t flow = wanted.first_flow; flow < wanted.first_flow + wanted.servers; ++flow) {
      for (std::size_t request = 0; request < wanted.count; ++request)
        answers[request] = {static_cast<std::int64_t>(flow), static_cast<std::int64_t>(request), none, none};
      exchange_of_[flow] = exchanges_.size();
      exchanges_.push_back({talks_.size() - 1, flow, answers});
      answers += wanted.count;
    }
  }
}

bool TrafficGenerator::has_open_connection(std::size_t flow) {
  bool found = false;
  for_connections(flow, [&](std::size_t number) { found |= connections_[number].state != State::over; });
  return found;
}

// The receiving host has all bytes: it takes no more of the other copy, and says so with a reset.
void TrafficGenerator::reset_others(std::size_t number) {
  for_connections(connections_[number].flow, [&](std::size_t other) {
    const int socket = connections_[other].accepter.socket;
    if (other == number || socket < 0) return;
    const linger at_once{1, 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  });
}

// The sending host needs the other connection no more.
void TrafficGenerator::close_others(std::size_t number) {
  for_connections(connections_[number].flow, [&](std::size_t other) {
    if (other == number || connections_[other].state == State::over) return;
    note_counters(connections_[other]);
    close_ends(other);
  });
}

void TrafficGenerator::on_request_connected(std::size_t number) {
  Talk& talk = talks_[exchanges_[exchange_of_.at(connections_[number].flow)].conversation];
  if (--talk.unopened > 0) return;
  for (std::size_t i = 0; i < talk.wanted.servers; ++i)
    if (i == 0 || !talk.wanted.barrier) ask(talk.first_exchange + i);
}

// The next round for all servers behind a barrier, or the next request to one server.
void TrafficGenerator::ask(std::size_t first_exchange) {
  Talk& talk = talks_[exchanges_[first_exchange].conversation];
  const std::size_t count = talk.wanted.barrier ? talk.wanted.servers : 1;
  talk.unanswered = count;
  const std::int64_t at = now();
  for (std::size_t place = first_exchange; place < first_exchange + count; ++place) {
    Exchange& exchange = exchanges_[place];
    Connection& connection = connections_[exchange.connection];
    if (connection.state == State::over) continue;
    exchange.answers[exchange.asked++].asked_ns = at;
    connection.opener.to_write += talk.wanted.request_bytes;
    fill(exchange.connection, connection.opener);
  }
}

void TrafficGenerator::serve_requests(std::size_t number) {
  Connection& connection = connections_[number];
  if (connection.accepter.socket < 0 || !drain(number, connection.accepter)) return;
  Exchange& exchange = exchanges_[exchange_of_.at(connection.flow)];
  const Conversation& wanted = talks_[exchange.conversation].wanted;
  for (; exchange.served < connection.accepter.received / wanted.request_bytes; ++exchange.served) {
    if (wanted.answer_within_ns == 0) {
      connection.accepter.to_write += wanted.response_bytes;
      continue;
    }
    const double wait_ns = random_[connection.flow].uniform() * static_cast<double>(wanted.answer_within_ns);
    timers_.set(now() + static_cast<std::int64_t>(wait_ns), answer_due, static_cast<std::uint32_t>(number));
  }
  fill(number, connection.accepter);
}

void TrafficGenerator::answer(std::size_t number) {
  Connection& connection = connections_[number];
  if (connection.accepter.socket < 0) return;
  const Exchange& exchange = exchanges_[exchange_of_.at(connection.flow)];
  connection.accepter.to_write += talks_[exchange.conversation].wanted.response_bytes;
  fill(number, connection.accepter);
}

void TrafficGenerator::take_answers(std::size_t number) {
  Connection& connection = connections_[number];
  if (connection.opener.socket >= 0) fill(number, connection.opener);
  if (connection.opener.socket < 0 || !drain(number, connection.opener)) return;
  const std::size_t place = exchange_of_.at(connection.flow);
  Exchange& exchange = exchanges_[place];
  Talk& talk = talks_[exchange.conversation];
  if (exchange.answered == connection.opener.received / talk.wanted.response_bytes) return;
  const std::int64_t at = now();
  exchange.answers[exchange.answered++].answered_ns = at;  // one at a time is asked for
  if (exchange.answered == talk.wanted.count)
    complete(connection.flow);
  else if (!talk.wanted.barrier)
    timers_.set(at + talk.wanted.think_ns, request_due, static_cast<std::uint32_t>(place));
  if (talk.wanted.barrier && --talk.unanswered == 0 && exchange.asked < talk.wanted.count)
    timers_.set(at + talk.wanted.think_ns, request_due, static_cast<std::uint32_t>(talk.first_exchange));
}
