/* Attention on codes: products of unsigned codes and signed bytes, straight from the block. A query has 8 bits (turned,
 * none of its channels stands out), weights have 14 in two bytes. Integer sums are exact, so their order is free;
 * everything after them is f32 per row.
 *
 * With w_j = p_j s_j, p_j = 2^(score_j - top) and s_j the scale of key j's values: P_j = round(w_j * 16383 / max w), so
 * a large value's weight is the precise one; acc += 2^top * max w / 16383 * sum P_j (2 code_j - zero), chunk by chunk
 * of channels, and l += 2^top * sum p_j. A row that sees no key of a tile keeps its bits. */
#include "tensor/cpu/avx512/attend_codes.h"
#include "tensor/cpu/avx512/attend_parts.h"
#include "tensor/cpu/codes.h"

enum {
    PAGE_VECS = KV_PAGE_TOKENS / VEC_WIDTH, /* of scores */
    VALUE_VECS = 2,                         /* of channels that one pass over V adds up */
    TILE_PAGES = ATTEND_TILE / KV_PAGE_TOKENS,
    PAGE_QUADS = KV_PAGE_TOKENS / 4, /* of tokens */
    PAIR = 8,                        /* bytes: four upper ones, four lower ones */
    QUERY_MOST = 127,
    WEIGHT_MOST = 16383, /* 127 * 128 + 127 */
};
#define WEIGHT_LEAST 0x1p-110f /* below this a tile's values count as zero */

typedef struct {
    int8_t *q;                  /* [ATTEND_ROWS][head_dim] */
    int8_t *weight;             /* [BLOCK_ROWS][ATTEND_TILE / 4][2][4] */
    int32_t *q_zero;            /* [ATTEND_ROWS][KV_CHUNKS_MAX] kv_zero times the sum of the chunk's q */
    int32_t *weight_zero;       /* [BLOCK_ROWS] the same for weights */
    float *q_sum;               /* [ATTEND_ROWS][KV_CHUNKS_MAX] */
    float *q_scale;             /* [ATTEND_ROWS] */
    float *score;               /* [BLOCK_ROWS][ATTEND_TILE], then p */
    float *most;                /* [BLOCK_ROWS][VEC_WIDTH] largest score, then largest w, per lane */
    float *sum;                 /* [ATTEND_ROWS][VEC_WIDTH] l per lane */
    float *keep, *rise, *top;   /* [BLOCK_ROWS] factors of acc and of the tile's sum; the tile's maximum */
    float *weight_scale, *take; /* [BLOCK_ROWS] P per w; acc per P */
    float *turned;              /* [head_dim] */
} room;

INLINE room room_of(const attend_work *w)
{
    uint32_t dim = w->head_dim;
    room m;
    m.q = w->scratch;
    m.weight = m.q + (size_t)ATTEND_ROWS * dim;
    m.q_zero = (int32_t *)(m.weight + BLOCK_ROWS * 2 * ATTEND_TILE);
    m.weight_zero = m.q_zero + ATTEND_ROWS * KV_CHUNKS_MAX;
    m.q_sum = (float *)(m.weight_zero + BLOCK_ROWS);
    m.q_scale = m.q_sum + ATTEND_ROWS * KV_CHUNKS_MAX;
    m.score = m.q_scale + ATTEND_ROWS;
    m.most = m.score + BLOCK_ROWS * ATTEND_TILE;
    m.sum = m.most + BLOCK_ROWS * VEC_WIDTH;
    m.keep = m.sum + ATTEND_ROWS * VEC_WIDTH;
    m.rise = m.keep + BLOCK_ROWS;
    m.top = m.rise + BLOCK_ROWS;
    m.weight_scale = m.top + BLOCK_ROWS;
    m.take = m.weight_scale + BLOCK_ROWS;
    m.turned = m.take + BLOCK_ROWS;
    return m;
}

size_t attend_codes_scratch_bytes(uint32_t head_dim)
{
    size_t bytes = (size_t)ATTEND_ROWS * head_dim + BLOCK_ROWS * 2 * ATTEND_TILE;
    size_t words = ATTEND_ROWS * (2 * KV_CHUNKS_MAX + 1 + VEC_WIDTH) + BLOCK_ROWS * (ATTEND_TILE + VEC_WIDTH + 6);
    return bytes + 4 * (words + head_dim);
}

