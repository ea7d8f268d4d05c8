/* cli/bench_breakdown.c: `headway bench --breakdown`: what each family of ops takes of a step, and what lies between
 * ops. The sum stands beside the wall time measured around the steps. */
#include <stdio.h>

#include "cli/bench.h"
#include "model/op_timer.h"
#include "runner/model_runner.h"

typedef struct {
    const char *what;             /* "prefill", "decode" */
    uint32_t at, steps;           /* tokens of the prompt, or the depth; steps that the times are of */
    double wall_s, plain_s, runs; /* plain: the same without the timer, one run */
} breakdown_case;

static double sum_of(const op_timer *t)
{
    double sum = 0;
    for (int i = 0; i < OP_FAMILIES; i++)
        sum += (double)op_timer_cost(t, (op_family)i).us * 1e-6;
    return sum;
}

static void print_text(const breakdown_case *c, const op_timer *t)
{
    double per = 1e3 / (c->runs * c->steps);
    printf("%s %u, %s of %s\n", c->what, c->at, "ms", c->steps > 1 ? "a step" : "the prompt");
    printf("  %-12s %9s %7s %9s %9s %9s %8s\n", "ops", "ms", "share", "MB", "GB/s", "GFLOP/s", "calls");
    for (int i = 0; i < OP_FAMILIES; i++) {
        op_cost cost = op_timer_cost(t, (op_family)i);
        double s = (double)cost.us * 1e-6;
        if (!cost.us && !cost.calls)
            continue;
        printf("  %-12s %9.3f %6.1f%%", op_family_name((op_family)i), s * per, 100 * s / c->wall_s);
        if (cost.bytes)
            printf(" %9.2f %9.1f", (double)cost.bytes * 1e-6 / (c->runs * c->steps), (double)cost.bytes * 1e-9 / s);
        else
            printf(" %9s %9s", "", "");
        if (cost.flops)
            printf(" %9.1f", (double)cost.flops * 1e-9 / s);
        else
            printf(" %9s", "");
        printf(" %8.0f\n", (double)cost.calls / (c->runs * c->steps));
    }
    printf("  %-12s %9.3f %6.1f%% of the wall, %.3f ms; without the timer %.3f ms\n\n", "sum", sum_of(t) * per,
           100 * sum_of(t) / c->wall_s, c->wall_s * per, c->plain_s * per * c->runs);
}

static void print_json(const breakdown_case *c, const op_timer *t, bool first)
{
    double each = 1 / (c->runs * c->steps);
    printf("%s{\"what\": \"%s\", \"at\": %u, \"wall_ms\": %.6f, \"sum_ms\": %.6f, \"plain_ms\": %.6f, \"ops\": {",
           first ? "" : ",\n", c->what, c->at, c->wall_s * 1e3 * each, sum_of(t) * 1e3 * each,
           c->plain_s * 1e3 / c->steps);
    for (int i = 0; i < OP_FAMILIES; i++) {
        op_cost cost = op_timer_cost(t, (op_family)i);
        printf("%s\"%s\": {\"ms\": %.6f, \"bytes\": %.0f, \"flops\": %.0f, \"calls\": %.2f}", i ? ", " : "",
               op_family_name((op_family)i), (double)cost.us * 1e-3 * each, (double)cost.bytes * each,
               (double)cost.flops * each, (double)cost.calls * each);
    }
    printf("}}");
}

/* One run of a case, in seconds. */
static double run_case(bench *b, const breakdown_case *c, uint32_t tokens)
{
    bench_open_streams(b);
    return c->what[0] == 'p' ? bench_prefill(b, 0, c->at) : bench_decode(b, c->at, tokens);
}

static status measure_case(bench *b, breakdown_case *c, const bench_cases *cases, bool first, error *err)
{
    const model *m = model_runner_model(b->runner);
    double plain[64];
    if (c->what[0] == 'd' && c->at) {
        bench_open_streams(b);
        for (uint32_t s = 0; s < b->streams; s++)
            bench_prefill(b, s, c->at);
    }
    for (uint32_t i = 0; i < cases->repeat; i++)
        plain[i] = run_case(b, c, cases->tokens);
    c->plain_s = bench_median(plain, cases->repeat);
    op_timer *t;
    status st = op_timer_attach(&t, m, err);
    if (st)
        return st;
    for (uint32_t i = 0; i < cases->repeat; i++)
        c->wall_s += run_case(b, c, cases->tokens);
    c->runs = cases->repeat;
    if (cases->json)
        print_json(c, t, first);
    else
        print_text(c, t);
    fflush(stdout);
    op_timer_detach(t);
    return OK;
}

status bench_breakdown(bench *b, const bench_cases *cases, error *err)
{
    bool first = true;
    status st = OK;
    if (cases->json)
        printf("[");
    for (uint32_t i = 0; i < cases->length_count && !st; i++, first = false)
        st = measure_case(b, &(breakdown_case){.what = "prefill", .at = cases->lengths[i], .steps = 1}, cases, first,
                          err);
    for (uint32_t i = 0; i < cases->depth_count && !st; i++, first = false)
        st = measure_case(b, &(breakdown_case){.what = "decode", .at = cases->depths[i], .steps = cases->tokens}, cases,
                          first, err);
    if (cases->json)
        printf("]\n");
    return st;
}
