// EPaxos with the chain fix and TOQ, without crashes. protocols/epaxos.py explains it; tests compare the two.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <unordered_map>
#include <vector>

#include "protocols/replica.hpp"
#include "protocols/replicated_store.hpp"

class EPaxosReplica final : public Replica {
 public:
  struct Settings {
    bool chain_fix, fast_path, is_held_back;
    double hold_back, clock_error;
  };

  EPaxosReplica(std::size_t number, std::size_t replicas, const Settings& settings,
                const std::vector<StoreCommand>& commands, ReplicatedStore& store, std::size_t keys, Host& host);

  void receive(double now, std::size_t sender, const ReplicaMessage& message) override;
  void wake(double now) override;

 private:
  struct Led {
    CommandOrder order, replies;
    std::int32_t command;
    std::uint8_t replied = 0, accepted = 0;
    bool has_looked = false, agree = true, in_first_round = true;
  };
  struct Known {
    CommandOrder order;
    std::int32_t command = -1;  // -1 until it is committed here
    bool is_executed = false;
    std::uint32_t visit = 0, index = 0, lowest = 0;  // of the search that saw it last
    bool on_stack = false;
  };
  struct Place {
    std::int32_t leader, number;
  };
  struct Held {
    double due;
    std::uint64_t count;
    ReplicaMessage message;
    bool operator<(const Held& other) const {  // the earliest on top
      return due != other.due ? due > other.due : count > other.count;
    }
  };
  struct KnownWrites {
    std::array<std::int32_t, most_replicas> last{-1, -1, -1, -1, -1};
    std::int32_t highest = 0, own = -1;
  };

  void lead(double now, std::int32_t command);
  void look(const ReplicaMessage& message);
  const CommandOrder& look_myself(const ReplicaMessage& message);
  CommandOrder interfering(const ReplicaMessage& message);
  void know(std::size_t leader, std::int32_t place, std::int32_t command, std::int32_t sequence);
  void first_reply(const ReplicaMessage& message);
  void decide(std::int32_t place, bool is_fast);
  void tell_others(const ReplicaMessage& message);
  void hold(double due, const ReplicaMessage& message);
  void commit(const ReplicaMessage& message);
  void attempt(Place root);
  bool search(Place place, Place root);
  void execute(std::size_t first);
  Known& known(Place place);
  const StoreCommand& store_command(std::int32_t command) const { return commands_[static_cast<std::size_t>(command)]; }
  static std::int64_t key_of(Place place) { return (static_cast<std::int64_t>(place.number) << 3) | place.leader; }

  std::size_t number_, replicas_;
  Settings settings_;
  const std::vector<StoreCommand>& commands_;
  ReplicatedStore& store_;
  Host& host_;
  std::vector<Led> led_;
  std::vector<KnownWrites> writes_;
  std::vector<std::vector<Known>> known_;
  std::unordered_map<std::int64_t, std::vector<Place>> waiting_;
  std::vector<Place> stack_;
  std::uint32_t visit_ = 0, index_ = 0;
  std::priority_queue<Held> held_;
  std::uint64_t held_count_ = 0;
};
