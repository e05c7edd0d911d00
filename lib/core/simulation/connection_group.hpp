// What the connections of one flow do together, beyond what each of them does alone. A flow of one connection has no
// group.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "congestion/coupled.hpp"
#include "network/packet.hpp"

class Connection;
class Endpoints;

class ConnectionGroup {
 public:
  ConnectionGroup(Endpoints& endpoints, std::uint32_t first) : endpoints_(endpoints), members_{first} {}
  virtual ~ConnectionGroup() = default;
  ConnectionGroup(const ConnectionGroup&) = delete;
  ConnectionGroup& operator=(const ConnectionGroup&) = delete;

  // Numbers of its connections; the first is the flow's own.
  const std::vector<std::uint32_t>& members() const { return members_; }
  void add_member(std::uint32_t number) { members_.push_back(number); }

  // Whether senders get their bytes bit by bit, in whole segments.
  virtual bool appends() const { return false; }
  virtual std::shared_ptr<Coupling> coupling() const { return nullptr; }
  virtual bool collects_bursts() const { return true; }
  // Whether a segment is acknowledged before the group takes it; else it is acknowledged after.
  virtual bool acknowledges_first() const { return false; }

  // Opens the connections that are opened first.
  virtual void open();
  virtual void on_connected(Connection&) {}  // once
  // The receiver has taken a segment.
  virtual void on_data(Connection& connection, const Packet& segment) = 0;
  // supply: called before a segment is sent; may append to what the sender has. has_supply: whether it would.
  virtual void supply(Connection&) {}
  virtual bool has_supply(Connection&) { return false; }
  virtual void stamp(Packet& /*acknowledgement*/) const {}
  // True where the group itself has sent what the acknowledgement allows.
  virtual bool takes_acknowledgement(Connection&, std::uint64_t /*stream_in_order*/) { return false; }
  virtual void on_timeout(Connection&) {}
  virtual void on_turn_over(Connection&) {}  // at its host's port, where it no longer waits
  virtual void on_done(Connection&) {}       // all is acknowledged; the connection is about to be closed
  virtual bool stop() { return false; }      // the flow's time is over: true if the group has stopped it

  virtual std::uint64_t delivered_bytes(const Connection& connection) const;
  virtual std::uint64_t retransmissions(const Connection& connection) const;

 protected:
  Endpoints& endpoints_;
  std::vector<std::uint32_t> members_;
};