/* One step of kv_turn within a vector: lanes i and i + half of each 2 half become their sum and difference. */
#define TURN_LANES(x, swapped, negative) _mm512_add_ps(swapped, _mm512_mask_sub_ps(x, negative, _mm512_setzero_ps(), x))
INLINE vec turn_vector(vec x)
{
    x = TURN_LANES(x, _mm512_permute_ps(x, 0xb1), 0xaaaa);
    x = TURN_LANES(x, _mm512_permute_ps(x, 0x4e), 0xcccc);
    x = TURN_LANES(x, _mm512_shuffle_f32x4(x, x, 0xb1), 0xf0f0);
    return TURN_LANES(x, _mm512_shuffle_f32x4(x, x, 0x4e), 0xff00);
}

/* kv_clamp, to the bit. */
INLINE vec clamp_vector(vec x)
{
    __m512i bits = _mm512_castps_si512(x), magnitude = _mm512_set1_epi32(INT32_MAX);
    __m512i clamped = _mm512_min_epu32(_mm512_and_si512(bits, magnitude), _mm512_set1_epi32(KV_WIDE_MOST_BITS));
    return _mm512_castsi512_ps(_mm512_or_si512(clamped, _mm512_andnot_si512(magnitude, bits)));
}

/* kv_turn, to the bit; after kv_clamp where `clamp` says so. */
INLINE void turn_channels(bool clamp, float *out, const float *x, uint32_t dim)
{
    for (uint32_t at = 0, vecs; at < dim; at += vecs * VEC_WIDTH) {
        uint32_t left = (dim - at) / VEC_WIDTH;
        vecs = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        vec y[4], scale = vec_all(vecs == 4 ? 0.125f : vecs == 2 ? 0.176776695f : 0.25f);
        for (uint32_t i = 0; i < vecs; i++)
            y[i] =
                turn_vector(clamp ? clamp_vector(vec_load(x + at + i * VEC_WIDTH)) : vec_load(x + at + i * VEC_WIDTH));
        for (uint32_t half = 1; half < vecs; half *= 2)
            for (uint32_t i = 0; i < vecs; i += i % half == half - 1 ? half + 1 : 1) {
                vec a = y[i], b = y[i + half];
                y[i] = a + b;
                y[i + half] = a - b;
            }
        for (uint32_t i = 0; i < vecs; i++)
            vec_store(out + at + i * VEC_WIDTH, y[i] * scale);
    }
}

/* kv_middle, to the bit. */
static uint16_t middle_of(const float *x, uint32_t n)
{
    __m512i least = _mm512_set1_epi32(INT32_MAX), most = _mm512_set1_epi32(INT32_MIN);
    for (uint32_t c = 0; c < n; c += VEC_WIDTH) {
        __m512i bits = _mm512_castps_si512(vec_load(x + c));
        __m512i order =
            _mm512_xor_si512(bits, _mm512_and_si512(_mm512_srai_epi32(bits, 31), _mm512_set1_epi32(INT32_MAX)));
        least = _mm512_min_epi32(least, order);
        most = _mm512_max_epi32(most, order);
    }
    return kv_middle_between(_mm512_reduce_min_epi32(least), _mm512_reduce_max_epi32(most));
}

/* kv_encode_chunk, to the bit. */
static uint16_t encode_chunk(kv_type type, uint8_t *code, const float *x, float middle, uint32_t n)
{
    vec from = vec_all(middle);
    __m512i most = _mm512_setzero_si512();
    for (uint32_t c = 0; c < n; c += VEC_WIDTH)
        most = _mm512_max_epu32(most, _mm512_castps_si512(_mm512_abs_ps(vec_load(x + c) - from)));
    uint16_t scale = kv_scale_for(type, _mm512_reduce_max_epu32(most));
    vec inverse = vec_all(0.5f / wide_half(scale)), zero = vec_all(0.5f * (float)kv_zero(type));
    for (uint32_t c = 0; c < n; c += VEC_WIDTH) {
        vec y = (vec_load(x + c) - from) * inverse + zero + vec_all(ROUND_MAGIC);
        _mm_storeu_si128((__m128i *)(code + c), _mm512_cvtepi32_epi8(_mm512_castps_si512(y)));
    }
    return scale;
}

