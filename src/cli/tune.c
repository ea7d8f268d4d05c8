/* cli/tune.c: `headway tune`: measures this box with a model, draws its curves and writes the settings to serve with.
 * Main thread; the engine runs in it too. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/decimal.h"
#include "cli/commands.h"
#include "cli/default_model.h"
#include "cli/help.h"
#include "cli/run_keeper.h"
#include "cli/tune_files.h"
#include "cli/tune_reuse.h"
#include "load/tune_sweep.h"
#include "model/op_timer.h"
#include "runner/model_runner.h"
#include "sim/sim_runner.h"

enum {
    FULL_MS = 240000,
    QUICK_MS = 60000,
    STEPS_US = 200 /* of each of its milliseconds, for the steps */,
    READ_ROUNDS = 3,
    FLOPS_TOKENS = 64,
    GAP_MS_MAX = 3600000
};
static const double share_default = 0.25;

static const flag_spec tune_flags[] = {
    {"--out", "DIR", "where the files go; made if it is not there", NULL},
    {"--model", "PATH", "the model, a GGUF file [the default model's place]", NULL},
    {"--gap-ms", "N|auto", "the bound to find the sweet spot for", "auto"},
    {"--chat-share", "F", "of the device time for chats, at least [0.25]", NULL},
    {"--reuse", "F|URL", "of prompts: a part, or a running server to read it from", NULL},
    {"--quick", NULL, "fewer points, a shorter document: a minute, not four", NULL},
    {"--threads", "N", "worker threads [the machine's]", NULL},
    {"--ctx", "N", "tokens a conversation may hold [what fits]", NULL},
    {"--keep", "on|off", "keep the steps' speeds for `headway plan`", "on"},
    {"--runner", "NAME", "model, sim, sim:KEY=N,… or script:FILE", "model"},
    {NULL, NULL, NULL, NULL},
};
static const command_spec tune_spec = {
    .name = "tune",
    .summary = "Measures this machine with a model, under every policy, and writes settings.",
    .flags = tune_flags,
    .notes = "Writes curves.html (look at it), curves.json (the dashboard shows it), steps.json (what steps cost) and "
             "headway.conf (serve with it). Nothing else should run meanwhile.",
};

typedef struct {
    command_flags flags;
    tune_report report;
    runner *runner;
    hw_clock *clock;
    virtual_clock simulated; /* a simulated runner needs no real time */
    uint64_t start_us, real_start_us;
    uint64_t gap_ms; /* 0: auto */
    double chat_share;
    bool steps; /* measuring steps, not points */
    bool keep;
    char machine[256], model[256], model_path[4096];
} tune;

/* ---- progress ---- */

static void tell(void *context, const char *what, double part)
{
    tune *t = context;
    double percent = t->steps ? 15 * part : 15 + 85 * part;
    if (isatty(2))
        fprintf(stderr, "\r\033[K%3.0f%%  %s", percent, what);
    else
        fprintf(stderr, "%3.0f%%  %s\n", percent, what);
}

static void end_progress(void)
{
    if (isatty(2))
        fputs("\r\033[K", stderr);
}

/* ---- the machine and its model ---- */

static uint32_t number_of(const tune *t, const char *name)
{
    uint64_t number = 0;
    return flag_given(&t->flags, name) && flag_number(&t->flags, name, 0, UINT32_MAX, &number, NULL) == OK
               ? (uint32_t)number
               : 0;
}

