#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "module.hpp"
#include "shared_file.hpp"
#include "switch_fabric.hpp"

namespace py = pybind11;

namespace {

constexpr std::uint32_t full_segment_bytes = 1448;  // by which RED knows how long a packet takes

std::size_t switch_fabric_bytes(std::size_t links) {
  return sizeof(SwitchFabric::Shared) + links * sizeof(SwitchFabric::LinkState);
}

using LinkCall = std::tuple<py::dict, std::string, std::vector<double>>;  // settings by name, queue rule, its numbers
using Call = std::tuple<std::string, py::list>;
using HostTuple = std::tuple<std::uint32_t, std::uint32_t>;
using CableTuple = std::tuple<int, std::uint32_t, std::uint32_t, bool>;
using ChangeTuple = std::tuple<double, std::uint32_t, double, std::optional<bool>>;  // s, link, bit/s or 0, up
using UseTuple = std::tuple<double, std::vector<bool>>;
using PathTuple = std::tuple<std::uint32_t, std::uint16_t, std::uint32_t, std::vector<std::uint32_t>,
                             std::vector<std::uint32_t>>;

// The simulator without flows of its own, set up by calls of its methods.
void set_up(Simulator& network, const std::vector<LinkCall>& links, const std::vector<Call>& routing) {
  const py::object simulator = py::cast(&network, py::return_value_policy::reference);
  const py::object link_settings = py::type::of<Simulator::LinkSettings>();
  for (const auto& [settings, rule, numbers] : links)
    network.add_link(link_settings(**settings).cast<Simulator::LinkSettings>(), rule, numbers);
  for (const auto& [method, arguments] : routing) simulator.attr(method.c_str())(*arguments);
}

// Switches until the process ends. `shared_descriptor` is a file of switch_fabric_bytes(), all zero.
void run_switch_fabric(std::size_t nodes, const std::vector<LinkCall>& links, const std::vector<Call>& routing,
                       const std::vector<ChangeTuple>& changes, const std::vector<UseTuple>& uses,
                       const std::vector<HostTuple>& hosts,
                       const std::vector<CableTuple>& cables, const std::vector<PathTuple>& paths, std::uint64_t seed,
                       std::int64_t tick_ns, int shared_descriptor, int sample_descriptor, int packet_descriptor,
                       int capture_descriptor, const py::object& ready) {
  auto* shared = map_shared<SwitchFabric::Shared>(shared_descriptor, switch_fabric_bytes(links.size()));
  Simulator::Settings settings{};
  settings.seed = seed;
  settings.end = never;
  settings.segment_bytes = full_segment_bytes;
  Simulator network(settings, nodes);
  set_up(network, links, routing);
  std::vector<SwitchFabric::Host> known;
  for (const auto& [node, address] : hosts) known.push_back({node, address});
  std::vector<SwitchFabric::Cable> joined;
  for (const auto& [interface, from_host, to_host, is_chosen] : cables)
    joined.push_back({interface, from_host, to_host, is_chosen});
  std::vector<SwitchFabric::GivenPath> given;
  for (const auto& [source, port, destination, forward, backward] : paths)
    given.push_back({source, port, destination, forward, backward});
  SwitchFabric::Changes later;
  for (const auto& [at_s, link, rate, up] : changes) {
    using State = Simulator::LinkChange::State;
    later.links.push_back({from_seconds(at_s), link, rate, !up ? State::as_before : *up ? State::up : State::down});
  }
  for (const auto& [from_s, in_use] : uses) later.uses.push_back({from_seconds(from_s), in_use});
  SwitchFabric fabric(network, known, joined, given, std::move(later),
                      {seed, tick_ns, sample_descriptor, packet_descriptor, capture_descriptor}, shared);
  ready();
  py::gil_scoped_release released;
  fabric.run();
}

}  // namespace

void bind_fabric(py::module_& module) {
  module.def("switch_fabric_bytes", &switch_fabric_bytes, py::arg("links"));
  module.def("run_switch_fabric", &run_switch_fabric, py::kw_only(), py::arg("nodes"), py::arg("links"),
             py::arg("routing"), py::arg("changes"), py::arg("uses"), py::arg("hosts"), py::arg("cables"),
             py::arg("paths"), py::arg("seed"), py::arg("tick_ns"), py::arg("shared_descriptor"),
             py::arg("sample_descriptor"), py::arg("packet_descriptor"), py::arg("capture_descriptor"),
             py::arg("ready"));
}
