// A barrier at which threads wait for one another. A thread looks again and again for a moment, since the others are
// mostly about to come, and then sleeps.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>

class SpinningBarrier {
 public:
  explicit SpinningBarrier(std::uint32_t threads)
      : threads_(threads), looks_(std::thread::hardware_concurrency() >= threads ? most_looks : 0) {}

  // Returns when all threads have come. Then all see what each did before it.
  void wait() {
    const std::uint32_t round = round_.load(std::memory_order_relaxed);
    if (waiting_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      waiting_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      round_.notify_all();
      return;
    }
    for (std::uint32_t look = 0; look < looks_; ++look) {
      if (round_.load(std::memory_order_acquire) != round) return;
      if (look >= looks_alone) std::this_thread::yield();
    }
    while (round_.load(std::memory_order_acquire) == round) round_.wait(round, std::memory_order_acquire);
  }

 private:
  static constexpr std::uint32_t looks_alone = 20'000, most_looks = looks_alone + 100;  // some tens of microseconds

  const std::uint32_t threads_, looks_;
  alignas(64) std::atomic<std::uint32_t> waiting_{0};
  alignas(64) std::atomic<std::uint32_t> round_{0};
};
