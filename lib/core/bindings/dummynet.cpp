#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/module.hpp"
#include "captures/capture_reader.hpp"
#include "dummynet/dummynet.hpp"
#include "dummynet/dummynet_timing.hpp"
#include "sockets/datagram_sender.hpp"

namespace py = pybind11;

namespace {

template <class Value>
using Column = py::array_t<Value, py::array::c_style | py::array::forcecast>;

// Passes packets through the engine. Returns what became of each, by its place in the given columns.
py::dict pass(Dummynet& engine, const Column<double>& time_s, const Column<std::uint32_t>& source,
              const Column<std::uint32_t>& destination, const Column<std::uint16_t>& source_port,
              const Column<std::uint16_t>& destination_port, const Column<std::uint8_t>& protocol,
              const Column<std::uint32_t>& size_bytes, const Column<bool>& ecn_capable) {
  const py::ssize_t packets = time_s.size();
  py::array_t<std::uint8_t> fate(packets);
  py::array_t<bool> marked(packets);
  py::array_t<std::int64_t> rule(packets);
  py::array_t<double> departure_s(packets);
  std::uint8_t* fates = fate.mutable_data();
  bool* marks = marked.mutable_data();
  std::int64_t* rules = rule.mutable_data();
  double* departures = departure_s.mutable_data();
  const auto sink = [&](std::uint32_t name, Dummynet::Fate end, bool mark, Time time) {
    const bool leaves = end == Dummynet::Fate::delivered || end == Dummynet::Fate::allowed;
    fates[name] = static_cast<std::uint8_t>(end);
    marks[name] = mark;
    departures[name] = leaves ? to_seconds(time) : std::numeric_limits<double>::quiet_NaN();
  };
  {
    const py::gil_scoped_release released;
    for (py::ssize_t i = 0; i < packets; ++i) {
      const DummynetHeader header{source.data()[i],           destination.data()[i], source_port.data()[i],
                                  destination_port.data()[i], protocol.data()[i],    ecn_capable.data()[i],
                                  size_bytes.data()[i]};
      const std::uint32_t place =
          engine.offer(static_cast<std::uint32_t>(i), header, from_seconds(time_s.data()[i]), sink);
      rules[i] = place == Dummynet::none ? -1 : static_cast<std::int64_t>(place);
    }
    engine.advance(never, sink);
  }
  py::dict out;
  out["fate"] = fate;
  out["marked"] = marked;
  out["rule"] = rule;
  out["departure_s"] = departure_s;
  return out;
}

// The headers of a capture's IPv4 packets, in columns.
class HeaderReader : public PacketSink {
 public:
  void feed(const py::bytes& chunk) {
    const auto view = static_cast<std::string_view>(chunk);
    reader_.feed(reinterpret_cast<const std::uint8_t*>(view.data()), view.size());
  }
  void finish() { reader_.finish(); }
  void on_packet(const CapturedPacket& captured) override {
    ++records_;
    DecodedPacket packet;
    if (!captured.has_time || !decoder_.decode(captured, packet) || packet.key.ip_version != 4) return;
    const DummynetHeader header = DummynetHeader::of(packet);
    time_us_.push_back(captured.time_us);
    addresses_.push_back(header.source);
    addresses_.push_back(header.destination);
    ports_.push_back(header.source_port);
    ports_.push_back(header.destination_port);
    protocol_.push_back(header.protocol);
    size_bytes_.push_back(header.bytes);
  }
  py::dict columns() const {
    const std::size_t rows = time_us_.size();
    py::dict out;
    out["records"] = records_;
    out["time_us"] = py::array_t<std::int64_t>(rows, time_us_.data());
    out["addresses"] = py::array_t<std::uint32_t>({rows, std::size_t{2}}, addresses_.data());
    out["ports"] = py::array_t<std::uint16_t>({rows, std::size_t{2}}, ports_.data());
    out["protocol"] = py::array_t<std::uint8_t>(rows, protocol_.data());
    out["size_bytes"] = py::array_t<std::uint32_t>(rows, size_bytes_.data());
    return out;
  }

 private:
  CaptureCounts counts_{};
  CaptureReader reader_{*this, counts_};
  PacketDecoder decoder_{counts_};
  std::uint64_t records_ = 0;
  std::vector<std::int64_t> time_us_;
  std::vector<std::uint32_t> addresses_, size_bytes_;
  std::vector<std::uint16_t> ports_;
  std::vector<std::uint8_t> protocol_;
};

}  // namespace

