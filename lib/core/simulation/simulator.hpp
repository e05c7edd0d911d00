// A packet-level simulator of a network of hosts and switches: virtual time, TCP, datagrams.
//
// Set up: links, flows, what to record. Then run() in pieces until it says that the end is reached. Everything random
// comes from the seed, in a stream for each purpose and link or flow, so that recording more changes nothing.
//
// Set-up throws std::out_of_range for a node, link or flow that there is not, std::invalid_argument for other numbers
// that cannot be, and std::logic_error once it runs.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random_stream.hpp"
#include "base/ring.hpp"
#include "base/simulated_time.hpp"
#include "base/timer_heap.hpp"
#include "base/winner_tree.hpp"
#include "congestion/congestion_controls.hpp"
#include "congestion/coupled.hpp"
#include "congestion/rcp.hpp"
#include "multipath/multipath.hpp"
#include "network/packet.hpp"
#include "network/packet_slab.hpp"
#include "network/path_table.hpp"
#include "network/routes.hpp"
#include "network/simulated_link.hpp"
#include "protocols/request_rounds.hpp"
#include "tcp/tcp_receiver.hpp"
#include "tcp/tcp_sender.hpp"
#include "tcp/tcp_settings.hpp"

class Simulator : private RequestRounds::Driver {
 public:
  struct Settings {
    std::uint64_t seed;
    Time end;
    double clock_skew;            // links run off their rate by a factor drawn from 1 +- this
    std::uint32_t segment_bytes;  // of most packets, for queues that reckon with it
  };
  struct LinkSettings {
    std::uint32_t from, to;
    double rate;  // bits per second
    Time delay, jitter;
    double loss;
    std::uint64_t room;         // packets of its own that a host lets wait here
    double reordering;          // share of packets that the wire holds back
    Time held_back;             // for so long
    std::uint64_t burst_bytes;  // that a host hands over at a time; 0: each segment when it may
  };
  struct LinkChange {
    Time at;
    std::uint32_t link;
    double rate;  // 0: as before
    enum class State : std::uint8_t { as_before, up, down } state;
  };
  struct FlowResult {
    Time completion = never;  // absolute
    std::uint64_t delivered_bytes = 0, retransmissions = 0, timeouts = 0, connection_attempts = 0;
    std::uint64_t bytes_within_duration = 0;  // of datagrams: those that came before the last one was due to leave
  };
  struct RequestResult {
    std::uint32_t flow;
    std::uint64_t number;
    Time asked, answered = never;
  };
  struct QueueSample {
    Time time;
    std::uint32_t link;
    std::uint64_t packets, bytes;
  };
  struct WindowSample {
    Time time;
    std::uint32_t flow, connection;  // of the flow's connections the first, second, ...
    double window, threshold;        // segments
    Time round_trip;
  };
  // Every packet there ever was is in one of the other places.
  struct Account {
    std::uint64_t created = 0, delivered = 0, dropped = 0, lost = 0, inside = 0;
  };

  // Whoever uses a simulator holds one. Throws Refusal while somebody else does, and after a run has failed.
  class Turn {
   public:
    explicit Turn(const Simulator& simulator);
    ~Turn() { simulator_.in_use_ = false; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    const Simulator& simulator_;
  };

  static constexpr std::uint32_t most_subflows = 64;  // a bit each, in Multipath
  static constexpr std::uint64_t most_events_at_a_time = 1'000'000;

  Simulator(const Settings& settings, std::size_t nodes);
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  // rule, numbers: of its queue, as link_queue_named takes them. All ports with a shared buffer that leave one node
  // share one memory.
  std::uint32_t add_link(const LinkSettings& link, const std::string& rule, const std::vector<double>& numbers);

  // Routing. Without further word every flow has a shortest path over all links, chosen by a hash.
  void spray() { sprays_ = true; }  // a path for every packet
  void use_links(Time from, std::vector<bool> in_use);
  void set_paths(std::uint32_t from, std::uint32_t to, std::vector<std::vector<std::uint32_t>> paths);
  // Of the flow's connections the first, second, ...
  void give_path(std::uint32_t flow, std::uint32_t place, const std::vector<std::uint32_t>& forward,
                 const std::vector<std::uint32_t>& backward);
  void offer_rates(const RcpLink::Settings& rcp) { rcp_ = rcp; }  // all links, for flows with RCP
  void change_link(const LinkChange& change);

