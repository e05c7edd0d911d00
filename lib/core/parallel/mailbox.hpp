// What one part of a network has for another: packets that will arrive over the links between them, and the ends of
// receivers. The other part reads it while nobody writes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/simulated_time.hpp"
#include "network/packet.hpp"
#include "network/path_table.hpp"
#include "simulation/halves.hpp"

struct Mailbox {
  struct Crossing {
    Time arrival;
    std::uint32_t link;
  };

  std::vector<Packet> packets;
  std::vector<Crossing> crossings;  // one a packet
  std::vector<Halves::End> ends;
  // Paths of packets that the other part has not heard of. For each: place of the first link, nodes from and to, number
  // of links, links.
  std::vector<std::uint32_t> paths;

  void clear() { packets.clear(), crossings.clear(), ends.clear(), paths.clear(); }
};

// A packet carries its place in the table of paths, which each part numbers for itself. This is the sending part's
// half, which tells of each path once.
class PathsTold {
 public:
  void tell(const PathTable& table, std::uint32_t place, std::vector<std::uint32_t>& news) {
    if (place < told_.size() && told_[place]) return;
    const std::uint32_t first = table.first(place);
    std::uint32_t links = 0;
    while (table[first + links] != PathTable::end) ++links;
    if (told_.size() < first + links) told_.resize(std::max<std::size_t>(2 * told_.size(), first + links));
    news.insert(news.end(), {first, table.from(first), table.to(first), links});
    for (std::uint32_t i = 0; i < links; ++i) {
      told_[first + i] = true;
      news.push_back(table[first + i]);
    }
  }

 private:
  std::vector<bool> told_;  // by place
};

// The receiving part's half: it translates the sending part's places into its own.
class PathsHeard {
 public:
  void hear(const std::vector<std::uint32_t>& news, PathTable& table) {
    for (std::size_t at = 0; at < news.size();) {
      const std::uint32_t first = news[at], links = news[at + 3];
      const auto begin = news.begin() + static_cast<std::ptrdiff_t>(at) + 4;
      const std::uint32_t here = table.place(news[at + 1], news[at + 2], {begin, begin + links});
      if (here_.size() < first + links) here_.resize(std::max<std::size_t>(2 * here_.size(), first + links));
      for (std::uint32_t i = 0; i < links; ++i) here_[first + i] = here + i;
      at += 4 + links;
    }
  }
  std::uint32_t operator[](std::uint32_t place) const { return here_[place]; }

 private:
  std::vector<std::uint32_t> here_;  // by the other's place
};
