// The receiving half of a TCP connection: puts bytes in order, and decides when to acknowledge and with what.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "packet.hpp"
#include "simulated_time.hpp"
#include "tcp_settings.hpp"

class TcpReceiver {
 public:
  // whole_segments: a shorter segment takes the sequence numbers of a full one.
  TcpReceiver(const TcpSettings& settings, bool precise_ecn, bool whole_segments)
      : segment_bytes_(settings.segment_bytes),
        delay_(settings.acknowledgement_delay),
        whole_segments_(whole_segments),
        precise_ecn_(precise_ecn) {}

  // DCTCP (RFC 8257, 3.2): before marks begin or end, what was held back is acknowledged as it was.
  bool must_acknowledge_before(const Packet& packet) const {
    return precise_ecn_ && held_back_ > 0 && packet.has(Packet::congestion_experienced) != echo_;
  }

  // True when an acknowledgement is due at once; else one is due at deadline().
  bool take(const Packet& packet, Time now) {
    bool at_once = delay_ == 0;
    if (precise_ecn_) {
      at_once |= packet.has(Packet::congestion_experienced) != echo_;
      echo_ = packet.has(Packet::congestion_experienced);
    } else {  // RFC 3168: echo until the sender says that it has slowed down
      if (packet.has(Packet::congestion_window_reduced)) echo_ = false;
      echo_ |= packet.has(Packet::congestion_experienced);
    }
    const std::uint64_t start = packet.sequence, end = start + (whole_segments_ ? segment_bytes_ : packet.length);
    duplicate_seen_ = end <= next_;
    if (start > next_) {
      keep(start, end);
      at_once = true;
      quick_ = quick_at_start;
    } else {
      at_once |= end <= next_ || !beyond_.empty();  // a copy, or a hole that is filled
      next_ = std::max(next_, end);
      while (!beyond_.empty() && beyond_.front().start <= next_) {
        next_ = std::max(next_, beyond_.front().end);
        beyond_.erase(beyond_.begin());
      }
    }
    // Linux: the first segments one by one, then every second full one.
    held_back_ += packet.length;
    if (quick_ > 0) --quick_, at_once = true;
    at_once |= held_back_ >= 2 * segment_bytes_;
    if (!at_once && deadline_ == never) deadline_ = now + delay_;
    return at_once;
  }

  // Fills in an acknowledgement of what is held now.
  void acknowledge(Packet& packet, bool selective) {
    packet.sequence = next_;
    packet.length = 0;
    packet.flags = static_cast<std::uint16_t>(Packet::acknowledgement | (echo_ ? Packet::congestion_echo : 0) |
                                              (duplicate_seen_ ? Packet::duplicate_seen : 0));
    duplicate_seen_ = false;
    packet.blocks = 0;
    if (selective && !beyond_.empty()) add_blocks(packet);
    held_back_ = 0;
    deadline_ = never;
  }

  Time deadline() const { return deadline_; }
  std::uint64_t in_order() const { return next_; }

 private:
  struct Range {
    std::uint64_t start, end;
  };
  static constexpr int quick_at_start = 16;

  // Merges a range into those beyond the first hole; it is the most recent.
  void keep(std::uint64_t start, std::uint64_t end) {
    auto at = std::lower_bound(beyond_.begin(), beyond_.end(), start,
                               [](const Range& range, std::uint64_t value) { return range.end < value; });
    if (at == beyond_.end() || at->start > end) {
      at = beyond_.insert(at, {start, end});
    } else {
      at->start = std::min(at->start, start);
      at->end = std::max(at->end, end);
      const auto after = at + 1;
      auto last = after;
      while (last != beyond_.end() && last->start <= at->end) at->end = std::max(at->end, (last++)->end);
      beyond_.erase(after, last);
    }
    const std::uint64_t newest = at->start;
    // Recent ranges are remembered by a byte in them: ranges grow and merge, the byte stays inside.
    int kept = 1;
    std::uint64_t recent[3] = {newest};
    for (int i = 0; i < recent_count_ && kept < 3; ++i) {
      const Range* range = holding(recent_[i]);
      if (range && std::none_of(recent, recent + kept, [&](std::uint64_t byte) { return holding(byte) == range; }))
        recent[kept++] = recent_[i];
    }
    std::copy_n(recent, kept, recent_);
    recent_count_ = kept;
  }

  const Range* holding(std::uint64_t byte) const {
    const auto at = std::upper_bound(beyond_.begin(), beyond_.end(), byte,
                                     [](std::uint64_t value, const Range& range) { return value < range.end; });
    return at != beyond_.end() && at->start <= byte ? &*at : nullptr;
  }

  void add_blocks(Packet& packet) const {
    for (int i = 0; i < recent_count_; ++i)
      if (const Range* range = holding(recent_[i]))
        packet.selective[packet.blocks++] = {static_cast<std::uint32_t>(range->start - next_),
                                             static_cast<std::uint32_t>(range->end - next_)};
  }

  std::uint32_t segment_bytes_;
  Time delay_, deadline_ = never;
  bool whole_segments_, precise_ecn_, echo_ = false, duplicate_seen_ = false;
  int quick_ = quick_at_start;
  std::uint64_t next_ = 0, held_back_ = 0;
  std::vector<Range> beyond_;
  std::uint64_t recent_[3] = {};
  int recent_count_ = 0;
};
