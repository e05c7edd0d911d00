// Simulates what happens between a leader's crash and its successor's first heartbeats, many times. These are the
// elections of netrepro.protocols.raft for servers whose logs are beginnings of one log, so that a log is its length.
// Tests compare it with the machine in Python: with the same random numbers both do the same at the same times.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/random_stream.hpp"

class RaftElection {
 public:
  // Times are in milliseconds. Servers with a place in log_lengths are alive; the others of `servers` have crashed.
  struct Settings {
    int servers;
    std::vector<int> log_lengths;
    int committed;  // entries that the dead leader had announced as committed
    double least_timeout, greatest_timeout;
    double tick;        // timeouts are whole ticks of the server's own clock; 0: any time
    double step;        // timeouts are drawn as before and rounded to the nearest whole step; 0: not rounded
    double timer_late;  // mean of an exponential delay of every timer
    double heartbeat;
    double least_delay, greatest_delay;                  // of a message, uniform
    double least_write, mean_extra_write;                // of the disk, the extra exponential
    bool pre_vote, keeps_leader, one_seed, checks_logs;  // one_seed: all servers draw equal timeouts
    bool two_writes;                                     // a new term is written before the vote in it is decided
    bool synchronised;                                   // the last heartbeat goes to all at once
    bool fresh_timers;                                   // nobody crashes: all begin with new timers at time 0
    bool until_elected;                                  // a trial ends with the first leader, heard of or not
    double longest;                                      // when a trial is given up
  };

  struct Outcome {
    double without_leader;  // from the crash until all others that live have heard of one new leader (or there is one,
                            // with until_elected); or `longest`
    int terms;              // terms that began; one where the first election had a winner
    bool elected;
    bool safe;  // never two leaders in a term, nor one without a committed entry
  };

  explicit RaftElection(Settings settings) : settings_(std::move(settings)) {}

  // Trials of one seed are independent. Each has 64 random streams: a group of 8 for each purpose, a stream a server.
  Outcome run(std::uint64_t seed, std::uint64_t trial);

 private:
  enum class Role { follower, candidate, leader };
  enum class Kind { request_vote, vote, append_entries, appended };

  struct Message {
    Kind kind;
    int from, to, term;
    bool pre, granted;  // granted: also the success of an append
    int length;         // of the candidate's log; the index before the entries; how far logs match
    int entries;
  };

  struct Happening {
    double time;
    std::uint64_t order;
    int alarm_of;  // -1: a message arrives
    Message message;
    bool operator>(const Happening& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  struct Server {
    Server(int name, int length, RandomStream timeouts, RandomStream late, RandomStream writes, RandomStream delays)
        : name(name), length(length), timeouts(timeouts), late(late), writes(writes), delays(delays) {}
    int name, length, term = 1, voted_for = -1, follows = 1;
    Role role = Role::follower;
    unsigned votes = 0;
    bool asks_before = false, must_write = false, writing = false;
    double alarm = 0, written_at = 0, heard_at = -1e300, wake_set = -1, phase = 0;
    std::vector<int> next, match;
    std::deque<Message> waiting;
    std::vector<Message> unsent;
    RandomStream timeouts, late, writes, delays;
  };

  void push(double time, int alarm_of, const Message& message) {
    happenings_.push({time, order_++, alarm_of, message});
  }
  void wake(Server& server);
  void send(Server& server);
  void handle(Server& server, const Message& message);
  void step_down(Server& server, int term);
  void time_out(Server& server);
  void stand(Server& server);
  void ask(Server& server, int term, bool pre);
  void win_if_majority(Server& server);
  void set_timer(Server& server);
  bool has_leader(const Server& server) const;
  void vote(Server& server, const Message& request);
  void append(Server& server, const Message& request);
  void count_match(Server& server, const Message& answer);
  void send_heartbeats(Server& server);
  void send_entries(Server& server, int to);
  bool is_up_to_date(const Server& server, const Message& request) const {
    return !settings_.checks_logs || request.length >= server.length;
  }

  Settings settings_;
  std::vector<Server> servers_;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> happenings_;
  std::vector<std::pair<int, int>> leaders_;  // term, name
  std::uint64_t order_ = 0;
  double now_ = 0;
  int newest_term_ = 1;
  bool done_ = false, safe_ = true;
};
