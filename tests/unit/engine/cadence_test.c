/* tests/unit/engine/cadence_test.c: the promise on a virtual clock: bounds, shares, overtaking, fairness, no
 * starvation, for machines whose numbers are known exactly. */
#include "engine_fixture.h"

#include <stdio.h>

static const sim_config box = {.prefill_tokens_per_s = 2000,
                               .decode_base_us = 3300,
                               .decode_row_us = 500,
                               .block_tokens = 4,
                               .max_chunk_tokens = 2048,
                               .reply_tokens = 1000000,
                               .context_length = 8192,
                               .max_sequences = 16,
                               .kv_token_bytes = 100};

enum { MS = 1000 };

static void open_box(fixture *f, sim_config sim, engine_config config)
{
    fixture_open(f, sim, config);
}

static void run_for(fixture *f, uint64_t us)
{
    uint64_t end_us = f->clock.time_us + us;
    while (f->clock.time_us < end_us) {
        assert_true(engine_step(f->engine));
        fixture_take(f);
    }
}

static void run_until_finished(fixture *f, uint64_t id)
{
    while (!f->ledger[id].finished) {
        assert_true(engine_step(f->engine));
        fixture_take(f);
    }
}

static request *chat(uint64_t id, uint32_t prompt, uint32_t tokens)
{
    return fixture_long_request(id, prompt, tokens);
}

static uint64_t violations(fixture *f)
{
    engine_snapshot s = fixture_snapshot(f);
    uint64_t sum = 0;
    for (int i = 0; i < GAP_CAUSES; i++)
        sum += s.violations[i];
    return sum;
}

/* Longest gap of a chat while `documents` of 4,000 tokens are read; and the time that they took. */
static uint64_t gap_beside(const char *policy, schedule_settings schedule, uint32_t chats, uint32_t documents,
                           uint64_t *documents_us)
{
    fixture f;
    open_box(&f, box, (engine_config){.policy = policy, .schedule = schedule});
    for (uint32_t i = 0; i < chats; i++)
        fixture_submit(&f, chat(1 + i, 20, 4000));
    run_for(&f, 300 * MS);
    uint64_t start_us = f.clock.time_us;
    for (uint32_t i = 0; i < chats; i++)
        f.ledger[1 + i].longest_gap_us = 0;
    for (uint32_t i = 0; i < documents; i++)
        fixture_submit(&f, fixture_long_request(100 + i, 4000, 1));
    for (uint32_t i = 0; i < documents; i++)
        run_until_finished(&f, 100 + i);
    *documents_us = f.clock.time_us - start_us;
    uint64_t longest = 0;
    for (uint32_t i = 0; i < chats; i++) {
        assert_false(f.ledger[1 + i].finished);
        if (f.ledger[1 + i].longest_gap_us > longest)
            longest = f.ledger[1 + i].longest_gap_us;
    }
    fixture_close(&f);
    return longest;
}

static void a_gap_stays_under_its_bound_however_many_documents_wait(void **state)
{
    (void)state;
    schedule_settings schedule = {.gap_us = 50 * MS, .chat_share_set = true};
    uint64_t first_us, us;
    uint64_t incident = gap_beside("prefill-first", schedule, 1, 2, &first_us);
    assert_true(incident > 1000 * MS);
    assert_true(gap_beside("cadence", schedule, 1, 2, &us) <= 50 * MS);
    assert_true((double)us <= 1.12 * (double)first_us);
    assert_true(gap_beside("cadence", schedule, 1, 20, &us) <= 50 * MS);
    assert_true(gap_beside("cadence", schedule, 8, 3, &us) <= 50 * MS);
    schedule.gap_us = 25 * MS;
    assert_true(gap_beside("cadence", schedule, 1, 2, &us) <= 25 * MS);
    uint64_t window = gap_beside("gate", schedule, 1, 2, &us);
    assert_in_range(window, 1000 * MS, 1040 * MS); /* a chunk of 2,048 tokens takes 1,024 ms */
}

