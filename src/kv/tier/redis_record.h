/* kv/tier/redis_record.h: what lies under a page's key: a head (what it is, checksums, the ids of its tokens), then its
 * parts. Nothing of it is believed: another version, model, key, page or token, and a single wrong bit, make it a miss.
 * Pure. */
#ifndef HEADWAY_KV_TIER_REDIS_RECORD_H
#define HEADWAY_KV_TIER_REDIS_RECORD_H

#include "kv/tier/tier.h"

enum { RECORD_TOKENS_MAX = 4096, RECORD_KEY_SIZE = 64 };

size_t record_head_bytes(uint32_t token_count);
size_t record_bytes(const page_mover *mover, uint32_t token_count);
/* `record` has record_bytes; the parts lie after the head already. */
void record_write_head(char *record, const page_mover *mover, const tier_page *page);
/* `head` has record_head_bytes(page->token_count); on true the checksums of its parts are those that it names. */
bool record_check_head(const char *head, const page_mover *mover, const tier_page *page,
                       uint64_t checksums[PAGE_PARTS_MAX]);
bool record_check_part(const char *part, const page_mover *mover, uint64_t checksum);

/* Names in Redis, without a terminating zero in the count: headway:FINGERPRINT:KEY, headway:FINGERPRINT:space:SPACE. */
size_t record_key(char out[RECORD_KEY_SIZE], uint64_t fingerprint, prefix_key key);
size_t record_space_key(char out[RECORD_KEY_SIZE], uint64_t fingerprint, uint64_t space);

#endif
