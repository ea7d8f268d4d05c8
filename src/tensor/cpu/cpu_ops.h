/* tensor/cpu/cpu_ops.h: the ops that are not a matmul, and the KV cache (backend.h says what each does). Engine thread.
 */
#ifndef HEADWAY_TENSOR_CPU_CPU_OPS_H
#define HEADWAY_TENSOR_CPU_CPU_OPS_H

#include "tensor/cpu/cpu_backend.h"

status cpu_kv_create(backend *self, const kv_cache_config *config, kv_cache **out, error *err);
void cpu_kv_destroy(backend *self, kv_cache *cache);
size_t cpu_kv_page_bytes(const kv_cache_config *config);
void *cpu_kv_page_at(backend *self, const kv_cache *cache, uint32_t page);
void cpu_kv_pages_touch(backend *self, kv_cache *cache, uint32_t first, uint32_t count);
void cpu_kv_page_read(backend *self, const kv_cache *cache, uint32_t page, size_t offset, size_t bytes, void *dst);
void cpu_kv_page_write(backend *self, kv_cache *cache, uint32_t page, size_t offset, size_t bytes, const void *src);
void cpu_rms_norm(backend *self, const rms_norm_args *a);
void cpu_rope(backend *self, const rope_args *a);
void cpu_kv_write(backend *self, const kv_write_args *a);
void cpu_attend(backend *self, const attend_args *a);
void cpu_act_mul(backend *self, const act_mul_args *a);
void cpu_add(backend *self, const add_args *a);
void cpu_sigmoid_mul(backend *self, const sigmoid_mul_args *a);
void cpu_route(backend *self, const route_args *a);
void cpu_experts(backend *self, const experts_args *a);
/* Scratch for stacks of that shape. */
status cpu_experts_reserve(cpu_backend *self, uint32_t rows, uint32_t cols, error *err);
void cpu_experts_close(cpu_backend *self);
status cpu_state_create(backend *self, const state_config *config, state_cache **out, error *err);
void cpu_state_destroy(backend *self, state_cache *cache);
size_t cpu_state_bytes(const state_config *config);
void cpu_state_save(backend *self, const state_cache *states, uint32_t slot, kv_cache *cache, const uint32_t *pages);
void cpu_state_load(backend *self, state_cache *states, uint32_t slot, const kv_cache *cache, const uint32_t *pages);
void cpu_delta(backend *self, const delta_args *a);
/* Called at open (may reserve scratch, may set ops_state) and at close. */
status cpu_ops_open(cpu_backend *self, error *err);
void cpu_ops_close(cpu_backend *self);
/* The float family of an instruction set by name; NULL when there is none. */
const struct float_kernels *float_kernels_named(const char *name);

#endif
