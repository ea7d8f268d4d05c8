/* cli/simulate.c: `headway simulate agents|documents|mixed|trace`: argv to a box and a plan, one run or a sweep, the
 * report. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/decimal.h"
#include "cli/commands.h"
#include "cli/simulate.h"
#include "sched/policy.h"
#include "tensor/kv_type.h"

static const flag_spec simulate_flags[] = {
    {"--model", "NAME", "of `plan --list models`, e.g. llama-3.1-8b:q4_0", NULL},
    {"--hardware", "NAME", "a row of the table, a steps.json or a trace", NULL},
    {"--devices", "N", "of that hardware, one box together", "1"},
    {"--boxes", "N", "replicas behind a router", "1"},
    {"--router", "NAME", "round-robin, least-loaded or prefix", "least-loaded"},
    {"--split", "P:D", "P boxes read prompts, D generate", NULL},
    {"--link", "GB/S", "between devices or boxes [the hardware's]", NULL},
    {"--kv-memory", "SIZE", "of the page pool [what the weights leave]", NULL},
    {"--kv", "TYPE", "how keys and values lie: f16, bf16, q8, q4", "f16"},
    {"--ctx", "N", "tokens a conversation may hold [the model's]", NULL},
    {"--parallel", "N", "streams at once, of a box", "16"},
    {"--cache", "on|off", "keep prefixes", "on"},
    {"--cache-sessions", "N", "so many conversations [all of the KV memory]", NULL},
    {"--policy", "NAME", "prefill-first, decode-first, chunked, gate", "cadence"},
    {"--chunk", "N", "tokens of a prompt in one step [2048]", NULL},
    {"--gap-ms", "N", "longest gap between a stream's tokens [auto]", NULL},
    {"--chat-share", "F", "of the device time for chats, at least [0.25]", NULL},
    {"--window-ms", "N", "gate: of decoding between two chunks [250]", NULL},
    {"--ttft-ms", "N", "goodput: longest wait for the first token", "1000"},
    {"--seed", "N", "same seed, same report", "1"},
    {"--scale", "X", "times the prompt lengths", "1"},
    {"--duration", "S", "seconds [30; mixed about 60]", NULL},
    {"--requests", "N", "ends after N (mixed: of documents)", NULL},
    {"--day", NULL, "mixed: 10,000 requests in 24 hours, 77:1", NULL},
    {"--agents", "N", "agent sessions at once", "2"},
    {"--workers", "N", "document workers at once", "3"},
    {"--rate", "X", "open loop: sessions a second, Poisson", NULL},
    {"--speed", "X", "trace: its clock runs so much faster", "1"},
    {"--tier", "NAME", "service_tier of documents, e.g. flex", NULL},
    {"--document-tokens", "N", "of a document [3600 to 4400]", NULL},
    {"--document-output", "N", "of its answer [48]", NULL},
    {"--prompt-tokens", "N", "of an agent's first prompt [1300 to 1440]", NULL},
    {"--output-tokens", "N", "of an agent's answer [40 to 120]", NULL},
    {"--message-tokens", "N", "that a chat template adds to each message", "5"},
    {"--think-s", "X", "between an answer and the next turn [0.15 to 1.5]", NULL},
    {"--step-gb", "X", "weights read by a decode step [by the model]", NULL},
    {"--fit-decode", "X", "the box reaches so many tok/s, one stream", NULL},
    {"--fit-document", "S", "and reads a long document in so many seconds", NULL},
    {"--fit-document-tokens", "N", "that document's length", "60000"},
    {"--fit-chunk", "S", "and a chunk in so many seconds", NULL},
    {"--fit-chunk-tokens", "N", "that chunk's length", "2048"},
    {"--sweep", "NAME=V,…", "a run for each value of a flag: a curve", NULL},
    {"--by", "NAME=V,…", "with --sweep: a curve for each value", NULL},
    {"--json", "FILE", "the report for programs", NULL},
    {"--html", "FILE", "the report with plots and a replay", NULL},
    {NULL, NULL, NULL, NULL},
};

static const char notes[] =
    "The engine, scheduler, cache and policies are those of `headway serve`; only the steps' times are computed. "
    "--sweep takes chunk, policy, gap-ms, chat-share, window-ms, cache-sessions, parallel, agents, workers, rate, "
    "boxes, router, kv, kv-memory, cache, document-tokens or prompt-tokens.";

static const command_spec specs[] = {
    {.name = "simulate agents",
     .summary = "Simulates sessions with a long growing prefix on hardware that need not be here.",
     .flags = simulate_flags,
     .notes = notes},
    {.name = "simulate documents",
     .summary = "Simulates workers with long fresh prompts on hardware that need not be here.",
     .flags = simulate_flags,
     .notes = notes},
    {.name = "simulate mixed",
     .summary = "Simulates agents and documents, alone and together, on hardware that need not be here.",
     .flags = simulate_flags,
     .notes = notes},
    {.name = "simulate trace",
     .operands = "FILE",
     .summary = "Simulates a trace (Mooncake JSONL, BurstGPT or Azure CSV) on hardware that need not be here.",
     .flags = simulate_flags,
     .notes = notes,
     .operand_min = 1,
     .operand_max = 1},
};
enum { WORKLOADS = sizeof specs / sizeof specs[0], NAME_SKIP = sizeof "simulate " - 1, TOKENS_MAX = 1 << 24 };

static const flag_spec no_flags[] = {{NULL, NULL, NULL, NULL}};
static const command_spec top_spec = {
    .name = "simulate",
    .operands = "agents|documents|mixed|trace [FLAGS]",
    .summary = "Runs the shipped scheduler on a virtual clock, with the costs of a machine: what `headway bench` would "
               "report there. `headway simulate mixed --help` lists the flags.",
    .flags = no_flags,
};

static volatile int stop_asked;

static void on_signal(int number)
{
    (void)number;
    stop_asked = 1;
}

/* ---- one option ---- */

