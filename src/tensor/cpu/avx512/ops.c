/* The AVX-512 float family: ops_body.h at 16 floats, and attend.c. */
#include "tensor/cpu/avx512/vec.h"
#include "tensor/cpu/ops_body.h"

#include "tensor/cpu/delta_body.h"

const float_kernels float_kernels_avx512 = {
    .rms_norm = rms_norm,
    .rope_angles = rope_angles,
    .rope_turn = rope_turn,
    .act_mul = act_mul,
    .add = add,
    .add_scaled = add_scaled,
    .sigmoid_mul = sigmoid_mul,
    .conv = conv,
    .delta = delta,
    FLOAT_KERNELS_ATTEND(avx512),
    .exact = &float_kernels_avx2,
};
