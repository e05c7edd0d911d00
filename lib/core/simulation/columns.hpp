// What a simulation has measured, as columns of numbers: each table's names and values, for a caller that keeps them.
// Times are seconds; a time that never came is NaN.
//
// keep(name, items, value) is called for each column of a table; value(item) is the number in a row.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "simulation/simulator.hpp"

namespace columns {

inline double seconds_or_nan(Time time) {
  return time == never ? std::numeric_limits<double>::quiet_NaN() : to_seconds(time);
}

template <class Keep>
void of_flows(const std::vector<Endpoints::FlowResult>& flows, Keep&& keep) {
  using Flow = Endpoints::FlowResult;
  keep("completion_s", flows, [](const Flow& flow) { return seconds_or_nan(flow.completion); });
  keep("connected_s", flows, [](const Flow& flow) { return seconds_or_nan(flow.connected); });
  keep("delivered_bytes", flows, [](const Flow& flow) { return flow.delivered_bytes; });
  keep("bytes_within_duration", flows, [](const Flow& flow) { return flow.bytes_within_duration; });
  keep("retransmitted_packets", flows, [](const Flow& flow) { return flow.retransmissions; });
  keep("timeouts", flows, [](const Flow& flow) { return flow.timeouts; });
  keep("connection_attempts", flows, [](const Flow& flow) { return flow.connection_attempts; });
}

template <class Keep>
void of_links(const std::vector<SimulatedLink::Counts>& links, Keep&& keep) {
  using Link = SimulatedLink::Counts;
  keep("offered_packets", links, [](const Link& link) { return link.offered_packets; });
  keep("sent_packets", links, [](const Link& link) { return link.sent_packets; });
  keep("sent_bytes", links, [](const Link& link) { return link.sent_bytes; });
  keep("dropped_packets", links, [](const Link& link) { return link.dropped_packets; });
  keep("marked_packets", links, [](const Link& link) { return link.marked_packets; });
  keep("lost_packets", links, [](const Link& link) { return link.lost_packets; });
  keep("busy_s", links, [](const Link& link) { return to_seconds(link.busy); });
}

template <class Keep>
void of_queue_samples(const Simulator& simulator, Keep&& keep) {
  using Sample = Sampler::QueueSample;
  const auto& samples = simulator.queue_samples();
  keep("link", samples, [](const Sample& sample) { return sample.link; });
  keep("time_s", samples, [](const Sample& sample) { return to_seconds(sample.time); });
  keep("queue_packets", samples, [](const Sample& sample) { return sample.packets; });
  keep("queue_bytes", samples, [](const Sample& sample) { return sample.bytes; });
}

template <class Keep>
void of_window_samples(const Simulator& simulator, Keep&& keep) {
  using Sample = Sampler::WindowSample;
  const auto& samples = simulator.window_samples();
  keep("flow", samples, [](const Sample& sample) { return sample.flow; });
  keep("connection", samples, [](const Sample& sample) { return sample.connection; });
  keep("time_s", samples, [](const Sample& sample) { return to_seconds(sample.time); });
  keep("window_segments", samples, [](const Sample& sample) { return sample.window; });
  keep("threshold_segments", samples, [](const Sample& sample) { return sample.ssthresh; });
  keep("in_flight_segments", samples, [](const Sample& sample) { return sample.in_flight; });
  keep("round_trip_s", samples, [](const Sample& sample) { return to_seconds(sample.round_trip); });
}

// The packets that have left a link whose departures are recorded. Throws std::out_of_range for an unknown link.
template <class Keep>
void of_departures(const Simulator& simulator, std::uint32_t link, Keep&& keep) {
  using Departure = SimulatedLink::Departure;
  std::vector<Departure> departures;
  for (const Departure& departure : simulator.links().at(link).departures())
    if (departure.time <= simulator.now()) departures.push_back(departure);
  keep("flow", departures, [&](const Departure& departure) {
    return simulator.is_connection(departure.flow) ? simulator.flow_of(departure.flow) : departure.flow;
  });
  keep("time_s", departures, [](const Departure& departure) { return to_seconds(departure.time); });
  keep("size_bytes", departures, [](const Departure& departure) { return departure.bytes; });
  keep("wait_s", departures, [](const Departure& departure) { return to_seconds(departure.waited); });
}

template <class Keep>
void of_deliveries(const Simulator& simulator, Keep&& keep) {
  using Delivery = Endpoints::Delivery;
  const auto& deliveries = simulator.deliveries();
  keep("flow", deliveries, [](const Delivery& delivery) { return delivery.flow; });
  keep("time_s", deliveries, [](const Delivery& delivery) { return to_seconds(delivery.time); });
  keep("delivered_bytes", deliveries, [](const Delivery& delivery) { return delivery.bytes; });
}

template <class Keep>
void of_requests(const Simulator& simulator, Keep&& keep) {
  using Answer = Conversation::Result;
  const auto& answers = simulator.request_results();
  keep("flow", answers, [](const Answer& answer) { return answer.flow; });
  keep("request", answers, [](const Answer& answer) { return answer.number; });
  keep("asked_s", answers, [](const Answer& answer) { return to_seconds(answer.asked); });
  keep("answered_s", answers, [](const Answer& answer) { return seconds_or_nan(answer.answered); });
}

}  // namespace columns
