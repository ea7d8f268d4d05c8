/* Attention: against a double-precision reference, and against itself in other batches, chunks, pages and thread
 * counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "unit/slow.h"
#include "unit/tensor/attend_fixture.h"
#include "tensor/cpu/codes.h"

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
static bool run(const char *kernels, uint32_t threads, shape s, kv_type type, sequence *list, uint64_t seed,
                uint32_t chunk_max)
{
    fixture f;
    uint64_t state = seed;
    if (!fixture_open(&f, kernels, threads, s, type, PAGES_MAX))
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

/* What the cache holds of one token, read by the layout's description; K turned back. */
typedef struct {
    double k[ATTEND_DIM_MAX], v[ATTEND_DIM_MAX];
} stored;

static double decoded(kv_type type, uint8_t byte, bool high, uint16_t scale)
{
    int code = type == KV_Q8 ? byte : high ? byte >> 4 : byte & 15;
    return (2 * code - (type == KV_Q8 ? 256 : 15)) * (double)wide_half(scale);
}

static void turn_back(double *x, uint32_t dim)
{
    for (uint32_t at = 0, n; at < dim; at += n) {
        n = dim - at >= 64 ? 64 : dim - at >= 32 ? 32 : 16;
        double y[64];
        for (uint32_t i = 0; i < n; i++) {
            y[i] = 0;
            for (uint32_t j = 0; j < n; j++)
                y[i] += (__builtin_parity(i & j) ? -1 : 1) * x[at + j] / sqrt(n);
        }
        memcpy(x + at, y, n * sizeof(double));
    }
}

/* `block` is all this token's: its slot is SLOT. */
enum { SLOT = 21 };
static void read_codes(const uint8_t *block, kv_type type, uint32_t dim, stored *out)
{
    uint32_t chunks = (dim + 63) / 64, padded = (dim + 31) / 32 * 32;
    size_t v_at = type == KV_Q8 ? 32 * dim : 16 * dim, end = v_at + (type == KV_Q8 ? 32 * dim : 16 * padded);
    const uint16_t *scales = (const uint16_t *)(block + end) + SLOT;
    for (uint32_t c = 0; c < dim; c++) {
        const uint16_t *scale = scales + c / 64 * 32;
        size_t k = type == KV_Q8 ? ((SLOT / 16 * (dim / 4) + c / 4) * 16 + SLOT % 16) * 4 + c % 4
                                 : ((SLOT / 16 * (dim / 8) + c / 8) * 16 + SLOT % 16) * 4 + c % 4;
        size_t v = type == KV_Q8 ? (SLOT / 4 * dim + c) * 4 + SLOT % 4
                                 : (SLOT / 4 * (padded / 2) + c / 32 * 16 + c % 16) * 4 + SLOT % 4;
        out->k[c] = decoded(type, block[k], c & 4, scale[0]) + (type == KV_Q4 ? wide_half(scale[2 * chunks * 32]) : 0);
        out->v[c] = decoded(type, block[v_at + v], c & 16, scale[chunks * 32]);
    }
    turn_back(out->k, dim);
}

static void store(const char *kernels, kv_type type, uint32_t dim, const float *k, const float *v, stored *out)
{
    static uint8_t block[KV_PAGE_TOKENS * ATTEND_DIM_MAX * 4 + 4096];
    float_kernels_named(kernels)->kv_write(block, type, SLOT, dim, k, v);
    if (kv_coded(type)) {
        read_codes(block, type, dim, out);
        return;
    }
    for (uint32_t c = 0; c < dim && type == KV_F32; c++) {
        out->k[c] = ((const float *)block)[(SLOT / 16 * dim + c) * 16 + SLOT % 16];
        out->v[c] = ((const float *)block)[32 * dim + SLOT * dim + c];
    }
    for (uint32_t c = 0; c < dim && type != KV_F32; c++) {
        uint16_t k_half = ((const uint16_t *)block)[(SLOT / 16 * dim + c) * 16 + SLOT % 16],
                 v_half = ((const uint16_t *)block)[32 * dim + SLOT * dim + c];
        out->k[c] = type == KV_F16 ? half_to_float(k_half) : wide_half(k_half);
        out->v[c] = type == KV_F16 ? half_to_float(v_half) : wide_half(v_half);
    }
}

