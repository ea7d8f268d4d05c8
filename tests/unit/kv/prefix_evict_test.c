/* tests/unit/kv/prefix_evict_test.c: who goes first, who stays, and what is forgotten. */
#include "prefix_fixture.h"

enum { SESSIONS = 6, SESSION_TOKENS = 2063, SESSION_PAGES = SESSION_TOKENS / 32, TURNS = 4 };

typedef struct {
    fixture f;
    int32_t text[SESSIONS][SESSION_TOKENS + 400];
    int32_t document[4096];
    uint64_t seed;
} box;

static box *box_open(uint32_t pages, uint32_t state_pages)
{
    box *b = calloc(1, sizeof *b);
    b->f = fixture_open(pages, (prefix_cache_config){.state_pages = state_pages, .token_us = 100, .depth_us = 0.01});
    for (uint32_t i = 0; i < SESSIONS; i++)
        fill_text(b->text[i], SESSION_TOKENS + 400, 1000 + i);
    return b;
}

static void box_close(box *b)
{
    fixture_close(&b->f);
    free(b);
}

static void run_sessions(box *b)
{
    for (uint32_t turn = 1; turn <= TURNS; turn++)
        for (uint32_t i = 0; i < SESSIONS; i++)
            request_run(&b->f, i, i, b->text[i], turn * SESSION_TOKENS / TURNS, 0);
}

static void run_documents(box *b, uint32_t count, uint32_t tokens, uint32_t owner)
{
    for (uint32_t i = 0; i < count; i++) {
        fill_text(b->document, tokens, ++b->seed);
        assert_int_equal(request_run(&b->f, 100, owner, b->document, tokens, b->f.config.state_pages ? 32 : 0), 0);
    }
}

static void a_sweep_leaves_the_sessions_warm(void **state)
{
    (void)state;
    static const uint32_t sweeps[][2] = {{1000, 300}, {60, 4000}};
    for (uint32_t state_pages = 0; state_pages <= 4; state_pages += 4) {
        for (uint32_t sweep = 0; sweep < 2; sweep++) {
            box *b = box_open(8 * (SESSION_PAGES + TURNS * state_pages), state_pages);
            run_sessions(b);
            run_documents(b, sweeps[sweep][0], sweeps[sweep][1], 9);
            for (uint32_t i = 0; i < SESSIONS; i++) {
                assert_int_equal(usable_pages(&b->f, i, b->text[i], SESSION_TOKENS), SESSION_PAGES);
                assert_int_equal(request_run(&b->f, i, i, b->text[i], SESSION_TOKENS + 400, 0), SESSION_PAGES);
            }
            assert_true(prefix_cache_read_counts(b->f.cache).evicted_pages[EVICTED_ROOM] > 5000);
            box_close(b);
        }
    }
}

static void the_spare_pages_are_those_that_no_session_misses(void **state)
{
    (void)state;
    for (uint32_t state_pages = 0; state_pages <= 4; state_pages += 4) {
        box *b = box_open(12 * (SESSION_PAGES + TURNS * state_pages), state_pages);
        run_sessions(b);
        uint32_t before = prefix_cache_spare(b->f.cache, 9);
        run_documents(b, 10, 1000, 9);
        uint32_t spare = prefix_cache_spare(b->f.cache, 9);
        assert_int_equal(spare, before);
        /* A session's first turn was used again by its second, with what belongs to it. */
        assert_int_equal(spare,
                         page_pool_read_counts(b->f.pool).total - SESSIONS * (SESSION_PAGES + TURNS * state_pages));
        assert_int_equal(prefix_cache_make_room(b->f.cache, spare, 9, b->f.now_us), spare);
        for (uint32_t i = 0; i < SESSIONS; i++)
            assert_int_equal(usable_pages(&b->f, i, b->text[i], SESSION_TOKENS), SESSION_PAGES);
        prefix_cache_make_room(b->f.cache, spare + 1, 9, b->f.now_us);
        assert_int_equal(prefix_cache_spare(b->f.cache, 9), free_pages(&b->f));
        box_close(b);
    }
}

/* Agents that share a system prompt, talk in turns of many lengths and go back at times, and documents in between: what
 * is found beside every token that one of them had computed before. */
