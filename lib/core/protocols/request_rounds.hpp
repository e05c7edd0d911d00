// Rounds of requests: a client asks its servers over connections that are opened beforehand, and whom it asks next
// follows from their answers. A state machine without clock, connections or bytes: its driver tells it what has
// happened and when, and does what it asks for. The simulator and the traffic program, with real sockets, drive it.
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
    bool barrier;                                        // a round begins when all have answered the one before
    std::int64_t think, answer_within;                   // a server answers some time from 0 to the latter
    std::uint64_t first_bytes;                           // of an answer, or all of it
    std::int64_t rest_after;                             // what is left of it follows so much later

    std::uint64_t first_part() const { return std::min(first_bytes, response_bytes); }
  };
  enum class Due : std::uint8_t { ask, send_answer };  // what is called when a time has come
  // Times are in its unit. An exchange, of the client and one server, has the driver's number.
  class Driver {
   public:
    virtual bool send_request(std::size_t exchange, std::uint64_t request, std::int64_t now) = 0;  // false if it cannot
    virtual void send_answer(std::size_t exchange, std::uint64_t bytes) = 0;                       // or a part of it
    virtual void wake(Due due, std::size_t exchange, std::int64_t at) = 0;

   protected:
    ~Driver() = default;
  };

  // Exchanges are numbered from `first` on, a stream of numbers each for the answers' delays.
  RequestRounds(Driver& driver, const Settings& settings, std::size_t first, const std::vector<RandomStream>& delays,
                std::size_t connections)
      : driver_(&driver), settings_(settings), first_(first), unopened_(connections) {
    for (const RandomStream& each : delays) exchanges_.push_back({each});
  }
  const Settings& settings() const { return settings_; }
  std::uint64_t answered(std::size_t exchange) const { return exchanges_[exchange - first_].answered; }
  bool is_finished(std::size_t exchange) const { return answered(exchange) == settings_.count; }

  // A connection is open: the first requests leave when all are.
  void on_connected(std::int64_t now) {
    if (--unopened_ > 0) return;
    for (std::size_t i = 0; i < (settings_.barrier ? 1 : exchanges_.size()); ++i) ask(first_ + i, now);
  }
  // The next round for all servers behind a barrier, or the next request to one server.
  void ask(std::size_t exchange, std::int64_t now) {
    const std::size_t count = settings_.barrier ? exchanges_.size() : 1;
    unanswered_ = count;
    for (std::size_t place = exchange; place < exchange + count; ++place) {
      Exchange& with = exchanges_[place - first_];
      with.asked += driver_->send_request(place, with.asked, now);
    }
  }
  // So many requests in all have reached the server, which answers at once or some time later.
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
  // A server's time to answer has come: with the first part, or with the rest.
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
  // So many answers in all have reached the client. True if that is one more: one at a time is asked for.
  bool take_answer(std::size_t exchange, std::uint64_t answers) {
    Exchange& with = exchanges_[exchange - first_];
    const bool is_more = with.answered < answers;
    with.answered += is_more;
    return is_more;
  }
  // After that: whom to ask next.
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
