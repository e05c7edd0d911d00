// Dummynet in user space (Carbone and Rizzo, "Dummynet revisited", CCR 2010) on a virtual clock. It has a list of
// rules, of which the first that matches decides, and pipes, which a timer serves on whole ticks.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "base/random_stream.hpp"
#include "base/simulated_time.hpp"
#include "base/timer_heap.hpp"
#include "dummynet/dummynet_pipe.hpp"
#include "dummynet/dummynet_rule.hpp"

class Dummynet {
 public:
  enum class Fate : std::uint8_t { delivered, dropped, lost, allowed, denied };  // the first three: DummynetPipe's
  static constexpr std::uint32_t none = 0xFFFFFFFF;
  struct Counter {
    std::uint64_t packets = 0, bytes = 0;
  };

  // `tick`: pipes are served at whole multiples of it; 0: exactly when something is due.
  Dummynet(std::uint64_t seed, Time tick) : seed_(seed), tick_(tick), random_(seed, 0) {}

  std::uint32_t add_pipe(DummynetPipe::Settings settings) {
    const std::uint64_t stream = 2 * pipes_.size();
    pipes_.emplace_back(std::move(settings), RandomStream(seed_, stream + 1), RandomStream(seed_, stream + 2));
    armed_.push_back(false);
    return static_cast<std::uint32_t>(pipes_.size() - 1);
  }
  void add_rule(const DummynetRule& rule) {
    rules_.push_back(rule);
    counters_.emplace_back();
  }

  // The place of the rule that decides, or `none`, which lets the packet pass.
  std::uint32_t classify(const DummynetHeader& header) {
    const std::uint32_t rules = static_cast<std::uint32_t>(rules_.size());
    for (std::uint32_t place = 0; place < rules; ++place) {
      const DummynetRule& rule = rules_[place];
      if (!rule.matches(header)) continue;
      if (rule.probability() < 1 && random_.uniform() >= rule.probability()) continue;
      ++counters_[place].packets;
      counters_[place].bytes += header.bytes;
      if (rule.action() != DummynetRule::Action::count) return place;
    }
    return none;
  }

  // A packet arrives, not before those that came earlier. Each packet ends in one sink(name, fate, marked, time), in
  // this call or in one of advance(). Returns the place of the deciding rule.
  template <class Sink>
  std::uint32_t offer(std::uint32_t name, const DummynetHeader& header, Time now, Sink&& sink) {
    if (timers_.time() <= now) advance(now, sink);
    const std::uint32_t place = classify(header);
    const auto action = place == none ? DummynetRule::Action::allow : rules_[place].action();
    if (action == DummynetRule::Action::pipe) {
      const std::uint32_t pipe = rules_[place].pipe();
      pipes_[pipe].offer(name, header.bytes, header.ecn_capable, now, from_pipe(sink));
      arm(pipe);
    } else {
      sink(name, action == DummynetRule::Action::deny ? Fate::denied : Fate::allowed, false, now);
    }
    return place;
  }

  // Fires every timer up to and including `now`.
  template <class Sink>
  void advance(Time now, Sink&& sink) {
    while (timers_.time() <= now) {
      if (timers_.time() == never) return;
      const TimerHeap::Timer timer = timers_.take();
      armed_[timer.owner] = false;
      pipes_[timer.owner].serve(timer.time, from_pipe(sink));
      arm(timer.owner);
    }
  }

  const std::vector<Counter>& counters() const { return counters_; }  // a rule each
  const DummynetRule& rule(std::uint32_t place) const { return rules_[place]; }

 private:
  template <class Sink>
  static auto from_pipe(Sink& sink) {
    return [&sink](std::uint32_t name, DummynetPipe::Fate fate, bool marked, Time time) {
      sink(name, static_cast<Fate>(fate), marked, time);
    };
  }

  void arm(std::uint32_t pipe) {
    if (armed_[pipe]) return;
    const Time due = pipes_[pipe].next_due();
    if (due == never) return;
    armed_[pipe] = true;
    timers_.set(tick_ > 0 ? (due + tick_ - 1) / tick_ * tick_ : due, 0, pipe);
  }

  std::uint64_t seed_;
  Time tick_;
  RandomStream random_;
  std::vector<DummynetRule> rules_;
  std::vector<Counter> counters_;
  std::vector<DummynetPipe> pipes_;
  std::vector<char> armed_;
  TimerHeap timers_;
};
