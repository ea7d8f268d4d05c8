/* tests/unit/sim/restore_test.c: sequences of the sim runner that begin with pages and states of earlier ones say the
 * same as cold ones, say something else when a byte is not theirs, wait for parts that come late, and may not break the
 * contract of sched/runner.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "sim/sim_runner.h"

enum { PROMPT = 150, SAID = 24, TOKENS = PROMPT + SAID, TABLE = TOKENS, STATE_MAX = 32, COLD = 0, WARM = 1 };

typedef struct {
    runner *r;
    virtual_clock clock;
    sampling_params params;
    int32_t tokens[TOKENS + 1]; /* of the sequence in hand: the prompt and what is said */
    uint32_t pages[TABLE];
    step_result result;
    sampled_token sampled[4];
    error err;
} bench;

static void open_bench(bench *b, sim_config config)
{
    memset(b, 0, sizeof *b);
    config.page_count = 4 * TABLE;
    config.max_sequences = 4;
    config.block_tokens = 8;
    if (sim_runner_create(&b->r, &config, &b->err))
        fail_msg("%s", b->err.text);
    virtual_clock_init(&b->clock, 1000);
    b->result.tokens = b->sampled;
    for (uint32_t i = 0; i < PROMPT; i++)
        b->tokens[i] = (int32_t)(i * 89 % 251);
}

static void close_bench(bench *b)
{
    b->r->ops->close(b->r);
}

static void open_sequence(bench *b, uint32_t seq, uint32_t first_page)
{
    sequence_start start = {.params = &b->params, .tokens = b->tokens, .prompt_count = PROMPT};
    assert_int_equal(b->r->ops->sequence_open(b->r, seq, &start), OK);
    for (uint32_t i = 0; i < TABLE; i++)
        b->pages[i] = first_page + i;
}

static status run(bench *b, const step_plan *plan)
{
    return b->r->ops->run(b->r, plan, &b->result, &b->clock.base, &b->err);
}

static void expect_ok(bench *b, status st)
{
    if (st)
        fail_msg("%s", b->err.text);
}

static step_plan chunk_plan(bench *b, uint32_t seq, uint32_t from, uint32_t to)
{
    return (step_plan){.kind = STEP_PREFILL,
                       .chunk = {.seq = seq,
                                 .pages = b->pages,
                                 .position = from,
                                 .tokens = b->tokens + from,
                                 .token_count = to - from,
                                 .sample = to == PROMPT}};
}

/* Chunks of [from, PROMPT), each begun, yielded and gone on with; a capture, if any, is of the chunk that has it. */
static void read_prompt(bench *b, uint32_t seq, uint32_t from, uint32_t chunk, const state_capture *captures,
                        uint32_t count)
{
    for (uint32_t at = from; at < PROMPT; at += chunk) {
        uint32_t to = at + chunk < PROMPT ? at + chunk : PROMPT, first = 0, n = 0;
        step_plan plan = chunk_plan(b, seq, at, to);
        while (first < count && captures[first].position <= at)
            first++;
        while (first + n < count && captures[first + n].position <= to)
            n++;
        plan.chunk.captures = n ? captures + first : NULL;
        plan.chunk.capture_count = n;
        plan.deadline_us = 1; /* a block a run */
        do
            expect_ok(b, run(b, &plan));
        while (!b->result.chunk_done);
        assert_false(b->result.stalled);
    }
}

/* What follows the prompt; the prompt's last chunk was sampled. */
static void say(bench *b, uint32_t seq, char out[SAID + 1])
{
    for (uint32_t i = 0;; i++) {
        out[i] = (char)b->result.tokens[0].token;
        b->tokens[PROMPT + i] = b->result.tokens[0].token;
        if (i + 1 == SAID)
            break;
        decode_row row = {seq, b->pages, PROMPT + i, b->tokens[PROMPT + i]};
        expect_ok(b, run(b, &(step_plan){.kind = STEP_DECODE, .rows = &row, .row_count = 1}));
    }
    out[SAID] = '\0';
}

static void state_table(page_id *out)
{
    for (uint32_t i = 0; i < STATE_MAX; i++)
        out[i] = 3 * TABLE + i;
}