  // Flows in order of their numbers. Sends `bytes`, or for a duration when bytes is TcpSender::unlimited.
  void add_tcp(std::uint32_t from, std::uint32_t to, Time start, std::uint64_t bytes, Time duration,
               MakeControl control, std::shared_ptr<const TcpSettings> tcp);
  // A flow that has been added gets a congestion control of its own, one for each connection.
  void give_control(std::uint32_t flow, std::function<std::unique_ptr<CongestionControl>()> make) {
    check_flow(flow);
    own_controls_[flow] = std::move(make);
  }
  // A flow that has been added gets more connections. A second one with the same bytes, of which the first to bring
  // them all counts (repflow), or which is given up when the other is established first (repsyn):
  enum class Replication : std::uint8_t { repflow, repsyn };
  void replicate(std::uint32_t flow, Replication replication, bool same_path);
  // or several, over which its bytes are spread.
  void split(std::uint32_t flow, std::uint32_t subflows);
  // `servers` flows from `first_answer` on, all to one client, are the answers to requests over connections that are
  // opened beforehand.
  void request(std::uint32_t first_answer, std::uint32_t servers, const RequestRounds::Settings& settings);
  void add_datagrams(std::uint32_t from, std::uint32_t to, Time start, Time duration, double rate, std::uint32_t bytes,
                     bool poisson);
  void sample_queues(std::vector<std::uint32_t> links, Time interval);
  void sample_windows(Time interval);
  void record_departures(std::uint32_t link, std::uint64_t most);

  // Goes on for so many events at most; true when the end is reached. Throws Refusal where time stands still, and
  // whatever a congestion control throws; it is of no use then.
  bool run(std::uint64_t events);

  // Programs at hosts, run by somebody else who lets time pass by advance_to_news (simulator_programs.cpp). After all
  // flows, so many connections are set aside; connect() opens one after the other, from a client to a server, each way
  // with segments and acknowledgements of its own. Messages of one direction arrive in their order. hang_up() throws
  // std::logic_error while one is on its way; the others std::out_of_range for what is not there.
  void reserve_connections(std::uint32_t count, MakeControl control, const std::shared_ptr<const TcpSettings>& tcp);
  std::uint32_t connect(std::uint32_t from, std::uint32_t to);
  void write(std::uint32_t connection, bool to_client, std::uint64_t bytes);
  void hang_up(std::uint32_t connection);
  // A datagram, of a flow as queues tell flows apart, no connection's number. Its own names it until it is delivered or
  // dropped.
  std::uint32_t post(std::uint32_t from, std::uint32_t to, std::uint32_t bytes, std::uint32_t flow);
  struct News {
    Time time;
    enum class Kind : std::uint8_t { connected, message_to_server, message_to_client, datagram } kind;
    std::uint32_t number;  // of the connection or the datagram
  };
  // Goes on until there are news, or to that time.
  const std::vector<News>& advance_to_news(Time until);

  // Connections are numbered as flows are; those beyond the last flow are the second and later ones of a flow.
  std::uint32_t flow_of(std::uint32_t connection) const {
    return connection < flows_.size() ? connection : companions_[connection - flows_.size()].flow;
  }
  bool is_connection(std::uint32_t number) const { return number < flows_.size() + companions_.size(); }
  std::size_t flows() const { return flows_.size(); }
  Time now() const { return now_; }
  std::uint64_t events() const { return events_; }
  std::uint64_t packet_hops() const { return hops_; }
  std::vector<FlowResult> flow_results() const;
  const std::vector<RequestResult>& request_results() const { return request_results_; }
  const std::vector<QueueSample>& queue_samples() const { return queue_samples_; }
  const std::vector<WindowSample>& window_samples() const { return window_samples_; }
  const std::vector<std::unique_ptr<SimulatedLink>>& links() const { return links_; }
  Account account() const;
  Time end() const { return settings_.end; }