static void a_share_of_the_device_is_kept_for_streams(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        fixture f;
        double share = half ? 0.5 : 0.25;
        open_box(&f, box, (engine_config){.schedule = {.chat_share_set = true, .chat_share = share}});
        fixture_submit(&f, chat(1, 20, 4000));
        run_for(&f, 200 * MS);
        fixture_submit(&f, fixture_long_request(2, 8000, 1));
        uint32_t before = f.ledger[1].count;
        run_for(&f, 3000 * MS);
        double rate = (f.ledger[1].count - before) / 3.0, solo = 1e6 / 3800;
        assert_true(rate > 0.9 * share * solo && rate < 1.2 * share * solo);
        fixture_close(&f);
    }
}

static void documents_keep_their_rate_beside_chats_without_a_pause(void **state)
{
    (void)state;
    fixture f;
    open_box(&f, box, (engine_config){.schedule = {.gap_us = 50 * MS, .chat_share_set = true}});
    for (uint64_t i = 1; i <= 3; i++)
        fixture_submit(&f, chat(i, 20, 4000));
    run_for(&f, 100 * MS);
    uint64_t start_us = f.clock.time_us;
    fixture_submit(&f, fixture_long_request(10, 8000, 1));
    run_until_finished(&f, 10);
    assert_true((double)(f.clock.time_us - start_us) < 4000 * MS / 0.8);
    assert_int_equal(violations(&f), 0);
    fixture_close(&f);
}

static void a_short_prompt_overtakes_a_document_at_any_yield(void **state)
{
    (void)state;
    for (int streams = 0; streams < 3; streams++) {
        fixture f;
        open_box(&f, box, (engine_config){.schedule = {.gap_us = 50 * MS}});
        for (int i = 0; i < streams; i++)
            fixture_submit(&f, chat((uint64_t)(1 + i), 20, 4000));
        if (streams > 0)
            run_for(&f, 50 * MS);
        fixture_submit(&f, fixture_long_request(10, 8000, 1));
        fixture_submit(&f, fixture_long_request(11, 8000, 1));
        /* With nobody decoding the run goes on to the chunk's end, on this clock: nothing can arrive in it. */
        if (streams > 0)
            run_for(&f, 333 * MS);
        uint64_t start_us = f.clock.time_us;
        fixture_submit(&f, chat(20, 20, 100));
        while (f.ledger[20].count == 0)
            run_for(&f, 1);
        assert_true(f.ledger[20].first_us - start_us <= (streams > 0 ? 100 : 1100) * MS);
        fixture_close(&f);
    }
}

/* How long a prompt of 1,600 tokens, of which `known` were said before, waits for its first token beside documents and
 * a batch; a question that comes just behind it does not wait for it. */
static uint64_t turn_beside_documents(uint32_t known, uint32_t document_tokens)
{
    fixture f;
    open_box(&f, box, (engine_config){.schedule = {.gap_us = 50 * MS, .document_tokens = document_tokens}});
    request *first = chat(1, 1000, 4), *turn = chat(2, 1600, 4);
    for (uint32_t i = 0; i < turn->prompt_count; i++)
        turn->prompt[i] = i < known ? first->prompt[i] : (int32_t)(i * 7 % 100);
    fixture_submit(&f, first);
    run_until_finished(&f, 1);
    fixture_submit(&f, chat(3, 20, 4000));
    run_for(&f, 50 * MS);
    for (uint64_t i = 10; i < 13; i++)
        fixture_submit(&f, fixture_long_request(i, 8000, 1));
    for (uint64_t i = 20; i < 60; i++) { /* short, and more than there are slots for */
        request *batch = fixture_long_request(i, 300, 2000);
        batch->klass = CLASS_BATCH;
        fixture_submit(&f, batch);
    }
    run_for(&f, 333 * MS);
    uint64_t start_us = f.clock.time_us;
    fixture_submit(&f, turn);
    run_for(&f, 50 * MS);
    fixture_submit(&f, chat(4, 20, 4));
    run_until_finished(&f, 2);
    assert_true(f.ledger[4].first_us - start_us <= 150 * MS);
    assert_int_equal(violations(&f), 0);
    uint64_t us = f.ledger[2].first_us - start_us;
    fixture_close(&f);
    return us;
}

static void a_long_turn_does_not_wait_for_documents(void **state)
{
    (void)state;
    assert_true(turn_beside_documents(1000, 0) < 600 * MS); /* 600 tokens take 300 ms, three quarters of the time */
    assert_true(turn_beside_documents(500, 0) > 8000 * MS); /* mostly new: a document among documents */
    assert_true(turn_beside_documents(1000, 599) > 8000 * MS);
}

