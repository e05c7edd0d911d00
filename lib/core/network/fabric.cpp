#include "network/fabric.hpp"

#include <cmath>
#include <utility>

namespace {
constexpr double least_rate = 1;  // bit/s: of less, a packet takes longer than all experiments

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
    if (!of_node) of_node = std::make_shared<SwitchMemory>();
    return memory = of_node;
  };
  const auto decisions = rule == "pie" ? RandomStreams::pie_decisions : RandomStreams::red_decisions;
  const double packet_bytes = settings_.segment_bytes + settings_.header_bytes;
  LinkQueue queue = link_queue_named(
      rule, numbers, {link.rate, random_.seed(), RandomStreams::number(decisions, number), node_memory, packet_bytes});
  routes_.add_link(link.from, link.to);
  const SimulatedLink::Wire wire{link.rate * skew(number), link.delay,     link.jitter,    link.loss,
                                 link.reordering,          link.held_back, link.host_delay};
  links_.push_back(std::make_unique<SimulatedLink>(
      wire, std::move(queue), random_.stream(RandomStreams::losses, number),
      random_.stream(RandomStreams::jitters, number), random_.stream(RandomStreams::reorderings, number),
      random_.stream(RandomStreams::host_delays, number)));
  if (memory) memory->ports.push_back(links_[number].get());
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
  links_[link]->use_queue(std::move(queue));
}

void Fabric::record_departures(std::uint32_t link, std::uint64_t most) {
  schedule_.check_set_up();
  check_link(link);
  links_[link]->record_departures(most);
}

void Fabric::check_change(const LinkChange& change) const {
  check_link(change.link);
  if (change.rate != 0) check_rate(change.rate);
  if (change.delay && *change.delay < 0) throw std::invalid_argument("no delay for a link");
  if (change.loss && !(*change.loss >= 0 && *change.loss < 1)) throw std::invalid_argument("no loss for a link");
}

void Fabric::offer_rates(const RcpLink::Settings& rcp, std::function<bool(const Packet&)> asks) {
  rcp_ = rcp;
  asks_rate_ = std::move(asks);
}

void Fabric::begin() {
  bool transmitters = false;
  for (const auto& link : links_) transmitters |= link->waits_for_transmitter();
  schedule_.begin(links_.size(), transmitters);
  if (rcp_)
    for (const auto& link : links_) offers_.emplace_back(*rcp_, link->bytes_per_second());
}

// Packets.

std::uint32_t Fabric::new_packet(std::uint32_t flow, std::uint32_t path, std::uint32_t wire_bytes,
                                 std::uint16_t flags) {
  const std::uint32_t place = packets_.take();
  ++account_.created;
  Packet& packet = packets_[place];
  packet.flow = flow;
  packet.hop = path;
  if (sprays_ && paths_.from(path) != PathTable::end)
    packet.hop = this->path(paths_.from(path), paths_.to(path), spraying_.next());
  packet.wire_bytes = wire_bytes;
  packet.flags = flags;
  packet.length = 0;
  packet.sequence = 0;
  packet.blocks = 0;
  return place;
}

void Fabric::send(std::uint32_t place) {
  Packet& packet = packets_[place];
  const std::uint32_t number = paths_[packet.hop];
  SimulatedLink& link = *links_[number];
  if (!offers_.empty()) offer_rate(number, packet);
  const Time before = link.next_arrival();
  const Verdict verdict = link.offer({.name = place,
                                      .bytes = packet.wire_bytes,
                                      .flow = packet.flow,
                                      .ecn_capable = packet.has(Packet::ecn_capable),
                                      .marked_before = packet.has(Packet::congestion_experienced),
                                      .arrived = schedule_.now()},
                                     [&](std::uint32_t dropped) { drop(dropped); });
  if (verdict == Verdict::drop) return;
  if (verdict == Verdict::mark) packet.flags |= Packet::congestion_experienced;
  if (link.waits_for_transmitter())
    start_transmission(number);
  else if (link.next_arrival() != before)
    schedule_.set_arrival(number, link.next_arrival());
}

void Fabric::start_transmission(std::uint32_t number) {
  SimulatedLink& link = *links_[number];
  const Time before = link.next_arrival();
  const bool started = link.start_transmission(
      schedule_.now(), [&](std::uint32_t packet) { drop(packet); },
      [&](std::uint32_t packet) { packets_[packet].flags |= Packet::congestion_experienced; });
  if (!started) {
    if (link.free_at() <= schedule_.now()) schedule_.set_transmitter(number, link.ready_at());
    return;
  }
  schedule_.set_transmitter(number, link.free_at());
  if (link.next_arrival() != before) schedule_.set_arrival(number, link.next_arrival());
}

std::uint32_t Fabric::take_arrival(std::uint32_t number) {
  SimulatedLink& link = *links_[number];
  const std::uint32_t place = link.next_packet();
  const SimulatedLink::Fate fate = link.take_arrival();
  schedule_.set_arrival(number, link.next_arrival());
  fetch_next();
  if (fate == SimulatedLink::Fate::held_back) return no_packet;
  ++hops_;
  if (fate == SimulatedLink::Fate::lost) return lose(place), no_packet;
  if (paths_[++packets_[place].hop] != PathTable::end) return send(place), no_packet;
  ++account_.delivered;
  return place;
}

void Fabric::apply(const LinkChange& change) {
  SimulatedLink& link = *links_[change.link];
  const Time now = schedule_.now();
  if (change.rate > 0) {
    link.set_rate(change.rate * skew(change.link), now);
    if (!offers_.empty()) offers_[change.link].set_capacity(link.bytes_per_second());
  }
  if (change.delay) link.set_delay(*change.delay, now);
  if (change.loss) link.set_loss(*change.loss);
  if (change.state == LinkChange::State::up) link.come_up();
  if (change.state == LinkChange::State::down && link.up())
    link.go_down(now, [&](std::uint32_t packet) { drop(packet); }, [&](std::uint32_t packet) { lose(packet); });
  schedule_.set_arrival(change.link, link.next_arrival());
}

void Fabric::offer_rate(std::uint32_t number, Packet& packet) {
  const bool asks = !(packet.flags & (Packet::acknowledgement | Packet::reset | Packet::posted)) && asks_rate_(packet);
  const Time round_trip = asks ? RcpHeader::round_trip(packet) : 0, now = schedule_.now();
  const double rate = offers_[number].arrival(packet.wire_bytes, round_trip, links_[number]->drained_at(now), now);
  if (asks) RcpHeader::offer(packet, rate);
}

Fabric::Account Fabric::account() const {
  Account account = account_;
  account.inside = packets_.alive();
  return account;
}