/* A whole page to another one, as a tier would. */
static void move_page(runner *r, page_id from, page_id to)
{
    uint8_t part[4096];
    assert_true(r->mover->part_bytes <= sizeof part);
    for (uint32_t p = 0; p < r->mover->parts; p++) {
        r->mover->ops->read(r->mover, from, p, part);
        assert_memory_equal(part, r->mover->ops->at(r->mover, from, p), r->mover->part_bytes);
        r->mover->ops->write(r->mover, to, p, part);
        memset(r->mover->ops->at(r->mover, from, p), 0xA5, r->mover->part_bytes);
    }
}

static void cold_text(sim_config config, char out[SAID + 1])
{
    bench b;
    open_bench(&b, config);
    open_sequence(&b, COLD, 0);
    read_prompt(&b, COLD, 0, 512, NULL, 0);
    say(&b, COLD, out);
    close_bench(&b);
}

/* A cold sequence, whose pages then move; a warm one begins at `at`. Returns what that one says. */
static void warm_text(sim_config config, uint32_t at, uint32_t cold_chunk, uint32_t warm_chunk, char out[SAID + 1])
{
    bench b;
    page_id states[STATE_MAX];
    char said[SAID + 1];
    open_bench(&b, config);
    state_table(states);
    bool stateful = b.r->info.state_pages > 0;
    open_sequence(&b, COLD, 0);
    read_prompt(&b, COLD, 0, cold_chunk, &(state_capture){at, states}, stateful);
    say(&b, COLD, said);
    b.r->ops->sequence_close(b.r, COLD);
    open_sequence(&b, WARM, TABLE);
    for (uint32_t i = 0; i < TABLE; i++)
        move_page(b.r, i, b.pages[i]);
    for (uint32_t i = 0; stateful && i < b.r->info.state_pages; i++)
        move_page(b.r, states[i], states[i] + STATE_MAX);
    for (uint32_t i = 0; i < STATE_MAX; i++)
        states[i] += STATE_MAX;
    if (stateful)
        assert_int_equal(b.r->ops->state_load(b.r, WARM, states), OK);
    read_prompt(&b, WARM, at, warm_chunk, NULL, 0);
    say(&b, WARM, out);
    close_bench(&b);
}

static void what_is_said_tells_nothing_of_layout_or_restores(void **state)
{
    (void)state;
    static const uint32_t page_tokens[] = {4, 8, 16}, parts[] = {1, 2, 6, 8};
    char cold[2][SAID + 1], text[SAID + 1];
    cold_text((sim_config){0}, cold[0]);
    cold_text((sim_config){.state_bytes = 1000}, cold[1]);
    assert_string_not_equal(cold[0], cold[1]);
    rng r = {7};
    for (uint32_t i = 0; i < 300; i++) {
        sim_config config = {.page_tokens = page_tokens[rng_below(&r, 3)], .parts = parts[rng_below(&r, 4)]};
        bool stateful = rng_below(&r, 2);
        config.state_bytes = stateful ? 1000 : 0;
        config.state_pages = stateful && rng_below(&r, 2) ? 2 + (uint32_t)rng_below(&r, 10) : 0;
        if (config.state_pages * config.page_tokens * config.parts < 8)
            config.state_pages = 0;
        uint32_t at = 1 + (uint32_t)rng_below(&r, PROMPT - 1);
        at = stateful ? at : at / config.page_tokens * config.page_tokens;
        warm_text(config, at, 1 + (uint32_t)rng_below(&r, 80), 1 + (uint32_t)rng_below(&r, 80), text);
        assert_string_equal(text, cold[stateful]);
    }
}

/* ---- what is not the sequence's ---- */

typedef enum { ANOTHERS, LOST, NEXT_PAGES, DAMAGES } damage;

