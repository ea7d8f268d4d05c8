/* tests/unit/sim/world_test.c: the answers of a made-up box that are known by hand: a step of 10 ms, a prompt of 1 ms a
 * token. Whatever is asked of whatever boxes, no request is lost and no token comes out of order. */
#include "sim/world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "load/beside.h"

enum { MS = 1000, STEP_US = 10 * MS, TOKEN_US = 1 * MS, KV_BYTES = 1000 };

typedef struct {
    sim_costs costs;
    world_config config;
    workload work;
    load_plan plan;
    load_samples samples;
    load_span spans[PHASES_MAX];
    load_summary summary;
    world_report report;
    error err;
} fixture;

static fixture *fixture_open(void)
{
    fixture *f = calloc(1, sizeof *f);
    f->costs = (sim_costs){.rows = {{1, STEP_US}, {64, STEP_US}},
                           .row_count = 2,
                           .chunks = {{1, TOKEN_US}, {4096, 4096.0 * TOKEN_US}},
                           .chunk_count = 2,
                           .units = 4096,
                           .kv_token_bytes = KV_BYTES};
    f->config = (world_config){.policy = "prefill-first"};
    f->config.runner = (sim_config){.costs = &f->costs,
                                    .light = true,
                                    .reply_tokens = UINT32_MAX,
                                    .page_tokens = 16,
                                    .page_count = 40000,
                                    .max_sequences = 64,
                                    .max_rows = 64,
                                    .max_chunk_tokens = 4096,
                                    .context_length = 16384,
                                    .kv_token_bytes = KV_BYTES};
    f->work = (workload){.seed = 7, .scale = 1};
    return f;
}

static void fixture_close(fixture *f)
{
    samples_free(&f->samples);
    free(f);
}

/* Plays the plan; the world is gone afterwards. */
static status fixture_play(fixture *f)
{
    world *w = NULL;
    samples_free(&f->samples);
    f->config.runner.costs = &f->costs;
    status st = world_create(&w, &f->config, &f->err);
    if (st)
        return st;
    const replay_config config = {.work = &f->work,
                                  .plan = &f->plan,
                                  .transport = world_transport(w),
                                  .clock = world_clock(w),
                                  .tick_us = 3600000000u};
    st = replay_run(&config, &f->samples, f->spans, &f->err);
    world_read_report(w, &f->report);
    world_destroy(w);
    const load_bounds bounds = {100, 1000};
    return st ? st : summary_build(&f->summary, &f->samples, &f->plan, f->spans, &bounds, &f->err);
}

static void fixture_must_play(fixture *f)
{
    if (fixture_play(f))
        fail_msg("%s", f->err.text);
}

static load_plan one_group(load_role role, uint32_t concurrency, double rate, uint32_t requests)
{
    load_plan plan = {.phase_count = 1};
    plan.phases[0] = (load_phase){.name = "all", .group_count = 1};
    plan.phases[0].groups[0] = (load_group){role, concurrency, rate, requests, 0};
    return plan;
}

/* What must hold of every run: each request has ended, and each answer is whole and in order. */
static void check_samples(const fixture *f, uint32_t wanted)
{
    uint64_t tokens = 0, last_us = 0;
    assert_int_equal(f->samples.count, wanted);
    for (uint32_t i = 0; i < f->samples.count; i++) {
        const load_sample *s = &f->samples.items[i];
        assert_int_equal(s->outcome, LOAD_DONE);
        assert_int_equal(s->mark_count, s->wanted_output);
        assert_int_equal(s->usage.completion_tokens, s->wanted_output);
        assert_int_equal(s->usage.prompt_tokens, s->wanted_prompt);
        assert_true(s->marks[0].at_us > s->intended_us);
        for (uint32_t k = 1; k < s->mark_count; k++)
            assert_true(s->marks[k].at_us > s->marks[k - 1].at_us);
        assert_true(s->end_us >= s->marks[s->mark_count - 1].at_us);
        tokens += s->mark_count;
        last_us = s->end_us > last_us ? s->end_us : last_us;
    }
    /* The run is over when nobody has anything left to do, but for turns that are due and not sent any more. */
    assert_true(f->spans[0].end_us >= last_us && f->spans[0].end_us <= last_us + 2000 * MS);
    uint64_t generated = 0;
    for (uint32_t i = 0; i < f->report.box_count; i++)
        generated += f->report.boxes[i].generated_tokens;
    assert_int_equal(generated, tokens);
}

