#include "link_relay.hpp"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

namespace {

constexpr std::int64_t flush_interval_ns = 20'000'000, longest_wait_ns = 50'000'000;
// Looking for work takes less, and a tenth of a packet's time at 100 Mb/s is more.
constexpr std::int64_t interruption_ns = 10'000;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

}  // namespace

LinkRelay::LinkRelay(std::vector<Direction> directions, std::uint64_t seed, Shared* shared, int most_sockets,
                     int sample_descriptor)
    : shared_(shared),
      sample_descriptor_(sample_descriptor),
      most_sockets_(static_cast<std::size_t>(std::max(most_sockets, 1))) {
  std::int64_t shortest = never;
  bool some_may_not_wait = false;
  for (std::size_t i = 0; i < directions.size(); ++i) {
    line_from_[directions[i].from_interface] = i;
    const std::int64_t delay = directions[i].delay_ns, jitter = directions[i].jitter_ns;
    if (delay > 0) shortest = std::min(shortest, delay);
    some_may_not_wait |= delay == 0 || 2 * jitter > delay;
    lines_.push_back({std::move(directions[i]), RandomStream(seed, i), {}});
    Direction& kept = lines_.back().direction;
    lines_.back().rate = kept.rate;
    if (kept.queue && kept.queue->paces()) paced_.push_back(i);
    if (kept.memory) kept.memory->ports.push_back(&*kept.queue);
  }
  // A period of 1 ms at most, so that the ring holds what can arrive within it.
  scan_period_ns_ = std::min<std::int64_t>(shortest / 2, 1'000'000);
  quantum_ns_ = std::min<std::int64_t>(shortest / 20, 100'000);
  if (some_may_not_wait) scan_period_ns_ = quantum_ns_ = 0;  // wake for packets
  if (!paced_.empty()) departure_wait_ = DepartureWait::make();
  open_sender();
}

LinkRelay::~LinkRelay() {
  for (int sender : senders_) close(sender);
}

std::int64_t LinkRelay::now_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);  // the clock of packet stamps
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// The clock. Where it jumps between two looks without work between them, something else ran on this processor.
std::int64_t LinkRelay::look() {
  const std::int64_t now = now_ns();
  if (looked_ != 0) note_interruption(now, now - looked_);
  return looked_ = now;
}

void LinkRelay::note_interruption(std::int64_t end_ns, std::int64_t ns) {
  if (ns > interruption_ns && __atomic_load_n(&shared_->sample_every, __ATOMIC_RELAXED) != 0)
    samples_.push_back({end_ns, interrupted, ns, 0});
}

void LinkRelay::open_sender() {
  const int sender = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (sender < 0) fail("packet socket");
  senders_.push_back(sender);
  sender_ = senders_.size() - 1;
  shared_->sockets = senders_.size();
}

// From the ring to its line.
void LinkRelay::take_in(const PacketRing::Arrival& arrival) {
  looked_ = 0;
  const auto place = line_from_.find(arrival.interface);
  if (place == line_from_.end()) return;
  Line& line = lines_[place->second];
  Counters& counters = shared_->directions[place->second].counters;
  ++counters.received;
  if (line.direction.loss > 0 && line.random.uniform() < line.direction.loss) {
    ++counters.lost;
  } else if (!arrival.whole) {
    ++counters.failed;  // larger than a frame: not a packet of these networks
  } else {
    auto bytes = std::make_unique_for_overwrite<unsigned char[]>(arrival.size);
    std::memcpy(bytes.get(), arrival.bytes, arrival.size);
    hold(line, {release_time(line, arrival.stamp_ns, arrival.size), arrival.size, std::move(bytes)});
  }
}

