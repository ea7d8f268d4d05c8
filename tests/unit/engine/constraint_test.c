/* A request with a constraint: no step while its mask is not there, each token told once, the end where it says so. */
#include "unit/engine/engine_fixture.h"

typedef struct {
    token_constraint base; /* first */
    bool ready;
    uint32_t accepted, over_at, fail_at; /* at so many tokens; 0: never */
    uint32_t destroyed, watched;
    void (*woken)(void *context);
    void *woken_context;
    uint32_t bits[(BYTE_VOCAB_SIZE + 31) / 32];
} fake;

static bool fake_ready(token_constraint *self)
{
    return ((fake *)self)->ready;
}

static const uint32_t *fake_mask(token_constraint *self)
{
    return ((fake *)self)->bits;
}

static constraint_state fake_accept(token_constraint *self, int32_t token)
{
    fake *c = (fake *)self;
    assert_true(c->ready);
    assert_int_equal(token, 'a');
    c->accepted++;
    return c->accepted == c->over_at   ? CONSTRAINT_OVER
           : c->accepted == c->fail_at ? CONSTRAINT_FAILED
                                       : CONSTRAINT_OPEN;
}

static void fake_watch(token_constraint *self, void (*woken)(void *context), void *context)
{
    fake *c = (fake *)self;
    c->watched++;
    c->woken = woken;
    c->woken_context = context;
}

static void fake_destroy(token_constraint *self)
{
    ((fake *)self)->destroyed++;
}

static fake fake_of(bool ready)
{
    static const token_constraint_ops ops = {fake_ready, fake_mask, fake_accept, fake_watch, fake_destroy};
    fake c = {.base = {&ops}, .ready = ready};
    c.bits['a' / 32] = 1u << 'a' % 32;
    return c;
}

static void submit(fixture *f, uint64_t id, fake *c, uint32_t max_tokens)
{
    request *r = fixture_request(id, "a prompt", max_tokens);
    r->sampling.constraint = c ? &c->base : NULL;
    assert_int_equal(engine_submit(f->engine, r, NULL), OK);
}

static void turn(fixture *f, int times)
{
    for (int i = 0; i < times; i++) {
        engine_step(f->engine);
        fixture_take(f);
    }
}

static void test_no_step_while_the_mask_is_not_there(void **state)
{
    (void)state;
    fixture f;
    fake c = fake_of(false);
    fixture_open(&f, (sim_config){.reply_tokens = 1000}, (engine_config){0});
    submit(&f, 1, &c, 50);
    submit(&f, 2, NULL, 20);
    assert_int_equal(c.watched, 1);
    turn(&f, 200);
    assert_int_equal(f.ledger[1].count, 0);
    assert_int_equal(f.ledger[2].count, 20);
    c.ready = true;
    c.woken(c.woken_context);
    turn(&f, 8);
    uint32_t first = f.ledger[1].count;
    assert_true(first > 0 && first < 50 && c.accepted == first);
    c.ready = false; /* in the middle of decoding */
    turn(&f, 20);
    assert_int_equal(f.ledger[1].count, first);
    c.ready = true;
    turn(&f, 200);
    assert_int_equal(f.ledger[1].count, 50);
    assert_int_equal(c.accepted, 50);
    assert_int_equal(f.ledger[1].end.reason, FINISH_LENGTH);
    fixture_close(&f);
    assert_int_equal(c.destroyed, 1);
}

static void test_it_ends_where_the_constraint_says(void **state)
{
    (void)state;
    fixture f;
    fake over = fake_of(true), failed = fake_of(true);
    over.over_at = 5;
    failed.fail_at = 3;
    fixture_open(&f, (sim_config){.reply_tokens = 1000}, (engine_config){0});
    submit(&f, 1, &over, 50);
    submit(&f, 2, &failed, 50);
    turn(&f, 300);
    assert_int_equal(f.ledger[1].finished, 1);
    assert_int_equal(f.ledger[1].end.reason, FINISH_STOP);
    assert_int_equal(f.ledger[1].end.stop_token, -1);
    assert_int_equal(f.ledger[1].count, 5);
    assert_int_equal(f.ledger[2].finished, 1);
    assert_int_equal(f.ledger[2].end.reason, FINISH_ERROR);
    assert_int_equal(f.ledger[2].count, 2);
    fixture_close(&f);
    assert_int_equal(over.destroyed, 1);
    assert_int_equal(failed.destroyed, 1);
}

static void test_a_preempted_request_keeps_its_constraint(void **state)
{
    (void)state;
    fixture f;
    fake c[6];
    sim_config sim = {.reply_tokens = 1000, .page_tokens = 4, .page_count = 40, .context_length = 160};
    fixture_open(&f, sim, (engine_config){0});
    for (int i = 0; i < 6; i++) {
        c[i] = fake_of(true);
        submit(&f, (uint64_t)i + 1, &c[i], 60);
    }
    turn(&f, 5000);
    assert_true(fixture_snapshot(&f).preemptions > 0);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(f.ledger[i + 1].count, 60);
        assert_int_equal(c[i].accepted, 60);
    }
    fixture_close(&f);
    for (int i = 0; i < 6; i++)
        assert_int_equal(c[i].destroyed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_step_while_the_mask_is_not_there),
        cmocka_unit_test(test_it_ends_where_the_constraint_says),
        cmocka_unit_test(test_a_preempted_request_keeps_its_constraint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
