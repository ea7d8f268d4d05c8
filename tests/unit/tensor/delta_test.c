/* delta_test.c: the gated delta op on every kernel table of this machine against the formulas of models.md B.4 in
 * double precision, and the promise that neither other sequences nor where a run of tokens is cut, nor what is copied
 * on the way, show in a row's bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tensor/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 600, SLOTS = 3, TABLE_COUNT = 4, LAYERS = 2, SETS = 6, SET_PAGES = 64 /* hold a state */ };
static const char *const TABLES[] = {"generic", "avx2", "avx512", "neon"};

typedef struct {
    uint32_t key_heads, value_heads, key_dim, value_dim, taps;
    bool grouped;
} shape;
static const shape SHAPES[] = {
    {2, 4, 16, 16, 4, true}, {2, 4, 32, 48, 4, false}, {1, 3, 128, 64, 2, true}, {3, 3, 48, 32, 3, false}};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof SHAPES[0] };

typedef struct {
    shape s;
    uint32_t channels, inner;
    float *qkv, *z, *a, *b, *conv, *dt, *decay, *norm; /* host */
    backend *device;
    state_cache *cache;
    kv_cache *paged; /* for saved states */
    size_t page_bytes;
    uint32_t state_pages, sets[SETS][SET_PAGES];
    buffer *d_qkv, *d_z, *d_a, *d_b, *d_conv, *d_dt, *d_decay, *d_norm, *d_out;
} layer;

static float *values(rng *r, size_t count, float low, float high)
{
    float *v = malloc(count * sizeof *v);
    for (size_t i = 0; i < count; i++)
        v[i] = low + (high - low) * (float)rng_unit(r);
    return v;
}

static buffer *on_device(layer *l, const float *v, size_t count)
{
    buffer *b;
    assert_int_equal(l->device->ops->buffer_create(l->device, count, &b), OK);
    if (v)
        l->device->ops->upload(l->device, b, 0, v, count);
    return b;
}

static bool layer_open(layer *l, const char *table, uint32_t threads, shape s)
{
    error err = {0};
    rng r = {s.key_dim};
    *l = (layer){.s = s, .inner = s.value_heads * s.value_dim};
    l->channels = 2 * s.key_heads * s.key_dim + l->inner;
    if (cpu_backend_open(&l->device, &(backend_config){threads, table}, &err))
        return false;
    state_config config = {LAYERS, SLOTS, s.key_heads, s.value_heads, s.key_dim, s.value_dim, s.taps};
    assert_int_equal(l->device->ops->state_create(l->device, &config, &l->cache, &err), OK);
    kv_cache_config kv = {.layers = 1, .kv_heads = 1, .head_dim = 32, .page_count = SETS * SET_PAGES};
    state_config one = config;
    one.slots = 1;
    assert_int_equal(l->device->ops->kv_create(l->device, &kv, &l->paged, &err), OK);
    l->page_bytes = l->device->ops->kv_page_bytes(&kv);
    l->state_pages = (uint32_t)((l->device->ops->state_bytes(&one) + l->page_bytes - 1) / l->page_bytes);
    assert_true(l->state_pages <= SET_PAGES);
    for (uint32_t i = 0; i < SETS * SET_PAGES; i++) { /* scattered, and full of others' bytes */
        l->sets[i / SET_PAGES][i % SET_PAGES] = i * 37 % (SETS * SET_PAGES);
        memset(l->device->ops->kv_page_at(l->device, l->paged, i), 0x5a, l->page_bytes);
    }
    l->qkv = values(&r, (size_t)TOKENS * l->channels, -2, 2);
    l->z = values(&r, (size_t)TOKENS * l->inner, -2, 2);
    l->a = values(&r, (size_t)TOKENS * s.value_heads, -3, 30);
    l->b = values(&r, (size_t)TOKENS * s.value_heads, -2, 2);
    l->conv = values(&r, (size_t)s.taps * l->channels, -1, 1);
    l->dt = values(&r, s.value_heads, -1, 1);
    l->decay = values(&r, s.value_heads, -0.2f, -0.001f);
    l->norm = values(&r, s.value_dim, 0.5f, 1.5f);
    l->d_qkv = on_device(l, NULL, (size_t)TOKENS * l->channels);
    l->d_z = on_device(l, l->z, (size_t)TOKENS * l->inner);
    l->d_a = on_device(l, l->a, (size_t)TOKENS * s.value_heads);
    l->d_b = on_device(l, l->b, (size_t)TOKENS * s.value_heads);
    l->d_conv = on_device(l, l->conv, (size_t)s.taps * l->channels);
    l->d_dt = on_device(l, l->dt, s.value_heads);
    l->d_decay = on_device(l, l->decay, s.value_heads);
    l->d_norm = on_device(l, l->norm, s.value_dim);
    l->d_out = on_device(l, NULL, (size_t)TOKENS * l->inner);
    return true;
}

