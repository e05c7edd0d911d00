#include "simulation/connection.hpp"

#include <algorithm>
#include <utility>

#include "simulation/endpoints.hpp"
#include "simulation/halves.hpp"

// Opening.

void Connection::send_syn() {
  Fabric& fabric = endpoints_.fabric();
  sender_.connect(endpoints_.now());
  const std::uint32_t syn = fabric.new_packet(number_, paths_.forward, fabric.syn_bytes(), Packet::synchronise);
  fabric.packet(syn).stamp_ms = stamp_of(endpoints_.now());
  fabric.packet(syn).ace = sender_.asks_ecn();
  if (told_) told_->ask(fabric.packet(syn), {0, sender_.window().segments, 0});
  fabric.send(syn);
  set_sender_timer();
}

void Connection::take_syn(std::uint32_t place) {
  Fabric& fabric = endpoints_.fabric();
  if (told_) told_->hear(fabric.packet(place));
  const std::uint32_t stamp_ms = fabric.packet(place).stamp_ms;
  const std::uint8_t agreed = receiver_.answer_syn(fabric.packet(place).ace, endpoints_.now());
  fabric.give_back(place);
  const std::uint32_t answer =
      fabric.new_packet(number_, paths_.backward, fabric.syn_bytes(), Packet::synchronise | Packet::acknowledgement);
  fabric.packet(answer).stamp_ms = stamp_of(endpoints_.now());
  fabric.packet(answer).echo_ms = stamp_ms;
  fabric.packet(answer).ace = agreed;
  if (told_) told_->answer(fabric.packet(answer));
  fabric.send(answer);
}

void Connection::take_syn_answer(std::uint32_t place) {
  Fabric& fabric = endpoints_.fabric();
  if (told_) told_->be_told(fabric.packet(place), 0);
  const std::uint32_t echo_ms = fabric.packet(place).echo_ms;
  const std::uint8_t agreed = fabric.packet(place).ace;
  heard_ms_ = fabric.packet(place).stamp_ms;
  fabric.give_back(place);
  if (sender_gone_) {
    send_reset(paths_.forward);
    return endpoints_.close(number_);
  }
  sender_.on_connected(echo_ms, agreed, endpoints_.now());
  if (!std::exchange(opened_, true)) {
    endpoints_.note_connected(number_);
    if (group_) group_->on_connected(*this);
  }
  go_on();
}

// Packets that arrive.

void Connection::take(std::uint32_t place) {
  Fabric& fabric = endpoints_.fabric();
  const Packet& packet = fabric.packet(place);
  if (packet.has(Packet::reset)) {
    fabric.give_back(place);
    return endpoints_.close(number_);
  }
  const bool to_receiver = !packet.has(Packet::acknowledgement);
  if (to_receiver && receiver_gone_) {
    fabric.give_back(place);
    return send_reset(paths_.backward);
  }
  if (packet.has(Packet::synchronise)) return to_receiver ? take_syn(place) : take_syn_answer(place);
  return to_receiver ? take_data(place) : take_acknowledgement(place);
}

void Connection::take_acknowledgement(std::uint32_t place) {
  Fabric& fabric = endpoints_.fabric();
  const Packet& packet = fabric.packet(place);
  const Time now = endpoints_.now();
  const std::uint64_t stream_in_order = packet.stream_in_order;
  if (packet.has(Packet::congestion_echo)) fabric.link(fabric.first_link(paths_.forward)).hear_echo(number_, now);
  if (told_) told_->be_told(packet, sender_.round_trip().smoothed());
  heard_ms_ = std::max(heard_ms_, packet.stamp_ms);
  const std::uint64_t marks_before = sender_.marks_heard();
  sender_.on_acknowledgement(packet, now);
  if (sender_.marks_heard() > marks_before) fabric.link(fabric.first_link(paths_.forward)).hear_echo(number_, now);
  fabric.give_back(place);
  if (group_ && group_->takes_acknowledgement(*this, stream_in_order)) return;
  go_on();
}