static void a_request_alone_takes_what_its_steps_take(void **state)
{
    (void)state;
    fixture *f = fixture_open();
    f->costs.request_us = 5 * MS;
    f->work.sizes = (workload_sizes){.document_tokens = 1000, .document_output = 21};
    f->plan = one_group(LOAD_DOCUMENTS, 1, 0, 3);
    fixture_must_play(f);
    check_samples(f, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const load_sample *s = &f->samples.items[i];
        assert_int_equal(s->marks[0].at_us - s->intended_us, 5 * MS + 1000 * TOKEN_US);
        assert_int_equal(s->marks[20].at_us - s->marks[0].at_us, 20 * STEP_US);
    }
    assert_int_equal(f->samples.items[1].intended_us, f->samples.items[0].end_us);
    assert_int_equal(f->report.boxes[0].busy_us, 3 * (1000 * TOKEN_US + 20 * STEP_US));
    assert_int_equal(f->report.now_us - f->report.start_us, 3 * (5 * MS + 1000 * TOKEN_US + 20 * STEP_US));
    fixture_close(f);
}

/* Poisson arrivals, one after another, a second each: the mean wait is r / (2 (1 - r)) seconds. */
static void a_queue_waits_as_long_as_theory_says(void **state)
{
    const double loads[] = {0.3, 0.6, 0.8};
    (void)state;
    fixture *f = fixture_open();
    f->work.sizes = (workload_sizes){.document_tokens = 1000, .document_output = 1};
    for (size_t i = 0; i < 3; i++) {
        const uint32_t requests = 6000;
        double wait = 0, load = loads[i];
        f->plan = one_group(LOAD_DOCUMENTS, 0, load, requests);
        fixture_must_play(f);
        check_samples(f, requests);
        for (uint32_t k = 0; k < requests; k++)
            wait += (double)(f->samples.items[k].marks[0].at_us - f->samples.items[k].intended_us) / 1e6 - 1;
        wait /= requests;
        double seconds = (double)(f->report.now_us - f->report.start_us) / 1e6;
        assert_int_equal(f->report.boxes[0].busy_us, requests * 1000000ull); /* work is conserved, to the microsecond */
        assert_true(fabs((double)requests / seconds / load - 1) < 0.04);
        if (fabs(wait / (load / 2 / (1 - load)) - 1) > 0.12)
            fail_msg("load %g: mean wait %g s, theory %g s", load, wait, load / 2 / (1 - load));
    }
    fixture_close(f);
}

static void replicas_share_the_load(void **state)
{
    (void)state;
    fixture *f = fixture_open();
    f->work.sizes = (workload_sizes){.document_tokens = 1000, .document_output = 1};
    f->config.boxes = 4;
    for (int route = 0; route < ROUTES; route++) {
        f->config.route = (world_route)route;
        f->plan = one_group(LOAD_DOCUMENTS, 8, 0, 80);
        fixture_must_play(f);
        check_samples(f, 80);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(f->report.boxes[i].requests, 20);
            assert_int_equal(f->report.boxes[i].busy_us, 20000000);
        }
        assert_int_equal(f->report.now_us - f->report.start_us, 20000000); /* side by side, none ever idle */
    }
    fixture_close(f);
}

static uint64_t cached_tokens(const fixture *f)
{
    uint64_t cached = 0;
    for (uint32_t i = 0; i < f->samples.count; i++)
        cached += f->samples.items[i].usage.cached_tokens;
    return cached;
}

