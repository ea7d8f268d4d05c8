/* Attention with VNNI: f32 would bound a long prompt's prefill, 16-bit products with 32-bit sums go twice as fast.
 * K and V are f16, so 13 bits per token (scaled by the power of two that its largest channel needs: exact in the two
 * largest binades) lose nothing that f16 kept; q gets the bits that 32-bit sums leave, and weights get 13 bits below
 * the row's largest in the tile. Integer sums are exact, so their order is free; everything after them is f32 per row.
 *
 * For key j with value scale 2^v_j: u_j = score_j + v_j, P_j = 2^(u_j - top) in [0, 1], top = max u rounded up, so a
 * large value's weight is the precise one. acc += 2^top * sum P_j V_j, l += 2^top * sum P_j 2^-v_j. A row that sees no
 * key of a tile keeps its bits. */
#include "tensor/cpu/avx512/attend_codes.h"
#include "tensor/cpu/avx512/attend_parts.h"
#include "tensor/cpu/codes.h"

#include <string.h>

enum {
    WEIGHT_LOG = 13, /* 64 keys * 2^13 * 4094 < 2^31 */
    WEIGHT_ONE = 1 << WEIGHT_LOG,
    KEY_ONE = 4, /* keys are in units of 2^k / KEY_ONE */
    KEY_MOST = KEY_ONE * 4094,
    HALVES = 2 * VEC_WIDTH, /* 16-bit numbers in a vector */
};

typedef struct {
    int16_t *q;                         /* [ATTEND_ROWS][head_dim] */
    int16_t *k;                         /* [head_dim / 2][ATTEND_TILE][2] */
    int16_t *v;                         /* [ATTEND_TILE / 2][head_dim][2]: tokens t and t + 16 of a page */
    int16_t *weight;                    /* [BLOCK_ROWS][ATTEND_TILE], in v's order of tokens */
    float *score;                       /* [BLOCK_ROWS][ATTEND_TILE] */
    float *most;                        /* [BLOCK_ROWS][VEC_WIDTH] largest score per lane */
    float *sum;                         /* [ATTEND_ROWS][VEC_WIDTH] l per lane */
    float *q_scale;                     /* [ATTEND_ROWS] */
    float *k_scale, *v_log, *v_inverse; /* [ATTEND_TILE] 2^k, v, 2^-v */
    float *keep, *take, *top;           /* [BLOCK_ROWS] factors of acc and of the tile's sum; the tile's maximum */
} room;

INLINE room room_of(const attend_work *w)
{
    uint32_t dim = w->head_dim;
    room m;
    m.q = w->scratch;
    m.k = m.q + ATTEND_ROWS * dim;
    m.v = m.k + ATTEND_TILE * dim;
    m.weight = m.v + ATTEND_TILE * dim;
    m.score = (float *)(m.weight + BLOCK_ROWS * ATTEND_TILE);
    m.most = m.score + BLOCK_ROWS * ATTEND_TILE;
    m.sum = m.most + BLOCK_ROWS * VEC_WIDTH;
    m.q_scale = m.sum + ATTEND_ROWS * VEC_WIDTH;
    m.k_scale = m.q_scale + ATTEND_ROWS;
    m.v_log = m.k_scale + ATTEND_TILE;
    m.v_inverse = m.v_log + ATTEND_TILE;
    m.keep = m.v_inverse + ATTEND_TILE;
    m.take = m.keep + BLOCK_ROWS;
    m.top = m.take + BLOCK_ROWS;
    return m;
}

size_t attend_scratch_bytes_avx512(uint32_t head_dim)
{
    size_t halves = (size_t)(ATTEND_ROWS + 2 * ATTEND_TILE) * head_dim + BLOCK_ROWS * ATTEND_TILE;
    size_t floats = BLOCK_ROWS * (ATTEND_TILE + VEC_WIDTH + 3) + ATTEND_ROWS * (VEC_WIDTH + 1) + 3 * ATTEND_TILE;
    size_t bytes = halves * sizeof(int16_t) + floats * sizeof(float), codes = attend_codes_scratch_bytes(head_dim);
    return bytes > codes ? bytes : codes;
}

