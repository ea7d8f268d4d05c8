/* matmul_test.c: every type on every kernel table of this machine against double precision over the same int8
 * activations, and the promise that a row's bits depend on nothing but the row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/backend.h"
#include "tensor/quant.h"
#include "unit/slow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const dtype TYPES[] = {
    DT_F32,     DT_F16,     DT_BF16,    DT_Q4_0,    DT_Q4_1,    DT_Q5_0,    DT_Q5_1,         DT_Q8_0,       DT_Q2_K,
    DT_Q3_K,    DT_Q4_K,    DT_Q5_K,    DT_Q6_K,    DT_IQ4_NL,  DT_IQ4_XS,  DT_MXFP4,        DT_MXFP8,      DT_NVFP4,
    DT_AFFINE2, DT_AFFINE3, DT_AFFINE4, DT_AFFINE5, DT_AFFINE6, DT_AFFINE8, DT_AFFINE4_BF16, DT_AFFINE4_F16};
enum { TYPE_COUNT = sizeof(TYPES) / sizeof(TYPES[0]), TABLES_MAX = 8 };

static uint64_t seed = 1;

static uint64_t next_u64(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static float next_float(void) /* about (-1, 1), heavier in the middle */
{
    float a = (float)(next_u64() >> 40) / (1 << 23) - 1, b = (float)(next_u64() >> 40) / (1 << 23) - 1;
    return a * b;
}

static void put_half(uint8_t *at, float value)
{
    uint16_t h = f32_to_f16(value);
    memcpy(at, &h, 2);
}

/* Random blocks with sane scales. */
static void fill_raw(dtype type, uint8_t *raw, size_t bytes)
{
    static const int16_t FIELD[DT_COUNT][2] = {
        [DT_Q4_0] = {0, -1}, [DT_Q4_1] = {0, 2},    [DT_Q5_0] = {0, -1},   [DT_Q5_1] = {0, 2},
        [DT_Q8_0] = {0, -1}, [DT_Q2_K] = {80, 82},  [DT_Q3_K] = {108, -1}, [DT_Q4_K] = {0, 2},
        [DT_Q5_K] = {0, 2},  [DT_Q6_K] = {208, -1}, [DT_IQ4_NL] = {0, -1}, [DT_IQ4_XS] = {0, -1}};
    const dtype_info *info = dtype_get(type);
    for (size_t i = 0; i < bytes; i++)
        raw[i] = (uint8_t)(next_u64() >> 32);
    for (uint8_t *b = raw; b < raw + bytes; b += info->block_bytes) {
        if (type == DT_F32) {
            float x = next_float();
            memcpy(b, &x, 4);
        } else if (type == DT_F16) {
            put_half(b, next_float());
        } else if (type == DT_BF16) {
            uint16_t h = f32_to_bf16(next_float());
            memcpy(b, &h, 2);
        } else if (type == DT_MXFP4) {
            b[0] = (uint8_t)(120 + next_u64() % 8);
        } else if (type == DT_MXFP8) {
            b[0] = (uint8_t)(112 + next_u64() % 8);
            for (uint32_t i = 1; i < 33; i++)
                b[i] = (b[i] & 127) == 127 ? 0 : b[i]; /* no NaN */
        } else if (type == DT_NVFP4) {
            b[0] = (uint8_t)(16 + next_u64() % 16), b[1] = (uint8_t)(16 + next_u64() % 16);
        } else if (type == DT_AFFINE4_F16) {
            put_half(b, next_float() * 0.05f);
            put_half(b + 2, next_float() * 0.1f);
        } else if (type == DT_AFFINE4_BF16) {
            uint16_t pair[2] = {f32_to_bf16(next_float() * 0.05f), f32_to_bf16(next_float() * 0.1f)};
            memcpy(b, pair, sizeof(pair));
        } else if (type >= DT_AFFINE2) {
            float pair[2] = {next_float() * 0.05f, next_float() * 0.1f};
            memcpy(b, pair, sizeof(pair));
        } else {
            put_half(b + FIELD[type][0], next_float() * 0.1f);
            if (FIELD[type][1] >= 0)
                put_half(b + FIELD[type][1], next_float() * 0.1f);
        }
    }
}

typedef struct {
    dtype type;
    uint32_t rows, cols;
    size_t row_bytes;
    uint8_t *raw;
    float *values; /* dequantized */
} matrix;

