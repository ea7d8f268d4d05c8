/* engine/cache_desk.h: what other threads want of the prefix cache: a report of it, and that it forgets. The engine
 * thread publishes a copy now and then and serves errands between two steps; an errand's owner waits for it. Owner: the
 * engine. */
#ifndef HEADWAY_ENGINE_CACHE_DESK_H
#define HEADWAY_ENGINE_CACHE_DESK_H

#include "sched/scheduler.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct cache_errand cache_errand;
struct cache_errand {
    int tenant;     /* to forget; < 0: all */
    uint32_t pages; /* given back; filled in, as what follows */
    uint64_t space; /* by which the tiers know it */
    bool done;
    cache_errand *next;
};

typedef struct {
    pthread_mutex_t lock; /* of all below but `asked` */
    pthread_cond_t served;
    cache_report report;
    cache_errand *errands;
    uint64_t published_us; /* engine thread only, as `stale` */
    bool stale;
    _Atomic bool asked;
} cache_desk;

void cache_desk_open(cache_desk *d);
void cache_desk_close(cache_desk *d); /* nobody waits */
/* Engine thread, each turn: if the last report is old, or the engine is about to wait and there was a turn since. */
void cache_desk_publish(cache_desk *d, const scheduler *s, uint64_t now_us, bool last);
void cache_desk_renew(cache_desk *d, const scheduler *s); /* the same at once */
void cache_desk_serve(cache_desk *d, scheduler *s);       /* engine thread */
void cache_desk_read(cache_desk *d, cache_report *out);
void cache_desk_ask(cache_desk *d, cache_errand *errand, int tenant);
void cache_desk_wait(cache_desk *d, cache_errand *errand);

#endif
