#include "parallel/parallel_run.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

ParallelRun::ParallelRun(std::vector<Simulator*> parts, const std::vector<std::uint32_t>& part_of_node)
    : part_of_node_(part_of_node), end_(parts.at(0)->end()), barrier_(static_cast<std::uint32_t>(parts.size())) {
  const std::size_t count = parts.size();
  for (std::uint32_t part : part_of_node_)
    if (part >= count) throw std::out_of_range("no part " + std::to_string(part));
  for (std::uint32_t number = 0; number < count; ++number) {
    std::vector<bool> own;
    own.reserve(part_of_node_.size());
    for (std::uint32_t part : part_of_node_) own.push_back(part == number);
    parts[number]->become_part(own);
    parts_.push_back({parts[number], {}, std::vector<PathsTold>(count), std::vector<PathsHeard>(count), nullptr});
  }
  for (auto& reports : reports_) reports.resize(count);
  for (auto& mailboxes : mailboxes_) mailboxes.resize(count * count);
  find_lookahead();
}

void ParallelRun::find_lookahead() {
  Fabric& fabric = parts_[0].simulator->fabric();
  const auto part_at = [&](std::uint32_t node) { return part_of_node_[node]; };
  lookahead_ = std::max<Time>(end_ / windows_at_least, 1);
  std::vector<bool> is_cut(fabric.links().size());
  for (std::uint32_t link = 0; link < is_cut.size(); ++link) {
    const auto [from, to] = fabric.routes().ends(link);
    is_cut[link] = part_at(from) != part_at(to);
    if (!is_cut[link]) continue;
    parts_[part_at(from)].cut_links.push_back(link);
    if (fabric.link(link).has_jitter()) throw std::invalid_argument("jitter between parts");
    lookahead_ = std::min(lookahead_, fabric.link(link).delay());
  }
  for (const Fabric::LinkChange& change : parts_[0].simulator->changes())
    if (change.delay && is_cut[change.link]) lookahead_ = std::min(lookahead_, *change.delay);
  if (lookahead_ <= 0) throw std::invalid_argument("no delay between parts");
}

bool ParallelRun::run(std::uint64_t events) {
  std::vector<std::unique_ptr<Simulator::Turn>> turns;
  turns.reserve(parts_.size());
  for (const Part& part : parts_) turns.push_back(std::make_unique<Simulator::Turn>(*part.simulator));
  if (parts_.size() == 1) return parts_[0].simulator->run(events);
  enum Start : int { waits, goes, is_over };
  std::atomic<int> start = waits;
  const auto release = [&](Start how) { start.store(how), start.notify_all(); };
  std::vector<std::jthread> threads;
  try {
    for (std::uint32_t number = 1; number < parts_.size(); ++number)
      threads.emplace_back([&, number] {
        start.wait(waits);
        if (start.load() == goes) run_part(number, events);
      });
  } catch (...) {
    release(is_over);
    throw;
  }
  release(goes);
  run_part(0, events);
  for (std::jthread& thread : threads) thread.join();
  for (const Part& part : parts_) {
    if (!part.failure) continue;
    for (const Part& each : parts_) each.simulator->fail();
    std::rethrow_exception(part.failure);
  }
  return ended_;
}

// All parts take the same branches here, since they see the same reports.
void ParallelRun::run_part(std::uint32_t number, std::uint64_t events) {
  Part& part = parts_[number];
  Simulator& simulator = *part.simulator;
  Schedule& schedule = simulator.schedule();
  const std::uint64_t events_before = schedule.events();
  const auto safely = [&](auto&& action) {
    try {
      if (!part.failure) action();
    } catch (...) {
      part.failure = std::current_exception();
    }
  };
  std::uint32_t turn = 0;
  safely([&] {
    if (!schedule.begun()) simulator.begin();
    reports_[turn][number] = report_of(number, events_before);
    hand_over(number, 0, turn, reports_[turn][number]);
  });
  for (;;) {
    reports_[turn][number].failed = part.failure != nullptr;
    barrier_.wait();
    Report all;
    for (const Report& report : reports_[turn]) {
      all.next = std::min(all.next, report.next);
      all.events += report.events;
      all.failed |= report.failed;
    }
    if (all.failed) return;
    safely([&] { receive(number, turn); });
    const bool ended = all.next > end_;
    if (ended) schedule.wait_until(end_);
    if (number == 0) ended_ = ended;
    if (ended || all.events >= events) return;
    turn = 1 - turn;
    safely([&] {
      const Time before = std::min(all.next + lookahead_, end_ + 1);
      simulator.run_before(before);
      reports_[turn][number] = report_of(number, events_before);
      hand_over(number, before, turn, reports_[turn][number]);
    });
  }
}

