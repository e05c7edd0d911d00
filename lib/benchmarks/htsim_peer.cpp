// An experiment in htsim: its queues, pipes and TCP. Reads and prints what netrepro/simulation/ns3_peer.cpp does; no
// flow completes, and there are no queues to measure.
#include <ctime>
#include <iostream>
#include <map>
#include <stdexcept>
#include <vector>

#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "route.h"
#include "tcp.h"

namespace {
std::uint64_t hops = 0;

struct CountingQueue : Queue {
  using Queue::Queue;
  void completeService() override {
    ++hops;
    Queue::completeService();
  }
};
struct Port {
  CountingQueue* queue;
  Pipe* wire;
};
struct Tcp {  // windows as packets of the size on the wire, which is all that htsim knows
  std::string control;
  std::uint32_t segment_bytes, initial_window, window_bytes;
  double min_rto_s, initial_rto_s, acknowledgement_delay_s;
  bool sack;
};

// All live until the program ends, as htsim's own programs have it.
EventList& events = EventList::getTheEventList();
std::map<std::pair<int, int>, Port> ports;  // by nodes from, to
std::map<std::pair<int, int>, int> next;    // by node, destination
std::vector<TcpSink*> sinks;
TcpRtxTimerScanner* timers;
Tcp tcp;

constexpr int header_bytes = 66;

Route* route(int from, int to, PacketSink* end) {
  auto* found = new Route;
  for (int at = from; at != to;) {
    const int onward = next.at({at, to});
    const Port& port = ports.at({at, onward});
    found->push_back(port.queue);
    found->push_back(port.wire);
    at = onward;
  }
  found->push_back(end);
  return found;
}

void read_cable() {
  int a, b;
  double delay_s;
  std::cin >> a >> b >> delay_s;
  for (const auto& ends : {std::pair(a, b), std::pair(b, a)}) {
    double rate_bps, loss;
    std::uint32_t packets, mark_from;
    std::cin >> rate_bps >> loss >> packets >> mark_from;
    auto* queue = new CountingQueue(static_cast<linkspeed_bps>(rate_bps), memFromPkt(packets), events, nullptr);
    ports[ends] = {queue, new Pipe(timeFromSec(delay_s), events)};
  }
}

void read_flow() {
  int from, to;
  double start_s, stop_s;
  std::uint64_t size_bytes;
  std::cin >> from >> to >> start_s >> stop_s >> size_bytes;
  auto* source = new TcpSrc(nullptr, nullptr, events);
  sinks.push_back(new TcpSink);
  const auto packet_bytes = static_cast<std::uint32_t>(Packet::data_packet_size());
  source->set_cwnd(tcp.initial_window * packet_bytes);
  source->set_ssthresh(0xffffffff);
  source->_maxcwnd = tcp.window_bytes / tcp.segment_bytes * packet_bytes;
  timers->registerTcp(*source);
  source->connect(*route(from, to, sinks.back()), *route(to, from, source), *sinks.back(), timeFromSec(start_s));
}

void read() {
  for (std::string what; std::cin >> what;) {
    if (what == "tcp") {
      std::cin >> tcp.control >> tcp.segment_bytes >> tcp.initial_window >> tcp.window_bytes >> tcp.min_rto_s >>
          tcp.initial_rto_s >> tcp.acknowledgement_delay_s >> tcp.sack;
      Packet::set_packet_size(static_cast<int>(tcp.segment_bytes) + header_bytes);
    } else if (what == "nodes") {
      int count;
      std::cin >> count;
    } else if (what == "cable") {
      read_cable();
    } else if (what == "route") {
      int at, to, onward;
      std::cin >> at >> to >> onward;
      next[{at, to}] = onward;
    } else if (what == "flow") {
      read_flow();
    } else {
      throw std::invalid_argument("unknown line: " + what);
    }
  }
}
}  // namespace

// Arguments: simulated seconds, and a seed, which htsim has no use for.
int main(int, char** arguments) {
  EventList::setEndtime(timeFromSec(std::stod(arguments[1])));
  timers = new TcpRtxTimerScanner(timeFromMs(10.0), events);  // as often as htsim's own programs
  read();
  std::streambuf* printed = std::cout.rdbuf(nullptr);  // htsim prints each timeout
  const std::clock_t started = std::clock();
  while (EventList::doNextEvent()) {
  }
  std::cout.rdbuf(printed);
  std::cout << "hops " << hops << " " << static_cast<double>(std::clock() - started) / CLOCKS_PER_SEC << "\n";
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    const auto packets = sinks[i]->_cumulative_ack / Packet::data_packet_size();
    std::cout << "flow " << i << " -1 " << packets * tcp.segment_bytes << "\n";
  }
}