static void layer_close(layer *l)
{
    buffer *all[] = {l->d_qkv, l->d_z, l->d_a, l->d_b, l->d_conv, l->d_dt, l->d_decay, l->d_norm, l->d_out};
    float *host[] = {l->qkv, l->z, l->a, l->b, l->conv, l->dt, l->decay, l->norm};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        l->device->ops->buffer_destroy(l->device, all[i]);
    for (size_t i = 0; i < sizeof host / sizeof *host; i++)
        free(host[i]);
    l->device->ops->state_destroy(l->device, l->cache);
    l->device->ops->kv_destroy(l->device, l->paged);
    l->device->ops->close(l->device);
}

/* Segments whose rows are tokens of the input at `row`; the result of rows [0, rows) goes to got. */
static void run_layer(layer *l, uint32_t index, const state_segment *segments, uint32_t count, uint32_t rows,
                      const state_copy *copies, uint32_t copy_count, float *got)
{
    const backend_ops *ops = l->device->ops;
    ops->delta(l->device, &(delta_args){.cache = l->cache,
                                        .layer = index,
                                        .qkv = {l->d_qkv, 0, l->channels},
                                        .z = {l->d_z, 0, l->inner},
                                        .out = {l->d_out, 0, l->inner},
                                        .a = {l->d_a, 0, l->s.value_heads},
                                        .b = {l->d_b, 0, l->s.value_heads},
                                        .conv = l->d_conv,
                                        .dt = l->d_dt,
                                        .decay = l->d_decay,
                                        .norm = l->d_norm,
                                        .grouped = l->s.grouped,
                                        .eps = 1e-6f,
                                        .segments = segments,
                                        .segment_count = count,
                                        .copy_pages = l->paged,
                                        .copies = copies,
                                        .copy_count = copy_count});
    ops->download(l->device, l->d_out, 0, got, (size_t)rows * l->inner);
}

static void run(layer *l, const state_segment *segments, uint32_t count, uint32_t rows, float *got)
{
    run_layer(l, 1, segments, count, rows, NULL, 0, got);
}

static void restore_input(layer *l)
{
    l->device->ops->upload(l->device, l->d_qkv, 0, l->qkv, (size_t)TOKENS * l->channels);
}

/* --- the formulas --- */

static double convolved(const layer *l, uint32_t t, uint32_t channel)
{
    double sum = 0;
    for (uint32_t j = 0; j < l->s.taps; j++)
        if (t + j + 1 >= l->s.taps)
            sum += (double)l->conv[(size_t)j * l->channels + channel] *
                   (double)l->qkv[(size_t)(t + j + 1 - l->s.taps) * l->channels + channel];
    return sum / (1 + exp(-sum));
}

