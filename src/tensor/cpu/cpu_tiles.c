/* tensor/cpu/cpu_tiles.c: see the header. */
#include "tensor/cpu/cpu_tiles.h"

tile_form tile_form_of(const cpu_kernels *kernels, const weight *w)
{
    if (w->format)
        return (tile_form){ROWS_INT8, {w->format->group == 16, w->format->has_min}};
    bool halves = w->type == DT_MXFP8 && kernels->bf16;
    return (tile_form){.kind = halves ? ROWS_BF16 : ROWS_F32};
}

bool tile_form_equal(tile_form a, tile_form b)
{
    return a.kind == b.kind && a.form.split == b.form.split && a.form.has_min == b.form.has_min;
}

size_t tile_form_bytes(tile_form form, uint32_t cols)
{
    size_t bytes = (size_t)cols * TILE_ROWS * sizeof(float);
    if (form.kind == ROWS_INT8)
        bytes = cols / BLOCK_COLS * act_block_bytes(form.form);
    if (form.kind == ROWS_BF16)
        bytes = cols / BLOCK_COLS * BF16_BLOCK_BYTES;
    return (bytes + 63) & ~(size_t)63;
}

static void pack_floats(const float *const *x, uint32_t rows, uint32_t cols, float *tile)
{
    enum { STRIP = 16 }; /* columns whose part of the tile stays in L1 */
    for (uint32_t first = 0; first < cols; first += STRIP) {
        uint32_t end = first + STRIP < cols ? first + STRIP : cols;
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t k = first; k < end; k++)
                tile[(size_t)k * rows + r] = x[r][k];
    }
}

void tile_pack(const cpu_kernels *kernels, tile_form form, const float *const *x, uint32_t rows, uint32_t cols,
               uint8_t *tile)
{
    if (form.kind == ROWS_F32)
        pack_floats(x, rows, cols, (float *)(void *)tile);
    else if (form.kind == ROWS_BF16)
        kernels->bf16->pack(x, rows, cols, tile);
    else
        kernels->matmul->quantize(x, rows, cols, form.form, tile);
}
