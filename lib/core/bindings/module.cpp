// netrepro._core: one bind function a domain, each in a file of its own beside this one.
#include "bindings/module.hpp"

#include "base/refusal.hpp"

namespace {
void raise_refusals(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Refusal& refusal) {
    const pybind11::object kind = pybind11::module_::import("netrepro.errors").attr("NetreproError");
    PyErr_SetObject(kind.ptr(), kind(refusal.what(), refusal.remedy).ptr());
  }
}
}  // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled core of netrepro.";
  pybind11::register_local_exception_translator(&raise_refusals);
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
  bind_web(module);
}
