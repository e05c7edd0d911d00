// Clients and replicas of a key-value store in virtual time: delays, processors that handle one message at a time, and
// clients with a bounded number of commands under way. Equal settings give equal results on every machine.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <queue>
#include <vector>

#include "base/random_stream.hpp"
#include "protocols/epaxos_replica.hpp"
#include "protocols/replica.hpp"
#include "protocols/replicated_store.hpp"

class Replication final : public Replica::Host {
 public:
  struct Settings {
    std::vector<std::vector<double>> delays;  // one way, between the replicas' regions
    double jitter, message_cost, stop;
    double execution_interval;  // between two looks for what can be executed; 0: at once
    std::size_t cap;
    bool looks_at_arrivals;  // a client notices a free place only when its next command arrives
    std::uint64_t seed;
    bool is_epaxos;
    std::size_t leader;                           // Multi-Paxos
    std::vector<EPaxosReplica::Settings> epaxos;  // by replica
  };
  struct Result {  // of one command; times are -1 where it was never sent
    double sent = -1, committed = -1, answered = -1;
    std::int32_t value = -1;
    bool is_fast = false;
  };

  // arrivals: of the commands, where each client's stand together. regions, replicas: for each client, where it is, and
  // whom it asks.
  Replication(Settings settings, std::vector<StoreCommand> commands, std::vector<double> arrivals,
              std::vector<std::size_t> regions, std::vector<std::size_t> replicas, std::size_t keys);
  Replication(const Replication&) = delete;  // the replicas point into it
  Replication& operator=(const Replication&) = delete;

  void run();
  const std::vector<Result>& results() const { return results_; }
  std::vector<double> busy() const { return busy_; }
  std::size_t unlike_keys() const;  // whose writes have another order at another replica
  std::size_t unexecuted() const;   // commands sent that some replica has not executed
  std::uint64_t events() const { return count_; }

 private:
  enum class What : std::uint8_t { arrival, message, handled, wake };
  struct Event {
    double time;
    std::uint64_t count;
    What what;
    std::uint8_t from, to;
    std::int32_t client;
    std::uint32_t slot;                         // of the message
    bool operator<(const Event& other) const {  // the earliest on top
      return time != other.time ? time > other.time : count > other.count;
    }
  };
  struct Client {
    std::size_t next, end, under_way = 0;
    std::size_t arrived = 0;  // the first command that has not arrived yet
    double alarm = -1;        // the arrival for which it is woken already
  };

  void send(std::size_t from, std::size_t to, const ReplicaMessage& message) override;
  void answer(std::size_t from, std::int32_t command, std::int32_t value) override;
  void wake_at(std::size_t replica, double time) override;
  void committed(std::int32_t command, bool is_fast) override;

  void send_due(std::size_t client);
  double delay(std::size_t from, std::size_t to);
  void push(double time, What what, std::size_t from, std::size_t to, std::int32_t client, std::uint32_t slot);
  std::uint32_t keep(const ReplicaMessage& message);

  Settings settings_;
  std::vector<StoreCommand> commands_;
  std::vector<double> arrivals_;
  std::vector<std::size_t> regions_, asked_;
  std::vector<Client> clients_;
  std::vector<ReplicatedStore> stores_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<Result> results_;
  std::vector<double> busy_, free_;
  std::array<std::array<double, most_replicas>, most_replicas> last_arrival_{};
  std::priority_queue<Event> queue_;
  std::vector<ReplicaMessage> messages_;
  std::vector<std::uint32_t> spare_;
  RandomStream random_;
  double now_ = 0;
  std::uint64_t count_ = 0;
};
