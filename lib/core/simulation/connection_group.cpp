#include "simulation/connection_group.hpp"

#include "simulation/connection.hpp"
#include "simulation/endpoints.hpp"

void ConnectionGroup::open() {
  for (std::uint32_t place = 0; place < members_.size(); ++place) endpoints_.open(members_[place], this, place);
}

std::uint64_t ConnectionGroup::delivered_bytes(const Connection& connection) const {
  return connection.receiver().in_order();
}

std::uint64_t ConnectionGroup::retransmissions(const Connection& connection) const {
  return connection.sender().retransmissions();
}
