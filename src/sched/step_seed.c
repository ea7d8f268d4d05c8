/* sched/step_seed.c: see the header. A few pages stand for all, so that memory is not touched for nothing; nobody reads
 * what is written. */
#include "sched/step_seed.h"

#include <math.h>
#include <stdlib.h>

enum { SEED_ROWS_MAX = 16, SEED_CHUNK = 256, SEED_DEPTH = 1024, SEED_REPEATS = 2, SEED_RUN_MS = 12, SEED_PAGES = 8 };

typedef struct {
    step_model *model;
    runner *runner;
    hw_clock *clock;
    uint64_t end_us;
    sampling_params greedy;
    int32_t *tokens; /* (context) zeros */
    uint32_t *pages; /* one table for all rows: they write the same places */
    uint32_t rows;
    sampled_token *sampled;
    double overrun_us; /* the least seen */
    bool failed;
} seeder;

static bool out_of_time(const seeder *s)
{
    return s->failed || s->clock->now_us(s->clock) >= s->end_us;
}

static double run(seeder *s, const step_plan *plan, step_result *result)
{
    error err = {""};
    *result = (step_result){.tokens = s->sampled};
    uint64_t start_us = s->clock->now_us(s->clock);
    if (s->runner->ops->run(s->runner, plan, result, s->clock, &err))
        s->failed = true;
    return (double)(s->clock->now_us(s->clock) - start_us);
}

static bool open_slots(seeder *s, uint32_t count, uint32_t prompt_count)
{
    sequence_start start = {.params = &s->greedy, .tokens = s->tokens, .prompt_count = prompt_count, .measuring = true};
    for (uint32_t i = 0; i < count; i++)
        if (s->runner->ops->sequence_open(s->runner, i, &start)) {
            while (i > 0)
                s->runner->ops->sequence_close(s->runner, --i);
            return false;
        }
    return true;
}

static void close_slots(seeder *s, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        s->runner->ops->sequence_close(s->runner, i);
}

/* Time of a whole chunk of `count` tokens at `position`, from the part of it that fits the time; 0: none. */
static double chunk_us(seeder *s, uint32_t position, uint32_t count)
{
    step_plan plan = {.kind = STEP_PREFILL,
                      .chunk = {.pages = s->pages, .position = position, .tokens = s->tokens, .token_count = count},
                      .deadline_us = s->clock->now_us(s->clock) + SEED_RUN_MS * 1000};
    if (out_of_time(s) || !open_slots(s, 1, position + count + 1))
        return 0;
    step_result result;
    double us = run(s, &plan, &result), part = result.chunk_done ? 1 : result.chunk_part;
    uint64_t now_us = s->clock->now_us(s->clock);
    if (!s->failed && now_us >= plan.deadline_us && (double)(now_us - plan.deadline_us) < s->overrun_us)
        s->overrun_us = (double)(now_us - plan.deadline_us);
    close_slots(s, 1);
    return s->failed || part <= 0 ? 0 : us / part;
}

static double least_chunk_us(seeder *s, uint32_t position, uint32_t count)
{
    double least_us = 0;
    for (int i = 0; i < SEED_REPEATS; i++) {
        double us = chunk_us(s, position, count);
        if (us > 0 && (least_us == 0 || us < least_us))
            least_us = us;
    }
    return least_us;
}

/* Three chunks for three unknowns: a short one, a long one, and one far into a prompt. */
static void measure_prefill(seeder *s, uint32_t limit)
{
    step_model *m = s->model;
    uint32_t most = s->runner->info.max_chunk_tokens < limit / 2 ? s->runner->info.max_chunk_tokens : limit / 2;
    uint32_t count = most < SEED_CHUNK ? most : SEED_CHUNK, few = count / 16;
    uint32_t depth = SEED_DEPTH < limit - count - 1 ? SEED_DEPTH : limit - count - 1;
    chunk_us(s, 0, few); /* warms up */
    double few_us = least_chunk_us(s, 0, few), many_us = least_chunk_us(s, 0, count);
    double deep_us = least_chunk_us(s, depth, count);
    if (isfinite(s->overrun_us))
        step_model_saw_overrun(m, 2 * s->overrun_us); /* the least there was: the usual is about twice that */
    if (few_us <= 0 || many_us <= 0)
        return;
    double token_us = many_us > few_us ? (many_us - few_us) / (count - few) : many_us / count;
    double fixed_us = few_us - few * token_us, least_us = 0.02 * few_us;
    double deeper_us = (deep_us - many_us) / count / depth, barely_us = 1e-6 * token_us;
    step_model_set_prefill(m, fixed_us > least_us ? fixed_us : least_us, token_us,
                           deep_us > 0 && deeper_us > barely_us ? deeper_us : barely_us);
}