static status read_real(const char *name, const char *text, double low, double high, double *out, error *err)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high))
        return error_set(err, ERR_INVALID, "--%s: '%s' is not a number from %g to %g", name, text, low, high);
    *out = value;
    return OK;
}

static status read_count(const char *name, const char *text, uint64_t low, uint64_t high, uint64_t *out, error *err)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno || value < low || value > high)
        return error_set(err, ERR_INVALID, "--%s: '%s' is not a number from %llu to %llu", name, text,
                         (unsigned long long)low, (unsigned long long)high);
    *out = value;
    return OK;
}

typedef enum { COUNT, REAL, WORDS, SIZE, MILLISECONDS } option_type;

typedef struct {
    const char *name;
    option_type type;
    size_t at; /* of a uint32_t, a double, a uint64_t of microseconds */
    double low, high;
    bool swept; /* may be an axis */
} option;

#define AT(field) offsetof(simulate_options, field)
static const option options[] = {
    {"devices", COUNT, AT(devices), 1, 1024, false},
    {"boxes", COUNT, AT(boxes), 1, WORLD_BOXES_MAX, true},
    {"link", REAL, AT(link_gb_s), 1e-3, 1e5, false},
    {"ctx", COUNT, AT(context), 64, TOKENS_MAX, false},
    {"parallel", COUNT, AT(parallel), 1, 4096, true},
    {"cache-sessions", COUNT, AT(cache.sessions), 1, 1 << 20, true},
    {"chunk", COUNT, AT(schedule.chunk_tokens), 1, 1 << 20, true},
    {"gap-ms", MILLISECONDS, AT(schedule.gap_us), 1, 3600000, true},
    {"window-ms", MILLISECONDS, AT(schedule.window_us), 1, 3600000, true},
    {"ttft-ms", REAL, AT(bounds.ttft_ms), 0.001, 1e9, false},
    {"scale", REAL, AT(scale), 1e-4, 1e4, false},
    {"duration", REAL, AT(plan.duration_s), 0.1, 1e7, false},
    {"requests", COUNT, AT(plan.requests), 1, SAMPLES_MAX, false},
    {"agents", COUNT, AT(plan.agents), 1, PLAYS_MAX / 2, true},
    {"workers", COUNT, AT(plan.workers), 1, PLAYS_MAX / 2, true},
    {"rate", REAL, AT(plan.rate), 1e-6, 1e5, true},
    {"speed", REAL, AT(speed), 1e-3, 1e6, false},
    {"document-tokens", COUNT, AT(sizes.document_tokens), 8, TOKENS_MAX, true},
    {"document-output", COUNT, AT(sizes.document_output), 1, 1 << 20, false},
    {"prompt-tokens", COUNT, AT(sizes.prompt_tokens), 16, TOKENS_MAX, true},
    {"output-tokens", COUNT, AT(sizes.output_tokens), 1, 1 << 20, false},
    {"think-s", REAL, AT(sizes.think_s), 1e-6, 1e6, false},
    {"step-gb", REAL, AT(step_gb), 1e-6, 1e5, false},
    {"message-tokens", COUNT, AT(message_tokens), 0, 1000, false},
    {"fit-decode", REAL, AT(fit.decode_tok_s), 1e-3, 1e6, false},
    {"fit-document", REAL, AT(fit.document_s), 1e-6, 1e6, false},
    {"fit-document-tokens", REAL, AT(fit.document_tokens), 1, TOKENS_MAX, false},
    {"fit-chunk", REAL, AT(fit.chunk_s), 1e-6, 1e6, false},
    {"fit-chunk-tokens", REAL, AT(fit.chunk_tokens), 1, TOKENS_MAX, false},
    {"kv-memory", SIZE, AT(kv_memory), 1, 0, true},
    {"seed", SIZE, AT(seed), 0, 0, false},
    {"policy", WORDS, 0, 0, 0, true},
    {"router", WORDS, 0, 0, 0, true},
    {"chat-share", WORDS, 0, 0, 0, true},
    {"kv", WORDS, 0, 0, 0, true},
    {"cache", WORDS, 0, 0, 0, true},
    {"tier", WORDS, 0, 0, 0, false},
    {"split", WORDS, 0, 0, 0, false},
};

