/* tensor/cpu/unroll.h: how is a loop over registers written? UNROLL before a `for` whose bounds are constants makes the
 * compiler write its body out, so that an array of vectors becomes registers. Kernels only. */
#ifndef HEADWAY_TENSOR_CPU_UNROLL_H
#define HEADWAY_TENSOR_CPU_UNROLL_H

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define KERNEL_INLINE static inline __attribute__((always_inline))

#endif
