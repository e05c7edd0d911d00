#include "network/fabric.hpp"

#include <cmath>
#include <utility>

namespace {
constexpr double least_rate = 1;  // bit/s; below it, a packet takes longer than any experiment

void check_rate(double rate) {
  if (!(rate >= least_rate && std::isfinite(rate))) throw std::invalid_argument("no rate for a link");
}
}  // namespace

// Setting up.

std::uint32_t Fabric::add_link(const LinkSettings& link, const std::string& rule, const std::vector<double>& numbers) {
  schedule_.check_set_up();
  check_ends(link.from, link.to);
  check_rate(link.rate);
  const auto number = static_cast<std::uint32_t>(links_.size());
  std::shared_ptr<SwitchMemory> memory;
  const auto node_memory = [&] {
    std::shared_ptr<SwitchMemory>& of_node = memories_[link.from];
    if (!of_node) of_node = std::make_shared<SwitchMemory>(links_);
    return memory = of_node;
  };
  const auto decisions = rule == "pie" ? RandomStreams::pie_decisions : RandomStreams::red_decisions;
  const double packet_bytes = settings_.segment_bytes + settings_.header_bytes;
  LinkQueue queue = link_queue_named(
      rule, numbers, {link.rate, random_.seed(), RandomStreams::number(decisions, number), node_memory, packet_bytes});
  routes_.add_link(link.from, link.to);
  const SimulatedLink::Wire wire{link.rate * skew(number), link.delay,     link.jitter,    link.loss,
                                 link.reordering,          link.held_back, link.host_delay};
  links_.emplace_back(wire, std::move(queue), random_.stream(RandomStreams::losses, number),
                      random_.stream(RandomStreams::jitters, number),
                      random_.stream(RandomStreams::reorderings, number),
                      random_.stream(RandomStreams::host_delays, number));
  if (link.policer) links_[number].police(Policer(*link.policer));
  if (memory) memory->add_port(number);
  return number;
}

void Fabric::set_paths(std::uint32_t from, std::uint32_t to, std::vector<std::vector<std::uint32_t>> paths) {
  schedule_.check_set_up();
  check_ends(from, to);
  for (const auto& path : paths) check_path(path);
  routes_.set_paths(from, to, std::move(paths));
}

void Fabric::use_queue(std::uint32_t link, std::unique_ptr<QueueDiscipline> queue) {
  schedule_.check_set_up();
  check_link(link);
  links_[link].use_queue(std::move(queue));
}

void Fabric::record_departures(std::uint32_t link, std::uint64_t most) {
  schedule_.check_set_up();
  check_link(link);
  links_[link].record_departures(most);
}

void Fabric::check_change(const LinkChange& change) const {
  check_link(change.link);
  if (change.rate != 0) check_rate(change.rate);
  if (change.delay && *change.delay < 0) throw std::invalid_argument("no delay for a link");
  if (change.loss && !(*change.loss >= 0 && *change.loss < 1)) throw std::invalid_argument("no loss for a link");
}

void Fabric::spray_by_node() {
  for (std::uint32_t node = 0; node < routes_.nodes(); ++node)
    spraying_by_node_.push_back(random_.stream(RandomStreams::spraying, node + 1));
}

void Fabric::begin() {
  bool transmitters = false;
  for (const auto& link : links_) transmitters |= link.waits_for_transmitter();
  schedule_.begin(links_.size(), transmitters);
  for (const auto& link : links_) {
    if (rcp_) offers_.emplace_back(*rcp_, link.bytes_per_second());
    if (xcp_) feedbacks_.emplace_back(*xcp_, link.bytes_per_second());
  }
}

Time Fabric::delay(std::uint32_t path) const {
  Time delay = 0;
  for (; paths_[path] != PathTable::end; ++path) delay += links_[paths_[path]].delay();
  return delay;
}

// Packets.

std::uint32_t Fabric::new_packet(std::uint32_t flow, std::uint32_t path, std::uint32_t wire_bytes,
                                 std::uint16_t flags) {
  const std::uint32_t place = packets_.take();
  ++account_.created;
  Packet& packet = packets_[place];
  packet.flow = flow;
  packet.hop = path;
  if (sprays_ && paths_.from(path) != PathTable::end) {
    RandomStream& spraying = spraying_by_node_.empty() ? spraying_ : spraying_by_node_[paths_.from(path)];
    packet.hop = another_path(path, spraying.next());
  }
  packet.wire_bytes = wire_bytes;
  packet.flags = flags;
  packet.length = 0;
  packet.sequence = 0;
  packet.blocks = 0;
  packet.ace = 0;
  return place;
}

std::uint32_t Fabric::another_path(std::uint32_t path, std::uint64_t key) {
  const std::uint32_t from = paths_.from(path), to = paths_.to(path);
  if (routes_.has_sets()) return this->path(from, to, key);
  if (std::exchange(trees_version_, routes_.version()) != routes_.version()) trees_.clear();
  SprayingTree& tree = trees_[std::uint64_t{from} << 32 | to];
  const std::uint32_t known = tree.find(key);
  if (known != SprayingTree::unknown) return known;
  const std::uint32_t found = this->path(from, to, key);
  tree.add(routes_.forks(), key, found);
  return found;
}