/* Bits of the largest magnitude among n halves. */
static uint32_t largest_half(const uint16_t *x, uint32_t n)
{
    __m256i most = _mm256_setzero_si256();
    for (uint32_t i = 0; i < n; i += VEC_WIDTH)
        most = _mm256_max_epu16(
            most, _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(x + i)), _mm256_set1_epi16(0x7fff)));
    __m128i m = _mm_max_epu16(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m = _mm_xor_si128(m, _mm_set1_epi16(-1)); /* minpos finds the smallest */
    return 0xffffu ^ (uint32_t)_mm_extract_epi16(_mm_minpos_epu16(m), 0);
}

static void halve(uint16_t *out, const float *x, uint32_t n)
{
    vec most = vec_all(65504.0f), least = vec_all(-65504.0f);
    for (uint32_t i = 0; i < n; i += VEC_WIDTH) {
        vec clamped = vec_max(vec_min(vec_load(x + i), most), least); /* NaN becomes `most` */
        _mm256_storeu_si256((__m256i *)(out + i), _mm512_cvtps_ph(clamped, _MM_FROUND_TO_NEAREST_INT));
    }
}

static void write_f16(uint8_t *block, uint32_t slot, uint32_t head_dim, const float *k, const float *v)
{
    uint16_t *k_out = (uint16_t *)block + slot / KV_GROUP * KV_GROUP * head_dim + slot % KV_GROUP;
    uint16_t *v_out = (uint16_t *)(block + kv_block_v(KV_F16, head_dim)) + (size_t)slot * head_dim;
    int8_t *exponents = (int8_t *)block + kv_block_tail(KV_F16, head_dim);
    uint16_t row[ATTEND_DIM_MAX];
    halve(row, k, head_dim);
    for (uint32_t c = 0; c < head_dim; c++)
        k_out[c * KV_GROUP] = row[c];
    halve(v_out, v, head_dim);
    exponents[slot] = (int8_t)((int)(largest_half(row, head_dim) >> 10) - 26);
    exponents[KV_PAGE_TOKENS + slot] = (int8_t)((int)(largest_half(v_out, head_dim) >> 10) - 26);
}

static int8_t bf16_exponent(uint32_t largest)
{
    int e = (int)(largest >> 7) - 138;
    return (int8_t)(e > KV_EXPONENT_LEAST ? e : KV_EXPONENT_LEAST);
}

static void write_bf16(uint8_t *block, uint32_t slot, uint32_t head_dim, const float *k, const float *v)
{
    const uint16_t *k_out = (uint16_t *)block + slot / KV_GROUP * KV_GROUP * head_dim + slot % KV_GROUP;
    const uint16_t *v_out = (uint16_t *)(block + kv_block_v(KV_BF16, head_dim)) + (size_t)slot * head_dim;
    int8_t *exponents = (int8_t *)block + kv_block_tail(KV_BF16, head_dim);
    uint16_t row[ATTEND_DIM_MAX];
    kv_write_bf16(block, slot, head_dim, k, v);
    for (uint32_t c = 0; c < head_dim; c++)
        row[c] = k_out[c * KV_GROUP];
    exponents[slot] = bf16_exponent(largest_half(row, head_dim));
    exponents[KV_PAGE_TOKENS + slot] = bf16_exponent(largest_half(v_out, head_dim));
}

void kv_write_avx512(uint8_t *block, kv_type type, uint32_t slot, uint32_t head_dim, const float *k, const float *v)
{
    if (type == KV_F16)
        write_f16(block, slot, head_dim, k, v);
    else if (type == KV_BF16)
        write_bf16(block, slot, head_dim, k, v);
    else if (type == KV_F32)
        kv_write_f32(block, slot, head_dim, k, v);
    else
        attend_codes_write(block, type, slot, head_dim, k, v);
}

