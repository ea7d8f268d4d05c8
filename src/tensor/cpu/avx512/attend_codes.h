/* tensor/cpu/avx512/attend_codes.h: attention on q8 and q4, and their writing, with AVX-512 VNNI, for attend.c.
 * Arguments as in float_kernels.h. Pure. */
#ifndef HEADWAY_TENSOR_CPU_AVX512_ATTEND_CODES_H
#define HEADWAY_TENSOR_CPU_AVX512_ATTEND_CODES_H

#include "tensor/cpu/float_kernels.h"

size_t attend_codes_scratch_bytes(uint32_t head_dim);
void attend_codes_write(uint8_t *block, kv_type type, uint32_t slot, uint32_t head_dim, const float *k, const float *v);
void attend_codes_load(attend_work *w);
void attend_codes_split(attend_work *const *works, uint32_t count, uint32_t split);

#endif