static const option *option_find(const char *name)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!strcmp(options[i].name, name))
            return &options[i];
    return NULL;
}

static status set_split(simulate_options *o, const char *text, error *err)
{
    unsigned prefill = 0, decode = 0;
    int used = 0;
    if (sscanf(text, "%3u:%3u%n", &prefill, &decode, &used) != 2 || text[used] || !prefill || !decode ||
        prefill + decode > WORLD_BOXES_MAX || strchr(text, '-') || strchr(text, '+'))
        return error_set(err, ERR_INVALID,
                         "--split: '%s', want P:D, boxes that read and boxes that generate, %d at most", text,
                         WORLD_BOXES_MAX);
    o->boxes = prefill;
    o->decode_boxes = decode;
    return OK;
}

static status set_words(simulate_options *o, const char *name, const char *value, error *err)
{
    static const char *const tiers[] = {"auto", "default", "flex", "scale", "priority", "fast"};
    kv_type kv;
    error why;
    if (!strcmp(name, "policy")) {
        if (!policy_find(value))
            return error_set(err, ERR_INVALID, "--policy: '%s', want one of %s", value, policy_names());
        o->policy = value;
    } else if (!strcmp(name, "router")) {
        if (!world_route_find(&o->route, value))
            return error_set(err, ERR_INVALID, "--router: '%s', want round-robin, least-loaded or prefix", value);
    } else if (!strcmp(name, "chat-share")) {
        o->schedule.chat_share_set = true;
        return read_real(name, value, 0, 1, &o->schedule.chat_share, err);
    } else if (!strcmp(name, "kv")) {
        if (kv_type_find(value, &kv, &why))
            return error_set(err, ERR_INVALID, "--kv: %s", why.text);
        o->kv = value;
    } else if (!strcmp(name, "cache")) {
        if (strcmp(value, "on") && strcmp(value, "off"))
            return error_set(err, ERR_INVALID, "--cache: '%s' is neither on nor off", value);
        o->cache_off = !strcmp(value, "off");
    } else if (!strcmp(name, "split")) {
        return set_split(o, value, err);
    } else {
        bool known = false;
        for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
            known |= !strcmp(tiers[i], value);
        if (!known)
            return error_set(err, ERR_INVALID, "--tier: '%s', want auto, default, flex, scale, priority or fast",
                             value);
        o->documents_batch = !strcmp(value, "flex");
    }
    return OK;
}

