// Rounds of requests: a client asks its servers over connections that are opened beforehand, and their answers decide
// whom it asks next. This is a state machine without clock, connections or bytes: its driver tells it what has happened
// and when, and does what it asks for. The simulator drives it, and so does the traffic program, with real sockets.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/random_stream.hpp"

class RequestRounds {
 public:
  struct Settings {
    std::uint64_t request_bytes, response_bytes, count;  // count: of requests to each server
    bool barrier;                                        // a round begins when all servers have answered the last one
    std::int64_t think, answer_within;                   // a server answers at random within this time
    std::uint64_t first_bytes;                           // of an answer: its first part, or all of it
    std::int64_t rest_after;                             // how much later the rest of the answer follows

    std::uint64_t first_part() const { return std::min(first_bytes, response_bytes); }
  };
  enum class Due : std::uint8_t { ask, send_answer };  // whether ask() or answer() is to be called
  // Times are in the driver's unit. An exchange is between the client and one server; the driver gives its number.
  class Driver {
   public:
    virtual bool send_request(std::size_t exchange, std::uint64_t request, std::int64_t now) = 0;  // false if it cannot
    virtual void send_answer(std::size_t exchange, std::uint64_t bytes) = 0;                       // or a part of it
    virtual void wake(Due due, std::size_t exchange, std::int64_t at) = 0;

   protected:
    ~Driver() = default;
  };

  // Exchanges are numbered from `first` on. Each has a random stream for the delays of its answers.
  RequestRounds(Driver& driver, const Settings& settings, std::size_t first, const std::vector<RandomStream>& delays,
                std::size_t connections)
      : driver_(&driver), settings_(settings), first_(first), unopened_(connections) {
    for (const RandomStream& each : delays) exchanges_.push_back({each});
  }
  const Settings& settings() const { return settings_; }
  std::uint64_t answered(std::size_t exchange) const { return exchanges_[exchange - first_].answered; }
  bool is_finished(std::size_t exchange) const { return answered(exchange) == settings_.count; }

  // Says that a connection is open. The first requests leave when all connections are.
  void on_connected(std::int64_t now) {
    if (--unopened_ > 0) return;
    for (std::size_t i = 0; i < (settings_.barrier ? 1 : exchanges_.size()); ++i) ask(first_ + i, now);
  }
  // Sends the next round of requests to all servers, where there is a barrier, or the next request to one server.
  void ask(std::size_t exchange, std::int64_t now) {
    const std::size_t count = settings_.barrier ? exchanges_.size() : 1;
    unanswered_ = count;
    for (std::size_t place = exchange; place < exchange + count; ++place) {
      Exchange& with = exchanges_[place - first_];
      with.asked += driver_->send_request(place, with.asked, now);
    }
  }
  // Says how many requests in all have reached the server, which answers at once or some time later.
  void on_requests(std::size_t exchange, std::uint64_t requests, std::int64_t now) {
    Exchange& with = exchanges_[exchange - first_];
    for (; with.served < requests; ++with.served) {
      if (settings_.answer_within == 0) {
        answer(exchange, now);
        continue;
      }
      const double wait = with.delays.uniform() * static_cast<double>(settings_.answer_within);
      driver_->wake(Due::send_answer, exchange, now + static_cast<std::int64_t>(wait));
    }
  }
  // A server's time to answer has come. It sends the first part of its answer, or the rest.
  void answer(std::size_t exchange, std::int64_t now) {
    Exchange& with = exchanges_[exchange - first_];
    const std::uint64_t first = settings_.first_part(), rest = settings_.response_bytes - first;
    if (!with.rest_is_due) {
      driver_->send_answer(exchange, first);
      if (rest > 0) driver_->wake(Due::send_answer, exchange, now + settings_.rest_after);
    } else {
      driver_->send_answer(exchange, rest);
    }
    with.rest_is_due = !with.rest_is_due && rest > 0;
  }
  // Says how many answers in all have reached the client. True if that is one more: only one request is out at a time.
  bool take_answer(std::size_t exchange, std::uint64_t answers) {
    Exchange& with = exchanges_[exchange - first_];
    const bool is_more = with.answered < answers;
    with.answered += is_more;
    return is_more;
  }
  // Decides, after take_answer(), whom to ask next.
  void go_on(std::size_t exchange, std::int64_t now) {
    if (!settings_.barrier && !is_finished(exchange)) driver_->wake(Due::ask, exchange, now + settings_.think);
    if (settings_.barrier && --unanswered_ == 0 && exchanges_[exchange - first_].asked < settings_.count)
      driver_->wake(Due::ask, first_, now + settings_.think);
  }

 private:
  struct Exchange {
    RandomStream delays;
    std::uint64_t asked = 0, served = 0, answered = 0;
    bool rest_is_due = false;
  };

  Driver* driver_;
  Settings settings_;
  std::size_t first_;
  std::vector<Exchange> exchanges_;
  std::size_t unopened_, unanswered_ = 0;
};
