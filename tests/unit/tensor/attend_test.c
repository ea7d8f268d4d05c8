/* Attention: against a double-precision reference, and against itself in other batches, chunks, pages and thread
 * counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "unit/tensor/attend_fixture.h"

enum { SEQUENCES = 3, LENGTH_MAX = 1400, PAGES_MAX = SEQUENCES * (LENGTH_MAX / KV_PAGE_TOKENS + 1) };

typedef struct {
    uint32_t length, done;
    float *q, *k, *v, *out;
    uint32_t pages[LENGTH_MAX / KV_PAGE_TOKENS + 1];
} sequence;

static const char *const KERNELS[] = {"generic", "avx2", "avx512", "neon"};

static void sequences_make(sequence *list, shape s, uint64_t seed, uint32_t length_max)
{
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        uint64_t state = seed + i;
        uint32_t n = list[i].length = 1 + random_below(&state, length_max);
        list[i].q = random_floats(&state, (size_t)n * s.heads * s.dim, 1.5f);
        list[i].k = random_floats(&state, (size_t)n * s.kv_heads * s.dim, 1.0f);
        list[i].v = random_floats(&state, (size_t)n * s.kv_heads * s.dim, 1.0f);
        list[i].out = calloc((size_t)n * s.heads * s.dim, sizeof(float));
    }
}

static void sequences_free(sequence *list)
{
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        free(list[i].q);
        free(list[i].k);
        free(list[i].v);
        free(list[i].out);
    }
}

static void deal_pages(sequence *list, uint64_t *state)
{
    uint32_t order[PAGES_MAX];
    for (uint32_t i = 0; i < PAGES_MAX; i++)
        order[i] = i;
    for (uint32_t i = PAGES_MAX - 1; i > 0; i--) {
        uint32_t j = random_below(state, i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (uint32_t i = 0, next = 0; i < SEQUENCES; i++)
        for (uint32_t p = 0; p < LENGTH_MAX / KV_PAGE_TOKENS + 1; p++) /* pages not needed yet do not exist */
            list[i].pages[p] = p * KV_PAGE_TOKENS < list[i].length ? order[next++] : UINT32_MAX;
}

/* One step: the next `counts[i]` tokens of each sequence in one batch. */
static void step(fixture *f, sequence *list, const uint32_t *counts, uint64_t *state)
{
    shape s = f->s;
    uint32_t rows = 0, gap = random_below(state, 3), n = 0, first = random_below(state, SEQUENCES);
    kv_segment segments[SEQUENCES];
    sequence *owner[SEQUENCES];
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        uint32_t at = (first + i) % SEQUENCES;
        if (!counts[at])
            continue;
        owner[n] = &list[at];
        segments[n++] = (kv_segment){list[at].pages, list[at].done, rows, counts[at]};
        rows += counts[at] + gap;
    }
    size_t q_width = (size_t)s.heads * s.dim, k_width = (size_t)s.kv_heads * s.dim;
    buffer q = buffer_of(rows * q_width), k = buffer_of(rows * k_width), v = buffer_of(rows * k_width),
           out = buffer_of(rows * q_width);
    for (uint32_t i = 0; i < n; i++) {
        size_t at = segments[i].row_start, from = owner[i]->done, c = segments[i].row_count;
        memcpy(q.data + at * q_width, owner[i]->q + from * q_width, c * q_width * 4);
        memcpy(k.data + at * k_width, owner[i]->k + from * k_width, c * k_width * 4);
        memcpy(v.data + at * k_width, owner[i]->v + from * k_width, c * k_width * 4);
    }
    uint32_t layer = s.layers - 1;
    kv_write_args write = {f->cache, layer, {&k, 0, k_width}, {&v, 0, k_width}, segments, n};
    attend_args attend = {f->cache,
                          layer,
                          {&q, 0, q_width},
                          {&out, 0, q_width},
                          s.heads,
                          segments,
                          n,
                          s.dim == 64 ? 0.125f : 1.0f / sqrtf((float)s.dim),
                          s.softcap,
                          s.window};
    cpu_kv_write(&f->cpu.base, &write);
    cpu_attend(&f->cpu.base, &attend);
    for (uint32_t i = 0; i < n; i++) {
        memcpy(owner[i]->out + owner[i]->done * q_width, out.data + segments[i].row_start * q_width,
               segments[i].row_count * q_width * 4);
        owner[i]->done += segments[i].row_count;
    }
    free(q.data), free(k.data), free(v.data), free(out.data);
}