 private:
  enum TimerKind : std::uint32_t {
    flow_start,
    flow_stop,
    sender_due,
    receiver_due,
    host_port_free,
    datagram_due,
    queues_due,
    windows_due,
    link_changes,
    routes_change,
    request_due,
    answer_due
  };
  enum Purpose : std::uint64_t {
    losses,
    jitters,
    skews,
    red_decisions,
    datagram_gaps,
    path_choice,
    reorderings,
    pie_decisions,
    spraying,
    control_choices,
    answer_delays,
    segment_ends
  };

  struct FlowDescription {
    std::uint32_t from, to;
    Time start, duration;
    std::uint64_t bytes;
    MakeControl control;
    bool is_tcp;
    bool poisson;
    Time gap;  // mean between datagrams
    std::shared_ptr<const TcpSettings> tcp;
  };
  // Connections that serve one flow together.
  struct Group {
    enum class Kind : std::uint8_t { repflow, repsyn, multipath, requests, program } kind;
    std::vector<std::uint32_t> members;
    bool decided = false;  // repflow: the receiver has all bytes
    std::unique_ptr<Multipath> multipath;
    std::shared_ptr<Coupling> coupling;  // of subflows
    std::uint32_t exchange = 0;          // requests: place of the exchange
  };
  struct Conversation {  // of one client and its servers
    RequestRounds rounds;
    std::uint64_t segment_bytes;
    // Messages of a connection follow each other in whole segments.
    std::uint64_t messages_end(std::uint64_t messages, std::uint64_t message_bytes) const {
      return messages * ((message_bytes + segment_bytes - 1) / segment_bytes) * segment_bytes;
    }
    std::uint64_t messages_in(std::uint64_t in_order, std::uint64_t message_bytes) const {
      return in_order / messages_end(1, message_bytes);
    }
  };
  struct Exchange {                                 // of a client and one server
    std::uint32_t conversation, answers, requests;  // the latter two by number of their connections
    std::size_t result;                             // of the request under way
  };
  struct Speaker {  // one end of a connection of programs
    struct Message {
      std::uint64_t end, bytes;
    };
    std::uint64_t end = 0;       // of what was written, in whole segments
    Ring<std::uint64_t> unsent;  // messages behind the one being sent
    Ring<Message> awaited;       // by the other end
  };
  struct Dialogue {  // of a program's connection
    Speaker client, server;
    std::uint64_t delivered_bytes = 0;
  };
  struct Companion {
    std::uint32_t flow;
    std::uint32_t place;       // among the flow's connections
    bool same_path, reversed;  // reversed: from the flow's destination to its source
  };
  struct Connection {
    TcpSender sender;
    TcpReceiver receiver;
    std::uint64_t key;                                  // of its paths
    std::uint32_t forward, backward;                    // places in the path table
    Time sender_timer = never, receiver_timer = never;  // earliest timer that is set
    bool waits_for_port = false, sender_gone = false, receiver_gone = false, opened = false;
    Group* group = nullptr;
    std::uint32_t place = 0;                          // in the group
    RcpControl* rcp = nullptr;                        // the sender's, if it has that
    std::uint32_t heard_rate = RcpHeader::unlimited;  // by its receiver
  };
  struct PathPair {
    std::uint32_t forward, backward;
  };
  struct LinkUse {
    Time at;
    std::vector<bool> in_use;
  };
  class SwitchMemory : public BufferPool {
   public:
    std::vector<SimulatedLink*> ports;
    std::uint64_t used_bytes(Time now) override {
      std::uint64_t used = 0;
      for (SimulatedLink* port : ports) used += port->waiting(now).bytes;
      return used;
    }
  };
  struct DatagramSource {
    std::uint32_t path;
    RandomStream gaps;
  };
  struct HostPort {  // flows that would send if fewer packets waited: they take turns
    std::uint64_t room, burst_bytes;
    Ring<std::uint32_t> flows;
    Time timer = never;  // the one that is set
  };

  static constexpr std::uint32_t header_bytes = 66;  // Ethernet 14, IPv4 20, TCP 32 with timestamps
  static constexpr std::uint32_t syn_bytes = 74;

