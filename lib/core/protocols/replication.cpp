#include "protocols/replication.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "protocols/multi_paxos_replica.hpp"

Replication::Replication(Settings settings, std::vector<StoreCommand> commands, std::vector<double> arrivals,
                         std::vector<std::size_t> regions, std::vector<std::size_t> replicas, std::size_t keys)
    : settings_(std::move(settings)),
      commands_(std::move(commands)),
      arrivals_(std::move(arrivals)),
      regions_(std::move(regions)),
      asked_(std::move(replicas)),
      results_(commands_.size()),
      random_(settings_.seed, 0) {
  const std::size_t count = settings_.delays.size();
  busy_.assign(count, 0);
  free_.assign(count, 0);
  stores_.assign(count, ReplicatedStore(keys));
  for (std::size_t i = 0; i < count; ++i) {
    if (settings_.is_epaxos)
      replicas_.push_back(
          std::make_unique<EPaxosReplica>(i, count, settings_.epaxos[i], commands_, stores_[i], keys, *this));
    else
      replicas_.push_back(
          std::make_unique<MultiPaxosReplica>(i, count, settings_.leader, commands_, stores_[i], *this));
  }
  std::size_t next = 0;
  for (std::size_t client = 0; client < regions_.size(); ++client) {
    std::size_t end = next;
    while (end < commands_.size() && commands_[end].client == static_cast<std::int32_t>(client)) ++end;
    clients_.push_back({next, end, 0, next});
    next = end;
  }
}

void Replication::run() {
  for (std::size_t client = 0; client < clients_.size(); ++client) send_due(client);
  while (!queue_.empty()) {
    const Event event = queue_.top();
    queue_.pop();
    now_ = event.time;
    if (event.what == What::arrival) {
      send_due(static_cast<std::size_t>(event.client));
      continue;
    }
    if (event.what == What::wake) {
      replicas_[event.to]->wake(now_);
      continue;
    }
    const bool is_answer = messages_[event.slot].kind == ReplicaMessage::Kind::answer;
    if (event.what == What::message && !is_answer && settings_.message_cost > 0) {
      free_[event.to] = std::max(now_, free_[event.to]) + settings_.message_cost;
      busy_[event.to] += settings_.message_cost;
      push(free_[event.to], What::handled, event.from, event.to, event.client, event.slot);
      continue;
    }
    const ReplicaMessage message = messages_[event.slot];
    spare_.push_back(event.slot);
    if (!is_answer) {
      replicas_[event.to]->receive(now_, event.from, message);
      continue;
    }
    Result& result = results_[static_cast<std::size_t>(message.command)];
    result.answered = now_;
    result.value = message.value;
    --clients_[static_cast<std::size_t>(event.client)].under_way;
    if (!settings_.looks_at_arrivals) send_due(static_cast<std::size_t>(event.client));
  }
}

// Sends the commands that have arrived, up to the cap. If the next one has not arrived yet, it looks again when it has.
void Replication::send_due(std::size_t number) {
  Client& client = clients_[number];
  if (settings_.looks_at_arrivals) {  // called at an arrival; the next look is at the next one
    while (client.arrived < client.end && arrivals_[client.arrived] <= now_) ++client.arrived;
    if (client.arrived < client.end && arrivals_[client.arrived] < settings_.stop)
      push(arrivals_[client.arrived], What::arrival, 0, 0, static_cast<std::int32_t>(number), 0);
  }
  while (client.next < client.end && client.under_way < settings_.cap && now_ < settings_.stop) {
    const double arrival = arrivals_[client.next];
    if (arrival >= settings_.stop) return;
    if (arrival > now_) {
      if (!settings_.looks_at_arrivals && client.alarm != arrival)
        push(arrival, What::arrival, 0, 0, static_cast<std::int32_t>(number), 0);
      client.alarm = arrival;
      return;
    }
    results_[client.next].sent = now_;
    ReplicaMessage request{ReplicaMessage::Kind::request};
    request.command = static_cast<std::int32_t>(client.next);
    ++client.next;
    ++client.under_way;
    push(now_ + delay(regions_[number], asked_[number]), What::message, regions_[number], asked_[number],
         static_cast<std::int32_t>(number), keep(request));
  }
}

void Replication::send(std::size_t from, std::size_t to, const ReplicaMessage& message) {
  double& last = last_arrival_[from][to];
  last = std::max(last, now_ + delay(from, to));  // a connection keeps the order
  push(last, What::message, from, to, -1, keep(message));
}

void Replication::answer(std::size_t from, std::int32_t command, std::int32_t value) {
  const std::int32_t client = commands_[static_cast<std::size_t>(command)].client;
  ReplicaMessage message{ReplicaMessage::Kind::answer};
  message.command = command;
  message.value = value;
  const std::size_t region = regions_[static_cast<std::size_t>(client)];
  // The time of execution does not change its order, which depends only on what is committed.
  double executed = now_;
  if (const double interval = settings_.execution_interval; interval > 0)
    executed = std::max(now_, std::ceil(now_ / interval) * interval);
  push(executed + delay(from, region), What::message, from, region, client, keep(message));
}

void Replication::wake_at(std::size_t replica, double time) { push(time, What::wake, 0, replica, -1, 0); }

void Replication::committed(std::int32_t command, bool is_fast) {
  Result& result = results_[static_cast<std::size_t>(command)];
  result.committed = now_;
  result.is_fast = is_fast;
}

double Replication::delay(std::size_t from, std::size_t to) {
  if (from == to) return 0;
  const double varies = settings_.jitter > 0 ? settings_.jitter * random_.exponential() : 0;
  return settings_.delays[from][to] + varies;
}

void Replication::push(double time, What what, std::size_t from, std::size_t to, std::int32_t client,
                       std::uint32_t slot) {
  queue_.push({time, count_++, what, static_cast<std::uint8_t>(from), static_cast<std::uint8_t>(to), client, slot});
}

std::uint32_t Replication::keep(const ReplicaMessage& message) {
  if (spare_.empty()) {
    messages_.push_back(message);
    return static_cast<std::uint32_t>(messages_.size() - 1);
  }
  const std::uint32_t slot = spare_.back();
  spare_.pop_back();
  messages_[slot] = message;
  return slot;
}

std::size_t Replication::unlike_keys() const {
  std::size_t most = 0;
  for (const ReplicatedStore& store : stores_) most = std::max(most, store.keys_unlike(stores_.front()));
  return most;
}

std::size_t Replication::unexecuted() const {
  std::size_t sent = 0, least = std::numeric_limits<std::size_t>::max();
  for (const Result& result : results_) sent += result.sent >= 0;
  for (const ReplicatedStore& store : stores_) least = std::min(least, store.executed());
  return sent - std::min(sent, least);
}