/* Every page of the last layer holds tokens of a sequence that is gone. */
static void fill_with_junk(fixture *f, uint64_t *state)
{
    uint32_t pages[PAGES_MAX], rows = PAGES_MAX * KV_PAGE_TOKENS;
    size_t width = (size_t)f->s.kv_heads * f->s.dim;
    buffer junk = buffer_of(rows * width);
    for (size_t i = 0; i < rows * width; i++) {
        junk.data[i] = random_normal(state) * 100;
        if (random_below(state, 1000) == 0)
            junk.data[i] = i & 1 ? INFINITY : NAN;
    }
    for (uint32_t i = 0; i < PAGES_MAX; i++)
        pages[i] = i;
    kv_segment all = {pages, 0, 0, rows};
    cpu_kv_write(&f->cpu.base,
                 &(kv_write_args){f->cache, f->s.layers - 1, {&junk, 0, width}, {&junk, 0, width}, &all, 1});
    free(junk.data);
}

/* Chunks of at most `chunk_max` tokens, random when it is 0; pages dealt at random and full of another life's values.
 */
static bool run(const char *kernels, uint32_t threads, shape s, sequence *list, uint64_t seed, uint32_t chunk_max)
{
    fixture f;
    uint64_t state = seed;
    if (!fixture_open(&f, kernels, threads, s, PAGES_MAX))
        return false;
    fill_with_junk(&f, &state);
    deal_pages(list, &state);
    for (bool left = true; left;) {
        uint32_t counts[SEQUENCES];
        left = false;
        for (uint32_t i = 0; i < SEQUENCES; i++) {
            uint32_t rest = list[i].length - list[i].done;
            uint32_t most = chunk_max ? chunk_max : 1 + random_below(&state, random_below(&state, 4) ? 400 : 8);
            counts[i] = rest < most ? rest : most;
            left = left || counts[i] < rest;
        }
        step(&f, list, counts, &state);
    }
    for (uint32_t i = 0; i < SEQUENCES; i++)
        list[i].done = 0;
    fixture_close(&f);
    return true;
}

static float half_of(float x)
{
    return half_to_float(half_from_float(x));
}

/* One row and head in double; K and V rounded to f16. */
static void reference_row(const sequence *q, shape s, uint32_t position, uint32_t head, double *out)
{
    uint32_t kv_head = head / (s.heads / s.kv_heads);
    uint32_t start = s.window && position >= s.window ? position - s.window + 1 : 0;
    const float *query = q->q + ((size_t)position * s.heads + head) * s.dim;
    static double score[LENGTH_MAX];
    double scale = s.dim == 64 ? 0.125 : 1.0 / sqrt(s.dim), top = -1e300, sum = 0;
    for (uint32_t j = start; j <= position; j++) {
        const float *k = q->k + ((size_t)j * s.kv_heads + kv_head) * s.dim;
        double dot = 0;
        for (uint32_t c = 0; c < s.dim; c++)
            dot += (double)query[c] * half_of(k[c]);
        dot *= scale;
        score[j] = s.softcap > 0 ? s.softcap * tanh(dot / s.softcap) : dot;
        top = score[j] > top ? score[j] : top;
    }
    for (uint32_t c = 0; c < s.dim; c++)
        out[c] = 0;
    for (uint32_t j = start; j <= position; j++) {
        const float *v = q->v + ((size_t)j * s.kv_heads + kv_head) * s.dim;
        double p = exp(score[j] - top);
        sum += p;
        for (uint32_t c = 0; c < s.dim; c++)
            out[c] += p * half_of(v[c]);
    }
    for (uint32_t c = 0; c < s.dim; c++)
        out[c] /= sum;
}

/* The largest difference between what `run` left and the reference. */
static double worst_difference(const sequence *list, shape s)
{
    double worst = 0, want[ATTEND_DIM_MAX];
    for (uint32_t i = 0; i < SEQUENCES; i++)
        for (uint32_t position = 0; position < list[i].length; position += position < 70 ? 1 : 37)
            for (uint32_t head = 0; head < s.heads; head++) {
                reference_row(&list[i], s, position, head, want);
                const float *got = list[i].out + ((size_t)position * s.heads + head) * s.dim;
                for (uint32_t c = 0; c < s.dim; c++) {
                    double d = fabs(got[c] - want[c]);
                    worst = d > worst || d != d ? d : worst;
                }
            }
    return worst;
}

