#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/module.hpp"
#include "bindings/python_control.hpp"
#include "bindings/python_queue.hpp"
#include "congestion/coupled.hpp"
#include "multipath/rescue.hpp"
#include "multipath/subflow_schedulers.hpp"
#include "parallel/parallel_run.hpp"
#include "simulation/columns.hpp"
#include "simulation/set_up.hpp"
#include "simulation/simulator.hpp"
#include "tcp/accurate_ecn.hpp"

namespace py = pybind11;

namespace {

template <class Items, class Field>
py::array_t<double> column(const Items& items, Field&& field) {
  py::array_t<double> values(static_cast<py::ssize_t>(items.size()));
  double* place = values.mutable_data();
  for (const auto& item : items) *place++ = static_cast<double>(field(item));
  return values;
}

// Keeps the columns of a table in a dict.
auto keep_in(py::dict& columns) {
  return [&columns](const char* name, const auto& items, auto&& value) { columns[name] = column(items, value); };
}

template <class Item>
using Items = py::array_t<Item, py::array::c_style | py::array::forcecast>;

void add_flows(Simulator& simulator, const Items<bool>& is_tcp, const Items<std::uint32_t>& source,
               const Items<std::uint32_t>& destination, const Items<double>& start_s,
               const Items<std::uint64_t>& size_bytes, const Items<double>& duration_s,
               const Items<std::uint8_t>& control, const std::vector<std::string>& controls,
               const Items<std::uint32_t>& tcp, const std::vector<std::shared_ptr<TcpSettings>>& tcps,
               const Items<std::uint8_t>& replication, const Items<bool>& same_path,
               const Items<std::uint32_t>& subflows, const Items<double>& rate,
               const Items<std::uint32_t>& packet_bytes, const Items<bool>& poisson) {
  const py::ssize_t flows = is_tcp.size();
  for (const py::array& column :
       std::initializer_list<py::array>{source, destination, start_s, size_bytes, duration_s, control, tcp, replication,
                                        same_path, subflows, rate, packet_bytes, poisson})
    if (column.ndim() != 1 || column.size() != flows) throw std::invalid_argument("flows: arrays of different lengths");
  std::vector<MakeControl> makers;
  for (const std::string& name : controls) makers.push_back(control_named(name));
  for (py::ssize_t i = 0; i < flows; ++i)
    set_up::add_flow(simulator, {is_tcp.at(i), source.at(i), destination.at(i), start_s.at(i), duration_s.at(i),
                                 size_bytes.at(i), makers.at(control.at(i)), tcps.at(tcp.at(i)), replication.at(i),
                                 same_path.at(i), subflows.at(i), rate.at(i), packet_bytes.at(i), poisson.at(i)});
}

py::dict flow_columns(const std::vector<Endpoints::FlowResult>& results) {
  py::dict kept;
  columns::of_flows(results, keep_in(kept));
  return kept;
}

py::dict link_columns(const std::vector<SimulatedLink::Counts>& counts) {
  py::dict kept;
  columns::of_links(counts, keep_in(kept));
  return kept;
}

// Makes a call that has the simulator to itself.
template <class Result, class... Arguments>
auto alone(Result (*call)(Simulator&, Arguments...)) {
  return [call](Simulator& simulator, Arguments... arguments) -> Result {
    const Simulator::Turn turn(simulator);
    return call(simulator, std::forward<Arguments>(arguments)...);
  };
}
template <class Result, class... Arguments>
auto alone(Result (Simulator::*call)(Arguments...)) {
  return [call](Simulator& simulator, Arguments... arguments) -> Result {
    const Simulator::Turn turn(simulator);
    return (simulator.*call)(std::forward<Arguments>(arguments)...);
  };
}

// Reads what Python gives a window, which may be no number.
double segments_in(const py::object& given, const std::string& what) {
  const std::optional<double> segments = as_number(given);
  if (!segments)
    throw Refusal("window." + what + " = " + std::string(py::str(py::repr(given))),
                  "give a number of segments, 0 or more");
  return *segments;
}

py::cpp_function number_of_segments(double CongestionWindow::* field, const char* name) {
  return py::cpp_function(
      [field, name](CongestionWindow& window, const py::object& given) { window.*field = segments_in(given, name); });
}

// Makes a property of each setting of TCP.
struct TcpProperties {
  py::class_<TcpSettings, std::shared_ptr<TcpSettings>>& bound;

