/* kv/tier/tier.h: a place beyond memory that keeps pages by key: the disk, a Redis server. One const table of functions
 * each. A record is a page (kv/page_mover.h) with the ids of its tokens; it is found whole and unharmed or not at all:
 * a damaged, torn or foreign record is a miss, never an error and never other bytes. Calls block and come from the
 * threads of kv/tiering.h: puts from one thread, gets from another; `has` from any thread. */
#ifndef HEADWAY_KV_TIER_TIER_H
#define HEADWAY_KV_TIER_TIER_H

#include "kv/page_mover.h"
#include "kv/prefix_cache.h"

typedef struct tier tier;

typedef struct {
    prefix_key key;
    uint64_t space;        /* whose it is: `drop` goes by it */
    const int32_t *tokens; /* of the page, compared at a get: a hash alone is not trusted */
    uint32_t token_count;
    page_id page;
} tier_page;

typedef struct {
    uint64_t records, bytes, bytes_max; /* now */
    uint64_t puts, put_bytes, gets, get_bytes, misses, damaged, dropped, errors;
    bool online;
    char state[96]; /* for people: "io_uring", "no space left", "connecting to ..." */
} tier_counts;

/* `status`: OK, or ERR_NOT_FOUND for a record that is not there or not whole. */
typedef void (*tier_landed)(void *context, uint32_t index, uint32_t part, status st);

typedef struct {
    const char *name;  /* "disk", "redis" */
    bool has_is_quick; /* answers from memory: may be asked on the engine thread */
    void (*has)(tier *t, const prefix_key *keys, uint32_t count, bool *out);
    /* Stores `count` pages; a record that is there already is only touched. What cannot be stored is dropped and
     * counted. */
    void (*put)(tier *t, const tier_page *pages, uint32_t count);
    /* Reads pages into place by part: part 0 of all, part 1 of all, ... `landed` is called once for each page and part,
     * or once for a page that fails, from this thread or the tier's own, and never after the return. True in *stop
     * (any thread) ends it early. */
    void (*get)(tier *t, const tier_page *pages, uint32_t count, tier_landed landed, void *context,
                const _Atomic bool *stop);
    void (*touch)(tier *t, const prefix_key *keys, uint32_t count); /* used: they go last */
    /* Forgets what belongs to `space` (0: everything); its bytes are gone from the medium when it returns. */
    status (*drop)(tier *t, uint64_t space, error *err);
    void (*expire)(tier *t, uint64_t ttl_us);       /* what was not used for as long */
    void (*flush)(tier *t);                         /* what was put is as safe as it gets */
    void (*read_counts)(tier *t, tier_counts *out); /* any thread */
    void (*close)(tier *t);
} tier_ops;

struct tier {
    const tier_ops *ops;
};

typedef struct {
    const char *dir;    /* made if it is not there, mode 0700; files 0600 */
    uint64_t bytes_max; /* a hard cap on what lies in `dir` */
    page_mover *mover;  /* borrowed */
    bool no_uring;      /* threads even where io_uring is there */
} disk_tier_config;
/* ERR_BUSY: another process holds the folder; ERR_IO: not usable. A folder of another fingerprint is emptied (said in
 * the log), damaged records are skipped. */
status disk_tier_open(tier **out, const disk_tier_config *config, error *err);

typedef struct {
    const char *url; /* redis://[user[:password]@]host[:port][/db], rediss:// */
    uint64_t ttl_us; /* of each record; 0: the server's own eviction */
    page_mover *mover;
} redis_tier_config;
/* ERR_INVALID: a URL that is not understood; ERR_UNSUPPORTED: rediss:// without TLS in this build, the text says what
 * to do. A server that is not there is no error: it is a miss until it is. */
status redis_tier_open(tier **out, const redis_tier_config *config, error *err);

#endif
