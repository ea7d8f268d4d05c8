/* server/cache_lines.h: where does an entry of the prefix cache lie now? Pure. */
#ifndef HEADWAY_SERVER_CACHE_LINES_H
#define HEADWAY_SERVER_CACHE_LINES_H

#include "sched/cache_report.h"

enum { CACHE_OWNERS_OF_TENANT = 2 }; /* owner = 2 * tenant + class */

typedef enum {
    LINE_WARM,    /* all of it in memory */
    LINE_COOLING, /* a part of it */
    LINE_SPILLED, /* nothing of it, but a tier has it */
    LINE_GONE,
    LINE_STATES
} line_state;

static inline uint32_t cache_line_pages(const cache_report *report, uint32_t index)
{
    return report->page_tokens ? report->lines[index].tokens / report->page_tokens : 0;
}

static inline line_state cache_line_state(const cache_report *report, uint32_t index)
{
    const prefix_line *line = &report->lines[index];
    if (line->pages_here && line->pages_here >= cache_line_pages(report, index))
        return LINE_WARM;
    if (line->pages_here)
        return LINE_COOLING;
    return report->line_spilled[index] ? LINE_SPILLED : LINE_GONE;
}

#endif
