/* server/gap_stats.h: how evenly do the tokens of one stream come? The last and the worst gap, and the middle one from
 * a small histogram: 36 steps of a factor sqrt(2) from 0.25 ms on. Zero-initialise; one thread. */
#ifndef HEADWAY_SERVER_GAP_STATS_H
#define HEADWAY_SERVER_GAP_STATS_H

#include <stdint.h>

enum { GAP_STATS_STEPS = 36 };

typedef struct {
    uint64_t last_us, worst_us, bound_us; /* bound 0: none */
    uint32_t count, over;                 /* gaps; those over the bound */
    uint32_t steps[GAP_STATS_STEPS];
} gap_stats;

void gap_stats_add(gap_stats *g, uint64_t gap_us);
double gap_stats_middle_us(const gap_stats *g); /* the median, within 20%; 0 without gaps */

#endif