ParallelRun::Report ParallelRun::report_of(std::uint32_t number, std::uint64_t events_before) {
  Schedule& schedule = parts_[number].simulator->schedule();
  return {schedule.next_time(), schedule.events() - events_before, false};
}

// Hands over what has left and is on its way to another part.
void ParallelRun::hand_over(std::uint32_t number, Time before, std::uint32_t turn, Report& report) {
  Part& part = parts_[number];
  Fabric& fabric = part.simulator->fabric();
  for (std::uint32_t to = 0; to < parts_.size(); ++to) mailbox(number, to, turn).clear();
  for (std::uint32_t link : part.cut_links) {
    SimulatedLink& cut = fabric.link(link);
    if (cut.next_departure() == never) continue;
    const std::uint32_t to = part_of_node_[fabric.routes().ends(link).second];
    Mailbox& mail = mailbox(number, to, turn);
    cut.hand_over(before, [&](const SimulatedLink::Traveller& traveller, Time arrival) {
      part.told[to].tell(fabric.paths(), traveller.hop, mail.paths);
      mail.packets.push_back(fabric.packet(traveller.packet));
      mail.packets.back().hop = traveller.hop;
      mail.crossings.push_back({arrival, link});
      report.next = std::min(report.next, arrival);
      fabric.give_back(traveller.packet);
    });
    fabric.tell_arrival(link);
    report.next = std::min(report.next, cut.next_departure());
  }
  std::vector<Halves::End>& ends = part.simulator->endpoints().halves().ends;
  for (const Halves::End& end : ends) {
    const std::uint32_t node = part.simulator->endpoints().flow(end.connection).to;
    mailbox(number, part_of_node_[node], turn).ends.push_back(end);
    report.next = std::min(report.next, end.at);
  }
  ends.clear();
}

void ParallelRun::receive(std::uint32_t number, std::uint32_t turn) {
  Part& part = parts_[number];
  Fabric& fabric = part.simulator->fabric();
  Schedule& schedule = part.simulator->schedule();
  for (std::uint32_t from = 0; from < parts_.size(); ++from) {
    if (from == number) continue;
    const Mailbox& mail = mailbox(from, number, turn);
    part.heard[from].hear(mail.paths, fabric.paths());
    for (std::size_t i = 0; i < mail.packets.size(); ++i) {
      Packet packet = mail.packets[i];
      packet.hop = part.heard[from][packet.hop];
      fabric.adopt(packet, mail.crossings[i].link, mail.crossings[i].arrival);
    }
    for (const Halves::End& end : mail.ends) schedule.set_timer(end.at, timer::receiver_ends, end.connection);
  }
}

Time ParallelRun::now() const {
  Time now = never;
  for (const Part& part : parts_) now = std::min(now, part.simulator->now());
  return now;
}

std::uint64_t ParallelRun::events() const {
  std::uint64_t events = 0;
  for (const Part& part : parts_) events += part.simulator->events();
  return events;
}

std::vector<Endpoints::FlowResult> ParallelRun::flow_results() const {
  std::vector<Endpoints::FlowResult> results(parts_[0].simulator->flows());
  std::vector<Time> grown(results.size());
  for (const Part& part : parts_) {
    const auto of_part = part.simulator->endpoints().flow_results();
    const Halves& halves = part.simulator->endpoints().halves();
    for (std::size_t flow = 0; flow < results.size(); ++flow) {
      Endpoints::FlowResult& result = results[flow];
      result.completion = std::min(result.completion, of_part[flow].completion);
      result.connected = std::min(result.connected, of_part[flow].connected);
      result.delivered_bytes += of_part[flow].delivered_bytes;
      result.retransmissions += of_part[flow].retransmissions;
      result.timeouts += of_part[flow].timeouts;
      result.connection_attempts += of_part[flow].connection_attempts;
      result.bytes_within_duration += of_part[flow].bytes_within_duration;
      if (!halves.grown.empty()) grown[flow] = std::max(grown[flow], halves.grown[flow]);
    }
  }
  for (const Part& part : parts_)
    for (const auto& [flow, stop] : part.simulator->endpoints().halves().stops)
      if (results[flow].delivered_bytes == stop.bytes) results[flow].completion = std::max(stop.at, grown[flow]);
  return results;
}