  RandomStream stream(Purpose purpose, std::uint64_t number) const {
    return {settings_.seed, (static_cast<std::uint64_t>(purpose) << 40) + number};
  }
  std::uint32_t path_place(std::uint32_t from, std::uint32_t to, std::uint64_t key) {
    return path_table_.place(from, to, routes_.path(from, to, key));
  }
  double skew(std::uint32_t link) const { return 1 + settings_.clock_skew * (2 * stream(skews, link).uniform() - 1); }
  static std::uint64_t connection_key(std::uint32_t flow, std::uint32_t place) {
    return static_cast<std::uint64_t>(flow) << 32 | place;
  }
  PathPair paths_of(std::uint32_t connection, std::uint64_t key);
  void apply(const LinkChange& change);
  void offer_rate(std::uint32_t link, Packet& packet);
  void reroute();
  void drop(std::uint32_t packet) { ++account_.dropped, packets_.give_back(packet); }
  void lose(std::uint32_t packet) { ++account_.lost, packets_.give_back(packet); }

  void check_set_up() const {
    if (tree_) throw std::logic_error("a network is set up before it runs");
  }
  void check_node(std::uint32_t node) const {
    if (node >= nodes_) throw std::out_of_range("no node " + std::to_string(node));
  }
  void check_ends(std::uint32_t from, std::uint32_t to) const {
    check_node(from), check_node(to);
    if (from == to) throw std::invalid_argument("from node " + std::to_string(from) + " to itself");
  }
  void check_link(std::uint32_t link) const {
    if (link >= links_.size()) throw std::out_of_range("no link " + std::to_string(link));
  }
  void check_path(const std::vector<std::uint32_t>& path) const {
    if (path.empty()) throw std::invalid_argument("a path of no link");
    for (std::uint32_t link : path) check_link(link);
  }
  void check_flow(std::uint32_t flow) const {
    check_set_up();
    if (flow >= flows_.size() || !flows_[flow].is_tcp) throw std::out_of_range("no TCP flow " + std::to_string(flow));
  }
  Group& new_group(std::uint32_t flow);

  void begin();
  void step();
  void check_time_passes();
  std::string next_event() const;
  void show_timers() {
    if (timers_.time() != timers_shown_) tree_->set(timers_source_, timers_shown_ = timers_.time());
  }
  void set_timer(Time time, TimerKind kind, std::uint32_t owner) { timers_.set(time, kind, owner); }
  void set_use_timer();
  void set_change_timer();
  void on_timer(const TimerHeap::Timer& timer);
  void start_flow(std::uint32_t flow);
  void open(std::uint32_t number, Group* group, std::uint32_t place);
  std::unique_ptr<CongestionControl> control_for(std::uint32_t number, const Group* group, std::uint32_t place) const;
  void send_datagram(std::uint32_t flow);
  void set_datagram_timer(std::uint32_t flow, DatagramSource& source);
  void set_sender_timer(std::uint32_t flow, Connection& connection);
  void on_sender_due(std::uint32_t flow, Time set_for);
  void set_receiver_timer(std::uint32_t flow, Connection& connection);
  void on_receiver_due(std::uint32_t flow, Time set_for);

  std::uint32_t new_packet(std::uint32_t flow, std::uint32_t path, std::uint32_t wire_bytes, std::uint16_t flags);
  void send(std::uint32_t packet);
  void start_transmission(std::uint32_t link);
  void on_arrival(std::uint32_t link);
  // What happens next is mostly an arrival that is known already: its packet is fetched while this one is looked at.
  void fetch_next() const {
    const std::uint32_t source = tree_->source();
    if (source < timers_source_) packets_.fetch(links_[source]->next_packet());
  }
  void deliver(std::uint32_t packet);
  void take_data(std::uint32_t packet, Connection& connection);
  void acknowledge(std::uint32_t packet, Connection& connection);
  void send_answer(std::uint32_t packet, Connection& connection, std::uint32_t number, std::uint32_t answers);
  void send_syn(std::uint32_t flow, Connection& connection);
  bool send_segment(std::uint32_t flow, Connection& connection);
  bool collects_burst(std::uint32_t number, const Connection& connection, const HostPort& port) const;
  bool pump(std::uint32_t flow, Connection& connection, bool at_once = false, bool one_segment = false);
  void serve_port(std::uint32_t link);
  void set_port_timer(std::uint32_t link);
  void close_if_done(std::uint32_t number);
  void close(std::uint32_t number);
  void record(FlowResult& result, std::uint32_t number, const Connection& connection) const;

