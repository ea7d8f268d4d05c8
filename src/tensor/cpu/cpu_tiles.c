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

static void pack_floats(tile_source from, float *tile)
{
    for (uint32_t r = 0; r < from.rows; r++)
        for (uint32_t k = 0; k < from.cols; k++)
            tile[(size_t)k * from.rows + r] = from.x[r * from.stride + k];
}

void tile_pack(const cpu_kernels *kernels, tile_form form, tile_source from, uint8_t *tile)
{
    if (form.kind == ROWS_F32)
        pack_floats(from, (float *)(void *)tile);
    else if (form.kind == ROWS_BF16)
        kernels->bf16->pack(from.x, from.stride, from.rows, from.cols, tile);
    else
        kernels->matmul->quantize(from.x, from.stride, from.rows, from.cols, form.form, tile);
}
