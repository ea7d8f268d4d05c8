/* server/gap_stats.c: see gap_stats.h. */
#include "server/gap_stats.h"

static const double first_edge_us = 250, root_of_two = 1.4142135623730951;

void gap_stats_add(gap_stats *g, uint64_t gap_us)
{
    uint32_t step = 0;
    for (double edge = first_edge_us; step < GAP_STATS_STEPS - 1 && (double)gap_us > edge; edge *= root_of_two)
        step++;
    g->steps[step]++;
    g->count++;
    g->over += g->bound_us && gap_us > g->bound_us;
    g->last_us = gap_us;
    if (gap_us > g->worst_us)
        g->worst_us = gap_us;
}

double gap_stats_middle_us(const gap_stats *g)
{
    uint64_t seen = 0;
    double edge = first_edge_us;
    if (!g->count)
        return 0;
    for (uint32_t i = 0; i < GAP_STATS_STEPS; i++, edge *= root_of_two) {
        seen += g->steps[i];
        if (seen * 2 >= g->count) { /* the geometric middle of the step, and never above what was seen */
            double middle = edge / 1.189207115002721;
            return middle < (double)g->worst_us ? middle : (double)g->worst_us;
        }
    }
    return (double)g->worst_us;
}
