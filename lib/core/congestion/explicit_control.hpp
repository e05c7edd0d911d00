// A congestion control that links tell what to do, in headers of their own (RCP, XCP). One object serves both ends of a
// connection: the sender asks and is told, the receiver hears and answers.
#pragma once
#include <cstdint>

#include "base/simulated_time.hpp"
#include "network/packet.hpp"
#include "tcp/congestion_control.hpp"
#include "tcp/tcp_settings.hpp"

class ExplicitControl : public CongestionControl {
 public:
  struct Asking {
    Time round_trip;  // 0 while unknown
    double window;    // segments
    double left;      // segments after this packet that wait to be sent or acknowledged
  };
  virtual void ask(Packet& packet, const Asking& asking) = 0;
  virtual void hear(const Packet& packet) = 0;
  virtual void answer(Packet& packet) = 0;
  virtual void be_told(const Packet& packet, Time round_trip) = 0;
  virtual void adapt(TcpSettings&) const {}  // to the settings that such a sender needs
};