static void agents_find_nearly_all_that_they_computed(void **state)
{
    (void)state;
    enum { AGENTS = 8, SYSTEM = 1500, LENGTH = 9000 };
    for (uint32_t state_pages = 0; state_pages <= 4; state_pages += 4) {
        fixture f = fixture_open(AGENTS * (LENGTH / 32) * 11 / 10 + 600 * state_pages,
                                 (prefix_cache_config){.state_pages = state_pages, .depth_us = 0.01});
        static int32_t text[AGENTS][LENGTH], document[3000];
        uint32_t done[AGENTS] = {0};
        uint64_t ideal = 0, found = 0;
        rng random = {8};
        for (uint32_t i = 0; i < AGENTS; i++) {
            fill_text(text[i], LENGTH, 50 + i);
            fill_text(text[i], SYSTEM, 49);
        }
        for (uint32_t step = 0; step < 600; step++) {
            uint32_t i = (uint32_t)rng_below(&random, AGENTS);
            uint32_t count = done[i] + 60 + (uint32_t)rng_below(&random, 500);
            if (count <= LENGTH) {
                count = done[i] ? count : SYSTEM + 100;
                ideal += step ? (done[i] > SYSTEM ? done[i] : SYSTEM) : 0;
                found += 32 * (uint64_t)request_run(&f, 1, 1, text[i], count, step || !state_pages ? 0 : 46);
                done[i] = count;
            }
            fill_text(document, 3000, 1000 + step);
            request_run(&f, 1, 2, document, 200 + (uint32_t)rng_below(&random, 2800), state_pages ? 32 : 0);
        }
        assert_true(ideal > 500000);
        assert_true((double)found >= 0.95 * (double)ideal);
        fixture_close(&f);
    }
}

static void many_sweeps_do_not_age_an_idle_session(void **state)
{
    (void)state;
    box *b = box_open(8 * SESSION_PAGES, 0);
    run_sessions(b);
    for (uint32_t round = 0; round < 20; round++) { /* one goes on, five are idle */
        run_documents(b, 200, 300, 9);
        assert_int_equal(request_run(&b->f, 0, 0, b->text[0], SESSION_TOKENS + 20 * round, 0),
                         (SESSION_TOKENS + (round ? 20 * round - 20 : 0)) / 32);
    }
    for (uint32_t i = 1; i < SESSIONS; i++)
        assert_int_equal(usable_pages(&b->f, i, b->text[i], SESSION_TOKENS), SESSION_PAGES);
    box_close(b);
}

static void a_session_of_one_turn_is_as_a_document(void **state)
{
    (void)state;
    box *b = box_open(4 * SESSION_PAGES, 0);
    request_run(&b->f, 0, 0, b->text[0], SESSION_TOKENS, 0);
    run_documents(b, 100, 300, 9);
    assert_int_equal(usable_pages(&b->f, 0, b->text[0], SESSION_TOKENS), 0);
    box_close(b);
}

/* Session `i` of many more than there is room for. */
static void fill_session(int32_t *text, uint32_t i)
{
    fill_text(text, SESSION_TOKENS, 5000 + i);
}

static void dead_sessions_make_room_for_live_ones(void **state)
{
    (void)state;
    box *b = box_open(8 * SESSION_PAGES, 0);
    int32_t text[2][SESSION_TOKENS];
    for (uint32_t i = 0; i < 30; i++) { /* the pool is full of sessions that will not come back */
        fill_session(text[0], i);
        for (uint32_t turn = 1; turn <= TURNS; turn++)
            request_run(&b->f, 50, 1, text[0], turn * SESSION_TOKENS / TURNS, 0);
    }
    uint32_t hit[2] = {0};
    for (uint32_t i = 0; i < 2; i++)
        fill_session(text[i], 100 + i);
    for (uint32_t turn = 1; turn <= TURNS; turn++) { /* two live ones, and documents between their turns */
        for (uint32_t i = 0; i < 2; i++)
            hit[i] = request_run(&b->f, 50, 1, text[i], turn * SESSION_TOKENS / TURNS, 0);
        run_documents(b, 30, 300, 9);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(hit[i], (TURNS - 1) * SESSION_TOKENS / TURNS / 32);
        assert_int_equal(usable_pages(&b->f, 50, text[i], SESSION_TOKENS), SESSION_PAGES);
    }
    box_close(b);
}

