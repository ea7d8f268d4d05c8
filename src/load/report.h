/* load/report.h: the numbers of a run, for people (text, HTML) and for programs (JSON, schema "headway-bench/1",
 * described in docs/benchmarks.md). The same input gives the same bytes. One thread. */
#ifndef HEADWAY_LOAD_REPORT_H
#define HEADWAY_LOAD_REPORT_H

#include "load/canary.h"
#include "load/summary.h"

typedef struct {
    const char *kind, *url, *model, *trace; /* trace: path, NULL without one */
    uint64_t seed, unix_seconds;
    double scale, tokens_per_word;
    load_bounds bounds;
    const load_plan *plan;
    const load_span *spans;
    const load_samples *samples;
    const load_summary *summary;
    canary_report canary;
    bool stopped;   /* Ctrl-C */
    bool simulated; /* on a virtual clock: no client's machine, no date */
} load_report;

void report_text(const load_report *r, buf *out);
enum { REPORT_ROWS = 1, REPORT_STREAMS = 2 };
/* One JSON object. REPORT_ROWS: a row for every request; REPORT_STREAMS: with every token's time and text. */
void report_json(const load_report *r, unsigned flags, buf *out);
void report_html(const load_report *r, buf *out); /* one file that loads nothing from elsewhere */

#endif