void attend_codes_write(uint8_t *block, kv_type type, uint32_t slot, uint32_t head_dim, const float *k, const float *v)
{
    uint8_t k_code[ATTEND_DIM_MAX], v_code[ATTEND_DIM_MAX + 16];
    float key[ATTEND_DIM_MAX], value[ATTEND_DIM_MAX];
    turn_channels(true, key, k, head_dim);
    for (uint32_t c = 0; c < head_dim; c += VEC_WIDTH)
        vec_store(value + c, clamp_vector(vec_load(v + c)));
    uint16_t *scale = (uint16_t *)(block + kv_block_tail(type, head_dim)) + slot;
    size_t kind = (size_t)kv_chunks(head_dim) * KV_PAGE_TOKENS; /* from K's scales to V's, from there to K's middles */
    for (uint32_t at = 0; at < head_dim; at += KV_SCALE_CHANNELS, scale += KV_PAGE_TOKENS) {
        uint32_t n = head_dim - at < KV_SCALE_CHANNELS ? head_dim - at : KV_SCALE_CHANNELS;
        uint16_t middle = 0;
        if (type == KV_Q4)
            scale[2 * kind] = middle = middle_of(key + at, n);
        scale[0] = encode_chunk(type, k_code + at, key + at, wide_half(middle), n);
        scale[kind] = encode_chunk(type, v_code + at, value + at, 0, n);
    }
    kv_place(block, type, slot, head_dim, k_code, v_code);
}

void attend_codes_load(attend_work *w)
{
    room m = room_of(w);
    uint32_t dim = w->head_dim, chunks = kv_chunks(dim);
    for (uint32_t r = 0; r < w->rows; r++) {
        turn_channels(false, m.turned, w->q[r], dim);
        vec most = vec_all(0);
        for (uint32_t c = 0; c < dim; c += VEC_WIDTH)
            most = vec_max(_mm512_abs_ps(vec_load(m.turned + c)), most);
        float largest = _mm512_reduce_max_ps(most), scale = QUERY_MOST / largest;
        scale = largest > 0 && scale > 0 && scale < 1e30f ? scale : 0;
        __m512i sums[KV_CHUNKS_MAX] = {0};
        for (uint32_t c = 0; c < dim; c += VEC_WIDTH) {
            __m512i x = _mm512_cvtps_epi32(vec_load(m.turned + c) * vec_all(scale));
            sums[c / KV_SCALE_CHANNELS] = _mm512_add_epi32(sums[c / KV_SCALE_CHANNELS], x);
            _mm_storeu_si128((__m128i *)(m.q + (size_t)r * dim + c), _mm512_cvtepi32_epi8(x));
        }
        for (uint32_t chunk = 0; chunk < chunks; chunk++) {
            int32_t sum = _mm512_reduce_add_epi32(sums[chunk]);
            m.q_sum[r * KV_CHUNKS_MAX + chunk] = (float)sum;
            m.q_zero[r * KV_CHUNKS_MAX + chunk] = sum * kv_zero(w->type);
        }
        m.q_scale[r] = scale > 0 ? w->scale * 1.44269504f / scale : 0;
    }
}

/* Not the intrinsic: gcc 12 surrounds it with register moves. */
INLINE void add_products(__m512i *sum, __m512i codes, __m512i bytes)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(codes), "v"(bytes));
}
INLINE __m512i four_bytes(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof(four));
    return _mm512_set1_epi32(four);
}
INLINE __m512i low_codes(__m512i x)
{
    return _mm512_and_si512(x, _mm512_set1_epi8(15));
}
INLINE __m512i high_codes(__m512i x)
{
    return low_codes(_mm512_srli_epi16(x, 4));
}

/* Sixteen scales or middles. */
INLINE vec load_scales(const uint16_t *x)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* A tile's pages; NULL where none of its keys is seen: it may not exist. `next`: from each to what this thread will
 * probably read after it, which is on its way to L2 meanwhile. */
typedef struct {
    const uint8_t *page[TILE_PAGES];
    ptrdiff_t next[TILE_PAGES];
    bool masked; /* some row of the block does not see all keys */
    uint32_t base;
} tile;

INLINE void look_ahead(const uint8_t *x, ptrdiff_t next)
{
    _mm_prefetch((const char *)x + next, _MM_HINT_T1);
}

