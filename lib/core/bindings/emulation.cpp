#include <pybind11/stl.h>
#include <sys/mman.h>

#include <cerrno>
#include <system_error>
#include <tuple>
#include <vector>

#include "link_relay.hpp"
#include "module.hpp"

namespace py = pybind11;

namespace {

std::size_t link_relay_bytes(std::size_t directions) {
  return sizeof(LinkRelay::Shared) + directions * sizeof(LinkRelay::Counters);
}

// Relays until the process ends. `shared_descriptor` is a file of link_relay_bytes(), all zero.
void run_link_relay(const std::vector<std::tuple<int, int, std::int64_t, double>>& directions, std::uint64_t seed,
                    int shared_descriptor, int most_sockets, const py::object& ready) {
  void* shared = mmap(nullptr, link_relay_bytes(directions.size()), PROT_READ | PROT_WRITE, MAP_SHARED,
                      shared_descriptor, 0);
  if (shared == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "counters");
  std::vector<LinkRelay::Direction> described;
  for (const auto& [from, to, delay_ns, loss] : directions) described.push_back({from, to, delay_ns, loss});
  LinkRelay relay(described, seed, static_cast<LinkRelay::Shared*>(shared), most_sockets);
  ready();
  py::gil_scoped_release released;
  relay.run();
}

}  // namespace

void bind_emulation(py::module_& module) {
  module.def("link_relay_bytes", &link_relay_bytes, py::arg("directions"));
  module.def("run_link_relay", &run_link_relay, py::arg("directions"), py::arg("seed"), py::arg("shared_descriptor"),
             py::arg("most_sockets"), py::arg("ready"));
}
