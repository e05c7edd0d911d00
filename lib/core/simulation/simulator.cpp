#include "simulation/simulator.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/refusal.hpp"
#include "simulation/replicated_flow.hpp"
#include "simulation/subflows.hpp"
#include "simulation/timer_kind.hpp"

namespace {
constexpr double least_rate = 1;  // bit/s: of less, a packet takes longer than all experiments

bool is_rate(double rate) { return rate >= least_rate && std::isfinite(rate); }
}  // namespace

Simulator::Simulator(const Settings& settings, std::size_t nodes)
    : end_(settings.end),
      nodes_(nodes),
      random_(settings.seed),
      fabric_(schedule_, random_, {settings.clock_skew, settings.segment_bytes}, nodes),
      endpoints_(fabric_, schedule_, random_),
      sampler_(endpoints_) {}

Simulator::Turn::Turn(const Simulator& simulator) : simulator_(simulator) {
  if (simulator.in_use_.exchange(true))
    throw Refusal("a simulator in use, by another thread or from inside its own run", "use it when that has ended");
  if (!simulator.failed_) return;
  simulator.in_use_ = false;
  throw Refusal("a simulator whose run has failed", "build another one");
}

// What is asked for must be there.

void Simulator::check_set_up() const {
  if (schedule_.begun()) throw std::logic_error("a network is set up before it runs");
}

void Simulator::check_ends(std::uint32_t from, std::uint32_t to) const {
  for (std::uint32_t node : {from, to})
    if (node >= nodes_) throw std::out_of_range("no node " + std::to_string(node));
  if (from == to) throw std::invalid_argument("from node " + std::to_string(from) + " to itself");
}

void Simulator::check_link(std::uint32_t link) const {
  if (link >= links().size()) throw std::out_of_range("no link " + std::to_string(link));
}

void Simulator::check_path(const std::vector<std::uint32_t>& path) const {
  if (path.empty()) throw std::invalid_argument("a path of no link");
  for (std::uint32_t link : path) check_link(link);
}

void Simulator::check_flow(std::uint32_t flow) const {
  check_set_up();
  if (flow >= flows() || !endpoints_.flow(flow).is_tcp) throw std::out_of_range("no TCP flow " + std::to_string(flow));
}

// Setting up.

std::uint32_t Simulator::add_link(const Fabric::LinkSettings& link, const std::string& rule,
                                  const std::vector<double>& numbers) {
  check_set_up();
  check_ends(link.from, link.to);
  if (!is_rate(link.rate)) throw std::invalid_argument("no rate for a link");
  const std::uint32_t number = fabric_.add_link(link, rule, numbers);
  endpoints_.add_port(link.room, link.burst_bytes);
  return number;
}

void Simulator::give_path(std::uint32_t flow, std::uint32_t place, const std::vector<std::uint32_t>& forward,
                          const std::vector<std::uint32_t>& backward) {
  check_flow(flow);
  check_path(forward), check_path(backward);
  endpoints_.give_path(flow, place, forward, backward);
}

void Simulator::use_links(Time from, std::vector<bool> in_use) {
  check_set_up();
  if (in_use.size() != links().size()) throw std::invalid_argument("not a flag for each link");
  link_uses_.push_back({from, std::move(in_use)});
}

void Simulator::set_paths(std::uint32_t from, std::uint32_t to, std::vector<std::vector<std::uint32_t>> paths) {
  check_set_up();
  check_ends(from, to);
  for (const auto& path : paths) check_path(path);
  fabric_.routes().set_paths(from, to, std::move(paths));
}

void Simulator::change_link(const Fabric::LinkChange& change) {
  check_set_up();
  check_link(change.link);
  if (change.rate != 0 && !is_rate(change.rate)) throw std::invalid_argument("no rate for a link");
  changes_.push_back(change);
}

void Simulator::offer_rates(const RcpLink::Settings& rcp) {
  fabric_.offer_rates(rcp, [this](const Packet& packet) {
    const Connection* connection = endpoints_.connection(packet.flow);
    return connection && connection->has_rcp();
  });
}

