#include "web/described_run.hpp"

#include <optional>
#include <stdexcept>
#include <type_traits>

#include "congestion/congestion_controls.hpp"
#include "simulation/columns.hpp"
#include "simulation/set_up.hpp"

namespace {

constexpr std::uint64_t version = 1;

template <class Value>
std::vector<Value> listed(const Json& list, Value (Json::*read)() const) {
  std::vector<Value> values;
  for (const Json& item : list.items()) values.push_back((item.*read)());
  return values;
}
std::vector<std::uint32_t> places(const Json& list) { return listed(list, &Json::small); }

template <class Value>
std::optional<Value> maybe(const Json& value, Value (Json::*read)() const) {
  return value.is_null() ? std::nullopt : std::optional((value.*read)());
}

Fabric::LinkSettings link_from(const Json& link) {
  std::optional<set_up::PolicerNumbers> policer;
  if (const Json& numbers = link["policer"]; !numbers.is_null())
    policer = {numbers.at(0).whole(), static_cast<std::int64_t>(numbers.at(1).whole()), numbers.at(2).whole()};
  return set_up::link_settings(link["source"].small(), link["destination"].small(), link["rate"].number(),
                               link["delay_s"].number(), link["jitter_s"].number(), link["loss"].number(),
                               link["room"].whole(), link["reordering"].number(), link["held_back_s"].number(),
                               link["burst_bytes"].whole(), link["host_delay_s"].number(), policer);
}

struct TcpReader {
  const Json& given;
  TcpSettings& tcp;

  template <class Value>
  void value(const char* name, Value TcpSettings::* field) {
    const Json* found = given.find(name);
    if (!found) return;
    if constexpr (std::is_same_v<Value, bool>)
      tcp.*field = found->flag();
    else if constexpr (std::is_same_v<Value, double>)
      tcp.*field = found->number();
    else
      tcp.*field = static_cast<Value>(found->whole());
  }
  void time(const char* name, Time TcpSettings::* field) {
    if (const Json* found = given.find(name)) tcp.*field = from_seconds(found->number());
  }
  template <class Value>
  void choice(const char* name, Value TcpSettings::* field, const std::vector<std::string>& names) {
    if (const Json* found = given.find(name)) set_up::choose(tcp, field, names, found->text());
  }
  void scheduler(const char* name) {
    if (const Json* found = given.find(name)) tcp.scheduler = scheduler_named(found->text());
  }
};

std::shared_ptr<const TcpSettings> tcp_from(const Json& given) {
  auto tcp = std::make_shared<TcpSettings>();
  set_up::each_tcp_setting(TcpReader{given, *tcp});
  return tcp;
}

void add_flows(Simulator& simulator, const Json& flows) {
  std::vector<MakeControl> controls;
  for (const Json& name : flows["controls"].items()) controls.push_back(control_named(name.text()));
  std::vector<std::shared_ptr<const TcpSettings>> tcps;
  for (const Json& each : flows["tcps"].items()) tcps.push_back(tcp_from(each));
  const auto& is_tcp = flows["is_tcp"].items();
  const Json &source = flows["source"], &destination = flows["destination"], &start_s = flows["start_s"],
             &duration_s = flows["duration_s"], &size_bytes = flows["size_bytes"], &control = flows["control"],
             &tcp = flows["tcp"], &replication = flows["replication"], &same_path = flows["same_path"],
             &subflows = flows["subflows"], &rate = flows["rate"], &packet_bytes = flows["packet_bytes"],
             &poisson = flows["poisson"];
  for (std::size_t i = 0; i < is_tcp.size(); ++i)
    set_up::add_flow(
        simulator,
        {is_tcp.at(i).flag(), source.at(i).small(), destination.at(i).small(), start_s.at(i).number(),
         duration_s.at(i).number(), size_bytes.at(i).whole(), controls.at(control.at(i).small()),
         tcps.at(tcp.at(i).small()), static_cast<std::uint8_t>(replication.at(i).small()), same_path.at(i).flag(),
         subflows.at(i).small(), rate.at(i).number(), packet_bytes.at(i).small(), poisson.at(i).flag()});
}

std::unique_ptr<Simulator> simulator_from(const Json& given) {
  return std::make_unique<Simulator>(
      Simulator::Settings{given["seed"].whole(), from_seconds(given["duration_s"].number()),
                          given["clock_skew"].number(), given["segment_bytes"].small(), given["header_bytes"].small()},
      given["nodes"].small());
}

}  // namespace

