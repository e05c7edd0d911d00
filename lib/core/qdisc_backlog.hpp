// How many bytes wait in the queue (qdisc 1:) of a network interface, asked of the kernel.
#pragma once
#include <cstdint>

class QdiscBacklog {
 public:
  QdiscBacklog();  // in the network namespace of the calling thread; throws std::system_error
  ~QdiscBacklog();
  QdiscBacklog(const QdiscBacklog&) = delete;
  QdiscBacklog& operator=(const QdiscBacklog&) = delete;

  std::int64_t bytes(int interface);  // -1 when the kernel does not say

 private:
  int socket_;
};
