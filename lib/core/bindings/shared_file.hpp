// A file that another process reads while we write.
#pragma once
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

template <class Shared>
Shared* map_shared(int descriptor, std::size_t bytes) {
  void* shared = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (shared == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "counters");
  return static_cast<Shared*>(shared);
}
