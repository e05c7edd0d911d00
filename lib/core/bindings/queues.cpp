#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/module.hpp"
#include "queues/link_queues.hpp"

namespace py = pybind11;

namespace {

// Binds a queue rule for the emulator and the tests. All times are in one unit, whichever that is.
template <class Rule>
py::class_<Rule> bind_rule(py::module_& module, const char* name) {
  return py::class_<Rule>(module, name)
      .def_property_readonly_static("decides_at_departure",
                                    [](const py::object&) { return Rule::decides_at_departure; })
      .def(
          "arrival",
          [](Rule& rule, std::uint64_t waiting_packets, std::uint64_t waiting_bytes, Time idle_since,
             std::uint32_t bytes, bool ecn_capable, Time now) {
            return rule.arrival({waiting_packets, waiting_bytes, idle_since}, {bytes, ecn_capable}, now);
          },
          py::arg("waiting_packets"), py::arg("waiting_bytes"), py::arg("idle_since"), py::arg("bytes"),
          py::arg("ecn_capable"), py::arg("now"))
      .def(
          "departure",
          [](Rule& rule, std::uint64_t left_packets, std::uint64_t left_bytes, Time waited, std::uint32_t bytes,
             bool ecn_capable,
             Time now) { return rule.departure({left_packets, left_bytes, now}, waited, {bytes, ecn_capable}, now); },
          py::arg("left_packets"), py::arg("left_bytes"), py::arg("waited"), py::arg("bytes"), py::arg("ecn_capable"),
          py::arg("now"));
}

class KnownPool : public BufferPool {
 public:
  std::uint64_t used_bytes(Time) override { return used; }
  std::uint64_t used = 0;
};

// A discipline whose packets are named by the caller. next() gives the name of the packet taken, and whether it was
// marked. It stands before a link of `rate` bit/s, which is busy for as long as the packet takes that was sent last.
class NamedQueue {
 public:
  NamedQueue(const std::string& rule, const std::vector<double>& numbers, double rate, std::uint64_t seed,
             const std::optional<std::vector<std::uint64_t>>& draws)
      : per_byte_(rate > 0 ? 8 * static_cast<double>(picoseconds_per_second) / rate : 0) {
    QueuePlace place{rate, seed, 0, {}};
    if (draws) place.draws = std::make_shared<std::deque<std::uint64_t>>(draws->begin(), draws->end());
    discipline_ = discipline_named(rule, numbers, place);
  }

  // idle_since: as in Backlog, where the link is another one.
  std::vector<std::uint32_t> join(std::uint32_t name, std::uint32_t bytes, std::uint32_t flow, bool ecn_capable,
                                  Time now, std::optional<Time> idle_since, bool ect_1, bool marked_before) {
    discipline_->join({.name = name,
                       .bytes = bytes,
                       .flow = flow,
                       .ecn_capable = ecn_capable,
                       .ect_1 = ect_1,
                       .marked_before = marked_before,
                       .arrived = now},
                      idle_since ? *idle_since : drained_at(now), dropped_);
    return names_of_dropped();
  }
  std::pair<std::optional<std::pair<std::uint32_t, bool>>, std::vector<std::uint32_t>> next(Time now) {
    const auto taken = discipline_->next(now, dropped_);
    std::optional<std::pair<std::uint32_t, bool>> sent;
    if (taken) {
      sent = {taken->name, taken->marked};
      free_at_ = now + time_of(taken->bytes);
    }
    return {sent, names_of_dropped()};
  }
  void hear_echo(std::uint32_t flow, Time now) { discipline_->hear_echo(flow, now); }
  Time ready_at() const { return discipline_->ready_at(); }
  std::vector<std::uint32_t> clear() {
    discipline_->clear(dropped_);
    return names_of_dropped();
  }
  std::uint64_t packets() const { return discipline_->packets(); }
  std::uint64_t bytes() const { return discipline_->bytes(); }

 private:
  std::vector<std::uint32_t> names_of_dropped() {
    std::vector<std::uint32_t> names;
    for (const QueuedPacket& packet : dropped_) names.push_back(packet.name);
    dropped_.clear();
    return names;
  }

  Time time_of(std::uint64_t bytes) const { return static_cast<Time>(static_cast<double>(bytes) * per_byte_ + 0.5); }
  // When the link will have sent all that waits, or when it finished if nothing waits.
  Time drained_at(Time now) const {
    return discipline_->packets() == 0 ? free_at_ : std::max(free_at_, now) + time_of(discipline_->bytes());
  }

  double per_byte_;
  Time free_at_ = 0;
  std::unique_ptr<QueueDiscipline> discipline_;
  std::vector<QueuedPacket> dropped_;
};

}  // namespace

