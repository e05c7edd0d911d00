// All switches of a network in one process: hosts are kernels in namespaces of their own, and what they send goes
// through the simulator's links and queues, whose virtual time is that of the kernel's arrival stamps.
//
// A packet read late has lost nothing: it goes through at the time of its stamp, and what reaches its host's virtual
// time of arrival is handed over at the next tick. How late that is, is counted. Hosts shape what they send themselves.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "capture_counts.hpp"
#include "flow_key_hash.hpp"
#include "lateness_histogram.hpp"
#include "packet_decoder.hpp"
#include "packet_ring.hpp"
#include "simulator.hpp"

class SwitchFabric {
 public:
  struct Host {
    std::uint32_t node, address;  // IPv4, this machine's byte order; one of the host's addresses
  };
  struct Cable {                         // of a host
    int interface;                       // of the ring's namespace, that leads to it
    std::uint32_t from_host, to_host;    // links
    bool is_chosen;                      // by the host's kernel, among several
  };
  struct LinkUse {
    Time at;
    std::vector<bool> in_use;
  };
  struct Changes {  // times since the experiment began
    std::vector<Simulator::LinkChange> links;
    std::vector<LinkUse> uses;
  };
  struct GivenPath {  // of the connections that a host opens from one of its ports; links there and back
    std::uint32_t source_address;
    std::uint16_t source_port;
    std::uint32_t destination_address;
    std::vector<std::uint32_t> forward, backward;
  };
  struct Settings {
    std::uint64_t seed;
    std::int64_t tick_ns;       // between two looks at the ring while packets are inside
    int sample_descriptor, packet_descriptor, capture_descriptor;  // files that records are appended to
  };
  struct LinkState {
    std::int64_t sampled, recorded, captured;  // written by whoever wants these; the rest as asked for
    std::int64_t sent_packets, sent_bytes, dropped_packets, marked_packets, lost_packets;
  };
  struct Shared {  // plain counters, one writer each
    std::int64_t missed;            // arrivals that found the ring full
    std::int64_t failed;            // packets without a way, or refused by their host's interface
    std::int64_t received, delivered;
    std::int64_t sample_every;      // ns, written by whoever wants samples; 0 for none
    std::int64_t asked, answered;   // the state of all links, and records written, as often as asked grows
    std::int64_t began_ns;          // CLOCK_REALTIME, written by whoever begins the experiment; 0 before
    std::int64_t waited_ns, waited;  // packets have waited so long together for processors to receive them, and how many
    LatenessHistogram lateness;     // of what is handed to hosts
    LinkState links[];
  };
  struct Sample {
    std::int64_t time_ns, link, packets, bytes;
  };
  // A packet as its last bit leaves, or, with no_link, a connection met for the first time: its number, and the ends
  // (address << 16 | port) of the first packet's sender and receiver.
  struct Record {
    std::int64_t time_ns, link, connection, bytes_or_sender, waited_ns_or_receiver;
  };
  static constexpr std::int64_t no_link = -1;
  static constexpr std::size_t kept_bytes = 160;
  struct Captured {  // the beginning of a packet as its last bit leaves
    std::int64_t time_ns, link, bytes, kept;
    unsigned char frame[kept_bytes];
  };

  // `network` has its links and routes, and hears of changes once the experiment has begun; `shared` has room for Shared and a LinkState a link, zeroed. Both outlive the
  // fabric. Throws std::system_error when the kernel refuses a socket.
  SwitchFabric(Simulator& network, const std::vector<Host>& hosts, const std::vector<Cable>& cables,
               const std::vector<GivenPath>& paths, Changes changes, const Settings& settings, Shared* shared);
  ~SwitchFabric();
  SwitchFabric(const SwitchFabric&) = delete;
  SwitchFabric& operator=(const SwitchFabric&) = delete;

  void run();  // until the process ends; throws std::system_error

 private:
  using Bytes = std::unique_ptr<unsigned char[]>;
  struct Frame {
    Bytes bytes;
    std::uint32_t size, connection;
  };
  struct Leaving {
    Bytes bytes;
    std::uint32_t size;
    int interface;
    std::int64_t due_ns;
  };
  struct Way {
    std::uint32_t path = 0, cable = ~0u;  // cable: the link that the host's kernel chose
    std::size_t routings = 0;             // of the network when the path was found
  };
  struct Connection {
    std::uint32_t number;
    Way from_low, from_high;  // of packets sent by the key's lower, higher end
  };
  using GivenKey = std::tuple<std::uint32_t, std::uint16_t, std::uint32_t>;

  static std::int64_t now_ns();
  Time virtual_time(std::int64_t stamp_ns) const { return (stamp_ns - began_ns_) * 1000; }
  std::int64_t real_time(Time time) const { return began_ns_ + time / 1000; }

  void take_in(const PacketRing::Arrival& arrival);
  Connection& connection_of(const DecodedPacket& packet);
  std::uint32_t way_of(Connection& connection, const DecodedPacket& packet, const Cable& cable);
  std::uint32_t path_of(const DecodedPacket& packet, const Cable& cable) const;
  void follow_experiment();
  void advance(Time until);
  void take_out(std::uint32_t place, std::uint32_t link, bool marked);
  void hand_over();
  void look_at_receivers(std::int64_t now);
  void watch_links();
  void record_links();
  void capture(std::uint32_t link, const SimulatedLink::Departure& departure);
  void write_out();
  void answer();
  void wait() const;

  Simulator& network_;
  Settings settings_;
  Shared* shared_;
  Changes changes_;  // until the experiment begins
  std::unordered_map<int, Cable> cable_behind_;                  // by interface
  std::unordered_map<std::uint32_t, int> interface_behind_;      // by link to a host
  std::unordered_map<std::uint32_t, std::uint32_t> node_named_;  // by address
  std::map<GivenKey, GivenPath> given_;
  std::unordered_map<FlowKey, Connection, FlowKeyHash> connections_;
  CaptureCounts decoded_;
  PacketDecoder decoder_{decoded_};
  PacketRing ring_;
  int sender_ = -1, receivers_ = -1;  // receivers_: what waits for each processor (softnet_stat)
  std::int64_t began_ns_, last_look_ns_ = 0, received_then_ = 0;
  bool may_wait_ = false;  // packets for a processor that receives them, as far as was seen
  std::vector<Frame> frames_;  // by place in the simulator
  std::vector<Leaving> leaving_;
  std::vector<Bytes> spare_;
  std::int64_t next_sample_ns_ = 0, last_write_ns_ = 0;
  struct Watched {
    std::uint32_t link;
    std::size_t written;  // departures
  };
  std::vector<Watched> watched_;  // links that are recorded
  std::vector<bool> is_watched_;
  std::vector<Sample> samples_;
  std::vector<Record> records_;
  std::vector<Captured> captured_;
};