static matrix matrix_make(dtype type, uint32_t rows, uint32_t cols)
{
    matrix m = {type, rows, cols, dtype_row_bytes(dtype_get(type), cols), NULL, NULL};
    m.raw = malloc(rows * m.row_bytes);
    m.values = malloc(sizeof(float) * rows * cols);
    fill_raw(type, m.raw, rows * m.row_bytes);
    for (uint32_t r = 0; r < rows; r++)
        quant_dequantize_row(type, m.raw + r * m.row_bytes, m.values + (size_t)r * cols, cols);
    return m;
}

static void matrix_free(matrix *m)
{
    free(m->raw);
    free(m->values);
}

static backend *open_table(const char *name, uint32_t threads)
{
    backend *b = NULL;
    error err = {0};
    backend_config config = {.threads = threads, .kernels = name};
    status s = cpu_backend_open(&b, &config, &err);
    if (s != OK && s != ERR_UNSUPPORTED)
        print_error("%s\n", err.text);
    assert_true(s == OK || s == ERR_UNSUPPORTED);
    return b;
}

static uint32_t tables(const char *names[TABLES_MAX])
{
    static const char *const ALL[] = {"generic", "avx2", "avx512", "avx512bf16", "neon"};
    uint32_t count = 0;
    for (uint32_t i = 0; i < 5; i++) {
        backend *b = open_table(ALL[i], 1);
        if (!b)
            continue;
        b->ops->close(b);
        names[count++] = ALL[i];
    }
    return count;
}

static bool is_float(dtype t)
{
    return t == DT_F32 || t == DT_F16 || t == DT_BF16 || t == DT_MXFP8 || t == DT_AFFINE8; /* these two as bytes */
}

/* The activation row as the kernels see it. */
static void seen_row(const backend *on, dtype type, const float *x, uint32_t cols, float *out)
{
    bool halves = type == DT_MXFP8 && !strcmp(on->kernels, "avx512bf16");
    for (uint32_t k = 0; k < cols; k++)
        out[k] = halves ? bf16_to_f32(f32_to_bf16(x[k])) : x[k];
    for (uint32_t b = 0; !is_float(type) && b < cols; b += 32) {
        float amax = 0;
        for (uint32_t k = 0; k < 32; k++)
            amax = fmaxf(amax, fabsf(x[b + k]));
        for (uint32_t k = 0; k < 32; k++)
            out[b + k] = amax > 0 ? (amax / 127.0f) * nearbyintf(x[b + k] * (127.0f / amax)) : 0;
    }
}

static weight *weight_on(backend *b, const matrix *m)
{
    weight *w = NULL;
    error err = {0};
    status s = b->ops->weight_create(b, m->type, m->rows, m->cols, m->raw, &w, &err);
    if (s != OK)
        print_error("%s\n", err.text);
    assert_int_equal(s, OK);
    return w;
}

static buffer *buffer_of(backend *b, const float *data, size_t floats)
{
    buffer *out = NULL;
    assert_int_equal(b->ops->buffer_create(b, floats, &out), OK);
    if (data)
        b->ops->upload(b, out, 0, data, floats);
    return out;
}

static float *random_floats(size_t n)
{
    float *x = malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        x[i] = next_float();
    return x;
}

static void multiply(backend *b, const weight *w, const matrix *m, const float *x, uint32_t rows, float *out)
{
    buffer *in = buffer_of(b, x, (size_t)rows * m->cols), *to = buffer_of(b, NULL, (size_t)rows * m->rows);
    matmul_args a = {.x = {in, 0, m->cols}, .rows = rows, .target_count = 1};
    a.targets[0] = (matmul_target){.w = w, .out = {to, 0, m->rows}};
    b->ops->matmul(b, &a);
    b->ops->download(b, to, 0, out, (size_t)rows * m->rows);
    b->ops->buffer_destroy(b, in);
    b->ops->buffer_destroy(b, to);
}

