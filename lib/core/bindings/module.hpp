#pragma once
#include <pybind11/pybind11.h>

// Hash of the sources that this core was built from; defined by core/build_stamp.cmake.
extern const char* const build_stamp;

void bind_agreement(pybind11::module_& module);
void bind_dummynet(pybind11::module_& module);
void bind_emulation(pybind11::module_& module);
void bind_queues(pybind11::module_& module);
void bind_peer_swarm(pybind11::module_& module);
void bind_protocols(pybind11::module_& module);
void bind_queueing(pybind11::module_& module);
void bind_traffic(pybind11::module_& module);
void bind_mixtures(pybind11::module_& module);
void bind_simulation(pybind11::module_& module);
void bind_verification(pybind11::module_& module);
void bind_web(pybind11::module_& module);
