// A function with this mark is also compiled for processors with 256- and 512-bit registers; the best version is chosen
// when the library is loaded. Every operation stays the same in the same order (no -ffast-math, no contraction), so
// that the results are the same bytes. The function must be noexcept: the compiler assumes that no exception passes
// through its callers.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE_VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE_VECTORS
#endif
// A function that such a function calls for each point must be inlined into it.
#define WITHIN_WIDE_VECTORS inline __attribute__((always_inline))
