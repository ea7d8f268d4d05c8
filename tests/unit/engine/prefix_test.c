/* The prefix cache under the engine: what comes from it equals what is computed, whatever was cached, given up, shared,
 * aborted or preempted; and it finds what it should. The sim's words depend on every token, page and state before them.
 */
#include "prefix_world.h"

/* ---- what is found ---- */

static void check_turns(box_kind kind)
{
    world w;
    open_world(&w, kind, 2000, 1);
    talk *t = &w.talks[0];
    say(&w, t, 300);
    answer(&w, t, 64);
    for (int turn = 0; turn < 6; turn++) {
        uint32_t before = t->count;
        say(&w, t, 40);
        uint64_t id = w.next_id;
        answer(&w, t, 64);
        /* all of the history (its end came as a token of its own), or as many whole pages */
        assert_int_equal(cached_of(&w, id), kind == DENSE ? before / 16 * 16 : before);
        const cache_lookup *l = &w.f.ledger[id].end.lookup;
        uint32_t sum = 0;
        for (int i = 0; i < CACHE_PLACES; i++)
            sum += l->hits[i];
        assert_int_equal(sum, cached_of(&w, id));
        for (int i = 0; i < MISS_CAUSES; i++)
            sum += l->misses[i];
        assert_int_equal(sum, l->looked_up);
    }
    /* An edit in the middle: what comes before the edited turn is found, up to a page (and a state before it). */
    talk *e = &w.talks[1];
    *e = *t;
    uint32_t at = 300 + REPLY + 40 + REPLY;
    e->count = at;
    say(&w, e, 50);
    uint64_t id = w.next_id;
    answer(&w, e, 64);
    assert_true(cached_of(&w, id) + 40 + 3 * 16 >= at);
    close_world(&w);
}

static void every_turn_finds_the_one_before(void **unused)
{
    (void)unused;
    for (box_kind kind = DENSE; kind < KINDS; kind++)
        check_turns(kind);
}

/* In a pool that its own checkpoints fill, a session gives those that it has left behind for where it goes on. */
static void a_session_that_fills_the_pool_goes_on_where_it_ended(void **unused)
{
    (void)unused;
    world w;
    sim_config config = box(STATEFUL, 240);
    config.state_pages = 30;
    open_box(&w, config, 8);
    talk *t = &w.talks[0];
    say(&w, t, 700);
    answer(&w, t, 64);
    for (int turn = 0; turn < 10; turn++) {
        uint32_t before = t->count;
        say(&w, t, 20);
        request *r = ask(&w, t, 64);
        uint64_t id = r->id;
        fixture_submit(&w.f, r);
        run(&w);
        for (uint32_t i = 0; i < w.f.ledger[id].count; i++)
            t->tokens[t->count++] = w.f.ledger[id].tokens[i];
        if (turn > 0) /* by then it is a session */
            assert_int_equal(cached_of(&w, id), before);
    }
    close_world(&w);
}

/* It needs nearly all of the pool, and the state that it could begin with lies in the rest. */
static void a_session_as_large_as_the_pool_is_answered(void **unused)
{
    (void)unused;
    for (uint32_t pages = 60; pages <= 96; pages += 2) {
        world w;
        sim_config config = box(STATEFUL, pages);
        config.state_pages = 10;
        config.context_length = 0; /* what the pool holds */
        open_box(&w, config, pages);
        talk *t = &w.talks[0];
        say(&w, t, 500);
        for (int turn = 0; turn < 20 && t->count + 60 < pages * 16; turn++) {
            request *r = ask(&w, t, 20);
            uint64_t id = r->id;
            fixture_submit(&w.f, r);
            fixture_run(&w.f);
            assert_int_equal(w.f.ledger[id].finished, 1);
            assert_int_equal(w.f.ledger[id].count, 20);
            for (uint32_t i = 0; i < 20; i++)
                t->tokens[t->count++] = w.f.ledger[id].tokens[i];
            say(&w, t, 13);
        }
        close_world(&w);
    }
}

static void tenants_see_their_own_only(void **unused)
{
    (void)unused;
    world w;
    open_world(&w, DENSE, 2000, 2);
    talk *t = &w.talks[0];
    say(&w, t, 200);
    const uint32_t tenants[] = {0, 1, 2, 0}, expected[] = {0, 0, 192, 192};
    for (int i = 0; i < 4; i++) {
        t->tenant = tenants[i];
        request *r = ask(&w, t, 8);
        uint64_t id = r->id;
        fixture_submit(&w.f, r);
        fixture_run(&w.f);
        assert_int_equal(cached_of(&w, id), expected[i]);
    }
    t->tenant = 0;
    request *salted = ask(&w, t, 8);
    salted->cache_salt = 7;
    uint64_t id = salted->id;
    fixture_submit(&w.f, salted);
    fixture_run(&w.f);
    assert_int_equal(cached_of(&w, id), 0);
    assert_int_equal(engine_forget(w.f.engine, 0, NULL, NULL), OK);
    request *again = ask(&w, t, 8);
    id = again->id;
    fixture_submit(&w.f, again);
    fixture_run(&w.f);
    assert_int_equal(cached_of(&w, id), 0);
    close_world(&w);
}

