// Stochastic fair queueing (McKenney, INFOCOM 1990) as in Linux's sch_sfq. Flows are hashed into buckets, which take
// turns. In a turn a bucket sends `quantum` bytes, and the rest of a packet that it has begun. A bucket holds 127
// packets. When there is one packet too many, the last packet of the longest bucket is dropped.
#pragma once
#include <algorithm>
#include <array>
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
        buckets_(buckets.count()) {
    newest_.fill(none);
  }

  void join(const QueuedPacket& packet, Time, std::vector<QueuedPacket>& dropped) override {
    const std::uint32_t place = hash_.of(packet.flow);
    Bucket& bucket = buckets_[place];
    if (bucket.packets.size() >= most_in_bucket || (bucket.packets.empty() && turns_.size() >= most_turns()))
      return dropped.push_back(packet);
    if (bucket.packets.empty()) {  // behind all others, or only new flows would be served
      bucket.allotment = quantum_;
      turns_.push(place);
    }
    leave_its_length(place);
    bucket.packets.push(packet);
    join_its_length(place);
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
    leave_its_length(turns_.front());
    const QueuedPacket packet = bucket.packets.front();
    bucket.packets.pop();
    join_its_length(turns_.front());
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
    newest_.fill(none);
    longest_ = 0;
  }

 private:
  static constexpr std::size_t most_in_bucket = 127, most_buckets = 65'408;
  static constexpr std::uint32_t none = ~0u;
  struct Bucket {
    Ring<QueuedPacket> packets;
    std::int64_t allotment = 0;
    std::uint32_t newer = none, older = none;  // buckets of this one's length, by when they reached it
  };

  // The number of buckets with packets for which Linux has room.
  std::size_t most_turns() const {
    return std::min({buckets_.size(), most_buckets, static_cast<std::size_t>(limit_packets_)});
  }

  void leave_its_length(std::uint32_t place) {
    const Bucket& bucket = buckets_[place];
    if (bucket.packets.empty()) return;
    (bucket.newer == none ? newest_[bucket.packets.size()] : buckets_[bucket.newer].older) = bucket.older;
    if (bucket.older != none) buckets_[bucket.older].newer = bucket.newer;
  }
  void join_its_length(std::uint32_t place) {
    Bucket& bucket = buckets_[place];
    if (!bucket.packets.empty()) {
      std::uint32_t& newest = newest_[bucket.packets.size()];
      bucket.newer = none;
      bucket.older = newest;
      if (newest != none) buckets_[newest].newer = place;
      newest = place;
    }
    longest_ = std::max<std::size_t>(longest_, bucket.packets.size());
    while (longest_ > 0 && newest_[longest_] == none) --longest_;
  }

  // Of several longest buckets, it takes the one that reached this length last; where all hold one packet, the first.
  QueuedPacket drop_from_longest() {
    const bool all_alone = longest_ == 1;
    const std::uint32_t place = all_alone ? turns_.front() : newest_[longest_];
    Bucket& bucket = buckets_[place];
    leave_its_length(place);
    const QueuedPacket packet = bucket.packets[bucket.packets.tail() - 1];
    bucket.packets.erase(bucket.packets.tail() - 1);
    join_its_length(place);
    if (all_alone) turns_.pop();
    count_out(packet);
    return packet;
  }

  std::uint64_t limit_packets_;
  std::int64_t quantum_;
  FlowBuckets hash_;
  std::vector<Bucket> buckets_;
  std::array<std::uint32_t, most_in_bucket + 1> newest_;  // by length: the bucket that came to it last
  std::size_t longest_ = 0;                               // 0: all are empty
  Ring<std::uint32_t> turns_;                             // buckets with packets; the first is served
};
