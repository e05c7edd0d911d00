// The edge of the network: flows as they are described, their connections while they last, sources of datagrams, and
// the hosts' ports.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random_stream.hpp"
#include "base/simulated_time.hpp"
#include "congestion/congestion_controls.hpp"
#include "network/fabric.hpp"
#include "network/random_streams.hpp"
#include "network/schedule.hpp"
#include "simulation/connection.hpp"
#include "simulation/connection_group.hpp"
#include "simulation/halves.hpp"
#include "simulation/host_port.hpp"
#include "simulation/timer_kind.hpp"
#include "tcp/tcp_settings.hpp"

class Endpoints {
 public:
  struct Flow {
    std::uint32_t from, to;
    Time start, duration;
    std::uint64_t bytes;  // of TCP in all, of a datagram on the wire
    MakeControl control;
    bool is_tcp;
    bool poisson;
    Time gap;  // mean between datagrams
    std::shared_ptr<const TcpSettings> tcp;
  };
  struct FlowResult {
    Time completion = never;  // absolute
    Time connected = never;   // absolute: the sending host's first connection is open
    std::uint64_t delivered_bytes = 0, retransmissions = 0, timeouts = 0, connection_attempts = 0;
    std::uint64_t bytes_within_duration = 0;  // of datagrams: those that came before the last one was due to leave
  };
  struct Delivery {
    std::uint32_t flow;
    Time time;
    std::uint64_t bytes;  // that the receiver has in order from then on
  };
  using MakeOwnControl = std::function<std::unique_ptr<CongestionControl>()>;

  Endpoints(Fabric& fabric, Schedule& schedule, const RandomStreams& random)
      : fabric_(fabric), schedule_(schedule), random_(random) {}

  // Setting up. As in Fabric, impossible values are refused. Flows are numbered in their order.

  void add_port(std::uint64_t room, std::uint64_t burst_bytes) {
    ports_.push_back({.room = room, .burst_bytes = burst_bytes, .waiting = {}});
  }
  std::uint32_t add_flow(const Flow& flow) {
    schedule_.check_set_up();
    flows_.push_back(flow);
    return static_cast<std::uint32_t>(flows_.size() - 1);
  }
  // Adds one more connection to a flow that has a group. reversed: from the flow's destination to its source.
  void add_companion(std::uint32_t flow, std::uint32_t place, bool same_path, bool reversed) {
    companions_.push_back({flow, place, same_path, reversed});
  }
  // Makes the flow's connections a group of this class. Its constructor takes the endpoints, the flow and the needs.
  template <class Group, class... Needs>
  Group& new_group(std::uint32_t flow, Needs&&... needs) {
    check_without_group(flow);
    auto group = std::make_unique<Group>(*this, flow, std::forward<Needs>(needs)...);
    Group& made = *group;
    groups_[flow] = std::move(group);
    return made;
  }
  void give_control(std::uint32_t flow, MakeOwnControl make) {
    check_flow(flow);
    own_controls_[flow] = std::move(make);
  }
  void give_path(std::uint32_t flow, std::uint32_t place, const std::vector<std::uint32_t>& forward,
                 const std::vector<std::uint32_t>& backward) {
    check_flow(flow);
    fabric_.check_path(forward), fabric_.check_path(backward);
    given_paths_[path_owner(flow, place)] = {fabric_.given_path(forward), fabric_.given_path(backward)};
  }
  // From now on connections are halves, of which only those at these nodes are here. Throws std::invalid_argument where
  // a flow's connection cannot be halves, or where deliveries are recorded.
  void divide(std::vector<bool> own_nodes);
  void record_deliveries(std::uint32_t flow);
  // Lets a TCP flow start when another one is complete, whatever its own time says; never, if that one never is.
  void start_after(std::uint32_t flow, std::uint32_t earlier);
  void begin();

  void check_flow(std::uint32_t flow) const {
    schedule_.check_set_up();
    if (flow >= flows_.size() || !flows_[flow].is_tcp) throw std::out_of_range("no TCP flow " + std::to_string(flow));
  }
  void check_without_group(std::uint32_t flow) const {
    check_flow(flow);
    if (groups_.contains(flow))
      throw std::invalid_argument("flow " + std::to_string(flow) + " has its connections already");
  }

  // Connections are numbered as flows are; those beyond the last flow are the second and later ones of a flow.

  std::size_t flows() const { return flows_.size(); }
  Flow& flow(std::uint32_t number) { return flows_[number]; }
  const Flow& flow(std::uint32_t number) const { return flows_[number]; }
  std::uint32_t flow_of(std::uint32_t connection) const {
    return connection < flows_.size() ? connection : companions_[connection - flows_.size()].flow;
  }
  // The connection's place among those of its flow.
  std::uint32_t place_of(std::uint32_t connection) const {
    return connection < flows_.size() ? 0 : companions_[connection - flows_.size()].place;
  }
  const TcpSettings& tcp_of(std::uint32_t connection) const { return *flows_[flow_of(connection)].tcp; }
  std::size_t numbers() const { return flows_.size() + companions_.size(); }
  // The connection while it lasts, else null.
  Connection* connection(std::uint32_t number) { return connections_[number].get(); }
  const Connection* connection(std::uint32_t number) const { return connections_[number].get(); }
  ConnectionGroup& group(std::uint32_t flow) { return *groups_.at(flow); }

