/* server/health.h: does this server do its work? The watch sees the engine's numbers again and again; it is stuck when
 * there is work and no step has ended for longer than any step takes. Pure: time is an argument. Loop thread. */
#ifndef HEADWAY_SERVER_HEALTH_H
#define HEADWAY_SERVER_HEALTH_H

#include "engine/engine.h"

enum { HEALTH_STUCK_US = 10000000, HEALTH_STUCK_STEPS = 20 };

typedef struct { /* zero-initialise */
    bool busy;
    uint64_t since_us, steps; /* when the present wait began, and the steps that had ended then */
} health_watch;

typedef enum { HEALTH_OK, HEALTH_DRAINING, HEALTH_FAILED, HEALTH_STUCK } health;

/* To be called at least every few seconds. `work`: generations that have not ended. */
void health_see(health_watch *w, const engine_snapshot *now, uint32_t work, uint64_t now_us);
/* Stuck: no step ended for max(10 s, 20 times the last step) while there was work. */
health health_judge(const health_watch *w, const engine_snapshot *now, bool draining, uint64_t now_us);
uint64_t health_waited_us(const health_watch *w, uint64_t now_us); /* since a step ended; 0: nothing waits */
const char *health_word(health h);                                 /* "ok", "draining", "failed", "stuck" */

#endif
