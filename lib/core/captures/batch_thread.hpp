#pragma once
#include <array>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

// A thread that works off batches in the order in which they are handed over.
template <class Batch>
class BatchThread {
 public:
  explicit BatchThread(std::function<void(const Batch&)> work) : work_(std::move(work)), thread_([this] { run(); }) {}
  BatchThread(const BatchThread&) = delete;
  BatchThread& operator=(const BatchThread&) = delete;

  // Batches that are not worked off by then are dropped.
  ~BatchThread() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // Takes the batch and gives one that was worked off. Waits while all batches are still to be worked off.
  void hand_over(Batch& batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return handed_over_ - done_ < kBatches; });
    std::swap(batch, batches_[handed_over_++ % kBatches]);
    lock.unlock();
    changed_.notify_all();
  }

  // Returns when all batches are done. Throws what the work has thrown.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return handed_over_ == done_; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  static constexpr std::size_t kBatches = 4;

  void run() {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [this] { return stopped_ || handed_over_ != done_; });
      if (stopped_) return;
      const Batch& batch = batches_[done_ % kBatches];
      const bool failed = failure_ != nullptr;
      lock.unlock();
      std::exception_ptr failure;
      try {
        if (!failed) work_(batch);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure) failure_ = failure;
      ++done_;
      changed_.notify_all();
    }
  }

  std::function<void(const Batch&)> work_;
  std::array<Batch, kBatches> batches_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t handed_over_ = 0, done_ = 0;
  bool stopped_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last member, as it uses the others
};
