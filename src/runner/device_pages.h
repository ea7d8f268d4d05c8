/* runner/device_pages.h: the mover (kv/page_mover.h) of a backend's KV pages. A page holds layer after layer; a part is
 * as many layers in a row as make equal parts, DEVICE_PARTS_MAX at most. */
#ifndef HEADWAY_RUNNER_DEVICE_PAGES_H
#define HEADWAY_RUNNER_DEVICE_PAGES_H

#include "kv/page_mover.h"
#include "tensor/backend.h"

enum { DEVICE_PARTS_MAX = 6 };

typedef struct {
    page_mover base; /* first */
    backend *device;
    kv_cache *cache;
    uint32_t part_layers; /* KV layers of a part */
} device_pages;

/* `cache` was made with `config`; both it and the device outlive the mover. */
void device_pages_open(device_pages *p, backend *device, kv_cache *cache, const kv_cache_config *config,
                       uint64_t fingerprint);

#endif
