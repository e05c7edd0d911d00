#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// From the hash of a flow's key to its last row. Open addressing in 8 bytes a slot, as nearly every flow comes here
// once. `same(row)` tells whether a row has that key; it is asked only where 32 bits of the hash agree.
class ClosedRows {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  template <class Same>
  uint32_t find(uint64_t hash, const Same& same) const {
    return slots_[place_of(static_cast<uint32_t>(hash), same)].row;
  }

  template <class Same>
  void put(uint64_t hash, std::size_t row, const Same& same) {
    if (4 * used_ >= 3 * slots_.size()) grow();
    Slot& slot = slots_[place_of(static_cast<uint32_t>(hash), same)];
    if (slot.row == kNone) ++used_;
    slot = {static_cast<uint32_t>(hash), static_cast<uint32_t>(row)};
  }

 private:
  struct Slot {
    uint32_t hash = 0, row = kNone;
  };

  template <class Same>
  std::size_t place_of(uint32_t hash, const Same& same) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t place = hash & mask;
    while (slots_[place].row != kNone && !(slots_[place].hash == hash && same(slots_[place].row))) {
      place = (place + 1) & mask;
    }
    return place;
  }

  void grow() {
    const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    const auto different = [](uint32_t) { return false; };
    for (const Slot& slot : before) {
      if (slot.row != kNone) slots_[place_of(slot.hash, different)] = slot;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(1024);  // a power of two, at most three quarters of them used
  std::size_t used_ = 0;
};