static void a_session_that_others_outgrow_falls_back(void **state)
{
    (void)state;
    box *b = box_open(8 * SESSION_PAGES, 0);
    int32_t text[SESSION_TOKENS];
    run_sessions(b); /* dead from here on, and worth much: the cost alone would keep them for long */
    prefix_cache_set_cost(b->f.cache, 1, 0);
    for (uint32_t i = 0; i < 30; i++) {
        fill_session(text, i);
        for (uint32_t turn = 1; turn <= 2; turn++)
            request_run(&b->f, 50, 1, text, turn * SESSION_TOKENS / 2, 0);
    }
    for (uint32_t i = 0; i < SESSIONS; i++)
        assert_int_equal(usable_pages(&b->f, i, b->text[i], SESSION_TOKENS), 0);
    box_close(b);
}

static void a_prefix_that_many_share_protects_itself_alone(void **state)
{
    (void)state;
    box *b = box_open(8 * SESSION_PAGES, 0);
    run_sessions(b);
    fill_text(b->document, 640, 77); /* a system prompt of 20 pages that was once asked alone */
    request_run(&b->f, 100, 9, b->document, 640, 0);
    for (uint32_t i = 0; i < 500; i++) {
        fill_text(b->document + 640, 320, 9000 + i);
        uint32_t hit = request_run(&b->f, 100, 9, b->document, 960, 0);
        assert_int_equal(hit, 20);
    }
    for (uint32_t i = 0; i < SESSIONS; i++)
        assert_int_equal(usable_pages(&b->f, i, b->text[i], SESSION_TOKENS), SESSION_PAGES);
    box_close(b);
}

static void nothing_falls_below_a_floor_for_another(void **state)
{
    (void)state;
    box *b = box_open(200, 0);
    prefix_cache_set_floor(b->f.cache, 1, 50);
    fill_text(b->document, 3200, 1);
    request_run(&b->f, 1, 1, b->document, 3200, 0);
    assert_int_equal(prefix_cache_owner_pages(b->f.cache, 1), 100);
    assert_int_equal(prefix_cache_available(b->f.cache, 2), 150);
    assert_int_equal(prefix_cache_available(b->f.cache, 1), 200);
    assert_int_equal(prefix_cache_make_room(b->f.cache, 200, 2, b->f.now_us), 150);
    assert_int_equal(prefix_cache_owner_pages(b->f.cache, 1), 50);
    assert_int_equal(usable_pages(&b->f, 1, b->document, 3200), 50);
    assert_int_equal(prefix_cache_owner_evicted(b->f.cache, 1), 50);
    assert_int_equal(prefix_cache_make_room(b->f.cache, 200, 1, b->f.now_us), 200); /* for its own sake */
    box_close(b);
}

static void what_was_used_long_ago_expires(void **state)
{
    (void)state;
    for (uint32_t state_pages = 0; state_pages <= 2; state_pages += 2) {
        fixture f = fixture_open(400, (prefix_cache_config){.ttl_us = 1000000, .state_pages = state_pages});
        static int32_t a[960], b[960];
        fill_text(a, 960, 1);
        fill_text(b, 960, 2);
        request_run(&f, 1, 0, a, 640, 0);
        request_run(&f, 1, 0, b, 640, 0);
        f.now_us += 600000;
        request_run(&f, 1, 0, a, 960, 0);
        f.now_us += 600000;
        sequence *s = sequence_open(&f, 1, 0, a, 960); /* in use: it stays, however long */
        prefix_cache_trim(f.cache, f.now_us);
        assert_int_equal(usable_pages(&f, 1, b, 640), 0);
        assert_int_equal(prefix_cache_read_counts(f.cache).evicted_pages[EVICTED_TTL], 20 + state_pages);
        f.now_us += 5000000;
        prefix_cache_trim(f.cache, f.now_us);
        uint32_t hit = s->hit;
        assert_int_equal(usable_pages(&f, 1, a, hit * 32), hit);
        sequence_close(&f, s, true);
        f.now_us += 999999;
        prefix_cache_trim(f.cache, f.now_us);
        assert_int_equal(usable_pages(&f, 1, a, hit * 32), hit);
        f.now_us += 1;
        prefix_cache_trim(f.cache, f.now_us);
        assert_int_equal(prefix_cache_read_counts(f.cache).nodes, 0);
        assert_int_equal(free_pages(&f), 400);
        fixture_close(&f);
    }
}

