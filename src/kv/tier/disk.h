/* kv/tier/disk.h: the disk tier inside: records in segments, an index in memory, a log that brings it back.
 *
 * Writing. Records are appended to the active segment. Once a second, at a flush and at the close the tier commits:
 * the segments are synced, then the log gets an entry for each record, then the log is synced. So a crash costs the
 * last second at most, and the log never speaks of a record that is not there.
 * Room. `data_max` holds for all segments, and one segment's worth of it stays free, so that there is always a place
 * to copy to: when the next segment would not fit any more, the one whose loss costs the least goes, after what was
 * used lately in it has been copied to the end.
 * Forgetting. A slot without an entry in the index holds nothing: it is overwritten and punched out when its record
 * is forgotten (`drop`, `expire`), and what a crash left behind is punched out at the open.
 *
 * Locks: `writing` is held for whole operations by whoever changes files (the threads that put, drop and flush, the
 * tier's own); `index` is held for moments and guards what is under it below. `writing` is taken first. A segment that
 * is being read has readers > 0 and is not removed. */
#ifndef HEADWAY_KV_TIER_DISK_H
#define HEADWAY_KV_TIER_DISK_H

#include <pthread.h>

#include "kv/tier/disk_format.h"
#include "kv/tier/disk_io.h"
#include "kv/tier/disk_uring.h"

/* As disk_tier_open, through `io` (borrowed, as the mover). */
status disk_tier_open_io(tier **out, const disk_tier_config *config, disk_io *io, error *err);

/* ---- private to disk*.c -------------------------------------------------------------------------------------- */

enum { DISK_LANES_MAX = 8, DISK_RING_DEPTH = 24, DISK_RING_LANES = 2, DISK_LOG_CHUNK = 1024 };
#define DISK_NONE UINT32_MAX

typedef struct {
    char name[16];
} disk_name;

enum { SLOT_EMPTY, SLOT_UNWIPED, SLOT_WIPING, SLOT_ENTRY }; /* SLOT_ENTRY + n: entry n */

typedef struct {
    uint32_t number; /* of its file; rises, never comes again */
    uint32_t room;   /* slots that `slots` has room for */
    uint32_t used;   /* slots written, from the start */
    uint32_t synced; /* of them, on the disk */
    uint32_t live, unwiped;
    uint32_t readers;
    int fd; /* the writer's; -1: closed */
    uint32_t slots[];
} disk_segment;

typedef struct {
    prefix_key key;
    uint64_t space, used_us, logged_us, tokens_hash;
    disk_segment *segment;
    uint32_t slot, token_count;
    uint32_t next; /* in its bucket, or of the free ones */
    bool live;
    bool waits; /* stands in the list of those to be logged */
} disk_entry;

typedef struct {
    tier base; /* first */
    disk_io *io;
    page_mover *mover;
    disk_shape shape;
    char *path;
    int dir, lock_file;
    uint64_t bytes_max, data_max;
    uint32_t slots;                  /* of a segment */
    uint32_t entry_max, segment_max; /* room in the arrays */
    uint32_t log_max;                /* entries in the log */
    uint64_t foreign_bytes;          /* of files that are not the tier's */

    pthread_mutex_t writing;
    uint8_t *record; /* one, in the making */
    int log;         /* -1: none could be made */
    uint32_t log_used;
    bool log_stale; /* holds what is not so; the next commit writes it again */
    bool names_unsynced;
    uint64_t committed_us, retry_us; /* no write before retry_us */
    disk_segment *active;            /* NULL: none has room */
    uint32_t next_number;

    pthread_mutex_t index;
    pthread_cond_t unread;
    disk_entry *entries;
    uint32_t *buckets, bucket_mask, free_entry, entry_count; /* bucket: entry or DISK_NONE */
    uint32_t *waiting, waiting_count;
    disk_segment **segments; /* by number */
    uint32_t segment_count;
    uint64_t data_bytes;
    tier_counts counts;
    bool reads_damaged; /* a reader found damage: the log is stale */

    pthread_mutex_t reading; /* one get at a time */
    disk_ring *rings[DISK_RING_LANES];
    uint32_t ring_count;

    pthread_t ticker;
    bool ticks;
    int wake[2];
} disk_tier;

/* disk_index.c: the caller holds `index`. */
status disk_index_create(disk_tier *t, error *err);
void disk_index_destroy(disk_tier *t);
disk_entry *disk_index_find(disk_tier *t, prefix_key key); /* NULL: not there */
/* Into an empty slot of a segment. NULL: full. The key is not there yet. */
disk_entry *disk_index_add(disk_tier *t, const disk_log_entry *about, disk_segment *s);
void disk_index_remove(disk_tier *t, disk_entry *e); /* its slot is to be wiped */
void disk_index_move(disk_tier *t, disk_entry *e, disk_segment *s, uint32_t slot);
void disk_index_use(disk_tier *t, disk_entry *e, uint64_t now_us);
void disk_index_log(disk_tier *t, disk_entry *e);                             /* is to be logged at the next commit */
disk_segment *disk_segment_add(disk_tier *t, uint32_t number, uint32_t used); /* NULL: no memory */
void disk_segment_forget(disk_tier *t, disk_segment *s);                      /* no entry is in it */
disk_segment *disk_segment_find(disk_tier *t, uint32_t number);
disk_name disk_segment_name(uint32_t number);

/* disk_log.c: the caller holds `writing`. */
bool disk_commit(disk_tier *t); /* all that was put is safe; false: the state says why */
/* A segment that cannot be synced loses what it got since the last time: nobody knows what of it is on the disk. */
bool disk_segment_sync(disk_tier *t, disk_segment *s);
bool disk_log_rewrite(disk_tier *t, bool overwrite); /* with what the index holds; `overwrite`: the old one as well */
status disk_log_load(disk_tier *t, bool *foreign, error *err); /* the segments are known; only before the start */

/* disk_store.c: the caller holds `writing`. */
bool disk_store_put(disk_tier *t, const tier_page *page);
bool disk_store_room(disk_tier *t);                      /* the active segment has a free slot */
bool disk_store_shrink(disk_tier *t);                    /* to what may be there at the start */
void disk_store_probe(disk_tier *t);                     /* after trouble: is it over? */
bool disk_store_wipe(disk_tier *t, bool overwrite);      /* all slots that are to be wiped */
bool disk_store_remove_empty(disk_tier *t);              /* segments with nothing in them */
void disk_store_trouble(disk_tier *t, const char *what); /* errno says what went wrong */
void disk_store_fine(disk_tier *t);
bool disk_segment_open(disk_tier *t, disk_segment *s);
void disk_segment_close(disk_tier *t, disk_segment *s); /* unless somebody needs it open */

/* disk_folder.c: only before the start. */
status disk_folder_open(disk_tier *t, const char *dir, error *err);
status disk_folder_load(disk_tier *t, error *err);

/* disk_read.c */
void disk_read_pages(disk_tier *t, const tier_page *pages, uint32_t count, tier_landed landed, void *context,
                     const _Atomic bool *stop);

#endif
