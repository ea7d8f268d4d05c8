/* cli/bench.c: `headway bench`: prefill and decode speed of a model on this machine, through the runner that serves it.
 * Prompts are random ids. Every figure is the median of the repetitions; JSON on request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/run_keeper.h"
#include "runner/model_runner.h"
#include "tensor/kv_type.h"

enum { DEPTHS_MAX = 16, REPEATS_MAX = 50 };

static const flag_spec bench_flags[] = {
    {"--model", "PATH", "the model file", NULL},
    {"--prefill", "LIST", "prompt lengths to prefill", "512,2048,4096"},
    {"--depth", "LIST", "contexts to decode at", "0,4096"},
    {"--tokens", "N", "tokens of a decode run", "64"},
    {"--streams", "N", "streams that decode at once", "1"},
    {"--repeat", "N", "repetitions; the median counts", "3"},
    {"--threads", "N", "worker threads [the machine's]", NULL},
    {"--kv", "TYPE", "how keys and values lie: f16, bf16, q8, q4, f32", "f16"},
    {"--keep", "on|off", "keep the speeds for `headway plan`", "on"},
    {"--breakdown", NULL, "time and bytes by op instead of speeds", NULL},
    {"--json", NULL, "one JSON object on stdout", NULL},
    {NULL, NULL, NULL, NULL},
};
static const command_spec bench_spec = {
    .name = "bench",
    .summary = "Measures prefill and decode speed of a model.",
    .flags = bench_flags,
    .notes =
        "`headway bench agents|documents|mixed|trace --help`: load for a running server. What is measured with all "
        "threads, keys and values in 16 bits and without HEADWAY_CPU is kept (docs/results.md)."};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void run_plan(bench *b, const step_plan *plan)
{
    step_result result = {.tokens = b->sampled};
    error err;
    b->runner->ops->run(b->runner, plan, &result, clock_real(), &err);
    b->bytes += result.bytes;
}

void bench_open_streams(bench *b)
{
    for (uint32_t s = 0; s < b->streams; s++)
        b->runner->ops->sequence_open(b->runner, s,
                                      &(sequence_start){.params = &b->greedy, .tokens = b->tokens, .prompt_count = 1});
}

/* Seconds to prefill `count` tokens of stream `seq`. */
double bench_prefill(bench *b, uint32_t seq, uint32_t count)
{
    uint64_t start = clock_now_us();
    uint32_t step = b->runner->info.max_chunk_tokens;
    for (uint32_t at = 0; at < count; at += step) {
        uint32_t left = count - at, n = left < step ? left : step;
        prefill_chunk chunk = {.seq = seq,
                               .pages = b->pages + (size_t)seq * b->pages_per_stream,
                               .position = at,
                               .tokens = b->tokens + at,
                               .token_count = n,
                               .sample = at + n == count};
        run_plan(b, &(step_plan){.kind = STEP_PREFILL, .chunk = chunk});
    }
    return (double)(clock_now_us() - start) * 1e-6;
}

/* Seconds for `count` decode steps of all streams from `depth` on. */
double bench_decode(bench *b, uint32_t depth, uint32_t count)
{
    decode_row rows[MAX_ROWS];
    uint64_t start = clock_now_us();
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t s = 0; s < b->streams; s++)
            rows[s] = (decode_row){s, b->pages + (size_t)s * b->pages_per_stream, depth + i,
                                   i ? b->sampled[s].token : b->tokens[depth + s]};
        run_plan(b, &(step_plan){.kind = STEP_DECODE, .rows = rows, .row_count = b->streams});
    }
    return (double)(clock_now_us() - start) * 1e-6;
}

static uint32_t read_list(const char *text, uint32_t *out, uint32_t *highest)
{
    uint32_t count = 0;
    while (*text && count < DEPTHS_MAX) {
        char *end;
        unsigned long value = strtoul(text, &end, 10);
        if (end == text || value > (1u << 24) || (*end && *end != ','))
            return 0;
        out[count++] = (uint32_t)value;
        *highest = value > *highest ? (uint32_t)value : *highest;
        text = *end ? end + 1 : end;
    }
    return count;
}

