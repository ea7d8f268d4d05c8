/* tensor/cpu/cpu_backend.h: the CPU backend's own state, for the files that carry out its ops. An op runs before its
 * call returns, on the pool; one thread (the engine's) calls. */
#ifndef HEADWAY_TENSOR_CPU_CPU_BACKEND_H
#define HEADWAY_TENSOR_CPU_CPU_BACKEND_H

#include "tensor/backend.h"
#include "tensor/cpu/cpu_arena.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/pool.h"

struct buffer {
    float *data; /* 64-byte aligned */
    size_t floats;
};

typedef struct {
    void *memory; /* 64-byte aligned */
    size_t bytes;
} cpu_scratch;

typedef struct cpu_backend {
    backend base; /* first: a backend* is a cpu_backend* */
    cpu_kernels kernels;
    pool *pool;
    cpu_arena weights;
    cpu_scratch activations; /* matmul's packed input rows */
    cpu_scratch expert_rows; /* cpu_experts.c's: grows to what the largest call needed */
    void *ops_state;         /* cpu_ops.c's own; NULL until it wants some */
    size_t roof_bytes;       /* size of the last measured read, and what it gave */
    double roof_rate;
} cpu_backend;

static inline cpu_backend *cpu_backend_of(backend *self)
{
    return (cpu_backend *)self;
}

static inline float *view_row(view v, uint32_t row)
{
    return v.buf->data + v.offset + row * v.stride;
}

#endif
