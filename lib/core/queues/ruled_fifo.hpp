// A first-in first-out queue under any queue rule. The rule is asked when a packet comes, and when one is next to be
// sent.
#pragma once
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/ring.hpp"
#include "queues/queue_discipline.hpp"
#include "queues/queue_rules.hpp"

class RuledFifo final : public QueueDiscipline {
 public:
  explicit RuledFifo(QueueRule rule) : rule_(std::move(rule)) {}

  void join(const QueuedPacket& packet, Time idle_since, std::vector<QueuedPacket>& dropped) override {
    const Backlog waiting{packets(), bytes(), idle_since};
    const PacketFacts facts{packet.bytes, packet.ecn_capable};
    const Verdict verdict = std::visit([&](auto& rule) { return rule.arrival(waiting, facts, packet.arrived); }, rule_);
    if (verdict == Verdict::drop) return dropped.push_back(packet);
    queue_.push(packet);
    queue_[queue_.tail() - 1].marked = verdict == Verdict::mark;
    count_in(packet);
  }

  std::optional<QueuedPacket> next(Time now, std::vector<QueuedPacket>& dropped) override {
    while (!queue_.empty()) {
      QueuedPacket packet = queue_.front();
      queue_.pop();
      count_out(packet);
      const Verdict verdict = at_departure(packet, now);
      if (verdict != Verdict::drop) {
        packet.marked |= verdict == Verdict::mark;
        return packet;
      }
      dropped.push_back(packet);
    }
    return std::nullopt;
  }

  void clear(std::vector<QueuedPacket>& dropped) override {
    for (; !queue_.empty(); queue_.pop()) {
      count_out(queue_.front());
      dropped.push_back(queue_.front());
    }
  }

  void stretch(double factor) override { stretch_rule(rule_, factor); }

  // Lets the last packet overtake the one before it.
  void swap_last() { std::swap(queue_[queue_.tail() - 1], queue_[queue_.tail() - 2]); }

 private:
  Verdict at_departure(const QueuedPacket& packet, Time now) {
    return std::visit(
        [&](auto& rule) {
          if constexpr (!std::decay_t<decltype(rule)>::decides_at_departure) return Verdict::accept;
          const Backlog left{packets(), bytes(), now};
          return rule.departure(left, now - packet.arrived, {packet.bytes, packet.ecn_capable}, now);
        },
        rule_);
  }

  QueueRule rule_;
  Ring<QueuedPacket> queue_;
};
