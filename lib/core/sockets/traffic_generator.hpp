// Sends and receives an experiment's traffic through sockets in many network namespaces, from one thread.
//
// Both ends of every flow are here. So one clock gives a flow's completion, which is when the receiver has read the
// last byte, and no message is needed. Flows to one destination share listening sockets: one for each congestion
// control (the accepting side has one, too) and each kind of socket. A connection is known by its source port. The
// first connections are those of the flows, in their order; the replicas of replicated flows follow.
//
// Where the kernel has sources and sinks of its own (kernel_streams.hpp), they write and read bytes that nobody looks
// at, and note when the last byte was read. They also send datagrams at given times, and count arriving ones by flow.
// Without them this thread does all this.
//
// A client's requests and a server's answers travel on one connection, which the client opens; the answers are the
// flow.
//
// traffic_generator.cpp opens receiving sockets and runs the event loop. Beside it are the parts for TCP
// (_connections), datagrams (_datagrams), replicated flows and requests (_groups), and what is reported (_results).
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random_stream.hpp"
#include "base/timer_heap.hpp"
#include "protocols/request_rounds.hpp"
#include "sockets/kernel_streams.hpp"
#include "sockets/lateness_histogram.hpp"
#include "sockets/socket_address.hpp"

class TrafficGenerator : private RequestRounds::Driver {
 public:
  enum class Replication : std::uint8_t { none, repflow, repsyn };
  struct Flow {
    int opener_namespace, accepter_namespace;        // descriptors; a client opens, a server accepts
    std::uint32_t opener_address, accepter_address;  // IPv4, the host's byte order
    std::int64_t start_ns, duration_ns;              // duration 0: until size_bytes are sent
    std::uint64_t size_bytes;
    std::string congestion_control;  // empty: datagrams
    double rate;                     // of datagrams, bit/s on the wire
    std::uint32_t packet_bytes;      // of datagrams, on the wire
    bool poisson;
    Replication replication;
    std::size_t kind;  // of its sockets
  };
  struct SocketKind {          // how connections speak TCP, as far as sockets decide it
    int receive_window_bytes;  // 0: the kernel grows it
    int receive_buffer_bytes;  // that holds the window; 0: the host's default
    int segment_bytes;         // payload of a full segment; 0: as the kernel chooses
    bool paces;                // in the kernel, whatever the congestion control
    bool multipath;            // MPTCP; the listener does so at all addresses of its host
  };
  struct Replica {
    std::size_t flow;
    std::uint32_t opener_address, accepter_address;
  };
  struct Conversation {  // a client's requests; its servers' answers are the flows from first_flow on
    std::size_t first_flow, servers;
    RequestRounds::Settings rounds;  // in nanoseconds
  };
  struct Settings {
    std::int64_t duration_ns;
    std::uint64_t seed;
    std::vector<SocketKind> kinds;
    std::int64_t window_interval_ns;  // how often windows are sampled; 0 for never
    std::int64_t since_ns;            // what flows did before this time does not count
    int sample_descriptor;            // file that samples are appended to
    bool until_complete;              // the run ends when all flows are over, if that is earlier
    int streams = -1;                 // /dev/streams, where there is one
    bool ipv6 = false;                // hosts' addresses are those of IPv4 behind SocketAddress::ipv6_prefix
  };
  static constexpr std::int64_t none = -1;     // not yet, or not known
  struct Result {                              // counts are those of all connections of the flow
    std::int64_t completion_ns, connected_ns;  // connected_ns: when the opener's first connection was open
    std::int64_t delivered_bytes;
    std::int64_t bytes_within_duration;  // of datagrams: those that came before the last one was due to leave
    std::int64_t retransmissions, timeouts, connection_attempts;
    std::int64_t error;  // errno that ended the flow, else 0
  };
  struct Answer {
    std::int64_t flow, request, asked_ns, answered_ns;  // asked_ns: none before the request was sent
  };
  struct Sample {  // what TCP_INFO says; a threshold of 2^31 - 1 or more means none
    std::int64_t flow, connection, time_ns, window_segments, threshold_segments, in_flight_segments, round_trip_us,
        segment_bytes;
  };
  struct Shared {
    std::int64_t began_ns;              // CLOCK_REALTIME, as packet stamps; 0 before
    std::int64_t lasted_ns, waited_ns;  // in all; for a processor, `none` where the kernel does not count it
    LatenessHistogram lateness;         // of starts and datagrams
    Result results[];                   // one a flow; then, by conversation, an Answer for each server and request
  };