  template <class Value>
  void value(const char* name, Value TcpSettings::* field) {
    bound.def_readwrite(name, field);
  }
  void time(const char* name, Time TcpSettings::* field) {
    bound.def_property(
        name, [field](const TcpSettings& tcp) { return to_seconds(tcp.*field); },
        [field](TcpSettings& tcp, double seconds) { tcp.*field = from_seconds(seconds); });
  }
  template <class Value>
  void choice(const char* name, Value TcpSettings::* field, const std::vector<std::string>& names) {
    bound.def_property(name, nullptr, py::cpp_function([field, names](TcpSettings& tcp, const std::string& chosen) {
                         set_up::choose(tcp, field, names, chosen);
                       }));
  }
  void scheduler(const char* name) {
    bound.def_property(name, nullptr, py::cpp_function([](TcpSettings& tcp, const std::string& chosen) {
                         tcp.scheduler = scheduler_named(chosen);
                       }));
  }
};

// A congestion control alone. Its user tells it what a sender would tell it.
class ControlStand {
 public:
  ControlStand(const std::string& name, std::shared_ptr<TcpSettings> tcp)
      : tcp_(std::move(tcp)), control_(control_named(name)({*tcp_, nullptr, 0, 0})) {}

  void connect(bool accurate_ecn, double round_trip_s, double now_s) {
    control_->on_ecn_agreed(accurate_ecn);
    control_->on_connected(window, from_seconds(round_trip_s), from_seconds(now_s));
  }
  void deliver(double now_s, double segments, double marked_segments, double round_trip_s, std::uint64_t first,
               std::uint64_t next, bool recovers, bool reduces, double in_flight, bool window_limited) {
    const Delivery delivery{.now = from_seconds(now_s),
                            .segments = segments,
                            .marked = marked_segments > 0,
                            .window_limited = window_limited,
                            .round_trip = from_seconds(round_trip_s),
                            .first = first,
                            .next = next,
                            .in_flight = in_flight,
                            .bytes_per_second = 0,
                            .marked_segments = marked_segments};
    control_->on_delivery(window, delivery);
    if (reduces)
      window.ssthresh = recovers ? control_->ssthresh_after_loss(window) : control_->ssthresh_after_mark(window);
    RateSample sample{delivery.now};
    sample.in_flight = in_flight;
    if (recovers) sample.state = RateSample::State::recovery;
    control_->on_rate_sample(window, sample);
  }
  double pacing_rate() const { return control_->pacing_rate(); }
  const char* phase() const { return control_->phase(); }

  // For controls that own the window, event by event; times are in picoseconds.
  void hear(Time now, double segments, double marked_segments) {
    Delivery delivery{};
    delivery.now = now;
    delivery.segments = segments;
    delivery.marked_segments = marked_segments;
    control_->on_delivery(window, delivery);
  }
  void lose(Time now, std::uint64_t segment, double in_flight_at_departure, double lost_since, double total_delivered,
            bool application_limited) {
    control_->on_lost(window, {now, segment, in_flight_at_departure, lost_since, total_delivered, application_limited});
  }
  // True where what is sent now does not measure the path.
  bool measure(Time now, const std::map<std::string, double>& told, const std::string& state) {
    RateSample sample{now};
    const auto number = [&](const char* name) { return told.at(name); };
    sample.interval = static_cast<Time>(number("interval"));
    sample.delivered = number("delivered");
    sample.prior_delivered = number("prior_delivered");
    sample.total_delivered = number("total_delivered");
    sample.application_limited = number("application_limited") != 0;
    sample.newly_delivered = number("newly_delivered");
    sample.in_flight = number("in_flight");
    sample.in_flight_before = number("in_flight_before");
    sample.in_flight_at_departure = number("in_flight_at_departure");
    sample.lost = number("lost");
    sample.marked = number("marked");
    sample.window_limited = number("window_limited") != 0;
    sample.round_trip = static_cast<Time>(number("round_trip"));
    sample.state = state == "recovery" ? RateSample::State::recovery
                   : state == "loss"   ? RateSample::State::loss
                                       : RateSample::State::open;
    control_->on_rate_sample(window, sample);
    return control_->wants_application_limited_mark();
  }
  void repair_tail(Time now, double total_delivered, bool application_limited) {
    control_->on_tail_repaired(window, total_delivered, application_limited, now);
  }
  void begin_recovery() { window.ssthresh = control_->ssthresh_after_loss(window); }
  void time_out(double in_flight) {
    begin_recovery();
    control_->on_timeout();
    window.segments = in_flight + 1;
  }
  void end_timeout() { control_->on_all_lost({}); }
  void undo() { control_->on_undo(); }
  void restart(Time now) {
    control_->on_restart(0, now);
    control_->on_sent(window, 0, now);
  }

