/* tensor/cpu/cpu_attend.h: how much scratch does a worker need to attend? Pure. */
#ifndef HEADWAY_TENSOR_CPU_CPU_ATTEND_H
#define HEADWAY_TENSOR_CPU_CPU_ATTEND_H

#include "tensor/cpu/float_kernels.h"

size_t cpu_attend_scratch_bytes(const float_kernels *kernels, uint32_t head_dim);

#endif
