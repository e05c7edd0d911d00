#include "protocols/raft_election.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

RaftElection::Outcome RaftElection::run(std::uint64_t seed, std::uint64_t trial) {
  const std::uint64_t first = trial * 64;
  const int living = static_cast<int>(settings_.log_lengths.size());
  servers_.clear();
  happenings_ = {};
  leaders_.clear();
  order_ = 0;
  now_ = 0;
  newest_term_ = 1;
  done_ = false;
  safe_ = true;
  RandomStream chance(seed, first + 32);
  const double crash = settings_.fresh_timers   ? 0.0
                       : settings_.synchronised ? chance.uniform() * settings_.heartbeat
                                                : settings_.heartbeat;
  for (int name = 0; name < living; ++name) {
    const std::uint64_t own = first + static_cast<std::uint64_t>(name);
    servers_.emplace_back(name, settings_.log_lengths[static_cast<std::size_t>(name)],
                          RandomStream(seed, settings_.one_seed ? first : own), RandomStream(seed, own + 8),
                          RandomStream(seed, own + 16), RandomStream(seed, own + 24));
  }
  // The old leader sends its last heartbeats. It has the name of the last server.
  for (Server& server : servers_) {
    if (settings_.fresh_timers) {
      set_timer(server);
      server.wake_set = server.alarm;
      push(server.alarm, server.name, {});
      continue;
    }
    const double sent = settings_.synchronised ? 0.0 : chance.uniform() * settings_.heartbeat;
    const double spread = settings_.greatest_delay - settings_.least_delay;
    server.phase = chance.uniform() * settings_.tick;
    push(sent + (settings_.least_delay + spread * chance.uniform()), -1,
         {Kind::append_entries, settings_.servers - 1, server.name, 1, false, false, 0, 0});
    set_timer(server);
  }
  while (!happenings_.empty() && !done_) {
    const Happening happening = happenings_.top();
    happenings_.pop();
    if (happening.time > settings_.longest + crash) break;
    now_ = happening.time;
    Server& server =
        servers_[static_cast<std::size_t>(happening.alarm_of < 0 ? happening.message.to : happening.alarm_of)];
    if (happening.alarm_of < 0)
      server.waiting.push_back(happening.message);
    else if (server.wake_set != now_)
      continue;  // the timer was put off since
    wake(server);
    const double due = std::max(server.writing ? server.written_at : server.alarm, now_);
    if (due != server.wake_set || happening.alarm_of >= 0) {
      server.wake_set = due;
      push(due, server.name, {});
    }
  }
  return {done_ ? now_ - crash : settings_.longest, newest_term_ - 1, done_, safe_};
}

void RaftElection::wake(Server& server) {
  for (;;) {
    if (server.writing) {
      if (now_ < server.written_at) return;
      server.writing = false;
      send(server);
    }
    if (!server.waiting.empty()) {
      const Message message = server.waiting.front();
      server.waiting.pop_front();
      handle(server, message);
    } else if (now_ >= server.alarm) {
      time_out(server);
    } else {
      return;
    }
    if (server.must_write) {
      server.must_write = false;
      server.writing = true;
      server.written_at = now_ + (settings_.least_write + settings_.mean_extra_write * server.writes.exponential());
    } else {
      send(server);
    }
  }
}

void RaftElection::send(Server& server) {
  const double spread = settings_.greatest_delay - settings_.least_delay;
  for (const Message& message : server.unsent) {
    const double delay = settings_.least_delay + spread * server.delays.uniform();
    if (message.to < static_cast<int>(servers_.size())) push(now_ + delay, -1, message);
  }
  server.unsent.clear();
}

void RaftElection::handle(Server& server, const Message& message) {
  if (settings_.keeps_leader && message.kind == Kind::request_vote && !message.pre && has_leader(server)) return;
  const bool hypothetical = message.pre && (message.kind == Kind::request_vote || message.granted);
  if (message.term > server.term && !hypothetical) {
    step_down(server, message.term);
    if (settings_.two_writes && message.kind == Kind::request_vote) return server.waiting.push_front(message);
  }
  switch (message.kind) {
    case Kind::request_vote:
      return vote(server, message);
    case Kind::append_entries:
      return append(server, message);
    case Kind::appended:
      return count_match(server, message);
    case Kind::vote:
      if (server.votes == 0 || message.pre != server.asks_before || !message.granted ||
          message.term != server.term + (message.pre ? 1 : 0))
        return;
      server.votes |= 1u << message.from;
      return win_if_majority(server);
  }
}

void RaftElection::step_down(Server& server, int term) {
  if (server.role == Role::leader) set_timer(server);
  server.term = term;
  server.voted_for = -1;
  server.role = Role::follower;
  server.votes = 0;
  server.must_write = true;
}

void RaftElection::time_out(Server& server) {
  if (server.role == Role::leader) return send_heartbeats(server);
  set_timer(server);
  if (!settings_.pre_vote) return stand(server);
  server.votes = 1u << server.name;
  server.asks_before = true;
  server.role = Role::follower;
  ask(server, server.term + 1, true);
}