/* The largest scale at which no sum with keys of up to KEY_MOST leaves 32 bits: by the sum of |q|, not by its largest.
 */
static float query_scale(const float *q, uint32_t dim)
{
    vec most = vec_all(0), sum = vec_all(0);
    for (uint32_t c = 0; c < dim; c += VEC_WIDTH) {
        vec x = _mm512_abs_ps(vec_load(q + c));
        most = vec_max(x, most);
        sum += x;
    }
    float room_for_sum = (float)(INT32_MAX / KEY_MOST - (int)dim), all = vec_sum(sum),
          largest = _mm512_reduce_max_ps(most);
    float by_sum = room_for_sum / all, by_largest = 32767.0f / largest,
          scale = by_sum < by_largest ? by_sum : by_largest;
    return largest > 0 && scale < 1e30f ? scale : 0;
}

void attend_load_avx512(attend_work *w)
{
    if (kv_coded(w->type)) {
        attend_codes_load(w);
        return;
    }
    room m = room_of(w);
    uint32_t dim = w->head_dim;
    for (uint32_t r = 0; r < w->rows; r++) {
        float scale = query_scale(w->q[r], dim);
        for (uint32_t c = 0; c < dim; c += VEC_WIDTH) {
            __m512i rounded = _mm512_cvtps_epi32(vec_load(w->q[r] + c) * vec_all(scale));
            _mm256_storeu_si256((__m256i *)(m.q + (size_t)r * dim + c), _mm512_cvtsepi32_epi16(rounded));
        }
        m.q_scale[r] = scale > 0 ? w->scale * 1.44269504f / (scale * KEY_ONE) : 0;
    }
}

/* Sixteen stored numbers times `scale`, rounded, in the low half of each lane. */
INLINE __m512i fixed16(kv_type type, const uint16_t *x, vec scale)
{
    __m256i stored = _mm256_loadu_si256((const __m256i *)x);
    vec wide = type == KV_F16 ? _mm512_cvtph_ps(stored)
                              : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(stored), 16));
    return _mm512_castps_si512(vec_fma(wide, scale, vec_all(ROUND_MAGIC)));
}

INLINE __m512i pair16(__m512i even, __m512i odd)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaau, even, _mm512_slli_epi32(odd, 16));
}

INLINE vec power_of_two(__m512i e)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(e, _mm512_set1_epi32(127)), 23));
}

INLINE __m512i load_exponents(const int8_t *e)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)e));
}

/* Sixteen keys into lanes [group, group + 16) of the tile. */
INLINE void fix_keys(kv_type type, room m, const uint8_t *block, const uint8_t *next, uint32_t half, uint32_t dim,
                     uint32_t group)
{
    const uint16_t *k_next = (const uint16_t *)next + half * KV_GROUP * dim;
    const uint16_t *k = (const uint16_t *)block + half * KV_GROUP * dim;
    __m512i e = load_exponents((const int8_t *)block + kv_block_tail(type, dim) + half * KV_GROUP);
    vec inverse = power_of_two(_mm512_sub_epi32(_mm512_setzero_si512(), e));
    vec_store(m.k_scale + group, power_of_two(e));
    inverse *= vec_all(KEY_ONE);
    for (uint32_t c = 0; c < dim; c += 2) {
        __m512i pair = pair16(fixed16(type, k + c * KV_GROUP, inverse), fixed16(type, k + (c + 1) * KV_GROUP, inverse));
        _mm512_store_si512(m.k + c * ATTEND_TILE + group * 2, pair);
        _mm_prefetch((const char *)(k_next + c * KV_GROUP), _MM_HINT_T1);
    }
}

/* A page's values into rows [start / 2, start / 2 + 16) of the tile; `both`: tokens 16 to 31 are there too, else
 * zeros. */
