// Multi-Paxos with a stable leader, without crashes. Tests compare it with protocols/multi_paxos.py.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocols/replica.hpp"
#include "protocols/replicated_store.hpp"

class MultiPaxosReplica final : public Replica {
 public:
  MultiPaxosReplica(std::size_t number, std::size_t replicas, std::size_t leader,
                    const std::vector<StoreCommand>& commands, ReplicatedStore& store, Host& host)
      : number_(number), replicas_(replicas), leader_(leader), commands_(commands), store_(store), host_(host) {}

  void receive(double, std::size_t sender, const ReplicaMessage& message) override {
    using Kind = ReplicaMessage::Kind;
    if (message.kind == Kind::request) {
      accepted_.push_back(0);
      log_.push_back(message.command);
      chosen_.push_back(false);
      tell_others(Kind::second, static_cast<std::int32_t>(log_.size()) - 1, message.command);
    } else if (message.kind == Kind::second) {
      ReplicaMessage reply{Kind::second_reply};
      reply.place = message.place;
      host_.send(number_, sender, reply);
    } else if (message.kind == Kind::second_reply) {
      const auto place = static_cast<std::size_t>(message.place);
      if (++accepted_[place] != replicas_ / 2) return;
      host_.committed(log_[place], true);
      tell_others(Kind::commit, message.place, log_[place]);
      chosen_[place] = true;
      execute();
    } else {
      const auto place = static_cast<std::size_t>(message.place);
      if (log_.size() <= place) log_.resize(place + 1), chosen_.resize(place + 1, false);
      log_[place] = message.command;
      chosen_[place] = true;
      execute();
    }
  }

 private:
  void tell_others(ReplicaMessage::Kind kind, std::int32_t place, std::int32_t command) {
    ReplicaMessage message{kind};
    message.place = place;
    message.command = command;
    for (std::size_t other = 0; other < replicas_; ++other)
      if (other != number_) host_.send(number_, other, message);
  }
  void execute() {
    for (; executed_ < log_.size() && chosen_[executed_]; ++executed_) {
      const std::int32_t command = log_[executed_];
      const std::int32_t value = store_.execute(command, commands_[static_cast<std::size_t>(command)]);
      if (number_ == leader_) host_.answer(number_, command, value);
    }
  }

  std::size_t number_, replicas_, leader_;
  const std::vector<StoreCommand>& commands_;
  ReplicatedStore& store_;
  Host& host_;
  std::vector<std::int32_t> log_;
  std::vector<std::uint8_t> accepted_;
  std::vector<bool> chosen_;
  std::size_t executed_ = 0;
};
