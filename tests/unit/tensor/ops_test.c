/* Norm, rope, activations, addition: every instruction set against double precision, and rows in any company. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "unit/tensor/attend_fixture.h"

static const char *const KERNELS[] = {"generic", "avx2", "avx512", "neon"};
enum { KERNEL_COUNT = sizeof(KERNELS) / sizeof(KERNELS[0]) };

static const float_kernels *kernels_of(const char *name)
{
    cpu_kernels k;
    return cpu_kernels_choose(name, &k, NULL) ? NULL : k.floats;
}

static double worst(double so_far, double got, double want, double scale)
{
    double d = fabs(got - want) / scale;
    return d > so_far || d != d ? d : so_far;
}

static void rms_norm_matches_double(void **unused)
{
    (void)unused;
    static const uint32_t sizes[] = {1, 5, 16, 24, 64, 100, 576, 1000, 2048};
    for (int k = 0; k < KERNEL_COUNT; k++) {
        const float_kernels *kernels = kernels_of(KERNELS[k]);
        for (size_t i = 0; kernels && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            uint32_t n = sizes[i];
            uint64_t state = i;
            float *x = random_floats(&state, n, 3), *weight = random_floats(&state, n, 1),
                  *out = calloc(n, sizeof(float));
            kernels->rms_norm(out, x, weight, n, 1e-5f);
            double sum = 0, off = 0;
            for (uint32_t j = 0; j < n; j++)
                sum += (double)x[j] * x[j];
            for (uint32_t j = 0; j < n; j++)
                off = worst(off, out[j], x[j] / sqrt(sum / n + 1e-5) * weight[j], 1 + fabs(weight[j]));
            assert_true(off < 1e-6);
            kernels->rms_norm(x, x, weight, n, 1e-5f);
            assert_memory_equal(x, out, n * sizeof(float)); /* in place */
            free(x), free(weight), free(out);
        }
    }
}

static void angles_hold_up_to_a_million_positions(void **unused)
{
    (void)unused;
    float inv_freq[48], cosines[48], sines[48];
    for (int i = 0; i < 48; i++)
        inv_freq[i] = (float)pow(10000, -i / 48.0);
    static const uint32_t positions[] = {0, 1, 2, 3, 100, 4095, 32768, 131071, 999999, 1000000};
    for (int k = 0; k < KERNEL_COUNT; k++) {
        const float_kernels *kernels = kernels_of(KERNELS[k]);
        for (size_t p = 0; kernels && p < sizeof(positions) / sizeof(positions[0]); p++)
            for (uint32_t n = 3; n <= 48; n += 15) {
                double off = 0;
                kernels->rope_angles(cosines, sines, inv_freq, n, positions[p], 1.25f);
                for (uint32_t i = 0; i < n; i++) {
                    off = worst(off, cosines[i], 1.25 * cos((double)positions[p] * inv_freq[i]), 1);
                    off = worst(off, sines[i], 1.25 * sin((double)positions[p] * inv_freq[i]), 1);
                }
                assert_true(off < 4e-7);
            }
    }
}

static void rope_turns_pairs_and_halves(void **unused)
{
    (void)unused;
    for (int k = 0; k < KERNEL_COUNT; k++) {
        const float_kernels *kernels = kernels_of(KERNELS[k]);
        for (uint32_t n = 1; kernels && n <= 64; n += 7)
            for (int pairs = 0; pairs < 2; pairs++) {
                uint64_t state = n;
                float *x = random_floats(&state, 2 * n, 1), *c = random_floats(&state, n, 1);
                float *s = random_floats(&state, n, 1), *before = malloc(2 * n * sizeof(float));
                memcpy(before, x, 2 * n * sizeof(float));
                kernels->rope_turn(x, c, s, n, pairs);
                for (uint32_t i = 0; i < n; i++) {
                    uint32_t a = pairs ? 2 * i : i, b = pairs ? 2 * i + 1 : n + i;
                    assert_true(fabs(x[a] - ((double)before[a] * c[i] - (double)before[b] * s[i])) < 1e-5);
                    assert_true(fabs(x[b] - ((double)before[b] * c[i] + (double)before[a] * s[i])) < 1e-5);
                }
                free(x), free(c), free(s), free(before);
            }
    }
}

