/* cli/bench_load.c: `headway bench agents|documents|mixed|trace`: argv to a plan, the run, its report. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/bench.h"
#include "cli/bench_load_keep.h"
#include "cli/help.h"
#include "load/client.h"
#include "load/report.h"

static const flag_spec load_flags[] = {
    {"--url", "URL", "any OpenAI-compatible server", "http://127.0.0.1:8080"},
    {"--model", "NAME", "the request's model [the server's first]", NULL},
    {"--key", "KEY", "API key; also from HEADWAY_API_KEY", NULL},
    {"--doc-key", "KEY", "API key of the documents [the same]", NULL},
    {"--seed", "N", "same seed, same prompts [the clock: fresh ones]", NULL},
    {"--scale", "X", "times the prompt lengths [1, or what fits]", NULL},
    {"--duration", "S", "seconds [30; mixed about 60]", NULL},
    {"--requests", "N", "ends after N (mixed: of documents)", NULL},
    {"--agents", "N", "agent sessions at once", "2"},
    {"--workers", "N", "document workers at once", "3"},
    {"--rate", "X", "open loop: sessions a second, Poisson", NULL},
    {"--speed", "X", "trace: its clock runs so much faster", "1"},
    {"--gap-ms", "N", "goodput: longest gap between two tokens", "50"},
    {"--ttft-ms", "N", "goodput: longest wait for the first token", "1000"},
    {"--ignore-eos", "on|off", "ask for answers of fixed length", "on"},
    {"--tier", "NAME", "service_tier of documents, e.g. flex", NULL},
    {"--json", "FILE", "the report for programs", NULL},
    {"--html", "FILE", "the report with plots and a replay", NULL},
    {"--keep", "M:TYPE@RUNTIME", "keep one agent's rate for `headway plan`", NULL},
    {NULL, NULL, NULL, NULL},
};

static const command_spec specs[] = {
    {.name = "bench agents", .summary = "Load: agents, sessions with a long growing prefix.", .flags = load_flags},
    {.name = "bench documents", .summary = "Load: workers with long fresh prompts.", .flags = load_flags},
    {.name = "bench mixed", .summary = "Load: agents and documents, alone and together.", .flags = load_flags},
    {.name = "bench trace",
     .operands = "FILE",
     .summary = "Load: a trace (Mooncake JSONL, BurstGPT or Azure CSV).",
     .flags = load_flags,
     .operand_min = 1,
     .operand_max = 1},
};
enum { WORKLOADS = sizeof specs / sizeof specs[0], NAME_SKIP = sizeof "bench " - 1, PLAIN_LINE_S = 5 };

static volatile int stop_asked;

static void on_signal(int number)
{
    (void)number;
    stop_asked = 1;
}

typedef struct {
    const command_spec *spec;
    command_flags flags;
    plan_options options;
    workload work;
    trace_file trace;
    load_plan plan;
    load_bounds bounds;
    load_client *client;
    server_facts facts;
    load_samples samples;
    load_span spans[PHASES_MAX];
    load_summary *summary;
    load_keeper keeper;
    canary_report canary;
    uint64_t unix_seconds;
    bool tty;
    uint64_t last_line;
} load_bench;

static int index_of(const char *name)
{
    for (int i = 0; i < WORKLOADS; i++)
        if (!strcmp(specs[i].name + NAME_SKIP, name))
            return i;
    return -1;
}

bool bench_is_workload(const char *name)
{
    return index_of(name) >= 0;
}

/* ---- flags ---- */

static status read_real(const load_bench *b, const char *name, double low, double high, double *out, error *err)
{
    const char *text = flag_text(&b->flags, name);
    if (!text)
        return OK;
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high))
        return error_set(err, ERR_INVALID, "%s: '%s' is not a number from %g to %g", name, text, low, high);
    *out = value;
    return OK;
}

static status read_count(const load_bench *b, const char *name, uint64_t high, uint32_t *out, error *err)
{
    uint64_t value = 0;
    status st = flag_number(&b->flags, name, 1, high, &value, err);
    if (st == OK)
        *out = (uint32_t)value;
    return st == ERR_NOT_FOUND ? OK : st;
}

