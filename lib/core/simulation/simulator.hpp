// A packet-level simulator of a network of hosts and switches: virtual time, TCP, datagrams.
//
// It owns the parts and lets time pass. The schedule says what happens next, the fabric moves packets over links, the
// endpoints send and receive them, and the sampler takes samples. one_packet.md follows a packet through them.
//
// First set up links, flows and what to record. Then call run() in pieces until it says that the end is reached. All
// random numbers come from the seed, in a stream for each purpose and link or flow, so that recording more changes
// nothing.
//
// Set-up throws std::out_of_range for a node, link or flow that does not exist, std::invalid_argument for other
// impossible numbers, and std::logic_error once the simulator runs.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/simulated_time.hpp"
#include "base/timer_heap.hpp"
#include "congestion/congestion_controls.hpp"
#include "network/fabric.hpp"
#include "network/random_streams.hpp"
#include "network/rcp_link.hpp"
#include "network/schedule.hpp"
#include "network/xcp_link.hpp"
#include "protocols/request_rounds.hpp"
#include "simulation/conversation.hpp"
#include "simulation/dialogue.hpp"
#include "simulation/endpoints.hpp"
#include "simulation/sampler.hpp"
#include "tcp/tcp_settings.hpp"

class Simulator {
 public:
  struct Settings {
    std::uint64_t seed;
    Time end;
    double clock_skew;            // each link's rate is off by a factor drawn from 1 +- this
    std::uint32_t segment_bytes;  // of most packets, for queues that compute with it
    std::uint32_t header_bytes;   // of a segment without options but timestamps
  };

  struct Counts {
    std::vector<Endpoints::FlowResult> flows;
    std::vector<SimulatedLink::Counts> links;
  };

  // A caller holds one while it uses a simulator. Throws Refusal while another one does, and after a run has failed.
  class Turn {
   public:
    explicit Turn(const Simulator& simulator);
    ~Turn() { simulator_.in_use_ = false; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    const Simulator& simulator_;
  };

  Simulator(const Settings& settings, std::size_t nodes);
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  // As Fabric::add_link.
  std::uint32_t add_link(const Fabric::LinkSettings& link, const std::string& rule, const std::vector<double>& numbers);

  void use_queue(std::uint32_t link, std::unique_ptr<QueueDiscipline> queue) {
    fabric_.use_queue(link, std::move(queue));
  }

  // Routing. By default every flow has a shortest path over all links, chosen by a hash.
  void spray() { fabric_.spray(); }  // a path for every packet
  void use_links(Time from, std::vector<bool> in_use);
  void set_paths(std::uint32_t from, std::uint32_t to, std::vector<std::vector<std::uint32_t>> paths) {
    fabric_.set_paths(from, to, std::move(paths));
  }
  // place: which of the flow's connections gets the path.
  void give_path(std::uint32_t flow, std::uint32_t place, const std::vector<std::uint32_t>& forward,
                 const std::vector<std::uint32_t>& backward) {
    endpoints_.give_path(flow, place, forward, backward);
  }
  void offer_rates(const RcpLink::Settings& rcp);    // all links, for flows with RCP
  void give_feedback(const XcpLink::Settings& xcp);  // all links, for flows with XCP
  void change_link(const Fabric::LinkChange& change);

  // Flows are numbered in their order. A flow sends `bytes`, or for a duration where that is TcpSender::unlimited.
  void add_tcp(std::uint32_t from, std::uint32_t to, Time start, std::uint64_t bytes, Time duration,
               MakeControl control, std::shared_ptr<const TcpSettings> tcp);
  void add_datagrams(std::uint32_t from, std::uint32_t to, Time start, Time duration, double rate, std::uint32_t bytes,
                     bool poisson);
  // A TCP flow that has been added starts when another one is complete.
  void start_after(std::uint32_t flow, std::uint32_t earlier) { endpoints_.start_after(flow, earlier); }
  // A flow that has been added gets a congestion control of its own, one for each connection.
  void give_control(std::uint32_t flow, Endpoints::MakeOwnControl make) {
    endpoints_.give_control(flow, std::move(make));
  }
  // A flow that has been added gets more connections: a second one with the same bytes, or several over which its bytes
  // are spread.
  enum class Replication : std::uint8_t { repflow, repsyn };
  void replicate(std::uint32_t flow, Replication replication, bool same_path);
  void split(std::uint32_t flow, std::uint32_t subflows);
  // `servers` flows from `first_answer` on, all to one client, are the answers to requests over connections that are
  // opened beforehand.
  void request(std::uint32_t first_answer, std::uint32_t servers, const RequestRounds::Settings& settings);

  void sample_queues(std::vector<std::uint32_t> links, Time interval) {
    sampler_.sample_queues(std::move(links), interval);
  }
  void sample_windows(Time interval) { sampler_.sample_windows(interval); }
  void record_departures(std::uint32_t link, std::uint64_t most) { fabric_.record_departures(link, most); }
  // Records every time at which the flow's receiver has more bytes in order than before.
  void record_deliveries(std::uint32_t flow) { endpoints_.record_deliveries(flow); }
  // counted_before() gives the counts at this time, once it has come.
  void count_since(Time time);

