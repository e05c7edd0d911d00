// First in, first out, with access by running number: what was pushed n-th is [n] until it is popped.
#pragma once
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

template <class Item>
class Ring {
 public:
  std::uint64_t head() const { return head_; }  // number of the oldest
  std::uint64_t tail() const { return tail_; }  // number that the next one will get
  bool empty() const { return head_ == tail_; }
  std::uint64_t size() const { return tail_ - head_; }
  Item& operator[](std::uint64_t number) { return items_[place_of(number)]; }
  const Item& operator[](std::uint64_t number) const { return items_[place_of(number)]; }
  Item& front() { return items_[place_of(head_)]; }
  const Item& front() const { return items_[place_of(head_)]; }

  void push(const Item& item) {
    if (size() == items_.size()) grow();
    items_[tail_++ & mask_] = item;
  }
  void pop() {
    assert(!empty());
    ++head_;
  }

 private:
  std::uint64_t place_of(std::uint64_t number) const {
    assert(head_ <= number && number < tail_);
    return number & mask_;
  }
  void grow() {
    std::vector<Item> larger(items_.empty() ? 16 : 2 * items_.size());
    const std::uint64_t mask = larger.size() - 1;
    for (std::uint64_t number = head_; number != tail_; ++number) larger[number & mask] = items_[number & mask_];
    items_.swap(larger);
    mask_ = mask;
  }

  std::vector<Item> items_;
  std::uint64_t head_ = 0, tail_ = 0, mask_ = 0;
};