static void check_close(backend *b, dtype type, uint32_t n, uint32_t cols, uint32_t rows)
{
    matrix m = matrix_make(type, n, cols);
    float *x = random_floats((size_t)rows * cols), *out = malloc(sizeof(float) * rows * n);
    float *seen = malloc(cols * sizeof(float));
    weight *w = weight_on(b, &m);
    multiply(b, w, &m, x, rows, out);
    for (uint32_t r = 0; r < rows; r++) {
        seen_row(b, type, x + (size_t)r * cols, cols, seen);
        for (uint32_t i = 0; i < n; i++) {
            double want = 0, size = 0;
            for (uint32_t k = 0; k < cols; k++) {
                double term = (double)m.values[(size_t)i * cols + k] * seen[k];
                want += term;
                size += fabs(term);
            }
            double got = out[(size_t)r * n + i];
            if (!(fabs(got - want) <= 2e-6 * size + 1e-30))
                fail_msg("%s %s %ux%u row %u of %u, output %u: %.9g, expected %.9g (of %.3g)", b->kernels,
                         dtype_get(type)->name, n, cols, r, rows, i, got, want, size);
        }
    }
    b->ops->weight_destroy(b, w);
    matrix_free(&m);
    free(x), free(out), free(seen);
}

static void every_type_and_table_is_close_to_doubles(void **state)
{
    (void)state;
    const char *names[TABLES_MAX];
    uint32_t count = tables(names);
    for (uint32_t t = 0; t < count; t++) {
        backend *b = open_table(names[t], 2);
        for (uint32_t i = 0; i < TYPE_COUNT; i++) {
            check_close(b, TYPES[i], 37, 512, 1);
            check_close(b, TYPES[i], 5, 256, 3);
            check_close(b, TYPES[i], 48, 768, 29);
            if (dtype_get(TYPES[i])->block_elems <= 32)
                check_close(b, TYPES[i], 33, 96, 7);
            if (dtype_get(TYPES[i])->block_elems == 1)
                check_close(b, TYPES[i], 20, 17, 6), check_close(b, TYPES[i], 20, 160, 13);
        }
        b->ops->close(b);
    }
}

/* Every code and every activation at its end: the largest integer sums there are. */
static void largest_codes_do_not_saturate(void **state)
{
    (void)state;
    enum { N = 16, COLS = 512, ROWS = 4 };
    const char *names[TABLES_MAX];
    uint32_t count = tables(names);
    for (uint32_t t = 0; t < count; t++) {
        backend *b = open_table(names[t], 1);
        for (uint32_t i = 0; i < TYPE_COUNT; i++) {
            for (int fill = 0; fill < 3; fill++) {
                matrix m = matrix_make(TYPES[i], N, COLS);
                const dtype_info *info = dtype_get(TYPES[i]);
                if (is_float(TYPES[i]))
                    fill = 3; /* nothing to fill, once */
                for (uint32_t k = 0; k < N * m.row_bytes && fill < 3; k++) {
                    uint32_t at = k % info->block_bytes;
                    bool is_scale = at < 4 || (at < 8 && TYPES[i] >= DT_AFFINE2 && info->block_elems == 32) ||
                                    (info->block_bytes > 40 && at >= 80 && at < 84) || at == 108 || at == 109 ||
                                    at >= 208; /* where one of the types has a half float */
                    if (TYPES[i] == DT_NVFP4)
                        is_scale = at < 2;
                    m.raw[k] = is_scale ? m.raw[k] : fill == 0 ? 0xff : fill == 1 ? 0x80 : 0x7f;
                }
                float x[ROWS * COLS], out[ROWS * N];
                for (uint32_t k = 0; k < ROWS * COLS; k++)
                    x[k] = k / COLS % 2 ? -1.0f : 1.0f;
                for (uint32_t r = 0; r < N; r++)
                    quant_dequantize_row(TYPES[i], m.raw + r * m.row_bytes, m.values + (size_t)r * COLS, COLS);
                weight *w = weight_on(b, &m);
                multiply(b, w, &m, x, ROWS, out);
                for (uint32_t r = 0; r < ROWS; r++)
                    for (uint32_t n = 0; n < N; n++) {
                        double want = 0, size = 0;
                        for (uint32_t k = 0; k < COLS; k++) {
                            want += (double)m.values[n * COLS + k] * x[r * COLS + k];
                            size += fabs((double)m.values[n * COLS + k]);
                        }
                        if (!(fabs(out[r * N + n] - want) <= 4e-6 * size + 1e-30))
                            fail_msg("%s %s: %g, expected %g", names[t], info->name, (double)out[r * N + n], want);
                    }
                b->ops->weight_destroy(b, w);
                matrix_free(&m);
            }
        }
        b->ops->close(b);
    }
}

