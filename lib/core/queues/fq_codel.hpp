// FQ-CoDel (RFC 8290): flows are hashed into queues, each under a CoDel of its own. Queues take turns by deficit round
// robin. A queue that was empty goes ahead of those that were not, once. When there are too many packets, half the
// bytes of the queue with the most bytes are dropped at its head, 64 packets at most, as in Linux.
//
// With Linux's CoDel a queue drops nothing while all queues together hold at most one packet. Packets that are dropped
// for the limit count as drops of the queue's CoDel. Packets that have waited longer than a threshold may be marked.
// With RFC 8289's CoDel each queue looks at itself alone.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/ring.hpp"
#include "queues/codel.hpp"
#include "queues/flow_buckets.hpp"
#include "queues/linux_codel.hpp"
#include "queues/queue_discipline.hpp"
#include "queues/queue_numbers.hpp"

template <class OneCoDel>
class FqCoDel final : public QueueDiscipline {
 public:
  static constexpr bool is_linux = std::is_same_v<OneCoDel, LinuxCoDel>;
  static constexpr const char* name = is_linux ? "linux_fq_codel" : "fq_codel";
  static FqCoDel from(const QueueNumbers& numbers) {
    OneCoDel codel(~std::uint64_t{0}, numbers.time(1), numbers.time(2), numbers.flag(3));
    if constexpr (is_linux)
      if (numbers.time(6) > 0) codel.mark_after(numbers.time(6), numbers.flag(7));
    return FqCoDel(numbers.whole(0), codel, numbers.whole(4),
                   {static_cast<std::uint32_t>(numbers.whole(5)), numbers.place.seed, numbers.place.stream});
  }

  FqCoDel(std::uint64_t limit_packets, const OneCoDel& codel, std::uint64_t quantum_bytes, FlowBuckets buckets)
      : limit_packets_(limit_packets),
        quantum_(static_cast<std::int64_t>(quantum_bytes)),
        hash_(buckets),
        flows_(buckets.count(), Flow{codel}) {}

  void join(const QueuedPacket& packet, Time, std::vector<QueuedPacket>& dropped) override {
    const std::uint32_t place = hash_.of(packet.flow);
    Flow& flow = flows_[place];
    flow.packets.push(packet);
    flow.bytes += packet.bytes;
    count_in(packet);
    if (!flow.listed) {
      flow.listed = true;
      flow.credits = quantum_;
      new_.push(place);
    }
    if (packets() > limit_packets_) drop_from_fattest(dropped);
  }

  std::optional<QueuedPacket> next(Time now, std::vector<QueuedPacket>& dropped) override {
    while (!new_.empty() || !old_.empty()) {
      const bool is_new = !new_.empty();
      Ring<std::uint32_t>& turns = is_new ? new_ : old_;
      Flow& flow = flows_[turns.front()];
      if (flow.credits <= 0) {
        flow.credits += quantum_;
        put_last(turns);
        continue;
      }
      if (auto packet = next_of(flow, now, dropped)) {
        flow.credits -= packet->bytes;
        return packet;
      }
      if (is_new && !old_.empty()) {  // first a turn as an old one, or it could return as new at once
        put_last(turns);
      } else {
        flow.listed = false;
        turns.pop();
      }
    }
    return std::nullopt;
  }

  void clear(std::vector<QueuedPacket>& dropped) override {
    for (Ring<std::uint32_t>* turns : {&new_, &old_})
      for (; !turns->empty(); turns->pop()) {
        Flow& flow = flows_[turns->front()];
        while (!flow.packets.empty()) dropped.push_back(take(flow));
        flow.listed = false;
      }
  }

 private:
  static constexpr std::uint32_t most_dropped_at_once = 64;
  struct Flow {
    OneCoDel codel;
    Ring<QueuedPacket> packets{};
    std::uint64_t bytes = 0;
    std::int64_t credits = 0;
    bool listed = false;
  };

  // The first in turn becomes the last of the old ones.
  void put_last(Ring<std::uint32_t>& turns) {
    const std::uint32_t place = turns.front();
    turns.pop();
    old_.push(place);
  }

  QueuedPacket take(Flow& flow) {
    const QueuedPacket packet = flow.packets.front();
    flow.packets.pop();
    flow.bytes -= packet.bytes;
    count_out(packet);
    return packet;
  }

  std::optional<QueuedPacket> next_of(Flow& flow, Time now, std::vector<QueuedPacket>& dropped) {
    while (!flow.packets.empty()) {
      QueuedPacket packet = take(flow);
      const Backlog left{flow.packets.size(), is_linux ? bytes() : flow.bytes, now};
      const PacketFacts facts{packet.bytes, packet.ecn_capable, packet.ect_1};
      const Verdict verdict = flow.codel.departure(left, now - packet.arrived, facts, now);
      if (verdict != Verdict::drop) {
        packet.marked = verdict == Verdict::mark;
        return packet;
      }
      dropped.push_back(packet);
    }
    if constexpr (is_linux) flow.codel.ran_empty();
    return std::nullopt;
  }

  // Of several queues with the most bytes, it takes the first by number.
  void drop_from_fattest(std::vector<QueuedPacket>& dropped) {
    Flow& fattest =
        *std::max_element(flows_.begin(), flows_.end(), [](const Flow& a, const Flow& b) { return a.bytes < b.bytes; });
    const std::uint64_t goal = fattest.bytes / 2;
    std::uint64_t gone_bytes = 0;
    std::uint32_t gone = 0;
    do {
      dropped.push_back(take(fattest));
      gone_bytes += dropped.back().bytes;
    } while (++gone < most_dropped_at_once && gone_bytes < goal);
    if constexpr (is_linux) fattest.codel.count_drops(gone);
  }

  std::uint64_t limit_packets_;
  std::int64_t quantum_;
  FlowBuckets hash_;
  std::vector<Flow> flows_;
  Ring<std::uint32_t> new_, old_;  // flows with packets, and some that have just run empty
};
