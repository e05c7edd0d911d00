// The time in a simulation, and what happens next: the arrival at the end of a link, the end of a transmission, or a
// timer. Events of one time come in the order in which they were set, or in that of their links, kinds and owners. The
// latter is the same however a network is divided.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "base/simulated_time.hpp"
#include "base/timer_heap.hpp"
#include "base/winner_tree.hpp"

class Schedule {
 public:
  struct Event {
    enum class Kind : std::uint8_t { arrival, transmitter, timer } kind;
    std::uint32_t link;
  };

  bool begun() const { return begun_; }
  // Throws std::logic_error once it has begun.
  void check_set_up() const {
    if (begun_) throw std::logic_error("a network is set up before it runs");
  }
  void order_by_owner() {
    check_set_up();
    by_owner_ = true;
    timers_.order_by_owner();
  }
  // transmitters: whether any link asks for an event at the end of its transmissions.
  void begin(std::size_t links, bool transmitters) {
    links_ = static_cast<std::uint32_t>(links);
    tree_ = WinnerTree(links * (transmitters ? 2 : 1) + 1);
    if (by_owner_) tree_.order_by_source();
    begun_ = true;
  }

  Time now() const { return now_; }
  void wait_until(Time time) { now_ = time; }
  std::uint64_t events() const { return events_; }

  void set_arrival(std::uint32_t link, Time time) { tree_.set(link, time); }
  void set_transmitter(std::uint32_t link, Time time) { tree_.set(links_ + 1 + link, time); }
  void set_timer(Time time, std::uint32_t kind, std::uint32_t owner) { timers_.set(time, kind, owner); }

  // The time of the next event; later than every real time when nothing is to happen.
  Time next_time() {
    if (timers_.time() != timers_shown_) tree_.set(links_, timers_shown_ = timers_.time());
    return tree_.time();
  }
  // The event whose time next_time() has returned.
  Event next() const {
    const std::uint32_t source = tree_.source();
    if (source < links_) return {Event::Kind::arrival, source};
    if (source == links_) return {Event::Kind::timer, 0};
    return {Event::Kind::transmitter, source - links_ - 1};
  }
  // Lets time pass to that event. If it is a timer, the caller has to take it.
  Event advance() {
    assert(tree_.time() >= now_);
    now_ = tree_.time();
    ++events_;
    const Event event = next();
    if (event.kind == Event::Kind::transmitter) set_transmitter(event.link, never);
    return event;
  }
  const TimerHeap::Timer& next_timer() const { return timers_.first(); }
  TimerHeap::Timer take_timer() { return timers_.take(); }

  // Looks every now and then. False when a million events have had one time and the next one has it, too: a deadline
  // that is set to the present again and again would stop time for ever.
  bool time_passes() {
    if (events_ != next_look_) return true;
    if (tree_.time() == looked_at_) return false;
    look_again_after(tree_.time());
    return true;
  }
  // Says that many events at this time are expected.
  void allow_many_events() { look_again_after(now_); }

 private:
  static constexpr std::uint64_t most_events_at_a_time = 1'000'000;

  void look_again_after(Time time) {
    looked_at_ = time;
    next_look_ = events_ + most_events_at_a_time;
  }

  WinnerTree tree_{1};  // links, timers, transmitters
  TimerHeap timers_;
  Time timers_shown_ = never, now_ = 0;
  std::uint32_t links_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t next_look_ = most_events_at_a_time;  // number of the event at which time must have passed looked_at_
  Time looked_at_ = 0;
  bool begun_ = false, by_owner_ = false;
};
