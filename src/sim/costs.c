/* sim/costs.c: lines between points, and tables made of a planner's formulas. */
#include "sim/costs.h"

#include <math.h>

/* Units of a chunk: what a device looks up after is an op of a layer over a block of rows. */
enum { UNIT_OPS = 8, UNIT_TOKENS = 256 };

static const double decode_rows[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};
static const double chunk_tokens[] = {1,   2,   3,   4,   6,   8,    12,   16,   24,   32,   48,   64,   96,   128,
                                      192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384};
enum {
    ROW_POINTS = sizeof decode_rows / sizeof *decode_rows,
    CHUNK_POINTS = sizeof chunk_tokens / sizeof *chunk_tokens
};
_Static_assert((int)ROW_POINTS <= (int)COST_POINTS_MAX && (int)CHUNK_POINTS <= (int)COST_POINTS_MAX, "tables too long");

static const double kv_depth = 16384; /* tokens: KV is a line up to here; windowed layers bend it */
static const double fused_chunk = 2048;

/* ---- what a step takes ---- */

static double line_at(const cost_point *points, uint32_t count, double x)
{
    if (count == 0)
        return 0;
    if (x <= points[0].x || count == 1)
        return points[0].us;
    uint32_t above = 1;
    while (above + 1 < count && points[above].x < x)
        above++;
    const cost_point *a = &points[above - 1], *b = &points[above];
    if (x > b->x && b->us < a->us) /* measured ones may fall; no step takes less than nothing */
        return b->us;
    return a->us + (b->us - a->us) * (x - a->x) / (b->x - a->x);
}

double sim_costs_decode_us(const sim_costs *c, double rows, double kv_tokens)
{
    return rows > 0 ? line_at(c->rows, c->row_count, rows) + c->kv_us * kv_tokens : 0;
}

double sim_costs_prefill_us(const sim_costs *c, double position, double count)
{
    return count > 0 ? line_at(c->chunks, c->chunk_count, count) + c->depth_us * count * position : 0;
}

double sim_costs_fused_us(const sim_costs *c, double rows, double kv_tokens, double position, double count)
{
    if (count <= 0)
        return sim_costs_decode_us(c, rows, kv_tokens);
    return sim_costs_prefill_us(c, position, count) + c->fused_row_us * rows + c->kv_us * kv_tokens;
}

uint64_t sim_costs_chunk_units(const sim_costs *c, double count)
{
    double largest = c->chunk_count ? c->chunks[c->chunk_count - 1].x : count;
    double units = largest > 0 ? ceil(c->units * count / largest) : 1;
    return units > 1 ? (uint64_t)units : 1;
}

double sim_costs_weight_bytes(const sim_costs *c, double rows)
{
    double bytes = c->weight_bytes + (rows > 1 ? rows - 1 : 0) * c->weight_bytes_row;
    return c->weight_bytes_most > 0 && bytes > c->weight_bytes_most ? c->weight_bytes_most : bytes;
}

/* ---- from a box ---- */

static void fill_bytes(sim_costs *out, const cost_box *box)
{
    const double few = 16;
    out->weight_bytes = cost_step_weight_bytes(box, 1);
    out->weight_bytes_row = (cost_step_weight_bytes(box, few) - out->weight_bytes) / (few - 1);
    out->weight_bytes_most = cost_step_weight_bytes(box, 1e9);
    out->kv_token_bytes = cost_kv_token_bytes(box);
    out->state_bytes = box->sums.state_bytes;
}

void sim_costs_from_box(sim_costs *out, const cost_box *box)
{
    *out = (sim_costs){.row_count = ROW_POINTS, .chunk_count = CHUNK_POINTS};
    for (uint32_t i = 0; i < ROW_POINTS; i++)
        out->rows[i] = (cost_point){decode_rows[i], cost_decode_s(box, decode_rows[i], 0) * 1e6};
    for (uint32_t i = 0; i < CHUNK_POINTS; i++)
        out->chunks[i] = (cost_point){chunk_tokens[i], cost_chunk_s(box, 0, chunk_tokens[i]) * 1e6};
    out->kv_us = (cost_decode_s(box, 1, kv_depth) - cost_decode_s(box, 1, 0)) * 1e6 / kv_depth;
    double whole_s = cost_chunk_s(box, 0, fused_chunk);
    out->depth_us = (cost_chunk_s(box, kv_depth, fused_chunk) - whole_s) * 1e6 / kv_depth / fused_chunk;
    out->fused_row_us = (cost_chunk_s(box, 0, fused_chunk + 1) - whole_s) * 1e6;
    out->request_us = box->shares.overhead_s * 1e6;
    out->units = (uint32_t)(box->shape.layers * UNIT_OPS * chunk_tokens[CHUNK_POINTS - 1] / UNIT_TOKENS);
    fill_bytes(out, box);
}

/* ---- the case study's fit ---- */

/* The streams whose rate the text gives hover at this depth, and its list of what a division by the weights alone
 * leaves out begins with their KV. */
static const double decode_depth = 23000;

static double weights_s(const cost_box *box, double rows) /* read in order */
{
    return cost_step_weight_bytes(box, rows) / (cost_bandwidth(box) * box->shares.read);
}

void sim_costs_fit(sim_costs *out, const cost_box *box, double decode_tok_s, double document_s, double document,
                   double chunk_s, double chunk)
{
    cost_box fitted = *box;
    fitted.shares.decode = fitted.shares.matmul = 1; /* what the makers say */
    double compute_s = cost_chunk_s(&fitted, 0, document) - weights_s(box, document) - cost_link_s(box, document);
    fitted.shares.decode = cost_decode_s(&fitted, 1, decode_depth) * decode_tok_s;
    fitted.shares.matmul = compute_s / document_s;
    sim_costs_from_box(out, &fitted);
    double rest_s = chunk_s - document_s * chunk / document - weights_s(box, chunk);
    for (uint32_t i = 0; i < out->chunk_count && rest_s > 0; i++)
        out->chunks[i].us += rest_s * 1e6;
}
