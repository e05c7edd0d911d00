// A function so marked is compiled also for processors with 256- and 512-bit registers and the best is chosen when the
// library is loaded. Every operation stays the same in the same order (no -ffast-math, no contraction), so that the
// results are the same bytes. It must be noexcept: the compiler takes its callers for ones that nothing passes through.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE_VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE_VECTORS
#endif
// What such a function calls for each point has to become a part of it.
#define WITHIN_WIDE_VECTORS inline __attribute__((always_inline))
