/* tensor/quant.h: exact values of stored blocks, in plain C; the definition every kernel is tested against. Any thread.
 */
#ifndef HEADWAY_TENSOR_QUANT_H
#define HEADWAY_TENSOR_QUANT_H

#include "tensor/dtype.h"

float f16_to_f32(uint16_t half);
uint16_t f32_to_f16(float value); /* round to nearest even; overflow to infinity; NaN stays quiet NaN */
float bf16_to_f32(uint16_t half);
uint16_t f32_to_bf16(float value);   /* round to nearest even */
float e8m0_to_f32(uint8_t exponent); /* 2^(exponent - 127), subnormal for 0; 255 comes out as infinity */
float e4m3_to_f32(uint8_t code);     /* the "fn" kind; its two NaNs come out as +-480 */

/* Writes the `elems` values of one row; `elems` is a multiple of the type's block. src may be unaligned.
 * Formulas: formats.md section 1, "Dequantization, closed form". */
void quant_dequantize_row(dtype type, const void *src, float *dst, size_t elems);

/* Every quantized type but MXFP8 is, per group of `group` elements along a row, value = scale * (code - zero) + min
 * with an unsigned 8-bit code. Splits one row into that form, exactly (scale and min in f32 as the closed form computes
 * them). codes: elems bytes; scales, mins: elems / group floats (mins all 0 where the type has none). Not for F32, F16,
 * BF16, MXFP8.
 */
typedef struct {
    uint32_t group; /* 16 or 32 */
    uint8_t zero;   /* subtracted from the code */
    bool has_min;
} quant_shape;
quant_shape quant_shape_of(dtype type);
void quant_split_row(dtype type, const void *src, size_t elems, uint8_t *codes, float *scales, float *mins);

#endif
