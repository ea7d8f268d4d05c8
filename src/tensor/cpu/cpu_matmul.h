/* tensor/cpu/cpu_matmul.h: matmul and get_rows (backend.h says what they do), cut into tiles for the pool. Engine
 * thread. */
#ifndef HEADWAY_TENSOR_CPU_CPU_MATMUL_H
#define HEADWAY_TENSOR_CPU_CPU_MATMUL_H

#include "tensor/cpu/cpu_backend.h"

void cpu_matmul(backend *self, const matmul_args *a);
void cpu_get_rows(backend *self, const get_rows_args *a);
status cpu_matmul_open(cpu_backend *self, error *err);
void cpu_matmul_close(cpu_backend *self);
/* Room for one tile of rows this wide in every form; called for each weight (start-up). */
status cpu_matmul_reserve(cpu_backend *self, uint32_t cols, error *err);

#endif