void Connection::go_on() {
  if (sender_.done()) return endpoints_.close_if_done(*this);
  pump();
  set_sender_timer();
}

void Connection::take_data(std::uint32_t place) {
  Fabric& fabric = endpoints_.fabric();
  const Packet packet = fabric.packet(place);
  fabric.give_back(place);
  if (told_) told_->hear(packet);
  if (receiver_.must_acknowledge_before(packet)) acknowledge();
  const bool at_once = receiver_.take(packet, endpoints_.now());
  // Data of which a program hears is acknowledged before the program can answer.
  const bool first = at_once && group_ && group_->acknowledges_first();
  if (first) acknowledge();
  if (group_)
    group_->on_data(*this, packet);
  else if (receiver_.in_order() == sender_.bytes())
    endpoints_.complete(number_);
  if (at_once && !first) acknowledge();
  set_receiver_timer();
  if (receiver_.optimistic()) endpoints_.close_if_done(*this);
}

// Acknowledgements.

void Connection::acknowledge() {
  const std::uint32_t answers = receiver_.answers();
  for (std::uint32_t answer = 1; answer <= answers; ++answer) send_answer(answer, answers);
}

void Connection::send_answer(std::uint32_t answer, std::uint32_t answers) {
  Fabric& fabric = endpoints_.fabric();
  const std::uint32_t place = fabric.new_packet(number_, paths_.backward, 0, 0);
  Packet& packet = fabric.packet(place);
  receiver_.acknowledge(packet, answer, answers);
  packet.stamp_ms = stamp_of(endpoints_.now());
  if (group_) group_->stamp(packet);
  if (told_) told_->answer(packet);
  const std::uint32_t blocks = packet.blocks + (packet.has(Packet::duplicate_seen) ? 1u : 0u);
  packet.wire_bytes = fabric.header_bytes() + (blocks > 0 ? 4 + 8 * blocks : 0);
  fabric.send(place);
}

void Connection::send_reset(std::uint32_t path) {
  Fabric& fabric = endpoints_.fabric();
  fabric.send(fabric.new_packet(number_, path, fabric.header_bytes(), Packet::reset));
}

// Data.

bool Connection::pump(bool at_once, bool one_segment) {
  if (waits_for_port_) return false;
  const std::uint32_t link = endpoints_.fabric().first_link(paths_.forward);
  const HostPort& port = endpoints_.port(link);
  if (!at_once && collects_burst(port)) {
    if (endpoints_.tcp_of(number_).bursts) sender_.wait_for_burst();
    return false;
  }
  if (port.waiting.empty())
    while (endpoints_.has_room(link)) {
      if (!send_segment()) return false;
      if (one_segment) return true;
    }
  if (!sender_.wants_to_send(endpoints_.now()) && !(group_ && group_->has_supply(*this))) {
    sender_.heed_application(endpoints_.now());
    return false;
  }
  waits_for_port_ = true;
  endpoints_.wait_for_port(link, number_);
  return false;
}

bool Connection::take_turn() {
  const bool waits = waits_for_port_ = send_segment();
  set_sender_timer();
  if (!waits && group_) group_->on_turn_over(*this);
  return waits;
}

bool Connection::send_segment() {
  if (group_) group_->supply(*this);
  const Time now = endpoints_.now();
  const auto segment = sender_.next_segment(now);
  if (!segment) return false;
  Fabric& fabric = endpoints_.fabric();
  std::uint16_t flags = segment->ecn_capable ? Packet::ecn_capable : 0;
  if (segment->ect_1) flags |= Packet::ect_1;
  if (segment->cwr) flags |= Packet::congestion_window_reduced;
  const std::uint32_t place =
      fabric.new_packet(number_, paths_.forward, segment->length + fabric.header_bytes(), flags);
  Packet& packet = fabric.packet(place);
  packet.sequence = segment->sequence;
  packet.length = segment->length;
  packet.stamp_ms = stamp_of(now);
  packet.echo_ms = heard_ms_;
  if (told_) {
    const double left =
        static_cast<double>(sender_.bytes() - segment->sequence) / endpoints_.tcp_of(number_).segment_bytes;
    told_->ask(packet, {sender_.round_trip().smoothed(), sender_.window().segments, left});
  }
  fabric.send(place);
  return true;
}