INLINE void fix_values(kv_type type, bool both, room m, const uint8_t *block, const uint8_t *next, uint32_t dim,
                       uint32_t start)
{
    const uint16_t *v_next = (const uint16_t *)(next + kv_block_v(type, dim));
    const uint16_t *v = (const uint16_t *)(block + kv_block_v(type, dim));
    float inverse[KV_PAGE_TOKENS];
    for (uint32_t half = 0; half < (both ? KV_PAGE_TOKENS : KV_GROUP); half += KV_GROUP) {
        __m512i e = load_exponents((const int8_t *)block + kv_block_tail(type, dim) + KV_PAGE_TOKENS + half);
        vec_store(inverse + half, power_of_two(_mm512_sub_epi32(_mm512_setzero_si512(), e)));
        vec_store(m.v_inverse + start + half, vec_load(inverse + half));
        vec_store(m.v_log + start + half, _mm512_cvtepi32_ps(e));
    }
    for (uint32_t t = 0; t < KV_GROUP; t++) {
        vec even = vec_all(inverse[t]), odd = vec_all(both ? inverse[t + KV_GROUP] : 0);
        int16_t *out = m.v + (start / 2 + t) * 2 * dim;
        for (uint32_t c = 0; c < dim; c += VEC_WIDTH) {
            __m512i first = fixed16(type, v + t * dim + c, even);
            __m512i pair = both ? pair16(first, fixed16(type, v + (t + KV_GROUP) * dim + c, odd))
                                : _mm512_maskz_mov_epi16(0x55555555u, first);
            _mm512_store_si512(out + 2 * c, pair);
            _mm_prefetch((const char *)(v_next + 2 * (t * dim + c)), _MM_HINT_T1);
        }
    }
}

/* Sixteen lanes of the tile that nobody sees: their integers may be anything, since their weights are zero, but no
 * float may be. */
static void clear_lanes(room m, uint32_t group)
{
    vec_store(m.k_scale + group, vec_all(0));
    vec_store(m.v_log + group, vec_all(0));
    vec_store(m.v_inverse + group, vec_all(0));
}

/* Positions [base + start, base + start + KV_PAGE_TOKENS), while the same page of the next tile is on its way to L2.
 * Pages that begin at `seen` or later may not exist: zeros. */
INLINE void fix_page(kv_type type, const attend_work *w, uint32_t base, uint32_t start, uint32_t seen)
{
    room m = room_of(w);
    uint32_t dim = w->head_dim, after = base + start + ATTEND_TILE;
    if (base + start < seen) {
        const uint8_t *block = w->blocks + (size_t)w->pages[(base + start) / KV_PAGE_TOKENS] * w->page_bytes;
        const uint8_t *ahead = w->ahead[start / KV_PAGE_TOKENS], *other = ahead ? ahead : block;
        const uint8_t *next =
            after < seen ? w->blocks + (size_t)w->pages[after / KV_PAGE_TOKENS] * w->page_bytes : other;
        fix_keys(type, m, block, next, 0, dim, start);
        if (base + start + KV_GROUP < seen) {
            fix_keys(type, m, block, next, 1, dim, start + KV_GROUP);
            fix_values(type, true, m, block, next, dim, start);
        } else {
            clear_lanes(m, start + KV_GROUP);
            fix_values(type, false, m, block, next, dim, start);
        }
        return;
    }
    clear_lanes(m, start);
    clear_lanes(m, start + KV_GROUP);
}

static __attribute__((noinline)) void fix_page_f16(const attend_work *w, uint32_t base, uint32_t start, uint32_t seen)
{
    fix_page(KV_F16, w, base, start, seen);
}
static __attribute__((noinline)) void fix_page_bf16(const attend_work *w, uint32_t base, uint32_t start, uint32_t seen)
{
    fix_page(KV_BF16, w, base, start, seen);
}

/* Not the intrinsic: gcc 12 surrounds it with register moves, a fifth of the loop. */
INLINE void add_products(__m512i *sum, __m512i a, __m512i b)
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
}