/* The first step warms up; of the others the fastest counts: what held the rest up was not this work. There is one at
 * least, but where the first takes for ever it has to do. */
static double measure_decode(seeder *s, uint32_t rows, uint32_t position)
{
    decode_row table[SEED_ROWS_MAX];
    double least_us = 0;
    for (uint32_t i = 0; i < rows; i++)
        table[i] = (decode_row){.seq = i, .pages = s->pages};
    step_plan plan = {.kind = STEP_DECODE, .rows = table, .row_count = rows};
    if (!open_slots(s, rows, position + 1))
        return 0;
    for (int i = 0; i <= SEED_REPEATS && (least_us == 0 ? !s->failed : !out_of_time(s)); i++) {
        step_result result;
        for (uint32_t k = 0; k < rows; k++)
            table[k].position = position + (uint32_t)i;
        double us = run(s, &plan, &result);
        bool counts = i > 0 || us > SEED_MS_MAX * 1000.0 / 2;
        if (counts && (least_us == 0 || us < least_us))
            least_us = us;
    }
    if (least_us > 0 && !s->failed)
        step_model_saw_decode(s->model, rows, (uint64_t)rows * (position + SEED_REPEATS), least_us);
    close_slots(s, rows);
    return least_us;
}

static void measure(seeder *s, uint32_t limit)
{
    uint32_t rows = s->runner->info.max_rows < SEED_ROWS_MAX ? s->runner->info.max_rows : SEED_ROWS_MAX;
    if (rows > s->runner->info.max_sequences)
        rows = s->runner->info.max_sequences;
    uint64_t start_us = s->clock->now_us(s->clock), end_us = start_us + SEED_MS * 1000ull;
    s->end_us = end_us;
    double slow_us = SEED_STEPS * measure_decode(s, 1, 0), most_us = SEED_MS_MAX * 1000.0;
    uint64_t slow_end_us = start_us + (uint64_t)(slow_us < most_us ? slow_us : most_us);
    s->end_us = end_us > slow_end_us ? end_us : slow_end_us;
    measure_prefill(s, limit);
    if (out_of_time(s))
        return;
    measure_decode(s, rows, 0);
    measure_decode(s, 1, SEED_DEPTH < limit / 2 ? SEED_DEPTH : limit / 2);
}

void step_model_seed(step_model *m, runner *r, hw_clock *clock)
{
    const runner_info *info = &r->info;
    uint64_t pool_tokens = (uint64_t)info->page_count * info->page_tokens;
    uint32_t limit = pool_tokens < info->context_length ? (uint32_t)pool_tokens : info->context_length;
    seeder s = {.model = m, .runner = r, .clock = clock, .overrun_us = INFINITY};
    s.greedy = (sampling_params){.top_p = 1, .typical_p = 1, .repetition_penalty = 1};
    uint32_t table = (limit + info->page_tokens - 1) / info->page_tokens;
    s.tokens = calloc((size_t)limit + 2, sizeof *s.tokens);
    s.pages = calloc((size_t)table + 1, sizeof *s.pages);
    s.sampled = calloc((size_t)info->max_rows + 1, sizeof *s.sampled);
    if (s.tokens && s.pages && s.sampled && limit >= 64) {
        for (uint32_t i = 0; i < table; i++)
            s.pages[i] = i % (info->page_count < SEED_PAGES ? info->page_count : SEED_PAGES);
        measure(&s, limit);
    }
    free(s.tokens);
    free(s.pages);
    free(s.sampled);
}