static void idle_pages_keep_to_their_budget(void **state)
{
    (void)state;
    fixture f = fixture_open(400, (prefix_cache_config){.idle_pages_max = 30});
    static int32_t text[3200];
    fill_text(text, 3200, 1);
    sequence *s = sequence_open(&f, 1, 0, text, 3200);
    sequence_compute(&f, s, text, 3200, 0);
    prefix_cache_trim(f.cache, f.now_us);
    assert_int_equal(prefix_cache_read_counts(f.cache).nodes, 100); /* in use: no idle ones */
    sequence_close(&f, s, true);
    prefix_cache_set_floor(f.cache, 0, 60); /* more than the budget holds: the budget counts */
    prefix_cache_trim(f.cache, f.now_us);
    assert_int_equal(prefix_cache_read_counts(f.cache).idle_pages, 30);
    assert_int_equal(prefix_cache_read_counts(f.cache).evicted_pages[EVICTED_BUDGET], 70);
    assert_int_equal(usable_pages(&f, 1, text, 3200), 30);
    fixture_close(&f);
}

static void forgets_what_is_in_use_when_it_can(void **state)
{
    (void)state;
    for (uint32_t state_pages = 0; state_pages <= 2; state_pages += 2) {
        fixture f = fixture_open(400, (prefix_cache_config){.state_pages = state_pages});
        static int32_t text[2000], other[2000];
        prefix_line lines[4];
        fill_text(text, 2000, 1);
        fill_text(other, 2000, 2);
        request_run(&f, 1, 1, text, 640, 0);
        request_run(&f, 1, 2, other, 640, 0);
        sequence *s = sequence_open(&f, 1, 1, text, 1280), *young = sequence_open(&f, 1, 1, text + 7, 640);
        sequence_compute(&f, s, text, 1280, 0);
        sequence *shares = sequence_open(&f, 1, 2, text, 1000); /* of another owner, under the same nodes */
        prefix_cache_forget(f.cache, 1, 1);
        assert_int_equal(prefix_cache_find(f.cache, 1, text, 1280, 40).pages, 0);
        assert_int_equal(prefix_cache_find(f.cache, 1, text, 1280, 40).differs_at, 0);
        assert_int_equal(prefix_cache_owner_pages(f.cache, 1), 0);
        assert_int_equal(prefix_cache_read_counts(f.cache).nodes, 20);
        assert_int_equal(prefix_cache_lines(f.cache, lines, 4), 1);
        sequence_compute(&f, s, text, 1920, 8); /* they go on, and leave nothing */
        sequence_compute(&f, young, text + 7, 640, 8);
        sequence_compute(&f, shares, text, 1000, 8);
        assert_int_equal(prefix_cache_read_counts(f.cache).nodes, 20);
        sequence_close(&f, s, true);
        sequence_close(&f, young, true);
        sequence_close(&f, shares, true);
        assert_int_equal(prefix_cache_lines(f.cache, lines, 4), 1);
        prefix_cache_trim(f.cache, f.now_us);
        assert_int_equal(free_pages(&f), 400 - 20 - state_pages);
        assert_int_equal(usable_pages(&f, 1, other, 640), 20);
        assert_int_equal(request_run(&f, 1, 1, text, 640, 0), 0); /* from now on it is kept again */
        assert_int_equal(usable_pages(&f, 1, text, 640), 20);
        assert_int_equal(prefix_cache_forget(f.cache, 0, PREFIX_OWNERS_MAX), 40 + 2 * state_pages);
        assert_int_equal(free_pages(&f), 400);
        fixture_close(&f);
    }
}

static void deep_pages_are_worth_more(void **state)
{
    (void)state;
    fixture f = fixture_open(300, (prefix_cache_config){.token_us = 10, .depth_us = 1});
    static int32_t deep[6400], flat[1600];
    fill_text(deep, 6400, 1);
    fill_text(flat, 1600, 2);
    request_run(&f, 1, 0, deep, 6400, 0);
    request_run(&f, 1, 0, flat, 1600, 0);
    prefix_cache_make_room(f.cache, 300 - 200, 1, f.now_us);
    assert_int_equal(usable_pages(&f, 1, deep, 6400), 200); /* though the other one is younger */
    assert_int_equal(usable_pages(&f, 1, flat, 1600), 0);
    fixture_close(&f);
}

