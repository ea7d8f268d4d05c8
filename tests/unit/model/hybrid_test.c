/* tests/unit/model/hybrid_test.c: our logits against Hugging Face transformers on tiny random checkpoints of the hybrid
 * and mixture-of-experts families (tests/numeric/hybrid_vectors.py). */
#include "fixture.h"

#include <math.h>

enum { PAGES = 8, CHUNKS_MAX = 4 };

typedef struct {
    uint32_t count, vocab, row_count;
    int32_t *tokens;
    uint32_t *rows; /* whose logits are there */
    float *logits,
        *logits_f16_cache; /* (row_count, vocab); the second with K and V rounded to f16 as our cache has them */
} reference;

static reference read_reference(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, HYBRIDS "%s.bin", name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    reference r;
    assert_int_equal(fread(&r.count, 4, 1, in) + fread(&r.vocab, 4, 1, in) + fread(&r.row_count, 4, 1, in), 3);
    size_t floats = (size_t)r.row_count * r.vocab;
    r.tokens = malloc(r.count * sizeof *r.tokens);
    r.rows = malloc(r.row_count * sizeof *r.rows);
    r.logits = malloc(floats * sizeof *r.logits);
    r.logits_f16_cache = malloc(floats * sizeof *r.logits);
    assert_int_equal(fread(r.tokens, 4, r.count, in), r.count);
    assert_int_equal(fread(r.rows, 4, r.row_count, in), r.row_count);
    assert_int_equal(fread(r.logits, 4, floats, in), floats);
    assert_int_equal(fread(r.logits_f16_cache, 4, floats, in), floats);
    fclose(in);
    return r;
}

static void free_reference(reference *r)
{
    free(r->tokens);
    free(r->rows);
    free(r->logits);
    free(r->logits_f16_cache);
}

/* Largest |d| of the wanted rows over the range of the reference. */
static double worst_of(const reference *r, const float *got, const float *want)
{
    float low = want[0], high = low;
    double worst = 0;
    for (uint32_t i = 0; i < r->row_count; i++)
        for (uint32_t k = 0; k < r->vocab; k++) {
            float x = want[(size_t)i * r->vocab + k];
            low = fminf(low, x);
            high = fmaxf(high, x);
            worst = fmax(worst, fabs((double)got[(size_t)r->rows[i] * r->vocab + k] - (double)x));
        }
    return worst / ((double)high - (double)low);
}

/* Runs the tokens in the given chunks, then one by one; logits of all rows. */
static void run_tokens(const fixture *f, const reference *r, const uint32_t chunks[CHUNKS_MAX], float *got)
{
    error err;
    batch *b;
    uint32_t pages[PAGES];
    assert_int_equal(batch_create(&b, f->model, r->count, 1, &err), OK);
    for (uint32_t i = 0; i < PAGES; i++)
        pages[i] = f->page_count - 1 - i;
    for (uint32_t at = 0, n, i = 0; at < r->count; at += n, i++) {
        n = i < CHUNKS_MAX && chunks[i] ? chunks[i] : 1;
        batch_start(b, f->cache, f->states);
        batch_add(b, 3, pages, at, r->tokens + at, n);
        while (!batch_advance(f->model, b))
            ;
        fixture_logits(f, b, got + (size_t)at * r->vocab);
    }
    batch_destroy(f->model, b);
}

