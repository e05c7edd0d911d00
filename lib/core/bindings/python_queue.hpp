// A queue discipline written in Python. The simulator runs without the global lock; every call of Python takes it.
//
// Python keeps the packets, as objects by which it names them. This class keeps what has become of each: it waits, was
// dropped (packet.drop()), or is sent. So a mistake of the reader's is an error, and no packet is lost or sent twice.
#pragma once
#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/refusal.hpp"
#include "bindings/readers_object.hpp"
#include "queues/queue_discipline.hpp"

// A packet as Python sees it.
struct WaitingPacket {
  std::uint64_t number;  // in the order of arrival
  QueuedPacket packet;
  bool dropped = false;
  std::shared_ptr<std::vector<std::uint64_t>> dropped_now;  // of the queue that it waits in

  void drop() {
    if (dropped) throw Refusal("a packet is dropped twice", "forget a packet once it is dropped");
    dropped = true;
    dropped_now->push_back(number);
  }
  void mark() {
    if (!packet.ecn_capable)
      throw Refusal("a mark on a packet whose flow has no ECN", "look at packet.ecn_capable, and drop it otherwise");
    packet.marked = true;
  }
};

class PythonQueue final : public QueueDiscipline {
 public:
  explicit PythonQueue(pybind11::object queue) : queue_(std::move(queue)) {}
  ~PythonQueue() override {
    const pybind11::gil_scoped_acquire lock;
    queue_ = pybind11::object();
  }

  void join(const QueuedPacket& packet, Time, std::vector<QueuedPacket>& dropped) override {
    const pybind11::gil_scoped_acquire lock;
    const std::uint64_t number = ++last_;
    waiting_.emplace(number, packet);
    count_in(packet);
    ask_reader(queue_, "enqueue", pybind11::cast(WaitingPacket{number, packet, false, dropped_now_}),
               to_seconds(packet.arrived));
    take_dropped(dropped);
  }

  std::optional<QueuedPacket> next(Time now, std::vector<QueuedPacket>& dropped) override {
    if (waiting_.empty()) return std::nullopt;
    const pybind11::gil_scoped_acquire lock;
    while (true) {
      const pybind11::object answer = ask_reader(queue_, "dequeue", to_seconds(now));
      take_dropped(dropped);
      if (answer.is_none()) {
        if (waiting_.empty()) return std::nullopt;
        refuse("dequeue gives nothing while " + std::to_string(waiting_.size()) + " packets wait",
               "return one of them: a link that is free always sends");
      }
      if (!pybind11::isinstance<WaitingPacket>(answer))
        refuse("dequeue gives " + std::string(pybind11::str(pybind11::repr(answer))), "return a packet that waits");
      const auto& chosen = answer.cast<const WaitingPacket&>();
      if (lost_.erase(chosen.number) > 0) continue;  // lost when the link went down
      const auto place = waiting_.find(chosen.number);
      if (place == waiting_.end())
        refuse("dequeue gives a packet that was sent or dropped before", "forget a packet once it has gone");
      QueuedPacket packet = place->second;
      packet.marked = chosen.packet.marked;
      waiting_.erase(place);
      count_out(packet);
      return packet;
    }
  }

  void clear(std::vector<QueuedPacket>& dropped) override {
    const pybind11::gil_scoped_acquire lock;
    while (!waiting_.empty()) {
      lost_.insert(waiting_.begin()->first);
      take_out(waiting_.begin(), dropped);
    }
    ask_reader(queue_, "clear");
    dropped_now_->clear();
  }

 private:
  using Waiting = std::map<std::uint64_t, QueuedPacket>;

  void take_dropped(std::vector<QueuedPacket>& dropped) {
    for (const std::uint64_t number : *dropped_now_) {
      if (lost_.erase(number) > 0) continue;
      const auto place = waiting_.find(number);
      if (place == waiting_.end())
        refuse("a packet is dropped that was sent before", "forget a packet once it has gone");
      take_out(place, dropped);
    }
    dropped_now_->clear();
  }
  void take_out(Waiting::iterator place, std::vector<QueuedPacket>& to) {
    count_out(place->second);
    to.push_back(place->second);
    waiting_.erase(place);
  }
  [[noreturn]] void refuse(const std::string& what, const std::string& remedy) const {
    throw Refusal(class_name(queue_) + "." + what, remedy);
  }

  pybind11::object queue_;
  std::uint64_t last_ = 0;
  Waiting waiting_;                         // in the order of arrival
  std::unordered_set<std::uint64_t> lost_;  // when the link went down; Python may still hold them
  std::shared_ptr<std::vector<std::uint64_t>> dropped_now_ = std::make_shared<std::vector<std::uint64_t>>();
};
