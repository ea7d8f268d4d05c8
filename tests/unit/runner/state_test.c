/* tests/unit/runner/state_test.c: a hybrid model behind the runner contract: a slot's recurrent state is saved at a
 * token and put back into another slot, and the same tokens follow; bytes are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/model_runner.h"

enum { PROMPT = 90, DECODED = 20, VOCAB = 128, PAGES = 4, STATE_PAGES = 2 };

typedef struct {
    float logits[DECODED + 1][VOCAB]; /* of each sampled row, in order */
    uint32_t count;
} tape;

static void record(void *context, uint32_t seq, uint32_t position, const float *logits, uint32_t vocab)
{
    tape *t = context;
    (void)seq, (void)position;
    assert_int_equal(vocab, VOCAB);
    assert_true(t->count <= DECODED);
    memcpy(t->logits[t->count++], logits, sizeof t->logits[0]);
}

typedef struct {
    runner *r;
    hw_clock *clock;
    int32_t prompt[PROMPT];
    uint32_t pages[PAGES];
    sampling_params params;
    step_result result;
    sampled_token tokens[4];
} bench;

static void open_bench(bench *b, const char *name)
{
    error err = {0};
    char path[256], text[512];
    model_file *file = NULL;
    model_runner_config config = {.threads = 2, .sequences = 3, .kv_memory = 1 << 20, .chunk_tokens = 64};
    snprintf(path, sizeof path, "tests/numeric/vectors/%s", name);
    memset(b, 0, sizeof *b);
    if (model_file_open(&file, path, &err) || model_runner_open(&b->r, file, &config, text, sizeof text, &err))
        fail_msg("%s", err.text);
    model_file_close(file);
    b->clock = clock_real();
    b->params = (sampling_params){.top_p = 1, .typical_p = 1, .repetition_penalty = 1};
    b->result.tokens = b->tokens;
    for (uint32_t i = 0; i < PROMPT; i++)
        b->prompt[i] = (int32_t)(i * 37 % VOCAB);
    for (uint32_t i = 0; i < PAGES; i++)
        b->pages[i] = PAGES - 1 - i;
}

static void open_sequence(bench *b, uint32_t seq)
{
    sequence_start start = {.request_id = seq, .params = &b->params, .tokens = b->prompt, .prompt_count = PROMPT};
    assert_int_equal(b->r->ops->sequence_open(b->r, seq, &start), OK);
}

static void prefill(bench *b, uint32_t seq, uint32_t from, uint32_t count, bool sample)
{
    error err = {0};
    prefill_chunk chunk = {.seq = seq,
                           .pages = b->pages,
                           .position = from,
                           .tokens = b->prompt + from,
                           .token_count = count,
                           .sample = sample};
    step_plan plan = {.kind = STEP_PREFILL, .chunk = chunk};
    assert_int_equal(b->r->ops->run(b->r, &plan, &b->result, b->clock, &err), OK);
    assert_true(b->result.chunk_done);
}

static int32_t decode(bench *b, uint32_t seq, uint32_t position, int32_t token)
{
    error err = {0};
    decode_row row = {seq, b->pages, position, token};
    step_plan plan = {.kind = STEP_DECODE, .rows = &row, .row_count = 1};
    assert_int_equal(b->r->ops->run(b->r, &plan, &b->result, b->clock, &err), OK);
    return b->result.tokens[0].token;
}

static void a_saved_state_goes_on_in_another_slot(void **state)
{
    (void)state;
    enum { SAVE_AT = 64 };
    static tape first, second;
    bench b;
    open_bench(&b, "hybrid/qwen35moe.gguf");
    static const page_id saved[STATE_PAGES] = {9, 5};
    assert_int_equal(b.r->info.state_bytes,
                     2 * (3 * 128 + 4 * 16 * 16) * sizeof(float)); /* two layers: history, four heads */
    assert_int_equal(b.r->info.state_pages, STATE_PAGES);
    open_sequence(&b, 0);
    prefill(&b, 0, 0, SAVE_AT, false);
    assert_int_equal(b.r->ops->state_save(b.r, 0, saved), OK);
    model_runner_tap(b.r, record, &first);
    prefill(&b, 0, SAVE_AT, PROMPT - SAVE_AT, true);
    int32_t token = b.result.tokens[0].token;
    for (uint32_t i = 0; i < DECODED; i++)
        token = decode(&b, 0, PROMPT + i, token);
    b.r->ops->sequence_close(b.r, 0);

    open_sequence(&b, 2);
    assert_int_equal(b.r->ops->state_load(b.r, 2, saved), OK);
    model_runner_tap(b.r, record, &second);
    prefill(&b, 2, SAVE_AT, PROMPT - SAVE_AT, true);
    token = b.result.tokens[0].token;
    for (uint32_t i = 0; i < DECODED; i++)
        token = decode(&b, 2, PROMPT + i, token);
    assert_int_equal(first.count, DECODED + 1);
    assert_memory_equal(&first, &second, sizeof first);
    assert_int_equal(b.r->ops->state_save(b.r, 3, saved), ERR_INVALID); /* no such slot */
    assert_int_equal(b.r->ops->state_load(b.r, 2, (page_id[]){9, b.r->info.page_count}), ERR_INVALID);
    b.r->ops->close(b.r);
}

static void no_state_is_given_out_amid_a_chunk(void **state)
{
    (void)state;
    error err = {0};
    bench b;
    open_bench(&b, "hybrid/qwen35moe.gguf");
    static const page_id saved[STATE_PAGES] = {9, 5};
    open_sequence(&b, 1);
    step_plan plan = {.kind = STEP_PREFILL,
                      .deadline_us = 1,
                      .chunk = {.seq = 1, .pages = b.pages, .tokens = b.prompt, .token_count = 64}};
    assert_int_equal(b.r->ops->run(b.r, &plan, &b.result, b.clock, &err), OK);
    assert_false(b.result.chunk_done);
    assert_int_equal(b.r->ops->state_save(b.r, 1, saved), ERR_BUSY);
    assert_int_equal(b.r->ops->state_load(b.r, 1, saved), ERR_BUSY);
    b.r->ops->sequence_close(b.r, 1);
    assert_int_equal(b.r->ops->state_save(b.r, 1, saved), OK);
    b.r->ops->close(b.r);
}

static void a_decode_row_counts_what_it_reads(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "hybrid/qwen35moe.gguf");
    open_sequence(&b, 0);
    prefill(&b, 0, 0, 64, false);
    decode(&b, 0, 64, 5);
    assert_int_equal(b.result.weight_bytes, b.r->info.weight_bytes);
    /* two layers' state read and written; 65 tokens of the one layer with keys and values, as they are stored */
    assert_int_equal(b.result.kv_bytes, 2 * b.r->info.state_bytes + 65 * b.r->info.page_bytes / KV_PAGE_TOKENS);
    prefill(&b, 0, 65, 25, false);
    assert_true(b.result.weight_bytes > b.r->info.weight_bytes); /* more experts, no head: the experts weigh more */
    b.r->ops->close(b.r);
}

static void a_model_without_a_state_has_no_ops_for_it(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "arch/llama.gguf");
    assert_int_equal(b.r->info.state_bytes, 0);
    assert_int_equal(b.r->info.state_pages, 0);
    assert_null(b.r->ops->state_save);
    assert_null(b.r->ops->state_load);
    b.r->ops->close(b.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_state_goes_on_in_another_slot),
        cmocka_unit_test(no_state_is_given_out_amid_a_chunk),
        cmocka_unit_test(a_decode_row_counts_what_it_reads),
        cmocka_unit_test(a_model_without_a_state_has_no_ops_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
