/* kv/tiering_private.h: what the files of tiering share. A lane is a tier with its two threads and what waits for them.
 * `lock` guards all that is not said to be something else's; it is held for pointer moves, never during a call into a
 * tier. Order: tiering.lock before tier_restore.lock. */
#ifndef HEADWAY_KV_TIERING_PRIVATE_H
#define HEADWAY_KV_TIERING_PRIVATE_H

#include "kv/tier_speed.h"
#include "kv/tiering.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    ASKS_MAX = 256,        /* open at once */
    RESTORES_MAX = 64,     /* open at once */
    TOUCHES_MAX = 4096,    /* keys that wait; more are forgotten: they only order what goes first */
    BATCH_PAGES = 32,      /* of one put */
    BATCH_BYTES = 4 << 20, /* some milliseconds */
};

typedef struct waiting_page waiting_page; /* on its way into the tiers; holds a share of its page */
struct waiting_page {
    tier_page page; /* page.tokens are `tokens` below */
    waiting_page *next_in_bucket, *next[TIERS_MAX], *next_done;
    uint32_t taken; /* bits of the lanes that have it to write, or had */
    uint32_t left;  /* lanes that have not written it yet */
    bool listed;    /* can be found by its key */
    int32_t tokens[];
};

typedef struct drop_order drop_order; /* on the stack of who waits for it */
struct drop_order {
    uint64_t space;
    uint32_t left; /* lanes that have not obeyed yet */
    status st;
    error err;
    drop_order *next[TIERS_MAX];
};

typedef struct { /* what one lane reads of a restore: first `head` pages of the head, then those of the body */
    uint32_t count, head;
    uint32_t *order;  /* (count) indexes into tier_restore.pages */
    tier_page *pages; /* (count) copies in that order */
    uint64_t bytes;
} restore_piece;

struct tier_restore {
    tier_restore *next_done, *next_in_lane[TIERS_MAX], *next_open, *previous_open;
    tier_page *pages; /* (count) */
    int32_t *tokens;  /* of all pages */
    uint32_t count, head, parts;
    uint64_t part_bytes;
    restore_piece pieces[TIERS_MAX];
    uint32_t pieces_left;       /* lanes that are not through with it; tiering.lock */
    bool released, forgotten;   /* its shares are given back; its owner has ended it. Engine thread. */
    _Atomic bool stop;          /* any thread */
    _Atomic uint32_t parts_out; /* parts_done, for the runner */

    pthread_mutex_t lock;               /* of what follows */
    uint8_t *landed;                    /* (count) bits of the parts in place */
    bool *failed;                       /* (count) */
    uint32_t head_left;                 /* pages of the head that are not whole */
    uint32_t part_left[PAGE_PARTS_MAX]; /* pages of the body that lack this part */
    uint32_t leading;                   /* body pages [0, leading) are whole */
    uint32_t failed_at;                 /* the first body page that failed; UINT32_MAX: none */
    bool head_failed, ended;
    uint64_t bytes_by_tier[TIERS_MAX];
};

struct tier_ask {
    tier_ask *next_in_lane[TIERS_MAX], *next_open, *previous_open;
    uint32_t users; /* its owner, and lanes that have it queued or in hand */
    uint32_t left;  /* lanes whose answer is awaited */
    uint32_t first; /* slow tiers are asked from this key on */
    uint32_t count;
    uint64_t until_us;
    _Atomic bool answered;    /* from here on holders are read without the lock */
    uint32_t *holders;        /* (count) */
    bool *answers[TIERS_MAX]; /* (count) each: the reader's own while it asks */
    prefix_key keys[];
};

typedef struct {
    tiering *tiering;
    uint32_t index;
    tier *tier;
    pthread_t writer, reader;
    bool writer_runs, reader_runs;
    pthread_cond_t to_write, to_read;
    waiting_page *first_page, *last_page;
    uint64_t bytes; /* of pages queued or being written */
    drop_order *drops;
    prefix_key *touches; /* (TOUCHES_MAX) */
    uint32_t touch_count;
    prefix_key *touching;                          /* (TOUCHES_MAX): the writer's own */
    uint64_t held_from_us, flushed_us, expired_us; /* held_from: writes wait since then; 0: they do not */
    bool unflushed;
    tier_ask *first_ask, *last_ask;
    tier_restore *first_restore, *last_restore;
    uint64_t read_bytes; /* of restores queued or running */
    tier_speed speed;
} lane;

struct tiering {
    tiering_config config;
    uint64_t page_bytes, lane_bytes_max;
    lane lanes[TIERS_MAX];
    pthread_mutex_t lock;
    pthread_cond_t dropped;
    waiting_page **buckets; /* (bucket_mask + 1) by key */
    uint32_t bucket_mask;
    waiting_page *done_pages; /* their shares can be given back */
    tier_restore *done_restores;
    _Atomic bool something_done;
    _Atomic uint64_t hold_us; /* nothing is written before this time */
    tier_ask *open_asks;
    uint32_t open_ask_count;
    tier_restore *open_restores;
    uint32_t open_restore_count;
    pthread_t alarm; /* answers for slow tiers when the time is up */
    bool alarm_runs;
    pthread_cond_t alarm_set;
    bool closing;
    uint64_t close_by_us;
    uint32_t held; /* shares; engine thread */
};

void tiering_wake(tiering *t);
void *tiering_write_loop(void *l);                                  /* a lane's writer */
void *tiering_read_loop(void *l);                                   /* a lane's reader */
void *tiering_alarm_loop(void *t);                                  /* one, where a tier is slow to say what it has */
void tiering_page_left(tiering *t, uint32_t lane, waiting_page *w); /* locked: this lane is done with it */
void tiering_free_ask(tier_ask *a);
void tiering_free_restore(tier_restore *r);
bool tiering_read_ask(lane *l);     /* locked, unlocks meanwhile: answers the oldest; false: none waits */
bool tiering_read_restore(lane *l); /* the same for restores */

#endif