/* sum[r][v] = sum over pairs of a[r] * b[v]; a's rows are a_stride apart, b's pairs b_stride, both in 16-bit numbers.
 */
INLINE void multiply(uint32_t rows, uint32_t vecs, const int16_t *a, size_t a_stride, const int16_t *b, size_t b_stride,
                     uint32_t pairs, __m512i sum[UNIT_ROWS][TILE_VECS])
{
    UNROLL for (uint32_t r = 0; r < rows; r++) UNROLL for (uint32_t v = 0; v < vecs; v++) sum[r][v] =
        _mm512_setzero_si512();
    for (uint32_t p = 0; p < pairs; p++) {
        __m512i lane[TILE_VECS];
        UNROLL for (uint32_t v = 0; v < vecs; v++) lane[v] = _mm512_load_si512(b + p * b_stride + v * HALVES);
        UNROLL for (uint32_t r = 0; r < rows; r++)
        {
            int32_t pair;
            memcpy(&pair, a + r * a_stride + 2 * p, sizeof(pair));
            __m512i x = _mm512_set1_epi32(pair);
            UNROLL for (uint32_t v = 0; v < vecs; v++) add_products(&sum[r][v], lane[v], x);
        }
    }
}

/* The slow way round for models that cap: scores are in `score`, still without the values' scale. */
static __attribute__((noinline)) void cap_row(room m, float *score, float *most_out, uint64_t lanes, float cap)
{
    vec most = vec_all(ATTEND_MASKED);
    for (uint32_t v = 0; v < TILE_VECS; v++) {
        vec u = soft_cap(vec_load(score + v * VEC_WIDTH), cap) + vec_load(m.v_log + v * VEC_WIDTH);
        u = _mm512_mask_blend_ps((__mmask16)(lanes >> (v * VEC_WIDTH)), vec_all(ATTEND_MASKED), u);
        most = vec_max(most, u);
        vec_store(score + v * VEC_WIDTH, u);
    }
    vec_store(most_out, most);
}

INLINE void score_rows(uint32_t rows, const attend_work *w, room m, uint32_t row, uint32_t block, uint32_t base,
                       bool masked)
{
    __m512i sum[UNIT_ROWS][TILE_VECS];
    multiply(rows, TILE_VECS, m.q + (size_t)row * w->head_dim, w->head_dim, m.k, 2 * ATTEND_TILE, w->head_dim / 2, sum);
    bool capped = w->softcap > 0;
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        vec q_scale = vec_all(m.q_scale[row + r]), most = vec_all(ATTEND_MASKED);
        uint64_t lanes = masked ? visible_lanes(w, row + r, base) : ~0ull;
        float *score = m.score + (row - block + r) * ATTEND_TILE, *most_out = m.most + (row - block + r) * VEC_WIDTH;
        UNROLL for (uint32_t v = 0; v < TILE_VECS; v++)
        {
            vec scaled = _mm512_cvtepi32_ps(sum[r][v]) * vec_load(m.k_scale + v * VEC_WIDTH);
            vec u = vec_fma(scaled, q_scale, capped ? vec_all(0) : vec_load(m.v_log + v * VEC_WIDTH));
            if (masked)
                u = _mm512_mask_blend_ps((__mmask16)(lanes >> (v * VEC_WIDTH)), vec_all(ATTEND_MASKED), u);
            most = vec_max(most, u);
            vec_store(score + v * VEC_WIDTH, u);
        }
        vec_store(most_out, most);
        if (capped)
            cap_row(m, score, most_out, lanes, w->softcap);
    }
}

/* Weights in units of 1 / WEIGHT_ONE: 2^(score + WEIGHT_LOG - top), `top` a whole number. Adding `magic` rounds the
 * score and leaves the exponent in the low bits; scores more than 64 below are taken for 64 below, which rounds to
 * nothing. */
