/* The AVX2 float family: ops_body.h, and attend.c. */
#include "tensor/cpu/avx2/vec.h"
#include "tensor/cpu/ops_body.h"

#include "tensor/cpu/delta_body.h"

const float_kernels float_kernels_avx2 = {
    .rms_norm = rms_norm,
    .rope_angles = rope_angles,
    .rope_turn = rope_turn,
    .act_mul = act_mul,
    .add = add,
    .add_scaled = add_scaled,
    .sigmoid_mul = sigmoid_mul,
    .conv = conv,
    .delta = delta,
    FLOAT_KERNELS_ATTEND(avx2),
};
