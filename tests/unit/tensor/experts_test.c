/* experts_test.c: routed experts on every kernel table of this machine against single matmuls of each expert, the
 * promise that a row's bits depend on nothing but the row, and how many experts a batch touches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tensor/backend.h"
#include "tensor/quant.h"
#include "unit/slow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 256, FFN = 256, EXPERTS = 12, USED = 3, ROWS_MAX = 700, STACKS = 3 };
static const char *const TABLES[] = {"generic", "avx2", "avx512", "avx512bf16", "neon"};
static const dtype TYPES[] = {DT_F32, DT_BF16, DT_Q8_0, DT_Q4_1, DT_Q4_K, DT_Q6_K, DT_MXFP8};
enum { TABLE_COUNT = 5, TYPE_COUNT = sizeof TYPES / sizeof TYPES[0] };

typedef struct {
    backend *b;
    uint8_t *raw[STACKS]; /* gate, up, down: EXPERTS matrices each */
    weight *stacks[STACKS];
    buffer *x, *out, *logits, *picks;
} mixture;

static float uniform(rng *r, float size)
{
    return ((float)rng_below(r, 1u << 24) / (1 << 23) - 1) * size;
}

static void fill_raw(dtype type, uint8_t *raw, size_t bytes, rng *r)
{
    const dtype_info *info = dtype_get(type);
    for (size_t i = 0; i < bytes; i++)
        raw[i] = (uint8_t)rng_below(r, 256);
    uint16_t scale = f32_to_f16(0.002f);
    for (uint8_t *at = raw; at < raw + bytes; at += info->block_bytes) {
        float x = uniform(r, 0.2f);
        uint16_t half = f32_to_bf16(x);
        if (type == DT_F32)
            memcpy(at, &x, 4);
        else if (type == DT_BF16)
            memcpy(at, &half, 2);
        else if (type == DT_MXFP8)
            at[0] = 112;
        else
            memcpy(at + (type == DT_Q6_K ? 208 : 0), &scale, 2);
        if (type == DT_Q4_1 || type == DT_Q4_K)
            memcpy(at + 2, &scale, 2);
    }
}

static size_t row_bytes(dtype type, uint32_t cols)
{
    return dtype_row_bytes(dtype_get(type), cols);
}

static void fill_buffer(backend *b, buffer *to, size_t floats, float size, rng *r)
{
    float *values = malloc(floats * sizeof *values);
    for (size_t i = 0; i < floats; i++)
        values[i] = uniform(r, size);
    b->ops->upload(b, to, 0, values, floats);
    free(values);
}

/* False: this machine has no such table. */
static bool mixture_open(mixture *m, const char *table, uint32_t threads, dtype type)
{
    error err = {0};
    rng r = {type + 1};
    *m = (mixture){0};
    if (cpu_backend_open(&m->b, &(backend_config){threads, table}, &err))
        return false;
    const backend_ops *ops = m->b->ops;
    for (int s = 0; s < STACKS; s++) {
        uint32_t rows = s < 2 ? FFN : HIDDEN, cols = s < 2 ? HIDDEN : FFN;
        size_t matrix = rows * row_bytes(type, cols);
        m->raw[s] = malloc(EXPERTS * matrix);
        fill_raw(type, m->raw[s], EXPERTS * matrix, &r);
        assert_int_equal(ops->stack_create(m->b, type, EXPERTS, rows, cols, &m->stacks[s], &err), OK);
        for (uint32_t row = 0; row < EXPERTS * rows; row += WEIGHT_BAND_ROWS)
            ops->weight_fill(m->b, m->stacks[s], row, WEIGHT_BAND_ROWS, m->raw[s] + row * row_bytes(type, cols));
    }
    assert_int_equal(ops->buffer_create(m->b, ROWS_MAX * HIDDEN, &m->x), OK);
    assert_int_equal(ops->buffer_create(m->b, ROWS_MAX * HIDDEN, &m->out), OK);
    assert_int_equal(ops->buffer_create(m->b, ROWS_MAX * EXPERTS, &m->logits), OK);
    assert_int_equal(ops->buffer_create(m->b, ROWS_MAX * 2 * USED, &m->picks), OK);
    fill_buffer(m->b, m->x, ROWS_MAX * HIDDEN, 1, &r);
    fill_buffer(m->b, m->logits, ROWS_MAX * EXPERTS, 3, &r);
    return true;
}

