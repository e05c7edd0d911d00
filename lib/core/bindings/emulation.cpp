#include <pybind11/stl.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/module.hpp"
#include "bindings/shared_file.hpp"
#include "sockets/traffic_generator.hpp"

namespace py = pybind11;

namespace {

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
// In this order: first flow, servers, bytes of requests and answers, count, barrier, thinking time, longest wait for an
// answer, bytes of its first part, time until the rest.
using ConversationTuple = std::tuple<std::size_t, std::size_t, std::uint64_t, std::uint64_t, std::size_t, bool,
                                     std::int64_t, std::int64_t, std::uint64_t, std::int64_t>;

using KindTuple = std::tuple<int, int, int, bool, bool>;  // in the order of SocketKind

// Runs the traffic to the experiment's end. `shared_descriptor` is a file of traffic_generator_bytes(), all zero.
void run_traffic_generator(const std::vector<FlowTuple>& flows, const std::vector<ReplicaTuple>& replicas,
                           const std::vector<ConversationTuple>& conversations, std::int64_t duration_ns,
                           std::uint64_t seed, const std::vector<KindTuple>& kinds, std::int64_t window_interval_ns,
                           std::int64_t since_ns, int shared_descriptor, int sample_descriptor, bool until_complete,
                           const py::object& ready, int streams, bool ipv6) {
  std::vector<TrafficGenerator::Flow> described;
  for (const auto& [opens, accepts, opener, accepter, start, duration, size, control, rate, packet, poisson, twice,
                    kind] : flows)
    described.push_back({opens, accepts, opener, accepter, start, duration, size, control, rate, packet, poisson,
                         replication(twice), kind});
  std::vector<TrafficGenerator::SocketKind> of_sockets;
  for (const auto& each : kinds)
    of_sockets.push_back(std::apply([](const auto&... field) { return TrafficGenerator::SocketKind{field...}; }, each));
  std::vector<TrafficGenerator::Replica> copies;
  for (const auto& [flow, opener, accepter] : replicas) copies.push_back({flow, opener, accepter});
  std::vector<TrafficGenerator::Conversation> talks;
  std::size_t answers = 0;
  for (const auto& each : conversations) {
    talks.push_back(
        std::apply([](std::size_t flow, std::size_t servers,
                      const auto&... field) { return TrafficGenerator::Conversation{flow, servers, {field...}}; },
                   each));
    answers += talks.back().servers * talks.back().rounds.count;
  }
  auto* shared =
      map_shared<TrafficGenerator::Shared>(shared_descriptor, traffic_generator_bytes(flows.size(), answers));
  TrafficGenerator generator(std::move(described), copies, talks,
                             {duration_ns, seed, std::move(of_sockets), window_interval_ns, since_ns, sample_descriptor,
                              until_complete, streams, ipv6},
                             shared);
  ready();
  py::gil_scoped_release released;
  generator.run();
}

}  // namespace

void bind_emulation(py::module_& module) {
  module.def("traffic_generator_bytes", &traffic_generator_bytes, py::arg("flows"), py::arg("answers"));
  module.def("run_traffic_generator", &run_traffic_generator, py::arg("flows"), py::arg("replicas"),
             py::arg("conversations"), py::arg("duration_ns"), py::arg("seed"), py::arg("kinds"),
             py::arg("window_interval_ns"), py::arg("since_ns"), py::arg("shared_descriptor"),
             py::arg("sample_descriptor"), py::arg("until_complete"), py::arg("ready"), py::arg("streams") = -1,
             py::arg("ipv6") = false);
}
