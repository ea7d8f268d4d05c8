/* plan/cost.c: bytes, operations and seconds of a step. */
#include "plan/cost.h"

#include <math.h>
#include <string.h>

enum { CHUNKS_MAX = 512, HANDOVERS = 2 /* of a layer: after attention, after the feed forward */ };

static const double gb = 1e9, tera = 1e12;
static const double activation_bytes = 2;    /* f16 */
static const double handover_latency = 5e-6; /* seconds, a guess for a link between neighbours */

/* ---- what the hardware does ---- */

double cost_bandwidth(const cost_box *b)
{
    return b->hw.bandwidth_gb_s * gb * b->devices;
}

double cost_matmul_rate(const cost_box *b)
{
    static const struct {
        const char *compute;
        rate_kind kinds[4]; /* the first that is known */
        uint32_t count;
    } ladders[] = {{"f32", {RATE_F32, RATE_F16}, 2},
                   {"f16", {RATE_F16, RATE_F32}, 2},
                   {"fp8", {RATE_FP8, RATE_F16, RATE_F32}, 3},
                   {"int8", {RATE_INT8, RATE_F16, RATE_F32}, 3},
                   {"fp4", {RATE_FP4, RATE_FP8, RATE_F16, RATE_F32}, 4}};
    const char *compute = b->type.compute ? b->type.compute : "f16";
    if (b->hw.kind == HW_HOST && b->type.bits < 9) /* CPUs multiply codes as integers */
        compute = "int8";
    for (size_t i = 0; i < sizeof ladders / sizeof *ladders; i++)
        for (uint32_t k = 0; k < ladders[i].count && !strcmp(compute, ladders[i].compute); k++)
            if (b->hw.tflops[ladders[i].kinds[k]] > 0)
                return b->hw.tflops[ladders[i].kinds[k]] * tera * b->devices;
    return 0;
}

/* A ring: each device sends and gets 2 (n - 1) / n of the rows' activations. */
double cost_link_s(const cost_box *b, double rows)
{
    if (b->devices <= 1 || b->link_gb_s <= 0)
        return 0;
    double n = b->devices, bytes = rows * b->shape.hidden * activation_bytes;
    return (double)b->shape.layers * HANDOVERS * (2 * (n - 1) / n * bytes / (b->link_gb_s * gb) + handover_latency);
}

/* ---- bytes ---- */

double cost_experts_touched(const model_shape *shape, double rows)
{
    double experts = shape->experts;
    return experts > 0 ? experts * (1 - pow(1 - shape->experts_used / experts, rows)) : 0;
}

double cost_parameter_bytes(const cost_box *b, double others, double experts)
{
    double wide = b->type.always_bits > 0 && b->sums.expert_layers ? b->type.always_bits : b->type.bits;
    return (others * wide + experts * b->type.bits) / 8;
}

double cost_weight_bytes(const cost_box *b)
{
    double experts = (double)b->sums.expert * b->sums.expert_layers * b->shape.experts;
    return cost_parameter_bytes(b, (double)b->sums.total - experts, experts);
}

static double shape_step_bytes(const cost_box *b, double rows)
{
    double experts = b->sums.expert_layers * cost_experts_touched(&b->shape, rows);
    return cost_parameter_bytes(b, (double)b->sums.always, experts * (double)b->sums.expert);
}

double cost_step_weight_bytes(const cost_box *b, double rows)
{
    double one = b->step_bytes_fixed > 0 ? shape_step_bytes(b, 1) : 0;
    if (b->step_bytes_fixed <= 0)
        return shape_step_bytes(b, rows);
    return one > 0 ? b->step_bytes_fixed * shape_step_bytes(b, rows) / one : b->step_bytes_fixed;
}

double cost_kv_token_bytes(const cost_box *b)
{
    return b->sums.kv_values * b->kv_bits / 8;
}

double cost_kv_bytes(const cost_box *b, double depth)
{
    double window = fmin(depth, b->shape.window);
    return (b->sums.kv_values * depth + b->sums.window_values * window) * b->kv_bits / 8;
}

double cost_step_bytes(const cost_box *b, double rows, double depth)
{
    return cost_step_weight_bytes(b, rows) + rows * (cost_kv_bytes(b, depth) + 2 * b->sums.state_bytes);
}

/* ---- operations ---- */

/* Sum of min(p + i + 1, window) over i in [0, count). */
static double window_positions(double window, double p, double count)
{
    double rising = fmin(fmax(window - p, 0), count);
    return rising * p + rising * (rising + 1) / 2 + (count - rising) * window;
}

double cost_prefill_flops(const cost_box *b, double position, double count)
{
    const model_shape *m = &b->shape;
    double seen = count * position + count * (count + 1) / 2;
    double width = m->head_dim + (m->value_dim ? m->value_dim : m->head_dim);
    double windowed = 2.0 * m->window_layers * m->heads * width * window_positions(m->window, position, count);
    return count * b->sums.flops_token + b->sums.flops_head + b->sums.flops_depth * seen + windowed;
}

/* ---- seconds ---- */

static double row_flops(const cost_box *b, double rows)
{
    return rows * (b->sums.flops_token + b->sums.flops_head);
}

double cost_ceiling_s(const cost_box *b, double rows, double depth)
{
    double bytes = depth > 0 ? cost_step_bytes(b, rows, depth) : cost_step_weight_bytes(b, rows);
    double rate = cost_matmul_rate(b);
    return fmax(bytes / cost_bandwidth(b), rate > 0 ? row_flops(b, rows) / rate : 0);
}

double cost_decode_share_s(const cost_box *b, double rows, double depth, double share)
{
    double rate = cost_matmul_rate(b) * b->shares.matmul;
    double bytes_s = cost_step_bytes(b, rows, depth) / (cost_bandwidth(b) * share);
    return fmax(bytes_s, rate > 0 ? row_flops(b, rows) / rate : 0) + cost_link_s(b, rows);
}

double cost_decode_s(const cost_box *b, double rows, double depth)
{
    return cost_decode_share_s(b, rows, depth, b->shares.decode);
}

double cost_chunk_s(const cost_box *b, double position, double count)
{
    if (count <= 0)
        return 0;
    double rate = cost_matmul_rate(b) * b->shares.matmul;
    double compute = rate > 0 ? cost_prefill_flops(b, position, count) / rate : 0;
    return compute + cost_step_weight_bytes(b, count) / (cost_bandwidth(b) * b->shares.read) + cost_link_s(b, count);
}

double cost_prefill_s(const cost_box *b, double position, double count, double chunk)
{
    double whole = floor(count / chunk), rest = count - whole * chunk, sum = 0;
    if (whole <= CHUNKS_MAX) {
        for (double i = 0; i < whole; i++)
            sum += cost_chunk_s(b, position + i * chunk, chunk);
    } else { /* a chunk's time is a straight line over positions, but within a first window */
        double first = cost_chunk_s(b, position, chunk);
        sum = whole * (first + cost_chunk_s(b, position + (whole - 1) * chunk, chunk)) / 2;
    }
    return sum + cost_chunk_s(b, position + whole * chunk, rest);
}
