// Which link leads where: all shortest paths, and per-flow choice among equals by a hash at every node (ECMP).
#pragma once
#include <cstdint>
#include <stdexcept>
#include <unordered_map>
#include <vector>

class ShortestPaths {
 public:
  explicit ShortestPaths(std::size_t nodes) : leaving_(nodes), entering_(nodes) {}

  void add_link(std::uint32_t number, std::uint32_t from, std::uint32_t to) {
    leaving_[from].push_back({number, to});
    entering_[to].push_back(from);
  }

  bool leads(std::uint32_t from, std::uint32_t to) { return distances_to(to)[from] != unreachable; }

  // A node of a path from which several links lead nearer to its end. The key decides which one is taken.
  struct Fork {
    std::uint64_t number;  // the node's own
    std::uint32_t ways;
    std::size_t choice(std::uint64_t key) const { return mixed(key ^ number) % ways; }
  };
  // The links from one node to another. Equal keys give equal paths; each node hashes the key with a number of its own.
  void find(std::uint32_t from, std::uint32_t to, std::uint64_t key, std::vector<std::uint32_t>& path,
            std::vector<Fork>& forks) {
    const std::vector<std::uint32_t>& distance = distances_to(to);
    if (distance[from] == unreachable) throw std::invalid_argument("no path");
    path.clear();
    forks.clear();
    for (std::uint32_t node = from; node != to;) {
      std::uint32_t equals = 0;
      for (const Leaving& link : leaving_[node]) equals += is_nearer(link, node, distance);
      std::size_t choice = 0;
      if (equals > 1) {
        forks.push_back({mixed(node + 1), equals});
        choice = forks.back().choice(key);
      }
      for (const Leaving& link : leaving_[node])
        if (is_nearer(link, node, distance) && choice-- == 0) {
          path.push_back(link.number);
          node = link.to;
          break;
        }
    }
  }

  static std::uint64_t mixed(std::uint64_t x) {  // the finisher of splitmix64
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

 private:
  struct Leaving {
    std::uint32_t number, to;
  };
  static constexpr std::uint32_t unreachable = ~0u - 1;

  static bool is_nearer(const Leaving& link, std::uint32_t node, const std::vector<std::uint32_t>& distance) {
    return distance[link.to] + 1 == distance[node];
  }

  const std::vector<std::uint32_t>& distances_to(std::uint32_t target) {
    std::vector<std::uint32_t>& distance = distances_[target];
    if (!distance.empty()) return distance;
    distance.assign(leaving_.size(), unreachable);
    distance[target] = 0;
    std::vector<std::uint32_t> wave{target};
    for (std::size_t i = 0; i < wave.size(); ++i)
      for (std::uint32_t node : entering_[wave[i]])
        if (distance[node] == unreachable) {
          distance[node] = distance[wave[i]] + 1;
          wave.push_back(node);
        }
    return distance;
  }

  std::vector<std::vector<Leaving>> leaving_;
  std::vector<std::vector<std::uint32_t>> entering_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> distances_;
};
