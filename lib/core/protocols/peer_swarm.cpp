#include "protocols/peer_swarm.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <utility>

namespace {
constexpr double never = std::numeric_limits<double>::infinity();
constexpr double least_pause_s = 1;  // between two questions of an idle peer
constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

void set_bit(std::vector<std::uint64_t>& bits, std::uint32_t place) {
  bits[place / 64] |= std::uint64_t{1} << place % 64;
}
}  // namespace

PeerSwarm::PeerSwarm(std::vector<Peer> peers, std::uint32_t pieces, std::uint32_t blocks_per_piece, double block_bytes,
                     std::uint64_t seed)
    : peers_(std::move(peers)),
      pieces_(pieces),
      blocks_per_piece_(blocks_per_piece),
      block_bytes_(block_bytes),
      words_((pieces + 63) / 64),
      random_(seed, 0),
      copies_(pieces, 0),
      is_present_(peers_.size(), 1),
      is_sending_(peers_.size(), 0),
      will_ask_(peers_.size(), 0),
      filled_(peers_.size(), never),
      asked_(peers_.size(), -least_pause_s),
      slots_(peers_.size()),
      tag_(peers_.size(), 0),
      transfer_(peers_.size()),
      sent_(peers_.size(), 0),
      received_(peers_.size(), std::vector<double>(peers_.size(), 0)) {
  if (peers_.empty() || !pieces || !blocks_per_piece || !(block_bytes > 0))
    throw std::invalid_argument("a swarm needs peers, pieces and blocks");
  std::uint32_t owners = 0;
  for (const Peer& peer : peers_) {
    if (!(peer.round_s > 0) || peer.upload_bytes_per_s < 0 || peer.owner >= peers_.size())
      throw std::invalid_argument("a peer needs a round of more than 0 s, a rate of at least 0 and an owner");
    owners = std::max(owners, peer.owner + 1);
  }
  owners_.resize(owners);
  for (Owner& owner : owners_) {
    owner.have = owner.begun = owner.begun_by_seed = owner.assigned = std::vector<std::uint64_t>(words_, 0);
    owner.blocks_assigned = owner.blocks_done = std::vector<std::uint32_t>(pieces_, 0);
    owner.complete_s = never;
  }
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    Owner& owner = owners_[peers_[i].owner];
    owner.identities.push_back(i);
    if (peers_[i].is_seed && owner.complete_pieces == 0) {
      for (std::uint32_t piece = 0; piece < pieces_; ++piece) {
        set_bit(owner.have, piece);
        set_bit(owner.assigned, piece);
        ++copies_[piece];
      }
      owner.complete_pieces = pieces_;
      owner.complete_s = 0;
    }
    if (peers_[i].upload_bytes_per_s > 0) schedule(peers_[i].first_round_s, Kind::round, i);
  }
  for (const Owner& owner : owners_) incomplete_ += owner.complete_pieces < pieces_ && !owner.identities.empty();
}

void PeerSwarm::run(double limit_s, const Decide& decide) {
  while (incomplete_ && !events_.empty() && events_.top().time <= limit_s) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    switch (event.kind) {
      case Kind::block:
        end_block(event.peer);
        break;
      case Kind::round:
        if (!is_present_[event.peer]) break;
        schedule(now_ + peers_[event.peer].round_s, Kind::round, event.peer);
        decide_for(event.peer, decide);
        break;
      case Kind::idle:
        will_ask_[event.peer] = 0;
        if (is_present_[event.peer] && !is_sending_[event.peer]) decide_for(event.peer, decide);
        break;
      case Kind::bucket:
        if (filled_[event.peer] != now_) break;
        filled_[event.peer] = never;
        if (!is_sending_[event.peer]) start_block(event.peer);
        break;
      case Kind::departure: {
        const Owner& owner = owners_[peers_[event.peer].owner];
        for (const std::uint32_t identity : owner.identities) is_present_[identity] = 0;
        for (std::uint32_t piece = 0; piece < pieces_; ++piece) --copies_[piece];
        break;
      }
    }
  }
}

void PeerSwarm::schedule(double time, Kind kind, std::uint32_t peer) { events_.push({time, order_++, kind, peer}); }

bool PeerSwarm::has_for(const Owner& sender, const std::vector<std::uint64_t>& except) const {
  for (std::size_t word = 0; word < words_; ++word)
    if (sender.have[word] & ~except[word]) return true;
  return false;
}