  static constexpr int first_server_port = 5001, first_source_port = 10'000, source_ports = 50'000;

  // `shared` has room for `Shared`, results and answers, is zeroed, and outlives the generator.
  // Throws std::system_error when a socket is refused, std::runtime_error for a congestion control that is not kept.
  TrafficGenerator(std::vector<Flow> flows, const std::vector<Replica>& replicas,
                   const std::vector<Conversation>& conversations, const Settings& settings, Shared* shared);
  ~TrafficGenerator();
  TrafficGenerator(const TrafficGenerator&) = delete;
  TrafficGenerator& operator=(const TrafficGenerator&) = delete;

  void run();  // until the experiment's time has passed; throws std::system_error

 private:
  static constexpr int multipath_tcp = 262;  // IPPROTO_MPTCP, absent from older headers
  static constexpr std::size_t datagrams_an_order = 1024;
  enum Timer : std::uint32_t {
    start_flow,
    stop_flow,
    send_datagram,
    request_due,
    answer_due,
    sample_windows,
    counting_begins,
    end
  };
  enum Source : std::uint32_t { timer, listener, opener, accepter, datagram_sink, finished_streams };
  enum class State : std::uint8_t { waiting, connecting, sending, sent, over };
  struct End {
    int socket = -1;
    std::uint64_t to_write = 0, written = 0, received = 0, within_duration = 0;
    std::uint32_t retransmitted_before = 0, timeouts_before = 0;  // while the connection was opened
    bool streams = false;                                         // the kernel writes or reads
  };
  struct Connection {
    std::size_t flow, place;  // place: 0, or 1 for a replica
    std::uint32_t opener_address, accepter_address;
    End opener, accepter;
    State state = State::waiting;
    std::int64_t attempts = 0, retransmissions = 0, timeouts = none;
    std::int64_t next_ns = 0, stop_ns = 0;  // of datagrams
  };
  struct Listener {
    int socket;
    std::size_t kind;
  };
  struct Exchange {  // with one server
    std::size_t conversation, connection;
    Answer* answers;
  };

  bool is_tcp(std::size_t flow) const { return !flows_[flow].congestion_control.empty(); }
  bool answers_requests(std::size_t flow) const { return exchange_of_.count(flow) > 0; }
  static int source_port(std::size_t connection) {
    return first_source_port + static_cast<int>(connection % static_cast<std::size_t>(source_ports));
  }
  // Whether only the number of its bytes counts, so that the kernel may write and read them.
  bool may_stream(std::size_t number) const;
  int server_port(const Flow& flow) const { return port_of_.at({flow.congestion_control, flow.kind}); }
  static int protocol_of(const SocketKind& kind) { return kind.multipath ? multipath_tcp : 0; }
  static std::uint64_t key(std::uint32_t address, int port) { return std::uint64_t{address} << 16 | port; }

  std::int64_t now() const;  // since the beginning
  void enter(int network_namespace);
  const SocketKind& kind_of(std::size_t flow) const { return settings_.kinds[flows_[flow].kind]; }
  // The Ethernet, IP and UDP headers of a datagram.
  std::uint32_t datagram_header_bytes() const { return settings_.ipv6 ? 62 : 42; }
  int new_socket(int network_namespace, int type, int protocol, std::uint32_t address, int port);
  void set_congestion_control(int socket, const std::string& name) const;
  void send_as_asked(int socket, const SocketKind& kind) const;
  void bound_window(int socket, const SocketKind& kind) const;
  void watch(int descriptor, std::uint32_t events, Source source, std::size_t number);
  void open_receivers();
  void close_all();
  void arm_timer();
  void handle_due();
  void handle(const TimerHeap::Timer& due, std::int64_t at);
  void handle_event(Source source, std::size_t number);
  void start(std::size_t flow);
  void open(std::size_t number);