/* Before the model is loaded: the largest buffer would stand beside it. */
static status measure_reads(tune *t, error *err)
{
    static const uint64_t sizes[] = {1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    double rates[SIZES][READ_ROUNDS];
    backend *device;
    status st = cpu_backend_open(&device, &(backend_config){number_of(t, "--threads"), getenv("HEADWAY_CPU")}, err);
    if (st)
        return st;
    uint32_t rounds = t->report.quick ? 1 : READ_ROUNDS;
    for (uint32_t k = 0; k < rounds; k++)
        for (uint32_t i = 0; i < SIZES; i++) {
            char what[64];
            snprintf(what, sizeof what, "reading %llu MB", (unsigned long long)sizes[i] >> 20);
            tell(t, what, 0);
            rates[i][k] = device->ops->read_roof(device, sizes[i]);
        }
    tune_costs *costs = &t->report.costs;
    for (uint32_t i = 0; i < SIZES; i++)
        costs->reads[costs->read_count++] = (tune_read){sizes[i], tune_spread_of(rates[i], rounds)};
    tune_machine_name(t->machine, sizeof t->machine, device->threads, device->kernels);
    device->ops->close(device);
    return OK;
}

static status open_model(tune *t, error *err)
{
    char plan[512] = "";
    model_file *file;
    const char *given = flag_text(&t->flags, "--model");
    status st = OK;
    if (!given)
        st = default_model_path(t->model_path, sizeof t->model_path, err);
    else if (!realpath(given, t->model_path))
        snprintf(t->model_path, sizeof t->model_path, "%s", given);
    if (st || (st = model_file_open(&file, t->model_path, err)))
        return st;
    if (!(st = measure_reads(t, err)))
        st = model_runner_open(&t->runner, file,
                               &(model_runner_config){.threads = number_of(t, "--threads"),
                                                      .context = number_of(t, "--ctx"),
                                                      .kernels = getenv("HEADWAY_CPU")},
                               plan, sizeof plan, err);
    model_file_close(file);
    const char *slash = strrchr(t->model_path, '/');
    snprintf(t->model, sizeof t->model, "%.200s", slash ? slash + 1 : t->model_path);
    return st;
}

static status open_sim(tune *t, const char *spec, error *err)
{
    status st = sim_runner_open(&t->runner, spec, &(sim_config){.context_length = number_of(t, "--ctx")}, err);
    if (st)
        return st == ERR_NOT_FOUND ? ERR_INVALID : st;
    virtual_clock_init(&t->simulated, 1000000);
    t->clock = &t->simulated.base;
    t->start_us = t->clock->now_us(t->clock);
    snprintf(t->machine, sizeof t->machine, "simulated: %.200s", spec);
    snprintf(t->model, sizeof t->model, "%s", t->runner->info.model_name);
    return OK;
}

/* The multiplications and additions of a token's matmuls, counted while one chunk runs. */
static status count_flops(tune *t, error *err)
{
    static const op_family matmuls[] = {OP_QKV, OP_OUT, OP_FFN_UP, OP_FFN_DOWN};
    op_timer *timer;
    double sum = 0;
    status st = op_timer_attach(&timer, model_runner_model(t->runner), err);
    if (st)
        return st;
    st = tune_run_chunk(t->runner, t->clock, FLOPS_TOKENS, err);
    for (size_t i = 0; i < sizeof matmuls / sizeof *matmuls; i++)
        sum += (double)op_timer_cost(timer, matmuls[i]).flops;
    op_timer_detach(timer);
    t->report.costs.token_flops = sum / FLOPS_TOKENS;
    return st;
}

/* ---- what is kept ---- */

/* Single steps: their repeats stand for the tokens of a run. */
static void keep_steps(run_keeper *keeper, run_kind kind, const tune_cost_list *list, bool sizes)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const tune_cost *c = &list->items[i];
        bool decode = kind == RUN_DECODE;
        uint32_t batch = decode && sizes ? c->size : 1, tokens = decode ? batch : c->size;
        run_figure f = {kind, batch, decode ? c->position : c->size, 0, c->us.repeats, tokens * 1e6 / c->us.median,
                        0,    0};
        f.output_tokens = decode ? 1 : 0;
        f.low = tokens * 1e6 / c->us.most;
        f.high = tokens * 1e6 / c->us.least;
        run_keeper_add(keeper, &f);
    }
}

/* Between two readings of power and clocks: what is added after the steps have run had the state of their end. */
static void keep_costs(tune *t, run_keeper *keeper)
{
    const tune_costs *costs = &t->report.costs;
    buf said = {0};
    error err;
    keep_steps(keeper, RUN_PREFILL, &costs->chunks, true);
    keep_steps(keeper, RUN_DECODE, &costs->rows, true);
    keep_steps(keeper, RUN_DECODE, &costs->depths, false);
    if (run_keeper_close(keeper, &said, &err))
        buf_printf(&said, "not kept: %s\n", err.text);
    end_progress();
    fputs(said.data ? said.data : "", stderr);
    buf_free(&said);
}

static status measure_steps(tune *t, const tune_stepping *stepping, bool real, error *err)
{
    bool plain = !flag_given(&t->flags, "--threads") && !getenv("HEADWAY_CPU");
    run_keeper *keeper = real && t->keep && plain ? malloc(sizeof *keeper) : NULL;
    error why;
    if (keeper && run_keeper_open(keeper, t->model_path, &why)) {
        end_progress();
        fprintf(stderr, "not kept: %s\n", why.text);
        free(keeper);
        keeper = NULL;
    }
    status st = tune_measure_steps(stepping, &t->report.costs, err);
    if (keeper && !st)
        keep_costs(t, keeper);
    free(keeper);
    return st;
}

/* ---- the run ---- */