void Simulator::add_tcp(std::uint32_t from, std::uint32_t to, Time start, std::uint64_t bytes, Time duration,
                        MakeControl control, std::shared_ptr<const TcpSettings> tcp) {
  check_set_up();
  check_ends(from, to);
  endpoints_.add_flow({from, to, start, duration, bytes, control, true, false, 0, std::move(tcp)});
}

void Simulator::add_datagrams(std::uint32_t from, std::uint32_t to, Time start, Time duration, double rate,
                              std::uint32_t bytes, bool poisson) {
  check_set_up();
  check_ends(from, to);
  if (!(rate > 0) || bytes == 0) throw std::invalid_argument("datagrams without rate or bytes");
  const Time gap = from_seconds(8 * bytes / rate);
  endpoints_.add_flow({from, to, start, duration, bytes, nullptr, false, poisson, gap, nullptr});
}

void Simulator::give_control(std::uint32_t flow, Endpoints::MakeOwnControl make) {
  check_flow(flow);
  endpoints_.give_control(flow, std::move(make));
}

void Simulator::replicate(std::uint32_t flow, Replication replication, bool same_path) {
  check_flow(flow);
  if (replication == Replication::repsyn)
    endpoints_.give_group(flow, std::make_unique<RepSyn>(endpoints_, flow));
  else
    endpoints_.give_group(flow, std::make_unique<RepFlow>(endpoints_, flow));
  endpoints_.add_companion(flow, 1, same_path, false);
}

void Simulator::split(std::uint32_t flow, std::uint32_t subflows) {
  if (subflows < 1 || subflows > most_subflows)
    throw std::invalid_argument(std::to_string(subflows) + " subflows of a flow");
  check_flow(flow);
  endpoints_.give_group(flow, std::make_unique<Subflows>(endpoints_, flow, subflows));
  for (std::uint32_t place = 1; place < subflows; ++place) endpoints_.add_companion(flow, place, false, false);
}

void Simulator::request(std::uint32_t first_answer, std::uint32_t servers, const RequestRounds::Settings& settings) {
  if (servers < 1 || servers > flows() || first_answer > flows() - servers)
    throw std::out_of_range("answers beyond the last flow");
  for (std::uint32_t i = 0; i < servers; ++i) check_flow(first_answer + i);
  conversations_.push_back(std::make_unique<Conversation>(endpoints_, settings, conversation_of_.size(), first_answer,
                                                          servers, request_results_));
  conversation_of_.insert(conversation_of_.end(), servers, conversations_.back().get());
}

void Simulator::sample_queues(std::vector<std::uint32_t> links, Time interval) {
  check_set_up();
  for (std::uint32_t link : links) check_link(link);
  if (!links.empty() && interval == 0) throw std::invalid_argument("samples without time between them");
  sampler_.sample_queues(std::move(links), interval);
}

void Simulator::sample_windows(Time interval) {
  check_set_up();
  if (interval == 0) throw std::invalid_argument("samples without time between them");
  sampler_.sample_windows(interval);
}

void Simulator::record_departures(std::uint32_t link, std::uint64_t most) {
  check_set_up();
  check_link(link);
  fabric_.link(link).record_departures(most);
}

// Running.

void Simulator::begin() {
  fabric_.begin();
  endpoints_.begin();
  const auto by_time = [](const auto& a, const auto& b) { return a.at < b.at; };
  std::stable_sort(changes_.begin(), changes_.end(), by_time);
  std::stable_sort(link_uses_.begin(), link_uses_.end(), by_time);
  set_use_timer();
  set_change_timer();
  for (std::uint32_t flow = 0; flow < flows(); ++flow)
    if (endpoints_.flow(flow).start != never) starts_.push_back(flow);  // not those of programs
  std::stable_sort(starts_.begin(), starts_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return endpoints_.flow(a).start < endpoints_.flow(b).start;
  });
  set_start_timer();
  sampler_.begin();
}

void Simulator::set_start_timer() {
  if (next_start_ < starts_.size())
    schedule_.set_timer(endpoints_.flow(starts_[next_start_]).start, timer::flow_start, 0);
}

void Simulator::set_use_timer() {
  if (next_use_ < link_uses_.size())
    schedule_.set_timer(std::max(link_uses_[next_use_].at, now()), timer::routes_change, 0);
}

