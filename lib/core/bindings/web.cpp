// A simulation that is described by text, as WebAssembly has it (web/exports.cpp), for Python's tests and checks.
#include "web/described_run.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings/module.hpp"

namespace py = pybind11;

void bind_web(py::module_& module) {
  py::class_<DescribedRun>(module, "DescribedRun",
                           "A simulation that is described by text, as netrepro.simulation.described writes it.")
      .def(py::init<std::string_view>(), py::arg("text"))
      .def("run", &DescribedRun::run, py::call_guard<py::gil_scoped_release>(), py::arg("events"),
           "Goes on for so many events at most; True when the end is reached.")
      .def_property_readonly("share", &DescribedRun::share, "Of the simulated time, what has passed.")
      .def_property_readonly("events", &DescribedRun::events)
      .def("columns", [](const DescribedRun& run) {
        py::dict kept;
        for (const auto& [name, values] : run.columns())
          kept[py::str(name)] = py::array_t<double>(static_cast<py::ssize_t>(values.size()), values.data());
        return kept;
      });
}
