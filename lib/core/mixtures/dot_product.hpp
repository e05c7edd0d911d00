#pragma once
#include <cstddef>

#include "mixtures/wide_vectors.hpp"

// A sum over points is four partial sums: the processor adds them at once, in the same order on every machine. They are
// held in pairs, for which every 64-bit processor has registers; with longer vectors the compiler shuffles.
constexpr std::size_t kLanes = 4;
typedef double Pair __attribute__((vector_size(16), aligned(8), may_alias));

WITHIN_WIDE_VECTORS const Pair& pair_at(const double* values) { return *reinterpret_cast<const Pair*>(values); }

// The dot products of `a` with `count` vectors. They are computed together, so that no addition waits for another.
template <std::size_t count>
WITHIN_WIDE_VECTORS void dot_products(const double* a, const double* const* vectors, std::size_t size, double* out) {
  Pair low[count] = {}, high[count] = {};
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Pair a_low = pair_at(a + i), a_high = pair_at(a + i + 2);
    for (std::size_t n = 0; n < count; ++n) {
      low[n] += a_low * pair_at(vectors[n] + i);
      high[n] += a_high * pair_at(vectors[n] + i + 2);
    }
  }
  for (std::size_t n = 0; n < count; ++n) {
    for (std::size_t rest = i; rest < size; ++rest) low[n][0] += a[rest] * vectors[n][rest];
    out[n] = (low[n][0] + low[n][1]) + (high[n][0] + high[n][1]);
  }
}

// The same for any number of vectors.
WITHIN_WIDE_VECTORS void dot_products(const double* a, const double* const* vectors, std::size_t count,
                                      std::size_t size, double* out) {
  std::size_t n = 0;
  for (; n + 4 <= count; n += 4) dot_products<4>(a, vectors + n, size, out + n);
  for (; n < count; ++n) dot_products<1>(a, vectors + n, size, out + n);
}

WITHIN_WIDE_VECTORS double sum(const double* values, std::size_t size) {
  Pair low = {}, high = {};
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    low += pair_at(values + i);
    high += pair_at(values + i + 2);
  }
  for (; i < size; ++i) low[0] += values[i];
  return (low[0] + low[1]) + (high[0] + high[1]);
}
