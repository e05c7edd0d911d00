#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bindings/module.hpp"
#include "queueing/replicated_flows.hpp"
#include "queueing/single_server_queue.hpp"

namespace py = pybind11;
using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;

namespace {
constexpr std::uint64_t jobs_between_signals = 1u << 20;

// Runs work(first, count) on chunks of total without the GIL. Between chunks Ctrl-C may interrupt.
template <class Work>
void in_chunks(std::uint64_t total, std::uint64_t chunk, Work&& work) {
  for (std::uint64_t first = 0; first < total; first += chunk) {
    {
      py::gil_scoped_release release;
      work(first, std::min(chunk, total - first));
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

ReplicatedFlows::Choice choice_named(const std::string& name) {
  if (name == "hashed") return ReplicatedFlows::Choice::hashed;
  if (name == "distinct") return ReplicatedFlows::Choice::distinct;
  if (name == "same") return ReplicatedFlows::Choice::same;
  throw py::value_error("choice of paths is hashed, distinct or same, not " + name);
}
}  // namespace

void bind_queueing(py::module_& module) {
  py::class_<SizeSampler>(module, "SizeSampler", "How sizes are drawn; make one by its static methods.")
      .def_static("constant", [](double size) { return SizeSampler(SizeSampler::Constant{size}); })
      .def_static("exponential", [](double mean) { return SizeSampler(SizeSampler::Exponential{mean}); })
      .def_static("piecewise",
                  [](const std::vector<double>& sizes, const std::vector<double>& probabilities) {
                    return SizeSampler(PiecewiseSampler(sizes, probabilities));
                  })
      .def(
          "draw",
          [](const SizeSampler& sampler, std::size_t count, std::uint64_t seed) {
            RandomStream random(seed, 0);
            Doubles sizes(static_cast<py::ssize_t>(count));
            std::generate_n(sizes.mutable_data(), count, [&] { return sampler(random); });
            return sizes;
          },
          py::arg("count"), py::arg("seed"));

  py::class_<SingleServerQueue>(module, "SingleServerQueue", "An M/G/1 queue, first come first served.")
      .def(py::init<SizeSampler, double, std::uint64_t>(), py::arg("sizes"), py::arg("mean_interarrival"),
           py::arg("seed"))
      .def(
          "waits",
          [](SingleServerQueue& queue, std::uint64_t jobs) {
            Doubles waits(static_cast<py::ssize_t>(jobs));
            double* place = waits.mutable_data();
            in_chunks(jobs, jobs_between_signals, [&](std::uint64_t, std::uint64_t count) {
              queue.serve(count, [&](double wait) { *place++ = wait; });
            });
            return waits;
          },
          py::arg("jobs"), "The waits of the next jobs, one each.")
      .def(
          "batch_means",
          [](SingleServerQueue& queue, std::size_t batches, std::uint64_t jobs_per_batch) {
            WaitHistogram histogram;
            Doubles means(static_cast<py::ssize_t>(batches));
            for (std::size_t batch = 0; batch < batches; ++batch) {
              double sum = 0;
              in_chunks(jobs_per_batch, jobs_between_signals, [&](std::uint64_t, std::uint64_t count) {
                sum += queue.serve(count, [&](double wait) { histogram.record(wait); });
              });
              means.mutable_at(static_cast<py::ssize_t>(batch)) = sum / static_cast<double>(jobs_per_batch);
            }
            return py::make_tuple(means, py::array_t<std::uint64_t>(py::cast(histogram.counts())));
          },
          py::arg("batches"), py::arg("jobs_per_batch"), "(mean wait of each batch, counts of the waits by bin)")
      .def(
          "skip",
          [](SingleServerQueue& queue, std::uint64_t jobs) {
            in_chunks(jobs, jobs_between_signals,
                      [&](std::uint64_t, std::uint64_t count) { queue.serve(count, [](double) {}); });
          },
          py::arg("jobs"), "Serves jobs whose waits nobody wants (warm-up).");

  py::class_<WaitHistogram>(module, "WaitHistogram")
      .def_property_readonly_static("lowest_exponent", [](const py::object&) { return WaitHistogram::lowest_exponent; })
      .def_property_readonly_static("octaves", [](const py::object&) { return WaitHistogram::octaves; })
      .def_property_readonly_static("bins_per_octave",
                                    [](const py::object&) { return WaitHistogram::bins_per_octave; });

  py::class_<ReplicatedFlows>(module, "ReplicatedFlows", "Flows replicated over parallel M/G/1 paths.")
      .def(py::init([](SizeSampler bursts, std::size_t paths, double mean_interarrival, double correlation,
                       std::size_t copies, const std::string& choice, double round_gap, double flow_gap,
                       std::uint64_t seed) {
             return new ReplicatedFlows(std::move(bursts), {paths, mean_interarrival, correlation, copies,
                                                            choice_named(choice), round_gap, flow_gap, seed});
           }),
           py::kw_only(), py::arg("bursts"), py::arg("paths"), py::arg("mean_interarrival"), py::arg("correlation"),
           py::arg("copies"), py::arg("choice"), py::arg("round_gap"), py::arg("flow_gap"), py::arg("seed"))
      .def(
          "advance",
          [](ReplicatedFlows& model, double duration) {
            const double piece = model.mean_interarrival() * 65536;
            for (; duration > 0; duration -= piece)
              in_chunks(1, 1, [&](std::uint64_t, std::uint64_t) { model.advance(std::min(duration, piece)); });
          },
          py::arg("duration"), "Lets time pass without looking (warm-up).")
      .def(
          "run",
          [](ReplicatedFlows& model, const Doubles& rounds) {
            const std::size_t copies = model.copies();
            Doubles delays({rounds.size(), static_cast<py::ssize_t>(copies)});
            const double* from = rounds.data();
            double* to = delays.mutable_data();
            in_chunks(static_cast<std::uint64_t>(rounds.size()), 1024, [&](std::uint64_t first, std::uint64_t count) {
              model.run(from + first, count, to + first * copies);
            });
            return delays;
          },
          py::arg("rounds"), "Summed waits, flows x copies.")
      .def(
          "run_first_open",
          [](ReplicatedFlows& model, const Doubles& rounds) {
            Doubles delays(rounds.size());
            const double* from = rounds.data();
            double* to = delays.mutable_data();
            in_chunks(static_cast<std::uint64_t>(rounds.size()), 1024, [&](std::uint64_t first, std::uint64_t count) {
              model.run_first_open(from + first, count, to + first);
            });
            return delays;
          },
          py::arg("rounds"), "Summed waits of the copy whose SYN waited least, one a flow.");
}