// Jitter from a bell, never below no delay; nobody overtakes but by reordering. A packet has been sent as a whole then:
// a kernel's shaper lets one that finds it idle pass at once.
std::int64_t LinkRelay::release_time(Line& line, std::int64_t arrival, std::uint32_t size) {
  const Direction& direction = line.direction;
  std::int64_t delay = direction.delay_ns;
  if (direction.jitter_ns > 0)
    delay += static_cast<std::int64_t>(line.random.bell() * static_cast<double>(direction.jitter_ns));
  const auto sending = static_cast<std::int64_t>(size * 8e9 / static_cast<double>(line.rate));
  line.last_release = std::max(line.last_release, arrival + std::max<std::int64_t>(delay, 0) + sending);
  if (direction.reordering > 0 && line.random.uniform() < direction.reordering)
    return line.last_release + direction.reordering_ns;
  return line.last_release;
}

void LinkRelay::hold(Line& line, RelayedPacket packet) {
  auto place = line.held.end();
  while (place != line.held.begin() && std::prev(place)->release_ns > packet.release_ns) --place;
  line.held.insert(place, std::move(packet));
}

std::int64_t LinkRelay::earliest_release() const {
  std::int64_t earliest = never;
  for (const Line& line : lines_) {
    if (!line.held.empty()) earliest = std::min(earliest, line.held.front().release_ns);
    if (line.direction.queue) earliest = std::min(earliest, line.direction.queue->next_work());
  }
  return earliest;
}

void LinkRelay::release_due(std::int64_t now) {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    Line& line = lines_[i];
    std::optional<RelayQueue>& queue = line.direction.queue;
    follow_rate(i, now);
    if (queue) queue->wake(now);
    while (!line.held.empty() && line.held.front().release_ns <= now) {
      RelayedPacket packet = std::move(line.held.front());
      line.held.pop_front();
      shared_->lateness.add(now - packet.release_ns);
      if (queue) {
        const std::int64_t arrived = packet.release_ns;
        work_queue(i, arrived);
        queue->offer(std::move(packet), arrived);
      } else {
        send(packet, line.direction.to_interface, shared_->directions[i].counters);
        pace();
      }
    }
    if (queue) {
      work_queue(i, now);
      if (queue->wants_correction(now)) {
        looked_ = 0;
        const std::int64_t bytes = backlog_.bytes(line.direction.to_interface);
        if (bytes >= 0) queue->correct(bytes, now_ns());
      }
    }
  }
  if (!samples_.empty() && now >= last_flush_ + flush_interval_ns) flush_samples();
}

void LinkRelay::follow_rate(std::size_t number, std::int64_t now) {
  const std::uint64_t asked = __atomic_load_n(&shared_->directions[number].asked_rate, __ATOMIC_RELAXED);
  if (asked == 0 || asked == lines_[number].rate) return;
  lines_[number].rate = asked;
  if (lines_[number].direction.queue) lines_[number].direction.queue->set_rate(static_cast<double>(asked), now);
}

// Lets the queue's time pass until `time`.
void LinkRelay::work_queue(std::size_t number, std::int64_t time) {
  Line& line = lines_[number];
  Counters& counters = shared_->directions[number].counters;
  sample_until(number, time);
  line.direction.queue->advance(
      time, [&](const RelayedPacket& packet) { send(packet, line.direction.to_interface, counters); });
  counters.dropped_by_rule = line.direction.queue->counts().dropped;
  counters.marked = line.direction.queue->counts().marked;
}

void LinkRelay::sample_until(std::size_t number, std::int64_t time) {
  const std::int64_t every = __atomic_load_n(&shared_->sample_every, __ATOMIC_RELAXED);
  std::int64_t& next = lines_[number].next_sample;
  if (every == 0) {
    next = 0;
    return;
  }
  if (next == 0) next = (time / every + 1) * every;
  for (; next <= time; next += every) {
    const Backlog waiting = lines_[number].direction.queue->waiting(next);
    samples_.push_back({next, static_cast<std::int64_t>(number), static_cast<std::int64_t>(waiting.packets),
                        static_cast<std::int64_t>(waiting.bytes)});
  }
}