/* Channels [at, at + n) of a tile's keys. */
INLINE void multiply_keys(kv_type type, uint32_t rows, const int8_t *q, const tile *t, uint32_t dim, uint32_t at,
                          uint32_t n, __m512i sum[UNIT_ROWS][TILE_VECS])
{
    size_t half = (size_t)KV_GROUP * (type == KV_Q4 ? dim / 2 : dim), from = (type == KV_Q4 ? at / 8 : at / 4) * 64;
    const uint8_t *first = t->page[0] + from, *second = (t->page[1] ? t->page[1] : t->page[0]) + from;
    UNROLL for (uint32_t r = 0; r < rows; r++) UNROLL for (uint32_t v = 0; v < TILE_VECS; v++) sum[r][v] =
        _mm512_setzero_si512();
    for (uint32_t c = 0; c < n; c += type == KV_Q4 ? 8 : 4, first += 64, second += 64) {
        const int8_t *bytes = q + at + c;
        __m512i x[TILE_VECS] = {_mm512_loadu_si512(first), _mm512_loadu_si512(first + half), _mm512_loadu_si512(second),
                                _mm512_loadu_si512(second + half)};
        look_ahead(first, t->next[0]);
        look_ahead(first + half, t->next[0]);
        look_ahead(second, t->next[1]);
        look_ahead(second + half, t->next[1]);
        UNROLL for (uint32_t r = 0; r < rows; r++)
        {
            __m512i four = four_bytes(bytes + r * dim);
            UNROLL for (uint32_t v = 0; v < TILE_VECS; v++)
                add_products(&sum[r][v], type == KV_Q4 ? low_codes(x[v]) : x[v], four);
        }
        UNROLL for (uint32_t r = 0; type == KV_Q4 && r < rows; r++)
        {
            __m512i four = four_bytes(bytes + r * dim + 4);
            UNROLL for (uint32_t v = 0; v < TILE_VECS; v++) add_products(&sum[r][v], high_codes(x[v]), four);
        }
    }
}

/* Products of rows [row, row + rows) with a tile's keys, without the rows' scale. A page that is not there counts like
 * the first: no row sees it. */
INLINE void score_rows(kv_type type, uint32_t rows, const attend_work *w, room m, const tile *t, uint32_t row,
                       float *score)
{
    uint32_t dim = w->head_dim;
    for (uint32_t chunk = 0, at = 0; at < dim; chunk++, at += KV_SCALE_CHANNELS) {
        __m512i sum[UNIT_ROWS][TILE_VECS];
        multiply_keys(type, rows, m.q + (size_t)row * dim, t, dim, at,
                      dim - at < KV_SCALE_CHANNELS ? dim - at : KV_SCALE_CHANNELS, sum);
        UNROLL for (uint32_t v = 0; v < TILE_VECS; v++)
        {
            const uint8_t *block = t->page[v / PAGE_VECS] ? t->page[v / PAGE_VECS] : t->page[0];
            uint32_t first = chunk * KV_PAGE_TOKENS + v % PAGE_VECS * VEC_WIDTH;
            vec scale = load_scales(kv_k_scales(block, type, dim) + first);
            vec middle = type == KV_Q4 ? load_scales(kv_k_middles(block, dim) + first) : vec_all(0);
            UNROLL for (uint32_t r = 0; r < rows; r++)
            {
                uint32_t of = (row + r) * KV_CHUNKS_MAX + chunk;
                float *out = score + r * ATTEND_TILE + v * VEC_WIDTH;
                __m512i twice = _mm512_add_epi32(sum[r][v], sum[r][v]);
                vec x = _mm512_cvtepi32_ps(_mm512_sub_epi32(twice, _mm512_set1_epi32(m.q_zero[of]))) * scale;
                if (type == KV_Q4)
                    x = vec_fma(vec_all(m.q_sum[of]), middle, x);
                if (chunk)
                    x += vec_load(out);
                vec_store(out, x);
            }
        }
    }
}

/* Products become scores in units of log2, ATTEND_MASKED where the row does not see the key. */
static void finish_scores(const attend_work *w, room m, const tile *t, uint32_t row, uint32_t at)
{
    float *score = m.score + at * ATTEND_TILE;
    vec q_scale = vec_all(m.q_scale[row]), most = vec_all(ATTEND_MASKED);
    uint64_t lanes = t->masked ? visible_lanes(w, row, t->base) : ~0ull;
    for (uint32_t v = 0; v < TILE_VECS; v++) {
        vec u = vec_load(score + v * VEC_WIDTH) * q_scale;
        if (w->softcap > 0)
            u = soft_cap(u, w->softcap);
        u = _mm512_mask_blend_ps((__mmask16)(lanes >> (v * VEC_WIDTH)), vec_all(ATTEND_MASKED), u);
        most = vec_max(most, u);
        vec_store(score + v * VEC_WIDTH, u);
    }
    vec_store(m.most + at * VEC_WIDTH, most);
}