INLINE void weigh_row(const attend_work *w, room m, uint32_t row, uint32_t at, uint32_t base, bool masked)
{
    vec magic = vec_all(ROUND_MAGIC), from_top = vec_all(ROUND_MAGIC + WEIGHT_LOG - m.top[at]), sum = vec_all(0);
    __m512i least = _mm512_set1_epi32(ROUND_MAGIC_BITS - 64);
    uint64_t lanes = masked ? visible_lanes(w, row, base) : ~0ull;
    const float *score = m.score + at * ATTEND_TILE;
    __m512i fixed[TILE_VECS];
    for (uint32_t v = 0; v < TILE_VECS; v++) {
        vec x = vec_load(score + v * VEC_WIDTH), n = x + from_top, f = x - (n - from_top);
        vec p = weight_polynomial(f);
        __m512i power = _mm512_slli_epi32(_mm512_max_epi32(_mm512_castps_si512(n), least), 23);
        p = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), power));
        if (masked)
            p = _mm512_maskz_mov_ps((__mmask16)(lanes >> (v * VEC_WIDTH)), p);
        sum = vec_fma(p, vec_load(m.v_inverse + v * VEC_WIDTH), sum);
        fixed[v] = _mm512_castps_si512(p + magic);
    }
    for (uint32_t v = 0; v < TILE_VECS; v += 2)
        _mm512_store_si512(m.weight + at * ATTEND_TILE + v * VEC_WIDTH, pair16(fixed[v], fixed[v + 1]));
    float *l = m.sum + row * VEC_WIDTH;
    vec_store(l, vec_fma(sum, vec_all(m.take[at]), vec_load(l) * vec_all(m.keep[at])));
}

INLINE void add_values(uint32_t rows, uint32_t vecs, const attend_work *w, room m, uint32_t row, uint32_t at,
                       uint32_t c)
{
    __m512i sum[UNIT_ROWS][TILE_VECS];
    uint32_t dim = w->head_dim;
    multiply(rows, vecs, m.weight + at * ATTEND_TILE, ATTEND_TILE, m.v + 2 * c, 2 * dim, ATTEND_TILE / 2, sum);
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        vec keep = vec_all(m.keep[at + r]), take = vec_all(m.take[at + r]);
        float *acc = w->part.acc + (size_t)(row + r) * dim + c;
        UNROLL for (uint32_t v = 0; v < vecs; v++)
        {
            vec kept = vec_load(acc + v * VEC_WIDTH) * keep;
            vec_store(acc + v * VEC_WIDTH, vec_fma(_mm512_cvtepi32_ps(sum[r][v]), take, kept));
        }
    }
}

INLINE void add_values_all(uint32_t rows, const attend_work *w, room m, uint32_t row, uint32_t at)
{
    uint32_t c = 0, left = w->head_dim;
    for (; left >= ATTEND_TILE; c += ATTEND_TILE, left -= ATTEND_TILE)
        add_values(rows, 4, w, m, row, at, c);
    if (left == 48)
        add_values(rows, 3, w, m, row, at, c);
    else if (left == 32)
        add_values(rows, 2, w, m, row, at, c);
    else if (left == 16)
        add_values(rows, 1, w, m, row, at, c);
}

static void score_block(const attend_work *w, room m, uint32_t block, uint32_t rows, uint32_t base, bool masked)
{
#define SCORE(n) score_rows(n, w, m, block + r, block, base, masked)
    FOR_UNITS(SCORE)
}

static void value_block(const attend_work *w, room m, uint32_t block, uint32_t rows)
{
#define VALUES(n) add_values_all(n, w, m, block + r, r)
    FOR_UNITS(VALUES)
}