/* A query as the kernels take it: codes are multiplied with 8 bits of it on AVX-512. */
static void query_of(const char *kernels, kv_type type, uint32_t dim, const float *q, double *out)
{
    float turned[ATTEND_DIM_MAX], largest = 0;
    for (uint32_t c = 0; c < dim; c++)
        out[c] = q[c];
    if (!kv_coded(type) || strcmp(kernels, "avx512") != 0)
        return;
    kv_turn(turned, q, dim);
    for (uint32_t c = 0; c < dim; c++)
        largest = fmaxf(largest, fabsf(turned[c]));
    for (uint32_t c = 0; c < dim; c++)
        out[c] = rintf(turned[c] * (127.0f / largest)) / (127.0f / largest);
    turn_back(out, dim);
}

/* One row and head in double, on what the cache holds: `seen` has a token's KV heads one after the other. */
static void reference_row(const double *query, const stored *seen, shape s, uint32_t position, uint32_t kv_head,
                          double *out)
{
    uint32_t start = s.window && position >= s.window ? position - s.window + 1 : 0;
    static double score[LENGTH_MAX];
    double scale = s.dim == 64 ? 0.125 : 1.0 / sqrt(s.dim), top = -1e300, sum = 0;
    for (uint32_t j = start; j <= position; j++) {
        double dot = 0;
        for (uint32_t c = 0; c < s.dim; c++)
            dot += query[c] * seen[j * s.kv_heads + kv_head].k[c];
        dot *= scale;
        score[j] = s.softcap > 0 ? s.softcap * tanh(dot / s.softcap) : dot;
        top = score[j] > top ? score[j] : top;
    }
    for (uint32_t c = 0; c < s.dim; c++)
        out[c] = 0;
    for (uint32_t j = start; j <= position; j++) {
        double p = exp(score[j] - top);
        sum += p;
        for (uint32_t c = 0; c < s.dim; c++)
            out[c] += p * seen[j * s.kv_heads + kv_head].v[c];
    }
    for (uint32_t c = 0; c < s.dim; c++)
        out[c] /= sum;
}

/* The largest difference between what `run` left and the reference. */
static double worst_difference(const char *kernels, const sequence *list, shape s, kv_type type)
{
    double worst = 0, want[ATTEND_DIM_MAX], query[ATTEND_DIM_MAX];
    const uint32_t near = slowly(1, 5), far = slowly(37, 111);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        stored *seen = malloc(sizeof(stored) * list[i].length * s.kv_heads);
        for (size_t t = 0; t < (size_t)list[i].length * s.kv_heads; t++)
            store(kernels, type, s.dim, list[i].k + t * s.dim, list[i].v + t * s.dim, &seen[t]);
        for (uint32_t position = 0; position < list[i].length; position += position < 70 ? near : far)
            for (uint32_t head = 0; head < s.heads; head++) {
                size_t at = ((size_t)position * s.heads + head) * s.dim;
                query_of(kernels, type, s.dim, list[i].q + at, query);
                reference_row(query, seen, s, position, head / (s.heads / s.kv_heads), want);
                for (uint32_t c = 0; c < s.dim; c++) {
                    double d = fabs(list[i].out[at + c] - want[c]);
                    worst = d > worst || d != d ? d : worst;
                }
            }
        free(seen);
    }
    return worst;
}

static const char *const TYPES[] = {"f16", "bf16", "q8", "q4", "f32"};

static void matches_a_double_precision_reference(void **unused)
{
    (void)unused;
    static const shape shapes[] = {
        {9, 3, 64, 2, 0, 0},    {2, 2, 16, 1, 0, 0},       {4, 1, 128, 1, 0, 0}, {8, 1, 32, 1, 0, 0},
        {4, 1, 256, 1, 100, 0}, {3, 1, 64, 1, 511, 20.0f}, {4, 2, 80, 2, 1, 0},  {3, 3, 48, 1, 64, 30.0f},
        {2, 1, 512, 1, 0, 0},   {10, 1, 96, 1, 300, 0},
    };
    for (size_t k = 0; k < sizeof(KERNELS) / sizeof(KERNELS[0]); k++)
        for (size_t i = 0; i < KV_TYPES * sizeof(shapes) / sizeof(shapes[0]); i++) {
            shape s = shapes[i / KV_TYPES];
            kv_type type = i % KV_TYPES;
            sequence list[SEQUENCES] = {0};
            sequences_make(list, s, 77 + i / KV_TYPES, type == KV_F16 ? slowly(700, 300) : 200);
            if (run(KERNELS[k], 2, s, type, list, i, 0)) {
                double worst = worst_difference(KERNELS[k], list, s, type);
                printf("%s %s heads %u/%u dim %u window %u: %.2e\n", KERNELS[k], TYPES[type], s.heads, s.kv_heads,
                       s.dim, s.window, worst);
                double loss = kv_coded(type) ? 6e-4 : s.dim > 256 ? 6e-3 : 3e-3; /* of fixed point */
                assert_true(worst < (strcmp(KERNELS[k], "avx512") ? 1e-5 : loss));
            }
            sequences_free(list);
        }
}