static status read_flags(load_bench *b, double *speed, error *err)
{
    plan_options *o = &b->options;
    const char *eos = flag_text(&b->flags, "--ignore-eos");
    bool agents = flag_given(&b->flags, "--agents"), workers = flag_given(&b->flags, "--workers");
    status st;
    if ((st = read_count(b, "--requests", SAMPLES_MAX, &o->requests, err)) ||
        (st = read_count(b, "--agents", PLAYS_MAX / 2, &o->agents, err)) ||
        (st = read_count(b, "--workers", PLAYS_MAX / 2, &o->workers, err)) ||
        (st = read_real(b, "--duration", 0.1, 1e6, &o->duration_s, err)) ||
        (st = read_real(b, "--rate", 1e-4, 1e5, &o->rate, err)) ||
        (st = read_real(b, "--scale", 1e-4, 1e4, &b->work.scale, err)) ||
        (st = read_real(b, "--speed", 1e-3, 1e6, speed, err)) ||
        (st = read_real(b, "--gap-ms", 0.001, 1e6, &b->bounds.gap_ms, err)) ||
        (st = read_real(b, "--ttft-ms", 0.001, 1e7, &b->bounds.ttft_ms, err)))
        return st;
    if (strcmp(eos, "on") && strcmp(eos, "off"))
        return error_set(err, ERR_INVALID, "--ignore-eos: '%s' is neither on nor off", eos);
    if (o->kind == BENCH_TRACE) { /* a trace has its own times unless a closed loop was asked for */
        o->agents = agents ? o->agents : 0;
        o->workers = workers ? o->workers : 0;
    }
    st = flag_number(&b->flags, "--seed", 0, UINT64_MAX, &b->work.seed, err);
    if (st == ERR_NOT_FOUND) {
        b->work.seed = (clock_unix_seconds() * 1000003u + clock_now_us()) % 1000000000u;
        st = OK;
    }
    return st;
}

/* ---- before the run ---- */

/* Shrinks the prompts until every session fits into the server's context. */
static void fit_scale(load_bench *b)
{
    uint64_t longest = 0;
    b->work.scale = 1 / 0.9;
    do {
        b->work.scale *= 0.9;
        longest = 0;
        for (uint32_t p = 0; p < b->plan.phase_count; p++)
            for (uint32_t g = 0; g < b->plan.phases[p].group_count; g++) {
                uint64_t tokens = workload_longest(&b->work, b->plan.phases[p].groups[g].role);
                longest = tokens > longest ? tokens : longest;
            }
    } while (b->facts.context_tokens && longest * 21 / 20 + 64 > b->facts.context_tokens && b->work.scale > 0.01);
    if (b->work.scale < 1)
        fprintf(stderr, "the server's context is %u tokens: prompt lengths are scaled by %.2f (--scale)\n",
                b->facts.context_tokens, b->work.scale);
}

static status prepare(load_bench *b, error *err)
{
    double speed = 1;
    status st = read_flags(b, &speed, err);
    if (st)
        return st;
    if (b->options.kind == BENCH_TRACE) {
        if ((st = trace_file_open(&b->trace, b->flags.operands[0], b->options.requests, speed, err)))
            return st;
        b->work.trace = &b->trace;
    }
    workload_plan(&b->options, &b->trace, &b->plan);
    b->keeper.named = flag_text(&b->flags, "--keep");
    b->keeper.url = flag_text(&b->flags, "--url");
    if ((st = load_keeper_open(&b->keeper, &b->plan, err)))
        return st;
    const char *key = flag_text(&b->flags, "--key");
    client_config config = {.url = flag_text(&b->flags, "--url"),
                            .key = key ? key : getenv("HEADWAY_API_KEY"),
                            .doc_key = flag_text(&b->flags, "--doc-key"),
                            .stop = &stop_asked};
    config.prompt = (prompt_settings){.words_per_token = 1,
                                      .ignore_eos = !strcmp(flag_text(&b->flags, "--ignore-eos"), "on"),
                                      .service_tier = flag_text(&b->flags, "--tier")};
    if ((st = load_client_open(&b->client, &config, err)) || (st = load_client_facts(b->client, &b->facts, err)))
        return st;
    const char *model = flag_text(&b->flags, "--model");
    load_client_name_model(b->client, model ? model : b->facts.model);
    if (b->work.scale == 0)
        fit_scale(b);
    return load_client_calibrate(b->client, b->work.seed, err);
}

/* ---- the run ---- */

static void show_progress(void *context, const load_progress_now *now)
{
    load_bench *b = context;
    uint64_t second = now->elapsed_us / 1000000;
    uint64_t line = now->phase_index * 1000000ull + second / PLAIN_LINE_S; /* of plain output: one in PLAIN_LINE_S */
    if (!b->tty && line == b->last_line)
        return;
    b->last_line = line;
    fprintf(stderr, "%s[%u/%u] %s %llu s: %u running, %u done, %u refused, %u failed, %llu tokens%s",
            b->tty ? "\r\033[K" : "", now->phase_index + 1, b->plan.phase_count, now->phase->name,
            (unsigned long long)second, now->running, now->done, now->refused, now->failed,
            (unsigned long long)now->tokens, b->tty ? "" : "\n");
    fflush(stderr);
}

