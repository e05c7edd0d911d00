// A connection that a program opens and writes messages to. Each way has segments and acknowledgements of its own.
// Messages of one direction arrive in their order.
#pragma once
#include <cstdint>
#include <vector>

#include "base/ring.hpp"
#include "base/simulated_time.hpp"
#include "simulation/connection_group.hpp"

struct News {
  Time time;
  enum class Kind : std::uint8_t { connected, message_to_server, message_to_client, datagram } kind;
  std::uint32_t number;  // of the connection or the datagram
};

class Dialogue : public ConnectionGroup {
 public:
  Dialogue(Endpoints& endpoints, std::uint32_t flow, std::vector<News>& news)
      : ConnectionGroup(endpoints, flow), news_(news) {}

  // Throws std::logic_error when the connection is closed.
  void write(bool to_client, std::uint64_t bytes);
  // Says that nothing more is sent. Throws std::logic_error while a message is on its way.
  void hang_up();

  bool appends() const override { return true; }
  bool acknowledges_first() const override { return true; }
  void on_connected(Connection& connection) override;
  void on_data(Connection& connection, const Packet& segment) override;
  void supply(Connection& connection) override;
  bool has_supply(Connection& connection) override;
  std::uint64_t delivered_bytes(const Connection&) const override { return delivered_bytes_; }

 private:
  struct Speaker {
    struct Message {
      std::uint64_t end, bytes;
    };
    std::uint64_t end = 0;       // of what was written, in whole segments
    Ring<std::uint64_t> unsent;  // messages behind the one being sent
    Ring<Message> awaited;       // by the other end
  };

  Speaker speakers_[2];  // client, server: by place among the connections
  std::uint64_t delivered_bytes_ = 0;
  std::vector<News>& news_;
};