static void attend_block(const attend_work *w, room m, uint32_t block, uint32_t rows, uint32_t base)
{
    uint32_t first, last, first_end, last_start;
    attend_visible(w->position[block], w->window, base, &first, &first_end);
    attend_visible(w->position[block + rows - 1], w->window, base, &last_start, &last);
    if (last == 0 || first == ATTEND_TILE)
        return;
    bool masked = first_end < ATTEND_TILE || last_start > 0;
    score_block(w, m, block, rows, base, masked);
    vec tile_top = round_up_to_whole(rows_most(m.most)), before = vec_load(w->part.m + block),
        top = vec_max(before, tile_top);
    vec_store(m.top, tile_top);
    vec_store(m.keep, whole_exp2(before - top));
    vec_store(m.take, whole_exp2(tile_top - top) * vec_all(1.0f / WEIGHT_ONE));
    vec_store(w->part.m + block, top);
    for (uint32_t r = 0; r < rows; r++) {
        if (masked)
            weigh_row(w, m, block + r, r, base, true);
        else
            weigh_row(w, m, block + r, r, base, false);
    }
    value_block(w, m, block, rows);
}

static void begin_split(const attend_work *w)
{
    for (uint32_t r = 0; r < w->rows; r += BLOCK_ROWS)
        vec_store(w->part.m + r, vec_all(ATTEND_MASKED));
    memset(room_of(w).sum, 0, sizeof(float) * VEC_WIDTH * w->rows);
    memset(w->part.acc, 0, sizeof(float) * w->rows * w->head_dim);
}

static void attend_tile(const attend_work *w, uint32_t base)
{
    room m = room_of(w);
    for (uint32_t r = 0; r < w->rows; r += BLOCK_ROWS)
        attend_block(w, m, r, w->rows - r < BLOCK_ROWS ? w->rows - r : BLOCK_ROWS, base);
}

void attend_split_avx512(attend_work *const *works, uint32_t count, uint32_t split)
{
    const attend_work *w = works[0];
    if (kv_coded(w->type)) {
        attend_codes_split(works, count, split);
        return;
    }
    uint32_t start = split * ATTEND_SPLIT, seen = w->position[w->rows - 1] + 1, first, last;
    for (uint32_t i = 0; i < count; i++)
        begin_split(works[i]);
    for (uint32_t base = start; base < start + ATTEND_SPLIT && base < seen; base += ATTEND_TILE) {
        attend_visible(w->position[0], w->window, base, &first, &last);
        if (first == ATTEND_TILE)
            continue; /* before the first row's window, hence before every row's */
        for (uint32_t start = 0; start < ATTEND_TILE; start += KV_PAGE_TOKENS)
            for (uint32_t i = 0; i < count; i++)
                (w->type == KV_F16 ? fix_page_f16 : fix_page_bf16)(works[i], base, start, seen);
        for (uint32_t i = 0; i < count; i++)
            attend_tile(works[i], base);
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t r = 0; r < w->rows; r++)
            works[i]->part.l[r] = vec_sum(vec_load(room_of(works[i]).sum + r * VEC_WIDTH));
}

void attend_merge_avx512(attend_state into, uint32_t into_row, attend_state from, uint32_t from_row, uint32_t head_dim)
{
    vec m_into = vec_all(into.m[into_row]), m_from = vec_all(from.m[from_row]), m = vec_max(m_into, m_from);
    vec keep = whole_exp2(m_into - m), take = whole_exp2(m_from - m);
    float *acc = into.acc + (size_t)into_row * head_dim;
    const float *part = from.acc + (size_t)from_row * head_dim;
    for (uint32_t c = 0; c < head_dim; c += VEC_WIDTH)
        vec_store(acc + c, vec_fma(vec_load(part + c), take, vec_load(acc + c) * keep));
    into.m[into_row] = _mm512_cvtss_f32(m);
    into.l[into_row] = into.l[into_row] * _mm512_cvtss_f32(keep) + from.l[from_row] * _mm512_cvtss_f32(take);
}

void attend_finish_avx512(float *out, const float *acc, float l, uint32_t head_dim)
{
    vec inverse = vec_all(1.0f / l);
    for (uint32_t c = 0; c < head_dim; c += VEC_WIDTH) /* no negative zero: its sign would depend on unseen keys */
        vec_store(out + c, vec_load(acc + c) * inverse + vec_all(0));
}