static void checkpoints_thin_out_before_they_go(void **state)
{
    (void)state;
    fixture f = fixture_open(600, (prefix_cache_config){.state_pages = 8});
    static int32_t text[10240];
    fill_text(text, 10240, 1); /* 320 pages, 20 checkpoints of 512 tokens: cheap beside a page */
    request_run(&f, 1, 0, text, 10240, 16);
    assert_int_equal(prefix_cache_read_counts(f.cache).state_checkpoints, 20);
    prefix_cache_make_room(f.cache, free_pages(&f) + 15 * 8, 1, f.now_us);
    prefix_cache_counts counts = prefix_cache_read_counts(f.cache);
    assert_true(counts.state_checkpoints >= 5 && counts.state_checkpoints <= 8);
    assert_true(counts.evicted_checkpoints[EVICTED_ROOM] >= 12);
    assert_int_equal(usable_pages(&f, 1, text, 10240), 320); /* the last one is what the next turn needs */
    uint32_t before = 0, gap_max = 0;
    for (uint32_t pages = 1; pages <= 320; pages++) {
        uint32_t usable = prefix_cache_find(f.cache, 1, text, 10240, pages).usable;
        if (usable > before) {
            gap_max = usable - before > gap_max ? usable - before : gap_max;
            before = usable;
        }
    }
    assert_true(gap_max <= 160); /* spread over the text, not all from one end */
    fixture_close(&f);
}

static void pages_below_the_last_checkpoint_go_first(void **state)
{
    (void)state;
    fixture f = fixture_open(300, (prefix_cache_config){.state_pages = 2});
    static int32_t text[6400];
    fill_text(text, 6400, 1);
    sequence *s = sequence_open(&f, 1, 0, text, 6400);
    sequence_compute(&f, s, text, 3200, 0);
    put_state(&f, s); /* after 100 pages: 1,600 tokens for each of its pages */
    sequence_compute(&f, s, text, 3200 + 64, 0);
    put_state(&f, s); /* 64 tokens more: as dear as a page and a half, that of a leaf as a quarter */
    sequence_compute(&f, s, text, 6400, 0);
    sequence_close(&f, s, false);
    prefix_cache_make_room(f.cache, free_pages(&f) + 98, 1, f.now_us);
    assert_int_equal(usable_pages(&f, 1, text, 6400), 102);
    assert_int_equal(prefix_cache_read_counts(f.cache).nodes, 102);
    fixture_close(&f);
}

static void a_checkpoint_that_was_passed_goes_before_the_last(void **state)
{
    (void)state;
    fixture f = fixture_open(300, (prefix_cache_config){.state_pages = 2});
    static int32_t text[3200];
    fill_text(text, 3200, 1);
    sequence *s = sequence_open(&f, 1, 0, text, 3200);
    sequence_compute(&f, s, text, 1600, 0);
    put_state(&f, s); /* 1,600 tokens, and then passed */
    sequence_compute(&f, s, text, 3200 - 960, 0);
    put_state(&f, s); /* 640 tokens */
    sequence_close(&f, s, false);
    prefix_cache_make_room(f.cache, free_pages(&f) + 2, 1, f.now_us);
    assert_int_equal(usable_pages(&f, 1, text, 3200), 70);
    assert_int_equal(prefix_cache_find(f.cache, 1, text, 3200, 69).usable, 0);
    prefix_cache_make_room(f.cache, 300, 1, f.now_us);
    fixture_close(&f);
}

/* Without a checkpoint at its end a session's pages are found one by one as they are computed again. */
static void what_is_computed_beyond_a_found_end_is_a_session(void **state)
{
    (void)state;
    box *b = box_open(4 * SESSION_PAGES, 2);
    for (uint32_t turn = 1; turn <= 2; turn++) {
        sequence *s = sequence_open(&b->f, 0, 0, b->text[0], turn * 1000);
        assert_int_equal(s->hit, 0);
        sequence_compute(&b->f, s, b->text[0], turn * 1000, 0);
        assert_int_equal(s->cursor.continues, turn == 2);
        if (turn == 2)
            put_state(&b->f, s);
        sequence_close(&b->f, s, true);
    }
    run_documents(b, 100, 300, 9);
    assert_int_equal(usable_pages(&b->f, 0, b->text[0], 2000), 62);
    box_close(b);
}

