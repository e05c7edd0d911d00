// The receiving half of a TCP connection: puts bytes in order, and decides when to acknowledge and with what.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/simulated_time.hpp"
#include "network/packet.hpp"
#include "tcp/accurate_ecn.hpp"
#include "tcp/receive_window.hpp"
#include "tcp/tcp_settings.hpp"

class TcpReceiver {
 public:
  // whole_segments: a shorter segment takes the sequence numbers of a full one.
  TcpReceiver(const TcpSettings& settings, bool precise_ecn, bool whole_segments)
      : segment_bytes_(settings.segment_bytes),
        delay_(settings.acknowledgement_delay),
        whole_segments_(whole_segments),
        selective_(settings.selective),
        precise_ecn_(precise_ecn && settings.receiver_ecn == ReceiverEcn::accurate),
        knows_of_ecn_(settings.receiver_ecn),
        policy_(settings.receiver),
        count_(settings.receiver_count),
        interval_(settings.receiver_interval),
        claims_(settings.segment_bytes - settings.boundary_spread_bytes),
        window_(settings.segment_bytes, settings.receive_window_bytes, settings.offers_all) {}

  // With DCTCP (RFC 8257, 3.2), segments that were held back are acknowledged before marks begin or end. Segments with
  // a compressed acknowledgement are acknowledged before there are more holes than it could report.
  bool must_acknowledge_before(const Packet& packet) const {
    return (precise_ecn_ && !accurate_ && held_back_ > 0 && packet.has(Packet::congestion_experienced) != echo_) ||
           (compressed_ > 0 && packet.sequence > next_ && blocks_before(packet) >= blocks_expected);
  }

  // Only the handshake gives Linux's receiver a round trip like that of a sender. Here it ends when data come. Returns
  // what the answer says of ECN, to a SYN that asks for this.
  std::uint8_t answer_syn(std::uint8_t asked, Time now) {
    answered_at_ = now;
    if (asked == accurate_ecn::no_ecn || knows_of_ecn_ == ReceiverEcn::none) return accurate_ecn::no_ecn;
    accurate_ = asked == accurate_ecn::ask && knows_of_ecn_ == ReceiverEcn::accurate;
    return accurate_ ? accurate_ecn::answer : accurate_ecn::classic_answer;
  }

  // True when an acknowledgement is due at once; else one is due at deadline().
  bool take(const Packet& packet, Time now) {
    if (answered_at_ != never) handshake_ = now - std::exchange(answered_at_, never);
    window_.measure(packet.length, packet.echo_ms, now);
    bool at_once = delay_ == 0 || policy_ != ReceiverPolicy::honest;
    if (accurate_) {
      at_once |= marks_.count(packet.has(Packet::congestion_experienced));
    } else if (precise_ecn_) {
      at_once |= packet.has(Packet::congestion_experienced) != echo_;
      echo_ = packet.has(Packet::congestion_experienced);
    } else {  // RFC 3168: echo until the sender says that it has slowed down
      if (packet.has(Packet::congestion_window_reduced)) echo_ = false, at_once = true;  // its window may be small
      const bool marked = packet.has(Packet::congestion_experienced), capable = packet.has(Packet::ecn_capable);
      // Linux acknowledges the first mark at once, and a packet without ECN among others, probably sent again.
      if ((marked && !echo_) || (!capable && capable_seen_)) quick_ = std::max(quick_, quick_after_mark);
      capable_seen_ |= capable;
      echo_ |= marked;
    }
    const std::uint64_t start = packet.sequence, end = end_of(packet);
    const std::uint64_t before = next_;
    const bool had_holes = !beyond_.empty();
    const std::uint64_t held_before = window_.grows() ? held() : 0;
    const bool is_old = end <= next_;
    if (is_old || holds(start, end)) duplicate_seen_ = true, duplicate_end_ = end;
    if (start <= acknowledged_) echo_ms_ = std::max(echo_ms_, packet.stamp_ms);
    if (start > next_) {
      keep(start, end);
    } else {
      next_ = std::max(next_, end);
      while (!beyond_.empty() && beyond_.front().start <= next_) {
        next_ = std::max(next_, beyond_.front().end);
        beyond_.erase(beyond_.begin());
      }
      held_back_ += packet.length;
    }
    // Linux acknowledges the first segments one by one, and those that let the window grow; then every second full one.
    if (is_old) quick_ = quick_at_most;
    const bool in_order = next_ > before;
    if ((in_order ? packet.length >= least_to_grow : selective_ && !is_old) && window_.grow(in_order, held_before))
      quick_ |= 1;
    window_.read(before, next_, now);
    if (quick_ > 0) --quick_, at_once = true;
    if (optimistic()) return begin_to_claim(is_old, now);
    at_once |= (had_holes && beyond_.empty()) || std::max(held_back_, next_ - before) > segment_bytes_;
    if (at_once) return true;
    if (!beyond_.empty()) return !may_compress(now);
    deadline_ = std::min(deadline_, now + delay_);
    return false;
  }

