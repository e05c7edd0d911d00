// The paths between two nodes by key, as a tree of the forks at which the key decides. It gives what
// ShortestPaths::find would give, for senders that ask for another path with every packet. A branch grows when a key
// first takes it.
#pragma once
#include <cstdint>
#include <vector>

#include "network/shortest_paths.hpp"

class SprayingTree {
 public:
  static constexpr std::uint32_t unknown = ~0u;

  // The path of this key; unknown until it has been added.
  std::uint32_t find(std::uint64_t key) const {
    if (forks_.empty()) return only_path_;
    for (std::uint32_t fork = 0;;) {
      const std::uint32_t branch = branches_[forks_[fork].first + forks_[fork].fork.choice(key)];
      if (branch == unknown) return unknown;
      if (branch >= is_path) return branch - is_path;
      fork = branch;
    }
  }
  // forks: those at which the key has decided for this path.
  void add(const std::vector<ShortestPaths::Fork>& forks, std::uint64_t key, std::uint32_t path) {
    std::uint32_t* branch = nullptr;
    for (const ShortestPaths::Fork& fork : forks) {
      if (branch ? *branch == unknown : forks_.empty()) {
        const auto place = static_cast<std::uint32_t>(forks_.size());
        if (branch) *branch = place;
        forks_.push_back({fork, static_cast<std::uint32_t>(branches_.size())});
        branches_.resize(branches_.size() + fork.ways, unknown);
        branch = &branches_[forks_[place].first + fork.choice(key)];
      } else {
        branch = &branches_[forks_[branch ? *branch : 0].first + fork.choice(key)];
      }
    }
    if (branch)
      *branch = is_path + path;
    else
      only_path_ = path;
  }

 private:
  static constexpr std::uint32_t is_path = 1u << 31;  // what is added to a path to tell it from a fork
  struct Place {
    ShortestPaths::Fork fork;
    std::uint32_t first;  // of its branches
  };

  std::vector<Place> forks_;             // the first is the root
  std::vector<std::uint32_t> branches_;  // the next fork, or the path
  std::uint32_t only_path_ = unknown;    // where there is no fork
};
