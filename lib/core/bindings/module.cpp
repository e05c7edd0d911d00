// netrepro._core: one bind function a domain, each in a file of its own beside this one.
#include "bindings/module.hpp"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled core of netrepro.";
  module.attr("build_stamp") = build_stamp;
  bind_agreement(module);
  bind_emulation(module);
  bind_peer_swarm(module);
  bind_protocols(module);
  bind_queueing(module);
  bind_queues(module);
  bind_traffic(module);
  bind_mixtures(module);
  bind_simulation(module);
  bind_verification(module);
  bind_dummynet(module);
}
