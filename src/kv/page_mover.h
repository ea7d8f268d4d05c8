/* kv/page_mover.h: the contract by which a page's bytes leave and enter the device: implemented by a runner, used by
 * the threads of kv/tiering.h. A page is `parts` parts of part_bytes; part p holds the same layers of every page, in
 * ascending order of layers, so that a sequence whose first parts have come can begin to compute. Bytes are the live
 * ones: a quantized page is stored as it is. Pages that hold a checkpoint of the recurrent state are pages like others.
 * Any thread; the caller holds a share of the page, writes only pages that nobody reads yet, and reads only pages that
 * nobody writes any more. */
#ifndef HEADWAY_KV_PAGE_MOVER_H
#define HEADWAY_KV_PAGE_MOVER_H

#include "kv/page_pool.h"

#include <stddef.h>

typedef struct page_mover page_mover;

typedef struct {
    /* Where the part's bytes lie in host memory, to be read or written in place; NULL: this device has no such place,
     * use read and write. */
    void *(*at)(page_mover *self, page_id page, uint32_t part);
    void (*read)(page_mover *self, page_id page, uint32_t part, void *dst);
    void (*write)(page_mover *self, page_id page, uint32_t part, const void *src);
    /* Makes room for the bytes of pages [first, first + count) that will be used soon: changes none, and nobody needs
     * to hold them. NULL: there is room. */
    void (*touch)(page_mover *self, page_id first, uint32_t count);
} page_mover_ops;

struct page_mover {
    const page_mover_ops *ops;
    uint32_t parts; /* 1..PAGE_PARTS_MAX */
    size_t part_bytes;
    uint64_t fingerprint; /* of model, KV type, layout and version: pages of another one mean nothing here */
};

enum { PAGE_PARTS_MAX = 8 };

#endif
