/* The NEON float family: ops_body.h, and attend.c. */
#include "tensor/cpu/neon/vec.h"
#include "tensor/cpu/ops_body.h"

const float_kernels float_kernels_neon = {
    .rms_norm = rms_norm,
    .rope_angles = rope_angles,
    .rope_turn = rope_turn,
    .act_mul = act_mul,
    .add = add,
    FLOAT_KERNELS_ATTEND(neon),
};