static void the_same_prompt_at_once_is_read_once(void **unused)
{
    (void)unused;
    for (box_kind kind = DENSE; kind < KINDS; kind++) {
        world w;
        open_world(&w, kind, 2000, 3);
        talk *t = &w.talks[0];
        say(&w, t, 1000);
        uint64_t first = w.next_id;
        for (int i = 0; i < 4; i++)
            fixture_submit(&w.f, ask(&w, t, 8));
        fixture_run(&w.f);
        uint32_t computed = 0;
        for (uint64_t id = first; id < first + 4; id++)
            computed += 1000 - cached_of(&w, id);
        assert_true(computed < 1000 + 3 * 3 * 16);
        close_world(&w);
    }
}

/* ---- aborts ---- */

static void an_aborted_prompt_is_not_read_again(void **unused)
{
    (void)unused;
    for (box_kind kind = DENSE; kind < KINDS; kind++)
        for (uint32_t percent = 5; percent <= 95; percent += 15) {
            world w;
            open_world(&w, kind, 2000, 4);
            talk *t = &w.talks[0];
            say(&w, t, 1000);
            request *r = ask(&w, t, 8);
            uint64_t id = r->id;
            fixture_submit(&w.f, r);
            uint64_t end_us = now_of(&w) + 1000 * 1000000ull / 20000 * percent / 100;
            while (now_of(&w) < end_us && engine_step(w.f.engine)) {}
            engine_cancel(w.f.engine, id, FINISH_CANCELLED);
            r = ask(&w, t, 8);
            id = r->id;
            fixture_submit(&w.f, r);
            fixture_run(&w.f);
            assert_true(1000 - cached_of(&w, id) <= 1000 * (100 - percent) / 100 + 128 + 64);
            expect_cold(&w, id, t, 8);
            close_world(&w);
        }
}

/* A chunk that was cancelled in the middle is finished once, for whoever sends the prompt again. */
static void a_cancelled_chunk_is_adopted(void **unused)
{
    (void)unused;
    for (box_kind kind = DENSE; kind < KINDS; kind++) {
        world w;
        sim_config config = box(kind, 2000);
        config.max_chunk_tokens = 1024;
        open_box(&w, config, 5);
        talk *other = &w.talks[1], *t = &w.talks[0];
        say(&w, other, 64);
        say(&w, t, 1000);
        request *stream = ask(&w, other, REPLY), *r = ask(&w, t, 8);
        uint64_t id = r->id;
        fixture_submit(&w.f, stream);
        engine_step(w.f.engine);
        fixture_submit(&w.f, r);
        for (int i = 0; i < 6; i++)
            engine_step(w.f.engine);
        engine_cancel(w.f.engine, id, FINISH_CANCELLED);
        engine_step(w.f.engine);
        engine_snapshot seen = fixture_snapshot(&w.f);
        assert_true(seen.running <= 1);
        r = ask(&w, t, 8);
        id = r->id;
        fixture_submit(&w.f, r);
        fixture_run(&w.f);
        assert_true(cached_of(&w, id) >= 960);
        expect_cold(&w, id, t, 8);
        close_world(&w);
    }
}

/* ---- sweeps ---- */

static void documents_do_not_push_chats_out(void **unused)
{
    (void)unused;
    for (box_kind kind = DENSE; kind < KINDS; kind++) {
        world w;
        open_world(&w, kind, 900, 6);
        for (int i = 0; i < 6; i++) {
            say(&w, &w.talks[i], 400);
            for (int turn = 0; turn < 3; turn++) {
                answer(&w, &w.talks[i], 64);
                say(&w, &w.talks[i], 30);
            }
        }
        for (int d = 0; d < 200; d++) {
            talk *doc = &w.talks[6];
            doc->count = 0;
            say(&w, doc, d % 4 ? 300 : 1400);
            fixture_submit(&w.f, ask(&w, doc, 4));
            fixture_run(&w.f);
        }
        for (int i = 0; i < 6; i++) {
            uint64_t id = w.next_id;
            uint32_t before = w.talks[i].count;
            answer(&w, &w.talks[i], 64);
            assert_true(cached_of(&w, id) + 30 + 2 * 16 > before);
        }
        close_world(&w);
    }
}

/* ---- anything ---- */

static void whatever_happens_the_words_are_the_same(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        world w;
        open_world(&w, seed % KINDS, seed % 4 == 0 ? 280 : seed % 4 == 1 ? 600 : 3000, seed);
        for (int i = 0; i < 60 && w.next_id < LEDGER_MAX - 40; i++)
            crowd(&w);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_turn_finds_the_one_before),
        cmocka_unit_test(a_session_that_fills_the_pool_goes_on_where_it_ended),
        cmocka_unit_test(a_session_as_large_as_the_pool_is_answered),
        cmocka_unit_test(tenants_see_their_own_only),
        cmocka_unit_test(the_same_prompt_at_once_is_read_once),
        cmocka_unit_test(an_aborted_prompt_is_not_read_again),
        cmocka_unit_test(a_cancelled_chunk_is_adopted),
        cmocka_unit_test(documents_do_not_push_chats_out),
        cmocka_unit_test(whatever_happens_the_words_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
