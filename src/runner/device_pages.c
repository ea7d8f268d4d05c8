/* runner/device_pages.c: parts of a page as ranges of its bytes. */
#include "runner/device_pages.h"

static void *part_at(page_mover *self, page_id page, uint32_t part)
{
    const device_pages *p = (const device_pages *)self;
    uint8_t *at = p->device->ops->kv_page_at(p->device, p->cache, page);
    return at ? at + part * self->part_bytes : NULL;
}

static void part_read(page_mover *self, page_id page, uint32_t part, void *dst)
{
    const device_pages *p = (const device_pages *)self;
    p->device->ops->kv_page_read(p->device, p->cache, page, part * self->part_bytes, self->part_bytes, dst);
}

static void part_write(page_mover *self, page_id page, uint32_t part, const void *src)
{
    const device_pages *p = (const device_pages *)self;
    p->device->ops->kv_page_write(p->device, p->cache, page, part * self->part_bytes, self->part_bytes, src);
}

static void touch(page_mover *self, page_id first, uint32_t count)
{
    const device_pages *p = (const device_pages *)self;
    p->device->ops->kv_pages_touch(p->device, p->cache, first, count);
}

static const page_mover_ops device_pages_ops = {part_at, part_read, part_write, touch};

void device_pages_open(device_pages *p, backend *device, kv_cache *cache, const kv_cache_config *config,
                       uint64_t fingerprint)
{
    uint32_t parts = DEVICE_PARTS_MAX;
    while (config->layers % parts)
        parts--;
    *p = (device_pages){.base = {.ops = &device_pages_ops, .parts = parts, .fingerprint = fingerprint},
                        .device = device,
                        .cache = cache,
                        .part_layers = config->layers / parts};
    p->base.part_bytes = device->ops->kv_page_bytes(config) / parts;
}