static status set_size(simulate_options *o, const option *one, const char *value, error *err)
{
    uint64_t *out = (uint64_t *)((char *)o + one->at);
    if (!strcmp(one->name, "seed"))
        return read_count(one->name, value, 0, UINT64_MAX, out, err);
    if (!decimal_read_bytes(span_from(value), out) || *out == 0)
        return error_set(err, ERR_INVALID, "--%s: '%s' is not a size such as 512M or 1.5G", one->name, value);
    return OK;
}

status simulate_set(simulate_options *o, const char *name, const char *value, error *err)
{
    const option *one = option_find(name);
    if (!one)
        return error_set(err, ERR_INVALID, "--%s: no such flag", name);
    void *at = (char *)o + one->at;
    uint64_t count = 0;
    if (one->type == REAL)
        return read_real(name, value, one->low, one->high, at, err);
    if (one->type == WORDS)
        return set_words(o, name, value, err);
    if (one->type == SIZE)
        return set_size(o, one, value, err);
    status st = read_count(name, value, (uint64_t)one->low, (uint64_t)one->high, &count, err);
    if (!st && one->type == MILLISECONDS)
        *(uint64_t *)at = count * 1000;
    else if (!st)
        *(uint32_t *)at = (uint32_t)count;
    return st;
}

/* ---- all of them ---- */

static status read_options(simulate_options *o, const command_flags *flags, error *err)
{
    status st = OK;
    o->model = flag_text(flags, "--model");
    o->hardware = flag_text(flags, "--hardware");
    o->day = flag_given(flags, "--day");
    for (size_t i = 0; !st && i < sizeof options / sizeof *options; i++) {
        char name[32];
        snprintf(name, sizeof name, "--%s", options[i].name);
        if (flag_text(flags, name))
            st = simulate_set(o, options[i].name, flag_text(flags, name), err);
    }
    if (st)
        return st;
    if (o->plan.kind == BENCH_TRACE) { /* a trace has its own times unless a closed loop was asked for */
        o->trace_path = flags->operands[0];
        o->plan.agents = flag_given(flags, "--agents") ? o->plan.agents : 0;
        o->plan.workers = flag_given(flags, "--workers") ? o->plan.workers : 0;
    }
    o->bounds.gap_ms = (double)o->schedule.gap_us / 1e3;
    if (o->day && o->plan.kind != BENCH_MIXED)
        return error_set(err, ERR_INVALID, "--day: a load of its own, it goes with `simulate mixed`");
    if (o->decode_boxes && flag_given(flags, "--boxes"))
        return error_set(err, ERR_INVALID, "--boxes: --split says how many there are");
    if (o->cache_off && o->cache.sessions)
        return error_set(err, ERR_INVALID, "--cache-sessions: --cache off keeps none");
    return OK;
}

static status read_axes(simulate_sweep *s, const command_flags *flags, error *err)
{
    const char *sweep = flag_text(flags, "--sweep"), *by = flag_text(flags, "--by");
    status st = OK;
    if (by && !sweep)
        return error_set(err, ERR_INVALID, "--by: --sweep is missing");
    if (sweep)
        st = simulate_axis_read(&s->axis, "--sweep", sweep, err);
    if (!st && by)
        st = simulate_axis_read(&s->by, "--by", by, err);
    if (st)
        return st;
    const simulate_axis *axes[] = {&s->axis, &s->by};
    for (size_t i = 0; i < 2; i++) {
        const option *one = option_find(axes[i]->name);
        if (axes[i]->count && (!one || !one->swept))
            return error_set(err, ERR_INVALID, "%s: '%s' cannot be swept (see --help)", i ? "--by" : "--sweep",
                             axes[i]->name);
    }
    if (s->by.count && !strcmp(s->axis.name, s->by.name))
        return error_set(err, ERR_INVALID, "--by: %s is what --sweep varies", s->by.name);
    if (s->axis.count * (s->by.count ? s->by.count : 1) > SWEEP_POINTS_MAX)
        return error_set(err, ERR_INVALID, "--sweep: more than %d points", SWEEP_POINTS_MAX);
    return OK;
}

/* ---- files ---- */