/* Spoils part `part` of a restored page in one way and reads on at `at`. */
static void spoiled_text(const sim_config *config, uint32_t at, uint32_t page, uint32_t part, damage how,
                         char out[SAID + 1])
{
    bench b;
    page_id states[STATE_MAX];
    open_bench(&b, *config);
    state_table(states);
    open_sequence(&b, 2, 2 * TABLE); /* another prompt */
    for (uint32_t i = 0; i < 8; i++)
        b.tokens[i]++;
    read_prompt(&b, 2, 0, 512, NULL, 0);
    for (uint32_t i = 0; i < 8; i++)
        b.tokens[i]--;
    open_sequence(&b, COLD, 0);
    read_prompt(&b, COLD, 0, 512, &(state_capture){at, states}, b.r->info.state_pages > 0);
    page_mover *m = b.r->mover;
    uint8_t *place = m->ops->at(m, page, part);
    if (how == ANOTHERS)
        m->ops->read(m, 2 * TABLE + page, part, place);
    else if (how == NEXT_PAGES)
        m->ops->read(m, page + 1, part, place);
    else
        memset(place, 0, m->part_bytes);
    open_sequence(&b, WARM, 0);
    if (b.r->info.state_pages)
        assert_int_equal(b.r->ops->state_load(b.r, WARM, states), OK);
    read_prompt(&b, WARM, at, 512, NULL, 0);
    say(&b, WARM, out);
    close_bench(&b);
}

static void a_part_that_is_not_the_sequences_changes_the_text(void **state)
{
    (void)state;
    for (uint32_t stateful = 0; stateful < 2; stateful++) {
        sim_config config = {.page_tokens = 16, .parts = 3, .state_bytes = stateful * 500};
        uint32_t at = 112;
        char cold[SAID + 1], text[SAID + 1];
        cold_text(config, cold);
        for (uint32_t page = 0; page < at / 16; page++)
            for (uint32_t part = 0; part < 3; part++)
                for (damage how = 0; how < DAMAGES; how++) {
                    spoiled_text(&config, at, page, part, how, text);
                    assert_string_not_equal(text, cold);
                }
        spoiled_text(&config, at, at / 16 + 1, 0, LOST, text); /* computed anew anyway */
        assert_string_equal(text, cold);
    }
}

static void a_page_lost_while_it_is_used_changes_the_text(void **state)
{
    (void)state;
    char cold[SAID + 1], text[SAID + 1];
    cold_text((sim_config){0}, cold);
    for (uint32_t page = 0; page < PROMPT / 16; page++) {
        bench b;
        open_bench(&b, (sim_config){0});
        open_sequence(&b, COLD, 0);
        read_prompt(&b, COLD, 0, 512, NULL, 0);
        memset(b.r->mover->ops->at(b.r->mover, page, page % 2), 0, b.r->mover->part_bytes);
        say(&b, COLD, text);
        assert_string_not_equal(text, cold);
        close_bench(&b);
    }
}

static void a_changed_byte_of_a_state_is_noticed(void **state)
{
    (void)state;
    sim_config config = {.page_tokens = 4, .parts = 2, .state_bytes = 64, .state_pages = 2};
    char cold[SAID + 1], text[SAID + 1];
    cold_text(config, cold);
    uint32_t failed = 0;
    for (uint32_t byte = 0; byte < 2 * 4 * 2 * 8; byte++) {
        bench b;
        page_id states[2] = {3 * TABLE, 3 * TABLE + 1};
        open_bench(&b, config);
        open_sequence(&b, COLD, 0);
        read_prompt(&b, COLD, 0, 512, &(state_capture){96, states}, 1);
        uint8_t *place = b.r->mover->ops->at(b.r->mover, states[byte / 64], byte % 64 / 32);
        place[byte % 32] ^= 0x10;
        open_sequence(&b, WARM, 0);
        assert_int_equal(b.r->ops->state_load(b.r, WARM, states), OK);
        step_plan plan = chunk_plan(&b, WARM, 96, PROMPT);
        if (run(&b, &plan)) { /* its position */
            failed++;
        } else {
            say(&b, WARM, text);
            assert_string_not_equal(text, cold);
        }
        close_bench(&b);
    }
    assert_int_equal(failed, 4);
}

/* ---- parts that come late ---- */

