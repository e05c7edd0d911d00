// Delays and loses packets between interfaces of one network namespace, in user space, for many links in one thread.
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
#include <unordered_map>
#include <vector>

#include "lateness_histogram.hpp"
#include "random_stream.hpp"

class LinkRelay {
 public:
  struct Direction {
    int from_interface;
    int to_interface;
    std::int64_t delay_ns;
    double loss;  // probability, independent of other packets
  };

  // What happened so far, readable while it runs (plain counters, one writer).
  struct Counters {
    std::uint64_t received = 0, lost = 0, forwarded = 0, dropped_by_queue = 0, failed = 0;
  };
  struct Shared {
    std::uint64_t missed;   // arrivals that found the ring full
    std::uint64_t sockets;  // opened for sending
    LatenessHistogram lateness;  // of releases
    Counters counters[];  // one a direction
  };

  // `shared` has room for `Shared` and one `Counters` a direction, zeroed, and outlives the relay.
  // Throws std::system_error when the kernel refuses the ring.
  LinkRelay(std::vector<Direction> directions, std::uint64_t seed, Shared* shared, int most_sockets);
  ~LinkRelay();
  LinkRelay(const LinkRelay&) = delete;
  LinkRelay& operator=(const LinkRelay&) = delete;

  void run();  // until the process ends; throws std::system_error

 private:
  struct Packet {
    std::int64_t release_ns;
    std::uint32_t size;
    std::unique_ptr<unsigned char[]> bytes;
  };
  struct Line {
    Direction direction;
    RandomStream random;
    std::deque<Packet> held;  // in order of release, as the delay is constant
  };

  static std::int64_t now_ns();
  void open_ring();
  void open_sender();
  void close_all();
  void drain_ring();
  void count_missed();
  void release_due(std::int64_t now);
  void send(const Packet& packet, int interface, Counters& counters);
  std::int64_t earliest_release() const;

  std::deque<Line> lines_;
  std::unordered_map<int, std::size_t> line_from_;
  Shared* shared_;
  std::size_t most_sockets_;
  int ring_socket_ = -1;
  unsigned char* ring_ = nullptr;
  std::size_t next_frame_ = 0;
  std::vector<int> senders_;
  std::size_t sender_ = 0;
  std::int64_t scan_period_ns_;  // how often arrivals are read while any packet is held
  std::int64_t quantum_ns_;      // releases closer together share a tick
};
