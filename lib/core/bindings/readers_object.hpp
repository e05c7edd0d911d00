// An object of the reader's own class, in Python: how its methods are called, and how their answers are read.
#pragma once
#include <pybind11/pybind11.h>

#include <optional>
#include <string>
#include <utility>

// Returns what Python takes for a number; nothing for what it does not.
inline std::optional<double> as_number(const pybind11::object& given) {
  const double number = PyFloat_AsDouble(given.ptr());
  if (!PyErr_Occurred()) return number;
  PyErr_Clear();
  return std::nullopt;
}

inline std::string class_name(const pybind11::object& own) {
  return pybind11::str(pybind11::type::of(own).attr("__name__"));
}

// Calls a method. An exception passes through, with a note (PEP 678) that names the class and the method.
template <class... Given>
pybind11::object ask_reader(const pybind11::object& own, const char* method, Given&&... given) {
  try {
    return own.attr(method)(std::forward<Given>(given)...);
  } catch (pybind11::error_already_set& error) {
    error.value().attr("add_note")("in the middle of the run, in " + class_name(own) + "." + method);
    throw;
  }
}
