#pragma once
#include <pybind11/pybind11.h>

void bind_queueing(pybind11::module_& module);
void bind_verification(pybind11::module_& module);