  void start(std::uint32_t flow);
  void stop(std::uint32_t flow);
  void open(std::uint32_t connection, ConnectionGroup* group, std::uint32_t place);
  void close(std::uint32_t connection);
  void close_if_done(Connection& connection);
  // Ends the receiver of a connection whose sender has closed.
  void end_receiver(std::uint32_t connection);
  // All bytes of the flow have arrived. The first time counts with complete(), the present one with complete_now().
  void complete(std::uint32_t flow) {
    if (results_[flow].completion == never) complete_now(flow);
  }
  void note_connected(std::uint32_t connection) {
    Time& connected = results_[flow_of(connection)].connected;
    connected = std::min(connected, schedule_.now());
  }
  void complete_now(std::uint32_t flow) {
    if (results_[flow].completion == never && !followers_.empty()) start_followers(flow);
    results_[flow].completion = schedule_.now();
  }
  // Takes a packet at the end of its path.
  void deliver(std::uint32_t packet);
  void send_datagram(std::uint32_t flow);
  void on_sender_due(std::uint32_t number, Time set_for) {
    if (Connection* connection = connections_[number].get()) connection->on_sender_due(set_for);
  }
  void on_receiver_due(std::uint32_t number, Time set_for) {
    const auto& connections = halves_ ? halves_->receivers : connections_;
    if (Connection* connection = connections[number].get()) connection->on_receiver_due(set_for);
  }
  // All connections and sources take the present paths.
  void reroute();

  // Ports, by their links.

  HostPort& port(std::uint32_t link) { return ports_[link]; }
  bool has_room(std::uint32_t link) { return fabric_.fewer_wait(link, ports_[link].room); }
  void wait_for_port(std::uint32_t link, std::uint32_t connection) {
    ports_[link].waiting.push(connection);
    set_port_timer(link);
  }
  void serve_port(std::uint32_t link);
  void on_port_free(std::uint32_t link, Time set_for);
  // Called when packets that wait at the link may leave at another time than before.
  void look_again(std::uint32_t link) {
    ports_[link].timer = never;
    serve_port(link);
  }

  Fabric& fabric() { return fabric_; }
  Schedule& schedule() { return schedule_; }
  Time now() const { return schedule_.now(); }
  const RandomStreams& random() const { return random_; }
  std::vector<FlowResult> flow_results() const;
  const std::vector<Delivery>& deliveries() const { return deliveries_; }

  Halves& halves() { return *halves_; }
  const Halves& halves() const { return *halves_; }
  // Whether any part of the flow's connection is here.
  bool has_part_of(std::uint32_t flow) const {
    return !halves_ || halves_->own[flows_[flow].from] || halves_->own[flows_[flow].to];
  }

 private:
  struct Companion {
    std::uint32_t flow;
    std::uint32_t place;  // among the flow's connections
    bool same_path, reversed;
  };
  struct DatagramSource {
    std::uint32_t path;
    RandomStream gaps;
  };

  static std::uint64_t path_owner(std::uint32_t flow, std::uint32_t place) {
    return static_cast<std::uint64_t>(flow) << 32 | place;
  }
  std::unique_ptr<Connection> new_connection(std::uint32_t connection, ConnectionGroup* group, std::uint32_t place);
  void open_halves(std::uint32_t connection);
  void deliver_to_half(std::uint32_t packet);
  void tell_receiver_of_end(std::uint32_t connection);
  Connection::Paths paths_of(std::uint32_t connection, std::uint64_t key);
  std::uint32_t datagram_path(std::uint32_t flow);
  std::unique_ptr<CongestionControl> control_for(std::uint32_t connection, const ConnectionGroup* group,
                                                 std::uint32_t place) const;
  void start_followers(std::uint32_t flow);
  void set_datagram_timer(std::uint32_t flow, DatagramSource& source);
  void set_port_timer(std::uint32_t link);
  void record(FlowResult& result, const Connection& connection) const;
  static std::uint64_t delivered_bytes(const Connection& connection);
  void note_delivery(std::uint32_t connection);

  Fabric& fabric_;
  Schedule& schedule_;
  RandomStreams random_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by number, while they last
  std::vector<HostPort> ports_;                           // one a link, used on those that leave a flow's source
  std::vector<Flow> flows_;
  std::vector<FlowResult> results_;
  std::vector<Companion> companions_;
  std::unordered_map<std::uint32_t, std::uint64_t> followed_;  // by flow: its bytes in order so far
  std::vector<Delivery> deliveries_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> followers_;     // by the flow that they wait for
  std::unordered_map<std::uint32_t, std::unique_ptr<ConnectionGroup>> groups_;  // by flow
  std::unordered_map<std::uint32_t, DatagramSource> datagram_sources_;          // by flow
  std::unordered_map<std::uint32_t, MakeOwnControl> own_controls_;              // by flow
  std::unordered_map<std::uint64_t, Connection::Paths> given_paths_;            // by path_owner
  std::unique_ptr<Halves> halves_;                                              // null: connections are whole
};
