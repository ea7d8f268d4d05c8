/* tests/unit/sim/case_box.h: the case study's machine and model, its sums written out. */
#ifndef CASE_BOX_H
#define CASE_BOX_H

#include "sim/costs.h"

enum { CASE_CHAT = 23000, CASE_DOCUMENT = 60000 };
static const double case_rate = 65, case_document_s = 44, case_chunk_s = 1.5;

static inline cost_box case_box(void)
{
    cost_box b = {.hw = {.name = "m4-max", .kind = HW_UNIFIED, .memory_gb = 128, .bandwidth_gb_s = 546},
                  .devices = 1,
                  .shape = {.layers = 40,
                            .hidden = 2048,
                            .vocab = 248320,
                            .context = 262144,
                            .attention_layers = 10,
                            .heads = 16,
                            .kv_heads = 2,
                            .head_dim = 256,
                            .linear_layers = 30,
                            .experts = 256,
                            .experts_used = 8},
                  .type = {"mxfp8", 8.25, "f16", 0},
                  .kv_bits = 16,
                  .shares = {.decode = 0.36, .read = 0.8, .matmul = 0.5}};
    const uint64_t expert = 3 * 2048 * 512, head = 248320ull * 2048;
    const uint64_t attention = 2048 * (2 * 4096 + 1024) + 4096 * 2048;
    const uint64_t linear = 2048 * (2 * 2048 + 2 * 4096 + 64) + 4096 * 2048 + 4 * 8192;
    model_sums *s = &b.sums;
    b.hw.tflops[RATE_F16] = 34;
    s->expert = expert;
    s->expert_layers = 40;
    s->head = s->embedding = head;
    s->always = head + 40 * (expert + 2048 * 257) + 10 * attention + 30 * linear;
    s->active = s->always + 40 * 8 * expert;
    s->total = s->always + head + 40 * 256 * expert;
    s->flops_token = 2 * (double)(s->active - head);
    s->flops_head = 2 * (double)head;
    s->flops_depth = 2.0 * 10 * 16 * (256 + 256);
    s->kv_values = 10 * 2 * 2 * 256;
    s->state_bytes = 30 * (32 * 128 * 128 + 8192 * 3) * 4.0;
    return b;
}

static inline sim_costs case_costs(void)
{
    sim_costs c;
    cost_box b = case_box();
    sim_costs_fit(&c, &b, case_rate, case_document_s, CASE_DOCUMENT, case_chunk_s, 2048);
    return c;
}

#endif
