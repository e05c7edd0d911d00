// A simulation that is described by text, for users without Python: a page, node, another program.
//
// The text is JSON, as netrepro.simulation.described writes it:
//   {"version": 1, "set_up": [[method, argument, ...], ...], ...}
// The methods are those by which netrepro sets up a simulator, in the same order and with the same numbers, so that the
// same text gives the same bytes everywhere. Members with other names are for the reader.
//
// All columns are numbers: "flows.completion_s", "queues.time_s", "departures.3.wait_s", ...; "before.flows..." and
// "before.links..." are what had been counted at the time from which totals count.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "simulation/simulator.hpp"

class DescribedRun {
 public:
  using Column = std::pair<std::string, std::vector<double>>;

  // Throws std::invalid_argument for text that is no such description, and what a simulator's set-up throws.
  explicit DescribedRun(std::string_view text);

  // As Simulator::run.
  bool run(std::uint64_t events) { return simulator_->run(events); }
  double share() const {  // of the time that has passed
    return static_cast<double>(simulator_->now()) / static_cast<double>(simulator_->end());
  }
  std::uint64_t events() const { return simulator_->events(); }
  std::vector<Column> columns() const;

 private:
  void call(const std::string& method, const Json& arguments);

  std::unique_ptr<Simulator> simulator_;
  std::vector<std::uint32_t> recorded_;  // links whose departures are recorded
  bool counts_since_ = false;
};
