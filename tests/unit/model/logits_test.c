/* tests/unit/model/logits_test.c: our logits against Hugging Face transformers on tiny random checkpoints
 * (tests/numeric/arch_vectors.py). */
#include "fixture.h"

#include <math.h>

typedef struct {
    uint32_t count, vocab;
    int32_t *tokens;
    float *logits, *logits_f16_cache; /* (count, vocab); the second with K and V rounded to f16 */
} reference;

static reference read_reference(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, VECTORS "%s.bin", name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    reference r;
    assert_int_equal(fread(&r.count, 4, 1, in) + fread(&r.vocab, 4, 1, in), 2);
    r.tokens = malloc(r.count * sizeof *r.tokens);
    r.logits = malloc((size_t)r.count * r.vocab * sizeof *r.logits);
    assert_int_equal(fread(r.tokens, 4, r.count, in), r.count);
    assert_int_equal(fread(r.logits, 4, (size_t)r.count * r.vocab, in), (size_t)r.count * r.vocab);
    r.logits_f16_cache = malloc((size_t)r.count * r.vocab * sizeof *r.logits);
    assert_int_equal(fread(r.logits_f16_cache, 4, (size_t)r.count * r.vocab, in), (size_t)r.count * r.vocab);
    fclose(in);
    return r;
}

typedef struct {
    double f32, f16_cache; /* max |d| over the range */
} difference;

static double worst_of(const float *got, const float *want, size_t count)
{
    float low = want[0], high = low;
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        low = fminf(low, want[i]);
        high = fmaxf(high, want[i]);
        worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
    }
    return worst / ((double)high - (double)low);
}

/* Runs the prompt in chunks of `chunk`, the rest one by one after `prefill` tokens. */
static difference compare(const fixture *f, const reference *r, uint32_t chunk, uint32_t prefill)
{
    error err;
    batch *b;
    uint32_t pages[8];
    size_t count = (size_t)r->count * r->vocab;
    float *got = malloc(count * sizeof *got);
    assert_int_equal(batch_create(&b, f->model, r->count, 1, &err), OK);
    for (uint32_t i = 0; i < 8; i++)
        pages[i] = f->page_count - 1 - i;
    for (uint32_t at = 0, n; at < r->count; at += n) {
        n = at >= prefill ? 1 : prefill - at < chunk ? prefill - at : chunk;
        batch_start(b, f->cache, f->states);
        batch_add(b, 3, pages, at, r->tokens + at, n);
        while (!batch_advance(f->model, b))
            ;
        fixture_logits(f, b, got + (size_t)at * r->vocab);
    }
    difference d = {worst_of(got, r->logits, count), worst_of(got, r->logits_f16_cache, count)};
    batch_destroy(f->model, b);
    free(got);
    return d;
}

static void check(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, VECTORS "%s.gguf", name);
    reference r = read_reference(name);
    fixture f;
    fixture_open_kv(&f, path, 2, 8, KV_F32);
    difference whole = compare(&f, &r, r.count, r.count), chunked = compare(&f, &r, 37, 86);
    fixture_close(&f);
    fixture_open_kv(&f, path, 2, 8, KV_F16);
    difference half = compare(&f, &r, 37, 86);
    printf("%-14s max |d| of range: %.1e whole, %.1e in chunks and 64 decode steps; f16 caches on both sides: %.1e\n",
           name, whole.f32, chunked.f32, half.f16_cache);
    assert_true(whole.f32 <= 1e-5 && chunked.f32 <= 1e-5);
    assert_true(half.f16_cache <= 1e-4);
    free(r.tokens);
    free(r.logits);
    free(r.logits_f16_cache);
    fixture_close(&f);
}

#define CASE(name)                                                                                                     \
    static void name##_agrees_with_transformers(void **state)                                                          \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        check(#name);                                                                                                  \
    }
CASE(llama)
CASE(llama_untied)
CASE(llama_llama3)
CASE(llama_linear)
CASE(llama_yarn)
CASE(qwen2)
CASE(qwen3)
CASE(gemma3)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_agrees_with_transformers),
        cmocka_unit_test(llama_untied_agrees_with_transformers),
        cmocka_unit_test(llama_llama3_agrees_with_transformers),
        cmocka_unit_test(llama_linear_agrees_with_transformers),
        cmocka_unit_test(llama_yarn_agrees_with_transformers),
        cmocka_unit_test(qwen2_agrees_with_transformers),
        cmocka_unit_test(qwen3_agrees_with_transformers),
        cmocka_unit_test(gemma3_agrees_with_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
