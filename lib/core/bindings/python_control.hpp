// A congestion control written in Python. The simulator runs without the global lock; every answer takes it.
#pragma once
#include <pybind11/pybind11.h>

#include <utility>

#include "tcp/congestion_control.hpp"

class PythonControl : public CongestionControl {
 public:
  explicit PythonControl(pybind11::object control) : control_(std::move(control)) {}
  ~PythonControl() override {
    const pybind11::gil_scoped_acquire lock;
    control_ = pybind11::object();
  }

  void on_delivery(CongestionWindow& window, const Delivery& delivery) override {
    ask("on_delivery", window, &delivery);
  }
  void grow(CongestionWindow& window, const Delivery& delivery) override { ask("grow", window, &delivery); }
  double ssthresh_after_loss(const CongestionWindow& window) override {
    return ssthresh("threshold_after_loss", window);
  }
  double ssthresh_after_mark(const CongestionWindow& window) override {
    return ssthresh("threshold_after_mark", window);
  }
  void on_timeout() override {
    const pybind11::gil_scoped_acquire lock;
    control_.attr("on_timeout")();
  }

 private:
  void ask(const char* name, CongestionWindow& window, const Delivery* delivery) {
    const pybind11::gil_scoped_acquire lock;
    control_.attr(name)(pybind11::cast(&window, pybind11::return_value_policy::reference),
                        pybind11::cast(delivery, pybind11::return_value_policy::reference));
  }
  double ssthresh(const char* name, CongestionWindow window) {
    const pybind11::gil_scoped_acquire lock;
    return control_.attr(name)(pybind11::cast(&window, pybind11::return_value_policy::reference)).cast<double>();
  }

  pybind11::object control_;
};