void bind_queues(py::module_& module) {
  py::enum_<Verdict>(module, "Verdict")
      .value("accept", Verdict::accept)
      .value("mark", Verdict::mark)
      .value("drop", Verdict::drop);
  bind_rule<DropTail>(module, "DropTailRule")
      .def(py::init<std::uint64_t, std::uint64_t>(), py::arg("limit_packets"), py::arg("limit_bytes"));
  bind_rule<EcnThreshold>(module, "EcnThresholdRule")
      .def(py::init<std::uint64_t, std::uint64_t>(), py::arg("limit_packets"), py::arg("threshold_packets"));
  bind_rule<CoDel>(module, "CoDelRule")
      .def(py::init([](std::uint64_t limit_packets, Time target, Time interval, bool ecn, int reentry,
                       std::uint64_t least_bytes) {
             return CoDel(limit_packets, target, interval, ecn, static_cast<CoDel::Reentry>(reentry), least_bytes);
           }),
           py::arg("limit_packets"), py::arg("target"), py::arg("interval"), py::arg("ecn"), py::arg("reentry") = 0,
           py::arg("least_bytes") = full_packet_bytes);
  bind_rule<Red>(module, "RedRule")
      .def(py::init([](std::uint64_t limit_packets, double min_threshold, double max_threshold, double max_probability,
                       double weight, bool ecn, Time packet_time, std::uint64_t seed, bool by_bytes, bool gentle,
                       bool wait, double mean_bytes, Time adapt_every) {
             return Red({limit_packets, min_threshold, max_threshold, max_probability, weight, ecn, packet_time,
                         by_bytes, gentle, wait, mean_bytes, adapt_every},
                        seed, 0);
           }),
           py::arg("limit_packets"), py::arg("min_threshold"), py::arg("max_threshold"), py::arg("max_probability"),
           py::arg("weight"), py::arg("ecn"), py::arg("packet_time"), py::arg("seed"), py::kw_only(),
           py::arg("by_bytes") = false, py::arg("gentle") = false, py::arg("wait") = false,
           py::arg("mean_bytes") = double{full_packet_bytes}, py::arg("adapt_every") = 0)
      .def_property_readonly("max_probability", &Red::max_probability)
      .def_property_readonly("average", &Red::average);

  bind_rule<Pie>(module, "PieRule")
      .def(py::init(
               [](std::uint64_t limit_packets, Time target, Time update, Time burst, Time second, bool ecn,
                  std::uint64_t seed) { return Pie({limit_packets, target, update, burst, second, ecn}, seed, 0); }),
           py::arg("limit_packets"), py::arg("target"), py::arg("update"), py::arg("burst"), py::arg("second"),
           py::arg("ecn"), py::arg("seed"))
      .def_property_readonly("probability", &Pie::probability);
  bind_rule<PhantomQueue>(module, "PhantomQueueRule")
      .def(py::init<std::uint64_t, double, double, double>(), py::arg("limit_packets"), py::arg("drain_share"),
           py::arg("threshold_bytes"), py::arg("time_per_byte"))
      .def_property_readonly("level", &PhantomQueue::level);
  py::class_<KnownPool, std::shared_ptr<KnownPool>>(module, "KnownPool", "A switch's memory of which so much is used.")
      .def(py::init<>())
      .def_readwrite("used_bytes", &KnownPool::used);
  bind_rule<SharedBuffer>(module, "SharedBufferRule")
      .def(py::init([](std::shared_ptr<KnownPool> pool, std::uint64_t limit_bytes, double alpha,
                       std::uint64_t mark_packets) { return SharedBuffer(pool, limit_bytes, alpha, mark_packets); }),
           py::arg("pool"), py::arg("limit_bytes"), py::arg("alpha"), py::arg("mark_packets"));
  py::class_<NamedQueue>(module, "NamedQueue",
                         "Any queue as netrepro.networks.compiled.queue_rule writes it; times are picoseconds.")
      .def(py::init<const std::string&, const std::vector<double>&, double, std::uint64_t,
                    const std::optional<std::vector<std::uint64_t>>&>(),
           py::arg("rule"), py::arg("numbers"), py::kw_only(), py::arg("rate") = 1e9, py::arg("seed") = 1,
           py::arg("draws") = py::none())
      .def("join", &NamedQueue::join, py::arg("name"), py::arg("bytes"), py::arg("flow"), py::arg("ecn_capable"),
           py::arg("now"), py::arg("idle_since") = py::none(), py::arg("ect_1") = false,
           py::arg("marked_before") = false, "The names of the packets that are dropped.")
      .def("next", &NamedQueue::next, py::arg("now"),
           "((name, marked) of the packet that is sent or None, names of those dropped).")
      .def("hear_echo", &NamedQueue::hear_echo, py::arg("flow"), py::arg("now"))
      .def_property_readonly("ready_at", &NamedQueue::ready_at)
      .def("clear", &NamedQueue::clear, "The names of those that waited.")
      .def_property_readonly("packets", &NamedQueue::packets)
      .def_property_readonly("bytes", &NamedQueue::bytes);
  module.def(
      "flow_bucket",
      [](std::uint32_t flow, std::uint32_t buckets, std::uint64_t seed, std::uint64_t stream) {
        return FlowBuckets(buckets, seed, stream).of(flow);
      },
      py::arg("flow"), py::arg("buckets"), py::arg("seed") = 1, py::arg("stream") = 0,
      "Where the fair queues put a flow.");
}