/* Steps as the trace has them. */
static uint32_t read_steps(fixture *f, trace_record *steps, uint32_t max)
{
    static trace_record records[TRACE_COPY_MAX];
    uint64_t cursor = 0, lost;
    size_t count;
    uint32_t kept = 0;
    while ((count = engine_read_trace(f->engine, &cursor, records, TRACE_COPY_MAX, &lost)) > 0)
        for (size_t i = 0; i < count; i++)
            if (records[i].kind <= TRACE_FUSED && kept < max)
                steps[kept++] = records[i];
    return kept;
}

static void without_a_chat_the_steps_are_those_of_prefill_first(void **state)
{
    (void)state;
    static trace_record steps[2][256];
    uint32_t counts[2];
    for (int cadence = 0; cadence < 2; cadence++) {
        fixture f;
        open_box(&f, box, (engine_config){.policy = cadence ? "cadence" : "prefill-first"});
        for (uint64_t i = 0; i < 5; i++)
            fixture_submit(&f, fixture_long_request(i, 3000 + (uint32_t)i * 1000, 1));
        fixture_run(&f);
        counts[cadence] = read_steps(&f, steps[cadence], 256);
        fixture_close(&f);
    }
    assert_int_equal(counts[0], counts[1]);
    for (uint32_t i = 0; i < counts[0]; i++) {
        assert_int_equal(steps[0][i].kind, steps[1][i].kind);
        assert_int_equal(steps[0][i].tokens, steps[1][i].tokens);
        assert_int_equal(steps[0][i].position, steps[1][i].position);
        assert_int_equal(steps[0][i].request_id, steps[1][i].request_id);
    }
}

static tenant_table two_tenants(double first, double second, request_class klass)
{
    tenant_table table = {.count = 3};
    const char *const names[] = {"default", "first", "second"};
    const double weights[] = {1, first, second};
    for (int i = 0; i < 3; i++) {
        snprintf(table.tenants[i].name, sizeof table.tenants[i].name, "%s", names[i]);
        table.tenants[i].weight = weights[i];
        table.tenants[i].klass = klass;
    }
    return table;
}

static void backlogged_tenants_share_the_device_by_weight(void **state)
{
    (void)state;
    for (int chats = 0; chats < 2; chats++) {
        fixture f;
        tenant_table table = two_tenants(2, 1, CLASS_BATCH);
        open_box(&f, box, (engine_config){.tenants = &table});
        uint64_t id = 1;
        if (chats)
            fixture_submit(&f, chat(id++, 20, 8000));
        for (int i = 0; i < 40; i++)
            for (uint32_t t = 1; t <= 2; t++) {
                request *r = fixture_long_request(id++, 3000 + (uint32_t)(i * 97 % 1000), 20);
                r->tenant = t;
                r->klass = CLASS_BATCH;
                fixture_submit(&f, r);
            }
        uint64_t start_us = f.clock.time_us;
        run_for(&f, 60000 * MS);
        tenant_counts counts[3];
        engine_read_tenants(f.engine, counts, 3);
        double ratio = (double)counts[1].device_us / (double)counts[2].device_us;
        assert_true(ratio > 1.9 && ratio < 2.1);
        engine_snapshot s = fixture_snapshot(&f); /* no step is idle: all the time was in steps */
        assert_true(s.busy_us >= f.clock.time_us - start_us - 1000);
        fixture_close(&f);
    }
}

