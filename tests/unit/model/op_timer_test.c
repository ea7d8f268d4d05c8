/* tests/unit/model/op_timer_test.c: timing changes no bit, counts every op and leaves nothing behind. */
#include "model/op_timer.h"

#include "base/clock.h"
#include "fixture.h"

enum { ROWS = 20, PAGES = 2 };

/* Logits of ROWS tokens, (ROWS, vocab); the caller frees. */
static float *run_prompt(fixture *f)
{
    error err = {0};
    batch *b;
    const uint32_t pages[PAGES] = {1, 0};
    int32_t tokens[ROWS];
    for (int i = 0; i < ROWS; i++)
        tokens[i] = (i * 7 + 3) % (int)f->model->config.vocab;
    if (batch_create(&b, f->model, ROWS, 1, &err))
        fail_msg("%s", err.text);
    float *logits = malloc((size_t)ROWS * f->model->config.vocab * sizeof *logits);
    f->device->ops->step_begin(f->device);
    batch_start(b, f->cache, f->states);
    batch_add(b, 0, pages, 0, tokens, ROWS);
    while (!batch_advance(f->model, b))
        ;
    fixture_logits(f, b, logits);
    f->device->ops->step_end(f->device);
    batch_destroy(f->model, b);
    return logits;
}

static void a_timed_step_has_the_same_bits_and_its_time_is_accounted_for(void **state)
{
    (void)state;
    static const char *const models[] = {VECTORS "llama.gguf", VECTORS "gemma3.gguf", VECTORS "qwen3.gguf"};
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        fixture f;
        fixture_open(&f, models[k], 2, PAGES);
        float *plain = run_prompt(&f);
        const backend_ops *own = f.device->ops;
        op_timer *t;
        assert_int_equal(op_timer_attach(&t, f.model, NULL), OK);
        uint64_t start = clock_now_us();
        float *timed = run_prompt(&f);
        uint64_t wall = clock_now_us() - start, sum = 0;
        assert_memory_equal(plain, timed, (size_t)ROWS * f.model->config.vocab * sizeof *plain);
        for (int i = 0; i < OP_FAMILIES; i++)
            sum += op_timer_cost(t, (op_family)i).us;
        assert_true(sum <= wall);
        uint32_t layers = f.model->config.layers;
        assert_int_equal(op_timer_cost(t, OP_EMBEDDING).calls, 1);
        assert_int_equal(op_timer_cost(t, OP_QKV).calls, layers);
        assert_int_equal(op_timer_cost(t, OP_ATTENTION).calls, layers);
        assert_int_equal(op_timer_cost(t, OP_OUT).calls, layers);
        assert_int_equal(op_timer_cost(t, OP_FFN_UP).calls, layers);
        assert_int_equal(op_timer_cost(t, OP_FFN_DOWN).calls, layers);
        assert_int_equal(op_timer_cost(t, OP_HEAD).calls, 1);
        assert_int_equal(op_timer_cost(t, OP_WORKERS).calls, 2);
        const model_config *c = &f.model->config;
        uint64_t pairs = ROWS * (ROWS + 1) / 2; /* each row sees itself and all before */
        if (!c->window)
            assert_int_equal(op_timer_cost(t, OP_ATTENTION).flops, layers * 4 * pairs * c->heads * c->head_dim);
        assert_int_equal(op_timer_cost(t, OP_FFN_UP).flops, layers * 2ull * ROWS * c->hidden * 2 * c->ffn);
        op_timer_reset(t);
        assert_int_equal(op_timer_cost(t, OP_QKV).calls, 0);
        op_timer_detach(t);
        assert_ptr_equal(f.device->ops, own);
        free(plain);
        free(timed);
        fixture_close(&f);
    }
}

static void experts_and_states_are_accounted_for_too(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, HYBRIDS "qwen35moe.gguf", 2, PAGES);
    float *plain = run_prompt(&f);
    op_timer *t;
    assert_int_equal(op_timer_attach(&t, f.model, NULL), OK);
    float *timed = run_prompt(&f);
    const model_config *c = &f.model->config;
    assert_memory_equal(plain, timed, (size_t)ROWS * c->vocab * sizeof *plain);
    assert_int_equal(op_timer_cost(t, OP_DELTA).calls, c->state_layers);
    assert_int_equal(op_timer_cost(t, OP_ATTENTION).calls, c->kv_layers);
    assert_int_equal(op_timer_cost(t, OP_ROUTE).calls, c->layers);
    assert_int_equal(op_timer_cost(t, OP_EXPERTS).calls, c->layers);
    assert_int_equal(op_timer_cost(t, OP_EXPERTS).flops,
                     6ull * c->layers * ROWS * c->experts_used * c->expert_ffn * c->hidden);
    assert_int_equal(op_timer_cost(t, OP_DELTA).flops,
                     8ull * c->state_layers * ROWS * c->value_heads * c->key_dim * c->value_dim);
    op_timer_detach(t);
    free(plain);
    free(timed);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timed_step_has_the_same_bits_and_its_time_is_accounted_for),
        cmocka_unit_test(experts_and_states_are_accounted_for_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
