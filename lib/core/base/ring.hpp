// A first-in first-out queue with access by running number: the n-th item pushed is [n] until it is popped.
#pragma once
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

template <class Item>
class Ring {
 public:
  Ring() = default;
  Ring(const Ring& other)
      : items_(other.capacity_ == 0 ? nullptr : std::make_unique<Item[]>(other.capacity_)),
        capacity_(other.capacity_),
        head_(other.head_),
        tail_(other.tail_) {
    std::copy_n(other.items_.get(), capacity_, items_.get());
  }
  Ring(Ring&& other) noexcept { swap(other); }
  Ring& operator=(Ring other) noexcept {
    swap(other);
    return *this;
  }

  std::uint64_t head() const { return head_; }  // number of the oldest
  std::uint64_t tail() const { return tail_; }  // number that the next item will get
  bool empty() const { return head_ == tail_; }
  std::uint64_t size() const { return tail_ - head_; }
  Item& operator[](std::uint64_t number) { return items_[place_of(number)]; }
  const Item& operator[](std::uint64_t number) const { return items_[place_of(number)]; }
  Item& front() { return items_[place_of(head_)]; }
  const Item& front() const { return items_[place_of(head_)]; }

  // Prefetches the item's place, used or free, into the processor's cache.
  void fetch(std::uint64_t number) const {
    if (capacity_ > 0) __builtin_prefetch(&items_[number & (capacity_ - 1)]);
  }

  void push(const Item& item) {
    if (size() == capacity_) grow();
    items_[tail_++ & (capacity_ - 1)] = item;
  }
  void pop() {
    assert(!empty());
    ++head_;
  }
  // Removes an item anywhere in the ring; the items behind it move up.
  void erase(std::uint64_t number) {
    for (; number + 1 != tail_; ++number) (*this)[number] = (*this)[number + 1];
    --tail_;
  }

 private:
  void swap(Ring& other) noexcept {
    std::swap(items_, other.items_);
    std::swap(capacity_, other.capacity_);
    std::swap(head_, other.head_);
    std::swap(tail_, other.tail_);
  }
  std::uint64_t place_of(std::uint64_t number) const {
    assert(head_ <= number && number < tail_);
    return number & (capacity_ - 1);
  }
  void grow() {
    const std::uint64_t capacity = capacity_ == 0 ? 16 : 2 * capacity_;
    auto larger = std::make_unique<Item[]>(capacity);
    for (std::uint64_t number = head_; number != tail_; ++number)
      larger[number & (capacity - 1)] = std::move(items_[number & (capacity_ - 1)]);
    items_ = std::move(larger);
    capacity_ = capacity;
  }

  std::unique_ptr<Item[]> items_;
  std::uint64_t capacity_ = 0;  // 0 or a power of two
  std::uint64_t head_ = 0, tail_ = 0;
};
