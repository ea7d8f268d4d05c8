/* tests/unit/runner/restore_test.c: a sequence that begins with pages and a state of an earlier one has the logits of a
 * cold run, bit for bit. Random schedules: three sequences live several lives each beside one another, in chunks,
 * single rows and fused steps, with yields; states are taken amid chunks, at their ends and between rows; a life ends
 * at its last token or anywhere before, amid a chunk too. Then its pages and states are read out by the mover, their
 * memory is spoiled, and the next life begins with what was read, in other pages, part by part while it computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "runner/model_runner.h"

enum {
    SEQS = 3,
    TOKENS = 170,
    PAGES_EACH = (TOKENS + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS,
    REGION = 2 * PAGES_EACH, /* pages of a sequence: a life's and the next one's */
    LIVES = 3,
    POINTS = 6, /* states kept of a life */
    STATE_PAGES_MAX = 2,
    POOL = SEQS * (REGION + (POINTS + CAPTURES_MAX + 1) * STATE_PAGES_MAX),
    CHUNK_MAX = 96
};

typedef struct { /* the state after `position` tokens */
    uint32_t position;
    uint8_t *bytes[STATE_PAGES_MAX]; /* read out; owned */
    page_id pages[STATE_PAGES_MAX];
} point;

typedef struct {
    int32_t tokens[TOKENS];
    float *reference; /* (TOKENS, vocab) */
    uint32_t lives, done;
    bool open, chunk_open;
    prefill_chunk chunk;
    state_capture captures[CAPTURES_MAX];
    page_id capture_pages[CAPTURES_MAX][STATE_PAGES_MAX];
    page_id region[REGION], pages[PAGES_EACH], state_pages[POINTS + CAPTURES_MAX + 1][STATE_PAGES_MAX];
    point points[POINTS];
    uint32_t point_count;
    uint8_t *stored[PAGES_EACH]; /* the last life's pages, read out */
    uint32_t stored_tokens, restored_pages;
    _Atomic uint32_t ready; /* parts of them that are back */
} sequence;

typedef struct {
    runner *r;
    hw_clock *clock;
    rng random;
    uint32_t vocab;
    sequence seqs[SEQS];
    sampling_params params;
    step_result result;
    sampled_token sampled[SEQS + 1];
    uint64_t differing, compared;
    uint32_t restores, stalls, late, captured;
    bool leave_out_state, leave_out_part; /* of restores, on purpose */
} world;

static uint32_t below(world *w, uint32_t n)
{
    return (uint32_t)rng_below(&w->random, n);
}

/* ---- reference ---- */

static void compare(void *context, uint32_t seq, uint32_t position, const float *logits, uint32_t vocab)
{
    world *w = context;
    assert_true(position < TOKENS);
    w->compared++;
    w->differing += memcmp(w->seqs[seq].reference + (size_t)position * vocab, logits, vocab * sizeof *logits) != 0;
}

static void record(void *context, uint32_t seq, uint32_t position, const float *logits, uint32_t vocab)
{
    world *w = context;
    memcpy(w->seqs[seq].reference + (size_t)position * vocab, logits, vocab * sizeof *logits);
}

static void step(world *w, const step_plan *plan)
{
    error err = {0};
    w->result.tokens = w->sampled;
    if (w->r->ops->run(w->r, plan, &w->result, w->clock, &err))
        fail_msg("%s", err.text);
}

static void open_slot(world *w, uint32_t seq)
{
    sequence_start start = {.params = &w->params, .tokens = w->seqs[seq].tokens, .prompt_count = TOKENS};
    assert_int_equal(w->r->ops->sequence_open(w->r, seq, &start), OK);
}

/* Token by token from the first. */
static void cold_run(world *w, uint32_t seq)
{
    sequence *q = &w->seqs[seq];
    open_slot(w, seq);
    for (uint32_t i = 0; i < TOKENS; i++) {
        decode_row row = {seq, q->region, i, q->tokens[i]};
        step(w, &(step_plan){.kind = STEP_DECODE, .rows = &row, .row_count = 1});
    }
    w->r->ops->sequence_close(w->r, seq);
}