static void late_parts_stall_the_chunk_and_change_nothing(void **state)
{
    (void)state;
    enum { AT = 96, PARTS = 3 };
    sim_config config = {.page_tokens = 16, .parts = PARTS};
    char cold[SAID + 1], text[SAID + 1];
    cold_text(config, cold);
    bench b;
    open_bench(&b, config);
    open_sequence(&b, COLD, 0);
    read_prompt(&b, COLD, 0, 512, NULL, 0);
    open_sequence(&b, WARM, TABLE);
    for (uint32_t i = AT / 16; i < TABLE; i++)
        b.pages[i] += TABLE; /* so that only restored pages lie there */
    _Atomic uint32_t ready = 0;
    step_plan plan = chunk_plan(&b, WARM, AT, PROMPT);
    plan.chunk.parts_ready = &ready;
    uint64_t start_us = b.clock.base.now_us(&b.clock.base);
    for (uint32_t part = 0; part <= PARTS; part++) {
        for (uint32_t again = 0; part < PARTS && again < 2; again++) {
            expect_ok(&b, run(&b, &plan));
            assert_true(b.result.stalled);
            assert_false(b.result.chunk_done);
            assert_float_equal(b.result.chunk_part, (double)part / PARTS, 1e-9);
        }
        for (uint32_t i = 0; part < PARTS && i < AT / 16; i++)
            memcpy(b.r->mover->ops->at(b.r->mover, TABLE + i, part), b.r->mover->ops->at(b.r->mover, i, part),
                   b.r->mover->part_bytes);
        ready = part + 1 < PARTS ? part + 1 : PARTS;
    }
    plan.chunk.parts_ready = NULL; /* all there: nobody has to say so any more */
    expect_ok(&b, run(&b, &plan));
    assert_true(b.result.chunk_done && !b.result.stalled);
    double spent_us = (double)(b.clock.base.now_us(&b.clock.base) - start_us);
    assert_float_equal(spent_us, (PROMPT - AT) * 1e6 / 20000, 10 * PARTS);
    say(&b, WARM, text);
    assert_string_equal(text, cold);
    close_bench(&b);
}

static void a_part_that_is_used_too_early_changes_the_text(void **state)
{
    (void)state;
    enum { AT = 96 };
    char cold[SAID + 1], text[SAID + 1];
    cold_text((sim_config){0}, cold);
    bench b;
    open_bench(&b, (sim_config){0});
    open_sequence(&b, WARM, TABLE);
    _Atomic uint32_t ready = 2; /* a lie */
    step_plan plan = chunk_plan(&b, WARM, AT, PROMPT);
    plan.chunk.parts_ready = &ready;
    expect_ok(&b, run(&b, &plan));
    assert_true(b.result.chunk_done);
    say(&b, WARM, text);
    assert_string_not_equal(text, cold);
    close_bench(&b);
}

static void a_fused_step_leaves_a_chunk_out_that_has_to_wait(void **state)
{
    (void)state;
    enum { AT = 96 };
    char cold[SAID + 1], text[SAID + 1];
    cold_text((sim_config){0}, cold);
    bench b;
    open_bench(&b, (sim_config){0});
    open_sequence(&b, COLD, 0);
    read_prompt(&b, COLD, 0, 512, NULL, 0);
    b.tokens[PROMPT] = b.result.tokens[0].token;
    open_sequence(&b, WARM, 0);
    for (uint32_t i = AT / 16; i < TABLE; i++)
        b.pages[i] += TABLE;
    uint32_t cold_pages[TABLE];
    for (uint32_t i = 0; i < TABLE; i++)
        cold_pages[i] = i;
    _Atomic uint32_t ready = 1;
    decode_row row = {COLD, cold_pages, PROMPT, b.tokens[PROMPT]};
    step_plan plan = chunk_plan(&b, WARM, AT, PROMPT);
    plan.kind = STEP_FUSED;
    plan.rows = &row;
    plan.row_count = 1;
    plan.chunk.parts_ready = &ready;
    expect_ok(&b, run(&b, &plan));
    assert_true(b.result.stalled && !b.result.chunk_done);
    assert_int_equal(b.result.token_count, 1);
    row.position++;
    row.token = b.tokens[PROMPT + 1] = b.result.tokens[0].token;
    ready = 2;
    expect_ok(&b, run(&b, &plan));
    assert_true(b.result.chunk_done && !b.result.stalled);
    assert_int_equal(b.result.token_count, 2);
    b.result.tokens[0] = b.result.tokens[1];
    say(&b, WARM, text);
    assert_string_equal(text, cold);
    close_bench(&b);
}

/* ---- the contract ---- */

static void expect_refused(bench *b, const step_plan *plan, const char *part_of_text)
{
    assert_int_equal(run(b, plan), ERR_INVALID);
    if (!strstr(b->err.text, part_of_text))
        fail_msg("\"%s\" does not say \"%s\"", b->err.text, part_of_text);
}

