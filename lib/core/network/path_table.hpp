// All paths in use, one after the other, each once. A packet carries the place of the link that it is on.
//
// In front of a path stand its two nodes, and behind it stands `end`. A path that was given to a flow has `end` in
// place of the nodes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "network/shortest_paths.hpp"

class PathTable {
 public:
  static constexpr std::uint32_t end = ~0u;

  std::uint32_t operator[](std::uint32_t place) const { return entries_[place]; }
  std::uint32_t from(std::uint32_t place) const { return entries_[place - 2]; }  // `end` for a path that was given
  std::uint32_t to(std::uint32_t place) const { return entries_[place - 1]; }

  // The place of the first link of the path on which this place is.
  std::uint32_t first(std::uint32_t place) const {
    std::uint32_t marker = place;  // just behind the last `end` in front of it
    while (marker > 0 && entries_[marker - 1] != end) --marker;
    // For a path that was given, this `end` is the second in place of its nodes.
    return marker > 1 && entries_[marker - 2] == end ? marker : marker + 2;
  }

  // The place of this path's first link.
  std::uint32_t place(std::uint32_t from, std::uint32_t to, const std::vector<std::uint32_t>& path) {
    std::uint64_t hash = ShortestPaths::mixed(std::uint64_t{from} << 32 | to);
    for (std::uint32_t link : path) hash = ShortestPaths::mixed(hash ^ link);
    std::vector<std::uint32_t>& places = places_[hash];
    for (std::uint32_t place : places)
      if (this->from(place) == from && this->to(place) == to &&
          std::equal(path.begin(), path.end(), entries_.begin() + place) && entries_[place + path.size()] == end)
        return place;
    entries_.push_back(from);
    entries_.push_back(to);
    places.push_back(static_cast<std::uint32_t>(entries_.size()));
    entries_.insert(entries_.end(), path.begin(), path.end());
    entries_.push_back(end);
    return places.back();
  }
  // The same for a path that a flow keeps, whatever happens to links.
  std::uint32_t place_of_given(const std::vector<std::uint32_t>& path) { return place(end, end, path); }

 private:
  std::vector<std::uint32_t> entries_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> places_;  // by hash of the path
};
