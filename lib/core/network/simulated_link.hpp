// One direction of a cable: a queue, a transmitter, and a wire on which packets travel.
//
// The queue has a rule or is a discipline. A rule decides on arrival, so that the link can work out at once when a
// packet will leave and arrive. That takes one event a packet. A discipline is asked for a packet at the end of each
// transmission, which is an event, too.
#pragma once
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random_stream.hpp"
#include "base/refusal.hpp"
#include "base/ring.hpp"
#include "base/simulated_time.hpp"
#include "queues/link_queues.hpp"
#include "queues/policer.hpp"

class alignas(64) SimulatedLink {
 public:
  struct Wire {
    double rate;         // bits per second
    Time delay, jitter;  // jitter: the standard deviation of the delay
    double loss;         // the probability that a packet is lost
    double reordering;   // the probability that one is held back
    Time held_back;      // for so long
    Time host_delay;     // time of the host in front for a packet: uniform from 0 to this
  };
  struct Counts {
    std::uint64_t offered_packets = 0, sent_packets = 0, sent_bytes = 0;
    Time busy = 0;
    std::uint64_t dropped_packets = 0, marked_packets = 0, lost_packets = 0;
  };
  // A packet on its way, with all that a link has to know of it, so that the packet itself need not be read.
  struct Traveller {
    std::uint32_t packet, bytes;
    std::uint32_t hop;   // place of this link in the path table
    std::uint32_t next;  // the next link on its path
  };
  struct Departure {  // of a packet whose last bit has left
    std::uint32_t flow;
    std::uint32_t bytes : 31, marked : 1;
    Time time, waited;
  };

  SimulatedLink(const Wire& wire, LinkQueue queue, RandomStream losses, RandomStream jitters, RandomStream reorderings,
                RandomStream host_delays)
      : picoseconds_per_byte_(picoseconds_per_byte(wire.rate)),
        delay_(wire.delay),
        jitter_(wire.jitter),
        host_delay_(wire.host_delay),
        host_delays_(host_delays),
        loss_(wire.loss),
        reordering_(wire.reordering),
        discipline_(queue.index() == 1 ? std::move(std::get<1>(queue)) : nullptr),
        rule_(queue.index() == 0 ? std::move(std::get<0>(queue)) : DropTail(0, 0)),
        held_back_(wire.held_back),
        losses_(losses),
        jitters_(jitters),
        reorderings_(reorderings) {
    keeps_order_ = jitter_ != 0 || host_delay_ != 0;
    waits_for_transmitter_ = discipline_ != nullptr;
    if (const DropTail* tail = std::get_if<DropTail>(&rule_)) is_drop_tail_ = true, drop_tail_ = *tail;
    may_lose_ = loss_ > 0;
    may_hold_back_ = reordering_ > 0;
    find_plain();
  }

  // Replaces the queue that the link was made with. It has to be called before any packet comes.
  void use_queue(std::unique_ptr<QueueDiscipline> queue) {
    discipline_ = std::move(queue);
    waits_for_transmitter_ = true;
    find_plain();
  }

  // Puts a policer in front of the queue. It has to be called before any packet comes.
  void police(const Policer& policer) {
    policer_ = std::make_unique<Policer>(policer);
    find_plain();
  }

  // Whether offer_plainly is enough: the queue looks only at a packet's size.
  bool is_plain() const { return is_plain_; }
  // A packet comes. Returns false when it is dropped.
  bool offer_plainly(const Traveller& packet, Time now) {
    ++counts_.offered_packets;
    // At most as many packets wait as at the last look. Where the packet fits by then, no new look is needed.
    const PacketFacts facts{packet.bytes, false};
    if (drop_tail_.arrival(known_to_wait(), facts, now) == Verdict::drop &&
        drop_tail_.arrival(waiting_at(now), facts, now) == Verdict::drop)
      return ++counts_.dropped_packets, false;
    transmit(packet, std::max(free_at_, now));
    waiting_bytes_ += packet.bytes;
    return true;
  }

  // A packet comes. Calls discard(name) for each packet that is dropped, this one or another. Returns drop when this
  // one is dropped, and mark when it is marked already.
  template <class Discard>
  Verdict offer(const QueuedPacket& packet, const Traveller& traveller, Discard&& discard) {
    const Time now = packet.arrived;
    ++counts_.offered_packets;
    if (policer_ && !policer_->passes(packet.bytes, now))
      return ++counts_.dropped_packets, discard(packet.name), Verdict::drop;
    if (!up_) return ++counts_.dropped_packets, discard(packet.name), Verdict::drop;
    if (waits_for_transmitter_) {
      discipline_->join(packet, drained_at(now), dropped_);
      return hand_back(packet.name, discard) ? Verdict::drop : Verdict::accept;
    }
    const PacketFacts facts{packet.bytes, packet.ecn_capable};
    const Backlog backlog = waiting(now);
    const Verdict verdict = is_drop_tail_ ? drop_tail_.arrival(backlog, facts, now) : ask_rule(backlog, facts, now);
    if (verdict == Verdict::drop) return ++counts_.dropped_packets, discard(packet.name), verdict;
    const bool marks = verdict == Verdict::mark;
    counts_.marked_packets += marks;
    send_off(packet, traveller, packet.marked_before || marks, std::max(free_at_, now));
    waiting_bytes_ += packet.bytes;
    return verdict;
  }

