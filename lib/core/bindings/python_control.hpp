// A congestion control written in Python. The simulator runs without the global lock; every call of Python takes it.
//
// Python gets copies, which it may keep. What it leaves in its window is taken over once it is known to be numbers.
#pragma once
#include <pybind11/pybind11.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "base/refusal.hpp"
#include "bindings/readers_object.hpp"
#include "tcp/congestion_control.hpp"

class PythonControl : public CongestionControl {
 public:
  explicit PythonControl(pybind11::object control) : control_(std::move(control)) {}
  ~PythonControl() override {
    const pybind11::gil_scoped_acquire lock;
    control_ = pybind11::object();
  }

  void on_delivery(CongestionWindow& window, const Delivery& delivery) override {
    ask("on_delivery", window, delivery);
  }
  void grow(CongestionWindow& window, const Delivery& delivery) override { ask("grow", window, delivery); }
  double ssthresh_after_loss(const CongestionWindow& window) override {
    return ssthresh("threshold_after_loss", window);
  }
  double ssthresh_after_mark(const CongestionWindow& window) override {
    return ssthresh("threshold_after_mark", window);
  }
  void on_timeout() override {
    const pybind11::gil_scoped_acquire lock;
    ask_reader(control_, "on_timeout");
  }

 private:
  void ask(const char* method, CongestionWindow& window, const Delivery& delivery) {
    const pybind11::gil_scoped_acquire lock;
    const pybind11::object copy = pybind11::cast(CongestionWindow(window));
    ask_reader(control_, method, copy, pybind11::cast(Delivery(delivery)));
    const auto left = copy.cast<CongestionWindow>();
    if (!(left.segments >= 0 && std::isfinite(left.segments))) refuse(method, "a window", left.segments);
    if (!(left.ssthresh >= 0)) refuse(method, "a threshold", left.ssthresh);
    window = left;
  }
  double ssthresh(const char* method, const CongestionWindow& window) {
    const pybind11::gil_scoped_acquire lock;
    const pybind11::object answer = ask_reader(control_, method, pybind11::cast(CongestionWindow(window)));
    const std::optional<double> segments = as_number(answer);
    if (!segments) refuse(method, "a threshold", pybind11::str(pybind11::repr(answer)));
    if (!(*segments >= 0)) refuse(method, "a threshold", *segments);
    return *segments;
  }

  [[noreturn]] void refuse(const char* method, const std::string& what, double segments) const {
    refuse(method, what, pybind11::str(pybind11::float_(segments)));
  }
  [[noreturn]] void refuse(const char* method, const std::string& what, const std::string& segments) const {
    throw Refusal(class_name(control_) + "." + method + " gives " + what + " of " + segments + " segments",
                  "give a number, 0 or more");
  }

  pybind11::object control_;
};