static status write_file(const char *path, const buf *text, error *err)
{
    if (text->failed)
        return error_set(err, ERR_MEMORY, "%s: out of memory", path);
    FILE *file = fopen(path, "wb");
    if (!file)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    bool failed = fwrite(text->data, 1, text->size, file) != text->size;
    failed = fclose(file) != 0 || failed;
    return failed ? error_set(err, ERR_IO, "%s: %s", path, strerror(errno)) : OK;
}

/* Before a long run, not after it. A file that is there stays as it is. */
static status check_writable(const char *path, error *err)
{
    FILE *file = path ? fopen(path, "ab") : NULL;
    if (path && !file)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    if (file)
        fclose(file);
    return OK;
}

static void say_wall(double simulated_s, uint64_t steps, uint64_t wall_us)
{
    fprintf(stderr, "simulated %.6g s, %llu steps, in %.2f s\n", simulated_s, (unsigned long long)steps,
            (double)wall_us / 1e6);
}

static uint64_t steps_of(const simulate_result *r)
{
    uint64_t steps = 0;
    for (uint32_t i = 0; i < r->world.box_count; i++)
        steps += r->world.boxes[i].steps;
    return steps;
}

/* ---- one run ---- */

static void show_progress(void *context, const load_progress_now *now)
{
    (void)context;
    fprintf(stderr, "\r\033[K%s, %.4g s: %u running, %u done, %u refused", now->phase->name,
            (double)now->elapsed_us / 1e6, now->running, now->done, now->refused);
    fflush(stderr);
}

static status write_reports(const simulate_options *o, const simulate_box *box, const simulate_result *r,
                            const command_flags *flags, error *err)
{
    const char *json = flag_text(flags, "--json"), *html = flag_text(flags, "--html");
    status st = OK;
    buf text = {0};
    simulate_text(o, box, r, &text);
    fputs(text.data ? text.data : "", stdout);
    if (json) {
        buf_clear(&text);
        simulate_json(o, box, r, &text);
        st = write_file(json, &text, err);
    }
    if (html && !st) {
        buf_clear(&text);
        simulate_html(o, box, r, &text);
        st = write_file(html, &text, err);
    }
    buf_free(&text);
    return st;
}

static status run_one(const simulate_options *o, const simulate_box *box, const command_flags *flags, error *err)
{
    bool tty = isatty(STDERR_FILENO) != 0;
    simulate_result *r = calloc(1, sizeof *r);
    if (!r)
        return error_set(err, ERR_MEMORY, "out of memory");
    uint64_t start_us = clock_now_us();
    status st = simulate_run(r, o, box, tty ? show_progress : NULL, NULL, &stop_asked, err);
    if (tty)
        fprintf(stderr, "\r\033[K");
    if (r->samples.count && r->world.box_count) {
        error second = {0};
        status written = write_reports(o, box, r, flags, &second);
        say_wall((double)(r->world.now_us - r->world.start_us) / 1e6, steps_of(r), clock_now_us() - start_us);
        if (!st && written) {
            st = written;
            *err = second;
        }
    }
    simulate_result_free(r);
    free(r);
    return st;
}

/* ---- a sweep ---- */

static void run_point(const simulate_sweep *s, uint32_t by, uint32_t at, simulate_result *r, sweep_point *out)
{
    simulate_options o = *s->options;
    simulate_box box;
    error err = {0};
    status st = simulate_set(&o, s->axis.name, s->axis.values[at], &err);
    if (!st && s->by.count)
        st = simulate_set(&o, s->by.name, s->by.values[by], &err);
    o.bounds.gap_ms = (double)o.schedule.gap_us / 1e3;
    if (!st)
        st = simulate_box_open(&box, &o, &err);
    if (!st)
        st = simulate_run(r, &o, &box, NULL, NULL, &stop_asked, &err);
    if (st)
        snprintf(out->problem, sizeof out->problem, "%.*s", (int)sizeof out->problem - 1, err.text);
    else
        sweep_fill(out, r);
    simulate_result_free(r);
}

static status write_sweep(const simulate_sweep *s, const command_flags *flags, error *err)
{
    const char *json = flag_text(flags, "--json"), *html = flag_text(flags, "--html");
    status st = OK;
    buf text = {0};
    sweep_text(s, &text);
    fputs(text.data ? text.data : "", stdout);
    if (json) {
        buf_clear(&text);
        sweep_json(s, &text);
        st = write_file(json, &text, err);
    }
    if (html && !st) {
        buf_clear(&text);
        sweep_html(s, &text);
        st = write_file(html, &text, err);
    }
    buf_free(&text);
    return st;
}

