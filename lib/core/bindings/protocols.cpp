#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "bindings/module.hpp"
#include "protocols/replication.hpp"

namespace py = pybind11;

namespace {
template <class Value>
using Array = py::array_t<Value, py::array::c_style | py::array::forcecast>;

template <class Value, class Get>
py::array_t<Value> column(const std::vector<Replication::Result>& results, Get&& get) {
  py::array_t<Value> values(static_cast<py::ssize_t>(results.size()));
  Value* place = values.mutable_data();
  for (const Replication::Result& result : results) *place++ = get(result);
  return values;
}

py::dict simulate(Replication::Settings settings, const Array<double>& arrivals, const Array<std::int32_t>& clients,
                  const Array<std::int32_t>& keys, const Array<bool>& writes, std::vector<std::size_t> regions,
                  std::vector<std::size_t> replicas, std::size_t key_count) {
  const auto count = static_cast<std::size_t>(arrivals.size());
  std::vector<StoreCommand> commands(count);
  for (std::size_t i = 0; i < count; ++i) commands[i] = {clients.data()[i], keys.data()[i], writes.data()[i]};
  std::vector<double> times(arrivals.data(), arrivals.data() + count);
  Replication replication(std::move(settings), std::move(commands), std::move(times), std::move(regions),
                          std::move(replicas), key_count);
  {
    py::gil_scoped_release release;
    replication.run();
  }
  using Result = Replication::Result;
  py::dict found;
  found["sent"] = column<double>(replication.results(), [](const Result& each) { return each.sent; });
  found["committed"] = column<double>(replication.results(), [](const Result& each) { return each.committed; });
  found["answered"] = column<double>(replication.results(), [](const Result& each) { return each.answered; });
  found["value"] = column<std::int32_t>(replication.results(), [](const Result& each) { return each.value; });
  found["is_fast"] = column<bool>(replication.results(), [](const Result& each) { return each.is_fast; });
  found["busy"] = replication.busy();
  found["unlike_keys"] = replication.unlike_keys();
  found["unexecuted"] = replication.unexecuted();
  found["events"] = replication.events();
  return found;
}
}  // namespace

void bind_protocols(py::module_& module) {
  module.def(
      "simulate_replication",
      [](std::vector<std::vector<double>> delays, double jitter, double message_cost, double stop,
         double execution_interval, std::size_t cap, bool looks_at_arrivals, std::uint64_t seed, bool is_epaxos,
         std::size_t leader, bool chain_fix, bool fast_path, const std::vector<double>& hold_back,
         const std::vector<double>& clock_error, const Array<double>& arrivals, const Array<std::int32_t>& clients,
         const Array<std::int32_t>& keys, const Array<bool>& writes, std::vector<std::size_t> regions,
         std::vector<std::size_t> replicas, std::size_t key_count) {
        Replication::Settings settings{std::move(delays),
                                       jitter,
                                       message_cost,
                                       stop,
                                       execution_interval,
                                       cap,
                                       looks_at_arrivals,
                                       seed,
                                       is_epaxos,
                                       leader,
                                       {}};
        const bool is_held_back = !hold_back.empty();
        for (std::size_t i = 0; i < settings.delays.size(); ++i)
          settings.epaxos.push_back(
              {chain_fix, fast_path, is_held_back, is_held_back ? hold_back[i] : 0.0, clock_error[i]});
        return simulate(std::move(settings), arrivals, clients, keys, writes, std::move(regions), std::move(replicas),
                        key_count);
      },
      py::kw_only(), py::arg("delays"), py::arg("jitter"), py::arg("message_cost"), py::arg("stop"),
      py::arg("execution_interval"), py::arg("cap"), py::arg("looks_at_arrivals"), py::arg("seed"),
      py::arg("is_epaxos"), py::arg("leader"), py::arg("chain_fix"), py::arg("fast_path"), py::arg("hold_back"),
      py::arg("clock_error"), py::arg("arrivals"), py::arg("clients"), py::arg("keys"), py::arg("writes"),
      py::arg("regions"), py::arg("replicas"), py::arg("key_count"),
      "Clients and replicas of a key-value store; times in seconds, -1 for what never happened.");
}
