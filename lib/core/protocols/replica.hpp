// The interfaces of a replica of any protocol and of its host. Replicas and commands are known by their numbers.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

inline constexpr std::size_t most_replicas = 5;

struct CommandOrder {  // EPaxos: what orders a command
  std::int32_t sequence = 1;
  std::array<std::int32_t, most_replicas> dependencies{-1, -1, -1, -1, -1};

  bool operator==(const CommandOrder&) const = default;
  void merge(const CommandOrder& other) {
    if (other.sequence > sequence) sequence = other.sequence;
    for (std::size_t i = 0; i < most_replicas; ++i)
      if (other.dependencies[i] > dependencies[i]) dependencies[i] = other.dependencies[i];
  }
};

struct ReplicaMessage {
  enum class Kind : std::uint8_t { request, first, first_reply, second, second_reply, commit, answer };
  Kind kind;
  std::uint8_t leader = 0;  // of the command
  std::int32_t place = 0;   // the command's place among those of its leader
  std::int32_t command = 0;
  std::int32_t value = -1;  // of an answer
  CommandOrder order{};
  double look_at = 0;  // TOQ: a time on the replicas' clocks
};

class Replica {
 public:
  class Host {  // where it runs
   public:
    virtual ~Host() = default;
    virtual void send(std::size_t from, std::size_t to, const ReplicaMessage& message) = 0;
    virtual void answer(std::size_t from, std::int32_t command, std::int32_t value) = 0;
    virtual void wake_at(std::size_t replica, double time) = 0;
    virtual void committed(std::int32_t command, bool is_fast) = 0;
  };

  virtual ~Replica() = default;
  virtual void receive(double now, std::size_t sender, const ReplicaMessage& message) = 0;
  virtual void wake(double) {}
};