void Simulator::set_change_timer() {
  if (next_change_ < changes_.size())
    schedule_.set_timer(std::max(changes_[next_change_].at, now()), timer::link_changes, 0);
}

bool Simulator::run(std::uint64_t events) try {
  if (!schedule_.begun()) begin();
  for (; events > 0; --events) {
    if (schedule_.next_time() > end_) {
      schedule_.wait_until(end_);
      return true;
    }
    step();
  }
  return false;
} catch (...) {
  failed_ = true;
  throw;
}

// Every now and then: a deadline that is set to the present again and again would keep it there for ever.
void Simulator::check_time_passes() {
  const Time time = schedule_.next_time();
  if (time == looked_at_)
    throw Refusal(
        "time stands still at " + std::to_string(to_seconds(time)) + " s: " + next_event() + " comes again and again",
        "report this fault of the simulator, with the experiment (its to_json())");
  looked_at_ = time;
  look_later();
}

void Simulator::look_later() { next_look_ = schedule_.events() + most_events_at_a_time; }

std::string Simulator::next_event() const {
  const Schedule::Event event = schedule_.next();
  if (event.kind == Schedule::Event::Kind::arrival) return "an arrival over link " + std::to_string(event.link);
  if (event.kind == Schedule::Event::Kind::transmitter) return "the transmitter of link " + std::to_string(event.link);
  static constexpr const char* kinds[] = {"the start of a flow",     "the end of a flow",   "the timer of a sender",
                                          "the timer of a receiver", "the port of a host",  "a datagram",
                                          "a sample of queues",      "a sample of windows", "a change of a link",
                                          "a change of routes",      "a request",           "an answer"};
  const TimerHeap::Timer& first = schedule_.first_timer();
  std::string said = kinds[first.kind];
  if (first.kind == timer::sender_due || first.kind == timer::receiver_due)
    said += ", connection " + std::to_string(endpoints_.place_of(first.owner)) + " of flow " +
            std::to_string(flow_of(first.owner)) + ",";
  return said;
}

void Simulator::step() {
  if (schedule_.events() == next_look_) check_time_passes();
  const Schedule::Event event = schedule_.advance();
  switch (event.kind) {
    case Schedule::Event::Kind::arrival:
      if (const auto packet = fabric_.take_arrival(event.link)) deliver(*packet);
      break;
    case Schedule::Event::Kind::transmitter:
      fabric_.start_transmission(event.link);
      endpoints_.serve_port(event.link);
      break;
    case Schedule::Event::Kind::timer:
      on_timer(schedule_.take_timer());
      break;
  }
}

void Simulator::deliver(std::uint32_t packet) {
  if (!fabric_.packet(packet).has(Packet::posted)) return endpoints_.deliver(packet);
  news_.push_back({now(), News::Kind::datagram, packet});
  fabric_.give_back(packet);
}

void Simulator::on_timer(const TimerHeap::Timer& timer) {
  switch (timer.kind) {
    case timer::flow_start:
      looked_at_ = now();  // many may start at once
      look_later();
      endpoints_.start(starts_[next_start_++]);
      set_start_timer();
      break;
    case timer::flow_stop:
      endpoints_.stop(timer.owner);
      break;
    case timer::sender_due:
      endpoints_.on_sender_due(timer.owner, timer.time);
      break;
    case timer::receiver_due:
      endpoints_.on_receiver_due(timer.owner, timer.time);
      break;
    case timer::host_port_free:
      endpoints_.on_port_free(timer.owner, timer.time);
      break;
    case timer::datagram_due:
      endpoints_.send_datagram(timer.owner);
      break;
    case timer::queues_due:
      sampler_.take_queues();
      break;
    case timer::windows_due:
      sampler_.take_windows();
      break;
    case timer::link_changes: {
      const Fabric::LinkChange& change = changes_[next_change_++];
      fabric_.apply(change);
      endpoints_.look_again(change.link);
      set_change_timer();
      break;
    }
    case timer::routes_change:
      fabric_.routes().use(link_uses_[next_use_++].in_use);
      endpoints_.reroute();
      set_use_timer();
      break;
    case timer::request_due:
      conversation_of_[timer.owner]->ask(timer.owner);
      break;
    case timer::answer_due:
      conversation_of_[timer.owner]->send_answer(timer.owner);
      break;
  }
}