static void mixture_close(mixture *m)
{
    for (int s = 0; s < STACKS; s++) {
        m->b->ops->weight_destroy(m->b, m->stacks[s]);
        free(m->raw[s]);
    }
    m->b->ops->buffer_destroy(m->b, m->x);
    m->b->ops->buffer_destroy(m->b, m->out);
    m->b->ops->buffer_destroy(m->b, m->logits);
    m->b->ops->buffer_destroy(m->b, m->picks);
    m->b->ops->close(m->b);
}

/* Rows [first, first + rows) on top of zeros; touched: EXPERTS bytes or NULL. */
static void run_rows(const mixture *m, uint32_t first, uint32_t rows, bool normalize, uint8_t *touched, float *got)
{
    static const float zeros[ROWS_MAX * HIDDEN];
    view at = {m->out, (size_t)first * HIDDEN, HIDDEN};
    m->b->ops->upload(m->b, m->out, at.offset, zeros, (size_t)rows * HIDDEN);
    view picks = {m->picks, (size_t)first * 2 * USED, 2 * USED};
    m->b->ops->route(m->b, &(route_args){.logits = {m->logits, (size_t)first * EXPERTS, EXPERTS},
                                         .picks = picks,
                                         .rows = rows,
                                         .experts = EXPERTS,
                                         .used = USED,
                                         .normalize = normalize});
    experts_args a = {.x = {m->x, (size_t)first * HIDDEN, HIDDEN}, .out = at, .picks = picks, .rows = rows};
    a.used = USED, a.act = ACT_SILU, a.touched = touched;
    a.gate = m->stacks[0], a.up = m->stacks[1], a.down = m->stacks[2];
    for (; a.first < EXPERTS; a.first = a.end) { /* in slices that differ from call to call */
        a.end = a.first + 1 + (a.first + rows) % 7;
        a.end = a.end < EXPERTS ? a.end : EXPERTS;
        m->b->ops->experts(m->b, &a);
    }
    m->b->ops->download(m->b, m->out, at.offset, got, (size_t)rows * HIDDEN);
}

/* One expert's output for all rows, through plain ops. */
static void single_expert(const mixture *m, dtype type, uint32_t expert, uint32_t rows, float *out)
{
    const backend_ops *ops = m->b->ops;
    error err = {0};
    weight *w[STACKS];
    buffer *gate, *up, *down;
    for (int s = 0; s < STACKS; s++) {
        uint32_t n = s < 2 ? FFN : HIDDEN, cols = s < 2 ? HIDDEN : FFN;
        const uint8_t *raw = m->raw[s] + (size_t)expert * n * row_bytes(type, cols);
        assert_int_equal(ops->weight_create(m->b, type, n, cols, raw, &w[s], &err), OK);
    }
    assert_int_equal(ops->buffer_create(m->b, (size_t)rows * FFN, &gate), OK);
    assert_int_equal(ops->buffer_create(m->b, (size_t)rows * FFN, &up), OK);
    assert_int_equal(ops->buffer_create(m->b, (size_t)rows * HIDDEN, &down), OK);
    ops->matmul(m->b,
                &(matmul_args){.x = {m->x, 0, HIDDEN},
                               .rows = rows,
                               .target_count = 2,
                               .targets = {{.w = w[0], .out = {gate, 0, FFN}}, {.w = w[1], .out = {up, 0, FFN}}}});
    ops->act_mul(m->b, &(act_mul_args){{gate, 0, FFN}, {up, 0, FFN}, {gate, 0, FFN}, rows, FFN, ACT_SILU});
    ops->matmul(m->b, &(matmul_args){.x = {gate, 0, FFN},
                                     .rows = rows,
                                     .target_count = 1,
                                     .targets = {{.w = w[2], .out = {down, 0, HIDDEN}}}});
    ops->download(m->b, down, 0, out, (size_t)rows * HIDDEN);
    ops->buffer_destroy(m->b, gate);
    ops->buffer_destroy(m->b, up);
    ops->buffer_destroy(m->b, down);
    for (int s = 0; s < STACKS; s++)
        ops->weight_destroy(m->b, w[s]);
}

