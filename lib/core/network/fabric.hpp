// The network between the hosts: links, the paths over them, and the packets inside. It moves each packet along its
// path, hop by hop, and says when one is at the end of it.
//
// Checks throw std::out_of_range for a node or link that does not exist, std::invalid_argument for other impossible
// numbers, and std::logic_error where a running network is set up.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random_stream.hpp"
#include "base/simulated_time.hpp"
#include "network/packet.hpp"
#include "network/packet_slab.hpp"
#include "network/path_table.hpp"
#include "network/random_streams.hpp"
#include "network/rcp_link.hpp"
#include "network/routes.hpp"
#include "network/schedule.hpp"
#include "network/simulated_link.hpp"
#include "network/spraying_tree.hpp"
#include "network/xcp_link.hpp"

class Fabric {
 public:
  struct Settings {
    double clock_skew;            // each link's rate is off by a factor drawn from 1 +- this
    std::uint32_t segment_bytes;  // of most packets, for queues that compute with it
    std::uint32_t header_bytes = Packet::header_bytes;
  };
  struct LinkSettings {
    std::uint32_t from, to;
    double rate;  // bits per second
    Time delay, jitter;
    double loss;
    std::uint64_t room;         // packets of its own that a host lets wait here
    double reordering;          // share of packets that the wire holds back
    Time held_back;             // for so long
    std::uint64_t burst_bytes;  // that a host hands over at a time; 0: each segment as soon as it may
    Time host_delay;            // time of the host in front for a packet: uniform from 0 to this
    std::optional<Policer::Settings> policer;
  };
  struct LinkChange {
    Time at;
    std::uint32_t link;
    double rate;  // 0: as before
    enum class State : std::uint8_t { as_before, up, down } state;
    std::optional<Time> delay;
    std::optional<double> loss;
  };
  // Every packet that was ever created is counted in one of the other members.
  struct Account {
    std::uint64_t created = 0, delivered = 0, dropped = 0, lost = 0, inside = 0;
  };

  Fabric(Schedule& schedule, const RandomStreams& random, const Settings& settings, std::size_t nodes)
      : schedule_(schedule),
        random_(random),
        settings_(settings),
        routes_(nodes),
        spraying_(random.stream(RandomStreams::spraying, 0)) {}

  // Setting up.

  // rule, numbers: of the link's queue, as link_queue_named takes them. All ports with a shared buffer that leave one
  // node share one memory.
  std::uint32_t add_link(const LinkSettings& link, const std::string& rule, const std::vector<double>& numbers);
  void set_paths(std::uint32_t from, std::uint32_t to, std::vector<std::vector<std::uint32_t>> paths);
  void use_queue(std::uint32_t link, std::unique_ptr<QueueDiscipline> queue);
  void record_departures(std::uint32_t link, std::uint64_t most);
  std::uint32_t header_bytes() const { return settings_.header_bytes; }  // of a segment without options but timestamps
  std::uint32_t syn_bytes() const { return header_bytes() + Packet::syn_options_bytes; }
  Routes& routes() { return routes_; }
  void spray() { sprays_ = true; }  // a path for every packet
  void spray_by_node();             // if packets are sprayed, a random stream for each node, not one for all
  // Each link tells packets that ask for it its rate (RCP), or how their sender's window shall change (XCP).
  void offer_rates(const RcpLink::Settings& rcp) { rcp_ = rcp; }
  void give_feedback(const XcpLink::Settings& xcp) { xcp_ = xcp; }
  bool answers_packets() const { return rcp_ || xcp_; }
  void begin();

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
  void check_change(const LinkChange& change) const;

  // Paths, each by its place in the path table.

  std::uint32_t path(std::uint32_t from, std::uint32_t to, std::uint64_t key) {
    return paths_.place(from, to, routes_.path(from, to, key));
  }
  std::uint32_t given_path(const std::vector<std::uint32_t>& links) { return paths_.place_of_given(links); }
  std::uint32_t first_link(std::uint32_t path) const { return paths_[path]; }
  Time delay(std::uint32_t path) const;  // of its links
  PathTable& paths() { return paths_; }

  // Packets, each by its place in the slab.

