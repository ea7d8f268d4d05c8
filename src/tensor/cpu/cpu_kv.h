/* tensor/cpu/cpu_kv.h: where do a page's K and V lie on the CPU?
 * A page is one run of memory: for each layer, for each KV head, one block (float_kernels.h). Memory of a page that was
 * never written is never touched, so resident memory grows with use. Owner: whoever called create; the op thread. */
#ifndef HEADWAY_TENSOR_CPU_CPU_KV_H
#define HEADWAY_TENSOR_CPU_CPU_KV_H

#include "tensor/cpu/float_kernels.h"

#include <stdatomic.h>

enum {
    ATTEND_GROUPS_MAX = 4096, /* (segment, KV head) pairs whose splits are in flight at once */
    ATTEND_PARTIAL_FLOATS =
        2 << 20, /* room for their partial results; lazily zeroed, so only what is used is resident */
};

struct kv_cache {
    kv_cache_config config;
    const float_kernels *kernels; /* that write and attend it */
    size_t block_bytes, page_bytes, bytes;
    uint8_t *memory;
    _Atomic uint8_t *foreign;      /* [page_count]: 1 where something else than kv_write may have written */
    float *partials;               /* ATTEND_PARTIAL_FLOATS */
    _Atomic uint32_t *splits_left; /* ATTEND_GROUPS_MAX */
};

/* The kernels read whole blocks and rely on all values in them being finite. Zeroes foreign pages that get their first
 * token. */
void cpu_kv_take_pages(const kv_write_args *a);

static inline uint8_t *kv_cache_blocks(const kv_cache *cache, uint32_t layer, uint32_t kv_head)
{
    return cache->memory + ((size_t)layer * cache->config.kv_heads + kv_head) * cache->block_bytes;
}

#endif
