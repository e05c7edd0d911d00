#include <pybind11/stl.h>

#include <algorithm>
#include <cstdlib>

#include "bindings/module.hpp"
#include "verification/boolean_circuit.hpp"

namespace py = pybind11;

namespace {

// Each number is one Python object; a clause is a list of references to these.
void for_each_clause(const std::vector<std::int32_t>& clauses, const py::function& function) {
  std::int32_t most = 0;
  for (const std::int32_t number : clauses) most = std::max(most, std::abs(number));
  std::vector<py::object> numbers(2 * static_cast<std::size_t>(most) + 1);
  for (auto start = clauses.begin(); start != clauses.end();) {
    const auto end = std::find(start, clauses.end(), 0);
    const auto clause = py::reinterpret_steal<py::object>(PyList_New(end - start));
    if (!clause) throw py::error_already_set();
    for (auto place = start; place != end; ++place) {
      py::object& number = numbers[static_cast<std::size_t>(*place + most)];
      if (!number) number = py::int_(*place);
      PyList_SET_ITEM(clause.ptr(), place - start, number.inc_ref().ptr());
    }
    if (!py::reinterpret_steal<py::object>(PyObject_CallOneArg(function.ptr(), clause.ptr())))
      throw py::error_already_set();
    start = end == clauses.end() ? end : end + 1;
  }
}

}  // namespace

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
      .def("take_from", &BooleanCircuit::take_from, py::arg("rows"), py::arg("taken"))
      .def("put_behind", &BooleanCircuit::put_behind, py::arg("rows"), py::arg("held"), py::arg("offers"),
           py::arg("capacity"))
      .def(
          "match_ports",
          [](BooleanCircuit& circuit, const BooleanCircuit::Pairs& pairs, const BooleanCircuit::Literals& wanted,
             const BooleanCircuit::Literals& matched, const BooleanCircuit::Rows& last) {
            auto matching = circuit.match_ports(pairs, wanted, matched, last);
            return py::make_tuple(std::move(matching.demands), std::move(matching.last));
          },
          py::arg("pairs"), py::arg("wanted"), py::arg("matched"), py::arg("last"))
      .def("new_support", &BooleanCircuit::new_support)
      .def("new_clauses", &BooleanCircuit::new_clauses, py::arg("roots"), py::arg("demands") = std::vector<int>{})
      .def("dimacs_variable", &BooleanCircuit::dimacs_variable)
      .def("dimacs_variables", &BooleanCircuit::dimacs_variables,
           "Of several literals; zero for one whose gates have not been given out.")
      .def_static("dimacs_text", &BooleanCircuit::dimacs_text)
      .def_static("shuffled", &BooleanCircuit::shuffled, py::arg("clauses"), py::arg("seed"),
                  "The zero-terminated clauses in an order drawn from the seed.")
      .def_static("for_each_clause", &for_each_clause, py::arg("clauses"), py::arg("function"),
                  "Call a function with each zero-terminated clause as a list; equal numbers are one object.")
      .def("evaluate", &BooleanCircuit::evaluate, py::arg("true_inputs"), py::arg("wanted"))
      .def_property_readonly("variable_count", &BooleanCircuit::variable_count)
      .def_property_readonly("gate_count", &BooleanCircuit::gate_count);
}
