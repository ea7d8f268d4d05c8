/* kv/tier/disk_format.h: what the bytes on disk mean. Two kinds of file.
 *
 * A segment, NNNNNNNN.seg (hex), is a row of slots of one size. A slot holds a record: a header of one block, then the
 * parts, each padded to a block, so that a record can be read without a copy and a hole can be punched where it was.
 *
 * index.log is a row of entries of 64 bytes, each with a checksum of its own: the first names the fingerprint, the
 * others say "slot S of segment N holds KEY, last used then". Of two that speak of one key or one slot the later one
 * counts. An entry is written only when its record is safe, so it is the record's commit; one that is damaged is
 * skipped and takes no other with it. Numbers are in the machine's order: a folder does not travel between orders, the
 * checksums see to that. Pure functions of bytes: any thread. */
#ifndef HEADWAY_KV_TIER_DISK_FORMAT_H
#define HEADWAY_KV_TIER_DISK_FORMAT_H

#include "kv/tier/tier.h"

enum { DISK_BLOCK = 4096, DISK_TOKENS_MAX = 992, DISK_LOG_ENTRY = 64 };

typedef struct {
    char magic[8];
    uint64_t fingerprint;
    prefix_key key;
    uint64_t space;
    uint32_t token_count, parts;
    uint64_t part_bytes;
    uint64_t part_check[PAGE_PARTS_MAX];
    int32_t tokens[DISK_TOKENS_MAX];
    uint64_t check; /* of all before it */
} disk_header;

typedef struct {          /* how records of one folder look */
    uint64_t fingerprint; /* of the mover's and all that is here */
    uint32_t parts;
    size_t part_bytes;
    size_t part_stride; /* part_bytes up to a block */
    size_t record_bytes;
} disk_shape;

typedef struct {
    uint32_t kind;
    uint32_t token_count;
    uint32_t segment, slot;
    prefix_key key;
    uint64_t space;
    uint64_t used_us;     /* since 1970 */
    uint64_t tokens_hash; /* in the first entry: the fingerprint */
    uint64_t check;
} disk_log_entry;

_Static_assert(sizeof(disk_header) == DISK_BLOCK, "a header is a block");
_Static_assert(sizeof(disk_log_entry) == DISK_LOG_ENTRY, "an entry has no holes");

disk_shape disk_shape_of(const page_mover *mover);
uint64_t disk_tokens_hash(const int32_t *tokens, uint32_t count);
uint64_t disk_part_check(const void *data, size_t size);

/* Fills all but the parts' checksums; disk_header_seal comes after them. token_count <= DISK_TOKENS_MAX. */
void disk_header_fill(disk_header *h, const disk_shape *shape, const tier_page *page);
void disk_header_seal(disk_header *h);
bool disk_header_whole(const disk_header *h, const disk_shape *shape); /* as it was sealed, of this shape */
bool disk_header_is(const disk_header *h, const tier_page *page);      /* the key and the tokens asked for */
bool disk_record_whole(const void *record, const disk_shape *shape);   /* header and all parts */

disk_log_entry disk_log_first(const disk_shape *shape);
void disk_log_seal(disk_log_entry *e, const disk_shape *shape);
typedef enum { DISK_LOG_DAMAGED, DISK_LOG_FOREIGN, DISK_LOG_FIRST, DISK_LOG_PAGE } disk_log_kind;
disk_log_kind disk_log_read(const disk_log_entry *e, const disk_shape *shape);

#endif
