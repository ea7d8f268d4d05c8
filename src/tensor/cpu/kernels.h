/* tensor/cpu/kernels.h: which code runs on this machine's instruction set?
 * One row per instruction set: a name and its const tables, the matmul family (matmul_kernels.h) and the float family
 * (float_kernels.h). Chosen once when the backend opens; no branch on the instruction set anywhere else. Any thread. */
#ifndef HEADWAY_TENSOR_CPU_KERNELS_H
#define HEADWAY_TENSOR_CPU_KERNELS_H

#include "base/error.h"

struct matmul_kernels;
struct float_kernels;
struct bf16_kernels;

typedef struct {
    const char *name; /* "generic", "avx2", "avx512", "avx512bf16", "neon" */
    const struct matmul_kernels *matmul;
    const struct float_kernels *floats;
    const struct bf16_kernels *bf16; /* NULL: bytes of E4M3 meet f32 */
} cpu_kernels;

/* `name` NULL: the best that the machine has. A name this build or this machine does not know is ERR_UNSUPPORTED with
 * both what was asked and what there is. */
status cpu_kernels_choose(const char *name, cpu_kernels *out, error *err);

#endif
