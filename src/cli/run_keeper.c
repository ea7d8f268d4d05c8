/* cli/run_keeper.c: see the header. */
#include "cli/run_keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/plan_model.h"
#include "cli/run_names.h"

#ifndef HEADWAY_VERSION
#define HEADWAY_VERSION "0.1.0"
#endif

status run_keeper_wanted(const char *flag, bool *out, error *err)
{
    *out = strcmp(flag, "on") == 0;
    return *out || strcmp(flag, "off") == 0 ? OK
                                            : error_set(err, ERR_INVALID, "--keep: '%s' is neither on nor off", flag);
}

status run_keeper_open(run_keeper *k, const char *path, error *err)
{
    plan_model model;
    memset(k, 0, sizeof *k);
    status st = plan_model_find(&model, path, err);
    if (st)
        return st;
    run_record *f = &k->form;
    run_hardware_name(f->hardware);
    run_model_name(f->model, &model.shape);
    snprintf(f->type, sizeof f->type, "%s", model.type[0] ? model.type : "unknown");
    snprintf(f->runtime, sizeof f->runtime, "headway");
    snprintf(f->version, sizeof f->version, "%s", HEADWAY_VERSION);
    snprintf(f->sampler, sizeof f->sampler, "greedy");
    run_date(clock_unix_seconds(), f->date);
    f->tok_s = f->batch = f->repeats = 1;
    if ((st = run_record_check(f, 0, err))) /* names from outside */
        return st;
    power_info_read(&k->power, getenv("HEADWAY_SYSFS"));
    return OK;
}

void run_keeper_add(run_keeper *k, const run_figure *figure)
{
    power_info now;
    power_info_read(&now, getenv("HEADWAY_SYSFS"));
    power_verdict verdict = k->elsewhere ? (power_verdict){0} : power_between(&k->power, &now);
    now.clock_khz = k->power.clock_khz > now.clock_khz ? k->power.clock_khz : now.clock_khz;
    k->power = now;
    bool enough = figure->kind == RUN_DECODE ? (uint64_t)figure->output_tokens * figure->repeats >= KEPT_STEPS_LEAST
                                             : figure->prompt_tokens >= KEPT_PROMPT_LEAST;
    if (k->count == KEPT_MAX || !enough || !(figure->tok_s > 0))
        return;
    run_record *r = &k->records[k->count++];
    *r = k->form;
    r->kind = figure->kind;
    r->batch = figure->batch;
    r->prompt_tokens = figure->prompt_tokens;
    r->output_tokens = figure->output_tokens;
    r->repeats = figure->repeats;
    r->tok_s = figure->tok_s;
    r->tok_s_low = figure->repeats > 1 ? figure->low : 0;
    r->tok_s_high = figure->repeats > 1 ? figure->high : 0;
    r->power = verdict.source;
    r->throttled = verdict.throttled;
    r->throttle_known = verdict.throttled_known;
}

/* Leaves out what a reader would refuse, e.g. a rate above the ceiling of the row that HEADWAY_HARDWARE names. */
static void drop_wrong(run_keeper *k, buf *said)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < k->count; i++) {
        error why;
        if (run_record_check(&k->records[i], 0, &why) == OK)
            k->records[kept++] = k->records[i];
        else
            buf_printf(said, "not kept: %s\n", why.text);
    }
    k->count = kept;
}

status run_keeper_close(run_keeper *k, buf *said, error *err)
{
    char path[4096];
    uint32_t battery = 0, throttled = 0;
    drop_wrong(k, said);
    if (k->count == 0)
        return OK;
    status st = run_store_path(path, sizeof path, err);
    if (st || (st = run_store_append(k->records, k->count, err)))
        return st;
    for (uint32_t i = 0; i < k->count; i++) {
        battery += k->records[i].power == POWER_BATTERY;
        throttled += k->records[i].throttled;
    }
    buf_printf(said, "kept %u figure%s of %s:%s on %s for `headway plan` in %s\n", k->count, k->count == 1 ? "" : "s",
               k->form.model, k->form.type, k->form.hardware, path);
    if (battery)
        buf_printf(said, "%u of them on battery: they count only where there are no others\n", battery);
    if (throttled)
        buf_printf(said, "%u of them while the clocks fell: they count only where there are no others\n", throttled);
    return OK;
}
