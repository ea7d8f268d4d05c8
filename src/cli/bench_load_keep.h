/* cli/bench_load_keep.h: what one agent alone says of a server's decode speed, kept for `headway plan`. Of a server the
 * client knows neither machine nor weights: the user names them. Main thread. */
#ifndef HEADWAY_CLI_BENCH_LOAD_KEEP_H
#define HEADWAY_CLI_BENCH_LOAD_KEEP_H

#include "cli/run_keeper.h"
#include "load/summary.h"

typedef struct {
    const char *named; /* "MODEL:TYPE@RUNTIME", --keep; NULL: nothing is kept */
    const char *url;
    run_keeper keeper;
} load_keeper;

/* Before the run. ERR_INVALID: an unknown model, no runtime, a plan without one agent alone, or a server that may be on
 * another machine, which HEADWAY_HARDWARE has to name. */
status load_keeper_open(load_keeper *k, const load_plan *plan, error *err);
/* After it; `said` gets lines for people. */
status load_keeper_close(load_keeper *k, const load_plan *plan, const load_summary *summary, buf *said, error *err);

#endif