  Dialogue& dialogue_of(std::uint32_t connection);
  Speaker& speaker_of(std::uint32_t connection);
  void supply_message(std::uint32_t number, Connection& connection);
  void take_messages(std::uint32_t number, const Connection& connection);
  bool is_program(const Connection& connection) const {
    return connection.group && connection.group->kind == Group::Kind::program;
  }

  // What connections of a group do beyond a lone one (simulator_groups.cpp).
  bool is_subflow(const Connection& connection) const { return connection.group && connection.group->multipath; }
  void add_companion(std::uint32_t flow, std::uint32_t place, bool same_path, bool reversed);
  void open_group(Group& group);
  void on_group_connected(std::uint32_t number, Connection& connection);
  void on_group_data(const Packet& packet, Connection& connection);
  void reset_other_receivers(std::uint32_t number, Connection& connection);
  void close_others(std::uint32_t number, Connection& connection);
  void supply(Connection& connection);
  std::optional<std::uint64_t> rescue(Connection& connection);
  bool supply_waits(std::uint32_t number, Connection& connection);
  void on_subflow_acknowledgement(std::uint32_t number, Connection& connection, std::uint64_t stream_in_order);
  void on_subflow_timeout(Connection& connection);
  void pump_all(Group& group);
  void close_all(Group& group);
  void send_message(std::uint32_t number, std::uint64_t bytes);
  RequestRounds& rounds_of(std::size_t exchange) { return conversations_[exchanges_[exchange].conversation].rounds; }
  bool send_request(std::size_t exchange, std::uint64_t request, std::int64_t now) override;
  void send_answer(std::size_t exchange) override;
  void wake(RequestRounds::Due due, std::size_t exchange, std::int64_t at) override;
  void on_answer(std::uint32_t exchange);

  Settings settings_;
  std::size_t nodes_;
  Routes routes_;
  std::vector<std::unique_ptr<SimulatedLink>> links_;
  std::vector<HostPort> ports_;  // one a link, used on those that leave a flow's source
  PathTable path_table_;
  std::unordered_map<std::uint64_t, PathPair> given_paths_;  // by flow and place among its connections
  std::unordered_map<std::uint32_t, std::shared_ptr<SwitchMemory>> memories_;  // by node
  bool sprays_ = false;
  RandomStream spraying_;
  std::optional<RcpLink::Settings> rcp_;
  std::vector<RcpLink> offers_;      // with RCP, one a link
  std::vector<LinkChange> changes_;  // by time
  std::vector<LinkUse> link_uses_;   // by time
  std::size_t next_change_ = 0, next_use_ = 0;
  std::vector<FlowDescription> flows_;
  std::vector<std::uint32_t> starts_;  // flows by start
  std::size_t next_start_ = 0;
  std::unordered_map<std::uint32_t, std::function<std::unique_ptr<CongestionControl>()>> own_controls_;  // by flow
  std::vector<Companion> companions_;
  std::unordered_map<std::uint32_t, Group> groups_;       // by flow
  std::vector<std::unique_ptr<Connection>> connections_;  // by number, while they last
  std::unordered_map<std::uint32_t, DatagramSource> datagram_sources_;
  std::vector<Conversation> conversations_;
  std::vector<Exchange> exchanges_;
  std::vector<RequestResult> request_results_;
  std::uint32_t first_program_ = 0, reserved_ = 0;  // connections set aside for programs
  std::vector<Dialogue> dialogues_;                 // those that are in use
  std::vector<News> news_;
  std::vector<FlowResult> results_;

  PacketSlab packets_;
  std::unique_ptr<WinnerTree> tree_;  // links, timers, transmitters
  TimerHeap timers_;
  Time timers_shown_ = never;
  std::uint32_t timers_source_ = 0;
  Time now_ = 0;
  std::uint64_t events_ = 0, hops_ = 0;
  std::uint64_t next_look_ = most_events_at_a_time;  // at the time, which must have passed since looked_at_
  Time looked_at_ = 0;
  mutable std::atomic<bool> in_use_ = false;
  bool failed_ = false;
  Account account_;

  std::vector<std::uint32_t> sampled_links_;
  Time queue_interval_ = never, window_interval_ = never;
  std::vector<QueueSample> queue_samples_;
  std::vector<WindowSample> window_samples_;
};
