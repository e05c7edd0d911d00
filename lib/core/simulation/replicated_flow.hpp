// A flow that two connections carry. With RepFlow (Xu and Li, INFOCOM 2014) the first to bring all bytes counts. With
// RepSYN (Liu et al., "RepNet") the first to be established carries the flow, and the other is given up.
#pragma once
#include <cstdint>

#include "simulation/connection_group.hpp"

class RepFlow : public ConnectionGroup {
 public:
  using ConnectionGroup::ConnectionGroup;

  void on_data(Connection& connection, const Packet& segment) override;
  void on_done(Connection& connection) override { abandon_others(connection); }

 protected:
  void abandon_others(const Connection& connection);

 private:
  void refuse_others(const Connection& connection);

  bool decided_ = false;  // the receiver has all bytes
};

class RepSyn : public RepFlow {
 public:
  using RepFlow::RepFlow;

  void on_connected(Connection& connection) override { abandon_others(connection); }
  void on_done(Connection&) override {}
};