void RaftElection::stand(Server& server) {
  newest_term_ = std::max(newest_term_, ++server.term);
  server.voted_for = server.name;
  server.role = Role::candidate;
  server.votes = 1u << server.name;
  server.asks_before = false;
  server.must_write = true;
  ask(server, server.term, false);
}

void RaftElection::ask(Server& server, int term, bool pre) {
  for (int to = 0; to < settings_.servers; ++to)
    if (to != server.name)
      server.unsent.push_back({Kind::request_vote, server.name, to, term, pre, false, server.length, 0});
}

void RaftElection::win_if_majority(Server& server) {
  if (2 * std::popcount(server.votes) <= settings_.servers) return;
  if (server.asks_before) {
    set_timer(server);
    return stand(server);
  }
  for (const auto& [term, name] : leaders_) safe_ = safe_ && (term != server.term || name == server.name);
  leaders_.emplace_back(server.term, server.name);
  safe_ = safe_ && server.length >= settings_.committed;
  server.role = Role::leader;
  server.votes = 0;
  done_ = done_ || settings_.until_elected;
  server.next.assign(static_cast<std::size_t>(settings_.servers), server.length + 1);
  server.match.assign(static_cast<std::size_t>(settings_.servers), 0);
  send_heartbeats(server);
}

void RaftElection::set_timer(Server& server) {
  const double range = settings_.greatest_timeout - settings_.least_timeout;
  const double late = settings_.timer_late * server.late.exponential();
  if (settings_.tick > 0) {
    const double ticks = std::round(settings_.least_timeout / settings_.tick) +
                         std::floor(server.timeouts.uniform() * std::round(range / settings_.tick));
    const double passed = std::floor((now_ - server.phase) / settings_.tick);
    server.alarm = server.phase + (passed + ticks) * settings_.tick + late;
  } else {
    double drawn = settings_.least_timeout + range * server.timeouts.uniform();
    if (settings_.step > 0) drawn = std::floor(drawn / settings_.step + 0.5) * settings_.step;
    server.alarm = now_ + (drawn + late);
  }
}

bool RaftElection::has_leader(const Server& server) const {
  if (server.role == Role::leader) return true;
  if (settings_.tick == 0) return now_ < server.heard_at + settings_.least_timeout;
  const auto ticks = [&](double time) { return std::floor((time - server.phase) / settings_.tick); };
  return ticks(now_) - ticks(server.heard_at) < std::round(settings_.least_timeout / settings_.tick);
}

void RaftElection::vote(Server& server, const Message& request) {
  Message answer{Kind::vote, server.name, request.from, server.term, request.pre, false, 0, 0};
  if (request.pre) {
    answer.granted = request.term > server.term && !has_leader(server) && is_up_to_date(server, request);
    if (answer.granted) answer.term = request.term;
  } else {
    const bool is_free = server.voted_for == -1 || server.voted_for == request.from;
    answer.granted = request.term == server.term && is_free && is_up_to_date(server, request);
    if (answer.granted && server.voted_for == -1) {
      server.voted_for = request.from;
      server.must_write = true;
    }
    if (answer.granted) set_timer(server);
  }
  server.unsent.push_back(answer);
}

void RaftElection::append(Server& server, const Message& request) {
  Message answer{Kind::appended, server.name, request.from, server.term, false, false, server.length + 1, 0};
  if (request.term < server.term) {
    server.unsent.push_back(answer);
    return;
  }
  server.role = Role::follower;
  server.votes = 0;
  server.heard_at = now_;
  set_timer(server);
  if (server.follows != request.term) {
    server.follows = request.term;
    done_ = std::all_of(servers_.begin(), servers_.end(),
                        [&](const Server& each) { return each.name == request.from || each.follows == request.term; });
  }
  if (request.length <= server.length) {
    answer.granted = true;
    answer.length = request.length + request.entries;
    if (answer.length > server.length) {
      server.length = answer.length;
      server.must_write = true;
    }
  }
  server.unsent.push_back(answer);
}

void RaftElection::count_match(Server& server, const Message& answer) {
  if (server.role != Role::leader || answer.term != server.term) return;
  int& next = server.next[static_cast<std::size_t>(answer.from)];
  int& match = server.match[static_cast<std::size_t>(answer.from)];
  if (!answer.granted) {
    next = std::max(match + 1, std::min(next, answer.length));
    return send_entries(server, answer.from);
  }
  match = std::max(match, answer.length);
  next = std::max(next, match + 1);
}

void RaftElection::send_heartbeats(Server& server) {
  server.alarm = now_ + settings_.heartbeat;
  for (int to = 0; to < settings_.servers; ++to)
    if (to != server.name) send_entries(server, to);
}

void RaftElection::send_entries(Server& server, int to) {
  const int before = server.next[static_cast<std::size_t>(to)] - 1;
  server.unsent.push_back(
      {Kind::append_entries, server.name, to, server.term, false, false, before, server.length - before});
}