/* shares[e] of the used experts, 0 of the others. */
static void expected_shares(const float *logits, bool normalize, double shares[EXPERTS])
{
    double all = 0, used = 0;
    for (int e = 0; e < EXPERTS; e++)
        all += exp((double)logits[e]);
    for (int e = 0; e < EXPERTS; e++) {
        int larger = 0;
        for (int o = 0; o < EXPERTS; o++)
            larger += logits[o] > logits[e] || (logits[o] == logits[e] && o < e);
        shares[e] = larger < USED ? exp((double)logits[e]) / all : 0;
        used += shares[e];
    }
    for (int e = 0; e < EXPERTS && normalize; e++)
        shares[e] /= used;
}

static void check_sums(const mixture *m, dtype type, uint32_t rows, bool normalize)
{
    float *each = malloc(EXPERTS * rows * HIDDEN * sizeof *each), *got = malloc(rows * HIDDEN * sizeof *got);
    float *logits = malloc(rows * EXPERTS * sizeof *logits);
    for (uint32_t e = 0; e < EXPERTS; e++)
        single_expert(m, type, e, rows, each + (size_t)e * rows * HIDDEN);
    m->b->ops->download(m->b, m->logits, 0, logits, rows * EXPERTS);
    run_rows(m, 0, rows, normalize, NULL, got);
    for (uint32_t r = 0; r < rows; r++) {
        double shares[EXPERTS];
        expected_shares(logits + (size_t)r * EXPERTS, normalize, shares);
        for (uint32_t i = 0; i < HIDDEN; i++) {
            double want = 0, size = 0;
            for (uint32_t e = 0; e < EXPERTS; e++) {
                double y = shares[e] * (double)each[((size_t)e * rows + r) * HIDDEN + i];
                want += y;
                size += fabs(y);
            }
            if (!(fabs((double)got[(size_t)r * HIDDEN + i] - want) <= 2e-6 * size + 1e-9))
                fail_msg("%s %s row %u of %u, output %u: %.9g, expected %.9g", m->b->kernels, dtype_get(type)->name, r,
                         rows, i, (double)got[(size_t)r * HIDDEN + i], want);
        }
    }
    free(each);
    free(got);
    free(logits);
}

static void a_row_is_the_weighted_sum_of_its_experts(void **state)
{
    (void)state;
    mixture m;
    for (int t = 0; t < TABLE_COUNT; t++)
        for (int i = 0; i < TYPE_COUNT; i++) {
            if (!mixture_open(&m, TABLES[t], 2, TYPES[i]))
                continue;
            check_sums(&m, TYPES[i], 1, true);
            check_sums(&m, TYPES[i], 37, true);
            check_sums(&m, TYPES[i], 5, false);
            mixture_close(&m);
        }
}

/* 700 rows: several runs and groups, experts of 150 rows; then a few, then one by one. */
static void a_rows_bits_do_not_depend_on_the_others(void **state)
{
    (void)state;
    mixture m;
    static float all[ROWS_MAX * HIDDEN], part[ROWS_MAX * HIDDEN];
    static const uint32_t SIZES[] = {1, 2, 4, 7, 20, 64, 130, 512};
    enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0], SOME_ROWS = 330 };
    for (int t = 0; t < TABLE_COUNT; t++)
        for (int i = 0; i < TYPE_COUNT; i++) {
            if (!mixture_open(&m, TABLES[t], 2, TYPES[i]))
                continue;
            bool whole = (t + i) % (int)slowly(1, 4) == 0;
            run_rows(&m, 0, whole ? ROWS_MAX : SOME_ROWS, true, NULL, all);
            mixture_close(&m);
            mixture_open(&m, TABLES[t], 1, TYPES[i]);
            uint32_t sizes = whole ? SIZE_COUNT : SIZE_COUNT - 1;
            for (uint32_t s = 0, first = 3; s < sizes; s++, first = (first + 57) % 180) {
                run_rows(&m, first, SIZES[s], true, NULL, part);
                if (memcmp(part, all + (size_t)first * HIDDEN, SIZES[s] * HIDDEN * sizeof *part))
                    fail_msg("%s %s: other bits in a batch of %u rows", TABLES[t], dtype_get(TYPES[i])->name, SIZES[s]);
            }
            mixture_close(&m);
        }
}