static status open_bench(bench *b, const command_flags *flags, uint32_t longest, uint32_t tokens, error *err)
{
    const char *path = flag_text(flags, "--model");
    uint64_t threads = 0;
    status st = flag_number(flags, "--threads", 1, 1024, &threads, err);
    if (st && st != ERR_NOT_FOUND)
        return st;
    kv_type kv;
    error why;
    if (kv_type_find(flag_text(flags, "--kv"), &kv, &why))
        return error_set(err, ERR_INVALID, "--kv: %s", why.text);
    model_file *file;
    if ((st = model_file_open(&file, path, err)))
        return st;
    uint32_t context = longest + tokens + KV_PAGE_TOKENS;
    char plan[256];
    st = model_runner_open(&b->runner, file,
                           &(model_runner_config){.threads = (uint32_t)threads,
                                                  .context = context,
                                                  .sequences = b->streams,
                                                  .kv_stored = kv,
                                                  .kernels = getenv("HEADWAY_CPU")},
                           plan, sizeof plan, err);
    model_file_close(file);
    if (st)
        return st;
    b->pages_per_stream = (context + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    b->tokens = malloc((context + b->streams) * sizeof *b->tokens);
    b->pages = malloc((size_t)b->streams * b->pages_per_stream * sizeof *b->pages);
    b->sampled = calloc(MAX_ROWS + 1, sizeof *b->sampled);
    if (!b->tokens || !b->pages || !b->sampled)
        return error_set(err, ERR_MEMORY, "out of memory");
    rng r = {1};
    for (uint32_t i = 0; i < context + b->streams; i++)
        b->tokens[i] = (int32_t)rng_below(&r, b->runner->info.vocab_size);
    for (uint32_t i = 0; i < b->streams * b->pages_per_stream; i++)
        b->pages[i] = i;
    return OK;
}

static void print_row(bool json, bool *first, const char *what, uint32_t at, double rate, double bytes_per_second)
{
    if (json)
        printf("%s\"%s%u\": %.2f", *first ? "" : ", ", what, at, rate);
    else
        printf("%-7s %6u  %9.1f tok/s  %6.1f GB/s\n", what, at, rate, bytes_per_second * 1e-9);
    *first = false;
    fflush(stdout);
}

/* `rates` are sorted; `keeper` NULL: nothing is kept. */
static void keep(run_keeper *keeper, run_figure figure, const double *rates)
{
    figure.low = rates[0];
    figure.high = rates[figure.repeats - 1];
    if (keeper)
        run_keeper_add(keeper, &figure);
}

static void measure_prefill(bench *b, const bench_cases *cases, bool *first, run_keeper *keeper)
{
    double rates[REPEATS_MAX], bytes = 0;
    for (uint32_t i = 0; i < cases->length_count; i++) {
        for (uint32_t k = 0; k < cases->repeat; k++) {
            bench_open_streams(b);
            b->bytes = 0;
            double seconds = bench_prefill(b, 0, cases->lengths[i]);
            rates[k] = cases->lengths[i] / seconds;
            bytes = (double)b->bytes / seconds;
        }
        double median = bench_median(rates, cases->repeat);
        keep(keeper, (run_figure){RUN_PREFILL, 1, cases->lengths[i], 0, cases->repeat, median, 0, 0}, rates);
        print_row(cases->json, first, "prefill", cases->lengths[i], median, bytes);
    }
}

static void measure_decode(bench *b, const bench_cases *cases, bool *first, run_keeper *keeper)
{
    double rates[REPEATS_MAX], bytes = 0;
    for (uint32_t i = 0; i < cases->depth_count; i++) {
        bench_open_streams(b);
        for (uint32_t s = 0; s < b->streams && cases->depths[i]; s++)
            bench_prefill(b, s, cases->depths[i]);
        for (uint32_t k = 0; k < cases->repeat; k++) {
            b->bytes = 0;
            double seconds = bench_decode(b, cases->depths[i], cases->tokens);
            rates[k] = cases->tokens * b->streams / seconds;
            bytes = (double)b->bytes / seconds;
        }
        double median = bench_median(rates, cases->repeat);
        keep(keeper, (run_figure){RUN_DECODE, b->streams, cases->depths[i], cases->tokens, cases->repeat, median, 0, 0},
             rates);
        print_row(cases->json, first, "decode", cases->depths[i], median, bytes);
    }
}

/* Are these the speeds that this machine has by itself? */
static bool is_plain(const command_flags *flags)
{
    const char *kv = flag_text(flags, "--kv");
    return !flag_given(flags, "--threads") && !getenv("HEADWAY_CPU") && (!strcmp(kv, "f16") || !strcmp(kv, "bf16"));
}

/* What cannot be kept is no failure of the measurement: it is said on stderr. */
static void measure(bench *b, const bench_cases *cases, const command_flags *flags, bool wanted)
{
    run_keeper *keeper = wanted && is_plain(flags) ? malloc(sizeof *keeper) : NULL;
    bool first = true;
    error err;
    buf said = {0};
    if (keeper && run_keeper_open(keeper, flag_text(flags, "--model"), &err)) {
        fprintf(stderr, "not kept: %s\n", err.text);
        free(keeper);
        keeper = NULL;
    }
    if (cases->json)
        printf("{");
    measure_prefill(b, cases, &first, keeper);
    measure_decode(b, cases, &first, keeper);
    if (cases->json)
        printf("}\n");
    fflush(stdout);
    if (keeper && run_keeper_close(keeper, &said, &err))
        buf_printf(&said, "not kept: %s\n", err.text);
    fputs(said.data ? said.data : "", stderr);
    buf_free(&said);
    free(keeper);
}

int bench_main(int argc, char **argv)
{
    if (argc > 1 && bench_is_workload(argv[1]))
        return bench_load_main(argc - 1, argv + 1);
    command_flags flags;
    error err = {0};
    int code = command_parse(&bench_spec, argc, argv, &flags);
    if (code != COMMAND_RUN)
        return code;
    uint32_t lengths[DEPTHS_MAX], depths[DEPTHS_MAX], longest = 0;
    uint32_t length_count = read_list(flag_text(&flags, "--prefill"), lengths, &longest);
    uint32_t depth_count = read_list(flag_text(&flags, "--depth"), depths, &longest);
    uint64_t tokens, streams, repeat;
    bool wanted = false;
    bench b = {.greedy = {.top_p = 1, .typical_p = 1, .repetition_penalty = 1}};
    if (!flag_given(&flags, "--model"))
        error_set(&err, ERR_INVALID, "--model PATH is needed");
    else if (!length_count && !depth_count)
        error_set(&err, ERR_INVALID, "--prefill and --depth want lists of numbers such as 512,2048");
    if (err.text[0] || flag_number(&flags, "--tokens", 1, 100000, &tokens, &err) ||
        flag_number(&flags, "--streams", 1, MAX_ROWS, &streams, &err) ||
        flag_number(&flags, "--repeat", 1, REPEATS_MAX, &repeat, &err) ||
        run_keeper_wanted(flag_text(&flags, "--keep"), &wanted, &err))
        return command_fail(&bench_spec, &err, 2);
    b.streams = (uint32_t)streams;
    if (open_bench(&b, &flags, longest, (uint32_t)tokens, &err))
        code = command_fail(&bench_spec, &err, 1);
    else {
        const bench_cases cases = {lengths,
                                   depths,
                                   length_count,
                                   depth_count,
                                   (uint32_t)tokens,
                                   (uint32_t)repeat,
                                   flag_given(&flags, "--json")};
        code = 0;
        if (flag_given(&flags, "--breakdown"))
            code = bench_breakdown(&b, &cases, &err) ? command_fail(&bench_spec, &err, 1) : 0;
        else
            measure(&b, &cases, &flags, wanted);
    }
    if (b.runner)
        b.runner->ops->close(b.runner);
    free(b.tokens);
    free(b.pages);
    free(b.sampled);
    return code;
}
