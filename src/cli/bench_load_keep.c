/* cli/bench_load_keep.c: see the header. */
#include "cli/bench_load_keep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The phase in which one agent has the server for itself; -1: none. */
static int phase_of_one(const load_plan *plan)
{
    for (uint32_t i = 0; i < plan->phase_count; i++) {
        const load_phase *p = &plan->phases[i];
        if (p->group_count == 1 && p->groups[0].role == LOAD_AGENTS && p->groups[0].concurrency == 1)
            return (int)i;
    }
    return -1;
}

static bool is_here(const char *url)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]"};
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        size_t size = strlen(hosts[i]);
        if (strncmp(host, hosts[i], size) == 0 && (!host[size] || strchr(":/", host[size])))
            return true;
    }
    return false;
}

status load_keeper_open(load_keeper *k, const load_plan *plan, error *err)
{
    const char *named = getenv("HEADWAY_HARDWARE");
    char model[128];
    if (!k->named)
        return OK;
    const char *at = strrchr(k->named, '@');
    if (!at || !at[1] || (size_t)(at - k->named) >= sizeof model)
        return error_set(err, ERR_INVALID, "--keep: '%.100s' is not like llama-3.1-8b:q4_0@vllm", k->named);
    if (strlen(at + 1) >= sizeof k->keeper.form.runtime)
        return error_set(err, ERR_INVALID, "--keep: the runtime's name is longer than %zu bytes",
                         sizeof k->keeper.form.runtime - 1);
    snprintf(model, sizeof model, "%.*s", (int)(at - k->named), k->named);
    if (!is_here(k->url) && !(named && named[0]))
        return error_set(err, ERR_INVALID,
                         "--keep: %.100s may be another machine than this one: HEADWAY_HARDWARE=NAME says which",
                         k->url);
    if (phase_of_one(plan) < 0)
        return error_set(err, ERR_INVALID, "--keep: one stream alone is what counts: bench agents|mixed --agents 1");
    status st = run_keeper_open(&k->keeper, model, err);
    if (st)
        return error_prefix(err, ERR_INVALID, "--keep");
    run_record *f = &k->keeper.form;
    snprintf(f->runtime, sizeof f->runtime, "%s", at + 1);
    f->version[0] = f->sampler[0] = 0; /* the server's defaults */
    k->keeper.elsewhere = !is_here(k->url);
    return run_record_check(f, 0, err) ? error_prefix(err, ERR_INVALID, "--keep") : OK;
}

status load_keeper_close(load_keeper *k, const load_plan *plan, const load_summary *summary, buf *said, error *err)
{
    int phase = phase_of_one(plan);
    if (!k->named || phase < 0)
        return OK;
    const load_cell *c = &summary->cells[phase][LOAD_AGENTS];
    if (c->done == 0 || c->tpot_ms.count == 0 || !(c->tpot_ms.median > 0)) {
        buf_text(said, "not kept: no answer was whole\n");
        return OK;
    }
    run_figure f = {.kind = RUN_DECODE,
                    .batch = 1,
                    .prompt_tokens = (uint32_t)(c->prompt_tokens / c->done),
                    .output_tokens = (uint32_t)(c->output_tokens / c->done),
                    .repeats = (uint32_t)c->tpot_ms.count,
                    .tok_s = 1000 / c->tpot_ms.median,
                    .low = 1000 / fmax(c->tpot_ms.max, c->tpot_ms.median)};
    run_keeper_add(&k->keeper, &f);
    return run_keeper_close(&k->keeper, said, err);
}