  // How many acknowledgements a receiver sends for what it has to report now; an honest one sends one.
  std::uint32_t answers() const {
    const std::uint64_t news = next_ - acknowledged_;
    if (policy_ == ReceiverPolicy::ack_division && news > 0)
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(count_, news));
    const bool spoofs = policy_ == ReceiverPolicy::duplicate_spoofing ||
                        (policy_ == ReceiverPolicy::first_duplicate_spoofing && acknowledged_ == 0);
    return spoofs && news > 0 ? 1 + count_ : 1;
  }
  // Fills in the first, second, ... of these acknowledgements.
  void acknowledge(Packet& packet, std::uint32_t answer, std::uint32_t answers) {
    if (policy_ == ReceiverPolicy::ack_division && answer < answers) return acknowledge_part(packet, answer, answers);
    acknowledge(packet);
    if (optimistic()) claim(packet);
  }

  bool optimistic() const { return policy_ == ReceiverPolicy::optimistic; }
  // Claims one more segment, when it is time.
  void claim_more() {
    claimed_ = std::max(claimed_, next_) + claims_;
    claim_at_ += interval_;
  }

  // Fills in an acknowledgement of what is held now.
  void acknowledge(Packet& packet) {
    packet.sequence = next_;
    packet.flags = static_cast<std::uint16_t>(Packet::acknowledgement | (echo_ ? Packet::congestion_echo : 0) |
                                              (selective_ && duplicate_seen_ ? Packet::duplicate_seen : 0));
    if (accurate_) packet.ace = marks_.tell();
    packet.echo_ms = echo_ms_;
    packet.duplicate_end = static_cast<std::int32_t>(duplicate_end_ - next_);
    duplicate_seen_ = false;
    acknowledged_ = next_;
    packet.blocks = 0;
    if (selective_ && !beyond_.empty()) add_blocks(packet, packet.has(Packet::duplicate_seen) ? 1 : 0);
    held_back_ = 0;
    compressed_ = 0;
    deadline_ = never;
  }

  Time deadline() const { return deadline_; }
  std::uint64_t in_order() const { return next_; }

 private:
  struct Range {
    std::uint64_t start, end;
  };
  std::uint64_t end_of(const Packet& packet) const {
    return packet.sequence + (whole_segments_ ? segment_bytes_ : packet.length);
  }

  std::uint64_t held() const {
    std::uint64_t bytes = 0;
    for (const Range& range : beyond_) bytes += range.end - range.start;
    return bytes;
  }

  static constexpr std::uint32_t least_to_grow = 128;  // bytes
  // Linux's TCP_MAX_QUICKACKS, TCP_FASTRETRANS_THRESH, TCP_SACK_BLOCKS_EXPECTED, net.ipv4.tcp_comp_sack_nr, _delay_ns,
  // _slack_ns.
  static constexpr int quick_at_most = 16, quick_after_mark = 2, duplicates_at_once = 3;
  static constexpr int blocks_expected = 2, compressed_at_most = 44;
  static constexpr Time compressed_for = picoseconds_per_second / 1000;
  static constexpr Time compressed_slack = compressed_for / 10;  // how late its timer may be; and is, if nothing wakes
  static constexpr Time compressed_share_of_round_trip = 20;

  // Acknowledges a part of what is new, and nothing beyond it.
  void acknowledge_part(Packet& packet, std::uint32_t answer, std::uint32_t answers) {
    packet.sequence = acknowledged_ + (next_ - acknowledged_) * answer / answers;
    packet.flags = static_cast<std::uint16_t>(Packet::acknowledgement | (echo_ ? Packet::congestion_echo : 0));
    if (accurate_) packet.ace = marks_.tell();
    packet.echo_ms = echo_ms_;
    packet.duplicate_end = 0;
    packet.blocks = 0;
  }

  // The first segment begins the claims. A segment that is there already shows that the sender waits in vain: it had
  // not sent what was claimed.
  bool begin_to_claim(bool is_old, Time now) {
    const bool begins = claim_at_ == never;
    if (begins) claim_at_ = now;
    if (begins || is_old) claimed_ = next_, claim_at_ += interval_;
    deadline_ = claim_at_;
    return begins || is_old;
  }
  // Claims data, and says nothing of holes.
  void claim(Packet& packet) {
    packet.sequence = std::max(claimed_, next_);
    packet.flags &= static_cast<std::uint16_t>(~Packet::duplicate_seen);
    if (packet.sequence > next_) packet.flags |= Packet::unproven;
    packet.blocks = 0;
    deadline_ = claim_at_;
  }

  // How many blocks are more recent than the one that this segment extends; if it begins one, how many there are.
  int blocks_before(const Packet& packet) const {
    int known = 0;
    for (int i = 0; i < recent_count_; ++i)
      if (const Range* range = holding(recent_[i])) {
        if (packet.sequence <= range->end && end_of(packet) >= range->start) break;
        ++known;
      }
    return known;
  }

  // Beyond a hole: whether this segment's acknowledgement may wait until deadline(), together with those of the next.
  bool may_compress(Time now) {
    if (!selective_ || compressed_ >= compressed_at_most) return false;
    if (hole_at_ != next_) hole_at_ = next_, duplicates_ = 0;
    if (duplicates_ < duplicates_at_once) return ++duplicates_, false;
    const Time share = std::min(window_.round_trip(), handshake_) / compressed_share_of_round_trip;
    if (compressed_++ == 0) deadline_ = std::min(deadline_, now + std::min(compressed_for, share) + compressed_slack);
    return true;
  }

  // Merges a range into those beyond the first hole; it becomes the most recent one.
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
    std::uint64_t recent[most_recent] = {newest};
    for (int i = 0; i < std::min(recent_count_, most_recent) && kept < most_recent; ++i) {
      const Range* range = holding(recent_[i]);
      if (range && std::none_of(recent, recent + kept, [&](std::uint64_t byte) { return holding(byte) == range; }))
        recent[kept++] = recent_[i];
    }
    std::copy_n(recent, kept, recent_);
    recent_count_ = kept;
  }

  bool holds(std::uint64_t start, std::uint64_t end) const {
    const Range* range = beyond_.empty() ? nullptr : holding(start);
    return range && end <= range->end;
  }

  const Range* holding(std::uint64_t byte) const {
    const auto at = std::upper_bound(beyond_.begin(), beyond_.end(), byte,
                                     [](std::uint64_t value, const Range& range) { return value < range.end; });
    return at != beyond_.end() && at->start <= byte ? &*at : nullptr;
  }

  // taken: how many blocks a duplicate takes.
  void add_blocks(Packet& packet, int taken) const {
    for (int i = 0; i < std::min(recent_count_, most_recent - taken); ++i)
      if (const Range* range = holding(recent_[i]))
        packet.selective[packet.blocks++] = {static_cast<std::uint32_t>(range->start - next_),
                                             static_cast<std::uint32_t>(range->end - next_)};
  }

  std::uint32_t segment_bytes_;
  Time delay_, deadline_ = never, answered_at_ = never, handshake_ = never;
  bool whole_segments_, selective_, precise_ecn_, echo_ = false, capable_seen_ = false, duplicate_seen_ = false;
  ReceiverEcn knows_of_ecn_;
  bool accurate_ = false;  // AccECN is agreed
  accurate_ecn::MarkCounter marks_;
  ReceiverPolicy policy_;
  std::uint32_t count_;
  Time interval_, claim_at_ = never;
  std::uint32_t claims_;  // bytes at a time: of a segment, on average where segments vary
  std::uint64_t claimed_ = 0;
  int quick_ = quick_at_most, duplicates_ = 0, compressed_ = 0;
  ReceiveWindow window_;
  std::uint64_t next_ = 0, held_back_ = 0, hole_at_ = 0, duplicate_end_ = 0;
  std::uint64_t acknowledged_ = 0;  // what the last acknowledgement told
  std::uint32_t echo_ms_ = 0;       // stamp of the oldest segment that it did not cover
  std::vector<Range> beyond_;
  static constexpr int most_recent = 3;  // as many blocks as an acknowledgement has room for
  std::uint64_t recent_[most_recent] = {};
  int recent_count_ = 0;
};