static void unit(const layer *l, uint32_t t, uint32_t channel, double length, double *out)
{
    double square = 1e-6;
    for (uint32_t i = 0; i < l->s.key_dim; i++) {
        out[i] = convolved(l, t, channel + i);
        square += out[i] * out[i];
    }
    for (uint32_t i = 0; i < l->s.key_dim; i++)
        out[i] *= length / sqrt(square);
}

static void expected_head(const layer *l, uint32_t head, uint32_t rows, double *out) /* (rows, value_dim) */
{
    const shape *s = &l->s;
    uint32_t key = s->grouped ? head / (s->value_heads / s->key_heads) : head % s->key_heads, dv = s->value_dim;
    double *S = calloc((size_t)s->key_dim * dv, sizeof *S), q[128], k[128];
    for (uint32_t t = 0; t < rows; t++) {
        unit(l, t, key * s->key_dim, 1 / sqrt(s->key_dim), q);
        unit(l, t, (s->key_heads + key) * s->key_dim, 1, k);
        double x = (double)l->a[t * s->value_heads + head] + (double)l->dt[head];
        double alpha = exp((double)l->decay[head] * (x > 20 ? x : log1p(exp(x)))), square = 0;
        double beta = 1 / (1 + exp(-(double)l->b[t * s->value_heads + head]));
        for (uint32_t c = 0; c < dv; c++) {
            double m = 0, o = 0, v = convolved(l, t, 2 * s->key_heads * s->key_dim + head * dv + c);
            for (uint32_t i = 0; i < s->key_dim; i++)
                m += (S[i * dv + c] *= alpha) * k[i];
            for (uint32_t i = 0; i < s->key_dim; i++)
                o += (S[i * dv + c] += k[i] * beta * (v - m)) * q[i];
            out[t * dv + c] = o;
            square += o * o;
        }
        for (uint32_t c = 0; c < dv; c++) {
            double z = (double)l->z[t * l->inner + head * dv + c];
            out[t * dv + c] *= (double)l->norm[c] / sqrt(square / dv + 1e-6) * z / (1 + exp(-z));
        }
    }
    free(S);
}

static void the_op_follows_the_formulas(void **state)
{
    (void)state;
    enum { ROWS = 70 };
    for (int t = 0; t < TABLE_COUNT; t++)
        for (int i = 0; i < SHAPE_COUNT; i++) {
            layer l;
            if (!layer_open(&l, TABLES[t], 2, SHAPES[i]))
                continue;
            float *got = malloc((size_t)ROWS * l.inner * sizeof *got);
            double *want = malloc((size_t)ROWS * l.s.value_dim * sizeof *want), worst = 0;
            restore_input(&l);
            run(&l, &(state_segment){1, 0, 0, ROWS}, 1, ROWS, got);
            for (uint32_t h = 0; h < l.s.value_heads; h++) {
                expected_head(&l, h, ROWS, want);
                for (uint32_t r = 0; r < ROWS; r++)
                    for (uint32_t c = 0; c < l.s.value_dim; c++)
                        worst = fmax(worst, fabs((double)got[(size_t)r * l.inner + h * l.s.value_dim + c] -
                                                 want[r * l.s.value_dim + c]));
            }
            if (!(worst <= 2e-4))
                fail_msg("%s, shape %d: off by %.2g", TABLES[t], i, worst);
            free(got);
            free(want);
            layer_close(&l);
        }
}