/* Four requests of each tenant at a time, a new one for each that ends. */
static void closed_loops_share_by_weight_too(void **state)
{
    (void)state;
    for (int batch = 0; batch < 2; batch++) {
        fixture f;
        tenant_table table = two_tenants(2, 1, batch ? CLASS_BATCH : CLASS_INTERACTIVE);
        open_box(&f, box, (engine_config){.tenants = &table});
        uint64_t id = 1, first_us = 0;
        uint32_t live[3] = {0};
        tenant_counts before[3] = {0}, after[3];
        static uint8_t owner[LEDGER_MAX], over[LEDGER_MAX];
        memset(over, 0, sizeof over);
        while (f.clock.time_us < first_us + 60000 * MS || first_us == 0) {
            for (uint32_t t = 1; t <= 2; t++)
                for (; live[t] < 4; live[t]++) {
                    request *r = fixture_long_request(id, 1000 + (uint32_t)(id * 977 % 3000), 8);
                    r->tenant = t;
                    r->klass = table.tenants[t].klass;
                    owner[id++] = (uint8_t)t;
                    fixture_submit(&f, r);
                }
            engine_step(f.engine);
            fixture_take(&f);
            for (uint64_t i = 1; i < id; i++)
                if (f.ledger[i].finished && !over[i]) {
                    over[i] = 1;
                    live[owner[i]]--;
                }
            if (first_us == 0 && f.clock.time_us > 6000 * MS) {
                first_us = f.clock.time_us;
                engine_read_tenants(f.engine, before, 3);
            }
        }
        engine_read_tenants(f.engine, after, 3);
        double ratio =
            (double)(after[1].device_us - before[1].device_us) / (double)(after[2].device_us - before[2].device_us);
        assert_true(ratio > 1.9 && ratio < 2.1);
        fixture_close(&f);
    }
}

static void nobody_starves(void **state)
{
    (void)state;
    fixture f;
    tenant_table table = two_tenants(1, 1, CLASS_INTERACTIVE);
    open_box(&f, box, (engine_config){.tenants = &table, .max_queued = 2000});
    for (uint64_t i = 0; i < 1000; i++) { /* a thousand documents, then chats */
        request *r = fixture_long_request(1000 + i, 4000, 4);
        r->tenant = 1;
        fixture_submit(&f, r);
    }
    run_for(&f, 100 * MS);
    for (uint64_t i = 0; i < 8; i++) {
        fixture_submit(&f, chat(1 + i, 30, 50));
        run_for(&f, 50 * MS);
    }
    run_for(&f, 5000 * MS);
    for (uint64_t i = 0; i < 8; i++)
        assert_true(f.ledger[1 + i].finished);
    fixture_close(&f);

    open_box(&f, box, (engine_config){.tenants = &table}); /* chats without end, then a document */
    uint64_t id = 1;
    fixture_submit(&f, fixture_long_request(0, 4000, 4));
    for (int turns = 0; turns < 400000 && !f.ledger[0].finished; turns++) {
        engine_snapshot s = fixture_snapshot(&f);
        if (s.running + s.waiting < 50 && id < LEDGER_MAX)
            fixture_submit(&f, chat(id++, 60, 20));
        engine_step(f.engine);
        fixture_take(&f);
    }
    assert_true(f.ledger[0].finished);
    assert_true(id < LEDGER_MAX); /* while the chats kept coming */
    fixture_close(&f);
}

static void batch_rows_join_only_steps_with_slack(void **state)
{
    (void)state;
    fixture f;
    sim_config sim = box;
    sim.decode_row_us = 4000; /* a row is dear */
    open_box(&f, sim, (engine_config){0});
    for (uint64_t i = 0; i < 4; i++) {
        request *r = chat(10 + i, 300, 2000);
        r->klass = CLASS_BATCH;
        fixture_submit(&f, r);
    }
    run_for(&f, 2000 * MS);
    fixture_submit(&f, chat(1, 20, 300));
    uint32_t before = f.ledger[10].count;
    run_until_finished(&f, 1);
    static trace_record records[TRACE_COPY_MAX];
    uint64_t cursor = 0, lost;
    uint32_t solo = 0, joined = 0;
    size_t count;
    while ((count = engine_read_trace(f.engine, &cursor, records, TRACE_COPY_MAX, &lost)) > 0)
        for (size_t i = 0; i < count; i++)
            if (records[i].kind == TRACE_TOKEN && records[i].request_id == 1 && records[i].duration_us > 0)
                *(records[i].duration_us <= 7300 * 5 / 4 ? &solo : &joined) += 1;
    assert_true(solo > joined);
    assert_true(f.ledger[10].count > before + 20);
    assert_true(f.ledger[1].longest_gap_us <= 50 * MS);
    fixture_close(&f);
}

