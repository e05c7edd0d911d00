// A flow whose bytes are spread over several connections (MPTCP, RFC 8684), each of which sends what the scheduler has
// for it (multipath/multipath.hpp). The other connections join when the first is established.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "multipath/multipath.hpp"
#include "simulation/connection_group.hpp"

class Subflows : public ConnectionGroup {
 public:
  // flow: one that has been added; count: of its connections.
  Subflows(Endpoints& endpoints, std::uint32_t flow, std::uint32_t count);

  bool appends() const override { return true; }
  std::shared_ptr<Coupling> coupling() const override { return coupling_; }
  bool collects_bursts() const override { return false; }
  void open() override;
  void on_connected(Connection& connection) override;
  void on_data(Connection& connection, const Packet& segment) override;
  void supply(Connection& connection) override;
  bool has_supply(Connection& connection) override;
  void stamp(Packet& acknowledgement) const override;
  bool takes_acknowledgement(Connection& connection, std::uint64_t stream_in_order) override;
  void on_timeout(Connection& connection) override;
  void on_turn_over(Connection&) override { pump_all(); }
  bool stop() override;
  std::uint64_t delivered_bytes(const Connection& connection) const override;
  std::uint64_t retransmissions(const Connection& connection) const override;

 private:
  bool takes_new(Connection& connection) const;
  std::optional<std::uint64_t> rescue(Connection& connection);
  void pump_all();
  void close_all();

  Multipath stream_;
  std::shared_ptr<Coupling> coupling_;
};
