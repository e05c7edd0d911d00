// The pacer of HULL's network interfaces (Alizadeh et al., NSDI 2012, section 4.2): a token bucket whose rate follows
// the arrivals. Every T it is R <- (1 - eta) R + eta M/T + beta Q, for M bytes that came and Q that wait. A flow is
// paced once it hears of congestion: an acknowledgement with an ECN echo associates it, with a probability, for some
// time. All other packets go past the bucket.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/random_stream.hpp"
#include "base/ring.hpp"
#include "queues/queue_discipline.hpp"
#include "queues/queue_numbers.hpp"

class NicPacer final : public QueueDiscipline {
 public:
  static constexpr const char* name = "nic_pacer";
  struct Settings {
    std::uint64_t limit_packets;
    double bucket_bytes, eta, beta;  // beta: per second
    Time update;                     // T
    double association;              // its probability
    Time associated_for;
  };
  static NicPacer from(const QueueNumbers& numbers) {
    const Settings settings{numbers.whole(0), numbers.real(1), numbers.real(2), numbers.real(3),
                            numbers.time(4),  numbers.real(5), numbers.time(6)};
    return NicPacer(settings, RandomStream(numbers.place.seed, numbers.place.stream));
  }

  NicPacer(const Settings& settings, RandomStream random)
      : settings_(settings), random_(random), tokens_(settings.bucket_bytes), next_update_(settings.update) {}

  void hear_echo(std::uint32_t flow, Time now) override {
    if (random_.uniform() < settings_.association) flows_[flow].until = now + settings_.associated_for;
  }

  void join(const QueuedPacket& packet, Time, std::vector<QueuedPacket>& dropped) override {
    advance(packet.arrived);
    if (packets() >= settings_.limit_packets) return dropped.push_back(packet);
    count_in(packet);
    const auto flow = flows_.find(packet.flow);
    // A flow whose time has run out still waits behind its own packets, so that no packet overtakes another.
    if (flow == flows_.end() || (flow->second.until <= packet.arrived && flow->second.waiting == 0))
      return passed_.push(packet);
    ++flow->second.waiting;
    came_bytes_ += packet.bytes;
    paced_bytes_ += packet.bytes;
    paced_.push(packet);
    release();
  }

  std::optional<QueuedPacket> next(Time now, std::vector<QueuedPacket>&) override {
    advance(now);
    if (passed_.empty()) return std::nullopt;
    const QueuedPacket packet = passed_.front();
    passed_.pop();
    count_out(packet);
    return packet;
  }

  // When there are enough tokens, or when the rate changes.
  Time ready_at() const override {
    if (paced_.empty()) return never;
    const double missing = std::min<double>(paced_.front().bytes, settings_.bucket_bytes) - tokens_;
    const double wait = rate_ > 0 ? std::ceil(missing / rate_ * static_cast<double>(picoseconds_per_second)) : 1e18;
    return wait < static_cast<double>(next_update_ - counted_) ? counted_ + std::max<Time>(static_cast<Time>(wait), 1)
                                                               : next_update_;
  }

  void clear(std::vector<QueuedPacket>& dropped) override {
    for (Ring<QueuedPacket>* waiting : {&passed_, &paced_})
      for (; !waiting->empty(); waiting->pop()) {
        count_out(waiting->front());
        dropped.push_back(waiting->front());
      }
    for (auto& [number, flow] : flows_) flow.waiting = 0;
    paced_bytes_ = 0;
  }

  double rate() const { return rate_; }  // bytes per second

 private:
  struct Flow {
    Time until = 0;             // it is associated until then
    std::uint64_t waiting = 0;  // packets in the bucket's queue
  };

  void advance(Time now) {
    while (next_update_ <= now) {
      if (paced_.empty() && came_bytes_ == 0) {  // idle: the rate only falls, and tokens are a geometric sum
        const Time more = (now - next_update_) / settings_.update;
        fill(next_update_);
        const double keeps = 1 - settings_.eta, kept = power(keeps, more);
        tokens_ = std::min(settings_.bucket_bytes,
                           tokens_ + rate_ * to_seconds(settings_.update) * keeps * (1 - kept) / settings_.eta);
        rate_ *= kept * keeps;
        counted_ = next_update_ + more * settings_.update;
        next_update_ = counted_ + settings_.update;
        continue;
      }
      fill(next_update_);
      release();
      rate_ += settings_.eta * (static_cast<double>(came_bytes_) / to_seconds(settings_.update) - rate_) +
               settings_.beta * static_cast<double>(paced_bytes_);
      came_bytes_ = 0;
      next_update_ += settings_.update;
    }
    fill(now);
    release();
  }
  // Repeated squaring gives the same bytes whatever mathematical library a machine has.
  static double power(double factor, Time times) {
    double product = 1;
    for (; times > 0; times /= 2, factor *= factor)
      if (times & 1) product *= factor;
    return product;
  }
  void fill(Time until) {
    tokens_ = std::min(settings_.bucket_bytes, tokens_ + rate_ * to_seconds(until - counted_));
    counted_ = until;
  }
  // A packet larger than the bucket leaves when the bucket is full.
  void release() {
    while (!paced_.empty() && tokens_ + 1e-9 >= std::min<double>(paced_.front().bytes, settings_.bucket_bytes)) {
      const QueuedPacket& packet = paced_.front();
      tokens_ -= packet.bytes;
      paced_bytes_ -= packet.bytes;
      --flows_[packet.flow].waiting;
      passed_.push(packet);
      paced_.pop();
    }
  }

  Settings settings_;
  RandomStream random_;
  std::unordered_map<std::uint32_t, Flow> flows_;
  Ring<QueuedPacket> paced_, passed_;  // before the bucket, and behind or beside it
  double rate_ = 0, tokens_;
  std::uint64_t came_bytes_ = 0, paced_bytes_ = 0;
  Time counted_ = 0, next_update_;
};