static void a_bound_that_cannot_be_kept_is_refused_by_name(void **state)
{
    (void)state;
    fixture f = {0};
    virtual_clock_init(&f.clock, 1000000);
    assert_int_equal(sim_runner_create(&f.runner, &box, NULL), OK);
    engine_config config = {.clock = &f.clock.base, .schedule.gap_us = 3 * MS};
    error err = {""};
    assert_int_equal(engine_create(&f.engine, f.runner, &config, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, "the smallest bound is"));
    config.schedule.gap_us = 0;
    assert_int_equal(engine_create(&f.engine, f.runner, &config, &err), OK);
    admission_answer answer = engine_admit(f.engine, &(admission_ask){.gap_us = 3 * MS, .prompt_tokens = 10});
    assert_int_equal(answer.verdict, ADMIT_GAP);
    assert_true(answer.smallest_gap_us > 3 * MS);
    answer = engine_admit(f.engine, &(admission_ask){.prompt_tokens = 4000, .first_token_us = 1000 * MS});
    assert_int_equal(answer.verdict, ADMIT_FIRST_TOKEN);
    assert_true(answer.document);
    answer = engine_admit(f.engine, &(admission_ask){.prompt_tokens = 4000, .first_token_us = 2300 * MS});
    assert_int_equal(answer.verdict, ADMIT_OK);
    engine_destroy(f.engine);
    f.runner->ops->close(f.runner);
}

static void pages_are_taken_from_batch_before_interactive(void **state)
{
    (void)state;
    fixture f;
    sim_config sim = box;
    sim.page_tokens = 16;
    sim.page_count = 100;
    open_box(&f, sim, (engine_config){0});
    for (uint64_t i = 0; i < 3; i++) {
        request *r = chat(10 + i, 300, 600);
        r->klass = CLASS_BATCH;
        fixture_submit(&f, r);
    }
    run_for(&f, 1000 * MS);
    for (uint64_t i = 0; i < 2; i++)
        fixture_submit(&f, chat(1 + i, 300, 400));
    for (uint64_t i = 0; i < 2; i++) {
        run_until_finished(&f, 1 + i);
        assert_int_equal(f.ledger[1 + i].count, 400);
        assert_true(f.ledger[1 + i].longest_gap_us <= 50 * MS);
    }
    assert_true(fixture_snapshot(&f).preemptions > 0);
    fixture_run(&f);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(f.ledger[10 + i].count, 600);
    fixture_expect_no_leak(&f);
    fixture_close(&f);
}

static void the_model_learns_the_box(void **state)
{
    (void)state;
    fixture f;
    open_box(&f, box, (engine_config){0});
    for (uint64_t i = 0; i < 12; i++)
        fixture_submit(&f, chat(i, 20 + (uint32_t)i * 300, 300));
    fixture_run(&f);
    step_model model = engine_step_model(f.engine);
    for (int kind = 0; kind < MODEL_FUSED; kind++) {
        model_error_summary summary = step_model_error(&model, (model_kind)kind);
        assert_true(summary.count > 0 && summary.median_abs < 0.1 && summary.under_p95 < 0.25);
    }
    double us = step_model_decode_us(&model, 8, 0);
    assert_true(us > 6600 && us < 8000);
    us = step_model_prefill_us(&model, 0, 2000);
    assert_true(us > 900 * MS && us < 1100 * MS);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_stays_under_its_bound_however_many_documents_wait),
        cmocka_unit_test(a_share_of_the_device_is_kept_for_streams),
        cmocka_unit_test(documents_keep_their_rate_beside_chats_without_a_pause),
        cmocka_unit_test(a_short_prompt_overtakes_a_document_at_any_yield),
        cmocka_unit_test(a_long_turn_does_not_wait_for_documents),
        cmocka_unit_test(without_a_chat_the_steps_are_those_of_prefill_first),
        cmocka_unit_test(backlogged_tenants_share_the_device_by_weight),
        cmocka_unit_test(closed_loops_share_by_weight_too),
        cmocka_unit_test(nobody_starves),
        cmocka_unit_test(batch_rows_join_only_steps_with_slack),
        cmocka_unit_test(a_bound_that_cannot_be_kept_is_refused_by_name),
        cmocka_unit_test(pages_are_taken_from_batch_before_interactive),
        cmocka_unit_test(the_model_learns_the_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