static void a_session_finds_its_prefix_where_it_was(void **state)
{
    (void)state;
    fixture *f = fixture_open();
    uint64_t cached[ROUTES], all = 0;
    f->config.boxes = 4;
    for (int route = 0; route < ROUTES; route++) {
        f->config.route = (world_route)route;
        f->plan = one_group(LOAD_AGENTS, 8, 0, 200);
        fixture_must_play(f);
        check_samples(f, 200);
        cached[route] = cached_tokens(f);
        all += cached[route];
        for (uint32_t i = 0; i < f->samples.count && route == ROUTE_PREFIX; i++) {
            const load_sample *s = &f->samples.items[i];
            for (uint32_t k = 0; k < i && s->turn; k++) { /* all but the pages at the ends of prompt and answer */
                const load_sample *before = &f->samples.items[k];
                if (before->session == s->session && before->turn + 1 == s->turn)
                    assert_true(s->usage.cached_tokens + 48 > before->wanted_prompt + before->wanted_output);
            }
        }
    }
    assert_true(all > 0 && cached[ROUTE_PREFIX] > cached[ROUTE_ROUND_ROBIN] * 11 / 10);
    f->config.cache_off = true;
    fixture_must_play(f);
    assert_int_equal(cached_tokens(f), 0);
    fixture_close(f);
}

static void a_split_hands_over_the_exact_bytes(void **state)
{
    (void)state;
    fixture *f = fixture_open();
    const double link = 1e6; /* bytes a second: a token's KV takes a millisecond */
    f->costs.state_bytes = 64000;
    f->config.runner.state_bytes = 64000;
    f->config.runner.state_pages = 4;
    f->config.decode_boxes = 1;
    f->config.link_bytes_s = link;
    f->work.sizes = (workload_sizes){.document_tokens = 500, .document_output = 11};
    f->plan = one_group(LOAD_DOCUMENTS, 1, 0, 5);
    fixture_must_play(f);
    check_samples(f, 5);
    assert_int_equal(f->report.link_transfers, 5);
    assert_int_equal(f->report.link_bytes, 5 * (500 * KV_BYTES + 64000));
    assert_int_equal(f->report.link_worst_us, 564 * MS);
    assert_int_equal(f->report.link_busy_us, 5 * 564 * MS);
    for (uint32_t i = 0; i < 5; i++) {
        const load_sample *s = &f->samples.items[i];
        assert_int_equal(s->marks[0].at_us - s->intended_us, 500 * TOKEN_US);
        assert_int_equal(s->marks[1].at_us - s->marks[0].at_us, 564 * MS + STEP_US);
        assert_int_equal(s->marks[10].at_us - s->marks[1].at_us, 9 * STEP_US);
    }
    assert_false(f->report.boxes[0].decodes);
    assert_int_equal(f->report.boxes[0].busy_us, 5 * 500 * TOKEN_US);
    assert_int_equal(f->report.boxes[1].busy_us, 5 * 10 * STEP_US);
    /* Two at once share the link of their box. */
    f->plan = one_group(LOAD_DOCUMENTS, 2, 0, 6);
    f->config.link_bytes_s = link / 4;
    fixture_must_play(f);
    check_samples(f, 6);
    assert_int_equal(f->report.link_worst_us, 2 * 4 * 564 * MS - 500 * TOKEN_US);
    /* An answer of one token crosses nothing. */
    f->work.sizes.document_output = 1;
    fixture_must_play(f);
    check_samples(f, 6);
    assert_int_equal(f->report.link_transfers, 0);
    fixture_close(f);
}

