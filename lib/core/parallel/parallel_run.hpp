// One simulation by several threads. Each has a part of the network, and the results are the same byte by byte, however
// many parts there are.
//
// Every part is a whole Simulator, set up as all the others are, in which only some nodes are active
// (Simulator::become_part): the queues and transmitters of the links that leave them, and the halves of connections at
// them (simulation/halves.hpp). Random numbers come from streams that belong to a link, a flow or a node, so that each
// part draws what a single simulator would. Changes of links and routes happen in every part at their time. Other
// global results (counts, samples) are added up at the end.
//
// Only packets on links between parts cross, and the news that a sender has closed, which takes as long as its path.
// What a part does reaches another no sooner than the least delay of those links later. This delay is the lookahead:
// from the time of the earliest event of all, all parts run by themselves for that long. Then they hand over what has
// left, and wait for each other (conservative synchronisation in windows: Chandy and Misra 1979; Nicol 1993). A packet
// is handed over when its last bit has left, since its link may change until then.
//
// Events of one time at one node come in the order of their sources: links by number, timers by kind and owner. Nothing
// at a node depends on when another node has its events of the same time, so that the order at every node is the same
// in any division.
//
// What cannot be divided is refused: flows with several connections or with programs, RCP, links with jitter or without
// delay between parts.
#pragma once
#include <array>
#include <cstdint>
#include <exception>
#include <vector>

#include "base/simulated_time.hpp"
#include "parallel/mailbox.hpp"
#include "parallel/spinning_barrier.hpp"
#include "simulation/simulator.hpp"

class ParallelRun {
 public:
  // parts: equal simulators that do not run yet; part_of_node: the part to which each node belongs. Throws
  // std::invalid_argument for what cannot be divided.
  ParallelRun(std::vector<Simulator*> parts, const std::vector<std::uint32_t>& part_of_node);

  // As Simulator::run, for about so many events.
  bool run(std::uint64_t events);

  Time now() const;
  std::uint64_t events() const;
  std::vector<Endpoints::FlowResult> flow_results() const;

 private:
  static constexpr Time windows_at_least = 128;  // in a run, so that it can be stopped

  // What a part reports to the others at the barrier.
  struct alignas(64) Report {
    Time next = never;  // before it nothing happens in the part, nor leaves it for another
    std::uint64_t events = 0;
    bool failed = false;
  };
  struct Part {
    Simulator* simulator;
    std::vector<std::uint32_t> cut_links;  // that leave it for others
    std::vector<PathsTold> told;           // by part
    std::vector<PathsHeard> heard;         // by part
    std::exception_ptr failure;
  };

  void find_lookahead();
  void run_part(std::uint32_t number, std::uint64_t events);
  Report report_of(std::uint32_t number, std::uint64_t events_before);
  void hand_over(std::uint32_t number, Time before, std::uint32_t turn, Report& report);
  void receive(std::uint32_t number, std::uint32_t turn);
  Mailbox& mailbox(std::uint32_t from, std::uint32_t to, std::uint32_t turn) {
    return mailboxes_[turn][from * parts_.size() + to];
  }

  std::vector<Part> parts_;
  std::vector<std::uint32_t> part_of_node_;
  Time lookahead_, end_;
  SpinningBarrier barrier_;
  bool ended_ = false;
  // There are two of each: a part that is ahead writes into one while others still read the other.
  std::array<std::vector<Report>, 2> reports_;
  std::array<std::vector<Mailbox>, 2> mailboxes_;  // by sending and receiving part
};
