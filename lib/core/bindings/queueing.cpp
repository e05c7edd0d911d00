#include "module.hpp"

void bind_queueing(pybind11::module_& module) { (void)module; }