static void matches_a_double_precision_reference(void **unused)
{
    (void)unused;
    static const shape shapes[] = {
        {9, 3, 64, 2, 0, 0},    {2, 2, 16, 1, 0, 0},       {4, 1, 128, 1, 0, 0}, {8, 1, 32, 1, 0, 0},
        {4, 1, 256, 1, 100, 0}, {3, 1, 64, 1, 511, 20.0f}, {4, 2, 80, 2, 1, 0},  {3, 3, 48, 1, 64, 30.0f},
    };
    for (size_t k = 0; k < sizeof(KERNELS) / sizeof(KERNELS[0]); k++)
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
            sequence list[SEQUENCES] = {0};
            sequences_make(list, shapes[i], 77 + i, 700);
            if (run(KERNELS[k], 2, shapes[i], list, i, 0)) {
                double worst = worst_difference(list, shapes[i]);
                printf("%s heads %u/%u dim %u window %u: %.2e\n", KERNELS[k], shapes[i].heads, shapes[i].kv_heads,
                       shapes[i].dim, shapes[i].window, worst);
                assert_true(worst < (strcmp(KERNELS[k], "avx512") ? 1e-5 : 3e-3));
            }
            sequences_free(list);
        }
}

static void check_same_bits(const char *kernels, shape s, uint64_t seed)
{
    sequence alone[SEQUENCES] = {0}, batch[SEQUENCES] = {0};
    uint32_t length_max = seed % 4 ? 300 : LENGTH_MAX;
    sequences_make(alone, s, seed, length_max);
    sequences_make(batch, s, seed, length_max);
    if (run(kernels, 1, s, alone, seed + 1, 1)) {
        static const uint32_t chunks[] = {0, 0, 0, LENGTH_MAX, 7};
        assert_true(run(kernels, 1 + seed % 2, s, batch, seed + 2, chunks[seed % 5]));
        for (uint32_t i = 0; i < SEQUENCES; i++)
            if (memcmp(alone[i].out, batch[i].out, (size_t)alone[i].length * s.heads * s.dim * 4))
                fail_msg("%s: seed %lu, sequence %u of %u tokens differs", kernels, (unsigned long)seed, i,
                         alone[i].length);
    }
    sequences_free(alone);
    sequences_free(batch);
}

static void gives_the_same_bits_in_any_batch(void **unused)
{
    (void)unused;
    static const uint32_t dims[] = {16, 32, 64, 128, 256}, ratios[] = {1, 3, 4, 8}, windows[] = {0, 0, 1, 33, 64, 500};
    const char *more = getenv("ATTEND_SCHEDULES");
#ifdef __aarch64__
    uint64_t schedules = more ? strtoull(more, NULL, 10) : 6; /* under qemu, most likely */
#else
    uint64_t schedules = more ? strtoull(more, NULL, 10) : 24;
#endif
    for (size_t k = 0; k < sizeof(KERNELS) / sizeof(KERNELS[0]); k++)
        for (uint64_t seed = 1; seed <= schedules; seed++) {
            uint64_t state = seed * 31;
            shape s = {0, 1 + random_below(&state, 2),      dims[random_below(&state, 5)],
                       2, windows[random_below(&state, 6)], random_below(&state, 4) ? 0 : 15.0f};
            s.heads = s.kv_heads * ratios[random_below(&state, 4)];
            check_same_bits(KERNELS[k], s, seed);
        }
}

static void a_bad_head_dimension_is_refused_with_words(void **unused)
{
    (void)unused;
    fixture f;
    error err = {0};
    kv_cache *cache = NULL;
    kv_cache_config config = {1, 1, 20, 1, false, KV_F16};
    assert_true(fixture_open(&f, "generic", 1, (shape){1, 1, 16, 1, 0, 0}, 1));
    assert_int_equal(cpu_kv_create(&f.cpu.base, &config, &cache, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "20"));
    config = (kv_cache_config){60000, 60000, 512, UINT32_MAX, false, KV_F16};
    assert_int_not_equal(cpu_kv_create(&f.cpu.base, &config, &cache, &err), OK);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_a_double_precision_reference),
        cmocka_unit_test(gives_the_same_bits_in_any_batch),
        cmocka_unit_test(a_bad_head_dimension_is_refused_with_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