static void open_world(world *w, const char *name, uint32_t threads, bool references)
{
    error err = {0};
    char path[256], text[512];
    model_file *file = NULL;
    model_runner_config config = {
        .threads = threads, .sequences = SEQS, .kv_memory = 256 << 20, .context = 1024, .chunk_tokens = CHUNK_MAX};
    snprintf(path, sizeof path, "tests/numeric/vectors/%s", name);
    if (model_file_open(&file, path, &err) || model_runner_open(&w->r, file, &config, text, sizeof text, &err))
        fail_msg("%s", err.text);
    model_file_close(file);
    w->clock = clock_real();
    w->random = (rng){threads};
    w->params = (sampling_params){.top_p = 1, .typical_p = 1, .repetition_penalty = 1};
    w->vocab = w->r->info.vocab_size;
    assert_true(w->r->info.page_count >= POOL && w->r->info.state_pages <= STATE_PAGES_MAX);
    page_id next = 0;
    for (uint32_t s = 0; s < SEQS; s++) {
        sequence *q = &w->seqs[s];
        for (uint32_t i = 0; i < REGION; i++)
            q->region[i] = next++;
        for (uint32_t i = 0; i < (POINTS + CAPTURES_MAX + 1) * STATE_PAGES_MAX; i++)
            q->state_pages[i / STATE_PAGES_MAX][i % STATE_PAGES_MAX] = next++;
        if (!references)
            continue;
        q->reference = malloc((size_t)TOKENS * w->vocab * sizeof *q->reference);
        for (uint32_t i = 0; i < TOKENS; i++)
            q->tokens[i] = (int32_t)below(w, w->vocab);
        model_runner_tap(w->r, record, w);
        cold_run(w, s);
    }
    model_runner_tap(w->r, compare, w);
}

/* ---- pages out and in ---- */

static uint8_t *read_out(world *w, page_id page)
{
    page_mover *m = w->r->mover;
    uint8_t *bytes = malloc(m->parts * m->part_bytes);
    for (uint32_t p = 0; p < m->parts; p++) {
        m->ops->read(m, page, p, bytes + p * m->part_bytes);
        memset(m->ops->at(m, page, p), 0xff, m->part_bytes);
    }
    return bytes;
}

static void write_part(world *w, page_id page, uint32_t part, const uint8_t *bytes)
{
    page_mover *m = w->r->mover;
    m->ops->write(m, page, part, bytes + part * m->part_bytes);
}

static void forget_points(sequence *q)
{
    for (uint32_t i = 0; i < q->point_count; i++)
        for (uint32_t k = 0; k < STATE_PAGES_MAX; k++)
            free(q->points[i].bytes[k]);
    q->point_count = 0;
}

static void forget_pages(sequence *q)
{
    for (uint32_t i = 0; i < PAGES_EACH; i++) {
        free(q->stored[i]);
        q->stored[i] = NULL;
    }
}

/* Tokens [0, done) of this life, or of the one before where it did not come as far. */
static void end_life(world *w, uint32_t seq)
{
    sequence *q = &w->seqs[seq];
    w->r->ops->sequence_close(w->r, seq);
    forget_pages(q);
    for (uint32_t i = 0; i < PAGES_EACH; i++)
        q->stored[i] = read_out(w, q->pages[i]);
    for (uint32_t i = 0; i < q->point_count; i++)
        for (uint32_t k = 0; k < w->r->info.state_pages; k++)
            q->points[i].bytes[k] = read_out(w, q->points[i].pages[k]);
    q->stored_tokens = q->done;
    q->open = q->chunk_open = false;
    q->lives++;
}

static void shuffle(world *w, page_id *ids, uint32_t count)
{
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t j = below(w, i + 1);
        page_id t = ids[i];
        ids[i] = ids[j];
        ids[j] = t;
    }
}

/* Where the next life begins, with the state in place: 0 for a cold one. */
static uint32_t choose_start(world *w, uint32_t seq)
{
    sequence *q = &w->seqs[seq];
    if (q->lives == 0 || below(w, 8) == 0)
        return 0;
    if (!w->r->info.state_pages) {
        uint32_t most = q->stored_tokens < TOKENS ? q->stored_tokens : TOKENS - 1;
        uint32_t at = below(w, most + 1);
        return below(w, 2) ? at : at / KV_PAGE_TOKENS * KV_PAGE_TOKENS;
    }
    if (!q->point_count)
        return 0;
    const point *p = &q->points[below(w, q->point_count)];
    if (p->position >= TOKENS)
        return 0;
    page_id *pages = q->state_pages[POINTS + CAPTURES_MAX];
    for (uint32_t k = 0; k < w->r->info.state_pages; k++)
        for (uint32_t part = 0; part < w->r->mover->parts; part++)
            write_part(w, pages[k], part, p->bytes[k]);
    if (!w->leave_out_state)
        assert_int_equal(w->r->ops->state_load(w->r, seq, pages), OK);
    return p->position;
}