/* Every value of both axes must be one that the flag takes: said before the first run. */
static status check_values(const simulate_sweep *s, error *err)
{
    const simulate_axis *axes[] = {&s->axis, &s->by};
    simulate_options o = *s->options;
    status st = OK;
    for (size_t i = 0; i < 2; i++)
        for (uint32_t k = 0; !st && k < axes[i]->count; k++)
            st = simulate_set(&o, axes[i]->name, axes[i]->values[k], err);
    return st;
}

static status run_sweep(simulate_sweep *s, const command_flags *flags, error *err)
{
    uint32_t rows = s->by.count ? s->by.count : 1, done = 0;
    uint64_t start_us = clock_now_us(), steps = 0;
    double seconds = 0;
    status st = check_values(s, err);
    if (st)
        return st;
    simulate_result *r = calloc(1, sizeof *r);
    s->points = calloc((size_t)rows * s->axis.count, sizeof *s->points);
    if (!r || !s->points)
        st = error_set(err, ERR_MEMORY, "out of memory");
    for (uint32_t b = 0; !st && b < rows; b++)
        for (uint32_t a = 0; a < s->axis.count && !stop_asked; a++) {
            run_point(s, b, a, r, &s->points[b * s->axis.count + a]);
            steps += steps_of(r);
            seconds += (double)(r->world.now_us - r->world.start_us) / 1e6;
            if (isatty(STDERR_FILENO))
                fprintf(stderr, "\r\033[K%u of %u points", ++done, rows * s->axis.count);
        }
    if (done)
        fprintf(stderr, "\r\033[K");
    if (!st) {
        sweep_compare(s);
        st = write_sweep(s, flags, err);
    }
    say_wall(seconds, steps, clock_now_us() - start_us);
    free(s->points);
    free(r);
    return st;
}

/* ---- the command ---- */

static int index_of(const char *name)
{
    for (int i = 0; i < WORKLOADS; i++)
        if (!strcmp(specs[i].name + NAME_SKIP, name))
            return i;
    return -1;
}

static status run(const command_flags *flags, int kind, error *err)
{
    simulate_options o = {.spec = &specs[kind], .plan.kind = kind, .policy = "cadence", .scale = 1, .speed = 1};
    simulate_box *box = calloc(1, sizeof *box);
    simulate_sweep *sweep = calloc(1, sizeof *sweep);
    status st = box && sweep ? read_options(&o, flags, err) : error_set(err, ERR_MEMORY, "out of memory");
    if (!st)
        st = read_axes(sweep, flags, err);
    if (!st)
        st = simulate_box_open(box, &o, err);
    if (!st)
        st = check_writable(flag_text(flags, "--json"), err);
    if (!st)
        st = check_writable(flag_text(flags, "--html"), err);
    if (!st && sweep->axis.count) {
        sweep->options = &o;
        sweep->box = box;
        st = run_sweep(sweep, flags, err);
    } else if (!st) {
        st = run_one(&o, box, flags, err);
    }
    free(sweep);
    free(box);
    return st;
}

int simulate_main(int argc, char **argv)
{
    int kind = argc > 1 ? index_of(argv[1]) : -1;
    error err = {0};
    command_flags flags;
    if (kind < 0) {
        if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
            command_print_help(&top_spec);
            return 0;
        }
        if (argc > 1)
            error_set(&err, ERR_INVALID,
                      "'%s' is not a load, want agents, documents, mixed or trace (see `headway simulate --help`)",
                      argv[1]);
        else
            error_set(&err, ERR_INVALID,
                      "of what? agents, documents, mixed or trace FILE (see `headway simulate --help`)");
        return command_fail(&top_spec, &err, 2);
    }
    int code = command_parse(&specs[kind], argc - 1, argv + 1, &flags);
    if (code != COMMAND_RUN)
        return code;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    status st = run(&flags, kind, &err);
    if (st)
        return command_fail(&specs[kind], &err, st == ERR_IO || st == ERR_MEMORY ? 1 : 2);
    return stop_asked ? 130 : 0;
}