  bool is_empty() const { return wire_.empty(); }

  // Packets that wait for the transmitter; the one being sent does not.
  Backlog waiting(Time now) {
    if (waits_for_transmitter_) return {discipline_->packets(), discipline_->bytes(), free_at_};
    return waiting_at(now);
  }

  bool fewer_wait(std::uint64_t packets, Time now) {
    return (!waits_for_transmitter_ && known_to_wait().packets < packets) || waiting(now).packets < packets;
  }

  // With a discipline: sends its next packet if the transmitter is free. discard(name) and mark(name) hear what becomes
  // of packets; traveller(name) says where one goes. True when a transmission has begun; it ends at free_at().
  template <class Discard, class Mark, class TravellerOf>
  bool start_transmission(Time now, Discard&& discard, Mark&& mark, TravellerOf&& traveller) {
    if (!waits_for_transmitter_ || free_at_ > now) return false;
    const auto next = discipline_->next(now, dropped_);
    hand_back(~0u, discard);
    if (!next) return false;
    if (next->marked) ++counts_.marked_packets, mark(next->name);
    send_off(*next, traveller(next->name), next->marked_before || next->marked, now);
    next_to_start_ = wire_.tail();
    return true;
  }

  Time next_arrival() const {
    const Time first = wire_.empty() ? never : wire_.front().arrival;
    return !may_hold_back_ || held_.empty() ? first : std::min(first, held_.front().arrival);
  }
  // The packet that arrives next at the far end, from those held back or those on the wire. There must be one.
  const Traveller& next_packet() const { return held_is_next() ? held_.front().traveller : wire_.front().traveller; }
  enum class Fate : std::uint8_t { arrives, lost, held_back };
  // Takes the next packet, unless the wire loses it or holds it back.
  Fate take_arrival() {
    if (held_is_next()) return held_.pop(), Fate::arrives;
    const Flight& flight = wire_.front();
    if (next_to_start_ == wire_.head()) {  // nobody has looked at the queue since it started
      waiting_bytes_ -= waits_for_transmitter_ ? 0 : flight.traveller.bytes;
      ++next_to_start_;
    }
    wire_.pop();  // `flight` is there until the next packet is pushed
    wire_.fetch(wire_.head() + 1);
    if (may_lose_ && losses_.uniform() < loss_) return ++counts_.lost_packets, Fate::lost;
    if (may_hold_back_ && reorderings_.uniform() < reordering_)
      return held_.push({flight.arrival + held_back_, flight.traveller}), Fate::held_back;
    return Fate::arrives;
  }

  // Sets another rate, for the packets that wait, not for the one being sent.
  void set_rate(double rate, Time now) {
    const double before = std::exchange(picoseconds_per_byte_, picoseconds_per_byte(rate));
    if (waits_for_transmitter_) return discipline_->stretch(picoseconds_per_byte_ / before);
    stretch_rule(rule_, picoseconds_per_byte_ / before);
    if (waiting(now).packets == 0) return;
    std::size_t record = departures_.size() - (wire_.tail() - next_to_start_);
    Time free_at = wire_[next_to_start_].start;
    for (std::uint64_t number = next_to_start_; number != wire_.tail(); ++number, ++record) {
      Flight& flight = wire_[number];
      const Time departed = departure_of(number), duration = transmission_from(free_at, flight.traveller.bytes);
      const Time later = free_at - flight.start;
      counts_.busy += duration - (departed - flight.start);
      const Time travels = flight.arrival - departed;
      flight.start = free_at;
      free_at += duration;
      flight.arrival = last_arrival_ =
          std::max(free_at + travels, number == wire_.head() ? 0 : wire_[number - 1].arrival);
      if (records_) departures_[record].time = free_at, departures_[record].waited += later;
    }
    free_at_ = free_at;
  }

  // Sets another delay, for the packets that have not left. No packet overtakes another.
  void set_delay(Time delay, Time now) {
    const Time later = delay - std::exchange(delay_, delay);
    keeps_order_ = true;
    Time before = 0;
    for (std::uint64_t number = wire_.head(); number != wire_.tail(); ++number) {
      const Time departed = departure_of(number);
      Time& arrival = wire_[number].arrival;
      if (departed > now) arrival = std::max({departed, arrival + later, before});
      last_arrival_ = before = arrival;
    }
  }
  // Sets another loss, for the packets that have not arrived.
  void set_loss(double loss) {
    loss_ = loss;
    may_lose_ = loss > 0;
  }