static void check_same_bits(const char *name, dtype type)
{
    enum { N = 53, ROWS = 70 };
    uint32_t cols = 512;
    matrix m = matrix_make(type, N, cols);
    float *x = random_floats((size_t)ROWS * cols), *alone = malloc(sizeof(float) * ROWS * N);
    float *gathered = malloc(sizeof(float) * ROWS * cols), *out = malloc(sizeof(float) * ROWS * N);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        backend *b = open_table(name, threads);
        weight *w = weight_on(b, &m);
        for (uint32_t r = 0; r < ROWS && threads == 1; r++)
            multiply(b, w, &m, x + (size_t)r * cols, 1, alone + (size_t)r * N);
        for (uint32_t rows = 1; rows <= ROWS; rows += rows < 9 ? 1 : slowly(1, 6)) {
            uint32_t picked[ROWS];
            for (uint32_t r = 0; r < rows; r++) {
                picked[r] = (uint32_t)(next_u64() % ROWS);
                memcpy(gathered + (size_t)r * cols, x + (size_t)picked[r] * cols, cols * sizeof(float));
            }
            multiply(b, w, &m, gathered, rows, out);
            for (uint32_t r = 0; r < rows; r++)
                if (memcmp(out + (size_t)r * N, alone + (size_t)picked[r] * N, N * sizeof(float)) != 0)
                    fail_msg("%s %s: row %u of %u differs from itself alone (%u threads)", name, dtype_get(type)->name,
                             r, rows, threads);
        }
        b->ops->weight_destroy(b, w);
        b->ops->close(b);
    }
    matrix_free(&m);
    free(x), free(alone), free(gathered), free(out);
}

static void bands_fill_a_weight_as_one_call_does(void **state)
{
    (void)state;
    enum { N = 3 * WEIGHT_BAND_ROWS + 5, COLS = 256 };
    const char *names[TABLES_MAX];
    uint32_t count = tables(names);
    float *x = random_floats(COLS), once[N], banded[N];
    for (uint32_t i = 0; i < TYPE_COUNT; i++) {
        matrix m = matrix_make(TYPES[i], N, COLS);
        backend *b = open_table(names[count - 1], 2);
        weight *w = weight_on(b, &m), *filled;
        error err;
        assert_int_equal(b->ops->weight_create(b, m.type, N, COLS, NULL, &filled, &err), OK);
        for (uint32_t first = 0; first < N; first += WEIGHT_BAND_ROWS) {
            uint32_t rows = N - first < WEIGHT_BAND_ROWS ? N - first : WEIGHT_BAND_ROWS;
            b->ops->weight_fill(b, filled, first, rows, m.raw + first * m.row_bytes);
        }
        multiply(b, w, &m, x, 1, once);
        multiply(b, filled, &m, x, 1, banded);
        assert_memory_equal(once, banded, sizeof once);
        b->ops->weight_destroy(b, w);
        b->ops->weight_destroy(b, filled);
        b->ops->close(b);
        matrix_free(&m);
    }
    free(x);
}

static void a_row_has_the_same_bits_in_any_company(void **state)
{
    (void)state;
    const char *names[TABLES_MAX];
    uint32_t count = tables(names);
    for (uint32_t t = 0; t < count; t++)
        for (uint32_t i = 0; i < TYPE_COUNT; i++)
            check_same_bits(names[t], TYPES[i]);
}

static void reads_rows_back_exactly(void **state)
{
    (void)state;
    backend *b = open_table(NULL, 2);
    for (uint32_t i = 0; i < TYPE_COUNT; i++) {
        matrix m = matrix_make(TYPES[i], 37, 512);
        weight *w = weight_on(b, &m);
        int32_t ids[5] = {36, 0, 17, 17, 5};
        float got[5 * 512];
        buffer *out = buffer_of(b, NULL, 5 * 512);
        b->ops->get_rows(b, &(get_rows_args){.table = w, .ids = ids, .rows = 5, .scale = 1, .out = {out, 0, 512}});
        b->ops->download(b, out, 0, got, 5 * 512);
        for (uint32_t r = 0; r < 5; r++)
            for (uint32_t k = 0; k < 512; k++)
                if (got[r * 512 + k] != m.values[ids[r] * 512 + k])
                    fail_msg("%s row %d column %u: %g, expected %g", dtype_get(TYPES[i])->name, ids[r], k,
                             (double)got[r * 512 + k], (double)m.values[ids[r] * 512 + k]);
        b->ops->buffer_destroy(b, out);
        b->ops->weight_destroy(b, w);
        matrix_free(&m);
    }
    b->ops->close(b);
}

