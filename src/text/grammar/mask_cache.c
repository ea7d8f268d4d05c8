/* text/grammar/mask_cache.c: a table and a list by age. Entries that somebody holds stay whatever the bound. */
#include "text/grammar/mask_cache.h"

#include <stdlib.h>

enum { BUCKETS = 8192 };

bool mask_cache_init(mask_cache *c, size_t bytes_max)
{
    *c = (mask_cache){.bucket_count = BUCKETS, .bytes_max = bytes_max};
    c->buckets = calloc(BUCKETS, sizeof *c->buckets);
    return c->buckets != NULL;
}

void mask_entry_free(mask_entry *entry)
{
    if (!entry)
        return;
    free(entry->bits);
    free(entry->exits);
    free(entry);
}

void mask_cache_free(mask_cache *c)
{
    for (mask_entry *e = c->newest, *next; e; e = next) {
        next = e->older;
        mask_entry_free(e);
    }
    free(c->buckets);
    *c = (mask_cache){0};
}

static mask_entry **bucket_of(mask_cache *c, const uint64_t key[2])
{
    return &c->buckets[key[0] % c->bucket_count];
}

static void unlink_age(mask_cache *c, mask_entry *e)
{
    *(e->newer ? &e->newer->older : &c->newest) = e->older;
    *(e->older ? &e->older->newer : &c->oldest) = e->newer;
}

static void make_newest(mask_cache *c, mask_entry *e)
{
    e->newer = NULL;
    e->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

mask_entry *mask_cache_find(mask_cache *c, const uint64_t key[2])
{
    for (mask_entry *e = *bucket_of(c, key); e; e = e->next_in_bucket)
        if (e->key[0] == key[0] && e->key[1] == key[1]) {
            unlink_age(c, e);
            make_newest(c, e);
            e->references++;
            return e;
        }
    return NULL;
}

static void drop(mask_cache *c, mask_entry *e)
{
    mask_entry **at = bucket_of(c, e->key);
    while (*at != e)
        at = &(*at)->next_in_bucket;
    *at = e->next_in_bucket;
    unlink_age(c, e);
    c->bytes -= e->bytes;
    mask_entry_free(e);
}

static void make_room(mask_cache *c)
{
    for (mask_entry *e = c->oldest, *newer; e && c->bytes > c->bytes_max; e = newer) {
        newer = e->newer;
        if (e->references == 0)
            drop(c, e);
    }
}

void mask_cache_put(mask_cache *c, mask_entry *entry)
{
    mask_entry **bucket = bucket_of(c, entry->key);
    entry->references = 1;
    entry->next_in_bucket = *bucket;
    *bucket = entry;
    make_newest(c, entry);
    c->bytes += entry->bytes;
    make_room(c);
}

void mask_cache_release(mask_cache *c, mask_entry *entry)
{
    if (!entry)
        return;
    entry->references--;
    if (c->bytes > c->bytes_max)
        make_room(c);
}
