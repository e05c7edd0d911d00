#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "link_relay.hpp"
#include "module.hpp"
#include "shared_file.hpp"
#include "traffic_generator.hpp"

namespace py = pybind11;

namespace {

std::size_t link_relay_bytes(std::size_t directions) {
  return sizeof(LinkRelay::Shared) + directions * sizeof(LinkRelay::State);
}

// from, to, delay, jitter, loss, reordering, reordering time, rule, its parameters, rate, whether it is paced, switch
using DirectionTuple = std::tuple<int, int, std::int64_t, std::int64_t, double, double, std::int64_t, std::string,
                                  std::vector<double>, double, bool, std::string>;

// Relays until the process ends. `shared_descriptor` is a file of link_relay_bytes(), all zero.
void run_link_relay(const std::vector<DirectionTuple>& directions, std::uint64_t seed, int shared_descriptor,
                    int sample_descriptor, int most_sockets, const py::object& ready) {
  auto* shared = map_shared<LinkRelay::Shared>(shared_descriptor, link_relay_bytes(directions.size()));
  std::vector<LinkRelay::Direction> described;
  std::map<std::string, std::shared_ptr<RelayMemory>> memories;
  for (const auto& [from, to, delay, jitter, loss, reordering, reordering_ns, rule, values, rate, paced, owner] :
       directions) {
    std::shared_ptr<RelayMemory> memory;
    const auto switch_memory = [&memory, &of_switch = memories[owner]] {
      if (!of_switch) of_switch = std::make_shared<RelayMemory>();
      return memory = of_switch;
    };
    std::optional<RelayQueue> queue;
    const std::uint64_t stream = directions.size() + described.size();
    if (!rule.empty())
      queue.emplace(queue_rule_named(rule, values, {rate, 1'000'000'000, seed, stream, switch_memory}), rate,
                    paced);
    described.push_back({from, to, delay, jitter, loss, reordering, reordering_ns, static_cast<std::uint64_t>(rate),
                         std::move(queue), memory});
  }
  LinkRelay relay(std::move(described), seed, shared, most_sockets, sample_descriptor);
  ready();
  py::gil_scoped_release released;
  relay.run();
}

std::size_t traffic_generator_bytes(std::size_t flows, std::size_t answers) {
  return sizeof(TrafficGenerator::Shared) + flows * sizeof(TrafficGenerator::Result) +
         answers * sizeof(TrafficGenerator::Answer);
}

TrafficGenerator::Replication replication(const std::string& name) {
  using enum TrafficGenerator::Replication;
  if (name.empty()) return none;
  if (name == "repflow") return repflow;
  if (name == "repsyn") return repsyn;
  throw std::invalid_argument("no replication " + name);
}

using FlowTuple = std::tuple<int, int, std::uint32_t, std::uint32_t, std::int64_t, std::int64_t, std::uint64_t,
                             std::string, double, std::uint32_t, bool, std::string, std::size_t>;
using ReplicaTuple = std::tuple<std::size_t, std::uint32_t, std::uint32_t>;  // flow, addresses
// first flow, servers, bytes of requests and answers, count, barrier, thinking time, longest wait for an answer
using ConversationTuple =
    std::tuple<std::size_t, std::size_t, std::uint64_t, std::uint64_t, std::size_t, bool, std::int64_t, std::int64_t>;

using KindTuple = std::tuple<int, int, int, bool, bool>;  // in the order of SocketKind

// Runs the traffic to the experiment's end. `shared_descriptor` is a file of traffic_generator_bytes(), all zero.
void run_traffic_generator(const std::vector<FlowTuple>& flows, const std::vector<ReplicaTuple>& replicas,
                           const std::vector<ConversationTuple>& conversations, std::int64_t duration_ns,
                           std::uint64_t seed, const std::vector<KindTuple>& kinds, std::int64_t window_interval_ns,
                           int shared_descriptor, int sample_descriptor, bool until_complete,
                           const py::object& ready) {
  std::vector<TrafficGenerator::Flow> described;
  for (const auto& [opens, accepts, opener, accepter, start, duration, size, control, rate, packet, poisson, twice,
                    kind] : flows)
    described.push_back({opens, accepts, opener, accepter, start, duration, size, control, rate, packet, poisson,
                         replication(twice), kind});
  std::vector<TrafficGenerator::SocketKind> of_sockets;
  for (const auto& each : kinds)
    of_sockets.push_back(
        std::apply([](const auto&... field) { return TrafficGenerator::SocketKind{field...}; }, each));
  std::vector<TrafficGenerator::Replica> copies;
  for (const auto& [flow, opener, accepter] : replicas) copies.push_back({flow, opener, accepter});
  std::vector<TrafficGenerator::Conversation> talks;
  std::size_t answers = 0;
  for (const auto& each : conversations) {
    talks.push_back(
        std::apply([](const auto&... field) { return TrafficGenerator::Conversation{field...}; }, each));
    answers += talks.back().servers * talks.back().count;
  }
  auto* shared =
      map_shared<TrafficGenerator::Shared>(shared_descriptor, traffic_generator_bytes(flows.size(), answers));
  TrafficGenerator generator(
      std::move(described), copies, talks,
      {duration_ns, seed, std::move(of_sockets), window_interval_ns, sample_descriptor, until_complete},
      shared);
  ready();
  py::gil_scoped_release released;
  generator.run();
}

}  // namespace

void bind_emulation(py::module_& module) {
  module.def("link_relay_bytes", &link_relay_bytes, py::arg("directions"));
  module.def("run_link_relay", &run_link_relay, py::arg("directions"), py::arg("seed"), py::arg("shared_descriptor"),
             py::arg("sample_descriptor"), py::arg("most_sockets"), py::arg("ready"));
  module.def("traffic_generator_bytes", &traffic_generator_bytes, py::arg("flows"), py::arg("answers"));
  module.def("run_traffic_generator", &run_traffic_generator, py::arg("flows"), py::arg("replicas"), py::arg("conversations"),
             py::arg("duration_ns"), py::arg("seed"), py::arg("kinds"), py::arg("window_interval_ns"), py::arg("shared_descriptor"), py::arg("sample_descriptor"),
             py::arg("until_complete"), py::arg("ready"));
}
