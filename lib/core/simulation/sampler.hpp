// What is sampled again and again while a simulation runs: queues at links, and the windows of connections.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/simulated_time.hpp"
#include "simulation/endpoints.hpp"
#include "simulation/timer_kind.hpp"

class Sampler {
 public:
  struct QueueSample {
    Time time;
    std::uint32_t link;
    std::uint64_t packets, bytes;
  };
  struct WindowSample {
    Time time;
    std::uint32_t flow, connection;      // connection: its place among the flow's
    double window, ssthresh, in_flight;  // segments
    Time round_trip;
  };

  explicit Sampler(Endpoints& endpoints) : endpoints_(endpoints) {}

  void sample_queues(std::vector<std::uint32_t> links, Time interval) {
    endpoints_.schedule().check_set_up();
    for (std::uint32_t link : links) endpoints_.fabric().check_link(link);
    if (!links.empty()) check_interval(interval);
    links_ = std::move(links);
    queue_interval_ = interval;
  }
  void sample_windows(Time interval) {
    endpoints_.schedule().check_set_up();
    check_interval(interval);
    window_interval_ = interval;
  }
  // Keeps only the queues at links that leave these nodes.
  void keep_queues_of(const std::vector<bool>& nodes) {
    std::erase_if(links_, [&](std::uint32_t link) { return !nodes[endpoints_.fabric().routes().ends(link).first]; });
  }
  void begin() {
    if (!links_.empty()) set_timer(queue_interval_, timer::queues_due);
    if (window_interval_ != never) set_timer(window_interval_, timer::windows_due);
  }

  void take_queues() {
    for (std::uint32_t link : links_) {
      const Backlog waiting = endpoints_.fabric().waiting(link);
      queue_samples_.push_back({endpoints_.now(), link, waiting.packets, waiting.bytes});
    }
    set_timer(endpoints_.now() + queue_interval_, timer::queues_due);
  }
  void take_windows() {
    for (std::uint32_t number = 0; number < endpoints_.numbers(); ++number)
      if (const Connection* connection = endpoints_.connection(number)) {
        const TcpSender& sender = connection->sender();
        window_samples_.push_back({endpoints_.now(), endpoints_.flow_of(number), connection->place(),
                                   sender.window().segments, sender.window().ssthresh, sender.in_flight(),
                                   sender.round_trip().smoothed()});
      }
    set_timer(endpoints_.now() + window_interval_, timer::windows_due);
  }

  const std::vector<QueueSample>& queues() const { return queue_samples_; }
  const std::vector<WindowSample>& windows() const { return window_samples_; }

 private:
  void check_interval(Time interval) const {
    if (interval == 0) throw std::invalid_argument("samples without time between them");
  }
  void set_timer(Time time, timer::Kind kind) { endpoints_.schedule().set_timer(time, kind, 0); }

  Endpoints& endpoints_;
  std::vector<std::uint32_t> links_;
  Time queue_interval_ = never, window_interval_ = never;
  std::vector<QueueSample> queue_samples_;
  std::vector<WindowSample> window_samples_;
};
