// A TCP connection between two hosts of the simulated network: its sender, its receiver, their timers, and the packets
// that pass between them and the fabric.
#pragma once
#include <cstdint>
#include <utility>

#include "base/simulated_time.hpp"
#include "congestion/explicit_control.hpp"
#include "network/packet.hpp"
#include "simulation/connection_group.hpp"
#include "simulation/host_port.hpp"
#include "tcp/tcp_receiver.hpp"
#include "tcp/tcp_sender.hpp"

class Connection {
 public:
  struct Paths {  // places in the fabric's path table
    std::uint32_t forward, backward;
  };
  // place: in the connection's group, if it has one. path_key: chooses its paths. told: the sender's control, if it is
  // an ExplicitControl.
  Connection(Endpoints& endpoints, std::uint32_t number, ConnectionGroup* group, std::uint32_t place,
             std::uint64_t path_key, const Paths& paths, TcpSender sender, const TcpReceiver& receiver,
             ExplicitControl* told)
      : sender_(std::move(sender)),
        receiver_(receiver),
        paths_(paths),
        endpoints_(endpoints),
        group_(group),
        number_(number),
        place_(place),
        told_(told),
        path_key_(path_key) {}

  std::uint32_t number() const { return number_; }
  std::uint32_t place() const { return place_; }
  ConnectionGroup* group() const { return group_; }
  TcpSender& sender() { return sender_; }
  const TcpSender& sender() const { return sender_; }
  const TcpReceiver& receiver() const { return receiver_; }
  std::uint64_t path_key() const { return path_key_; }
  const Paths& paths() const { return paths_; }
  void take_paths(const Paths& paths) { paths_ = paths; }

  void send_syn();
  // A packet has arrived at one of the two hosts.
  void take(std::uint32_t packet);
  void on_sender_due(Time set_for);
  void on_receiver_due(Time set_for);

  // Sends what windows and the port allow, or only one segment. True if that one has left, and more may follow.
  bool pump(bool at_once = false, bool one_segment = false);
  // The connection's turn at the port: it sends a segment if it can. True if it goes on waiting for another.
  bool take_turn();
  bool waits_for_port() const { return waits_for_port_; }
  void set_sender_timer();
  // Gives a group's sender more bytes, which are sent when they may.
  void write(std::uint64_t bytes);

  // The receiving host takes no more data, and says so with a reset.
  void refuse();
  // The sending host no longer needs the connection. If it is not established yet, it is reset when it would be.
  void abandon();
  bool is_done() const {
    return sender_.done() && (!receiver_.optimistic() || receiver_.in_order() >= sender_.bytes());
  }

 private:
  void take_syn(std::uint32_t packet);
  void take_syn_answer(std::uint32_t packet);
  void take_acknowledgement(std::uint32_t packet);
  void take_data(std::uint32_t packet);
  void go_on();
  void acknowledge();
  void send_answer(std::uint32_t answer, std::uint32_t answers);
  void send_reset(std::uint32_t path);
  bool send_segment();
  bool collects_burst(const HostPort& port);
  void set_receiver_timer();

  TcpSender sender_;
  TcpReceiver receiver_;
  Paths paths_;
  Time sender_timer_ = never, receiver_timer_ = never;  // earliest timer that is set
  Endpoints& endpoints_;
  ConnectionGroup* group_;
  std::uint32_t number_, place_;
  bool waits_for_port_ = false, sender_gone_ = false, receiver_gone_ = false, opened_ = false;
  ExplicitControl* told_;
  std::uint32_t heard_ms_ = 0;  // newest stamp of the receiver, known to the sender
  std::uint64_t path_key_;
};
