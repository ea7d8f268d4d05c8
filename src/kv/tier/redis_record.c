/* kv/tier/redis_record.c: numbers lie as this machine has them; one of the other byte order finds another magic. */
#include "kv/tier/redis_record.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define MAGIC 0x3130454741505748u /* "HWPAGE01" */

typedef struct {
    uint64_t checksum; /* of all that follows it in the head, tokens too */
    uint64_t magic, fingerprint;
    prefix_key key;
    uint64_t space;
    uint32_t parts, token_count;
    uint64_t part_bytes;
    uint64_t checksums[PAGE_PARTS_MAX]; /* of each part; 0 beyond the last */
} record_head;

size_t record_head_bytes(uint32_t token_count)
{
    return sizeof(record_head) + token_count * sizeof(int32_t);
}

size_t record_bytes(const page_mover *mover, uint32_t token_count)
{
    return record_head_bytes(token_count) + mover->parts * mover->part_bytes;
}

static record_head head_of(const page_mover *mover, const tier_page *page)
{
    record_head h;
    memset(&h, 0, sizeof h);
    h.magic = MAGIC;
    h.fingerprint = mover->fingerprint;
    h.key = page->key;
    h.space = page->space;
    h.parts = mover->parts;
    h.part_bytes = mover->part_bytes;
    h.token_count = page->token_count;
    return h;
}

static uint64_t head_checksum(const char *head, uint32_t token_count)
{
    return XXH3_64bits(head + sizeof(uint64_t), record_head_bytes(token_count) - sizeof(uint64_t));
}

void record_write_head(char *record, const page_mover *mover, const tier_page *page)
{
    assert(page->token_count <= RECORD_TOKENS_MAX);
    record_head h = head_of(mover, page);
    const char *parts = record + record_head_bytes(page->token_count);
    for (uint32_t p = 0; p < mover->parts; p++)
        h.checksums[p] = XXH3_64bits(parts + p * mover->part_bytes, mover->part_bytes);
    memcpy(record, &h, sizeof h);
    if (page->token_count)
        memcpy(record + sizeof h, page->tokens, page->token_count * sizeof(int32_t));
    h.checksum = head_checksum(record, page->token_count);
    memcpy(record, &h.checksum, sizeof h.checksum);
}

bool record_check_head(const char *head, const page_mover *mover, const tier_page *page,
                       uint64_t checksums[PAGE_PARTS_MAX])
{
    record_head found, wanted = head_of(mover, page);
    memcpy(&found, head, sizeof found);
    if (found.checksum != head_checksum(head, page->token_count))
        return false;
    memcpy(checksums, found.checksums, sizeof found.checksums);
    wanted.checksum = found.checksum;
    memcpy(wanted.checksums, found.checksums, sizeof wanted.checksums);
    return memcmp(&found, &wanted, sizeof found) == 0 &&
           (page->token_count == 0 ||
            memcmp(head + sizeof found, page->tokens, page->token_count * sizeof(int32_t)) == 0);
}

bool record_check_part(const char *part, const page_mover *mover, uint64_t checksum)
{
    return XXH3_64bits(part, mover->part_bytes) == checksum;
}

size_t record_key(char out[RECORD_KEY_SIZE], uint64_t fingerprint, prefix_key key)
{
    return (size_t)snprintf(out, RECORD_KEY_SIZE, "headway:%016" PRIx64 ":%016" PRIx64 "%016" PRIx64, fingerprint,
                            key.high, key.low);
}

size_t record_space_key(char out[RECORD_KEY_SIZE], uint64_t fingerprint, uint64_t space)
{
    return (size_t)snprintf(out, RECORD_KEY_SIZE, "headway:%016" PRIx64 ":space:%016" PRIx64, fingerprint, space);
}