static void no_request_is_lost_on_any_boxes(void **state)
{
    static const char *const policies[] = {"prefill-first", "decode-first", "chunked", "gate", "cadence"};
    (void)state;
    rng r = {2026};
    for (int i = 0; i < 60; i++) {
        fixture *f = fixture_open();
        f->config.policy = policies[rng_below(&r, 5)];
        f->config.boxes = 1 + (uint32_t)rng_below(&r, 4);
        f->config.decode_boxes = rng_below(&r, 3) ? 0 : 1 + (uint32_t)rng_below(&r, 3);
        f->config.link_bytes_s = 1e6 * (1 + (double)rng_below(&r, 50));
        f->config.route = (world_route)rng_below(&r, ROUTES);
        f->config.documents_batch = rng_below(&r, 2);
        f->config.cache_off = rng_below(&r, 4) == 0;
        f->config.runner.max_sequences = f->config.runner.max_rows = 1 + (uint32_t)rng_below(&r, 8);
        f->config.runner.max_chunk_tokens = 64u << rng_below(&r, 6);
        f->config.runner.page_count = 300 + (uint32_t)rng_below(&r, 2000);
        f->costs.request_us = (double)rng_below(&r, 30000);
        f->costs.chunks[1].us = 4096.0 * (20 + (double)rng_below(&r, 500));
        f->work.seed = rng_next(&r);
        f->work.scale = 0.3;
        f->plan = one_group(rng_below(&r, 2) ? LOAD_AGENTS : LOAD_DOCUMENTS, 1 + (uint32_t)rng_below(&r, 12), 0,
                            20 + (uint32_t)rng_below(&r, 60));
        if (rng_below(&r, 2)) {
            load_group *g = &f->plan.phases[0].groups[f->plan.phases[0].group_count++];
            *g = (load_group){.role = f->plan.phases[0].groups[0].role == LOAD_AGENTS ? LOAD_DOCUMENTS : LOAD_AGENTS,
                              .rate = 2,
                              .request_limit = 30};
        }
        fixture_must_play(f);
        uint32_t wanted = f->plan.phases[0].groups[0].request_limit + f->plan.phases[0].groups[1].request_limit;
        check_samples(f, wanted);
        fixture_close(f);
    }
}

static void the_same_seed_gives_the_same_times(void **state)
{
    (void)state;
    fixture *a = fixture_open(), *b = fixture_open(), *other = fixture_open();
    fixture *all[] = {a, b, other};
    other->work.seed = 8;
    for (int i = 0; i < 3; i++) {
        const plan_options options = {.kind = BENCH_MIXED, .agents = 3, .workers = 2, .duration_s = 60};
        all[i]->config.policy = "cadence";
        all[i]->config.boxes = 2;
        all[i]->config.route = ROUTE_PREFIX;
        workload_plan(&options, NULL, &all[i]->plan);
        fixture_must_play(all[i]);
    }
    assert_int_equal(a->samples.count, b->samples.count);
    for (uint32_t i = 0; i < a->samples.count; i++) {
        const load_sample *x = &a->samples.items[i], *y = &b->samples.items[i];
        assert_int_equal(x->outcome, y->outcome);
        assert_int_equal(x->mark_count, y->mark_count);
        assert_int_equal(x->text.size, y->text.size);
        assert_true(!x->text.size || !memcmp(x->text.data, y->text.data, x->text.size));
        for (uint32_t k = 0; k < x->mark_count; k++)
            assert_int_equal(x->marks[k].at_us, y->marks[k].at_us);
    }
    bool differs = a->samples.count != other->samples.count;
    for (uint32_t i = 0; !differs && i < a->samples.count; i++)
        differs = a->samples.items[i].end_us != other->samples.items[i].end_us;
    assert_true(differs);
    for (int i = 0; i < 3; i++)
        fixture_close(all[i]);
}

static void who_comes_when_the_queue_is_full_is_refused_with_a_time(void **state)
{
    (void)state;
    fixture *f = fixture_open();
    f->config.runner.max_sequences = f->config.runner.max_rows = 1;
    f->config.max_queued = 2;
    f->work.sizes = (workload_sizes){.document_tokens = 4000, .document_output = 1};
    f->plan = one_group(LOAD_DOCUMENTS, 0, 1, 40);
    fixture_must_play(f);
    uint32_t done = 0, refused = 0;
    for (uint32_t i = 0; i < f->samples.count; i++) {
        const load_sample *s = &f->samples.items[i];
        done += s->outcome == LOAD_DONE;
        refused += s->outcome == LOAD_REFUSED;
        if (s->outcome != LOAD_REFUSED)
            continue;
        assert_int_equal(s->http_status, 429);
        assert_string_equal(s->reason, "queue_full");
        assert_true(s->retry_after_s >= 1);
        assert_int_equal(s->end_us, s->intended_us);
    }
    assert_int_equal(done + refused, 40);
    assert_true(refused > 20 && f->report.boxes[0].refused == refused);
    /* What no context holds is wrong, not late. */
    f->work.sizes.document_tokens = 20000;
    assert_int_equal(fixture_play(f), ERR_IO);
    assert_int_equal(f->samples.items[0].http_status, 400);
    fixture_close(f);
}