/* Scores become p; those more than 64 below the top are taken for 64 below. */
static void exponentiate(const attend_work *w, room m, const tile *t, uint32_t row, uint32_t at)
{
    vec from_top = vec_all(ROUND_MAGIC - m.top[at]), sum = vec_all(0);
    __m512i least = _mm512_set1_epi32(ROUND_MAGIC_BITS - 64);
    uint64_t lanes = t->masked ? visible_lanes(w, row, t->base) : ~0ull;
    float *score = m.score + at * ATTEND_TILE, *l = m.sum + row * VEC_WIDTH;
    for (uint32_t v = 0; v < TILE_VECS; v++) {
        vec x = vec_load(score + v * VEC_WIDTH), n = x + from_top, f = x - (n - from_top);
        __m512i power = _mm512_slli_epi32(_mm512_max_epi32(_mm512_castps_si512(n), least), 23);
        vec p = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(weight_polynomial(f)), power));
        p = _mm512_maskz_mov_ps((__mmask16)(lanes >> (v * VEC_WIDTH)), p);
        sum += p;
        vec_store(score + v * VEC_WIDTH, p);
    }
    vec_store(l, vec_fma(sum, vec_all(m.rise[at]), vec_load(l) * vec_all(m.keep[at])));
}

/* The scales of a chunk's values, zero where there is no page. */
INLINE void load_value_scales(kv_type type, const tile *t, uint32_t dim, uint32_t chunk, vec scale[TILE_VECS])
{
    UNROLL for (uint32_t v = 0; v < TILE_VECS; v++)
    {
        const uint8_t *block = t->page[v / PAGE_VECS];
        uint32_t first = chunk * KV_PAGE_TOKENS + v % PAGE_VECS * VEC_WIDTH;
        scale[v] = block ? load_scales(kv_v_scales(block, type, dim) + first) : vec_all(0);
    }
}

/* w of each row; a key that a row does not see has none, whatever its scale. */
INLINE void weigh_row(room m, const vec scale[TILE_VECS], uint32_t at, vec w[TILE_VECS])
{
    UNROLL for (uint32_t v = 0; v < TILE_VECS; v++)
    {
        vec p = vec_load(m.score + at * ATTEND_TILE + v * VEC_WIDTH);
        w[v] = _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(p, vec_all(0), _CMP_GT_OQ), p, scale[v]);
    }
}

/* P of each row of a block, from p and one chunk's scales. */
static void weigh_block(room m, uint32_t rows, int32_t zero, const vec scale[TILE_VECS])
{
    vec w[TILE_VECS];
    for (uint32_t r = 0; r < rows; r++) {
        weigh_row(m, scale, r, w);
        vec_store(m.most + r * VEC_WIDTH, vec_max(vec_max(w[0], w[1]), vec_max(w[2], w[3])));
    }
    vec largest = rows_most(m.most);
    __mmask16 some = _mm512_cmp_ps_mask(largest, vec_all(WEIGHT_LEAST), _CMP_GT_OQ);
    vec_store(m.weight_scale, _mm512_maskz_div_ps(some, vec_all(WEIGHT_MOST), largest));
    vec_store(m.take, _mm512_maskz_mul_ps(some, largest, vec_load(m.rise) * vec_all(1.0f / WEIGHT_MOST)));
    for (uint32_t r = 0; r < rows; r++) {
        __m512i sum = _mm512_setzero_si512();
        int8_t *out = m.weight + r * 2 * ATTEND_TILE;
        weigh_row(m, scale, r, w);
        UNROLL for (uint32_t v = 0; v < TILE_VECS; v++)
        {
            __m512i x = _mm512_cvtps_epi32(w[v] * vec_all(m.weight_scale[r]));
            sum = _mm512_add_epi32(sum, x);
            __m128i upper = _mm512_cvtepi32_epi8(_mm512_srli_epi32(x, 7));
            __m128i lower = _mm512_cvtepi32_epi8(_mm512_and_si512(x, _mm512_set1_epi32(127)));
            _mm_storeu_si128((__m128i *)(out + v * 32), _mm_unpacklo_epi32(upper, lower));
            _mm_storeu_si128((__m128i *)(out + v * 32 + 16), _mm_unpackhi_epi32(upper, lower));
        }
        m.weight_zero[r] = zero * _mm512_reduce_add_epi32(sum);
    }
}