  // Makes this simulator, set up as all the others are, a part of a network that several simulate together (parallel/).
  // Only these nodes are its own, the links that leave them, and the halves of connections at them. Events of one time
  // come in an order that does not depend on the parts. Throws std::invalid_argument where a flow cannot be divided.
  void become_part(const std::vector<bool>& own_nodes);
  Fabric& fabric() { return fabric_; }
  Endpoints& endpoints() { return endpoints_; }
  const Endpoints& endpoints() const { return endpoints_; }
  Schedule& schedule() { return schedule_; }
  const std::vector<Fabric::LinkChange>& changes() const { return changes_; }
  void begin();
  // Runs all events before that time.
  void run_before(Time time) {
    while (schedule_.next_time() < time) step();
  }
  // The simulator is of no use any more.
  void fail() { failed_ = true; }

  // Runs at most so many events; true when the end is reached. Throws Refusal where time stands still, and whatever a
  // congestion control throws. The simulator is of no use then.
  bool run(std::uint64_t events);

  // Programs at hosts. Whoever runs them lets time pass by advance_to_news (simulator_programs.cpp).
  // reserve_connections() sets connections aside, after all flows; connect() opens one after the other, from a client
  // to a server. hang_up() throws std::logic_error while a message is on its way; the others throw std::out_of_range
  // for what is not there.
  void reserve_connections(std::uint32_t count, MakeControl control, const std::shared_ptr<const TcpSettings>& tcp);
  std::uint32_t connect(std::uint32_t from, std::uint32_t to);
  void write(std::uint32_t connection, bool to_client, std::uint64_t bytes);
  void hang_up(std::uint32_t connection);
  // Sends a datagram, and returns a number that names it until it is delivered or dropped. flow: by which queues tell
  // flows apart; no connection's number.
  std::uint32_t post(std::uint32_t from, std::uint32_t to, std::uint32_t bytes, std::uint32_t flow);
  // Runs until there is news, or to that time.
  const std::vector<News>& advance_to_news(Time until);

  std::uint32_t flow_of(std::uint32_t connection) const { return endpoints_.flow_of(connection); }
  bool is_connection(std::uint32_t number) const { return number < endpoints_.numbers(); }
  std::size_t flows() const { return endpoints_.flows(); }
  Time now() const { return schedule_.now(); }
  Time end() const { return end_; }
  std::uint64_t events() const { return schedule_.events(); }
  std::uint64_t packet_hops() const { return fabric_.packet_hops(); }
  Fabric::Account account() const { return fabric_.account(); }
  const std::vector<SimulatedLink>& links() const { return fabric_.links(); }
  std::vector<Endpoints::FlowResult> flow_results() const { return endpoints_.flow_results(); }
  std::vector<SimulatedLink::Counts> link_counts() const;
  Counts counted_before() const { return before_ ? *before_ : counts(); }
  const std::vector<Endpoints::Delivery>& deliveries() const { return endpoints_.deliveries(); }
  const std::vector<Conversation::Result>& request_results() const { return request_results_; }
  const std::vector<Sampler::QueueSample>& queue_samples() const { return sampler_.queues(); }
  const std::vector<Sampler::WindowSample>& window_samples() const { return sampler_.windows(); }

 private:
  struct LinkUse {
    Time at;
    std::vector<bool> in_use;
  };

  void step();
  void check_time_passes() {
    if (!schedule_.time_passes()) refuse_to_stand_still();
  }
  [[noreturn]] void refuse_to_stand_still() const;
  std::string next_event() const;
  void on_timer(const TimerHeap::Timer& timer);
  void deliver(std::uint32_t packet);
  void set_start_timer();
  void set_use_timer();
  void set_change_timer();
  Counts counts() const { return {flow_results(), link_counts()}; }
  Dialogue& dialogue(std::uint32_t connection);

  Time end_;
  mutable std::atomic<bool> in_use_ = false;
  bool failed_ = false;
  Schedule schedule_;
  RandomStreams random_;
  Fabric fabric_;
  Endpoints endpoints_;
  Sampler sampler_;

  std::vector<std::uint32_t> starts_;        // flows by start
  std::vector<Fabric::LinkChange> changes_;  // by time
  std::vector<LinkUse> link_uses_;           // by time
  std::size_t next_start_ = 0, next_change_ = 0, next_use_ = 0;
  Time counts_since_ = 0;
  std::optional<Counts> before_;  // the counts at counts_since_

  std::vector<std::unique_ptr<Conversation>> conversations_;
  std::vector<Conversation*> conversation_of_;  // by exchange
  std::vector<Conversation::Result> request_results_;

  std::vector<Dialogue*> dialogues_;  // set aside for programs: the endpoints' groups
  std::uint32_t connected_ = 0;       // of those
  std::vector<News> news_;
};