static void a_session_in_use_does_not_age(void **state)
{
    (void)state;
    box *b = box_open(8 * SESSION_PAGES, 0);
    int32_t text[SESSION_TOKENS];
    run_sessions(b);
    sequence *s = sequence_open(&b->f, 0, 0, b->text[0], SESSION_TOKENS + 32);
    for (uint32_t i = 0; i < 30; i++) {
        fill_session(text, i);
        for (uint32_t turn = 1; turn <= 2; turn++)
            request_run(&b->f, 50, 1, text, turn * SESSION_TOKENS / 2, 0);
    }
    for (uint32_t i = 0; i < s->page_count; i++)
        page_pool_release(b->f.pool, s->pages[i]);
    s->page_count = 0;
    sequence_close(&b->f, s, false);
    run_documents(b, 60, 300, 9);
    assert_int_equal(usable_pages(&b->f, 0, b->text[0], SESSION_TOKENS), SESSION_PAGES);
    box_close(b);
}

/* Which of many entries are left after much has happened: a number that depends on every choice. */
static uint64_t outcome(uint32_t state_pages)
{
    fixture f = fixture_open(300, (prefix_cache_config){.state_pages = state_pages, .depth_us = 0.1});
    static int32_t text[2048];
    rng random = {5};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t which = (uint32_t)rng_below(&random, 40);
        fill_text(text, 2048, which);
        uint32_t count = 64 + (uint32_t)rng_below(&random, 1500);
        sum = sum * 31 + request_run(&f, which % 3, which % 5, text, count, state_pages ? 8 : 0);
    }
    fixture_close(&f);
    return sum;
}

static void the_same_past_gives_the_same_choices(void **state)
{
    (void)state;
    assert_true(outcome(0) == outcome(0));
    assert_true(outcome(3) == outcome(3));
}

static void two_hundred_thousand_nodes(void **state)
{
    (void)state;
    enum { PAGES = 200000, TEXT = 3200, DOCUMENTS = 4000 }; /* a scan for each victim would take minutes */
    fixture f = fixture_open(PAGES, (prefix_cache_config){.depth_us = 0.01});
    static int32_t text[TEXT];
    for (uint32_t i = 0; i < DOCUMENTS; i++) {
        fill_text(text, TEXT, i);
        request_run(&f, i % 7, i % 5, text, TEXT, 0);
    }
    assert_int_equal(prefix_cache_read_counts(f.cache).nodes, PAGES);
    assert_int_equal(prefix_cache_read_counts(f.cache).evicted_pages[EVICTED_ROOM], DOCUMENTS * 100 - PAGES);
    assert_int_equal(usable_pages(&f, (DOCUMENTS - 1) % 7, text, TEXT), 100);
    assert_int_equal(prefix_cache_available(f.cache, 0), PAGES);
    assert_int_equal(prefix_cache_make_room(f.cache, PAGES, 0, f.now_us), PAGES);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sweep_leaves_the_sessions_warm),
        cmocka_unit_test(the_spare_pages_are_those_that_no_session_misses),
        cmocka_unit_test(agents_find_nearly_all_that_they_computed),
        cmocka_unit_test(many_sweeps_do_not_age_an_idle_session),
        cmocka_unit_test(a_session_of_one_turn_is_as_a_document),
        cmocka_unit_test(dead_sessions_make_room_for_live_ones),
        cmocka_unit_test(a_session_that_others_outgrow_falls_back),
        cmocka_unit_test(a_prefix_that_many_share_protects_itself_alone),
        cmocka_unit_test(nothing_falls_below_a_floor_for_another),
        cmocka_unit_test(what_was_used_long_ago_expires),
        cmocka_unit_test(idle_pages_keep_to_their_budget),
        cmocka_unit_test(forgets_what_is_in_use_when_it_can),
        cmocka_unit_test(deep_pages_are_worth_more),
        cmocka_unit_test(checkpoints_thin_out_before_they_go),
        cmocka_unit_test(pages_below_the_last_checkpoint_go_first),
        cmocka_unit_test(a_checkpoint_that_was_passed_goes_before_the_last),
        cmocka_unit_test(what_is_computed_beyond_a_found_end_is_a_session),
        cmocka_unit_test(a_session_in_use_does_not_age),
        cmocka_unit_test(the_same_past_gives_the_same_choices),
        cmocka_unit_test(two_hundred_thousand_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