typedef struct {
    __m512i upper[UNIT_ROWS][VALUE_VECS], lower[UNIT_ROWS][VALUE_VECS];
} products;

/* Channels [c, c + 16 vecs) of one page's values. */
INLINE void multiply_values(kv_type type, products *p, uint32_t rows, uint32_t vecs, const int8_t *weight,
                            const uint8_t *block, ptrdiff_t next, uint32_t dim, uint32_t c)
{
    size_t step = 4 * kv_v_width(type, dim);
    const uint8_t *v = block + kv_block_v(type, dim) + (type == KV_Q4 ? 2 * c : 4 * c);
    for (uint32_t quad = 0; quad < PAGE_QUADS; quad++, v += step, weight += PAIR) {
        __m512i codes[VALUE_VECS], x = _mm512_loadu_si512(v);
        look_ahead(v, next);
        codes[0] = type == KV_Q4 ? low_codes(x) : x;
        if (vecs > 1)
            codes[1] = type == KV_Q4 ? high_codes(x) : _mm512_loadu_si512(v + 64);
        if (vecs > 1 && type == KV_Q8)
            look_ahead(v + 64, next);
        UNROLL for (uint32_t r = 0; r < rows; r++)
        {
            const int8_t *bytes = weight + r * 2 * ATTEND_TILE;
            __m512i upper = four_bytes(bytes), lower = four_bytes(bytes + 4);
            UNROLL for (uint32_t i = 0; i < vecs; i++) add_products(&p->upper[r][i], codes[i], upper);
            UNROLL for (uint32_t i = 0; i < vecs; i++) add_products(&p->lower[r][i], codes[i], lower);
        }
    }
}

INLINE void add_values(kv_type type, uint32_t rows, uint32_t vecs, const attend_work *w, room m, const tile *t,
                       uint32_t row, uint32_t at, uint32_t c)
{
    products p;
    UNROLL for (uint32_t r = 0; r < rows; r++) UNROLL for (uint32_t v = 0; v < vecs; v++) p.upper[r][v] =
        p.lower[r][v] = _mm512_setzero_si512();
    for (uint32_t page = 0; page < TILE_PAGES && t->page[page]; page++)
        multiply_values(type, &p, rows, vecs, m.weight + at * 2 * ATTEND_TILE + page * PAGE_QUADS * PAIR, t->page[page],
                        t->next[page], w->head_dim, c);
    UNROLL for (uint32_t r = 0; r < rows; r++)
    {
        vec keep = vec_all(m.keep[at + r]), take = vec_all(m.take[at + r]);
        __m512i zero = _mm512_set1_epi32(m.weight_zero[at + r]);
        float *acc = w->part.acc + (size_t)(row + r) * w->head_dim + c;
        UNROLL for (uint32_t v = 0; v < vecs; v++)
        {
            __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(p.upper[r][v], 8), _mm512_slli_epi32(p.lower[r][v], 1));
            vec kept = vec_load(acc + v * VEC_WIDTH) * keep;
            vec_store(acc + v * VEC_WIDTH, vec_fma(_mm512_cvtepi32_ps(_mm512_sub_epi32(sum, zero)), take, kept));
        }
    }
}

INLINE void add_chunk(kv_type type, uint32_t rows, const attend_work *w, room m, const tile *t, uint32_t row,
                      uint32_t at, uint32_t chunk)
{
    uint32_t c = chunk * KV_SCALE_CHANNELS, end = c + KV_SCALE_CHANNELS;
    end = end < w->head_dim ? end : w->head_dim;
    for (; c + 2 * VEC_WIDTH <= end; c += 2 * VEC_WIDTH)
        add_values(type, rows, 2, w, m, t, row, at, c);
    if (c < end)
        add_values(type, rows, 1, w, m, t, row, at, c);
}

