/* load/canary.h: how long did the machine not let this process run? A thread of its own wakes every millisecond and
 * notes how late it was: gaps below its largest hole may be the machine's, not the server's. */
#ifndef HEADWAY_LOAD_CANARY_H
#define HEADWAY_LOAD_CANARY_H

#include <stdint.h>

#include "base/error.h"

typedef struct canary canary;
enum { CANARY_SIZES = 6 }; /* holes of 1 ms and more, of 2, 4, 8, 16, 32 */

typedef struct {
    uint64_t worst_us, worst_at_us; /* on the clock of base/clock.h */
    uint64_t over_5ms, wakes;       /* how many holes were longer than 5 ms, of how many looks */
    uint64_t watched_us;
    uint32_t holes[CANARY_SIZES]; /* each counts once, by the largest size that it reaches */
} canary_report;

status canary_start(canary **out, error *err);
canary_report canary_stop(canary *c); /* joins and frees; NULL is allowed */

#endif
