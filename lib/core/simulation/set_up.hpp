// Sets up a simulator, in the units of those who describe it: seconds, bit/s and names.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "multipath/subflow_schedulers.hpp"
#include "simulation/simulator.hpp"

namespace set_up {

using PolicerNumbers = std::tuple<std::uint64_t, std::int64_t, std::uint64_t>;  // as Policer::Settings

inline Fabric::LinkSettings link_settings(std::uint32_t source, std::uint32_t destination, double rate, double delay_s,
                                          double jitter_s, double loss, std::uint64_t room, double reordering,
                                          double held_back_s, std::uint64_t burst_bytes, double host_delay_s,
                                          const std::optional<PolicerNumbers>& policer) {
  std::optional<Policer::Settings> policed;
  if (policer) policed = {std::get<0>(*policer), std::get<1>(*policer), std::get<2>(*policer)};
  return {source,
          destination,
          rate,
          from_seconds(delay_s),
          from_seconds(jitter_s),
          loss,
          room,
          reordering,
          from_seconds(held_back_s),
          burst_bytes,
          from_seconds(host_delay_s),
          policed};
}

// A rate of 0, and values that are not given, leave the link as it was.
inline void change_link(Simulator& simulator, double at_s, std::uint32_t link, double rate,
                        const std::optional<bool>& up, const std::optional<double>& delay_s,
                        const std::optional<double>& loss) {
  using State = Fabric::LinkChange::State;
  const State state = !up ? State::as_before : *up ? State::up : State::down;
  const std::optional<Time> delay = delay_s ? std::optional(from_seconds(*delay_s)) : std::nullopt;
  simulator.change_link({from_seconds(at_s), link, rate, state, delay, loss});
}

struct Flow {
  bool is_tcp;
  std::uint32_t source, destination;
  double start_s, duration_s;
  std::uint64_t size_bytes;  // of TCP; 0: for the duration
  MakeControl control;
  std::shared_ptr<const TcpSettings> tcp;
  std::uint8_t replication;  // 0 is none, 1 RepFlow, 2 RepSYN
  bool same_path;
  std::uint32_t subflows;
  double rate;  // of datagrams, as are the next two
  std::uint32_t packet_bytes;
  bool poisson;
};

inline void add_flow(Simulator& simulator, const Flow& flow) {
  const Time start = from_seconds(flow.start_s), duration = from_seconds(flow.duration_s);
  if (!flow.is_tcp) {
    simulator.add_datagrams(flow.source, flow.destination, start, duration, flow.rate, flow.packet_bytes, flow.poisson);
    return;
  }
  simulator.add_tcp(flow.source, flow.destination, start, flow.size_bytes ? flow.size_bytes : TcpSender::unlimited,
                    duration, flow.control, flow.tcp);
  const auto number = static_cast<std::uint32_t>(simulator.flows() - 1);
  using Replication = Simulator::Replication;
  if (flow.replication)
    simulator.replicate(number, flow.replication == 2 ? Replication::repsyn : Replication::repflow, flow.same_path);
  else if (flow.subflows > 1)
    simulator.split(number, flow.subflows);
}

// Calls visit.value, visit.time, visit.choice or visit.scheduler for each setting of TCP, with its name. A choice is
// one of the names that follow, in the order of its values.
template <class Visit>
void each_tcp_setting(Visit&& visit) {
  using Tcp = TcpSettings;
  visit.value("segment_bytes", &Tcp::segment_bytes);
  visit.value("initial_window_segments", &Tcp::initial_window);
  visit.value("receive_window_bytes", &Tcp::receive_window_bytes);
  visit.value("send_buffer_bytes", &Tcp::send_buffer_bytes);
  visit.time("minimum_timeout_s", &Tcp::minimum_timeout);
  visit.time("maximum_timeout_s", &Tcp::maximum_timeout);
  visit.time("initial_timeout_s", &Tcp::initial_timeout);
  visit.value("syn_linear_timeouts", &Tcp::syn_linear_timeouts);
  visit.time("acknowledgement_delay_s", &Tcp::acknowledgement_delay);
  visit.value("selective", &Tcp::selective);
  visit.value("tail_loss_probe", &Tcp::tail_loss_probe);
  visit.value("ecn", &Tcp::ecn);
  visit.value("dctcp_first_alpha", &Tcp::dctcp_first_alpha);
  visit.value("slow_start_exit_share", &Tcp::slow_start_exit_share);
  visit.value("slow_start_after_idle", &Tcp::slow_start_after_idle);
  visit.value("offers_all", &Tcp::offers_all);
  visit.value("hystart", &Tcp::hystart);
  visit.value("hystart_rounds_from_start", &Tcp::hystart_rounds_from_start);
  visit.choice("recovery", &Tcp::recovery, {"linux", "sack", "newreno", "reno", "tahoe"});
  visit.choice("counts", &Tcp::counts, {"segments", "bytes", "acknowledgements"});
  visit.choice("receiver", &Tcp::receiver,
               {"honest", "ack_division", "duplicate_spoofing", "first_duplicate_spoofing", "optimistic"});
  visit.value("receiver_count", &Tcp::receiver_count);
  visit.time("receiver_interval_s", &Tcp::receiver_interval);
  visit.value("cumulative_nonce", &Tcp::cumulative_nonce);
  visit.value("boundary_spread_bytes", &Tcp::boundary_spread_bytes);
  visit.time("prague_round_trip_s", &Tcp::prague_round_trip);
  visit.value("prague_rounds", &Tcp::prague_rounds);
  visit.value("prague_heeds_marks", &Tcp::prague_heeds_marks);
  visit.time("bbr3_ecn_round_trip_s", &Tcp::bbr3_ecn_round_trip);
  visit.value("bursts", &Tcp::bursts);
  visit.value("suss_rounds", &Tcp::suss_rounds);
  visit.value("suss_guard", &Tcp::suss_guard);
  visit.value("suss_pacing", &Tcp::suss_pacing);
  visit.value("opportunistic_retransmission", &Tcp::opportunistic_retransmission);
  visit.value("penalisation", &Tcp::penalisation);
  visit.scheduler("scheduler");
  visit.value("accurate_ecn", &Tcp::accurate_ecn);
  visit.value("ect_1", &Tcp::ect_1);
  visit.choice("receiver_ecn", &Tcp::receiver_ecn, {"accurate", "classic", "none"});
  visit.value("pacing", &Tcp::pacing);
  visit.value("pacing_slow_start_ratio", &Tcp::pacing_slow_start_ratio);
  visit.value("pacing_ratio", &Tcp::pacing_ratio);
  visit.value("unpaced_segments", &Tcp::unpaced_segments);
}

// Sets one of the values of an enumeration by its name. Throws std::invalid_argument for an unknown name.
template <class Value>
void choose(TcpSettings& tcp, Value TcpSettings::* field, const std::vector<std::string>& names,
            const std::string& name) {
  for (std::size_t place = 0; place < names.size(); ++place)
    if (names[place] == name) {
      tcp.*field = static_cast<Value>(place);
      return;
    }
  throw std::invalid_argument("no " + name);
}

}  // namespace set_up