static void of_equal_experts_the_lower_id_is_taken(void **state)
{
    (void)state;
    mixture m;
    uint8_t touched[EXPERTS] = {0};
    float got[HIDDEN], logits[EXPERTS];
    assert_true(mixture_open(&m, NULL, 1, DT_F32));
    for (int e = 0; e < EXPERTS; e++)
        logits[e] = e == 7 ? 2.0f : e == 2 ? -1.0f : 1.0f;
    m.b->ops->upload(m.b, m.logits, 0, logits, EXPERTS);
    run_rows(&m, 0, 1, true, touched, got);
    for (int e = 0; e < EXPERTS; e++)
        assert_int_equal(touched[e], e == 7 || e == 0 || e == 1);
    mixture_close(&m);
}

/* 256 experts of which a row takes 8: B independent rows touch 256 (1 - (31/32)^B) of them. */
static void a_batch_touches_as_many_experts_as_chance_says(void **state)
{
    (void)state;
    enum { MANY = 256, TAKEN = 8, SMALL = 32, TRIALS = 200 };
    static const uint32_t BATCHES[] = {1, 2, 8, 32, 128};
    error err = {0};
    backend *b;
    weight *w;
    buffer *x, *out, *logits, *picks;
    rng r = {5};
    static float raw[MANY * SMALL * SMALL];
    assert_int_equal(cpu_backend_open(&b, &(backend_config){2, NULL}, &err), OK);
    assert_int_equal(b->ops->stack_create(b, DT_F32, MANY, SMALL, SMALL, &w, &err), OK);
    for (uint32_t e = 0; e < MANY; e++)
        b->ops->weight_fill(b, w, e * SMALL, SMALL, raw + (size_t)e * SMALL * SMALL);
    assert_int_equal(b->ops->buffer_create(b, 128 * SMALL, &x), OK);
    assert_int_equal(b->ops->buffer_create(b, 128 * SMALL, &out), OK);
    assert_int_equal(b->ops->buffer_create(b, 128 * MANY, &logits), OK);
    assert_int_equal(b->ops->buffer_create(b, 128 * 2 * TAKEN, &picks), OK);
    for (size_t i = 0; i < sizeof BATCHES / sizeof BATCHES[0]; i++) {
        double sum = 0, want = MANY * (1 - pow(1 - (double)TAKEN / MANY, BATCHES[i]));
        for (int trial = 0; trial < TRIALS; trial++) {
            uint8_t touched[MANY] = {0};
            fill_buffer(b, logits, (size_t)BATCHES[i] * MANY, 4, &r);
            b->ops->route(b, &(route_args){{logits, 0, MANY}, {picks, 0, 2 * TAKEN}, BATCHES[i], MANY, TAKEN, true});
            experts_args a = {.x = {x, 0, SMALL}, .out = {out, 0, SMALL}, .picks = {picks, 0, 2 * TAKEN}};
            a.rows = BATCHES[i], a.used = TAKEN, a.end = MANY, a.gate = a.up = a.down = w, a.touched = touched;
            b->ops->experts(b, &a);
            for (uint32_t e = 0; e < MANY; e++)
                sum += touched[e];
        }
        double mean = sum / TRIALS, spread = sqrt(want * (1 - want / MANY) / TRIALS);
        printf("%3u rows: %.2f experts, expected %.2f +- %.2f\n", BATCHES[i], mean, want, spread);
        assert_true(fabs(mean - want) <= 4 * spread + 1e-9);
    }
    b->ops->weight_destroy(b, w);
    b->ops->buffer_destroy(b, x);
    b->ops->buffer_destroy(b, out);
    b->ops->buffer_destroy(b, logits);
    b->ops->buffer_destroy(b, picks);
    b->ops->close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_the_weighted_sum_of_its_experts),
        cmocka_unit_test(a_rows_bits_do_not_depend_on_the_others),
        cmocka_unit_test(of_equal_experts_the_lower_id_is_taken),
        cmocka_unit_test(a_batch_touches_as_many_experts_as_chance_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