INLINE void attend_block(kv_type type, const attend_work *w, room m, tile *t, uint32_t block, uint32_t rows)
{
    uint32_t first, last, first_end, last_start;
    attend_visible(w->position[block], w->window, t->base, &first, &first_end);
    attend_visible(w->position[block + rows - 1], w->window, t->base, &last_start, &last);
    if (last == 0 || first == ATTEND_TILE)
        return;
    t->masked = first_end < ATTEND_TILE || last_start > 0;
#define SCORE(n) score_rows(type, n, w, m, t, block + r, m.score + r * ATTEND_TILE)
    FOR_UNITS(SCORE)
    for (uint32_t r = 0; r < rows; r++)
        finish_scores(w, m, t, block + r, r);
    vec tile_top = round_up_to_whole(rows_most(m.most)), before = vec_load(w->part.m + block),
        top = vec_max(before, tile_top);
    vec_store(m.top, tile_top);
    vec_store(m.keep, whole_exp2(before - top));
    vec_store(m.rise, whole_exp2(tile_top - top));
    vec_store(w->part.m + block, top);
    for (uint32_t r = 0; r < rows; r++)
        exponentiate(w, m, t, block + r, r);
    for (uint32_t chunk = 0; chunk < kv_chunks(w->head_dim); chunk++) {
        vec scale[TILE_VECS];
        load_value_scales(type, t, w->head_dim, chunk, scale);
        weigh_block(m, rows, kv_zero(type), scale);
#define VALUES(n) add_chunk(type, n, w, m, t, block + r, r, chunk)
        FOR_UNITS(VALUES)
    }
}

static __attribute__((noinline)) void attend_block_q8(const attend_work *w, tile *t, uint32_t block, uint32_t rows)
{
    attend_block(KV_Q8, w, room_of(w), t, block, rows);
}
static __attribute__((noinline)) void attend_block_q4(const attend_work *w, tile *t, uint32_t block, uint32_t rows)
{
    attend_block(KV_Q4, w, room_of(w), t, block, rows);
}

static tile tile_at(const attend_work *w, uint32_t base, uint32_t seen)
{
    tile t = {.base = base};
    for (uint32_t i = 0; i < TILE_PAGES; i++) {
        uint32_t start = base + i * KV_PAGE_TOKENS, after = start + ATTEND_TILE;
        if (start >= seen)
            continue;
        t.page[i] = w->blocks + (size_t)w->pages[start / KV_PAGE_TOKENS] * w->page_bytes;
        const uint8_t *next =
            after < seen ? w->blocks + (size_t)w->pages[after / KV_PAGE_TOKENS] * w->page_bytes : w->ahead[i];
        t.next[i] = next ? next - t.page[i] : 0;
    }
    return t;
}

static void attend_tile(const attend_work *w, uint32_t base, uint32_t seen)
{
    tile t = tile_at(w, base, seen);
    for (uint32_t r = 0; r < w->rows; r += BLOCK_ROWS) {
        uint32_t rows = w->rows - r < BLOCK_ROWS ? w->rows - r : BLOCK_ROWS;
        if (w->type == KV_Q8)
            attend_block_q8(w, &t, r, rows);
        else
            attend_block_q4(w, &t, r, rows);
    }
}

static void begin_split(const attend_work *w)
{
    for (uint32_t r = 0; r < w->rows; r += BLOCK_ROWS)
        vec_store(w->part.m + r, vec_all(ATTEND_MASKED));
    memset(room_of(w).sum, 0, sizeof(float) * VEC_WIDTH * w->rows);
    memset(w->part.acc, 0, sizeof(float) * w->rows * w->head_dim);
}

void attend_codes_split(attend_work *const *works, uint32_t count, uint32_t split)
{
    const attend_work *w = works[0];
    uint32_t start = split * ATTEND_SPLIT, seen = w->position[w->rows - 1] + 1, first, last;
    for (uint32_t i = 0; i < count; i++)
        begin_split(works[i]);
    for (uint32_t base = start; base < start + ATTEND_SPLIT && base < seen; base += ATTEND_TILE) {
        attend_visible(w->position[0], w->window, base, &first, &last);
        if (first == ATTEND_TILE)
            continue; /* before the first row's window, hence before every row's */
        for (uint32_t i = 0; i < count; i++)
            attend_tile(works[i], base, seen);
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t r = 0; r < w->rows; r++)
            works[i]->part.l[r] = vec_sum(vec_load(room_of(works[i]).sum + r * VEC_WIDTH));
}