  bool up() const { return up_; }
  void come_up() {
    up_ = true;
    find_plain();
  }
  // Drops packets that wait or are being sent, loses those on the wire. Calls drop(packet) or lose(packet) for each.
  template <class Drop, class Lose>
  void go_down(Time now, Drop&& drop, Lose&& lose) {
    up_ = false;
    find_plain();
    std::size_t unsent = 0;
    for (; !wire_.empty(); wire_.pop()) {
      const Flight& flight = wire_.front();
      const Time departure = departure_of(wire_.head());
      if (departure <= now) {
        ++counts_.lost_packets;
        lose(flight.traveller.packet);
        continue;
      }
      ++unsent;
      ++counts_.dropped_packets;
      --counts_.sent_packets;
      counts_.sent_bytes -= flight.traveller.bytes;
      counts_.busy -= departure - std::max(flight.start, now);
      drop(flight.traveller.packet);
    }
    if (records_) departures_.resize(departures_.size() - unsent);
    for (; !held_.empty(); held_.pop()) ++counts_.lost_packets, lose(held_.front().traveller.packet);
    if (waits_for_transmitter_) discipline_->clear(dropped_);
    hand_back(~0u, drop);
    next_to_start_ = wire_.head();
    waiting_bytes_ = 0;
    free_at_ = std::min(free_at_, now);
    last_arrival_ = std::min(last_arrival_, now);
  }

  // A link between two parts of a network (parallel/) is in both: in one a packet is sent, in the other it arrives.

  // Takes out the packets whose last bit leaves before that time, with take(traveller, arrival).
  template <class Take>
  void hand_over(Time before, Take&& take) {
    for (; next_departure() < before; wire_.pop()) {
      const Flight& flight = wire_.front();
      if (next_to_start_ == wire_.head()) {
        waiting_bytes_ -= waits_for_transmitter_ ? 0 : flight.traveller.bytes;
        ++next_to_start_;
      }
      take(flight.traveller, flight.arrival);
    }
  }
  // When the first packet on the wire leaves; or a later time, if it has not been handed over by then.
  Time next_departure() const { return wire_.empty() ? never : departure_of(wire_.head()); }
  void put_on_wire(const Traveller& packet, Time arrival) {
    wire_.push({0, arrival, packet});
    next_to_start_ = wire_.tail();
  }
  Time delay() const { return delay_; }
  bool has_jitter() const { return jitter_ > 0; }

  // When a discipline that has nothing to send now wants to be asked again.
  Time ready_at() const { return discipline_->ready_at(); }
  void hear_echo(std::uint32_t flow, Time now) {
    if (discipline_) discipline_->hear_echo(flow, now);
  }
  bool waits_for_transmitter() const { return waits_for_transmitter_; }
  Time free_at() const { return free_at_; }
  // When all packets that the link has now will have been sent.
  Time drained_at(Time now) const {
    if (!waits_for_transmitter_) return free_at_;
    const double queued = static_cast<double>(discipline_->bytes()) * picoseconds_per_byte_;
    return std::max(free_at_, now) + static_cast<Time>(std::min(queued, static_cast<double>(latest)));
  }
  double bytes_per_second() const { return static_cast<double>(picoseconds_per_second) / picoseconds_per_byte_; }
  Time last_start() const { return wire_.empty() ? 0 : wire_[wire_.tail() - 1].start; }
  // Records at most this many departures: a run with more ends with a Refusal.
  void record_departures(std::uint64_t most) {
    records_ = true;
    most_departures_ = most;
    find_plain();
  }
  const std::vector<Departure>& departures() const { return departures_; }

  // The counts at `end`, without transmissions that were under way or still to come then.
  Counts counts(Time end) const {
    Counts counts = counts_;
    for (std::uint64_t number = wire_.tail(); number-- != wire_.head();) {
      const Flight& flight = wire_[number];
      const Time departure = departure_of(number);
      if (departure <= end) break;
      --counts.sent_packets;
      counts.sent_bytes -= flight.traveller.bytes;
      counts.busy -= departure - (flight.start > end ? flight.start : end);
    }
    return counts;
  }

 private:
  static constexpr Time latest = 2'000'000 * picoseconds_per_second;

  struct Flight {
    Time start, arrival;
    Traveller traveller;
  };
  struct Held {
    Time arrival;
    Traveller traveller;
  };

  void find_plain() {
    is_plain_ = is_drop_tail_ && up_ && !waits_for_transmitter_ && !records_ && !may_hold_back_ && !policer_;
  }