/* An agent's next turn comes at once, to a box that may be in the middle of a document, beside another that is not. */
static void a_document_yields_to_who_comes_while_it_is_read(void **state)
{
    (void)state;
    for (uint32_t boxes = 1; boxes <= 3; boxes++) {
        fixture *f = fixture_open();
        f->config.policy = "cadence";
        f->config.boxes = boxes;
        f->config.schedule.gap_us = 100 * MS;
        f->config.schedule.document_tokens = 1500;
        f->work.sizes = (workload_sizes){.document_tokens = 10000,
                                         .document_output = 30,
                                         .prompt_tokens = 100,
                                         .output_tokens = 40,
                                         .think_s = 1e-6};
        f->plan = (load_plan){.phase_count = 1};
        f->plan.phases[0] = (load_phase){.name = "together", .group_count = 2, .together = true};
        f->plan.phases[0].groups[0] =
            (load_group){.role = LOAD_DOCUMENTS, .concurrency = boxes, .request_limit = 2 * boxes};
        f->plan.phases[0].groups[1] = (load_group){.role = LOAD_AGENTS, .concurrency = 1, .request_limit = 12};
        fixture_must_play(f);
        check_samples(f, 2 * boxes + 12);
        for (uint32_t i = 0; i < f->samples.count; i++) {
            const load_sample *s = &f->samples.items[i];
            if (s->role != LOAD_AGENTS)
                continue;
            /* Its own milliseconds and some more, never a chunk of 4 s: the document stops at the unit that it is in.
             */
            assert_true(s->marks[0].at_us - s->intended_us <=
                        (s->wanted_prompt - s->usage.cached_tokens) * TOKEN_US * 2 + 200 * MS);
            for (uint32_t k = 1; k < s->mark_count; k++)
                assert_true(s->marks[k].at_us - s->marks[k - 1].at_us <= 102 * MS);
        }
        load_beside beside;
        assert_int_equal(load_beside_build(&beside, &f->samples, &f->plan, &f->summary, &f->err), OK);
        assert_true(beside.known && beside.documents == 2 * boxes && isnan(beside.premium));
        assert_true(beside.longest_gap_ms <= 102 && beside.chat_tok_s > 10 && beside.chat_tok_s <= 100);
        assert_true(fabs(beside.mean_gap_ms * beside.chat_tok_s - 1000) < 1);
        fixture_close(f);
    }
}

static void wrong_worlds_are_refused(void **state)
{
    (void)state;
    fixture *f = fixture_open();
    world *w = NULL;
    world_config config = f->config;
    config.boxes = 60;
    config.decode_boxes = 5;
    config.link_bytes_s = 1;
    assert_int_equal(world_create(&w, &config, &f->err), ERR_INVALID);
    config.boxes = 2;
    config.link_bytes_s = 0;
    assert_int_equal(world_create(&w, &config, &f->err), ERR_INVALID);
    assert_non_null(strstr(f->err.text, "link"));
    config = f->config;
    config.policy = "fastest";
    assert_int_equal(world_create(&w, &config, &f->err), ERR_INVALID);
    config = f->config;
    config.policy = "cadence";
    config.schedule.gap_us = 1;
    assert_int_equal(world_create(&w, &config, &f->err), ERR_LIMIT);
    config.runner.costs = NULL;
    assert_int_equal(world_create(&w, &config, &f->err), ERR_INVALID);
    assert_null(w);
    fixture_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_alone_takes_what_its_steps_take),
        cmocka_unit_test(a_queue_waits_as_long_as_theory_says),
        cmocka_unit_test(replicas_share_the_load),
        cmocka_unit_test(a_session_finds_its_prefix_where_it_was),
        cmocka_unit_test(a_split_hands_over_the_exact_bytes),
        cmocka_unit_test(no_request_is_lost_on_any_boxes),
        cmocka_unit_test(the_same_seed_gives_the_same_times),
        cmocka_unit_test(who_comes_when_the_queue_is_full_is_refused_with_a_time),
        cmocka_unit_test(a_document_yields_to_who_comes_while_it_is_read),
        cmocka_unit_test(wrong_worlds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