static void check(const char *name)
{
    static const uint32_t WAYS[][CHUNKS_MAX] = {{150}, {7, 64, 79}, {86}, {1, 2, 60}};
    char path[256];
    snprintf(path, sizeof path, HYBRIDS "%s.gguf", name);
    reference r = read_reference(name);
    float *got = malloc((size_t)r.count * r.vocab * sizeof *got);
    printf("%-14s max |d| of range (f16 caches on both sides):", name);
    double worst = 0, worst_f16 = 0;
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        fixture f;
        fixture_open_kv(&f, path, 2, PAGES, KV_F32);
        run_tokens(&f, &r, WAYS[i], got);
        fixture_close(&f);
        double plain = worst_of(&r, got, r.logits);
        fixture_open_kv(&f, path, 2, PAGES, KV_F16);
        run_tokens(&f, &r, WAYS[i], got);
        fixture_close(&f);
        double f16 = worst_of(&r, got, r.logits_f16_cache);
        printf(" %.1e (%.1e)", plain, f16);
        worst = fmax(worst, plain);
        worst_f16 = fmax(worst_f16, f16);
    }
    printf("\n");
    assert_true(worst <= 1e-5);
    assert_true(worst_f16 <= 1e-4);
    free(got);
    free_reference(&r);
}

/* How far a changed model is off, so that the cases above cannot pass by chance. */
static double off_by(const char *name, void (*change)(model *m))
{
    char path[256];
    fixture f;
    snprintf(path, sizeof path, HYBRIDS "%s.gguf", name);
    fixture_open(&f, path, 2, PAGES);
    reference r = read_reference(name);
    float *got = malloc((size_t)r.count * r.vocab * sizeof *got);
    change(f.model);
    run_tokens(&f, &r, (uint32_t[CHUNKS_MAX]){r.count}, got);
    double worst = worst_of(&r, got, r.logits);
    free(got);
    free_reference(&r);
    fixture_close(&f);
    return worst;
}

static void other_key_heads(model *m)
{
    m->config.value_heads_grouped = !m->config.value_heads_grouped;
}

static void other_normalization(model *m)
{
    m->config.experts_normalize = !m->config.experts_normalize;
}

static void fewer_experts(model *m)
{
    m->config.experts_used--;
}

static void less_rotation(model *m)
{
    m->config.rotary -= 2;
}

static void gate_and_query_swapped(model *m)
{
    for (uint32_t i = 0; i < m->config.layers; i++) {
        weight *q = m->layers[i].q;
        m->layers[i].q = m->layers[i].q_gate;
        m->layers[i].q_gate = q;
    }
}

static void decay_and_rate_swapped(model *m)
{
    for (uint32_t i = 0; i < m->config.layers; i++) {
        weight *alpha = m->layers[i].alpha;
        m->layers[i].alpha = m->layers[i].beta;
        m->layers[i].beta = alpha;
    }
}

static void a_changed_model_is_noticed(void **state)
{
    (void)state;
    assert_true(off_by("qwen35moe", other_key_heads) > 1e-2);
    assert_true(off_by("qwen35_r3", other_key_heads) > 1e-2);
    assert_true(off_by("qwen3next", other_key_heads) > 1e-2);
    assert_true(off_by("qwen35moe", other_normalization) > 1e-2);
    assert_true(off_by("qwen3moe_raw", other_normalization) > 1e-2);
    assert_true(off_by("qwen3moe", fewer_experts) > 1e-2);
    assert_true(off_by("qwen35", less_rotation) > 1e-2);
    assert_true(off_by("qwen3next", gate_and_query_swapped) > 1e-2);
    assert_true(off_by("qwen3next", decay_and_rate_swapped) > 1e-2);
}

#define CASE(name)                                                                                                     \
    static void name##_agrees_with_transformers(void **state)                                                          \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        check(#name);                                                                                                  \
    }
CASE(qwen3moe)
CASE(qwen3moe_raw)
CASE(qwen3next)
CASE(qwen35moe)
CASE(qwen35)
CASE(qwen35_r3)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3moe_agrees_with_transformers),  cmocka_unit_test(qwen3moe_raw_agrees_with_transformers),
        cmocka_unit_test(qwen3next_agrees_with_transformers), cmocka_unit_test(qwen35moe_agrees_with_transformers),
        cmocka_unit_test(qwen35_agrees_with_transformers),    cmocka_unit_test(qwen35_r3_agrees_with_transformers),
        cmocka_unit_test(a_changed_model_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
