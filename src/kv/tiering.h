/* kv/tiering.h: moves pages between memory and the tiers, off the engine thread. Two threads a tier, one that writes
 * and one that reads. The engine thread asks, looks at atomics and goes on; `wake` tells it that there is something to
 * look at. A page that is being written or read is held by a share of its own, given back by tiering_collect on the
 * engine thread. Queues are bounded: what does not fit is not stored. */
#ifndef HEADWAY_KV_TIERING_H
#define HEADWAY_KV_TIERING_H

#include "kv/tier/tier.h"

typedef struct tiering tiering;
typedef struct tier_ask tier_ask;
typedef struct tier_restore tier_restore;

enum { TIERS_MAX = 2 }; /* in the order they are asked */

typedef struct {
    tier *tiers[TIERS_MAX]; /* owned from here on */
    uint32_t tier_count;
    page_mover *mover; /* borrowed, as the pool */
    page_pool *pool;
    uint64_t ttl_us;             /* 0: none */
    uint64_t queue_bytes_max;    /* of pages that wait to be written; 0: 1 GiB */
    void (*wake)(void *context); /* any thread */
    void *wake_context;
} tiering_config;

/* Takes the tiers even if it fails. Memory for as many pages as they hold is asked for at once, 1 GiB at most. */
status tiering_open(tiering **out, const tiering_config *config, error *err);
/* Writes what waits (at most `flush_us`), ends the threads, open asks and restores, closes the tiers. Engine thread, or
 * when there is none any more. NULL allowed. */
void tiering_close(tiering *t, uint64_t flush_us);

/* Who has these? The answer comes at once where all tiers are quick, else later (`wake`); a tier that takes longer than
 * 30 ms has none of them. Engine thread. NULL: no memory, or too many are open. */
tier_ask *tiering_ask(tiering *t, const prefix_key *keys, uint32_t count);
bool tiering_answered(const tier_ask *a);
uint32_t tiering_holder(const tier_ask *a, uint32_t index); /* the tier's number + 1; 0: nobody. Once answered. */
void tiering_ask_end(tiering *t, tier_ask *a);

/* Predicted from what that tier has shown so far and what it has to read before, in microseconds. */
double tiering_restore_us(const tiering *t, uint32_t holder, uint64_t bytes);

/* Reads pages[i] from tier holders[i] - 1. The first `head` pages (a checkpoint) come first and whole. Arrays are
 * copied, tokens too; each page gets a share until it is collected. NULL: no memory or too many at once. Once a page of
 * the head has failed nothing more is read; once another one has, parts_done stands still and reading goes on until the
 * pages before it are whole. */
tier_restore *tiering_restore(tiering *t, const tier_page *pages, const uint32_t *holders, uint32_t count,
                              uint32_t head);
typedef struct {
    bool head_done;
    uint32_t parts_done; /* parts [0, parts_done) of every page are in place, and all of the head */
    bool ended;          /* nothing more will be written into the pages */
    uint32_t whole;      /* once ended: leading pages after the head that are whole; all of them unless some failed */
    bool head_failed;
    uint64_t bytes_by_tier[TIERS_MAX];
} restore_progress;
restore_progress tiering_progress(const tier_restore *r);
const _Atomic uint32_t *tiering_parts(const tier_restore *r); /* parts_done as it grows, for the runner */
void tiering_restore_end(tiering *t, tier_restore *r); /* forgets it, stops it if it runs; its pages stay shared until
                                                          the thread has let go of them */

/* Stores pages in every tier that lacks them, in the background. Tokens are copied, each page gets a share. What waits
 * already is not stored twice. Each tier has its part of queue_bytes_max, so that a slow one does not hold up the
 * other; false: no tier has room for them. */
bool tiering_store(tiering *t, const tier_page *pages, uint32_t count);
void tiering_touch(tiering *t, const prefix_key *keys, uint32_t count);
/* Engine thread: somebody waits for a first token, for about so long, and what can be written later is. A batch of
 * pages goes in a tenth of a second all the same, so that those who ask all the time keep nothing from being stored. */
void tiering_hold_writes(tiering *t, double us);
void tiering_collect(tiering *t);              /* engine thread, each turn: gives back the shares of what is done */
uint32_t tiering_pages_held(const tiering *t); /* shares not given back yet */

/* Any thread; blocks until the tiers have forgotten what was stored in the space so far. space 0: everything. */
status tiering_drop(tiering *t, uint64_t space, error *err);
uint32_t tiering_read_counts(tiering *t, tier_counts *out, const char **names); /* arrays of TIERS_MAX; how many */

#endif
