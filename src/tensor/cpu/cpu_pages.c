/* tensor/cpu/cpu_pages.c: a page's bytes from outside. A page is one run of memory (cpu_kv.h). What comes from outside
 * may be a recurrent state: the page is marked, so that it is zeroed before it takes keys and values again. So is one
 * that is not filled at once: a tier may get it as it is, and what others had in it is not for whoever reads it there.
 */
#include "tensor/cpu/cpu_kv.h"
#include "tensor/cpu/cpu_ops.h"
#include "tensor/cpu/cpu_os.h"

#include <assert.h>
#include <string.h>

void cpu_kv_take_pages(const kv_write_args *a)
{
    kv_cache *cache = a->cache;
    for (uint32_t i = 0; a->layer == 0 && i < a->segment_count; i++) { /* the first layer that a token is written in */
        const kv_segment *s = &a->segments[i];
        uint32_t first = (s->position + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
        uint32_t end = (s->position + s->row_count + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
        for (uint32_t p = first; p < end; p++) {
            bool foreign = atomic_exchange_explicit(&cache->foreign[s->pages[p]], 0, memory_order_relaxed);
            bool filled = (p + 1) * KV_PAGE_TOKENS <= s->position + s->row_count;
            if (foreign || !filled)
                memset(cache->memory + s->pages[p] * cache->page_bytes, 0, cache->page_bytes);
        }
    }
}

void *cpu_kv_page_at(backend *self, const kv_cache *cache, uint32_t page)
{
    (void)self;
    assert(page < cache->config.page_count);
    atomic_store_explicit(&cache->foreign[page], 1, memory_order_relaxed);
    return cache->memory + (size_t)page * cache->page_bytes;
}

static uint8_t *range_at(backend *self, const kv_cache *cache, uint32_t page, size_t offset, size_t bytes)
{
    assert(offset <= cache->page_bytes && bytes <= cache->page_bytes - offset);
    return (uint8_t *)cpu_kv_page_at(self, cache, page) + offset;
}

void cpu_kv_page_read(backend *self, const kv_cache *cache, uint32_t page, size_t offset, size_t bytes, void *dst)
{
    memcpy(dst, range_at(self, cache, page, offset, bytes), bytes);
}

void cpu_kv_page_write(backend *self, kv_cache *cache, uint32_t page, size_t offset, size_t bytes, const void *src)
{
    memcpy(range_at(self, cache, page, offset, bytes), src, bytes);
}

void cpu_kv_pages_touch(backend *self, kv_cache *cache, uint32_t first, uint32_t count)
{
    (void)self;
    assert(first <= cache->config.page_count && count <= cache->config.page_count - first);
    cpu_os_touch(cache->memory + (size_t)first * cache->page_bytes, count * (size_t)cache->page_bytes);
}
