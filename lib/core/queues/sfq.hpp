// Stochastic fair queueing (McKenney, INFOCOM 1990) as Linux's sch_sfq has it: flows are hashed into buckets, buckets
// take turns, each sending `quantum` bytes a turn and what is left of a packet that it has begun. A bucket holds 127
// packets. When packets are one too many, the last of the longest bucket is dropped.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ring.hpp"
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
      turns_.push(place);
    }
    bucket.packets.push(packet);
    change(bucket);
    count_in(packet);
    if (packets() > limit_packets_) dropped.push_back(drop_from_longest());
  }

  std::optional<QueuedPacket> next(Time, std::vector<QueuedPacket>&) override {
    if (turns_.empty()) return std::nullopt;
    while (buckets_[turns_.front()].allotment <= 0) {
      buckets_[turns_.front()].allotment += quantum_;
      const std::uint32_t place = turns_.front();
      turns_.pop();
      turns_.push(place);
    }
    Bucket& bucket = buckets_[turns_.front()];
    const QueuedPacket packet = bucket.packets.front();
    bucket.packets.pop();
    change(bucket);
    bucket.allotment -= packet.bytes;
    if (bucket.packets.empty()) turns_.pop();
    count_out(packet);
    return packet;
  }

  void clear(std::vector<QueuedPacket>& dropped) override {
    for (; !turns_.empty(); turns_.pop())
      for (Ring<QueuedPacket>& waiting = buckets_[turns_.front()].packets; !waiting.empty(); waiting.pop()) {
        count_out(waiting.front());
        dropped.push_back(waiting.front());
      }
  }

 private:
  static constexpr std::size_t most_in_bucket = 127, most_buckets = 65'408;
  struct Bucket {
    Ring<QueuedPacket> packets;
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
    std::uint64_t longest = turns_.head();
    for (std::uint64_t turn = turns_.head(); turn != turns_.tail(); ++turn)
      if (is_longer(buckets_[turns_[turn]], buckets_[turns_[longest]])) longest = turn;
    Bucket& bucket = buckets_[turns_[longest]];
    const QueuedPacket packet = bucket.packets[bucket.packets.tail() - 1];
    bucket.packets.erase(bucket.packets.tail() - 1);
    change(bucket);
    if (bucket.packets.empty()) turns_.erase(longest);
    count_out(packet);
    return packet;
  }
  static bool is_longer(const Bucket& one, const Bucket& other) {
    const std::uint64_t length = one.packets.size();
    if (length != other.packets.size()) return length > other.packets.size();
    return length > 1 && one.changed > other.changed;
  }

  std::uint64_t limit_packets_;
  std::int64_t quantum_;
  FlowBuckets hash_;
  std::vector<Bucket> buckets_;
  std::uint64_t changes_ = 0;
  Ring<std::uint32_t> turns_;  // buckets with packets; the first is served
};