static double activate(double g, activation act)
{
    return act == ACT_SILU ? g / (1 + exp(-g))
                           : 0.5 * g * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (g + 0.044715 * g * g * g)));
}

static void activations_match_double(void **unused)
{
    (void)unused;
    enum { N = 1003 };
    float gate[N], up[N], out[N];
    for (int i = 0; i < N; i++) {
        gate[i] = (float)(i - 500) * 0.05f;
        up[i] = i & 1 ? 1.0f : -2.0f;
    }
    gate[0] = -1e4f;
    gate[1] = 1e4f;
    for (int k = 0; k < KERNEL_COUNT; k++) {
        const float_kernels *kernels = kernels_of(KERNELS[k]);
        for (int act = ACT_SILU; kernels && act <= ACT_GELU_TANH; act++) {
            double off = 0;
            kernels->act_mul(out, gate, up, N, (activation)act);
            for (int i = 0; i < N; i++)
                off = worst(off, out[i], activate(gate[i], (activation)act) * up[i], 1 + fabs(gate[i]));
            assert_true(off < 1e-6);
            kernels->act_mul(gate, gate, up, 0, (activation)act);
        }
    }
}

/* All ops of a backend over `rows` rows, threads 1 or 2; the caller compares. */
static void run_ops(fixture *f, float *x, const float *y, uint32_t rows, const uint32_t *positions)
{
    enum { WIDTH = 9 * 64 };
    float inv_freq[32];
    for (int i = 0; i < 32; i++)
        inv_freq[i] = (float)pow(10000, -i / 32.0);
    buffer a = {x, (size_t)rows * WIDTH}, weight = buffer_of(WIDTH), b = buffer_of((size_t)rows * WIDTH);
    for (int i = 0; i < WIDTH; i++)
        weight.data[i] = 1 + (float)i / WIDTH;
    memcpy(b.data, y, (size_t)rows * WIDTH * 4);
    view va = {&a, 0, WIDTH}, vb = {&b, 0, WIDTH};
    cpu_rms_norm(&f->cpu.base, &(rms_norm_args){va, va, rows, 1, WIDTH, &weight, 1e-5f});
    cpu_rms_norm(&f->cpu.base, &(rms_norm_args){va, va, rows, 9, 64, &weight, 1e-5f});
    cpu_rope(&f->cpu.base, &(rope_args){va, rows, 9, 64, 64, false, inv_freq, 1, positions});
    cpu_act_mul(&f->cpu.base, &(act_mul_args){va, vb, va, rows, WIDTH, ACT_SILU});
    cpu_add(&f->cpu.base, &(add_args){vb, va, rows, WIDTH});
    free(weight.data), free(b.data);
}

static void rows_do_not_know_their_company(void **unused)
{
    (void)unused;
    enum { ROWS = 150, WIDTH = 9 * 64 };
    uint64_t state = 3;
    float *x = random_floats(&state, ROWS * WIDTH, 1), *y = random_floats(&state, ROWS * WIDTH, 1);
    float *many = malloc(ROWS * WIDTH * 4), *one = malloc(ROWS * WIDTH * 4);
    uint32_t positions[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        positions[i] = i * 7 % 90;
    for (int k = 0; k < KERNEL_COUNT; k++) {
        fixture f;
        if (!fixture_open(&f, KERNELS[k], 2, (shape){1, 1, 16, 1, 0, 0}, KV_F16, 1))
            continue;
        memcpy(many, x, ROWS * WIDTH * 4);
        memcpy(one, x, ROWS * WIDTH * 4);
        run_ops(&f, many, y, ROWS, positions);
        for (uint32_t r = 0; r < ROWS; r++)
            run_ops(&f, one + r * WIDTH, y + r * WIDTH, 1, positions + r);
        assert_memory_equal(many, one, ROWS * WIDTH * 4);
        fixture_close(&f);
    }
    free(x), free(y), free(many), free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms_norm_matches_double),        cmocka_unit_test(angles_hold_up_to_a_million_positions),
        cmocka_unit_test(rope_turns_pairs_and_halves),    cmocka_unit_test(activations_match_double),
        cmocka_unit_test(rows_do_not_know_their_company),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