// With segmentation offload a sender waits until its window has room for a burst, or for the rest, as in Linux. The
// burst is at most a third of the window. The sender does not wait while it repairs losses, or while nothing is under
// way that could open the window.
bool Connection::collects_burst(const HostPort& port) {
  const TcpSettings& tcp = endpoints_.tcp_of(number_);
  if ((port.burst_bytes == 0 && !tcp.bursts) || (group_ && !group_->collects_bursts())) return false;
  if (sender_.next_new() == sender_.first_unacknowledged()) return false;
  if (tcp.bursts ? sender_.repairs() : !sender_.open_state()) return false;
  // As in tcp_tso_should_defer, the sender does not wait after a silence either.
  const Time now = endpoints_.now();
  if (tcp.bursts && (now - sender_.last_sent() > picoseconds_per_second / 1000 || !sender_.wants_to_send(now)))
    return false;
  const std::uint64_t segment = tcp.segment_bytes;
  const std::uint64_t window =
      std::min(static_cast<std::uint64_t>(sender_.window().segments), window_limit(tcp) / segment);
  const std::uint64_t end = sender_.first_unacknowledged() + window;  // of what it may send
  const auto most = tcp.bursts ? static_cast<std::uint64_t>(sender_.burst()) : port.burst_bytes / segment;
  const std::uint64_t burst = std::min(most, window / 3);
  return end < sender_.next_new() + burst && end * segment < sender_.bytes();
}

void Connection::write(std::uint64_t bytes) {
  sender_.append(bytes, endpoints_.now());
  pump();
  set_sender_timer();
}

// Timers are lazy: a timer that turns out early is set again; only an earlier deadline needs a new timer. A deadline
// that has passed while nobody asked for it becomes now: time never goes back.

void Connection::set_sender_timer() {
  const Time deadline = std::max(sender_.deadline(), endpoints_.now());
  if (deadline >= sender_timer_) return;
  sender_timer_ = deadline;
  endpoints_.schedule().set_timer(deadline, timer::sender_due, number_);
}

void Connection::on_sender_due(Time set_for) {
  if (sender_timer_ != set_for) return;
  sender_timer_ = never;
  const Time now = endpoints_.now();
  if (sender_.deadline() <= now) {
    if (!sender_.connected()) return send_syn();
    const std::uint64_t timeouts = sender_.timeouts();
    const bool is_pace = endpoints_.tcp_of(number_).bursts && sender_.waits_for_pace();
    sender_.on_deadline(now);
    if (group_ && sender_.timeouts() > timeouts) group_->on_timeout(*this);
    pump(!is_pace);
  }
  set_sender_timer();
}

void Connection::set_receiver_timer() {
  const Time deadline = std::max(receiver_.deadline(), endpoints_.now());
  if (deadline >= receiver_timer_) return;
  receiver_timer_ = deadline;
  endpoints_.schedule().set_timer(deadline, timer::receiver_due, number_);
}

void Connection::on_receiver_due(Time set_for) {
  if (receiver_timer_ != set_for) return;
  receiver_timer_ = never;
  if (receiver_.deadline() <= endpoints_.now()) {
    if (receiver_.optimistic()) {
      if (sender_.done()) return;
      receiver_.claim_more();
    }
    acknowledge();
  }
  set_receiver_timer();
}

// Closing.

void Connection::refuse() {
  receiver_gone_ = true;
  receiver_timer_ = never;
  send_reset(paths_.backward);
}

void Connection::abandon() {
  if (!sender_.connected()) {
    sender_gone_ = true;
    sender_timer_ = never;
    return;
  }
  if (!receiver_gone_) send_reset(paths_.forward);
  endpoints_.close(number_);
}
