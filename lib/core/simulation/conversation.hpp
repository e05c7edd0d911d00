// A client that asks servers for data, round after round (protocols/request_rounds.hpp), over connections that are
// opened beforehand. An exchange, with one server, has one connection for the answers and one for the requests.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/random_stream.hpp"
#include "base/simulated_time.hpp"
#include "protocols/request_rounds.hpp"
#include "simulation/connection_group.hpp"

class Conversation : private RequestRounds::Driver {
 public:
  struct Result {
    std::uint32_t flow;
    std::uint64_t number;
    Time asked, answered = never;
  };

  // It takes the connections of `servers` flows from first_answer on, all to one client. Exchanges are numbered from
  // first_exchange on. Results are added in the order in which requests leave.
  Conversation(Endpoints& endpoints, const RequestRounds::Settings& settings, std::size_t first_exchange,
               std::uint32_t first_answer, std::uint32_t servers, std::vector<Result>& results);

  // A time of timer::request_due or answer_due has come.
  void ask(std::size_t exchange);
  void answer(std::size_t exchange);

 private:
  class Exchange : public ConnectionGroup {
   public:
    Exchange(Endpoints& endpoints, std::uint32_t answers, Conversation& conversation, std::size_t number)
        : ConnectionGroup(endpoints, answers), conversation_(conversation), number_(number) {}

    bool appends() const override { return true; }
    bool acknowledges_first() const override { return true; }
    void on_connected(Connection&) override;
    void on_data(Connection& connection, const Packet& segment) override;
    std::uint64_t delivered_bytes(const Connection& connection) const override;
    std::uint32_t answers() const { return members_[0]; }
    std::uint32_t requests() const { return members_[1]; }

    std::size_t result = 0;  // place of the request under way

   private:
    Conversation& conversation_;
    std::size_t number_;
  };

  // Bytes that are written at once take whole segments.
  std::uint64_t in_segments(std::uint64_t bytes) const {
    return (bytes + segment_bytes_ - 1) / segment_bytes_ * segment_bytes_;
  }
  std::uint64_t request_end() const { return in_segments(rounds_.settings().request_bytes); }
  std::uint64_t first_part_end() const { return in_segments(rounds_.settings().first_part()); }
  std::uint64_t answer_end() const {
    return first_part_end() + in_segments(rounds_.settings().response_bytes - rounds_.settings().first_part());
  }
  std::vector<RandomStream> answer_delays(std::uint32_t first_answer, std::uint32_t servers) const;
  Exchange& exchange(std::size_t number) { return *exchanges_[number - first_exchange_]; }
  bool send_request(std::size_t exchange, std::uint64_t request, std::int64_t now) override;
  void send_answer(std::size_t exchange, std::uint64_t bytes) override;
  void wake(RequestRounds::Due due, std::size_t exchange, std::int64_t at) override;
  void on_answer(std::size_t exchange);

  Endpoints& endpoints_;
  RequestRounds rounds_;
  std::size_t first_exchange_;
  std::uint64_t segment_bytes_;
  std::vector<Exchange*> exchanges_;  // the endpoints' groups
  std::vector<Result>& results_;
};