static void begin_life(world *w, uint32_t seq)
{
    sequence *q = &w->seqs[seq];
    open_slot(w, seq);
    shuffle(w, q->region, REGION);
    memcpy(q->pages, q->region, sizeof q->pages);
    q->open = true;
    q->done = choose_start(w, seq);
    q->restored_pages = (q->done + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
    w->restores += q->done > 0;
    forget_points(q);
    q->ready = q->done > 0 ? 0 : w->r->mover->parts;
}

/* The next part of all pages of what was restored. */
static void bring_part(world *w, sequence *q)
{
    for (uint32_t i = 0; i < q->restored_pages; i++)
        if (!w->leave_out_part || q->ready + 1 < w->r->mover->parts)
            write_part(w, q->pages[i], q->ready, q->stored[i]);
    atomic_store_explicit(&q->ready, q->ready + 1, memory_order_release);
}

/* ---- steps ---- */

static void keep_point(world *w, sequence *q, uint32_t position, const page_id *pages)
{
    if (q->point_count == POINTS)
        return;
    point *p = &q->points[q->point_count++];
    *p = (point){.position = position};
    memcpy(p->pages, pages, sizeof p->pages);
    w->captured++;
}

/* A chunk of any size, with captures anywhere in it, the last token among them. */
static void make_chunk(world *w, uint32_t seq)
{
    static const uint32_t sizes[] = {1, 2, 5, 17, 31, 32, 33, 50, 64, CHUNK_MAX};
    sequence *q = &w->seqs[seq];
    uint32_t n = sizes[below(w, sizeof sizes / sizeof *sizes)], left = TOKENS - q->done, count = 0;
    n = n < left ? n : left;
    uint32_t wanted = w->r->info.state_pages ? below(w, CAPTURES_MAX + 1) : 0, at = q->done;
    for (uint32_t i = 0; i < wanted && at < q->done + n; i++) {
        at += 1 + below(w, q->done + n - at);
        if (below(w, 5) == 0)
            at = q->done + n;
        for (uint32_t k = 0; k < STATE_PAGES_MAX; k++)
            q->capture_pages[i][k] = q->state_pages[(q->point_count + i) % (POINTS + CAPTURES_MAX)][k];
        q->captures[count++] = (state_capture){at, q->capture_pages[i]};
    }
    q->chunk = (prefill_chunk){.seq = seq,
                               .pages = q->pages,
                               .position = q->done,
                               .tokens = q->tokens + q->done,
                               .token_count = n,
                               .sample = below(w, 4) > 0,
                               .chunk_slot = seq,
                               .captures = q->captures,
                               .capture_count = count};
}

static void after_chunk(world *w, sequence *q)
{
    if (w->result.stalled) {
        assert_true(q->ready < w->r->mover->parts && !w->result.chunk_done);
        w->stalls++;
    }
    if (!w->result.chunk_done)
        return;
    q->chunk_open = false;
    q->done += q->chunk.token_count;
    for (uint32_t i = 0; i < q->chunk.capture_count; i++)
        keep_point(w, q, q->chunk.captures[i].position, q->chunk.captures[i].pages);
}

static uint32_t gather_rows(world *w, uint32_t but, decode_row *rows)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < SEQS; s++) {
        sequence *q = &w->seqs[s];
        if (s == but || !q->open || q->chunk_open || q->done == TOKENS || q->ready < w->r->mover->parts ||
            below(w, 3) == 0)
            continue;
        rows[n++] = (decode_row){s, q->pages, q->done, q->tokens[q->done]};
    }
    return n;
}

static void after_rows(world *w, const decode_row *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sequence *q = &w->seqs[rows[i].seq];
        q->done++;
        if (!w->r->info.state_pages || q->point_count == POINTS || below(w, 20))
            continue;
        assert_int_equal(w->r->ops->state_save(w->r, rows[i].seq, q->state_pages[q->point_count]), OK);
        keep_point(w, q, q->done, q->state_pages[q->point_count]);
    }
}

static void decode(world *w)
{
    decode_row rows[SEQS];
    for (uint32_t again = below(w, 8); again > 0; again--) {
        uint32_t count = gather_rows(w, SEQS, rows);
        if (!count)
            return;
        step(w, &(step_plan){.kind = STEP_DECODE, .rows = rows, .row_count = count});
        after_rows(w, rows, count);
    }
}

