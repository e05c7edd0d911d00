#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/module.hpp"
#include "protocols/raft_election.hpp"

namespace py = pybind11;

namespace {
constexpr std::uint64_t trials_between_signals = 64;
}

void bind_agreement(py::module_& module) {
  py::class_<RandomStream>(module, "RandomStream", "The core's random numbers, for twins of what is made of them.")
      .def(py::init<std::uint64_t, std::uint64_t>(), py::arg("seed"), py::arg("stream"))
      .def("uniform", &RandomStream::uniform, "Uniform on [0, 1).")
      .def("exponential", &RandomStream::exponential, "Exponential with mean 1.");

  py::class_<RaftElection>(module, "RaftElection", "Elections after a crash of Raft's leader; times in ms.")
      .def(py::init([](int servers, std::vector<int> log_lengths, int committed, double least_timeout,
                       double greatest_timeout, double tick, double step, double timer_late, double heartbeat,
                       double least_delay, double greatest_delay, double least_write, double mean_extra_write,
                       bool pre_vote, bool keeps_leader, bool one_seed, bool checks_logs, bool two_writes,
                       bool synchronised, bool fresh_timers, bool until_elected, double longest) {
             if (log_lengths.size() < 2 || log_lengths.size() >= static_cast<std::size_t>(servers) || servers > 8)
               throw py::value_error("two to seven servers survive, fewer than there are, and there are at most 8");
             return RaftElection({servers,
                                  std::move(log_lengths),
                                  committed,
                                  least_timeout,
                                  greatest_timeout,
                                  tick,
                                  step,
                                  timer_late,
                                  heartbeat,
                                  least_delay,
                                  greatest_delay,
                                  least_write,
                                  mean_extra_write,
                                  pre_vote,
                                  keeps_leader,
                                  one_seed,
                                  checks_logs,
                                  two_writes,
                                  synchronised,
                                  fresh_timers,
                                  until_elected,
                                  longest});
           }),
           py::kw_only(), py::arg("servers"), py::arg("log_lengths"), py::arg("committed"), py::arg("least_timeout"),
           py::arg("greatest_timeout"), py::arg("tick"), py::arg("step"), py::arg("timer_late"), py::arg("heartbeat"),
           py::arg("least_delay"), py::arg("greatest_delay"), py::arg("least_write"), py::arg("mean_extra_write"),
           py::arg("pre_vote"), py::arg("keeps_leader"), py::arg("one_seed"), py::arg("checks_logs"),
           py::arg("two_writes"), py::arg("synchronised"), py::arg("fresh_timers"), py::arg("until_elected"),
           py::arg("longest"))
      .def(
          "run",
          [](RaftElection& election, std::uint64_t trials, std::uint64_t seed) {
            py::array_t<double> times(static_cast<py::ssize_t>(trials));
            py::array_t<int> terms(static_cast<py::ssize_t>(trials));
            py::array_t<bool> elected(static_cast<py::ssize_t>(trials)), safe(static_cast<py::ssize_t>(trials));
            double* time = times.mutable_data();
            int* term = terms.mutable_data();
            bool *is_elected = elected.mutable_data(), *is_safe = safe.mutable_data();
            for (std::uint64_t first = 0; first < trials; first += trials_between_signals) {
              {
                py::gil_scoped_release release;
                for (std::uint64_t trial = first; trial < std::min(first + trials_between_signals, trials); ++trial) {
                  const RaftElection::Outcome outcome = election.run(seed, trial);
                  time[trial] = outcome.without_leader;
                  term[trial] = outcome.terms;
                  is_elected[trial] = outcome.elected;
                  is_safe[trial] = outcome.safe;
                }
              }
              if (PyErr_CheckSignals() != 0) throw py::error_already_set();
            }
            return py::make_tuple(times, terms, elected, safe);
          },
          py::arg("trials"), py::arg("seed"), "Time without a leader, terms, whether elected and safe, a trial each.");
}