/* Token by token, in odd runs, beside other sequences, with the state carried to another slot on the way. */
static void how_tokens_are_cut_shows_in_no_bit(void **state)
{
    (void)state;
    static const uint32_t CUTS[] = {1, 1, 2, 1, 64, 3, 100, 7, 1, 320};
    for (int t = 0; t < TABLE_COUNT; t++)
        for (int i = 0; i < SHAPE_COUNT; i++) {
            layer l;
            if (!layer_open(&l, TABLES[t], 2, SHAPES[i]))
                continue;
            float *whole = malloc((size_t)TOKENS * l.inner * sizeof *whole),
                  *got = malloc(TOKENS * l.inner * sizeof *got);
            restore_input(&l);
            run(&l, &(state_segment){0, 0, 0, 500}, 1, 500, whole);
            restore_input(&l);
            for (uint32_t c = 0, at = 0, slot = 1; c < sizeof CUTS / sizeof CUTS[0]; at += CUTS[c++]) {
                state_segment two[] = {{0, 0, 510, 5}, {slot, at, at, CUTS[c]}}; /* the first begins anew each time */
                restore_input(&l);
                run(&l, two, 2, TOKENS, got);
                if (memcmp(got + (size_t)at * l.inner, whole + (size_t)at * l.inner, CUTS[c] * l.inner * sizeof *got))
                    fail_msg("%s, shape %d: other bits in %u tokens at %u", TABLES[t], i, CUTS[c], at);
                l.device->ops->state_save(l.device, l.cache, slot, l.paged, l.sets[c % SETS]);
                slot = 3 - slot;
                l.device->ops->state_load(l.device, l.cache, slot, l.paged, l.sets[c % SETS]);
            }
            free(whole);
            free(got);
            layer_close(&l);
        }
}

/* Are the pages of two sets alike, to the last byte? */
static bool same_pages(const layer *l, uint32_t set, uint32_t other)
{
    const backend_ops *ops = l->device->ops;
    for (uint32_t i = 0; i < l->state_pages; i++)
        if (memcmp(ops->kv_page_at(l->device, l->paged, l->sets[set][i]),
                   ops->kv_page_at(l->device, l->paged, l->sets[other][i]), l->page_bytes))
            return false;
    return true;
}

/* Copies after the first row, around the border of a kernel's rows, and after the last; of two sequences. */
static void copies_on_the_way(layer *l)
{
    enum { FIRST = 520, SECOND = 40, ROWS = FIRST + SECOND };
    static const uint32_t AT[] = {0, 3, 511, FIRST - 1, FIRST + 12};
    enum { COUNT = sizeof AT / sizeof AT[0] };
    size_t floats = (size_t)ROWS * l->inner;
    float *plain = malloc(floats * sizeof *plain), *got = malloc(floats * sizeof *got);
    state_segment both[] = {{0, 0, 0, FIRST}, {2, 0, FIRST, SECOND}};
    state_copy copies[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        copies[i] = (state_copy){AT[i], l->sets[i]};
    for (uint32_t index = 0; index < LAYERS; index++) {
        restore_input(l);
        run_layer(l, index, both, 2, ROWS, NULL, 0, plain);
        restore_input(l);
        run_layer(l, index, both, 2, ROWS, copies, COUNT, got);
        assert_memory_equal(plain, got, floats * sizeof *got);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        bool later = AT[i] >= FIRST;
        state_segment upto = {1, 0, later ? FIRST : 0, AT[i] + 1 - (later ? FIRST : 0)};
        for (uint32_t index = 0; index < LAYERS; index++) {
            restore_input(l);
            run_layer(l, index, &upto, 1, ROWS, NULL, 0, got);
        }
        l->device->ops->state_save(l->device, l->cache, 1, l->paged, l->sets[COUNT]);
        assert_true(same_pages(l, i, COUNT));
        for (uint32_t k = 0; k < i; k++)
            assert_false(same_pages(l, k, COUNT));
    }
    free(plain);
    free(got);
}

static void copies_are_what_would_be_saved_there(void **state)
{
    (void)state;
    for (int t = 0; t < TABLE_COUNT; t++)
        for (int i = 0; i < SHAPE_COUNT; i++) {
            layer l;
            if (!layer_open(&l, TABLES[t], 2, SHAPES[i]))
                continue;
            copies_on_the_way(&l);
            layer_close(&l);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_op_follows_the_formulas),
        cmocka_unit_test(how_tokens_are_cut_shows_in_no_bit),
        cmocka_unit_test(copies_are_what_would_be_saved_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
