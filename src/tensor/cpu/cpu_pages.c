/* tensor/cpu/cpu_pages.c: a page's bytes from outside. A page is one run of memory (cpu_kv.h). */
#include "tensor/cpu/cpu_kv.h"
#include "tensor/cpu/cpu_ops.h"

#include <assert.h>
#include <string.h>

void *cpu_kv_page_at(backend *self, const kv_cache *cache, uint32_t page)
{
    (void)self;
    assert(page < cache->config.page_count);
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
