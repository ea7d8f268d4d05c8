/* tensor/cpu/cpu_ops.c: to come. */
#include "tensor/cpu/cpu_ops.h"

status cpu_kv_create(backend *self, const kv_cache_config *config, kv_cache **out, error *err)
{
    (void)self, (void)config, (void)out;
    return error_set(err, ERR_UNSUPPORTED, "KV cache: not built yet");
}
void cpu_kv_destroy(backend *self, kv_cache *cache)
{
    (void)self, (void)cache;
}
size_t cpu_kv_page_bytes(const kv_cache_config *config)
{
    (void)config;
    return 0;
}
#define STUB(name, args)                                                                                               \
    void name(backend *self, const args *a)                                                                            \
    {                                                                                                                  \
        (void)self, (void)a;                                                                                           \
    }
STUB(cpu_rms_norm, rms_norm_args)
STUB(cpu_rope, rope_args)
STUB(cpu_kv_write, kv_write_args)
STUB(cpu_attend, attend_args)
STUB(cpu_act_mul, act_mul_args)
STUB(cpu_add, add_args)
status cpu_ops_open(cpu_backend *self, error *err)
{
    (void)self, (void)err;
    return OK;
}
void cpu_ops_close(cpu_backend *self)
{
    (void)self;
}
const struct float_kernels *float_kernels_named(const char *name)
{
    (void)name;
    return 0;
}