  Verdict ask_rule(const Backlog& backlog, const PacketFacts& facts, Time now) {
    return std::visit([&](auto& rule) { return rule.arrival(backlog, facts, now); }, rule_);
  }

  Backlog known_to_wait() const { return {wire_.tail() - next_to_start_, waiting_bytes_, free_at_}; }
  Backlog waiting_at(Time now) {
    while (next_to_start_ != wire_.tail() && wire_[next_to_start_].start <= now)
      waiting_bytes_ -= wire_[next_to_start_++].traveller.bytes;
    assert(next_to_start_ != wire_.tail() || waiting_bytes_ == 0);
    return known_to_wait();
  }

  bool held_is_next() const {
    return may_hold_back_ && !held_.empty() && (wire_.empty() || held_.front().arrival <= wire_.front().arrival);
  }

  void transmit(const Traveller& packet, Time start) {
    assert(wire_.empty() || start >= free_at_);  // one at a time
    const Time duration = transmission_from(start, packet.bytes);
    free_at_ = start + duration;
    wire_.push({start, keeps_order_ ? arrival_in_order() : free_at_ + delay_, packet});
    wire_.fetch(wire_.tail());
    ++counts_.sent_packets;
    counts_.sent_bytes += packet.bytes;
    counts_.busy += duration;
  }
  void send_off(const QueuedPacket& packet, const Traveller& traveller, bool marked, Time start) {
    assert(start >= packet.arrived);
    transmit(traveller, start);
    if (records_) record({packet.flow, packet.bytes, marked, free_at_, start - packet.arrived});
  }
  void record(const Departure& departure) {
    if (departures_.size() == most_departures_)
      throw Refusal("Measure: packets of a port are " + std::to_string(most_departures_) + " or more",
                    "record a slower port, or let the experiment be shorter");
    departures_.push_back(departure);
  }

  // Hands the packets that the discipline has dropped back to their owner. True when the named one is among them.
  template <class Discard>
  bool hand_back(std::uint32_t name, Discard&& discard) {
    bool found = false;
    for (const QueuedPacket& packet : dropped_) {
      ++counts_.dropped_packets;
      found |= packet.name == name;
      discard(packet.name);
    }
    dropped_.clear();
    return found;
  }

  // When a packet's last bit leaves. For one that left long ago, it may be the later start of the next packet.
  Time departure_of(std::uint64_t number) const {
    return number + 1 == wire_.tail() ? free_at_ : wire_[number + 1].start;
  }

  static double picoseconds_per_byte(double rate) { return 8 * static_cast<double>(picoseconds_per_second) / rate; }
  // How long a transmission takes that starts then. It ends at `latest` at most, which is beyond all experiments.
  Time transmission_from(Time start, std::uint32_t bytes) const {
    return std::min(static_cast<Time>(bytes * picoseconds_per_byte_ + 0.5), latest - start);
  }

  // The arrival after a bell-shaped delay, never negative, and the host's time. No packet overtakes another.
  Time arrival_in_order() {
    Time delay = delay_;
    if (jitter_ > 0) delay += static_cast<Time>(jitters_.bell() * static_cast<double>(jitter_));
    delay = std::max<Time>(delay, 0);
    if (host_delay_ > 0) delay += static_cast<Time>(host_delays_.uniform() * static_cast<double>(host_delay_));
    return last_arrival_ = std::max(last_arrival_, free_at_ + std::min(delay, latest));
  }

  // Members are in the order of use, so that an ordinary packet needs two lines of a processor's cache.
  Ring<Flight> wire_;                // being sent or under way; with a rule also those that wait
  std::uint64_t next_to_start_ = 0;  // the first of wire_ that has not started
  std::uint64_t waiting_bytes_ = 0;
  Time free_at_ = 0;
  double picoseconds_per_byte_;
  Time delay_;
  bool is_plain_ = false;
  bool keeps_order_ = false;  // a packet could overtake another: the delay varies, or has changed
  bool may_lose_ = false, may_hold_back_ = false, waits_for_transmitter_ = false;
  bool is_drop_tail_ = false, up_ = true, records_ = false;
  DropTail drop_tail_{0, 0};  // the rule, where it is drop-tail
  Counts counts_;
  Time jitter_, host_delay_, last_arrival_ = 0;
  RandomStream host_delays_;
  double loss_, reordering_;
  std::unique_ptr<QueueDiscipline> discipline_;
  QueueRule rule_;  // where there is no discipline
  std::unique_ptr<Policer> policer_;
  Time held_back_;
  RandomStream losses_, jitters_, reorderings_;
  Ring<Held> held_;                    // held back on the wire
  std::vector<QueuedPacket> dropped_;  // by the discipline, a moment ago
  std::vector<Departure> departures_;
  std::uint64_t most_departures_ = 0;
};