void Fabric::send(std::uint32_t place) {
  const Packet& packet = packets_[place];
  pass_on({place, packet.wire_bytes, packet.hop, paths_[packet.hop + 1]}, paths_[packet.hop]);
}

void Fabric::pass_on(const SimulatedLink::Traveller& traveller, std::uint32_t number) {
  SimulatedLink& link = links_[number];
  if (!link.is_plain() || answers_packets()) return offer(traveller, number);
  const bool was_empty = link.is_empty();
  if (!link.offer_plainly(traveller, schedule_.now())) return drop(traveller.packet);
  if (was_empty) tell_arrival(number, link);
}

void Fabric::offer(const SimulatedLink::Traveller& traveller, std::uint32_t number) {
  SimulatedLink& link = links_[number];
  Packet& packet = packets_[traveller.packet];
  packet.hop = traveller.hop;
  if (answers_packets()) answer(number, packet);
  const Time before = link.next_arrival();
  const Verdict verdict = link.offer({.name = traveller.packet,
                                      .bytes = packet.wire_bytes,
                                      .flow = packet.flow,
                                      .ecn_capable = packet.has(Packet::ecn_capable),
                                      .ect_1 = packet.has(Packet::ect_1),
                                      .marked_before = packet.has(Packet::congestion_experienced),
                                      .arrived = schedule_.now()},
                                     traveller, [&](std::uint32_t dropped) { drop(dropped); });
  if (verdict == Verdict::drop) return;
  if (verdict == Verdict::mark) packet.flags |= Packet::congestion_experienced;
  if (link.waits_for_transmitter())
    start_transmission(number);
  else if (link.next_arrival() != before)
    tell_arrival(number);
}

void Fabric::start_transmission(std::uint32_t number) {
  SimulatedLink& link = links_[number];
  const Time before = link.next_arrival();
  const bool started = link.start_transmission(
      schedule_.now(), [&](std::uint32_t packet) { drop(packet); },
      [&](std::uint32_t packet) { packets_[packet].flags |= Packet::congestion_experienced; },
      [&](std::uint32_t place) {
        const Packet& packet = packets_[place];
        return SimulatedLink::Traveller{place, packet.wire_bytes, packet.hop, paths_[packet.hop + 1]};
      });
  if (!started) {
    if (link.free_at() <= schedule_.now()) schedule_.set_transmitter(number, link.ready_at());
    return;
  }
  schedule_.set_transmitter(number, link.free_at());
  if (link.next_arrival() != before) tell_arrival(number, link);
}

std::uint32_t Fabric::take_arrival(std::uint32_t number) {
  SimulatedLink& link = links_[number];
  const SimulatedLink::Traveller traveller = link.next_packet();
  const SimulatedLink::Fate fate = link.take_arrival();
  tell_arrival(number, link);
  if (fate == SimulatedLink::Fate::held_back) return no_packet;
  ++hops_;
  if (fate == SimulatedLink::Fate::lost) return lose(traveller.packet), no_packet;
  if (traveller.next == PathTable::end) return ++account_.delivered, traveller.packet;
  const std::uint32_t hop = traveller.hop + 1;
  pass_on({traveller.packet, traveller.bytes, hop, paths_[hop + 1]}, traveller.next);
  return no_packet;
}

void Fabric::apply(const LinkChange& change) {
  SimulatedLink& link = links_[change.link];
  const Time now = schedule_.now();
  if (change.rate > 0) {
    link.set_rate(change.rate * skew(change.link), now);
    if (rcp_) offers_[change.link].set_capacity(link.bytes_per_second());
    if (xcp_) feedbacks_[change.link].set_capacity(link.bytes_per_second());
  }
  if (change.delay) link.set_delay(*change.delay, now);
  if (change.loss) link.set_loss(*change.loss);
  if (change.state == LinkChange::State::up) link.come_up();
  if (change.state == LinkChange::State::down && link.up())
    link.go_down(now, [&](std::uint32_t packet) { drop(packet); }, [&](std::uint32_t packet) { lose(packet); });
  tell_arrival(change.link);
}

void Fabric::answer(std::uint32_t number, Packet& packet) {
  const Time now = schedule_.now(), drained_at = links_[number].drained_at(now);
  if (xcp_) feedbacks_[number].arrival(packet, drained_at, now);
  if (!rcp_) return;
  const bool asks = packet.has(Packet::asks_rate);
  const Time round_trip = asks ? RcpHeader::round_trip(packet) : 0;
  const double rate = offers_[number].arrival(packet.wire_bytes, round_trip, drained_at, now);
  if (asks) RcpHeader::offer(packet, rate);
}

Fabric::Account Fabric::account() const {
  Account account = account_;
  account.inside = packets_.alive();
  return account;
}
