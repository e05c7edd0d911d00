// What a timer of the simulation is for. Its owner is the number of a flow, connection, link or exchange.
#pragma once
#include <cstdint>
#include <iterator>

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
  request_due,    // of an exchange
  answer_due,     // of an exchange
  flow_follows,   // of a flow that waits for another
  receiver_ends,  // of a connection
  counting_begins
};

// Names for people, in the order of Kind.
constexpr const char* names[] = {"the start of a flow",
                                 "the end of a flow",
                                 "the timer of a sender",
                                 "the timer of a receiver",
                                 "the port of a host",
                                 "a datagram",
                                 "a sample of queues",
                                 "a sample of windows",
                                 "a change of a link",
                                 "a change of routes",
                                 "a request",
                                 "an answer",
                                 "a flow after another",
                                 "the end of a receiver",
                                 "the beginning of what counts"};
static_assert(std::size(names) == counting_begins + 1);
}
