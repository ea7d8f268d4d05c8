/* tensor/cpu/cpu_tiles.h: in which form does a weight's kernel want its rows of x, and how do they get there?
 * A tile is up to TILE_ROWS rows in one of the forms of matmul_kernels.h. Any thread. */
#ifndef HEADWAY_TENSOR_CPU_CPU_TILES_H
#define HEADWAY_TENSOR_CPU_CPU_TILES_H

#include "tensor/cpu/kernels.h"
#include "tensor/cpu/matmul_kernels.h"

typedef enum { ROWS_INT8, ROWS_F32, ROWS_BF16 } row_kind;

typedef struct {
    row_kind kind;
    act_form form; /* of ROWS_INT8 */
} tile_form;

tile_form tile_form_of(const cpu_kernels *kernels, const weight *w);
bool tile_form_equal(tile_form a, tile_form b);
/* Of one tile; a multiple of 64, and most for f32. */
size_t tile_form_bytes(tile_form form, uint32_t cols);

void tile_pack(const cpu_kernels *kernels, tile_form form, const float *const *x, uint32_t rows, uint32_t cols,
               uint8_t *tile);

#endif
