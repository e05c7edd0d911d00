// A connection in two objects, its sending half and its receiving half, so that they can be in different parts of a
// network (parallel/). Neither reads the other: what one half tells the other has to travel.
//
// The receiver hears that the sender has closed after the delay of the path; until then it answers segments that were
// sent again. When a flow without a size has all its bytes is found out at the end (ParallelRun::flow_results).
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/simulated_time.hpp"
#include "simulation/connection.hpp"

struct Halves {
  struct End {  // of a receiver, in another part
    Time at;
    std::uint32_t connection;
  };
  struct Stop {  // of a flow without a size: when, and how many bytes it has sent
    Time at;
    std::uint64_t bytes;
  };

  std::vector<bool> own;                               // by node: whether it is in this part
  std::vector<std::unique_ptr<Connection>> receivers;  // by connection, while they last
  std::vector<Time> grown;                             // by flow: when its receiver last had more bytes in order
  std::unordered_map<std::uint32_t, Stop> stops;       // by flow
  std::vector<End> ends;                               // to be told to other parts
};
