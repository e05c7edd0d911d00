// What a timer of the simulation is for; its owner is a number of that kind.
#pragma once
#include <cstdint>

namespace timer {
enum Kind : std::uint32_t {
  flow_start,
  flow_stop,       // of a flow
  sender_due,      // of a connection
  receiver_due,    // of a connection
  host_port_free,  // of a link
  datagram_due,    // of a flow
  queues_due,
  windows_due,
  link_changes,
  routes_change,
  request_due,  // of an exchange
  answer_due    // of an exchange
};
}
