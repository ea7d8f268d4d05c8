/* load/tune_steps.c: see the header. The pass over positions really reads a prompt, so that decoding at a depth reads
 * memory that was written: pages never touched would all be one page of zeros to the machine. */
#include "load/tune_steps.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"

enum { REPEATS_MAX = 9, ROWS_MAX = 16, CHUNK_MAX = 2048, POSITION_CHUNK = 256, SHALLOW_TOKENS = 64, LIMIT_MIN = 128 };

typedef struct {
    runner *runner;
    hw_clock *clock;
    tune_teller teller;
    uint32_t limit, repeats; /* tokens of a context that fits the pool; repetitions of one cost */
    uint64_t spend_us;       /* on one cost */
    uint64_t end_us;         /* of the sizes measured now */
    sampling_params greedy;
    int32_t *tokens; /* (limit + 2) random ids */
    uint32_t *pages; /* (pages of limit): 0, 1, 2 ... */
    sampled_token *sampled;
    error *err;
    status failed;
} meter;

static void meter_close(meter *m)
{
    free(m->tokens);
    free(m->pages);
    free(m->sampled);
}

static status meter_open(meter *m, runner *r, hw_clock *clock, error *err)
{
    const runner_info *info = &r->info;
    uint64_t pool = (uint64_t)info->page_count * info->page_tokens;
    m->runner = r;
    m->clock = clock;
    m->err = err;
    m->limit = pool < info->context_length ? (uint32_t)pool : info->context_length;
    m->greedy = (sampling_params){.top_p = 1, .typical_p = 1, .repetition_penalty = 1};
    if (m->limit < LIMIT_MIN)
        return error_set(err, ERR_LIMIT, "the context holds %u tokens, want at least %d", m->limit, LIMIT_MIN);
    uint32_t pages = (m->limit + info->page_tokens - 1) / info->page_tokens;
    m->tokens = malloc(((size_t)m->limit + 2) * sizeof *m->tokens);
    m->pages = malloc(((size_t)pages + 1) * sizeof *m->pages);
    m->sampled = calloc((size_t)info->max_rows + 1, sizeof *m->sampled);
    if (!m->tokens || !m->pages || !m->sampled) {
        meter_close(m);
        return error_set(err, ERR_MEMORY, "out of memory");
    }
    rng random = {1};
    for (uint32_t i = 0; i < m->limit + 2; i++)
        m->tokens[i] = (int32_t)rng_below(&random, info->vocab_size);
    for (uint32_t i = 0; i < pages; i++)
        m->pages[i] = i;
    return OK;
}

static bool open_slots(meter *m, uint32_t count)
{
    sequence_start start = {.params = &m->greedy, .tokens = m->tokens, .prompt_count = 1, .measuring = true};
    for (uint32_t i = 0; i < count; i++)
        if ((m->failed = m->runner->ops->sequence_open(m->runner, i, &start))) {
            error_set(m->err, m->failed, "the runner opened %u of %u sequences", i, count);
            while (i > 0)
                m->runner->ops->sequence_close(m->runner, --i);
            return false;
        }
    return true;
}

static void close_slots(meter *m, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        m->runner->ops->sequence_close(m->runner, i);
}

static double run_once(meter *m, const step_plan *plan)
{
    step_result result = {.tokens = m->sampled};
    uint64_t start_us = m->clock->now_us(m->clock);
    if (!m->failed)
        m->failed = m->runner->ops->run(m->runner, plan, &result, m->clock, m->err);
    return (double)(m->clock->now_us(m->clock) - start_us);
}

static double left_us(const meter *m)
{
    return (double)m->end_us - (double)m->clock->now_us(m->clock);
}

/* The first run warms up; a long one counts nevertheless. */
static void add_cost(meter *m, tune_cost_list *list, const step_plan *plan, uint32_t size, uint32_t position)
{
    double us[REPEATS_MAX], warm_us = run_once(m, plan);
    uint32_t count = 0;
    double spent_us = warm_us;
    if (warm_us * 2 > (double)m->spend_us)
        us[count++] = warm_us;
    while (!m->failed && count < m->repeats && (count < 1 || spent_us < (double)m->spend_us))
        spent_us += us[count++] = run_once(m, plan);
    if (!m->failed && list->count < TUNE_COSTS_MAX)
        list->items[list->count++] = (tune_cost){size, position, tune_spread_of(us, count)};
}

static step_plan chunk_plan(meter *m, uint32_t position, uint32_t count)
{
    return (step_plan){
        .kind = STEP_PREFILL,
        .chunk = {.pages = m->pages, .position = position, .tokens = m->tokens + position, .token_count = count}};
}

static uint32_t largest_chunk(const meter *m)
{
    uint32_t most = m->runner->info.max_chunk_tokens;
    most = most < CHUNK_MAX ? most : CHUNK_MAX;
    return most < m->limit / 2 ? most : m->limit / 2;
}

static void tell(const meter *m, double part, const char *format, uint32_t number)
{
    char what[64];
    snprintf(what, sizeof what, format, number);
    if (m->teller.tell)
        m->teller.tell(m->teller.context, what, part);
}

static void measure_chunks(meter *m, bool quick, tune_costs *out)
{
    uint32_t most = largest_chunk(m), factor = quick ? 4 : 2;
    if (!open_slots(m, 1))
        return;
    for (uint32_t count = 1; !m->failed; count *= factor) {
        count = count < most ? count : most;
        tell(m, 0.5 * count / most, "prefill, chunks of %u tokens", count);
        step_plan plan = chunk_plan(m, 0, count);
        add_cost(m, &out->chunks, &plan, count, 0);
        double next_us = m->failed ? 0 : 2 * factor * out->chunks.items[out->chunks.count - 1].us.median;
        if (count == most || next_us > left_us(m))
            break;
    }
    close_slots(m, 1);
}

