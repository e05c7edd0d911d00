// Delays, shakes, reorders, loses and queues packets between interfaces of one network namespace, in user space, for
// many links in one thread.
//
// Packets arrive in a ring shared with the kernel (TPACKET_V2) that stamps each, so their arrival is known exactly
// however late it is read: the thread wakes for its own ticks, not for packets. A packet leaves through the queue
// (qdisc) of the interface it goes to. That queue charges what waits in it to the sending socket, whose buffer is
// bounded without privileges; when one socket is full the next is used, and another opened when all are.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "departure_wait.hpp"
#include "lateness_histogram.hpp"
#include "packet_ring.hpp"
#include "qdisc_backlog.hpp"
#include "random_stream.hpp"
#include "relay_queue.hpp"
#include "relayed_packet.hpp"

class LinkRelay {
 public:
  struct Direction {
    int from_interface;
    int to_interface;
    std::int64_t delay_ns, jitter_ns;  // jitter: the delay's standard deviation
    double loss;                       // probability, independent of other packets
    double reordering;                 // probability of being held back, and overtaken
    std::int64_t reordering_ns;        // for so long
    std::uint64_t rate;                // bits per second, until another is asked for
    std::optional<RelayQueue> queue;   // none: the queue is the kernel's, behind the relay
    std::shared_ptr<RelayMemory> memory;  // of a queue that shares it
  };

  // What happened so far, readable while it runs (plain counters, one writer).
  struct Counters {
    std::uint64_t received = 0, lost = 0, forwarded = 0, dropped_by_queue = 0, failed = 0, dropped_by_rule = 0,
                  marked = 0;
  };
  struct State {
    Counters counters;
    std::uint64_t asked_rate;  // bits per second, written by whoever changes it; 0: the first
  };
  struct Shared {
    std::uint64_t missed;       // arrivals that found the ring full
    std::uint64_t sockets;      // opened for sending
    std::int64_t sample_every;  // ns, written by whoever wants samples of the queues; 0 for none
    std::uint64_t waited;        // packets, in the kernel until they were due
    LatenessHistogram lateness;  // of releases
    State directions[];          // one each
  };
  // Of a direction that has a queue; or, as of the direction `interrupted`, that the relay, which was awake, did not run
  // for so many ns (`packets`) until then.
  struct Sample {
    std::int64_t time_ns, direction, packets, bytes;
  };
  static constexpr std::int64_t interrupted = -1;

  // `shared` has room for `Shared` and one `State` a direction, zeroed, and outlives the relay.
  // Samples are appended to the file `sample_descriptor`. Throws std::system_error when the kernel refuses the ring.
  LinkRelay(std::vector<Direction> directions, std::uint64_t seed, Shared* shared, int most_sockets,
            int sample_descriptor);
  ~LinkRelay();
  LinkRelay(const LinkRelay&) = delete;
  LinkRelay& operator=(const LinkRelay&) = delete;

  void run();  // until the process ends; throws std::system_error

 private:
  struct Line {
    Direction direction;
    RandomStream random;
    std::deque<RelayedPacket> held;  // in order of release
    std::int64_t last_release = 0;
    std::int64_t next_sample = 0;
    std::uint64_t rate;  // that was asked for last
  };

  static std::int64_t now_ns();
  std::int64_t look();
  void note_interruption(std::int64_t end_ns, std::int64_t ns);
  void open_sender();
  void take_in(const PacketRing::Arrival& arrival);
  std::int64_t release_time(Line& line, std::int64_t arrival, std::uint32_t size);
  void hold(Line& line, RelayedPacket packet);
  void release_due(std::int64_t now);
  void follow_rate(std::size_t number, std::int64_t now);
  void work_queue(std::size_t number, std::int64_t now);
  void sample_until(std::size_t number, std::int64_t time);
  void flush_samples();
  void send(const RelayedPacket& packet, int interface, Counters& counters);
  std::int64_t earliest_release() const;
  void pace();
  bool paces_now() const;
  void sleep();

  std::deque<Line> lines_;
  std::vector<std::size_t> paced_;  // lines whose queues pace
  std::unordered_map<int, std::size_t> line_from_;
  Shared* shared_;
  QdiscBacklog backlog_;
  std::unique_ptr<DepartureWait> departure_wait_;
  int sample_descriptor_;
  std::vector<Sample> samples_;
  std::int64_t last_flush_ = 0;
  std::int64_t looked_ = 0;  // at the clock, if nothing was worked on since
  std::size_t most_sockets_;
  PacketRing ring_;
  std::vector<int> senders_;
  std::size_t sender_ = 0;
  std::int64_t scan_period_ns_;  // how often arrivals are read while any packet is held
  std::int64_t quantum_ns_;      // releases closer together share a tick
};