void PeerSwarm::decide_for(std::uint32_t peer, const Decide& decide) {
  asked_[peer] = now_;
  const Owner& mine = owners_[peers_[peer].owner];
  if (!mine.complete_pieces) return;
  std::vector<std::uint32_t> interested;
  for (std::uint32_t other = 0; other < peers_.size(); ++other) {
    const Owner& theirs = owners_[peers_[other].owner];
    if (is_present_[other] && &theirs != &mine && theirs.complete_pieces < pieces_ && has_for(mine, theirs.have))
      interested.push_back(other);
  }
  const auto weights = decide(now_, peer, mine.complete_pieces == pieces_, interested, received_[peer]);
  std::vector<Slot> slots;
  for (const auto& [other, weight] : weights) {
    if (!std::binary_search(interested.begin(), interested.end(), other))
      throw std::invalid_argument("a peer may unchoke only who is interested");
    if (!(weight > 0)) throw std::invalid_argument("the weight of an unchoked peer must be more than 0");
    const auto before = std::find_if(slots_[peer].begin(), slots_[peer].end(),
                                     [other = other](const Slot& slot) { return slot.peer == other; });
    // A new peer starts at a random point within the time of its first block.
    const double whole = block_bytes_ / weight, rate = peers_[peer].upload_bytes_per_s;
    const bool is_new = before == slots_[peer].end();
    const double place = is_new ? random_.uniform() * block_bytes_ / weight : 0;
    const double tag = is_new ? tag_[peer] + place : std::max(before->start_tag, tag_[peer]);
    const double begin_s = is_new ? now_ + place / rate : before->may_begin_s;
    slots.push_back({other, weight, std::min(tag, tag_[peer] + whole), std::min(begin_s, now_ + whole / rate)});
  }
  slots_[peer] = std::move(slots);
  if (!is_sending_[peer]) start_block(peer);
}

std::uint32_t PeerSwarm::pick_piece(const Owner& sender, const Owner& receiver) {
  const auto& begun = sender.complete_pieces == pieces_ ? receiver.begun_by_seed : receiver.begun;
  for (const bool only_begun : {true, false}) {
    std::uint32_t best = none, least = none, ties = 0;
    for (std::size_t word = 0; word < words_; ++word) {
      std::uint64_t left = sender.have[word] & ~receiver.assigned[word];
      for (left &= only_begun ? begun[word] : ~std::uint64_t{0}; left; left &= left - 1) {
        const auto piece = static_cast<std::uint32_t>(word * 64) + static_cast<std::uint32_t>(std::countr_zero(left));
        if (copies_[piece] > least) continue;
        if (copies_[piece] < least) least = copies_[piece], ties = 0;
        if (random_.below(++ties) == 0) best = piece;
      }
    }
    if (best != none) return best;
  }
  return none;
}

void PeerSwarm::start_block(std::uint32_t peer) {
  if (!is_present_[peer]) return;
  const Owner& mine = owners_[peers_[peer].owner];
  const bool lends = peers_[peer].lends;
  double filled = never;
  Slot* next = nullptr;
  for (Slot& slot : slots_[peer]) {
    if (!is_present_[slot.peer] || !has_for(mine, owners_[peers_[slot.peer].owner].assigned)) continue;
    if (!lends && slot.may_begin_s > now_)
      filled = std::min(filled, slot.may_begin_s);
    else if (!next || slot.start_tag < next->start_tag)
      next = &slot;
  }
  if (!next && filled < never) {
    if (filled != filled_[peer]) schedule(filled, Kind::bucket, peer), filled_[peer] = filled;
    return;
  }
  if (!next) {
    if (!will_ask_[peer] && peers_[peer].upload_bytes_per_s > 0 && mine.complete_pieces)
      schedule(std::max(now_, asked_[peer] + least_pause_s), Kind::idle, peer), will_ask_[peer] = 1;
    return;
  }
  Owner& theirs = owners_[peers_[next->peer].owner];
  const std::uint32_t piece = pick_piece(mine, theirs);
  set_bit(theirs.begun, piece);
  if (mine.complete_pieces == pieces_) set_bit(theirs.begun_by_seed, piece);
  if (++theirs.blocks_assigned[piece] == blocks_per_piece_) set_bit(theirs.assigned, piece);
  // A peer that had nothing to fetch for a while has no claim to the share that it left unused.
  next->start_tag = std::max(next->start_tag, tag_[peer]);
  tag_[peer] = next->start_tag;
  next->start_tag += block_bytes_ / next->weight;
  const double earned_s = block_bytes_ / next->weight / peers_[peer].upload_bytes_per_s;
  next->may_begin_s = std::max(next->may_begin_s, now_ - earned_s) + earned_s;
  transfer_[peer] = {next->peer, piece};
  is_sending_[peer] = 1;
  schedule(now_ + block_bytes_ / peers_[peer].upload_bytes_per_s, Kind::block, peer);
}

void PeerSwarm::end_block(std::uint32_t peer) {
  const auto [to, piece] = transfer_[peer];
  is_sending_[peer] = 0;
  sent_[peer] += block_bytes_;
  received_[to][peer] += block_bytes_;
  Owner& theirs = owners_[peers_[to].owner];
  if (++theirs.blocks_done[piece] == blocks_per_piece_) complete_piece(theirs, piece);
  if (!is_sending_[peer]) start_block(peer);
}

void PeerSwarm::complete_piece(Owner& owner, std::uint32_t piece) {
  set_bit(owner.have, piece);
  ++copies_[piece];
  const std::uint32_t first = owner.identities.front();
  if (++owner.complete_pieces == pieces_) {
    owner.complete_s = now_;
    --incomplete_;
    schedule(now_ + peers_[first].stays_s, Kind::departure, first);
  }
  for (const std::uint32_t identity : owner.identities)  // they may have waited for something to send
    if (!is_sending_[identity]) start_block(identity);
}