static status measure(tune *t, bool real, error *err)
{
    tune_report *r = &t->report;
    tune_sweep sweep = {.runner = t->runner,
                        .clock = t->clock,
                        .gap_us = t->gap_ms * 1000,
                        .chat_share = t->chat_share,
                        .quick = r->quick,
                        .end_us = t->start_us + (r->quick ? QUICK_MS : FULL_MS) * UINT64_C(1000),
                        .teller = {tell, t}};
    tune_stepping stepping = {.runner = t->runner,
                              .clock = t->clock,
                              .quick = r->quick,
                              .budget_us = (r->quick ? QUICK_MS : FULL_MS) * STEPS_US,
                              .teller = {tell, t}};
    r->machine = t->machine;
    r->model = t->model;
    r->kv_token_bytes = (double)t->runner->info.page_bytes / t->runner->info.page_tokens;
    r->costs.state_bytes = t->runner->info.state_bytes;
    canary *watch = NULL;
    status st = real ? canary_start(&watch, err) : OK;
    if (!st && real)
        st = count_flops(t, err);
    if (!st)
        st = measure_steps(t, &stepping, real, err);
    t->steps = false;
    st = st ? st : tune_sweep_run(&sweep, r, err);
    r->costs.holes = canary_stop(watch);
    return st;
}

static status write_results(tune *t, error *err)
{
    const command_flags *f = &t->flags;
    const char *runner = flag_text(f, "--runner"), *folder = flag_text(f, "--out");
    bool real = strcmp(runner, "model") == 0;
    tune_setting settings[] = {{"runner", real ? NULL : runner},
                               {"model", flag_given(f, "--model") && real ? t->model_path : NULL},
                               {"threads", flag_text(f, "--threads")},
                               {"ctx", flag_text(f, "--ctx")},
                               {NULL, NULL}};
    buf table = {0};
    status st = tune_files_write(folder, &t->report, settings, err);
    if (st)
        return st;
    tune_table(&t->report, &table);
    fwrite(table.data, 1, table.size, stdout);
    buf_free(&table);
    printf("%s: curves.html, curves.json, steps.json, headway.conf; %.0f s\nheadway serve --config %s/headway.conf\n",
           folder, (double)(clock_now_us() - t->real_start_us) / 1e6, folder);
    return OK;
}

static status read_flags(tune *t, error *err)
{
    const command_flags *f = &t->flags;
    const char *gap = flag_text(f, "--gap-ms"), *share = flag_text(f, "--chat-share");
    uint64_t number;
    status st;
    t->chat_share = share_default;
    t->report.quick = flag_given(f, "--quick");
    if (!flag_given(f, "--out") || !flag_text(f, "--out")[0])
        return error_set(err, ERR_INVALID, "--out DIR is needed: the files go there");
    if (strcmp(gap, "auto") != 0 && flag_number(f, "--gap-ms", 1, GAP_MS_MAX, &t->gap_ms, NULL))
        return error_set(err, ERR_INVALID, "--gap-ms: '%s' is not auto or a number from 1 to %d", gap, GAP_MS_MAX);
    if (share && (!decimal_read(span_from(share), &t->chat_share) || t->chat_share > 0.9))
        return error_set(err, ERR_INVALID, "--chat-share: '%s' is not a number from 0 to 0.9", share);
    if ((st = run_keeper_wanted(flag_text(f, "--keep"), &t->keep, err)))
        return st;
    if (flag_given(f, "--reuse") && (st = tune_reuse_read(flag_text(f, "--reuse"), &t->report.reuse, err)))
        return st;
    if (flag_given(f, "--threads") && (st = flag_number(f, "--threads", 1, 1024, &number, err)))
        return st;
    return flag_given(f, "--ctx") ? flag_number(f, "--ctx", 1, 1u << 24, &number, err) : OK;
}

/* What else runs on the machine is measured with it. */
static void warn_when_busy(tune *t)
{
    double load = 0;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(&load, 1) != 1)
        return;
    t->report.load_average = load;
    if (load > (double)cores / 2)
        fprintf(stderr,
                "headway tune: the machine is busy (load %.1f on %ld cores): these figures will be of little "
                "use\n",
                load, cores);
}

int tune_main(int argc, char **argv)
{
    error err = {0};
    tune *t = calloc(1, sizeof *t);
    if (!t)
        return command_fail(&tune_spec, &err, 1);
    t->clock = clock_real();
    t->steps = true;
    t->start_us = t->real_start_us = clock_now_us();
    t->report.unix_seconds = clock_unix_seconds();
    int code = command_parse(&tune_spec, argc, argv, &t->flags);
    if (code == COMMAND_RUN) {
        const char *runner = flag_text(&t->flags, "--runner");
        bool real = strcmp(runner, "model") == 0;
        status st = read_flags(t, &err);
        if (!st)
            st = tune_folder_open(flag_text(&t->flags, "--out"), &err);
        if (!st)
            st = real ? open_model(t, &err) : open_sim(t, runner, &err);
        if (!st && real)
            warn_when_busy(t);
        if (!st)
            st = measure(t, real, &err);
        end_progress();
        if (!st)
            st = write_results(t, &err);
        code = st ? command_fail(&tune_spec, &err, st == ERR_INVALID ? 2 : 1) : 0;
    }
    if (t->runner)
        t->runner->ops->close(t->runner);
    free(t);
    return code;
}
