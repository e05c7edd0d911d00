#include "simulation/subflows.hpp"

#include <algorithm>
#include <vector>

#include "multipath/rescue.hpp"
#include "simulation/connection.hpp"
#include "simulation/endpoints.hpp"

Subflows::Subflows(Endpoints& endpoints, std::uint32_t flow, std::uint32_t count)
    : ConnectionGroup(endpoints, flow),
      stream_(endpoints.flow(flow).bytes, endpoints.tcp_of(flow).segment_bytes,
              endpoints.tcp_of(flow).receive_window_bytes, endpoints.tcp_of(flow).send_buffer_bytes, count,
              endpoints.tcp_of(flow).scheduler()),
      coupling_(std::make_shared<Coupling>()) {}

void Subflows::open() { endpoints_.open(members_[0], this, 0); }

void Subflows::on_connected(Connection& connection) {
  if (connection.place() > 0) return;
  for (std::uint32_t place = 1; place < members_.size(); ++place)
    if (!endpoints_.connection(members_[place])) endpoints_.open(members_[place], this, place);
}

void Subflows::on_data(Connection& connection, const Packet& segment) {
  stream_.receive(connection.place(), segment.sequence / endpoints_.tcp_of(members_[0]).segment_bytes);
  if (stream_.all_arrived()) endpoints_.complete(members_[0]);
}

// Gives a subflow that could send now a segment of the stream.
void Subflows::supply(Connection& connection) {
  const Time now = endpoints_.now();
  TcpSender& sender = connection.sender();
  auto segment = stream_.next_for(connection.place());
  sender.expect_more(segment.has_value());
  if (!takes_new(connection)) return;
  if (!segment && stream_.blocked()) segment = rescue(connection);
  if (segment) sender.append(stream_.carry(connection.place(), *segment), now);
}

bool Subflows::has_supply(Connection& connection) {
  return takes_new(connection) && stream_.next_for(connection.place()).has_value();
}

// While a subflow repairs a timeout, others carry new data (mptcp_is_temp_unavailable in the authors' kernel).
bool Subflows::takes_new(Connection& connection) const {
  TcpSender& sender = connection.sender();
  return !sender.repairs_timeout() && sender.could_send_new(endpoints_.now());
}

std::optional<std::uint64_t> Subflows::rescue(Connection& connection) {
  const std::uint32_t place = connection.place();
  const auto blocker = stream_.blocker(place);
  if (!blocker) return std::nullopt;
  TcpSender& other = endpoints_.connection(members_[*blocker])->sender();
  const TcpSettings& tcp = endpoints_.tcp_of(members_[0]);
  const Time own = connection.sender().round_trip().smoothed();
  Time& until = stream_.penalised_until(place);
  Blocked blocked{endpoints_.now(),
                  until,
                  own,
                  other.round_trip().smoothed(),
                  other.window().segments,
                  other.open_state(),
                  stream_.full(),
                  stream_.has_carried(place, stream_.first())};
  if (tcp.penalisation && blocked.penalises()) {
    other.penalise();
    blocked.other_window = other.window().segments;
    until = blocked.now + own;
  }
  return tcp.opportunistic_retransmission && blocked.repeats() ? std::optional(stream_.first()) : std::nullopt;
}

void Subflows::stamp(Packet& acknowledgement) const {
  acknowledgement.stream_in_order = static_cast<std::uint32_t>(stream_.in_order());
}

bool Subflows::takes_acknowledgement(Connection& connection, std::uint64_t stream_in_order) {
  stream_.forget(connection.place(), connection.sender().first_unacknowledged());
  stream_.acknowledge(stream_in_order);
  if (stream_.all_acknowledged()) return close_all(), true;
  pump_all();
  connection.set_sender_timer();
  return true;
}

void Subflows::on_timeout(Connection& connection) {
  stream_.repeat_elsewhere(connection.place(), connection.sender().first_unacknowledged());
  pump_all();
}

// Lets subflows send in the scheduler's order. Unless they take turns, those behind the same port wait while one before
// them does.
void Subflows::pump_all() {
  const SubflowScheduler& scheduler = stream_.scheduler();
  const bool in_turn = scheduler.takes_turns();
  for (bool again = true; again;) {
    again = false;
    std::vector<SubflowScheduler::Subflow> order;
    for (std::uint32_t place = 0; place < members_.size(); ++place)
      if (const Connection* connection = endpoints_.connection(members_[place]))
        if (connection->sender().connected()) order.push_back({place, connection->sender().round_trip().smoothed()});
    scheduler.order(order);
    std::vector<std::uint32_t> taken_ports;
    for (const auto& [place, round_trip] : order) {
      Connection& connection = *endpoints_.connection(members_[place]);
      const std::uint32_t port = endpoints_.fabric().first_link(connection.paths().forward);
      if (in_turn || connection.sender().wants_to_send(endpoints_.now()) ||
          std::find(taken_ports.begin(), taken_ports.end(), port) == taken_ports.end())
        again |= connection.pump(false, in_turn);
      if (connection.waits_for_port()) taken_ports.push_back(port);
      connection.set_sender_timer();
    }
  }
}

bool Subflows::stop() {
  if (!endpoints_.connection(members_[0])->sender().connected()) return true;
  stream_.finish();
  if (stream_.all_arrived()) endpoints_.complete_now(members_[0]);
  if (stream_.all_acknowledged()) close_all();
  return true;
}

void Subflows::close_all() {
  for (std::uint32_t number : members_)
    if (endpoints_.connection(number)) endpoints_.close(number);
}

std::uint64_t Subflows::delivered_bytes(const Connection&) const { return stream_.delivered_bytes(); }

std::uint64_t Subflows::retransmissions(const Connection& connection) const {
  return ConnectionGroup::retransmissions(connection) + (connection.place() == 0 ? stream_.repeated() : 0);
}
