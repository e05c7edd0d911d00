#include "simulation/dialogue.hpp"

#include <stdexcept>

#include "simulation/connection.hpp"
#include "simulation/endpoints.hpp"

void Dialogue::write(bool to_client, std::uint64_t bytes) {
  Speaker& speaker = speakers_[to_client];
  Connection* connection = endpoints_.connection(members_[to_client]);
  if (!connection) throw std::logic_error("a message on a connection that is closed");
  const std::uint64_t segment = endpoints_.tcp_of(members_[0]).segment_bytes;
  speaker.end += (bytes + segment - 1) / segment * segment;
  speaker.unsent.push(bytes);
  speaker.awaited.push({speaker.end, bytes});
  if (!connection->sender().connected()) return;
  connection->pump();
  connection->set_sender_timer();
}

void Dialogue::hang_up() {
  for (std::uint32_t place = 0; place < members_.size(); ++place) {
    if (!speakers_[place].awaited.empty()) throw std::logic_error("a connection closed before its messages arrived");
    Connection* connection = endpoints_.connection(members_[place]);
    if (!connection) continue;
    connection->sender().finish();
    endpoints_.close_if_done(*connection);
  }
}

void Dialogue::on_connected(Connection& connection) {
  if (connection.place() == 0) news_.push_back({endpoints_.now(), News::Kind::connected, connection.number()});
}

void Dialogue::on_data(Connection& connection, const Packet&) {
  Speaker& speaker = speakers_[connection.place()];
  while (!speaker.awaited.empty() && speaker.awaited.front().end <= connection.receiver().in_order()) {
    delivered_bytes_ += speaker.awaited.front().bytes;
    speaker.awaited.pop();
    const auto kind = connection.place() == 0 ? News::Kind::message_to_server : News::Kind::message_to_client;
    news_.push_back({endpoints_.now(), kind, members_[0]});
  }
}

// Appends a message once all earlier ones have been sent.
void Dialogue::supply(Connection& connection) {
  Speaker& speaker = speakers_[connection.place()];
  TcpSender& sender = connection.sender();
  sender.expect_more(!speaker.unsent.empty());
  if (speaker.unsent.empty() || !sender.could_send_new(endpoints_.now())) return;
  sender.append(speaker.unsent.front(), endpoints_.now());
  speaker.unsent.pop();
}

bool Dialogue::has_supply(Connection& connection) {
  return connection.sender().could_send_new(endpoints_.now()) && !speakers_[connection.place()].unsent.empty();
}
