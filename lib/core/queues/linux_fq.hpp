// Linux's fq (sch_fq) in front of a link whose packets come from other hosts, so that nothing is paced. Flows are
// hashed into queues, which take turns by credit. A queue that was empty goes ahead of those that were not, once, with
// whatever credit it had left; after a silence it has at least a quantum. Packets that have waited longer than a
// threshold are marked.
//
// While no flow's queue holds a packet, up to eight packets pass by in a first-in first-out queue of their own,
// unmarked, and do not count for the limit. The clock of silences has Linux's ticks of a millisecond.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ring.hpp"
#include "queues/flow_buckets.hpp"
#include "queues/queue_discipline.hpp"
#include "queues/queue_numbers.hpp"

class LinuxFq final : public QueueDiscipline {
 public:
  static constexpr const char* name = "linux_fq";
  struct Settings {
    std::uint64_t limit_packets, flow_limit_packets;
    std::int64_t quantum, first_credit;  // bytes
    Time ce_threshold;                   // never: no marks
    Time refill_delay;
  };
  static LinuxFq from(const QueueNumbers& numbers) {
    const Time threshold = numbers.time(4);
    return LinuxFq({numbers.whole(0), numbers.whole(1), static_cast<std::int64_t>(numbers.whole(2)),
                    static_cast<std::int64_t>(numbers.whole(3)), threshold > 0 ? threshold : never, numbers.time(5)},
                   {static_cast<std::uint32_t>(numbers.whole(6)), numbers.place.seed, numbers.place.stream});
  }

  LinuxFq(const Settings& settings, FlowBuckets buckets)
      : settings_(settings), hash_(buckets), flows_(buckets.count(), Flow{settings.first_credit}) {}

  void join(const QueuedPacket& packet, Time, std::vector<QueuedPacket>& dropped) override {
    const std::uint64_t in_flows = packets() - passing_by_.size();
    if (in_flows >= settings_.limit_packets) return dropped.push_back(packet);
    if (in_flows == 0 && passing_by_.size() < most_passing_by) {
      passing_by_.push(packet);
      return count_in(packet);
    }
    const std::uint32_t place = hash_.of(packet.flow);
    Flow& flow = flows_[place];
    if (flow.packets.size() >= settings_.flow_limit_packets) return dropped.push_back(packet);
    if (!flow.listed) {
      flow.listed = true;
      if (flow.silent_since != never &&
          packet.arrived / tick > flow.silent_since / tick + settings_.refill_delay / tick)
        flow.credit = std::max(flow.credit, settings_.quantum);
      new_.push(place);
    }
    flow.packets.push(packet);
    count_in(packet);
  }

  std::optional<QueuedPacket> next(Time now, std::vector<QueuedPacket>&) override {
    if (packets() == 0) return std::nullopt;  // queues that have run empty keep their turns
    if (!passing_by_.empty()) return take(passing_by_);
    while (!new_.empty() || !old_.empty()) {
      const bool is_new = !new_.empty();
      Ring<std::uint32_t>& turns = is_new ? new_ : old_;
      Flow& flow = flows_[turns.front()];
      if (flow.credit <= 0) {
        flow.credit += settings_.quantum;
        put_last(turns);
      } else if (!flow.packets.empty()) {
        QueuedPacket packet = take(flow.packets);
        flow.credit -= packet.bytes;
        packet.marked = packet.ecn_capable && now - packet.arrived > settings_.ce_threshold;
        return packet;
      } else if (is_new) {  // first a turn as an old one, or it could return as new at once
        put_last(turns);
      } else {
        flow.listed = false;
        flow.silent_since = now;
        turns.pop();
      }
    }
    return std::nullopt;
  }

  void clear(std::vector<QueuedPacket>& dropped) override {
    while (!passing_by_.empty()) dropped.push_back(take(passing_by_));
    for (Ring<std::uint32_t>* turns : {&new_, &old_})
      for (; !turns->empty(); turns->pop()) {
        Flow& flow = flows_[turns->front()];
        while (!flow.packets.empty()) dropped.push_back(take(flow.packets));
        flow.listed = false;
      }
  }

 private:
  static constexpr std::size_t most_passing_by = 8;
  static constexpr Time tick = picoseconds_per_second / 1000;
  struct Flow {
    std::int64_t credit;
    Ring<QueuedPacket> packets{};
    Time silent_since = never;  // never: has sent nothing yet
    bool listed = false;
  };

  // The first in turn becomes the last of the old ones.
  void put_last(Ring<std::uint32_t>& turns) {
    const std::uint32_t place = turns.front();
    turns.pop();
    old_.push(place);
  }

  QueuedPacket take(Ring<QueuedPacket>& from) {
    const QueuedPacket packet = from.front();
    from.pop();
    count_out(packet);
    return packet;
  }

  Settings settings_;
  FlowBuckets hash_;
  std::vector<Flow> flows_;
  Ring<QueuedPacket> passing_by_;
  Ring<std::uint32_t> new_, old_;  // flows with packets, and some that have just run empty
};
