#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// Finds a flow's number by the hash of its key, with open addressing and 8 bytes a slot. `same(number)` tells whether
// the flow of that number has the key; it is called only where the hashes agree.
class KeyIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  template <class Same>
  uint32_t find(uint32_t hash, const Same& same) const {
    return slots_[place_of(hash, same)].number;
  }

  void prefetch(uint32_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]); }

  // What `find` most likely returns, without a call of `same`.
  uint32_t guess(uint32_t hash) const { return slots_[hash & (slots_.size() - 1)].number; }

  // Stores the number; it replaces the one that the key has, if any.
  template <class Same>
  void put(uint32_t hash, uint32_t number, const Same& same) {
    if (2 * used_ >= slots_.size()) grow();
    Slot& slot = slots_[place_of(hash, same)];
    if (slot.number == kNone) ++used_;
    slot = {hash, number};
  }

  // Erases a number that is there. Entries behind it, which it kept from their own slots, move up.
  void erase(uint32_t hash, uint32_t number) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t hole = place_of(hash, [number](uint32_t other) { return other == number; });
    for (std::size_t at = (hole + 1) & mask; slots_[at].number != kNone; at = (at + 1) & mask) {
      const std::size_t from_home = (at - slots_[at].hash) & mask;
      if (from_home >= ((at - hole) & mask)) slots_[std::exchange(hole, at)] = slots_[at];
    }
    slots_[hole] = {};
    --used_;
  }

 private:
  struct Slot {
    uint32_t hash = 0, number = kNone;
  };

  template <class Same>
  std::size_t place_of(uint32_t hash, const Same& same) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t place = hash & mask;
    while (slots_[place].number != kNone && !(slots_[place].hash == hash && same(slots_[place].number))) {
      place = (place + 1) & mask;
    }
    return place;
  }

  void grow() {
    const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    const auto different = [](uint32_t) { return false; };
    for (const Slot& slot : before) {
      if (slot.number != kNone) slots_[place_of(slot.hash, different)] = slot;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(1024);  // a power of two, at most half of them used
  std::size_t used_ = 0;
};
