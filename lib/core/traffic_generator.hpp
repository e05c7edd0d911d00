// Sends and receives an experiment's traffic through sockets in many network namespaces, from one thread.
//
// Both ends of every flow are here, so that a flow's completion is known on one clock without a message: when the
// receiver has read the last byte. Flows of one destination share a listening socket for each congestion control
// (the accepting side has one too); a flow is known by its source port.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lateness_histogram.hpp"
#include "random_stream.hpp"
#include "timer_heap.hpp"

class TrafficGenerator {
 public:
  struct Flow {
    int source_namespace, destination_namespace;        // descriptors
    std::uint32_t source_address, destination_address;  // IPv4, the host's byte order
    std::int64_t start_ns, duration_ns;                 // duration 0: until size_bytes are sent
    std::uint64_t size_bytes;
    std::string congestion_control;  // empty: datagrams
    double rate;                     // of datagrams, bit/s on the wire
    std::uint32_t packet_bytes;      // of datagrams, on the wire
    bool poisson;
  };
  struct Settings {
    std::int64_t duration_ns;
    std::uint64_t seed;
    int receive_window_bytes;         // 0 for what the kernel grows it to
    int segment_bytes;                // payload of a full segment; 0 for what the kernel takes
    bool paces;                       // every connection, in the kernel, whatever its congestion control
    std::int64_t window_interval_ns;  // how often windows are sampled; 0 for never
    int sample_descriptor;            // file that samples are appended to
  };
  static constexpr std::int64_t none = -1;  // not yet, or not known
  struct Result {
    std::int64_t completion_ns, delivered_bytes, retransmissions, timeouts, connection_attempts;
    std::int64_t error;  // errno that ended the connection, else 0
  };
  struct Sample {  // what TCP_INFO says; threshold 2^31 - 1 or more is none
    std::int64_t flow, time_ns, window_segments, threshold_segments, round_trip_us, segment_bytes;
  };
  struct Shared {
    std::int64_t began_ns;  // CLOCK_REALTIME, as packet stamps; 0 before
    std::int64_t failed_sends;
    LatenessHistogram lateness;  // of starts and datagrams
    Result results[];            // one a flow
  };

  static constexpr int first_server_port = 5001, first_source_port = 10'000, source_ports = 50'000;
  // Ethernet, IPv4 and UDP headers: what a datagram weighs beside its payload.
  static constexpr std::uint32_t datagram_header_bytes = 42;

  // `shared` has room for `Shared` and a `Result` a flow, zeroed, and outlives the generator.
  // Throws std::system_error when a socket is refused, std::runtime_error for a congestion control that is not kept.
  TrafficGenerator(std::vector<Flow> flows, const Settings& settings, Shared* shared);
  ~TrafficGenerator();
  TrafficGenerator(const TrafficGenerator&) = delete;
  TrafficGenerator& operator=(const TrafficGenerator&) = delete;

  void run();  // until the experiment's time has passed; throws std::system_error

 private:
  enum Timer : std::uint32_t { start_flow, stop_flow, send_datagram, sample_windows, end };
  enum Source : std::uint32_t { timer, listener, sender, receiver, datagram_sink };
  enum class State : std::uint8_t { waiting, connecting, sending, sent, over };
  struct Ends {
    int sender = -1, receiver = -1;
    State state = State::waiting;
    std::uint64_t to_write = 0, written = 0;  // of TCP
    std::int64_t next_ns = 0, stop_ns = 0;    // of datagrams
  };
  struct Listener {
    int socket;
    std::uint32_t address;
    std::string congestion_control;
  };

  bool is_tcp(std::size_t flow) const { return !flows_[flow].congestion_control.empty(); }
  static int source_port(std::size_t flow) {
    return first_source_port + static_cast<int>(flow % static_cast<std::size_t>(source_ports));
  }
  static std::uint64_t key(std::uint32_t address, int port) { return std::uint64_t{address} << 16 | port; }

  std::int64_t now() const;  // since the beginning
  void enter(int network_namespace);
  int new_socket(int network_namespace, int type, std::uint32_t address, int port);
  void set_congestion_control(int socket, const std::string& name) const;
  void watch(int descriptor, std::uint32_t events, Source source, std::size_t number);
  void open_receivers();
  void close_all();

  void handle(const TimerHeap::Timer& due);
  void start(std::size_t flow);
  void start_tcp(std::size_t flow);
  void connected(std::size_t flow);
  void fill(std::size_t flow);
  void accept_from(std::size_t listener);
  void read_from(std::size_t flow);
  void send_due_datagrams(std::size_t flow);
  void read_datagrams(std::size_t sink);
  void complete_if_all_arrived(std::size_t flow);
  void note_counters(std::size_t flow);
  void fail_flow(std::size_t flow, int error);
  void close_ends(std::size_t flow);
  void sample();
  void flush_samples();
  void arm_timer();

  std::vector<Flow> flows_;
  Settings settings_;
  Shared* shared_;
  std::vector<Ends> ends_;
  std::vector<RandomStream> random_;
  std::vector<Listener> listeners_;
  std::vector<int> sinks_;  // sockets that datagrams arrive at
  std::map<std::string, int> port_of_control_;
  std::unordered_map<std::uint64_t, std::size_t> flow_from_;  // (source address, port)
  std::vector<std::size_t> live_;                             // TCP flows that may be sampled
  std::vector<Sample> samples_;
  std::vector<char> zeros_;
  TimerHeap timers_;
  int epoll_ = -1, timer_ = -1, entered_ = -1;
  std::int64_t began_monotonic_ns_ = 0, armed_ns_ = none;
  bool ended_ = false;
};