DescribedRun::DescribedRun(std::string_view text) {
  const Json described = Json::parse(text);
  if (described["version"].whole() != version)
    throw std::invalid_argument("a description of version " + std::to_string(described["version"].whole()) +
                                "; this program reads version " + std::to_string(version));
  const auto& calls = described["set_up"].items();
  if (calls.empty() || calls[0].at(0).text() != "Simulator")
    throw std::invalid_argument("a set-up without a simulator");
  simulator_ = simulator_from(calls[0].at(1));
  for (std::size_t i = 1; i < calls.size(); ++i) call(calls[i].at(0).text(), calls[i]);
}

// In a call, the arguments follow the method's name.
void DescribedRun::call(const std::string& method, const Json& a) {
  Simulator& simulator = *simulator_;
  if (method == "add_link") {
    simulator.add_link(link_from(a.at(1)), a.at(2).text(), listed(a.at(3), &Json::number));
  } else if (method == "add_flows") {
    add_flows(simulator, a.at(1));
  } else if (method == "spray") {
    simulator.spray();
  } else if (method == "use_links") {
    simulator.use_links(from_seconds(a.at(1).number()), listed(a.at(2), &Json::flag));
  } else if (method == "set_paths") {
    std::vector<std::vector<std::uint32_t>> paths;
    for (const Json& path : a.at(3).items()) paths.push_back(places(path));
    simulator.set_paths(a.at(1).small(), a.at(2).small(), std::move(paths));
  } else if (method == "give_path") {
    simulator.give_path(a.at(1).small(), a.at(2).small(), places(a.at(3)), places(a.at(4)));
  } else if (method == "give_feedback") {
    simulator.give_feedback({a.at(1).number(), a.at(2).number(), a.at(3).number()});
  } else if (method == "offer_rates") {
    simulator.offer_rates({a.at(1).number(), a.at(2).number(), from_seconds(a.at(3).number()), a.at(4).number()});
  } else if (method == "change_link") {
    set_up::change_link(simulator, a.at(1).number(), a.at(2).small(), a.at(3).number(), maybe(a.at(4), &Json::flag),
                        maybe(a.at(5), &Json::number), maybe(a.at(6), &Json::number));
  } else if (method == "request") {
    simulator.request(
        a.at(1).small(), a.at(2).small(),
        {a.at(3).whole(), a.at(4).whole(), a.at(5).whole(), a.at(6).flag(), from_seconds(a.at(7).number()),
         from_seconds(a.at(8).number()), a.at(9).whole(), from_seconds(a.at(10).number())});
  } else if (method == "start_after") {
    simulator.start_after(a.at(1).small(), a.at(2).small());
  } else if (method == "sample_queues") {
    simulator.sample_queues(places(a.at(1)), from_seconds(a.at(2).number()));
  } else if (method == "sample_windows") {
    simulator.sample_windows(from_seconds(a.at(1).number()));
  } else if (method == "record_departures") {
    recorded_.push_back(a.at(1).small());
    simulator.record_departures(a.at(1).small(), a.at(2).whole());
  } else if (method == "record_deliveries") {
    simulator.record_deliveries(a.at(1).small());
  } else if (method == "count_since") {
    counts_since_ = a.at(1).number() > 0;
    simulator.count_since(from_seconds(a.at(1).number()));
  } else {
    throw std::invalid_argument("no " + method);
  }
}

std::vector<DescribedRun::Column> DescribedRun::columns() const {
  const Simulator& simulator = *simulator_;
  std::vector<Column> kept;
  const auto keep_as = [&](const std::string& table) {
    return [&kept, table](const char* name, const auto& items, auto&& value) {
      std::vector<double> values;
      values.reserve(items.size());
      for (const auto& item : items) values.push_back(static_cast<double>(value(item)));
      kept.emplace_back(table + "." + name, std::move(values));
    };
  };
  columns::of_flows(simulator.flow_results(), keep_as("flows"));
  columns::of_links(simulator.link_counts(), keep_as("links"));
  columns::of_queue_samples(simulator, keep_as("queues"));
  columns::of_window_samples(simulator, keep_as("windows"));
  columns::of_deliveries(simulator, keep_as("deliveries"));
  columns::of_requests(simulator, keep_as("requests"));
  for (const std::uint32_t link : recorded_)
    columns::of_departures(simulator, link, keep_as("departures." + std::to_string(link)));
  if (counts_since_) {
    const Simulator::Counts before = simulator.counted_before();
    columns::of_flows(before.flows, keep_as("before.flows"));
    columns::of_links(before.links, keep_as("before.links"));
  }
  const Fabric::Account account = simulator.account();
  const auto keep_count = [&](const char* name, std::uint64_t count) {
    kept.emplace_back(std::string("account.") + name, std::vector<double>{static_cast<double>(count)});
  };
  keep_count("created", account.created);
  keep_count("delivered", account.delivered);
  keep_count("dropped", account.dropped);
  keep_count("lost", account.lost);
  keep_count("inside", account.inside);
  return kept;
}
