// Stochastic fair queueing (McKenney, INFOCOM 1990) as Linux's sch_sfq has it: flows are hashed into buckets, buckets
// take turns, each sending `quantum` bytes a turn and what is left of a packet that it has begun. A bucket holds 127
// packets. When packets are one too many, the last of the longest bucket is dropped.
#pragma once
#include <algorithm>
#include <cstdint>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "queues/flow_buckets.hpp"
#include "queues/queue_discipline.hpp"
#include "queues/queue_numbers.hpp"

class Sfq final : public QueueDiscipline {
 public:
  static constexpr const char* name = "sfq";
  static Sfq from(const QueueNumbers& numbers) {
    return Sfq(numbers.whole(0), numbers.whole(1),
               {static_cast<std::uint32_t>(numbers.whole(2)), numbers.place.seed, numbers.place.stream});
  }

  Sfq(std::uint64_t limit_packets, std::uint64_t quantum_bytes, FlowBuckets buckets)
      : limit_packets_(limit_packets),
        quantum_(static_cast<std::int64_t>(quantum_bytes)),
        hash_(buckets),
        buckets_(buckets.count()) {}

  void join(const QueuedPacket& packet, Time, std::vector<QueuedPacket>& dropped) override {
    const std::uint32_t place = hash_.of(packet.flow);
    Bucket& bucket = buckets_[place];
    if (bucket.packets.size() >= most_in_bucket || (bucket.packets.empty() && turns_.size() >= most_turns()))
      return dropped.push_back(packet);
    if (bucket.packets.empty()) {  // behind all others: else new flows alone were served
      bucket.allotment = quantum_;
      turns_.push_back(place);
    }
    bucket.packets.push_back(packet);
    change(bucket);
    count_in(packet);
    if (packets() > limit_packets_) dropped.push_back(drop_from_longest());
  }

  std::optional<QueuedPacket> next(Time, std::vector<QueuedPacket>&) override {
    if (turns_.empty()) return std::nullopt;
    while (buckets_[turns_.front()].allotment <= 0) {
      buckets_[turns_.front()].allotment += quantum_;
      turns_.splice(turns_.end(), turns_, turns_.begin());
    }
    Bucket& bucket = buckets_[turns_.front()];
    const QueuedPacket packet = bucket.packets.front();
    bucket.packets.pop_front();
    change(bucket);
    bucket.allotment -= packet.bytes;
    if (bucket.packets.empty()) turns_.pop_front();
    count_out(packet);
    return packet;
  }

  void clear(std::vector<QueuedPacket>& dropped) override {
    for (std::uint32_t place : turns_)
      for (const QueuedPacket& packet : std::exchange(buckets_[place].packets, {})) {
        count_out(packet);
        dropped.push_back(packet);
      }
    turns_.clear();
  }

 private:
  static constexpr std::size_t most_in_bucket = 127, most_buckets = 65'408;
  struct Bucket {
    std::list<QueuedPacket> packets;
    std::int64_t allotment = 0;
    std::uint64_t changed = 0;  // when its length changed last, in changes
  };

  void change(Bucket& bucket) { bucket.changed = ++changes_; }
  // Linux has room for so many buckets with packets.
  std::size_t most_turns() const {
    return std::min({buckets_.size(), most_buckets, static_cast<std::size_t>(limit_packets_)});
  }

  // Of several that are longest: the one that has come to its length last; of packets that are all alone the first.
  QueuedPacket drop_from_longest() {
    auto longest = turns_.begin();
    for (auto turn = turns_.begin(); turn != turns_.end(); ++turn)
      if (is_longer(buckets_[*turn], buckets_[*longest])) longest = turn;
    Bucket& bucket = buckets_[*longest];
    const QueuedPacket packet = bucket.packets.back();
    bucket.packets.pop_back();
    change(bucket);
    if (bucket.packets.empty()) turns_.erase(longest);
    count_out(packet);
    return packet;
  }
  static bool is_longer(const Bucket& one, const Bucket& other) {
    const std::size_t length = one.packets.size();
    if (length != other.packets.size()) return length > other.packets.size();
    return length > 1 && one.changed > other.changed;
  }

  std::uint64_t limit_packets_;
  std::int64_t quantum_;
  FlowBuckets hash_;
  std::vector<Bucket> buckets_;
  std::uint64_t changes_ = 0;
  std::list<std::uint32_t> turns_;  // buckets with packets; the first is served
};
