// A BitTorrent swarm block by block, in virtual time. Every peer sends one block at a time at its upload rate. The
// weights of its unchoked peers decide which of them gets the next one (start-time fair queueing: Goyal, Vin and Cheng,
// SIGCOMM 1996). The caller decides who is unchoked, and with what weight. It is asked once a round of each peer, and
// sooner for a peer that has nobody to send to.
//
// A peer that does not lend has a token bucket for each peer that it serves. The bucket holds two blocks and fills at
// that peer's weight of the rate, so that a share that nobody uses is lost. Pieces are picked as in BitTorrent's first
// client: begun pieces come first (from a seed, those that a seed began, so that seeds bring new pieces), then the
// others. Among these the rarest is picked, with ties at random. Links have no delay.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <vector>

#include "base/random_stream.hpp"

class PeerSwarm {
 public:
  struct Peer {
    double upload_bytes_per_s = 0;  // 0: gives nothing
    std::uint32_t owner = 0;        // peers of one owner are one client's identities: they share what they have
    bool is_seed = false;           // has everything from the beginning, and stays
    double first_round_s = 0;
    double round_s = 10;
    double stays_s = 0;  // after the download is complete
    bool lends = true;   // what an unchoked peer cannot use goes to the others
  };
  // (now, peer, has everything, interested peers, bytes received from every peer so far) -> weight of each peer to
  // unchoke.
  using Decide = std::function<std::map<std::uint32_t, double>(
      double, std::uint32_t, bool, const std::vector<std::uint32_t>&, const std::vector<double>&)>;

  PeerSwarm(std::vector<Peer> peers, std::uint32_t pieces, std::uint32_t blocks_per_piece, double block_bytes,
            std::uint64_t seed);

  // Runs until all have everything, or until the limit. What `decide` throws is passed on.
  void run(double limit_s, const Decide& decide);

  double now_s() const { return now_; }
  double complete_s(std::uint32_t peer) const { return owners_[peers_[peer].owner].complete_s; }  // infinite: not yet
  double sent_bytes(std::uint32_t peer) const { return sent_[peer]; }
  const std::vector<double>& received_bytes(std::uint32_t peer) const { return received_[peer]; }  // by sender

 private:
  struct Owner {
    // Pieces as bits: complete; some blocks asked for, from any peer; some, from a seed; all blocks asked for.
    std::vector<std::uint64_t> have, begun, begun_by_seed, assigned;
    std::vector<std::uint32_t> blocks_assigned, blocks_done;
    std::vector<std::uint32_t> identities;
    std::uint32_t complete_pieces = 0;
    double complete_s = 0;
  };
  struct Slot {
    std::uint32_t peer;
    double weight, start_tag, may_begin_s;
  };
  enum class Kind : std::uint8_t { block, round, idle, bucket, departure };
  struct Event {
    double time;
    std::uint64_t order;
    Kind kind;
    std::uint32_t peer;
    bool operator>(const Event& other) const { return time != other.time ? time > other.time : order > other.order; }
  };
  struct Transfer {
    std::uint32_t to, piece;
  };

  void schedule(double time, Kind kind, std::uint32_t peer);
  void decide_for(std::uint32_t peer, const Decide& decide);
  void start_block(std::uint32_t peer);
  void end_block(std::uint32_t peer);
  void complete_piece(Owner& owner, std::uint32_t piece);
  std::uint32_t pick_piece(const Owner& sender, const Owner& receiver);
  bool has_for(const Owner& sender, const std::vector<std::uint64_t>& except) const;

  std::vector<Peer> peers_;
  std::uint32_t pieces_, blocks_per_piece_;
  double block_bytes_;
  std::size_t words_;
  RandomStream random_;
  std::vector<Owner> owners_;
  std::vector<std::uint32_t> copies_;  // of each piece, among owners that are present
  std::vector<char> is_present_, is_sending_, will_ask_;
  std::vector<double> filled_;            // when a peer's bucket that it waits for is full; infinite: it waits for none
  std::vector<double> asked_;             // when each peer was last asked whom it unchokes
  std::vector<std::vector<Slot>> slots_;  // of each peer: whom it serves
  std::vector<double> tag_;               // of each peer: the start tag of the block that it sent last
  std::vector<Transfer> transfer_;
  std::vector<double> sent_;
  std::vector<std::vector<double>> received_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  std::uint32_t incomplete_ = 0;
  double now_ = 0;
};
