#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "bindings/module.hpp"
#include "protocols/peer_swarm.hpp"

namespace py = pybind11;

void bind_peer_swarm(py::module_& module) {
  py::class_<PeerSwarm::Peer>(module, "SwarmPeer")
      .def(py::init<double, std::uint32_t, bool, double, double, double, bool>(), py::arg("upload_bytes_per_s"),
           py::arg("owner"), py::arg("is_seed"), py::arg("first_round_s"), py::arg("round_s"), py::arg("stays_s"),
           py::arg("lends") = true);
  py::class_<PeerSwarm>(module, "PeerSwarm")
      .def(py::init<std::vector<PeerSwarm::Peer>, std::uint32_t, std::uint32_t, double, std::uint64_t>(),
           py::arg("peers"), py::arg("pieces"), py::arg("blocks_per_piece"), py::arg("block_bytes"), py::arg("seed"))
      .def("run", &PeerSwarm::run, py::arg("limit_s"), py::arg("decide"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("now_s", &PeerSwarm::now_s)
      .def("complete_s", &PeerSwarm::complete_s, py::arg("peer"))
      .def("sent_bytes", &PeerSwarm::sent_bytes, py::arg("peer"))
      .def("received_bytes", &PeerSwarm::received_bytes, py::arg("peer"));
}