static void check_same_bits(const char *kernels, shape s, kv_type type, uint64_t seed)
{
    sequence alone[SEQUENCES] = {0}, batch[SEQUENCES] = {0};
    uint32_t length_max = seed % 4 ? 300 : LENGTH_MAX;
    sequences_make(alone, s, seed, length_max);
    sequences_make(batch, s, seed, length_max);
    if (run(kernels, 1, s, type, alone, seed + 1, 1)) {
        static const uint32_t chunks[] = {0, 0, 0, LENGTH_MAX, 7};
        assert_true(run(kernels, 1 + seed % 2, s, type, batch, seed + 2, chunks[seed % 5]));
        for (uint32_t i = 0; i < SEQUENCES; i++)
            if (memcmp(alone[i].out, batch[i].out, (size_t)alone[i].length * s.heads * s.dim * 4))
                fail_msg("%s %s: seed %lu, sequence %u of %u tokens differs", kernels, TYPES[type], (unsigned long)seed,
                         i, alone[i].length);
    }
    sequences_free(alone);
    sequences_free(batch);
}

static void gives_the_same_bits_in_any_batch(void **unused)
{
    (void)unused;
    static const uint32_t dims[] = {16, 32, 64, 128, 256, 80, 48}, ratios[] = {1, 3, 4, 8},
                          windows[] = {0, 0, 1, 33, 64, 500};
    const char *more = getenv("ATTEND_SCHEDULES");
#ifdef __aarch64__
    uint64_t schedules = more ? strtoull(more, NULL, 10) : 6; /* under qemu, most likely */
#else
    uint64_t schedules = more ? strtoull(more, NULL, 10) : 32;
#endif
    for (size_t k = 0; k < sizeof(KERNELS) / sizeof(KERNELS[0]); k++)
        for (uint64_t seed = 1; seed <= schedules; seed++) {
            uint64_t state = seed * 31;
            shape s = {0, 1 + random_below(&state, 2),      dims[random_below(&state, 7)],
                       2, windows[random_below(&state, 6)], random_below(&state, 4) ? 0 : 15.0f};
            s.heads = s.kv_heads * ratios[random_below(&state, 4)];
            check_same_bits(KERNELS[k], s, (seed + seed / KV_TYPES) % KV_TYPES, seed);
        }
}

/* Stored values are within half a step of what was written; the step is that of the chunk's range. */
static void codes_are_within_half_a_step(void **unused)
{
    (void)unused;
    static const uint32_t dims[] = {16, 48, 64, 80, 128, 512};
    uint64_t state = 5;
    for (uint32_t round = 0; round < 600; round++) {
        uint32_t dim = dims[round % 6];
        kv_type type = round / 6 % 2 ? KV_Q8 : KV_Q4;
        float *k = random_floats(&state, dim, 1), *v = random_floats(&state, dim, 1), *turned = malloc(dim * 4);
        float factor = ldexpf(1, (int)random_below(&state, 60) - 45);
        for (uint32_t c = 0; c < dim; c++) {
            k[c] = (k[c] + (round % 7 == 0)) * factor;
            v[c] *= round % 11 == 0 ? 0 : factor;
        }
        k[random_below(&state, dim)] *= round % 5 ? 1 : 30;
        stored got;
        store("generic", type, dim, k, v, &got);
        turn_back(got.k, dim); /* is its own inverse: as stored */
        kv_turn(turned, k, dim);
        for (uint32_t at = 0; at < dim; at += 64) {
            uint32_t end = dim - at < 64 ? dim : at + 64;
            double low = turned[at], high = low, most = 0;
            for (uint32_t c = at; c < end; c++) {
                low = fmin(low, turned[c]), high = fmax(high, turned[c]), most = fmax(most, fabs(v[c]));
            }
            double range = type == KV_Q4 ? high - low : 2 * fmax(fabs(low), fabs(high));
            double slack = type == KV_Q4 ? fmax(fabs(low), fabs(high)) / 256 : 0; /* of the middle's 8 bits */
            double step = 1.01 * (range / 2 + slack) / (type == KV_Q4 ? 15 : 254);
            double v_step = 1.01 * most / (type == KV_Q4 ? 15 : 254);
            for (uint32_t c = at; c < end; c++) {
                assert_true(fabs(got.k[c] - turned[c]) <= step + 1e-28);
                assert_true(fabs(got.v[c] - v[c]) <= v_step + 1e-28);
            }
        }
        free(k), free(v), free(turned);
    }
}