/* 0, then 1024, 4096, 16384 ... as far as the context goes, in the quick case once. */
static uint32_t depths_of(const meter *m, bool quick, uint32_t chunk, uint32_t *depths)
{
    uint32_t count = 0, last = m->limit - chunk - ROWS_MAX - 1;
    depths[count++] = 0;
    for (uint32_t depth = 1024; depth <= last && depth <= 4096 && count < 4; depth *= 4) {
        depths[count++] = depth;
        if (quick)
            break;
    }
    if (count == 1)
        depths[count++] = last;
    return count;
}

/* Reads a prompt up to each depth, then measures chunks and decode steps there. */
static void measure_depths(meter *m, bool quick, tune_costs *out)
{
    uint32_t most = largest_chunk(m), chunk = most < POSITION_CHUNK ? most : POSITION_CHUNK, depths[4], at = 0;
    uint32_t count = depths_of(m, quick, chunk, depths);
    if (!open_slots(m, 1))
        return;
    for (uint32_t i = 0; i < count && !m->failed; i++) {
        if (i > 0 && tune_prompt_us(out, depths[i] - at) > left_us(m))
            break;
        tell(m, 0.55 + 0.3 * i / count, "prefill and decode at depth %u", depths[i]);
        for (uint32_t n; at < depths[i]; at += n) {
            n = depths[i] - at < most ? depths[i] - at : most;
            step_plan plan = chunk_plan(m, at, n);
            run_once(m, &plan);
        }
        step_plan plan = chunk_plan(m, depths[i], chunk);
        add_cost(m, &out->positions, &plan, chunk, depths[i]);
        decode_row row = {.seq = 0, .pages = m->pages, .position = depths[i], .token = m->tokens[0]};
        plan = (step_plan){.kind = STEP_DECODE, .rows = &row, .row_count = 1};
        add_cost(m, &out->depths, &plan, 1, depths[i]);
    }
    close_slots(m, 1);
}

static void measure_rows(meter *m, tune_costs *out)
{
    const runner_info *info = &m->runner->info;
    decode_row rows[ROWS_MAX];
    uint32_t most = info->max_rows < info->max_sequences ? info->max_rows : info->max_sequences;
    uint32_t apart = (SHALLOW_TOKENS + info->page_tokens - 1) / info->page_tokens;
    uint32_t pages = (m->limit + info->page_tokens - 1) / info->page_tokens;
    most = most < ROWS_MAX ? most : ROWS_MAX;
    if (!open_slots(m, most))
        return;
    for (uint32_t i = 0; i < most; i++)
        rows[i] =
            (decode_row){.seq = i, .pages = m->pages + (i * apart + 1 < pages ? i * apart : 0), .token = m->tokens[i]};
    for (uint32_t count = 1; count <= most && !m->failed; count *= 2) {
        tell(m, 0.85 + 0.15 * count / most, "decode, %u rows", count);
        step_plan plan = {.kind = STEP_DECODE, .rows = rows, .row_count = count};
        add_cost(m, &out->rows, &plan, count, 0);
    }
    close_slots(m, most);
}

status tune_measure_steps(const tune_stepping *stepping, tune_costs *out, error *err)
{
    bool quick = stepping->quick;
    meter m = {.teller = stepping->teller, .repeats = quick ? 3 : 7, .spend_us = quick ? 250000 : 1000000};
    status st = meter_open(&m, stepping->runner, stepping->clock, err);
    if (st)
        return st;
    uint64_t start_us = m.clock->now_us(m.clock);
    out->weight_bytes = m.runner->info.weight_bytes;
    m.end_us = start_us + stepping->budget_us * 6 / 10;
    measure_chunks(&m, quick, out);
    m.end_us = start_us + stepping->budget_us * 9 / 10;
    if (!m.failed)
        measure_depths(&m, quick, out);
    if (!m.failed)
        measure_rows(&m, out);
    meter_close(&m);
    return m.failed;
}

status tune_run_chunk(runner *r, hw_clock *clock, uint32_t tokens, error *err)
{
    meter m = {.repeats = 1};
    status st = meter_open(&m, r, clock, err);
    if (st)
        return st;
    if (open_slots(&m, 1)) {
        step_plan plan = chunk_plan(&m, 0, tokens);
        run_once(&m, &plan);
        close_slots(&m, 1);
    }
    meter_close(&m);
    return m.failed;
}

double tune_prompt_us(const tune_costs *costs, uint32_t tokens)
{
    if (costs->chunks.count == 0)
        return 0;
    const tune_cost *whole = &costs->chunks.items[costs->chunks.count - 1];
    double token_us = whole->us.median / whole->size, deeper_us = 0;
    if (costs->positions.count > 1) {
        const tune_cost *first = &costs->positions.items[0],
                        *last = &costs->positions.items[costs->positions.count - 1];
        deeper_us = (last->us.median - first->us.median) / last->size / (last->position - first->position);
    }
    double past =
        tokens > whole->size ? (double)tokens - whole->size : 0; /* the largest chunk paid for its own depth */
    return token_us * tokens + (deeper_us > 0 ? deeper_us * past * (double)tokens / 2 : 0);
}
