#include "protocols/epaxos_replica.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

using Kind = ReplicaMessage::Kind;

EPaxosReplica::EPaxosReplica(std::size_t number, std::size_t replicas, const Settings& settings,
                             const std::vector<StoreCommand>& commands, ReplicatedStore& store, std::size_t keys,
                             Host& host)
    : number_(number),
      replicas_(replicas),
      settings_(settings),
      commands_(commands),
      store_(store),
      host_(host),
      writes_(keys),
      known_(replicas) {}

void EPaxosReplica::receive(double now, std::size_t sender, const ReplicaMessage& message) {
  switch (message.kind) {
    case Kind::request:
      return lead(now, message.command);
    case Kind::first: {
      const double due = message.look_at - settings_.clock_error;
      return !settings_.is_held_back || due <= now ? look(message) : hold(due, message);
    }
    case Kind::first_reply:
      return first_reply(message);
    case Kind::second: {
      know(message.leader, message.place, message.command, message.order.sequence);
      ReplicaMessage reply{Kind::second_reply, message.leader, message.place};
      return host_.send(number_, sender, reply);
    }
    case Kind::second_reply: {
      Led& led = led_[static_cast<std::size_t>(message.place)];
      if (++led.accepted == replicas_ / 2) decide(message.place, false);
      return;
    }
    default:
      return commit(message);
  }
}

void EPaxosReplica::wake(double now) {
  while (!held_.empty() && held_.top().due <= now) {
    const ReplicaMessage message = held_.top().message;
    held_.pop();
    look(message);
  }
}

void EPaxosReplica::hold(double due, const ReplicaMessage& message) {
  held_.push({due, held_count_++, message});
  host_.wake_at(number_, due);
}

void EPaxosReplica::tell_others(const ReplicaMessage& message) {
  for (std::size_t other = 0; other < replicas_; ++other)
    if (other != number_) host_.send(number_, other, message);
}

// Rounds.

void EPaxosReplica::lead(double now, std::int32_t command) {
  const StoreCommand& what = store_command(command);
  KnownWrites& writes = writes_[static_cast<std::size_t>(what.key)];
  ReplicaMessage message{Kind::first, static_cast<std::uint8_t>(number_), static_cast<std::int32_t>(led_.size()),
                         command};
  message.order.dependencies[number_] = writes.own;
  if (what.is_write) writes.own = message.place;
  led_.push_back({message.order, {}, command});
  if (settings_.is_held_back) {
    message.look_at = now + settings_.clock_error + settings_.hold_back;
    hold(now + settings_.hold_back, message);
  } else {
    message.order = look_myself(message);
  }
  tell_others(message);
}

void EPaxosReplica::look(const ReplicaMessage& message) {
  if (message.leader == number_) {
    look_myself(message);
    return;
  }
  ReplicaMessage reply{Kind::first_reply, message.leader, message.place};
  reply.order = interfering(message);
  host_.send(number_, message.leader, reply);
}

const CommandOrder& EPaxosReplica::look_myself(const ReplicaMessage& message) {
  Led& led = led_[static_cast<std::size_t>(message.place)];
  if (!led.has_looked) {
    led.order = interfering(message);
    led.has_looked = true;
  }
  return led.order;
}

CommandOrder EPaxosReplica::interfering(const ReplicaMessage& message) {
  const KnownWrites& writes = writes_[static_cast<std::size_t>(store_command(message.command).key)];
  CommandOrder found{writes.highest + 1, writes.last};
  found.dependencies[message.leader] = message.order.dependencies[message.leader];
  found.merge(message.order);
  know(message.leader, message.place, message.command, found.sequence);
  return found;
}

void EPaxosReplica::know(std::size_t leader, std::int32_t place, std::int32_t command, std::int32_t sequence) {
  const StoreCommand& what = store_command(command);
  if (!what.is_write) return;
  KnownWrites& writes = writes_[static_cast<std::size_t>(what.key)];
  writes.last[leader] = std::max(writes.last[leader], place);
  writes.highest = std::max(writes.highest, sequence);
}