/* Three targets of different forms, strided views, bias and residual: each equals the plain product and then the sums.
 */
static void targets_add_bias_then_the_old_value(void **state)
{
    (void)state;
    enum { ROWS = 31, COLS = 256, STRIDE = 300 };
    static const uint32_t N[3] = {40, 16, 7};
    static const dtype KINDS[3] = {DT_Q4_K, DT_Q6_K, DT_F16};
    const char *names[TABLES_MAX];
    uint32_t count = tables(names);
    for (uint32_t table = 0; table < count; table++) {
        backend *b = open_table(names[table], 2);
        float *x = random_floats(ROWS * STRIDE), *old = random_floats(3 * ROWS * 64), *bias = random_floats(64);
        buffer *in = buffer_of(b, x, ROWS * STRIDE), *out = buffer_of(b, old, 3 * ROWS * 64);
        buffer *biases = buffer_of(b, bias, 64);
        matmul_args a = {.x = {in, 10, STRIDE}, .rows = ROWS, .target_count = 3};
        matrix m[3];
        weight *w[3];
        for (uint32_t t = 0; t < 3; t++) {
            m[t] = matrix_make(KINDS[t], N[t], COLS);
            w[t] = weight_on(b, &m[t]);
            a.targets[t] = (matmul_target){
                .w = w[t], .out = {out, t * ROWS * 64, 64}, .bias = t < 2 ? biases : NULL, .add = t != 1};
        }
        b->ops->matmul(b, &a);
        float *got = malloc(sizeof(float) * 3 * ROWS * 64), plain[40];
        b->ops->download(b, out, 0, got, 3 * ROWS * 64);
        for (uint32_t t = 0; t < 3; t++)
            for (uint32_t r = 0; r < ROWS; r++) {
                multiply(b, w[t], &m[t], x + 10 + r * STRIDE, 1, plain);
                for (uint32_t i = 0; i < 64; i++) {
                    float before = old[(t * ROWS + r) * 64 + i], want = before;
                    if (i < N[t]) {
                        want = plain[i];
                        want = t < 2 ? want + bias[i] : want;
                        want = t != 1 ? want + before : want;
                    }
                    assert_memory_equal(&got[(t * ROWS + r) * 64 + i], &want, 4);
                }
            }
        for (uint32_t t = 0; t < 3; t++) {
            b->ops->weight_destroy(b, w[t]);
            matrix_free(&m[t]);
        }
        b->ops->buffer_destroy(b, in);
        b->ops->buffer_destroy(b, out);
        b->ops->buffer_destroy(b, biases);
        b->ops->close(b);
        free(x), free(old), free(bias), free(got);
    }
}

static void refuses_unknown_kernels_and_shapes(void **state)
{
    (void)state;
    backend *b = NULL;
    error err = {0};
    assert_int_equal(cpu_backend_open(&b, &(backend_config){.kernels = "mmx"}, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "mmx"));
    b = open_table(NULL, 1);
    weight *w = NULL;
    assert_int_equal(b->ops->weight_create(b, DT_Q4_0, 4, 33, "", &w, &err), ERR_INVALID);
    assert_int_equal(b->ops->weight_create(b, (dtype)9, 4, 32, "", &w, &err), ERR_UNSUPPORTED);
    b->ops->close(b);
}

static void keeps_packed_weights_no_wider_than_the_file(void **state)
{
    (void)state;
    backend *b = open_table(NULL, 1);
    for (uint32_t i = 0; i < TYPE_COUNT; i++) {
        matrix m = matrix_make(TYPES[i], 64, 2048);
        weight *w = weight_on(b, &m);
        assert_true((double)b->ops->weight_bytes(w) <= 1.05 * (double)(m.rows * m.row_bytes));
        b->ops->weight_destroy(b, w);
        matrix_free(&m);
    }
    b->ops->close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_table_is_close_to_doubles),
        cmocka_unit_test(largest_codes_do_not_saturate),
        cmocka_unit_test(reads_rows_back_exactly),
        cmocka_unit_test(targets_add_bias_then_the_old_value),
        cmocka_unit_test(refuses_unknown_kernels_and_shapes),
        cmocka_unit_test(keeps_packed_weights_no_wider_than_the_file),
        cmocka_unit_test(bands_fill_a_weight_as_one_call_does),
        cmocka_unit_test(a_row_has_the_same_bits_in_any_company),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
