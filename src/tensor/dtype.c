/* tensor/dtype.c: one table, indexed by GGUF id. Ids 4, 5, 31 to 33 and 36 to 38 were withdrawn by the format. */
#include "tensor/dtype.h"

static const dtype_info TABLE[DT_COUNT] = {
    [DT_F32] = {"F32", 1, 4, true},
    [DT_F16] = {"F16", 1, 2, true},
    [DT_Q4_0] = {"Q4_0", 32, 18, true},
    [DT_Q4_1] = {"Q4_1", 32, 20, true},
    [DT_Q5_0] = {"Q5_0", 32, 22, true},
    [DT_Q5_1] = {"Q5_1", 32, 24, true},
    [DT_Q8_0] = {"Q8_0", 32, 34, true},
    [9] = {"Q8_1", 32, 36, false},
    [DT_Q2_K] = {"Q2_K", 256, 84, true},
    [DT_Q3_K] = {"Q3_K", 256, 110, true},
    [DT_Q4_K] = {"Q4_K", 256, 144, true},
    [DT_Q5_K] = {"Q5_K", 256, 176, true},
    [DT_Q6_K] = {"Q6_K", 256, 210, true},
    [15] = {"Q8_K", 256, 292, false},
    [16] = {"IQ2_XXS", 256, 66, false},
    [17] = {"IQ2_XS", 256, 74, false},
    [18] = {"IQ3_XXS", 256, 98, false},
    [19] = {"IQ1_S", 256, 50, false},
    [DT_IQ4_NL] = {"IQ4_NL", 32, 18, true},
    [21] = {"IQ3_S", 256, 110, false},
    [22] = {"IQ2_S", 256, 82, false},
    [DT_IQ4_XS] = {"IQ4_XS", 256, 136, true},
    [24] = {"I8", 1, 1, false},
    [25] = {"I16", 1, 2, false},
    [26] = {"I32", 1, 4, false},
    [27] = {"I64", 1, 8, false},
    [28] = {"F64", 1, 8, false},
    [29] = {"IQ1_M", 256, 56, false},
    [DT_BF16] = {"BF16", 1, 2, true},
    [34] = {"TQ1_0", 256, 54, false},
    [35] = {"TQ2_0", 256, 66, false},
    [DT_MXFP4] = {"MXFP4", 32, 17, true},
    [40] = {"NVFP4", 64, 36, false},
    [41] = {"Q1_0", 128, 18, false},
    [42] = {"Q2_0", 64, 18, false},
    [DT_MXFP8] = {"MXFP8", 32, 33, true},
    [DT_NVFP4] = {"NVFP4", 32, 18, true},
    [DT_AFFINE2] = {"AFFINE2", 32, 16, true},
    [DT_AFFINE3] = {"AFFINE3", 32, 20, true},
    [DT_AFFINE4] = {"AFFINE4", 32, 24, true},
    [DT_AFFINE5] = {"AFFINE5", 32, 28, true},
    [DT_AFFINE6] = {"AFFINE6", 32, 32, true},
    [DT_AFFINE8] = {"AFFINE8", 32, 40, true},
};

const dtype_info *dtype_get(uint32_t id)
{
    return id < DT_COUNT && TABLE[id].name ? &TABLE[id] : NULL;
}
