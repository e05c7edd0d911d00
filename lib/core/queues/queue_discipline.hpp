// A queue that keeps the packets that wait, sees the flow of each, and chooses which one is sent next.
//
// A rule (queue_rule.hpp) only decides what becomes of a packet, before it joins a queue or when it leaves one. Any
// rule can be a discipline, with a first-in first-out queue of its own (ruled_fifo.hpp). A discipline hands back the
// packets that it drops, the arriving one or others, in `dropped`: its caller owns what a packet's name stands for.
#pragma once
#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "queues/queue_rule.hpp"

struct QueuedPacket {
  std::uint32_t name, bytes;
  std::uint32_t flow;  // equal for the packets of one flow
  bool ecn_capable;
  bool ect_1 = false;   // with the code point of L4S (RFC 9331)
  bool marked_before;   // by an earlier queue
  bool marked = false;  // by this one
  Time arrived;
};

class QueueDiscipline {
 public:
  virtual ~QueueDiscipline() = default;
  // A packet comes, at packet.arrived. For idle_since, see Backlog::idle_since.
  virtual void join(const QueuedPacket& packet, Time idle_since, std::vector<QueuedPacket>& dropped) = 0;
  // Takes out the packet that is sent now, if any may be.
  virtual std::optional<QueuedPacket> next(Time now, std::vector<QueuedPacket>& dropped) = 0;
  // When to ask again, where packets wait and none may be sent yet.
  virtual Time ready_at() const { return never; }
  // Drops all packets that wait; what the queue has learnt stays.
  virtual void clear(std::vector<QueuedPacket>& dropped) = 0;
  // For a host's own port: an acknowledgement with an ECN echo has come for a flow that the host sends.
  virtual void hear_echo(std::uint32_t, Time) {}
  // From now on a packet takes this many times as long to send.
  virtual void stretch(double) {}

  std::uint64_t packets() const { return packets_; }
  std::uint64_t bytes() const { return bytes_; }

 protected:
  void count_in(const QueuedPacket& packet) { ++packets_, bytes_ += packet.bytes; }
  void count_out(const QueuedPacket& packet) {
    assert(packets_ > 0 && bytes_ >= packet.bytes);
    --packets_, bytes_ -= packet.bytes;
  }

 private:
  std::uint64_t packets_ = 0, bytes_ = 0;
};
