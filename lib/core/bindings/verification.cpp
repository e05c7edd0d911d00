#include <pybind11/stl.h>

#include "boolean_circuit.hpp"
#include "module.hpp"

namespace py = pybind11;

void bind_verification(py::module_& module) {
  py::class_<BooleanCircuit>(module, "BooleanCircuit",
                             "A Boolean circuit in which equal gates are one gate; literals are integers, "
                             "0 is false, 1 is true, and literal ^ 1 is the opposite.")
      .def(py::init<>())
      .def("input", &BooleanCircuit::input)
      .def("both", &BooleanCircuit::both)
      .def("either", &BooleanCircuit::either)
      .def("differ", &BooleanCircuit::differ)
      .def("choose", &BooleanCircuit::choose, py::arg("condition"), py::arg("a"), py::arg("b"))
      .def("all_of", &BooleanCircuit::all_of)
      .def("any_of", &BooleanCircuit::any_of)
      .def("add", &BooleanCircuit::add, py::arg("a"), py::arg("b"), py::arg("limit"))
      .def("count", &BooleanCircuit::count, py::arg("literals"), py::arg("limit"))
      .def("choose_number", &BooleanCircuit::choose_number, py::arg("condition"), py::arg("a"), py::arg("b"))
      .def("support", &BooleanCircuit::support)
      .def("new_clauses", &BooleanCircuit::new_clauses)
      .def("has_variable", &BooleanCircuit::has_variable)
      .def("dimacs_variable", &BooleanCircuit::dimacs_variable)
      .def_static("dimacs_text", &BooleanCircuit::dimacs_text)
      .def_static("split", &BooleanCircuit::split, "Zero-terminated clauses as lists.")
      .def("evaluate", &BooleanCircuit::evaluate, py::arg("true_inputs"), py::arg("wanted"))
      .def_property_readonly("variable_count", &BooleanCircuit::variable_count)
      .def_property_readonly("gate_count", &BooleanCircuit::gate_count);
}
