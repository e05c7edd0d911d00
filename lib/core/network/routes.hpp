// The path that a packet takes from one node to another: a shortest one over the links in use, or one of a given set,
// chosen by a key. Links come into use and go out of it. Where the links in use lead nowhere, all links count.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "network/shortest_paths.hpp"

class Routes {
 public:
  explicit Routes(std::size_t nodes) : all_(nodes), used_(nodes), nodes_(nodes) {}

  std::size_t nodes() const { return nodes_; }

  void add_link(std::uint32_t from, std::uint32_t to) {
    const auto number = static_cast<std::uint32_t>(ends_.size());
    ends_.push_back({from, to});
    in_use_.push_back(true);
    all_.add_link(number, from, to);
    used_.add_link(number, from, to);
  }

  const std::pair<std::uint32_t, std::uint32_t>& ends(std::uint32_t link) const { return ends_[link]; }  // from, to

  // Uses only these links from now on, one flag each. Paths of a set that contain another link are left out.
  void use(const std::vector<bool>& in_use) {
    ++version_;
    in_use_ = in_use;
    used_ = ShortestPaths(nodes_);
    for (std::uint32_t link = 0; link < ends_.size(); ++link)
      if (in_use_[link]) used_.add_link(link, ends_[link].first, ends_[link].second);
  }

  // Uses one of these paths from now on. Each path is its links.
  void set_paths(std::uint32_t from, std::uint32_t to, std::vector<std::vector<std::uint32_t>> paths) {
    ++version_;
    sets_[pair(from, to)] = std::move(paths);
  }

  // The links from one node to another; equal keys give equal paths. The result is valid until the next call.
  const std::vector<std::uint32_t>& path(std::uint32_t from, std::uint32_t to, std::uint64_t key) {
    if (!sets_.empty() && find_in_set(from, to, key)) return path_;
    (used_.leads(from, to) ? used_ : all_).find(from, to, key, path_, forks_);
    return path_;
  }
  // The forks that the last path had, where it is a shortest one.
  const std::vector<ShortestPaths::Fork>& forks() const { return forks_; }
  bool has_sets() const { return !sets_.empty(); }
  // A number that changes when the same key may give another path.
  std::uint64_t version() const { return version_; }

 private:
  static std::uint64_t pair(std::uint32_t from, std::uint32_t to) { return std::uint64_t{from} << 32 | to; }

  bool is_whole(const std::vector<std::uint32_t>& path) const {
    for (std::uint32_t link : path)
      if (!in_use_[link]) return false;
    return true;
  }

  bool find_in_set(std::uint32_t from, std::uint32_t to, std::uint64_t key) {
    const auto set = sets_.find(pair(from, to));
    if (set == sets_.end()) return false;
    std::size_t whole = 0;
    for (const auto& path : set->second) whole += is_whole(path);
    if (whole == 0) return false;
    std::size_t choice = ShortestPaths::mixed(key) % whole;
    for (const auto& path : set->second)
      if (is_whole(path) && choice-- == 0) path_ = path;
    return true;
  }

  ShortestPaths all_, used_;
  std::size_t nodes_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends_;  // of links
  std::vector<bool> in_use_;
  std::unordered_map<std::uint64_t, std::vector<std::vector<std::uint32_t>>> sets_;
  std::vector<std::uint32_t> path_;
  std::vector<ShortestPaths::Fork> forks_;
  std::uint64_t version_ = 0;
};