void bind_dummynet(py::module_& module) {
  module.attr("dummynet_fates") = std::vector<std::string>{"delivered", "dropped", "lost", "allowed", "denied"};
  using Prefix = std::tuple<std::uint32_t, std::uint32_t>;
  using Ports = std::tuple<std::uint16_t, std::uint16_t>;
  py::class_<Dummynet>(module, "Dummynet", "Rules and pipes on a virtual clock; each instance runs once.")
      .def(py::init([](std::uint64_t seed, double tick_s) { return Dummynet(seed, from_seconds(tick_s)); }),
           py::kw_only(), py::arg("seed"), py::arg("tick_s"))
      .def(
          "add_pipe",
          [](Dummynet& engine, double rate, double delay_s, double loss, double reorder, const std::string& rule,
             const std::vector<double>& numbers, std::uint64_t seed) {
            const QueuePlace place{rate, seed, 0, {}};
            return engine.add_pipe(
                {rate, from_seconds(delay_s), loss, reorder, queue_rule_named(rule, numbers, place)});
          },
          py::kw_only(), py::arg("rate"), py::arg("delay_s"), py::arg("loss"), py::arg("reorder"), py::arg("rule"),
          py::arg("numbers"), py::arg("seed"),
          "Rate in bit/s, 0 for none; seed: of the queue's rule. Returns the pipe's place.")
      .def(
          "add_rule",
          [](Dummynet& engine, const std::string& action, std::uint32_t pipe, double probability, int protocol,
             Prefix source, Ports source_ports, Prefix destination, Ports destination_ports) {
            using Action = DummynetRule::Action;
            const Action decided = action == "allow"  ? Action::allow
                                   : action == "deny" ? Action::deny
                                   : action == "pipe" ? Action::pipe
                                                      : Action::count;
            engine.add_rule({{protocol,
                              {std::get<0>(source), std::get<1>(source)},
                              {std::get<0>(destination), std::get<1>(destination)},
                              {std::get<0>(source_ports), std::get<1>(source_ports)},
                              {std::get<0>(destination_ports), std::get<1>(destination_ports)}},
                             decided,
                             pipe,
                             probability});
          },
          py::kw_only(), py::arg("action"), py::arg("pipe"), py::arg("probability"), py::arg("protocol"),
          py::arg("source"), py::arg("source_ports"), py::arg("destination"), py::arg("destination_ports"),
          "Prefixes are (address, mask), ports (first, last), protocol -1 for any.")
      .def("run", &pass)
      .def("counters", [](const Dummynet& engine) {
        std::vector<std::tuple<std::uint64_t, std::uint64_t>> counted;
        for (const Dummynet::Counter& counter : engine.counters()) counted.emplace_back(counter.packets, counter.bytes);
        return counted;
      });

  py::class_<DummynetTiming>(module, "DummynetTiming", "Drives a copy of an engine with smallest UDP datagrams.")
      .def(py::init([](const Dummynet& engine, bool drop_at_entry, double spacing_s) {
             return DummynetTiming(engine, drop_at_entry, from_seconds(spacing_s));
           }),
           py::arg("engine"), py::kw_only(), py::arg("drop_at_entry"), py::arg("spacing_s"))
      .def(
          "run",
          [](DummynetTiming& timing, std::uint64_t batches, std::uint64_t packets) {
            std::vector<DummynetTiming::Batch> timed;
            {
              const py::gil_scoped_release released;
              timed = timing.run(batches, packets);
            }
            py::array_t<std::int64_t> out({timed.size(), std::size_t{2}});
            std::int64_t* place = out.mutable_data();
            for (const DummynetTiming::Batch& batch : timed) *place++ = batch.arrivals_ns, *place++ = batch.timer_ns;
            return out;
          },
          py::arg("batches"), py::arg("packets"), "Rows of (arrivals_ns, timer_ns), one a batch.")
      .def("out_of_order", &DummynetTiming::out_of_order)
      .def("account", [](const DummynetTiming& timing) {
        using Fate = Dummynet::Fate;
        py::dict out;
        out["offered"] = timing.offered();
        out["dropped at entry"] = timing.dropped_at_entry();
        out["delivered"] = timing.ended(Fate::delivered);
        out["dropped"] = timing.ended(Fate::dropped);
        out["lost"] = timing.ended(Fate::lost);
        out["allowed"] = timing.ended(Fate::allowed);
        out["denied"] = timing.ended(Fate::denied);
        out["in flight"] = timing.in_flight();
        return out;
      });
  module.attr("dummynet_datagram_bytes") = std::uint32_t{DummynetTiming::datagram_bytes};

  py::class_<HeaderReader>(module, "HeaderReader", "The headers of a capture's IPv4 packets.")
      .def(py::init<>())
      .def("feed", &HeaderReader::feed)
      .def("finish", &HeaderReader::finish)
      .def("columns", &HeaderReader::columns);

  module.def(
      "send_datagrams",
      [](int socket, std::uint64_t batches, unsigned packets, unsigned payload_bytes) {
        const py::gil_scoped_release released;
        return send_datagrams(socket, batches, packets, payload_bytes);
      },
      py::arg("socket"), py::arg("batches"), py::arg("packets"), py::arg("payload_bytes"),
      "Sends over a connected UDP socket; rows of (wall_ns, processor_ns, sent), one a batch.");
}
