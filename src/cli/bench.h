/* cli/bench.h: the other halves of `headway bench`. Main thread. */
#ifndef HEADWAY_CLI_BENCH_H
#define HEADWAY_CLI_BENCH_H

#include <stdbool.h>

#include "sched/runner.h"

typedef struct { /* a model under measurement */
    runner *runner;
    int32_t *tokens; /* context random ids */
    uint32_t *pages; /* streams * pages_per_stream */
    uint32_t pages_per_stream, streams;
    sampled_token *sampled;
    sampling_params greedy;
    uint64_t bytes; /* of the last measured run */
} bench;

void bench_open_streams(bench *b);
double bench_prefill(bench *b, uint32_t seq, uint32_t count);  /* seconds to prefill so many tokens */
double bench_decode(bench *b, uint32_t depth, uint32_t count); /* seconds for so many steps of all streams */
double bench_median(double *values, size_t count);             /* sorts them */

typedef struct {
    const uint32_t *lengths, *depths; /* of prompts, of contexts to decode at */
    uint32_t length_count, depth_count, tokens, repeat;
    bool json;
} bench_cases;
/* `headway bench --breakdown`: time and bytes by op family, on stdout. */
status bench_breakdown(bench *b, const bench_cases *cases, error *err);

/* `headway bench agents|documents|mixed|trace`: load for a server. argv[0] is the workload's name. */
bool bench_is_workload(const char *name);
int bench_load_main(int argc, char **argv);

#endif
