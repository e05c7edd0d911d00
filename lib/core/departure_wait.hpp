// Lets a packet wait inside the kernel, on its way out of an interface, until it is due.
//
// A process that waits and sends then is late by its way into the kernel, some microseconds that differ from packet to
// packet. Here the way is done before: an eBPF program at the interface (tcx) looks at the clock until the time has
// come. That takes a kernel of 6.6 or later, and who may load programs (CAP_BPF and CAP_NET_ADMIN).
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>

class DepartureWait {
 public:
  // Sent so long before it is due, a packet has reached the program by then.
  static constexpr std::int64_t lead_ns = 8'000;

  // When the packet left, and the longest time in which nobody looked at the clock meanwhile; CLOCK_REALTIME.
  struct Seen {
    std::int64_t left_ns, gap_end_ns, gap_ns;
  };

  // Nothing where the kernel or a lack of privileges does not let it; of the calling thread's network namespace.
  static std::unique_ptr<DepartureWait> make();
  DepartureWait(const DepartureWait&) = delete;
  DepartureWait& operator=(const DepartureWait&) = delete;
  ~DepartureWait();

  // Whether packets can wait at that interface from now on: false where the kernel refuses.
  bool attach(int interface);

  // The packet that is sent next, now, waits until it is due.
  void expect(std::int64_t due_ns, std::int64_t now_ns);

  // No packet waits any more: what was seen since `expect`.
  Seen finish();

 private:
  // With the program, which keeps `due_ns` at 0 while no packet is to wait.
  struct Shared {
    std::int64_t due_ns, looked_ns, gap_ns, gap_end_ns;  // CLOCK_TAI
  };

  DepartureWait() = default;
  static int load_program_of(int map);

  int map_ = -1, program_ = -1;
  volatile Shared* shared_ = nullptr;
  std::int64_t offset_ns_ = 0;          // of CLOCK_TAI
  std::unordered_map<int, int> links_;  // by interface; they end with the process
};
