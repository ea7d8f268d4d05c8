/* kv/tier/disk_format.c: headers and entries: filled, sealed, checked. */
#include "kv/tier/disk_format.h"

#include <string.h>
#include <xxhash.h>

enum { VERSION = 1 };
enum { KIND_FIRST = 0x31465748, KIND_PAGE = 0x31505748 }; /* "HWF1", "HWP1" */
static const char record_magic[8] = {'H', 'W', 'P', 'A', 'G', 'E', '0' + VERSION, '\n'};

disk_shape disk_shape_of(const page_mover *mover)
{
    uint64_t about[] = {VERSION, mover->fingerprint, mover->parts, mover->part_bytes};
    disk_shape s = {.fingerprint = XXH3_64bits(about, sizeof about),
                    .parts = mover->parts,
                    .part_bytes = mover->part_bytes,
                    .part_stride = (mover->part_bytes + DISK_BLOCK - 1) / DISK_BLOCK * DISK_BLOCK};
    s.record_bytes = DISK_BLOCK + s.part_stride * s.parts;
    return s;
}

uint64_t disk_tokens_hash(const int32_t *tokens, uint32_t count)
{
    return count ? XXH3_64bits(tokens, count * sizeof *tokens) : 0;
}

uint64_t disk_part_check(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}

void disk_header_fill(disk_header *h, const disk_shape *shape, const tier_page *page)
{
    memset(h, 0, sizeof *h);
    memcpy(h->magic, record_magic, sizeof h->magic);
    h->fingerprint = shape->fingerprint;
    h->key = page->key;
    h->space = page->space;
    h->token_count = page->token_count;
    h->parts = shape->parts;
    h->part_bytes = shape->part_bytes;
    if (page->token_count)
        memcpy(h->tokens, page->tokens, page->token_count * sizeof *h->tokens);
}

void disk_header_seal(disk_header *h)
{
    h->check = XXH3_64bits(h, offsetof(disk_header, check));
}

bool disk_header_whole(const disk_header *h, const disk_shape *shape)
{
    return memcmp(h->magic, record_magic, sizeof h->magic) == 0 && h->fingerprint == shape->fingerprint &&
           h->parts == shape->parts && h->part_bytes == shape->part_bytes && h->token_count <= DISK_TOKENS_MAX &&
           h->check == XXH3_64bits(h, offsetof(disk_header, check));
}

bool disk_header_is(const disk_header *h, const tier_page *page)
{
    return h->key.low == page->key.low && h->key.high == page->key.high && h->token_count == page->token_count &&
           (!page->token_count || memcmp(h->tokens, page->tokens, page->token_count * sizeof *h->tokens) == 0);
}

bool disk_record_whole(const void *record, const disk_shape *shape)
{
    const disk_header *h = record;
    if (!disk_header_whole(h, shape))
        return false;
    for (uint32_t p = 0; p < shape->parts; p++)
        if (disk_part_check((const char *)record + DISK_BLOCK + p * shape->part_stride, shape->part_bytes) !=
            h->part_check[p])
            return false;
    return true;
}

/* The first entry is checked without the fingerprint, so that a folder of another one is told from a damaged one. */
static uint64_t log_check(const disk_log_entry *e, const disk_shape *shape)
{
    return XXH3_64bits_withSeed(e, offsetof(disk_log_entry, check), e->kind == KIND_FIRST ? 0 : shape->fingerprint);
}

disk_log_entry disk_log_first(const disk_shape *shape)
{
    disk_log_entry e = {.kind = KIND_FIRST, .tokens_hash = shape->fingerprint};
    e.check = log_check(&e, shape);
    return e;
}

void disk_log_seal(disk_log_entry *e, const disk_shape *shape)
{
    e->kind = KIND_PAGE;
    e->check = log_check(e, shape);
}

disk_log_kind disk_log_read(const disk_log_entry *e, const disk_shape *shape)
{
    if ((e->kind != KIND_FIRST && e->kind != KIND_PAGE) || e->check != log_check(e, shape))
        return DISK_LOG_DAMAGED;
    if (e->kind == KIND_PAGE)
        return DISK_LOG_PAGE;
    return e->tokens_hash == shape->fingerprint ? DISK_LOG_FIRST : DISK_LOG_FOREIGN;
}
