/* text/grammar/mask_cache.h: masks by key, the longest unused ones go first when they take too much memory. The caller
 * holds one lock round all calls. */
#ifndef HEADWAY_TEXT_GRAMMAR_MASK_CACHE_H
#define HEADWAY_TEXT_GRAMMAR_MASK_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mask_entry mask_entry;

struct mask_entry {
    uint64_t key[2];
    uint32_t references;
    uint32_t *bits;  /* one for each token */
    uint32_t *exits; /* nodes of the trie where a lexical procedure may have ended before the token does */
    uint32_t exit_count;
    size_t bytes;
    mask_entry *next_in_bucket, *newer, *older;
};

typedef struct {
    mask_entry **buckets;
    uint32_t bucket_count;
    mask_entry *newest, *oldest;
    size_t bytes, bytes_max;
} mask_cache;

bool mask_cache_init(mask_cache *c, size_t bytes_max);
void mask_cache_free(mask_cache *c); /* nobody holds an entry */

mask_entry *mask_cache_find(mask_cache *c, const uint64_t key[2]); /* with a reference; NULL: not there */
void mask_cache_put(mask_cache *c, mask_entry *entry); /* takes it; the caller has a reference. Its key is not there */
void mask_cache_release(mask_cache *c, mask_entry *entry); /* NULL allowed */

void mask_entry_free(mask_entry *entry); /* one that was never put */

#endif
