#include "simulation/simulator.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/refusal.hpp"
#include "simulation/replicated_flow.hpp"
#include "simulation/subflows.hpp"
#include "simulation/timer_kind.hpp"

Simulator::Simulator(const Settings& settings, std::size_t nodes)
    : end_(settings.end),
      random_(settings.seed),
      fabric_(schedule_, random_, {settings.clock_skew, settings.segment_bytes, settings.header_bytes}, nodes),
      endpoints_(fabric_, schedule_, random_),
      sampler_(endpoints_) {}

Simulator::Turn::Turn(const Simulator& simulator) : simulator_(simulator) {
  if (simulator.in_use_.exchange(true))
    throw Refusal("a simulator in use, by another thread or from inside its own run", "use it when that has ended");
  if (!simulator.failed_) return;
  simulator.in_use_ = false;
  throw Refusal("a simulator whose run has failed", "build another one");
}

// Setting up.

std::uint32_t Simulator::add_link(const Fabric::LinkSettings& link, const std::string& rule,
                                  const std::vector<double>& numbers) {
  const std::uint32_t number = fabric_.add_link(link, rule, numbers);
  endpoints_.add_port(link.room, link.burst_bytes);
  return number;
}

void Simulator::use_links(Time from, std::vector<bool> in_use) {
  schedule_.check_set_up();
  if (in_use.size() != links().size()) throw std::invalid_argument("not a flag for each link");
  link_uses_.push_back({from, std::move(in_use)});
}

void Simulator::change_link(const Fabric::LinkChange& change) {
  schedule_.check_set_up();
  fabric_.check_change(change);
  changes_.push_back(change);
}

void Simulator::offer_rates(const RcpLink::Settings& rcp) { fabric_.offer_rates(rcp); }
void Simulator::give_feedback(const XcpLink::Settings& xcp) { fabric_.give_feedback(xcp); }

void Simulator::add_tcp(std::uint32_t from, std::uint32_t to, Time start, std::uint64_t bytes, Time duration,
                        MakeControl control, std::shared_ptr<const TcpSettings> tcp) {
  fabric_.check_ends(from, to);
  endpoints_.add_flow({from, to, start, duration, bytes, control, true, false, 0, std::move(tcp)});
}

void Simulator::add_datagrams(std::uint32_t from, std::uint32_t to, Time start, Time duration, double rate,
                              std::uint32_t bytes, bool poisson) {
  fabric_.check_ends(from, to);
  if (!(rate > 0) || bytes == 0) throw std::invalid_argument("datagrams without rate or bytes");
  const Time gap = from_seconds(8 * bytes / rate);
  endpoints_.add_flow({from, to, start, duration, bytes, nullptr, false, poisson, gap, nullptr});
}

void Simulator::replicate(std::uint32_t flow, Replication replication, bool same_path) {
  if (replication == Replication::repsyn)
    endpoints_.new_group<RepSyn>(flow);
  else
    endpoints_.new_group<RepFlow>(flow);
  endpoints_.add_companion(flow, 1, same_path, false);
}

void Simulator::split(std::uint32_t flow, std::uint32_t subflows) {
  endpoints_.new_group<Subflows>(flow, subflows);
  for (std::uint32_t place = 1; place < subflows; ++place) endpoints_.add_companion(flow, place, false, false);
}

void Simulator::request(std::uint32_t first_answer, std::uint32_t servers, const RequestRounds::Settings& settings) {
  if (servers < 1 || servers > flows() || first_answer > flows() - servers)
    throw std::out_of_range("answers beyond the last flow");
  for (std::uint32_t i = 0; i < servers; ++i) endpoints_.check_without_group(first_answer + i);
  conversations_.push_back(std::make_unique<Conversation>(endpoints_, settings, conversation_of_.size(), first_answer,
                                                          servers, request_results_));
  conversation_of_.insert(conversation_of_.end(), servers, conversations_.back().get());
}

void Simulator::become_part(const std::vector<bool>& own_nodes) {
  if (fabric_.answers_packets()) throw std::invalid_argument("links with RCP or XCP, whose controls know both ends");
  schedule_.order_by_owner();
  endpoints_.divide(own_nodes);
  fabric_.spray_by_node();
  sampler_.keep_queues_of(own_nodes);
}

void Simulator::count_since(Time time) {
  schedule_.check_set_up();
  counts_since_ = time;
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
    if (endpoints_.flow(flow).start != never && endpoints_.has_part_of(flow))  // not those of programs
      starts_.push_back(flow);
  std::stable_sort(starts_.begin(), starts_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return endpoints_.flow(a).start < endpoints_.flow(b).start;
  });
  set_start_timer();
  sampler_.begin();
  if (counts_since_ > 0) schedule_.set_timer(counts_since_, timer::counting_begins, 0);
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

std::vector<SimulatedLink::Counts> Simulator::link_counts() const {
  std::vector<SimulatedLink::Counts> counts;
  counts.reserve(links().size());
  for (const auto& link : links()) counts.push_back(link.counts(now()));
  return counts;
}

void Simulator::refuse_to_stand_still() const {
  throw Refusal(
      "time stands still at " + std::to_string(to_seconds(now())) + " s: " + next_event() + " comes again and again",
      "report this fault of the simulator, with the experiment (its to_json())");
}

std::string Simulator::next_event() const {
  const Schedule::Event event = schedule_.next();
  if (event.kind == Schedule::Event::Kind::arrival) return "an arrival over link " + std::to_string(event.link);
  if (event.kind == Schedule::Event::Kind::transmitter) return "the transmitter of link " + std::to_string(event.link);
  const TimerHeap::Timer& next = schedule_.next_timer();
  std::string name = timer::names[next.kind];
  if (next.kind == timer::sender_due || next.kind == timer::receiver_due)
    name += ", connection " + std::to_string(endpoints_.place_of(next.owner)) + " of flow " +
            std::to_string(endpoints_.flow_of(next.owner)) + ",";
  return name;
}

void Simulator::step() {
  check_time_passes();
  const Schedule::Event event = schedule_.advance();
  switch (event.kind) {
    case Schedule::Event::Kind::arrival:
      if (const auto packet = fabric_.take_arrival(event.link); packet != Fabric::no_packet) deliver(packet);
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
      schedule_.allow_many_events();  // many flows may start at once
      endpoints_.start(starts_[next_start_++]);
      set_start_timer();
      break;
    case timer::flow_follows:
      endpoints_.start(timer.owner);
      break;
    case timer::receiver_ends:
      endpoints_.end_receiver(timer.owner);
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
      conversation_of_[timer.owner]->answer(timer.owner);
      break;
    case timer::counting_begins:
      before_ = counts();
      break;
  }
}