static void a_sequence_begins_only_where_it_can(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, (sim_config){.page_tokens = 16});
    open_sequence(&b, WARM, 0);
    step_plan plan = chunk_plan(&b, WARM, 17, PROMPT);
    expect_refused(&b, &plan, "begins at 17, pages have 16 tokens");
    plan = chunk_plan(&b, WARM, 16, PROMPT);
    plan.chunk.token_count++;
    expect_refused(&b, &plan, "has 150 to read");
    plan.chunk.token_count--;
    b.pages[0] = b.r->info.page_count;
    expect_refused(&b, &plan, "plan: page ");
    b.pages[0] = 0;
    plan.chunk.token_count = 16;
    plan.chunk.sample = false;
    expect_ok(&b, run(&b, &plan));
    plan = chunk_plan(&b, WARM, 48, PROMPT);
    expect_refused(&b, &plan, "chunk at 48, sequence 1 holds 32 tokens");
    close_bench(&b);

    open_bench(&b, (sim_config){.page_tokens = 16, .state_bytes = 100});
    page_id states[STATE_MAX];
    state_table(states);
    open_sequence(&b, COLD, 0);
    read_prompt(&b, COLD, 0, 512, &(state_capture){32, states}, 1);
    open_sequence(&b, WARM, 0);
    plan = chunk_plan(&b, WARM, 32, PROMPT);
    expect_refused(&b, &plan, "begins at 32 without a state");
    assert_int_equal(b.r->ops->state_load(b.r, WARM, states), OK);
    plan = chunk_plan(&b, WARM, 48, PROMPT);
    expect_refused(&b, &plan, "chunk at 48, sequence 1 holds 32 tokens");
    plan = chunk_plan(&b, WARM, 32, PROMPT);
    expect_ok(&b, run(&b, &plan));
    close_bench(&b);
}

static void captures_have_their_rules(void **state)
{
    (void)state;
    bench b;
    page_id one[STATE_MAX], other[STATE_MAX], used[STATE_MAX], none[STATE_MAX];
    state_table(one);
    for (uint32_t i = 0; i < STATE_MAX; i++) {
        other[i] = one[i] + STATE_MAX;
        used[i] = 1 + i;
        none[i] = 4 * TABLE;
    }
    open_bench(&b, (sim_config){0});
    open_sequence(&b, COLD, 0);
    step_plan plan = chunk_plan(&b, COLD, 0, 64);
    state_capture captures[CAPTURES_MAX + 1] = {{16, one}};
    plan.chunk.captures = captures;
    plan.chunk.capture_count = 1;
    expect_refused(&b, &plan, "1 captures of a chunk, at most 0");
    assert_null(b.r->ops->state_save);
    assert_null(b.r->ops->state_load);
    close_bench(&b);

    open_bench(&b, (sim_config){.page_tokens = 4, .state_bytes = 100, .state_pages = 2});
    open_sequence(&b, COLD, 0);
    plan.chunk.capture_count = CAPTURES_MAX + 1;
    expect_refused(&b, &plan, "9 captures of a chunk, at most 8");
    const state_capture wrong[][2] = {
        {{0, one}},               /* before the chunk */
        {{65, one}},              /* after it */
        {{32, one}, {32, other}}, /* not ascending */
        {{32, one}, {16, other}},
        {{32, used}},
        {{32, none}},
        {{16, one}, {32, one}},
    };
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        plan.chunk.captures = wrong[i];
        plan.chunk.capture_count = 1 + (wrong[i][1].pages != NULL);
        expect_refused(&b, &plan, "plan: capture at ");
    }
    captures[1] = (state_capture){64, other};
    plan.chunk.captures = captures;
    plan.chunk.capture_count = 2;
    plan.deadline_us = 1;
    expect_ok(&b, run(&b, &plan));
    assert_false(b.result.chunk_done);
    captures[1].position = 63;
    expect_refused(&b, &plan, "changed while it was open");
    captures[1] = (state_capture){64, one + 4};
    expect_refused(&b, &plan, "changed while it was open");
    captures[1] = (state_capture){64, other};
    _Atomic uint32_t ready = 2;
    plan.chunk.parts_ready = &ready;
    expect_refused(&b, &plan, "changed while it was open");
    plan.chunk.parts_ready = NULL;
    plan.kind = STEP_FUSED;
    expect_refused(&b, &plan, "a fused step with the unfinished chunk");
    plan.kind = STEP_PREFILL;
    plan.deadline_us = 0;
    expect_ok(&b, run(&b, &plan));
    assert_true(b.result.chunk_done);
    close_bench(&b);
}

