/* model/file/mlx_blocks.c: a row of an MLX matrix (codes, scales and biases in tensors of their own;
 * formats.md 3.3, 3.4) as the loaders' own blocks. Codes keep MLX's order: a little-endian bitstream. */
#include "model/file/hf.h"

enum { BLOCK = 32 };

static void affine_blocks(const hf_matrix *m, const uint8_t *codes, const uint8_t *scales, const uint8_t *biases,
                          uint8_t *dst)
{
    size_t code_bytes = BLOCK * m->bits / 8, unit = safetensors_dtype_bytes(m->scale_dtype);
    for (uint64_t b = 0; b < m->cols / BLOCK; b++, dst += 8 + code_bytes, codes += code_bytes) {
        uint64_t group = b * BLOCK / m->group;
        float pair[2] = {hf_float_at(m->scale_dtype, scales + group * unit),
                         hf_float_at(m->scale_dtype, biases + group * unit)};
        memcpy(dst, pair, sizeof pair);
        memcpy(dst + sizeof pair, codes, code_bytes);
    }
}

/* 64 columns with the file's own 16-bit scale and bias. */
static void affine4_halves_blocks(const hf_matrix *m, const uint8_t *codes, const uint8_t *scales,
                                  const uint8_t *biases, uint8_t *dst)
{
    for (uint64_t b = 0; b < m->cols / 64; b++, dst += 36, codes += 32) {
        uint64_t group = b * 64 / m->group;
        memcpy(dst, scales + 2 * group, 2);
        memcpy(dst + 2, biases + 2 * group, 2);
        memcpy(dst + 4, codes, 32);
    }
}

/* GGUF's halves: byte i holds columns i (low nibble) and i + 16. */
static void nibbles_to_halves(const uint8_t *codes, uint8_t *dst)
{
    for (int i = 0; i < 16; i++) {
        uint8_t low = codes[i / 2], high = codes[8 + i / 2];
        uint32_t shift = 4 * (i & 1);
        dst[i] = (uint8_t)((low >> shift & 15) | (high >> shift & 15) << 4);
    }
}

void mlx_row_blocks(const hf_matrix *m, uint64_t row, uint8_t *dst)
{
    const uint8_t *codes = m->weight + row * m->weight_row, *scales = m->scales + row * m->scale_row;
    uint64_t blocks = m->cols / BLOCK;
    switch (m->form) {
    case MLX_AFFINE:
        if (m->type == DT_AFFINE4_BF16 || m->type == DT_AFFINE4_F16)
            affine4_halves_blocks(m, codes, scales, m->biases + row * m->scale_row, dst);
        else
            affine_blocks(m, codes, scales, m->biases + row * m->scale_row, dst);
        break;
    case MLX_MXFP4:
        for (uint64_t b = 0; b < blocks; b++, dst += 17) {
            dst[0] = scales[b];
            nibbles_to_halves(codes + 16 * b, dst + 1);
        }
        break;
    case MLX_MXFP8:
        for (uint64_t b = 0; b < blocks; b++, dst += 33) {
            dst[0] = scales[b];
            memcpy(dst + 1, codes + BLOCK * b, BLOCK);
        }
        break;
    default: /* MLX_NVFP4 */
        for (uint64_t b = 0; b < blocks; b++, dst += 18) {
            memcpy(dst, scales + 2 * b, 2);
            memcpy(dst + 2, codes + 16 * b, 16);
        }
    }
}
