// The part of TrafficGenerator for its reports: counts of each flow, and samples of windows.
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sockets/system_calls.hpp"
#include "sockets/tcp_state.hpp"
#include "sockets/traffic_generator.hpp"

namespace {
constexpr std::size_t samples_at_a_time = 4096;
}

void TrafficGenerator::note_counters(Connection& connection) {
  if (!is_tcp(connection.flow) || connection.opener.socket < 0) return;
  if (connection.attempts == 0) {  // not connected yet: all its retransmissions are SYNs
    connection.attempts = 1 + TcpState::of(connection.opener.socket).info.tcpi_total_retrans;
    return;
  }
  connection.retransmissions = 0;
  std::int64_t timeouts = 0;
  for (const End* each : {&connection.opener, &connection.accepter}) {
    if (each->socket < 0) continue;
    std::int64_t its_timeouts = 0;
    for (const TcpState& state : TcpState::of_subflows(each->socket, kind_of(connection.flow).multipath)) {
      connection.retransmissions += state.info.tcpi_total_retrans;
      its_timeouts += std::max<std::int64_t>(state.timeouts, 0);
    }
    connection.retransmissions -= each->retransmitted_before;
    timeouts += std::max<std::int64_t>(its_timeouts - each->timeouts_before, 0);
  }
  if (connection.timeouts != none) connection.timeouts = timeouts;
}

// Sums what the flow's connections have counted so far.
void TrafficGenerator::note_result(std::size_t flow) {
  Result& result = shared_->results[flow];
  result.retransmissions = result.connection_attempts = 0;
  result.timeouts = none;
  for_connections(flow, [&](std::size_t number) {
    Connection& each = connections_[number];
    note_counters(each);
    note_received(number);
    const std::uint64_t received = answers_requests(flow) ? each.opener.received : each.accepter.received;
    result.delivered_bytes = std::max(result.delivered_bytes, static_cast<std::int64_t>(received));
    result.bytes_within_duration = static_cast<std::int64_t>(each.accepter.within_duration);
    result.retransmissions += each.retransmissions;
    result.connection_attempts += each.attempts;
    if (each.timeouts != none) result.timeouts = std::max<std::int64_t>(result.timeouts, 0) + each.timeouts;
  });
}

// Reads bytes for which the flow's receiver was not woken.
void TrafficGenerator::read_unwoken(std::size_t flow) {
  if (flows_[flow].duration_ns && !connections_[flow].accepter.streams) read_from(flow);
}

void TrafficGenerator::begin_to_count() {
  for (std::size_t flow = 0; flow < flows_.size(); ++flow) read_unwoken(flow), note_result(flow);
  before_.assign(shared_->results, shared_->results + flows_.size());
}

void TrafficGenerator::leave_out_before() {
  for (std::size_t flow = 0; flow < before_.size(); ++flow) {
    Result& result = shared_->results[flow];
    const Result& before = before_[flow];
    result.delivered_bytes -= before.delivered_bytes;
    result.bytes_within_duration -= before.bytes_within_duration;
    result.retransmissions -= before.retransmissions;
    if (result.timeouts != none) result.timeouts -= std::max<std::int64_t>(before.timeouts, 0);
  }
}

void TrafficGenerator::sample() {
  const std::int64_t at = now();
  std::erase_if(live_, [&](std::size_t number) { return connections_[number].state == State::over; });
  for (const std::size_t number : live_) {
    const Connection& each = connections_[number];
    const int sends = answers_requests(each.flow) ? each.accepter.socket : each.opener.socket;
    if (each.state == State::connecting || sends < 0) continue;
    auto place = static_cast<std::int64_t>(each.place);
    for (const TcpState& state : TcpState::of_subflows(sends, kind_of(each.flow).multipath)) {
      const tcp_info& info = state.info;
      const std::int64_t in_flight = std::int64_t{info.tcpi_unacked} - info.tcpi_sacked - info.tcpi_lost +
                                     info.tcpi_retrans;  // as the kernel's tcp_packets_in_flight
      samples_.push_back({static_cast<std::int64_t>(each.flow), place++, at, info.tcpi_snd_cwnd, info.tcpi_snd_ssthresh,
                          in_flight, info.tcpi_rtt, info.tcpi_snd_mss});
    }
  }
  if (samples_.size() >= samples_at_a_time) flush_samples();
}

void TrafficGenerator::flush_samples() {
  const char* from = reinterpret_cast<const char*>(samples_.data());
  std::size_t left = samples_.size() * sizeof(Sample);
  while (left > 0) {
    const ssize_t wrote = write(settings_.sample_descriptor, from, left);
    if (wrote < 0 && errno != EINTR) throw_errno("writing samples");
    if (wrote > 0) from += wrote, left -= static_cast<std::size_t>(wrote);
  }
  samples_.clear();
}
