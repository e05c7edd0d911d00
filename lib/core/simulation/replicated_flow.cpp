#include "simulation/replicated_flow.hpp"

#include <utility>

#include "simulation/connection.hpp"
#include "simulation/endpoints.hpp"

void RepFlow::on_data(Connection& connection, const Packet&) {
  if (connection.receiver().in_order() < connection.sender().bytes()) return;
  endpoints_.complete(members_[0]);
  refuse_others(connection);
}

// The receiving host has all bytes. It refuses the rest of the other copy.
void RepFlow::refuse_others(const Connection& connection) {
  if (std::exchange(decided_, true)) return;
  for (std::uint32_t other : members_)
    if (Connection* loser = endpoints_.connection(other); loser && loser != &connection) loser->refuse();
}

void RepFlow::abandon_others(const Connection& connection) {
  for (std::uint32_t other : members_)
    if (Connection* loser = endpoints_.connection(other); loser && loser != &connection) loser->abandon();
}