void LinkRelay::flush_samples() {
  looked_ = 0;
  last_flush_ = now_ns();
  shared_->missed += ring_.take_missed();  // while packets are paced nobody else asks
  const std::size_t size = samples_.size() * sizeof(Sample);
  if (write(sample_descriptor_, samples_.data(), size) != static_cast<ssize_t>(size)) fail("writing samples");
  samples_.clear();
}

// One call a packet: sendmmsg does not tell that the queue dropped a packet in the middle, and would send it again.
void LinkRelay::send(const RelayedPacket& packet, int interface, Counters& counters) {
  looked_ = 0;
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = interface;
  to.sll_halen = ETH_ALEN;
  std::memcpy(to.sll_addr, packet.bytes.get(), ETH_ALEN);
  std::memcpy(&to.sll_protocol, packet.bytes.get() + 12, 2);
  std::size_t full = 0;
  for (;;) {
    const ssize_t sent = sendto(senders_[sender_], packet.bytes.get(), packet.size, 0,
                                reinterpret_cast<const sockaddr*>(&to), sizeof to);
    if (sent >= 0) {
      ++counters.forwarded;
    } else if (errno == EAGAIN && ++full < senders_.size()) {
      sender_ = (sender_ + 1) % senders_.size();
      continue;
    } else if (errno == EAGAIN && senders_.size() < most_sockets_) {
      open_sender();
      continue;
    } else if (errno == ENOBUFS) {
      ++counters.dropped_by_queue;
    } else {
      ++counters.failed;
    }
    return;
  }
}

void LinkRelay::run() {
  prctl(PR_SET_TIMERSLACK, 1UL);  // a thread's timers are otherwise up to 50 us late on purpose
  const auto take = [&](const PacketRing::Arrival& arrival) { take_in(arrival); };
  for (;;) {
    pace();
    release_due(look());
    if (paces_now()) {
      ring_.drain(take, 1);  // more of them would make what is due late
    } else {
      shared_->missed += ring_.take_missed();
      sleep();
      ring_.drain(take);
    }
  }
}

// Lets paced packets go that are due, or will be so soon that other work would make them late.
void LinkRelay::pace() {
  for (std::size_t number : paced_) {
    RelayQueue& queue = *lines_[number].direction.queue;
    const std::int64_t due = queue.next_work();
    std::int64_t now = look();
    if (due - now > queue.alone_ns()) continue;
    const bool waits = departure_wait_ && departure_wait_->attach(lines_[number].direction.to_interface);
    const std::int64_t go = waits ? due - std::min(DepartureWait::lead_ns, queue.alone_ns()) : due;
    while (now < go) now = look();
    const std::uint64_t& forwarded = shared_->directions[number].counters.forwarded;
    const std::uint64_t before = forwarded;
    if (waits) departure_wait_->expect(due, now);
    queue.wake(now);
    work_queue(number, std::max(now, due));
    if (!waits) continue;
    shared_->waited += forwarded - before;
    const DepartureWait::Seen seen = departure_wait_->finish();
    queue.departed(seen.left_ns);
    note_interruption(seen.gap_end_ns, seen.gap_ns);
  }
}

// Whether a packet waits until it is due. A sleep would end late by tens of us, on virtual machines by more.
bool LinkRelay::paces_now() const {
  return std::any_of(paced_.begin(), paced_.end(),
                     [&](std::size_t number) { return lines_[number].direction.queue->next_work() != never; });
}

// Until something is to be done.
void LinkRelay::sleep() {
  looked_ = 0;
  const std::int64_t release = earliest_release(), now = now_ns();
  if (release == never || scan_period_ns_ == 0) {
    // Nothing is held, or nothing may wait: sleep until a packet comes, or is due, or a sample is.
    ring_.wait(std::clamp<std::int64_t>(release - now, 0, longest_wait_ns));
  } else {
    const std::int64_t wake = std::min(now + scan_period_ns_, std::max(release, now + quantum_ns_));
    const timespec until{wake / 1'000'000'000, wake % 1'000'000'000};
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, nullptr);
  }
}