/* A connection for each stream. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static status run(load_bench *b, error *err)
{
    raise_file_limit();
    replay_config config = {.work = &b->work,
                            .plan = &b->plan,
                            .transport = load_client_transport(b->client),
                            .clock = clock_real(),
                            .tick_us = b->tty ? 250000 : 1000000,
                            .progress = show_progress,
                            .context = b,
                            .stop = &stop_asked};
    canary *watch = NULL;
    status st = canary_start(&watch, err);
    if (st)
        return st;
    b->last_line = UINT64_MAX;
    st = replay_run(&config, &b->samples, b->spans, err);
    b->canary = canary_stop(watch);
    if (b->tty)
        fprintf(stderr, "\r\033[K");
    return st;
}

/* ---- the report ---- */

static status write_file(const char *path, const buf *text, error *err)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    size_t written = fwrite(text->data, 1, text->size, file);
    bool failed = written != text->size;
    failed = fclose(file) != 0 || failed;
    return failed ? error_set(err, ERR_IO, "%s: %s", path, strerror(errno)) : OK;
}

static status keep(load_bench *b, error *err)
{
    buf said = {0};
    status st = load_keeper_close(&b->keeper, &b->plan, b->summary, &said, err);
    fputs(said.data ? said.data : "", stderr);
    buf_free(&said);
    return st;
}

static status write_report(load_bench *b, error *err)
{
    status st = summary_build(b->summary, &b->samples, &b->plan, b->spans, &b->bounds, err);
    if (st)
        return st;
    const prompt_settings *prompt = load_client_prompt(b->client);
    load_report r = {.kind = b->spec->name + NAME_SKIP,
                     .url = flag_text(&b->flags, "--url"),
                     .model = prompt->model,
                     .trace = b->options.kind == BENCH_TRACE ? b->flags.operands[0] : NULL,
                     .seed = b->work.seed,
                     .unix_seconds = b->unix_seconds,
                     .scale = b->work.scale,
                     .tokens_per_word = 1 / prompt->words_per_token,
                     .bounds = b->bounds,
                     .plan = &b->plan,
                     .spans = b->spans,
                     .samples = &b->samples,
                     .summary = b->summary,
                     .canary = b->canary,
                     .stopped = stop_asked != 0};
    const char *json = flag_text(&b->flags, "--json"), *html = flag_text(&b->flags, "--html");
    buf text = {0};
    report_text(&r, &text);
    fputs(text.data ? text.data : "", stdout);
    fflush(stdout);
    if (json) {
        buf_clear(&text);
        report_json(&r, REPORT_ROWS, &text);
        st = write_file(json, &text, err);
    }
    if (html && !st) {
        buf_clear(&text);
        report_html(&r, &text);
        st = write_file(html, &text, err);
    }
    if (!st && text.failed)
        st = error_set(err, ERR_MEMORY, "report: out of memory");
    buf_free(&text);
    return st ? st : keep(b, err);
}

static int run_and_report(load_bench *b, error *err)
{
    status st = run(b, err);
    error second = {0};
    if (b->samples.count && write_report(b, &second)) {
        command_fail(b->spec, &second, 1);
        if (!st)
            return 1;
    }
    if (st)
        return command_fail(b->spec, err, 1);
    return stop_asked ? 130 : 0;
}

int bench_load_main(int argc, char **argv)
{
    int kind = index_of(argv[0]);
    load_bench *b = calloc(1, sizeof *b);
    load_summary *summary = calloc(1, sizeof *summary);
    error err = {0};
    if (!b || !summary) {
        fprintf(stderr, "headway bench: out of memory\n");
        free(b);
        free(summary);
        return 1;
    }
    b->spec = &specs[kind];
    b->summary = summary;
    b->options.kind = kind;
    b->tty = isatty(STDERR_FILENO);
    b->unix_seconds = clock_unix_seconds();
    int code = command_parse(b->spec, argc, argv, &b->flags);
    if (code == COMMAND_RUN) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        status st = prepare(b, &err);
        code = st ? command_fail(b->spec, &err, st == ERR_INVALID ? 2 : 1) : run_and_report(b, &err);
    }
    load_client_close(b->client);
    samples_free(&b->samples);
    trace_file_free(&b->trace);
    free(summary);
    free(b);
    return code;
}