void EPaxosReplica::first_reply(const ReplicaMessage& message) {
  Led& led = led_[static_cast<std::size_t>(message.place)];
  if (!led.in_first_round) return;
  ReplicaMessage mine{Kind::first, static_cast<std::uint8_t>(number_), message.place, led.command};
  mine.order = led.order;
  look_myself(mine);
  if (led.replied == 0) {
    led.replies = message.order;
  } else if (!(led.replies == message.order)) {
    led.agree = false;
    led.replies.merge(message.order);
  }
  if (++led.replied < replicas_ / 2) return;
  led.in_first_round = false;
  led.order.merge(led.replies);
  if (settings_.fast_path && led.agree && led.order == led.replies) return decide(message.place, true);
  know(number_, message.place, led.command, led.order.sequence);
  mine.kind = Kind::second;
  mine.order = led.order;
  tell_others(mine);
}

void EPaxosReplica::decide(std::int32_t place, bool is_fast) {
  const Led& led = led_[static_cast<std::size_t>(place)];
  host_.committed(led.command, is_fast);
  ReplicaMessage message{Kind::commit, static_cast<std::uint8_t>(number_), place, led.command};
  message.order = led.order;
  tell_others(message);
  commit(message);
}

// Execution.

EPaxosReplica::Known& EPaxosReplica::known(Place place) {
  std::vector<Known>& all = known_[static_cast<std::size_t>(place.leader)];
  const auto number = static_cast<std::size_t>(place.number);
  if (all.size() <= number) all.resize(number + 1);
  return all[number];
}

void EPaxosReplica::commit(const ReplicaMessage& message) {
  know(message.leader, message.place, message.command, message.order.sequence);
  const Place place{message.leader, message.place};
  Known& entry = known(place);
  entry.order = message.order;
  entry.command = message.command;
  attempt(place);
  const auto found = waiting_.find(key_of(place));
  if (found == waiting_.end()) return;
  const std::vector<Place> waiting = std::move(found->second);
  waiting_.erase(found);
  for (const Place each : waiting) attempt(each);
}

void EPaxosReplica::attempt(Place root) {
  if (known(root).is_executed) return;
  ++visit_;
  index_ = 0;
  stack_.clear();
  search(root, root);
}

// Finds strongly connected components (Tarjan), each after all that it needs. False: something is not committed yet.
bool EPaxosReplica::search(Place place, Place root) {
  const std::size_t depth = stack_.size();
  {
    Known& mine = known(place);
    mine.visit = visit_;
    mine.index = mine.lowest = index_++;
    mine.on_stack = true;
    stack_.push_back(place);
  }
  for (std::int32_t leader = 0; leader < static_cast<std::int32_t>(replicas_); ++leader) {
    std::int32_t number = known(place).order.dependencies[static_cast<std::size_t>(leader)];
    while (number >= 0) {
      const Place other{leader, number};
      Known& its = known(other);
      Known& mine = known(place);  // looked up after `its`, which may have moved it
      if (its.command < 0) {
        waiting_[key_of(other)].push_back(root);
        return false;
      }
      if (its.is_executed) break;
      const bool runs_later = settings_.chain_fix &&
                              std::tie(its.order.sequence, other.leader, other.number) >
                                  std::tie(mine.order.sequence, place.leader, place.number) &&
                              its.order.dependencies[static_cast<std::size_t>(place.leader)] >= place.number;
      if (runs_later) {
        number = its.order.dependencies[static_cast<std::size_t>(leader)];
        continue;
      }
      if (its.visit != visit_) {
        if (!search(other, root)) return false;
        Known& again = known(place);
        again.lowest = std::min(again.lowest, known(other).lowest);
      } else if (its.on_stack) {
        mine.lowest = std::min(mine.lowest, its.index);
      }
      break;
    }
  }
  const Known& mine = known(place);
  if (mine.lowest == mine.index) execute(depth);
  return true;
}

void EPaxosReplica::execute(std::size_t first) {
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(first);
  std::sort(begin, stack_.end(), [this](Place a, Place b) {
    return std::tuple(known(a).order.sequence, a.leader, a.number) <
           std::tuple(known(b).order.sequence, b.leader, b.number);
  });
  for (auto each = begin; each != stack_.end(); ++each) {
    Known& entry = known(*each);
    entry.is_executed = true;
    entry.on_stack = false;
    const std::int32_t value = store_.execute(entry.command, store_command(entry.command));
    if (static_cast<std::size_t>(each->leader) == number_) host_.answer(number_, entry.command, value);
  }
  stack_.erase(begin, stack_.end());
}
