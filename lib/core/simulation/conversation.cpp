#include "simulation/conversation.hpp"

#include <algorithm>

#include "simulation/connection.hpp"
#include "simulation/endpoints.hpp"

Conversation::Conversation(Endpoints& endpoints, const RequestRounds::Settings& settings, std::size_t first_exchange,
                           std::uint32_t first_answer, std::uint32_t servers, std::vector<Result>& results)
    : endpoints_(endpoints),
      rounds_(*this, settings, first_exchange, answer_delays(first_answer, servers), 2 * std::size_t{servers}),
      first_exchange_(first_exchange),
      segment_bytes_(endpoints.tcp_of(first_answer).segment_bytes),
      results_(results) {
  for (std::uint32_t i = 0; i < servers; ++i) {
    const std::uint32_t answers = first_answer + i;
    exchanges_.push_back(&endpoints.new_group<Exchange>(answers, *this, first_exchange + i));
    endpoints.add_companion(answers, 1, true, true);
  }
}

std::vector<RandomStream> Conversation::answer_delays(std::uint32_t first_answer, std::uint32_t servers) const {
  std::vector<RandomStream> delays;
  for (std::uint32_t answers = first_answer; answers < first_answer + servers; ++answers)
    delays.push_back(endpoints_.random().stream(RandomStreams::answer_delays, answers));
  return delays;
}

void Conversation::Exchange::on_connected(Connection&) { conversation_.rounds_.on_connected(endpoints_.now()); }

void Conversation::Exchange::on_data(Connection& connection, const Packet&) {
  RequestRounds& rounds = conversation_.rounds_;
  const std::uint64_t in_order = connection.receiver().in_order();
  if (connection.number() == requests())
    rounds.on_requests(number_, in_order / conversation_.request_end(), endpoints_.now());
  else if (rounds.take_answer(number_, in_order / conversation_.answer_end()))
    conversation_.on_answer(number_);
}

// Sequence numbers are whole segments; the last one of an answer, or of its first part, may be shorter.
std::uint64_t Conversation::Exchange::delivered_bytes(const Connection& connection) const {
  if (connection.number() != answers()) return 0;
  const std::uint64_t in_order = connection.receiver().in_order();
  const RequestRounds::Settings& settings = conversation_.rounds_.settings();
  const std::uint64_t first = settings.first_part(), bytes = settings.response_bytes;
  const std::uint64_t answers = in_order / conversation_.answer_end(), more = in_order % conversation_.answer_end();
  const std::uint64_t of_rest = more - std::min(more, conversation_.first_part_end());
  return answers * bytes + std::min(more, first) + std::min(of_rest, bytes - first);
}

void Conversation::ask(std::size_t exchange) { rounds_.ask(exchange, endpoints_.now()); }

void Conversation::answer(std::size_t exchange) { rounds_.answer(exchange, endpoints_.now()); }

bool Conversation::send_request(std::size_t number, std::uint64_t request, std::int64_t now) {
  exchange(number).result = results_.size();
  results_.push_back({exchange(number).answers(), request, now});
  endpoints_.connection(exchange(number).requests())->write(rounds_.settings().request_bytes);
  return true;
}

void Conversation::send_answer(std::size_t number, std::uint64_t bytes) {
  endpoints_.connection(exchange(number).answers())->write(bytes);
}

void Conversation::wake(RequestRounds::Due due, std::size_t number, std::int64_t at) {
  const timer::Kind kind = due == RequestRounds::Due::ask ? timer::request_due : timer::answer_due;
  endpoints_.schedule().set_timer(at, kind, static_cast<std::uint32_t>(number));
}

void Conversation::on_answer(std::size_t number) {
  const Exchange& with = exchange(number);
  results_[with.result].answered = endpoints_.now();
  if (rounds_.is_finished(number)) {
    endpoints_.complete_now(with.answers());
    Connection& requests = *endpoints_.connection(with.requests());
    // The connection for answers closes when the acknowledgement of this answer is there.
    endpoints_.connection(with.answers())->sender().finish();
    requests.sender().finish();
    endpoints_.close_if_done(requests);
  }
  rounds_.go_on(number, endpoints_.now());
}