static void a_state_is_out_of_reach_amid_a_chunk(void **state)
{
    (void)state;
    bench b;
    page_id pages[STATE_MAX], saved[STATE_MAX];
    open_bench(&b, (sim_config){.state_bytes = 100});
    state_table(pages);
    for (uint32_t i = 0; i < STATE_MAX; i++)
        saved[i] = pages[i] + STATE_MAX;
    assert_int_equal(b.r->ops->state_save(b.r, COLD, pages), ERR_INVALID); /* not open */
    open_sequence(&b, COLD, 0);
    step_plan plan = chunk_plan(&b, COLD, 0, 64);
    plan.chunk.captures = &(state_capture){64, pages};
    plan.chunk.capture_count = 1;
    plan.deadline_us = 1;
    expect_ok(&b, run(&b, &plan));
    assert_int_equal(b.r->ops->state_save(b.r, COLD, saved), ERR_BUSY);
    assert_int_equal(b.r->ops->state_load(b.r, COLD, saved), ERR_BUSY);
    open_sequence(&b, WARM, TABLE);
    step_plan same_slot = chunk_plan(&b, WARM, 0, 64);
    expect_refused(&b, &same_slot, "chunk slot 0 is taken");
    open_sequence(&b, 2, 0);
    plan.deadline_us = 0;
    expect_ok(&b, run(&b, &plan));
    assert_int_equal(b.r->ops->state_save(b.r, COLD, saved), OK);
    for (uint32_t part = 0; part < b.r->mover->parts; part++)
        assert_memory_equal(b.r->mover->ops->at(b.r->mover, pages[0], part),
                            b.r->mover->ops->at(b.r->mover, saved[0], part), b.r->mover->part_bytes);
    saved[0] = b.r->info.page_count;
    assert_int_equal(b.r->ops->state_load(b.r, COLD, saved), ERR_INVALID);
    close_bench(&b);
}

static void numbers_that_cannot_be_are_refused(void **state)
{
    (void)state;
    runner *r;
    error err = {""};
    assert_int_equal(sim_runner_open(&r, "sim:state_bytes=100,page_tokens=1,parts=2,state_pages=3", NULL, &err),
                     ERR_INVALID);
    assert_string_equal(err.text, "sim runner: a state needs 4 pages of 1 tokens");
    assert_int_equal(sim_runner_open(&r, "sim:parts=9", NULL, &err), ERR_INVALID);
    assert_int_equal(sim_runner_open(&r, "sim:state_bytes=100,page_tokens=1,parts=7,state_pages=5", NULL, &err), OK);
    assert_int_equal(r->info.state_pages, 5);
    assert_int_equal(r->info.state_bytes, 100);
    assert_int_equal(r->mover->parts, 7);
    assert_int_equal(r->mover->part_bytes, 8);
    uint64_t with = r->mover->fingerprint;
    r->ops->close(r);
    assert_int_equal(sim_runner_open(&r, "sim:page_tokens=1,parts=7", NULL, &err), OK);
    assert_int_equal(r->info.state_pages, 0);
    assert_true(with != r->mover->fingerprint);
    r->ops->close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_tells_nothing_of_layout_or_restores),
        cmocka_unit_test(a_part_that_is_not_the_sequences_changes_the_text),
        cmocka_unit_test(a_page_lost_while_it_is_used_changes_the_text),
        cmocka_unit_test(a_changed_byte_of_a_state_is_noticed),
        cmocka_unit_test(late_parts_stall_the_chunk_and_change_nothing),
        cmocka_unit_test(a_part_that_is_used_too_early_changes_the_text),
        cmocka_unit_test(a_fused_step_leaves_a_chunk_out_that_has_to_wait),
        cmocka_unit_test(a_sequence_begins_only_where_it_can),
        cmocka_unit_test(captures_have_their_rules),
        cmocka_unit_test(a_state_is_out_of_reach_amid_a_chunk),
        cmocka_unit_test(numbers_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