  CongestionWindow window{10, 1e18};

 private:
  std::shared_ptr<TcpSettings> tcp_;
  std::unique_ptr<CongestionControl> control_;
};

}  // namespace

void bind_simulation(py::module_& module) {
  py::class_<WaitingPacket>(module, "WaitingPacket", "A packet in a queue of one's own (OwnQueueDiscipline).")
      .def_property_readonly("bytes", [](const WaitingPacket& waiting) { return waiting.packet.bytes; })
      .def_property_readonly("flow", [](const WaitingPacket& waiting) { return waiting.packet.flow; })
      .def_property_readonly("ecn_capable", [](const WaitingPacket& waiting) { return waiting.packet.ecn_capable; })
      .def_property_readonly("ect_1", [](const WaitingPacket& waiting) { return waiting.packet.ect_1; })
      .def_property_readonly("arrived_s",
                             [](const WaitingPacket& waiting) { return to_seconds(waiting.packet.arrived); })
      .def_property_readonly(
          "marked", [](const WaitingPacket& waiting) { return waiting.packet.marked || waiting.packet.marked_before; })
      .def("mark", &WaitingPacket::mark, "Set Congestion Experienced. Raises NetreproError where its flow has no ECN.")
      .def("drop", &WaitingPacket::drop, "Drop it. Raises NetreproError where it has gone already.");
  py::class_<CongestionWindow>(module, "CongestionWindow", "In segments, which need not be whole.")
      .def_property(
          "segments", [](const CongestionWindow& window) { return window.segments; },
          number_of_segments(&CongestionWindow::segments, "segments"))
      .def_property(
          "threshold", [](const CongestionWindow& window) { return window.ssthresh; },
          number_of_segments(&CongestionWindow::ssthresh, "threshold"), "Where slow start ends.")
      .def_property_readonly("in_slow_start", &CongestionWindow::in_slow_start)
      .def(
          "slow_start",
          [](CongestionWindow& window, const py::object& acknowledged) {
            return window.slow_start(segments_in(acknowledged, "slow_start: acknowledged"));
          },
          py::arg("acknowledged"), "Grows by as many segments, up to the threshold; returns how many are left over.")
      .def(
          "avoid_congestion",
          [](CongestionWindow& window, const py::object& acknowledged, const py::object& per_segment) {
            window.avoid_congestion(segments_in(acknowledged, "avoid_congestion: acknowledged"),
                                    segments_in(per_segment, "avoid_congestion: per_segment"));
          },
          py::arg("acknowledged"), py::arg("per_segment"),
          "Grows by a whole segment each time that so many have been acknowledged.");
  py::class_<Delivery>(module, "Delivery", "What an acknowledgement tells.")
      .def_property_readonly("now_s", [](const Delivery& delivery) { return to_seconds(delivery.now); })
      .def_readonly("segments", &Delivery::segments, "Newly acknowledged, selectively or not.")
      .def_readonly("marked", &Delivery::marked, "With the echo of an ECN mark.")
      .def_readonly("marked_segments", &Delivery::marked_segments,
                    "As many as AccECN tells of; else all that are acknowledged with the echo.")
      .def_readonly("window_limited", &Delivery::window_limited, "The window, and nothing else, held the sender back.")
      .def_property_readonly(
          "round_trip_s", [](const Delivery& delivery) { return to_seconds(delivery.round_trip); },
          "The newest sample, 0 without one.")
      .def_readonly("first", &Delivery::first, "Number of the oldest segment not acknowledged.")
      .def_readonly("next", &Delivery::next, "Number of the next segment to be sent.");

  using LinkSettings = Fabric::LinkSettings;
  py::class_<LinkSettings>(module, "LinkSettings",
                           "Rate in bit/s; room: packets of its own that a host lets wait; policer: bytes per second, "
                           "burst in ns, and most bytes of a packet (0: any), or None.")
      .def(py::init(&set_up::link_settings), py::kw_only(), py::arg("source"), py::arg("destination"), py::arg("rate"),
           py::arg("delay_s"), py::arg("jitter_s"), py::arg("loss"), py::arg("room"), py::arg("reordering"),
           py::arg("held_back_s"), py::arg("burst_bytes"), py::arg("host_delay_s"), py::arg("policer") = std::nullopt);

  module.def("congestion_controls", &control_names, "Names, as add_flows takes them.");
  module.def("subflow_schedulers", &scheduler_names, "Names, as TcpSettings take them.");
  module.def(
      "rescues",
      [](Time now, Time penalised_until, Time own_round_trip, Time other_round_trip, double other_window,
         bool other_is_open, bool buffer_is_full, bool is_carried) {
        const Blocked blocked{now,          penalised_until, own_round_trip, other_round_trip,
                              other_window, other_is_open,   buffer_is_full, is_carried};
        return std::pair(blocked.penalises(), blocked.repeats());
      },
      "Whether a subflow penalises another, and whether it repeats the oldest segment (multipath/rescue.hpp).");

  using Subflows = std::vector<std::array<double, 4>>;
  const auto one_of = [](const std::string& control, const Subflows& subflows, std::uint32_t place) {
    static const TcpSettings tcp{};
    const auto coupling = std::make_shared<Coupling>();
    for (const auto& [window, round_trip_s, since_loss, between_losses] : subflows)
      coupling->subflows.push_back({window, round_trip_s, since_loss, between_losses});
    return std::pair(control_named(control)({tcp, coupling, place, 0}),
                     CongestionWindow{coupling->subflows.at(place).window, 0});
  };
  module.def(
      "coupled_growth",
      [one_of](const std::string& control, const Subflows& subflows, std::uint32_t place) {
        auto [own, window] = one_of(control, subflows, place);
        own->grow(window, {0, 1, false, true, 0, 0, 0, 0, 0});
        return window.segments - subflows[place][0];
      },
      py::arg("control"), py::arg("subflows"), py::arg("place"),
      "Segments by which a subflow's window grows for one that is acknowledged. Subflows: window, round trip in s, "
      "segments since the last loss and between the last two.");
  module.def(
      "coupled_threshold",
      [one_of](const std::string& control, const Subflows& subflows, std::uint32_t place) {
        auto [own, window] = one_of(control, subflows, place);
        return own->ssthresh_after_loss(window);
      },
      py::arg("control"), py::arg("subflows"), py::arg("place"),
      "Segments that a loss leaves a subflow; subflows as coupled_growth takes them.");

  // The caller has to name all fields.
  py::class_<TcpSettings, std::shared_ptr<TcpSettings>> tcp_settings(
      module, "TcpSettings", "How a flow speaks TCP, as netrepro.networks.compiled.tcp_settings writes it.");
  tcp_settings.def(py::init([](const py::kwargs& values) {
    auto settings = std::make_shared<TcpSettings>();
    const py::object self = py::cast(settings);
    for (const auto& [name, value] : values) py::setattr(self, name, value);
    return settings;
  }));
  set_up::each_tcp_setting(TcpProperties{tcp_settings});

  py::class_<ControlStand>(module, "ControlStand", "A congestion control alone, told by hand what a sender tells it.")
      .def(py::init<const std::string&, std::shared_ptr<TcpSettings>>(), py::arg("name"), py::arg("tcp"))
      .def("connect", &ControlStand::connect, py::arg("accurate_ecn"), py::arg("round_trip_s"), py::arg("now_s"))
      .def("deliver", &ControlStand::deliver, py::kw_only(), py::arg("now_s"), py::arg("segments"),
           py::arg("marked_segments"), py::arg("round_trip_s"), py::arg("first"), py::arg("next"), py::arg("recovers"),
           py::arg("reduces"), py::arg("in_flight"), py::arg("window_limited"),
           "An acknowledgement, after which a recovery is under way or not. reduces: with it a reduction begins, for a "
           "loss in recovery, else for a mark.")
      .def("hear", &ControlStand::hear, py::kw_only(), py::arg("now"), py::arg("segments"), py::arg("marked_segments"),
           "Of controls that own their window, first of an acknowledgement. Times here and below are picoseconds.")
      .def("lose", &ControlStand::lose, py::kw_only(), py::arg("now"), py::arg("segment"),
           py::arg("in_flight_at_departure"), py::arg("lost_since"), py::arg("total_delivered"),
           py::arg("application_limited"), "A segment is taken for lost.")
      .def("measure", &ControlStand::measure, py::kw_only(), py::arg("now"), py::arg("told"), py::arg("state"),
           "The rate sample, last of an acknowledgement: RateSample's fields by name. Returns whether what is sent now "
           "is no measure.")
      .def("repair_tail", &ControlStand::repair_tail, py::kw_only(), py::arg("now"), py::arg("total_delivered"),
           py::arg("application_limited"), "A tail loss probe has repaired a loss.")
      .def("begin_recovery", &ControlStand::begin_recovery)
      .def("time_out", &ControlStand::time_out, py::arg("in_flight"), "Before the losses are told.")
      .def("end_timeout", &ControlStand::end_timeout, "After the losses are told.")
      .def("undo", &ControlStand::undo)
      .def("restart", &ControlStand::restart, py::arg("now"), "The first segment leaves after an idle time.")
      .def_property_readonly("phase", &ControlStand::phase)
      .def_readonly("window", &ControlStand::window)
      .def_property_readonly("pacing_rate", &ControlStand::pacing_rate, "Bytes a second.");
  module.def(
      "accurate_ecn_fields",
      [](const std::vector<bool>& marked, const std::vector<bool>& acknowledged) {
        accurate_ecn::MarkCounter counter;
        std::vector<std::pair<std::uint8_t, bool>> told;
        std::uint8_t field = 0;
        for (std::size_t i = 0; i < marked.size(); ++i) {
          const bool at_once = counter.count(marked[i]);
          if (at_once || acknowledged.at(i)) field = counter.tell();
          told.emplace_back(field, at_once);
        }
        return told;
      },
      py::arg("marked"), py::arg("acknowledged"),
      "What a receiver of AccECN tells, by data packet: the field of its last acknowledgement, and whether marks call "
      "for one at once. acknowledged: where there is one for other reasons.");
  module.def(
      "accurate_ecn_marks",
      [](const std::vector<std::pair<std::uint8_t, std::uint64_t>>& heard) {
        accurate_ecn::MarkReader reader;
        std::vector<std::uint64_t> marks;
        for (const auto& [field, delivered] : heard) marks.push_back(reader.read(field, delivered));
        return marks;
      },
      py::arg("heard"), "The marks that a sender reads in fields of AccECN with so many newly delivered packets each.");

  py::class_<Simulator>(module, "Simulator", "A network in virtual time. Nodes are numbers; times are seconds.")
      .def(py::init([](std::size_t nodes, std::uint64_t seed, double duration_s, double clock_skew,
                       std::uint32_t segment_bytes, std::uint32_t header_bytes) {
             return new Simulator({seed, from_seconds(duration_s), clock_skew, segment_bytes, header_bytes}, nodes);
           }),
           py::kw_only(), py::arg("nodes"), py::arg("seed"), py::arg("duration_s"), py::arg("clock_skew"),
           py::arg("segment_bytes"), py::arg("header_bytes") = Packet::header_bytes)
      .def("add_link", alone(&Simulator::add_link), py::arg("settings"), py::arg("rule"), py::arg("numbers"),
           "A link with a queue, as netrepro.networks.compiled.queue_rule writes it.")
      .def("spray", alone(&Simulator::spray), "A path for every packet.")
      .def("use_links", alone(+[](Simulator& simulator, double from_s, std::vector<bool> in_use) {
             simulator.use_links(from_seconds(from_s), std::move(in_use));
           }),
           "From then on routes lead over these links, one flag each.")
      .def("set_paths", alone(&Simulator::set_paths),
           "One of these paths, each of which is links, for every flow of a pair.")
      .def("give_path", alone(&Simulator::give_path), "The links that a flow takes, there and back.")
      .def("offer_rates",
           alone(+[](Simulator& simulator, double alpha, double beta, double update_s, double first_share) {
             simulator.offer_rates({alpha, beta, from_seconds(update_s), first_share});
           }),
           "All links tell flows with RCP their rates.")
      .def("give_feedback", alone(+[](Simulator& simulator, double alpha, double beta, double gamma) {
             simulator.give_feedback({alpha, beta, gamma});
           }),
           "All links tell flows with XCP what becomes of their windows.")
      .def("change_link", alone(&set_up::change_link), py::arg("at_s"), py::arg("link"), py::arg("rate"), py::arg("up"),
           py::arg("delay_s") = std::nullopt, py::arg("loss") = std::nullopt,
           "A rate of 0 and None leave what there was.")
      .def("add_flows", alone(&add_flows), py::kw_only(), py::arg("is_tcp"), py::arg("source"), py::arg("destination"),
           py::arg("start_s"), py::arg("size_bytes"), py::arg("duration_s"), py::arg("control"), py::arg("controls"),
           py::arg("tcp"), py::arg("tcps"), py::arg("replication"), py::arg("same_path"), py::arg("subflows"),
           py::arg("rate"), py::arg("packet_bytes"), py::arg("poisson"),
           "Flows in order of their numbers, one element of every array each. Of TCP: size_bytes, or duration_s when "
           "that is 0; control is a place in controls, tcp in tcps; replication 0 is none, 1 RepFlow, 2 RepSYN; more "
           "subflows than "
           "one spread it. Of datagrams: rate in bit/s, packet_bytes.")
      .def("start_after", alone(&Simulator::start_after), "A flow of TCP starts when another one is complete.")
      .def("give_control", alone(+[](Simulator& simulator, std::uint32_t flow, py::object make) {
             // The simulator holds `make`, and is destroyed under the lock.
             simulator.give_control(flow, [make = std::move(make)]() -> std::unique_ptr<CongestionControl> {
               const py::gil_scoped_acquire lock;
               return std::make_unique<PythonControl>(make());
             });
           }),
           "The flow's congestion control is what make() returns.")
      .def("give_queue", alone(+[](Simulator& simulator, std::uint32_t link, py::object queue) {
             simulator.use_queue(link, std::make_unique<PythonQueue>(std::move(queue)));
           }),
           "The link's queue is this object, in place of the one that it was added with.")
      .def("request",
           alone(+[](Simulator& simulator, std::uint32_t first_answer, std::uint32_t servers,
                     std::uint64_t request_bytes, std::uint64_t response_bytes, std::uint64_t count, bool barrier,
                     double think_s, double answer_within_s, std::uint64_t first_bytes, double rest_after_s) {
             simulator.request(first_answer, servers,
                               {request_bytes, response_bytes, count, barrier, from_seconds(think_s),
                                from_seconds(answer_within_s), first_bytes, from_seconds(rest_after_s)});
           }),
           "Makes so many flows of TCP, from first_answer on, the answers to requests.")
      .def("sample_queues", alone(+[](Simulator& simulator, std::vector<std::uint32_t> links, double interval_s) {
             simulator.sample_queues(std::move(links), from_seconds(interval_s));
           }))
      .def("sample_windows",
           alone(+[](Simulator& simulator, double interval_s) { simulator.sample_windows(from_seconds(interval_s)); }))
      .def("record_departures", alone(&Simulator::record_departures), py::arg("link"), py::arg("most"),
           "Every packet that leaves the link; a run with more than so many ends with an error.")
      .def("record_deliveries", alone(&Simulator::record_deliveries), py::arg("flow"),
           "Every time that the flow's receiver has more bytes in order.")
      .def("count_since",
           alone(+[](Simulator& simulator, double time_s) { simulator.count_since(from_seconds(time_s)); }),
           "What counted_before is of.")
      .def("reserve_connections",
           alone(+[](Simulator& simulator, std::uint32_t count, const std::string& control,
                     std::shared_ptr<TcpSettings> tcp) {
             simulator.reserve_connections(count, control_named(control), tcp);
           }),
           "After all flows: so many connections for programs at the hosts, who let time pass by advance_to_news.")
      .def("connect", alone(&Simulator::connect), "From a client's node to a server's; the number of the connection.")
      .def("write", alone(&Simulator::write),
           "A message of so many bytes over a connection, to its client or to its server.")
      .def("hang_up", alone(&Simulator::hang_up), "Nothing more is sent over a connection.")
      .def("post", alone(&Simulator::post),
           "A datagram from node to node, of so many bytes on the wire and a flow; its number.")
      .def("advance_to_news", alone(+[](Simulator& simulator, double until_s) {
             static constexpr const char* kinds[] = {"connected", "message to server", "message to client", "datagram"};
             const Time until = std::min(from_seconds(until_s), simulator.end());
             py::gil_scoped_release released;
             const std::vector<News>& news = simulator.advance_to_news(until);
             py::gil_scoped_acquire held;
             py::list told;
             for (const News& item : news)
               told.append(py::make_tuple(to_seconds(item.time), kinds[static_cast<int>(item.kind)], item.number));
             return told;
           }),
           "Goes on until there are news, (time_s, kind, number) each, or to that time.")
      .def("run", alone(&Simulator::run), py::call_guard<py::gil_scoped_release>(), py::arg("events"),
           "Goes on for so many events at most; True when the end is reached.")
      .def_property_readonly("now_s", [](const Simulator& simulator) { return to_seconds(simulator.now()); })
      .def_property_readonly("events", &Simulator::events)
      .def_property_readonly("packet_hops", &Simulator::packet_hops)
      .def_property_readonly("account", alone(+[](Simulator& simulator) {
                               const Fabric::Account account = simulator.account();
                               py::dict entries;
                               entries["created"] = account.created;
                               entries["delivered"] = account.delivered;
                               entries["dropped"] = account.dropped;
                               entries["lost"] = account.lost;
                               entries["inside"] = account.inside;
                               return entries;
                             }))
      .def("flows", alone(+[](Simulator& simulator) { return flow_columns(simulator.flow_results()); }))
      .def("links", alone(+[](Simulator& simulator) { return link_columns(simulator.link_counts()); }))
      .def("counted_before", alone(+[](Simulator& simulator) {
             const Simulator::Counts counts = simulator.counted_before();
             return py::make_tuple(flow_columns(counts.flows), link_columns(counts.links));
           }),
           "The columns of flows and links at the time from which they count, or now if that is yet to come.")
      .def("deliveries", alone(+[](Simulator& simulator) {
             py::dict kept;
             columns::of_deliveries(simulator, keep_in(kept));
             return kept;
           }))
      .def("requests", alone(+[](Simulator& simulator) {
             py::dict kept;
             columns::of_requests(simulator, keep_in(kept));
             return kept;
           }))
      .def("queue_samples", alone(+[](Simulator& simulator) {
             py::dict kept;
             columns::of_queue_samples(simulator, keep_in(kept));
             return kept;
           }))
      .def("window_samples", alone(+[](Simulator& simulator) {
             py::dict kept;
             columns::of_window_samples(simulator, keep_in(kept));
             return kept;
           }))
      .def("departures", alone(+[](Simulator& simulator, std::uint32_t link) {
             py::dict kept;
             columns::of_departures(simulator, link, keep_in(kept));
             return kept;
           }),
           "The packets that have left a link whose departures are recorded.");

  py::class_<ParallelRun>(module, "ParallelRun",
                          "One simulation by several threads: equal simulators that have not run, each of which "
                          "becomes a part, and the part of each node.")
      .def(py::init<std::vector<Simulator*>, const std::vector<std::uint32_t>&>(), py::keep_alive<1, 2>(),
           py::arg("simulators"), py::arg("part_of_node"))
      .def("run", &ParallelRun::run, py::call_guard<py::gil_scoped_release>(), py::arg("events"),
           "Goes on for about so many events; True when the end is reached.")
      .def_property_readonly("now_s", [](const ParallelRun& parallel) { return to_seconds(parallel.now()); })
      .def_property_readonly("events", &ParallelRun::events)
      .def("flows", [](const ParallelRun& parallel) { return flow_columns(parallel.flow_results()); });
}
