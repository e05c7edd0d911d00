// The copy of a key-value store at one replica, and a digest of the order in which each key was written.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

struct StoreCommand {
  std::int32_t client, key;
  bool is_write;
};

class ReplicatedStore {
 public:
  explicit ReplicatedStore(std::size_t keys) : values_(keys, -1), digests_(keys, 0) {}

  // Returns what the command reads: the number of the command that wrote it, -1 for none; for a write its own number.
  std::int32_t execute(std::int32_t number, const StoreCommand& command) {
    const auto key = static_cast<std::size_t>(command.key);
    if (command.is_write) {
      values_[key] = number;
      digests_[key] = (digests_[key] ^ static_cast<std::uint64_t>(number + 1)) * 0x9E3779B97F4A7C15u;
      digests_[key] ^= digests_[key] >> 29;
    }
    ++executed_;
    return values_[key];
  }

  std::size_t executed() const { return executed_; }
  std::size_t keys_unlike(const ReplicatedStore& other) const {
    std::size_t unlike = 0;
    for (std::size_t key = 0; key < digests_.size(); ++key) unlike += digests_[key] != other.digests_[key];
    return unlike;
  }

 private:
  std::vector<std::int32_t> values_;
  std::vector<std::uint64_t> digests_;
  std::size_t executed_ = 0;
};