static void prefill(world *w, uint32_t seq)
{
    sequence *q = &w->seqs[seq];
    decode_row rows[SEQS];
    if (!q->chunk_open)
        make_chunk(w, seq);
    q->chunk.parts_ready = q->ready < w->r->mover->parts || q->chunk.parts_ready ? &q->ready : NULL;
    uint32_t count = q->chunk_open || below(w, 3) ? 0 : gather_rows(w, seq, rows);
    step_plan plan = {.kind = count ? STEP_FUSED : STEP_PREFILL, .rows = rows, .row_count = count, .chunk = q->chunk};
    plan.deadline_us = below(w, 2); /* 1 is long over */
    if (below(w, 4) == 0)
        w->r->ops->yield(w->r);
    step(w, &plan);
    if (!count)
        q->chunk_open = true;
    w->late += w->result.chunk_part > 0 && q->ready < w->r->mover->parts;
    after_chunk(w, q);
    after_rows(w, rows, count);
}

static void run_schedule(world *w)
{
    for (uint32_t s = 0; s < SEQS; s++)
        w->seqs[s].lives = 0;
    for (uint32_t living = SEQS; living > 0;) {
        uint32_t seq = below(w, SEQS);
        sequence *q = &w->seqs[seq];
        if (q->lives == LIVES)
            continue;
        if (!q->open)
            begin_life(w, seq);
        else if (q->ready < w->r->mover->parts && below(w, 2))
            bring_part(w, q);
        else if (q->done == TOKENS || (q->ready == w->r->mover->parts && below(w, 100) == 0))
            end_life(w, seq);
        else if (below(w, 3) == 0)
            decode(w);
        else
            prefill(w, seq);
        living -= q->lives == LIVES;
    }
}

static void close_world(world *w)
{
    w->r->ops->close(w->r);
    for (uint32_t s = 0; s < SEQS; s++) {
        forget_points(&w->seqs[s]);
        forget_pages(&w->seqs[s]);
    }
}

static void free_references(world *w)
{
    for (uint32_t s = 0; s < SEQS; s++)
        free(w->seqs[s].reference);
}

static uint32_t schedule_count(void)
{
    const char *text = getenv("HEADWAY_SCHEDULES");
    return text ? (uint32_t)strtoul(text, NULL, 10) : 240;
}

static void run_schedules(const char *name)
{
    static world w;
    uint32_t count = schedule_count();
    memset(&w, 0, sizeof w);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        open_world(&w, name, threads, threads == 1);
        for (uint32_t i = 0; i < count / 2; i++)
            run_schedule(&w);
        if (threads == 1)
            printf("%s: %u parts, %u pages a state\n", name, w.r->mover->parts, w.r->info.state_pages);
        close_world(&w);
    }
    printf("%s: %u schedules, %u restores, %u stalls, %u chunks begun before all was there, %u states taken; %llu of "
           "%llu rows differ\n",
           name, count / 2 * 2, w.restores, w.stalls, w.late, w.captured, (unsigned long long)w.differing,
           (unsigned long long)w.compared);
    assert_int_equal(w.differing, 0);
    assert_true(w.restores > count && w.compared > 50 * count);
    free_references(&w);
}

static void llama_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    run_schedules("arch/llama.gguf");
}

static void sliding_windows_go_on_with_the_same_bits(void **state)
{
    (void)state;
    run_schedules("arch/gemma3.gguf");
}

static void experts_and_states_go_on_with_the_same_bits(void **state)
{
    (void)state;
    run_schedules("hybrid/qwen35moe.gguf");
}

static void gated_experts_and_states_go_on_with_the_same_bits(void **state)
{
    (void)state;
    run_schedules("hybrid/qwen3next.gguf");
}

/* The schedules above would notice. */
static uint64_t differing_without(const char *name, bool state, bool part)
{
    static world w;
    memset(&w, 0, sizeof w);
    open_world(&w, name, 1, true);
    w.leave_out_state = state;
    w.leave_out_part = part;
    for (uint32_t i = 0; i < 4; i++)
        run_schedule(&w);
    close_world(&w);
    free_references(&w);
    return w.differing;
}

static void what_is_left_out_shows(void **state)
{
    (void)state;
    assert_true(differing_without("arch/llama.gguf", false, true) > 0);
    assert_true(differing_without("arch/gemma3.gguf", false, true) > 0);
    assert_true(differing_without("hybrid/qwen35moe.gguf", true, false) > 0);
    assert_true(differing_without("hybrid/qwen35moe.gguf", false, true) > 0);
    assert_int_equal(differing_without("hybrid/qwen35moe.gguf", false, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_goes_on_with_the_same_bits),
        cmocka_unit_test(sliding_windows_go_on_with_the_same_bits),
        cmocka_unit_test(experts_and_states_go_on_with_the_same_bits),
        cmocka_unit_test(gated_experts_and_states_go_on_with_the_same_bits),
        cmocka_unit_test(what_is_left_out_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