/* So that a page means the same whatever wrote it, and so that a compiler's vectors are not another rounding. */
static void every_instruction_set_stores_the_same_bytes(void **unused)
{
    (void)unused;
    static const uint32_t dims[] = {16, 48, 64, 80, 128, 256};
    static uint8_t want[KV_PAGE_TOKENS * ATTEND_DIM_MAX * 4], got[KV_PAGE_TOKENS * ATTEND_DIM_MAX * 4];
    static const float odd[] = {0, -0.0f, 1e30f, -1e30f, INFINITY, -INFINITY, NAN, 1e-40f, 65504, 1e-20f};
    uint64_t state = 6;
    for (uint32_t round = 0; round < 400; round++) {
        uint32_t dim = dims[round % 6], slot = random_below(&state, KV_PAGE_TOKENS);
        float *k = random_floats(&state, dim, 1), *v = random_floats(&state, dim, 1);
        for (uint32_t i = 0; round % 3 == 0 && i < 5; i++) {
            k[random_below(&state, dim)] = odd[random_below(&state, 10)];
            v[random_below(&state, dim)] = odd[random_below(&state, 10)];
        }
        for (kv_type type = KV_Q8; type <= KV_Q4; type++)
            for (size_t i = 1; i < sizeof(KERNELS) / sizeof(KERNELS[0]); i++) {
                cpu_kernels kernels;
                if (cpu_kernels_choose(KERNELS[i], &kernels, NULL))
                    continue;
                memset(want, 0, sizeof(want));
                memset(got, 0, sizeof(got));
                float_kernels_named("generic")->kv_write(want, type, slot, dim, k, v);
                kernels.floats->kv_write(got, type, slot, dim, k, v);
                if (memcmp(want, got, kv_block_bytes(type, dim)))
                    fail_msg("%s %s: round %u", KERNELS[i], TYPES[type], round);
            }
        free(k), free(v);
    }
}

/* Zeros, huge numbers, none at all, one channel that stands out: finite results, and tokens before them unmoved. */
static void extreme_inputs_give_finite_results(void **unused)
{
    (void)unused;
    static const float odd[] = {0, 1e30f, -1e30f, INFINITY, NAN, 1e-40f, 65504, -1e6f};
    shape s = {4, 2, 64, 1, 0, 0};
    for (size_t k = 0; k < sizeof(KERNELS) / sizeof(KERNELS[0]); k++)
        for (uint32_t i = 0; i < KV_TYPES * 9; i++) {
            kv_type type = i % KV_TYPES;
            uint32_t kind = i / KV_TYPES, width = s.kv_heads * s.dim;
            sequence list[SEQUENCES] = {0}, plain[SEQUENCES] = {0};
            sequences_make(list, s, 8, 150);
            sequences_make(plain, s, 8, 150);
            uint32_t from = list[0].length / 2;
            for (size_t at = (size_t)from * width; at < (size_t)list[0].length * width; at++)
                if (kind < 8 ? at % (kind % 2 ? 1 : 7) == 0 : at % 64 == 9) {
                    list[0].k[at] = kind < 8 ? odd[kind] : 500;
                    list[0].v[at] = kind < 8 ? odd[kind] : 500;
                }
            if (run(KERNELS[k], 2, s, type, list, i, 0) && run(KERNELS[k], 1, s, type, plain, i + 1, 0)) {
                size_t row = (size_t)s.heads * s.dim;
                assert_memory_equal(list[0].out, plain[0].out, from * row * 4);
                for (size_t at = 0; at < list[0].length * row; at++)
                    if (!isfinite(list[0].out[at]))
                        fail_msg("%s %s: %g gives %g", KERNELS[k], TYPES[type], kind < 8 ? (double)odd[kind] : 500,
                                 (double)list[0].out[at]);
            }
            sequences_free(list);
            sequences_free(plain);
        }
}

static void a_bad_head_dimension_is_refused_with_words(void **unused)
{
    (void)unused;
    fixture f;
    error err = {0};
    kv_cache *cache = NULL;
    kv_cache_config config = {1, 1, 20, 1, false, KV_F16};
    assert_true(fixture_open(&f, "generic", 1, (shape){1, 1, 16, 1, 0, 0}, KV_F16, 1));
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
        cmocka_unit_test(codes_are_within_half_a_step),
        cmocka_unit_test(every_instruction_set_stores_the_same_bytes),
        cmocka_unit_test(extreme_inputs_give_finite_results),
        cmocka_unit_test(a_bad_head_dimension_is_refused_with_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