  // In traffic_generator_connections.cpp.
  void open_tcp(std::size_t number);
  void stop(std::size_t flow);
  bool connected(std::size_t number);
  void accept_from(std::size_t listener);
  void stream(std::size_t number, End& end, std::uint64_t bytes);
  std::uint64_t expected(const Connection& connection) const;
  void note_received(std::size_t number);
  void take_finished_streams();
  bool fill(std::size_t number, End& from);
  void fill_flow(std::size_t number);
  bool drain(std::size_t number, End& to);
  void read_from(std::size_t number);
  void complete_if_all_arrived(std::size_t number);
  void complete(std::size_t flow, std::int64_t at);
  void fail_connection(std::size_t number, int error);
  void close_ends(std::size_t number);

  // In traffic_generator_datagrams.cpp.
  void open_datagrams(std::size_t number);
  void connect_datagrams(int socket, std::uint32_t address, int port) const;
  std::int64_t next_gap_ns(std::size_t flow);
  void order_datagrams(std::size_t flow, std::size_t most);
  void count_datagrams(Connection& connection);
  void send_due_datagrams(std::size_t flow, std::int64_t at);
  void read_datagrams(std::size_t sink);

  // In traffic_generator_results.cpp.
  void note_counters(Connection& connection);
  void note_result(std::size_t flow);
  void read_unwoken(std::size_t flow);
  void begin_to_count();
  void leave_out_before();
  void sample();
  void flush_samples();

  // In traffic_generator_groups.cpp.
  void add_replicas(const std::vector<Replica>& replicas);
  void add_conversations(const std::vector<Conversation>& conversations);
  template <class Visit>
  void for_connections(std::size_t flow, Visit&& visit) {
    visit(flow);
    if (const auto replica = replica_of_.find(flow); replica != replica_of_.end()) visit(replica->second);
  }
  bool has_open_connection(std::size_t flow);
  void reset_others(std::size_t number);
  void close_others(std::size_t number);
  RequestRounds& rounds_of(std::size_t exchange) { return rounds_[exchanges_[exchange].conversation]; }
  bool exchange_bytes(std::size_t number, End& end);
  void serve_requests(std::size_t number);
  void take_answers(std::size_t number);
  bool send_request(std::size_t exchange, std::uint64_t request, std::int64_t now) override;
  void send_answer(std::size_t exchange, std::uint64_t bytes) override;
  void wake(RequestRounds::Due due, std::size_t exchange, std::int64_t at) override;

  std::vector<Flow> flows_;
  Settings settings_;
  Shared* shared_;
  KernelStreams streams_;
  std::vector<Connection> connections_;
  std::unordered_map<std::size_t, std::size_t> replica_of_, exchange_of_;  // flow -> connection, exchange
  std::vector<Exchange> exchanges_;
  std::vector<RequestRounds> rounds_;  // one a conversation
  std::vector<RandomStream> random_;
  std::vector<Listener> listeners_;
  std::vector<int> sinks_;                                      // sockets at which datagrams arrive
  std::map<std::pair<std::string, std::size_t>, int> port_of_;  // (congestion control, kind) -> where servers listen
  std::unordered_map<std::uint64_t, std::size_t> connection_from_;  // (source address, port)
  std::vector<std::size_t> live_;                                   // TCP connections that may be sampled
  std::vector<Sample> samples_;
  std::vector<Result> before_;  // results when counting began: one a flow, or empty
  std::vector<char> zeros_;
  TimerHeap timers_;
  int epoll_ = -1, timer_ = -1, entered_ = -1;
  std::int64_t began_monotonic_ns_ = 0, armed_ns_ = none;
  std::size_t open_ = 0;  // connections that are not over
  bool ended_ = false;
};