  Packet& packet(std::uint32_t place) { return packets_[place]; }
  std::uint32_t new_packet(std::uint32_t flow, std::uint32_t path, std::uint32_t wire_bytes, std::uint16_t flags);
  // Takes over a packet that another part of the network has made. It arrives over the link at its place on its path.
  void adopt(const Packet& packet, std::uint32_t link, Time arrival) {
    const std::uint32_t place = packets_.take();
    packets_[place] = packet;
    const Time before = links_[link].next_arrival();
    links_[link].put_on_wire({place, packet.wire_bytes, packet.hop, paths_[packet.hop + 1]}, arrival);
    if (links_[link].next_arrival() != before) tell_arrival(link);
  }
  // Sends the packet onto the link at its place on its path.
  void send(std::uint32_t packet);
  // The next packet has come through the link. Returns it at the end of its path; else it goes on: no_packet.
  static constexpr std::uint32_t no_packet = ~0u;
  std::uint32_t take_arrival(std::uint32_t link);
  void give_back(std::uint32_t packet) { packets_.give_back(packet); }

  // Links.

  std::vector<SimulatedLink>& links() { return links_; }
  const std::vector<SimulatedLink>& links() const { return links_; }
  SimulatedLink& link(std::uint32_t number) { return links_[number]; }
  // Whether fewer than `packets` packets wait at the link.
  bool fewer_wait(std::uint32_t link, std::uint64_t packets) {
    return links_[link].fewer_wait(packets, schedule_.now());
  }
  Backlog waiting(std::uint32_t link) { return links_[link].waiting(schedule_.now()); }
  void start_transmission(std::uint32_t link);
  // To be called whenever a link's next packet may be another one.
  void tell_arrival(std::uint32_t link) { tell_arrival(link, links_[link]); }
  void apply(const LinkChange& change);

  std::uint64_t packet_hops() const { return hops_; }
  Account account() const;

 private:
  class SwitchMemory : public BufferPool {
   public:
    explicit SwitchMemory(std::vector<SimulatedLink>& links) : links_(links) {}
    void add_port(std::uint32_t link) { ports_.push_back(link); }
    std::uint64_t used_bytes(Time now) override {
      std::uint64_t used = 0;
      for (std::uint32_t port : ports_) used += links_[port].waiting(now).bytes;
      return used;
    }

   private:
    std::vector<SimulatedLink>& links_;
    std::vector<std::uint32_t> ports_;
  };

  void check_node(std::uint32_t node) const {
    if (node >= routes_.nodes()) throw std::out_of_range("no node " + std::to_string(node));
  }
  double skew(std::uint32_t link) const {
    return 1 + settings_.clock_skew * (2 * random_.stream(RandomStreams::skews, link).uniform() - 1);
  }
  void answer(std::uint32_t link, Packet& packet);
  void drop(std::uint32_t packet) { ++account_.dropped, packets_.give_back(packet); }
  void lose(std::uint32_t packet) { ++account_.lost, packets_.give_back(packet); }
  // With spraying: another path between the same nodes.
  std::uint32_t another_path(std::uint32_t path, std::uint64_t key);
  void tell_arrival(std::uint32_t number, const SimulatedLink& link) {
    const Time arrival = link.next_arrival();
    if (arrival != never) {
      const SimulatedLink::Traveller& next = link.next_packet();
      if (next.next == PathTable::end) packets_.fetch(next.packet);  // somebody will read it
    }
    schedule_.set_arrival(number, arrival);
  }
  void pass_on(const SimulatedLink::Traveller& traveller, std::uint32_t link);
  void offer(const SimulatedLink::Traveller& traveller, std::uint32_t link);

  Schedule& schedule_;
  RandomStreams random_;
  Settings settings_;
  std::vector<SimulatedLink> links_;
  PathTable paths_;
  PacketSlab packets_;
  Account account_;
  std::uint64_t hops_ = 0;
  Routes routes_;
  bool sprays_ = false;
  std::unordered_map<std::uint64_t, SprayingTree> trees_;  // with spraying, by both nodes
  std::uint64_t trees_version_ = 0;                        // of the routes
  RandomStream spraying_;
  std::vector<RandomStream> spraying_by_node_;
  std::unordered_map<std::uint32_t, std::shared_ptr<SwitchMemory>> memories_;  // by node
  std::optional<RcpLink::Settings> rcp_;
  std::optional<XcpLink::Settings> xcp_;
  std::vector<RcpLink> offers_;     // with RCP, one a link
  std::vector<XcpLink> feedbacks_;  // with XCP
};
