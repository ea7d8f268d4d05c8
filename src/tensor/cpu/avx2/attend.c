/* Attention in f32: attend_body.h for AVX2. */
#include "tensor/cpu/avx2/vec.h"

#define ATTEND(name) name##_avx2
#include "tensor/cpu/attend_body.h"
