/* tests/unit/plan/cost_test.c: bytes, operations and seconds of a step: the case study's numbers, sums against plain
 * loops, what must hold for every row of the tables, and shares that leave no known run outside. */
#include "plan_box.h"

#include <stdio.h>

#include "base/rng.h"

static const char *const TEXT_MODEL = "qwen3.6-35b-a3b:mxfp8";

static void counts_the_bytes_of_the_case_study(void **state)
{
    (void)state;
    cost_box b = box_of("m4-max", TEXT_MODEL);
    assert_near(cost_weight_bytes(&b), 35.7e9, 0.005);
    assert_near(cost_step_weight_bytes(&b, 1), 3.04e9, 0.005);
    assert_int_equal(cost_kv_token_bytes(&b), 20480);
    assert_near(cost_kv_bytes(&b, 23000), 0.47e9, 0.01);
    assert_near(cost_kv_bytes(&b, 130000), 2.66e9, 0.01);
    assert_near(1 / cost_ceiling_s(&b, 1, 0), 180, 0.005);
    assert_near(65 * cost_ceiling_s(&b, 1, 0), 0.36, 0.01);
    assert_near(cost_step_bytes(&b, 1, 23000), 3.04e9 + 0.471e9 + 2 * b.sums.state_bytes, 0.005);
    b.kv_bits = 8.25;
    assert_near(cost_kv_token_bytes(&b), 20480 * 8.25 / 16, 1e-9);
}

static void touches_the_expected_union_of_experts(void **state)
{
    (void)state;
    cost_box b = box_of("m4-max", TEXT_MODEL);
    static const double rows[][2] = {{1, 8}, {2, 15.75}, {8, 57.4}, {32, 163.3}, {128, 251.6}, {2048, 256}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_near(cost_experts_touched(&b.shape, rows[i][0]), rows[i][1], 0.001);
    assert_near(cost_step_weight_bytes(&b, 1e6), (double)(b.sums.total - b.sums.embedding) * 8.25 / 8, 0.001);
    cost_box dense = box_of("m4-max", "llama-3.1-8b:q4_0");
    assert_true(cost_experts_touched(&dense.shape, 8) == 0);
    assert_true(cost_step_weight_bytes(&dense, 1) == cost_step_weight_bytes(&dense, 2048));
}

static void takes_bytes_of_a_step_as_given(void **state)
{
    (void)state;
    cost_box b = box_of("a100-40gb", "llama-2-13b:f16");
    b.step_bytes_fixed = 26e9;
    assert_near(cost_ceiling_s(&b, 1, 0), 16.7e-3, 0.005);
    cost_box moe = box_of("m4-max", TEXT_MODEL);
    double grown = cost_step_weight_bytes(&moe, 8) / cost_step_weight_bytes(&moe, 1);
    moe.step_bytes_fixed = 3e9;
    assert_near(cost_step_weight_bytes(&moe, 8), 3e9 * grown, 1e-9); /* its experts are still a union */
    moe.shape = (model_shape){0};
    moe.sums = (model_sums){0};
    assert_true(cost_step_weight_bytes(&moe, 8) == 3e9);
}

/* Attention of a prompt by a loop over its tokens and layers. */
static double flops_by_loop(const cost_box *b, uint32_t position, uint32_t count)
{
    const model_shape *m = &b->shape;
    double width = m->head_dim + (m->value_dim ? m->value_dim : m->head_dim), sum = b->sums.flops_head;
    for (uint32_t i = 0; i < count; i++) {
        double seen = position + i + 1, window = seen < m->window ? seen : m->window;
        sum += b->sums.flops_token + b->sums.flops_depth * seen;
        for (uint32_t layer = 0; layer < m->window_layers; layer++)
            sum += 2 * m->heads * width * window;
    }
    return sum;
}

static void adds_up_operations_as_a_loop_does(void **state)
{
    (void)state;
    static const char *const models[] = {"gemma-3-270m:f16", "smollm2-135m:q4_1", "gpt-oss-20b:mxfp4",
                                         "qwen3.6-35b-a3b:mxfp8"};
    rng r = {7};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        cost_box b = box_of("m4-max", models[m]);
        for (int i = 0; i < 50; i++) {
            uint32_t position = (uint32_t)rng_below(&r, 3000), count = 1 + (uint32_t)rng_below(&r, 2000);
            assert_near(cost_prefill_flops(&b, position, count), flops_by_loop(&b, position, count), 1e-9);
        }
    }
}

static void adds_up_chunks(void **state)
{
    (void)state;
    cost_box b = box_of("m4-max", TEXT_MODEL);
    double sum = 0;
    for (double at = 0; at < 5000; at += 512)
        sum += cost_chunk_s(&b, at, fmin(512, 5000 - at));
    assert_near(cost_prefill_s(&b, 0, 5000, 512), sum, 1e-9);
    sum = 0;
    for (double at = 100; at < 100 + 8000; at += 2) /* more chunks than are added one by one */
        sum += cost_chunk_s(&b, at, 2);
    assert_near(cost_prefill_s(&b, 100, 8000, 2), sum, 1e-6);
    assert_true(cost_chunk_s(&b, 0, 0) == 0);
    assert_true(cost_prefill_s(&b, 0, 60000, 512) > cost_prefill_s(&b, 0, 60000, 2048));
}

static void takes_the_larger_of_bytes_and_operations(void **state)
{
    (void)state;
    cost_box b = box_of("m4-max", "llama-3.1-8b:q4_0");
    double bytes_s = cost_step_bytes(&b, 1, 0) / (546e9 * b.shares.decode);
    assert_near(cost_decode_s(&b, 1, 0), bytes_s, 1e-9);
    double rate = cost_matmul_rate(&b) * b.shares.matmul;
    double flops_s = 512 * (b.sums.flops_token + b.sums.flops_head) / rate;
    assert_near(cost_decode_s(&b, 512, 0), flops_s, 1e-9);
    assert_near(cost_decode_share_s(&b, 1, 4096, 0.5), cost_step_bytes(&b, 1, 4096) / (546e9 * 0.5), 1e-9);
    assert_true(cost_ceiling_s(&b, 512, 0) >= flops_s * b.shares.matmul * 0.999);
}

static void picks_the_rate_of_the_type(void **state)
{
    (void)state;
    assert_near(cost_matmul_rate(&(cost_box){
                    .hw = {.tflops = {[RATE_F16] = 10, [RATE_FP8] = 20}}, .devices = 2, .type = {"x", 8, "fp8", 0}}),
                40e12, 1e-9);
    assert_near(
        cost_matmul_rate(&(cost_box){.hw = {.tflops = {[RATE_F16] = 10}}, .devices = 1, .type = {"x", 4, "fp4", 0}}),
        10e12, 1e-9);
    cost_box host = {.hw = {.kind = HW_HOST, .tflops = {[RATE_F32] = 1, [RATE_INT8] = 4}},
                     .devices = 1,
                     .type = {"q4_0", 4.5, "f16", 0}};
    assert_near(cost_matmul_rate(&host), 4e12, 1e-9); /* codes are multiplied as integers there */
    host.type = (weight_type){"f16", 16, "f16", 0};
    assert_near(cost_matmul_rate(&host), 1e12, 1e-9);
    assert_true(cost_matmul_rate(&(cost_box){.devices = 1, .type = {"x", 16, "f16", 0}}) == 0);
}

static void hands_rows_over_the_link(void **state)
{
    (void)state;
    cost_box b = box_of("h100", "llama-3.1-70b:f16");
    assert_true(cost_link_s(&b, 1) == 0);
    double alone = cost_decode_s(&b, 1, 0);
    b.devices = 2;
    b.link_gb_s = 450;
    double bytes = 8192 * 2.0;
    assert_near(cost_link_s(&b, 1), 80 * 2 * (bytes / 450e9 + 5e-6), 1e-6);
    assert_true(cost_decode_s(&b, 1, 0) > alone / 2 && cost_decode_s(&b, 1, 0) < alone);
    assert_near(cost_bandwidth(&b), 2 * 3350e9, 1e-9);
}

/* ---- shares ---- */

static void leaves_no_known_run_outside(void **state)
{
    (void)state;
    uint32_t seen = 0;
    for (const char *const *line = known_runs; *line; line++) {
        run_record r;
        error err = {""};
        char model[80];
        const model_shape *shape;
        const hardware *hw;
        if (run_record_read(&r, span_from(*line), &err))
            fail_msg("%s: %s", *line, err.text);
        if (r.kind != RUN_DECODE || r.batch > 4 || hardware_find(&hw, r.hardware, NULL) ||
            catalogue_find(&shape, NULL, r.model, NULL))
            continue;
        snprintf(model, sizeof model, "%s:%s", r.model, r.type);
        cost_box b = box_of(r.hardware, model);
        bool shallow = r.prompt_tokens <= 1024;
        double low = shallow ? b.shares.shallow_low : b.shares.decode_low;
        double high = shallow ? b.shares.shallow_high : b.shares.decode_high;
        double least = r.tok_s_low > 0 ? r.tok_s_low : r.tok_s, most = r.tok_s_high > 0 ? r.tok_s_high : r.tok_s;
        double slow = r.batch / cost_decode_share_s(&b, r.batch, r.prompt_tokens, low);
        double fast = r.batch / cost_decode_share_s(&b, r.batch, r.prompt_tokens, high);
        if (slow > least || fast < most)
            fail_msg("%s on %s: %g to %g leaves out %g to %g", model, r.hardware, slow, fast, least, most);
        seen++;
    }
    assert_true(seen >= 30); /* else the tables have lost the machines of the runs */
}

static void says_three_quarters_and_more_of_dense_models(void **state)
{
    (void)state;
    hardware custom = {.name = "custom", .family = "other", .kind = HW_CARD, .memory_gb = 64, .bandwidth_gb_s = 273};
    cost_box b = box_of("m4-pro", "llama-3.1-8b:q4_0");
    cost_shares of[] = {cost_shares_for(&custom, NULL), cost_shares_for(&custom, &b.shape),
                        cost_shares_for(&b.hw, NULL)};
    for (int i = 0; i < 3; i++) {
        assert_true(of[i].decode_low == 0.75 && of[i].decode_high == 0.85);
        assert_true(of[i].shallow_low == 0.75 && of[i].shallow_high == 0.85);
        assert_near(of[i].decode, 0.80, 1e-9);
    }
}

static void takes_experts_by_what_is_known(void **state)
{
    (void)state;
    cost_box m4 = box_of("m4-max", TEXT_MODEL), ultra = box_of("m3-ultra", TEXT_MODEL),
             geforce = box_of("rtx-5090", TEXT_MODEL), h200 = box_of("h200", "qwen3.6-35b-a3b:q8_0");
    assert_near(1 / cost_decode_s(&m4, 1, 0), 65, 0.001);
    assert_near(ultra.shares.decode, 0.47, 0.02);                 /* its own runs, of other models */
    assert_true(ultra.shares.decode_low == m4.shares.decode_low); /* one family */
    assert_near(1 / cost_decode_s(&h200, 1, 0), 224, 0.01);       /* the faster of two runtimes, 223 there */
    assert_true(h200.shares.shallow_low < 0.04 && h200.shares.shallow_high > 0.15);
    assert_true(geforce.shares.decode_low <= h200.shares.decode_low);
    assert_near(1 / cost_decode_s(&geforce, 1, 0), 215, 0.04); /* the middle of the families: the text's column */
}

static void is_not_sure_by_one_run(void **state)
{
    (void)state;
    cost_box strix = box_of("strix-halo", "gpt-oss-120b:mxfp4_moe");
    assert_true(strix.shares.shallow_high / strix.shares.shallow_low > 1.34);
    assert_near(1 / cost_decode_s(&strix, 1, 4096), 44.14, 0.05);
}

/* Between devices of a family, those of the same kind count first: unified memory of 273 GB/s says little of HBM. */
static void asks_devices_of_its_kind_first(void **state)
{
    (void)state;
    cost_box spark = box_of("dgx-spark", "gpt-oss-120b:mxfp4"), thor = box_of("jetson-agx-thor", "gpt-oss-120b:mxfp4"),
             h100 = box_of("h100", "gpt-oss-120b:mxfp4"), h200 = box_of("h200", "gpt-oss-120b:mxfp4");
    assert_true(thor.shares.decode == spark.shares.decode && h100.shares.decode == h200.shares.decode);
    assert_true(h100.shares.decode < 0.2 && spark.shares.decode > 0.5);
}

/* What people report everywhere of these pairs, as it is kept in no table here. */
static void holds_what_others_report(void **state)
{
    (void)state;
    static const struct {
        const char *hardware, *model;
        double least, most;
    } reports[] = {{"dgx-spark", "gpt-oss-120b:mxfp4_moe", 35, 53}, {"strix-halo", "gpt-oss-120b:mxfp4_moe", 45, 52},
                   {"rtx-3090", "llama-3.1-8b:q4_k_m", 105, 130},   {"m4-max", "llama-3.3-70b:q4_k_m", 8, 9},
                   {"m4-max", "qwen3-30b-a3b:q4_k_m", 80, 100},     {"m3-ultra", "deepseek-v3:q4_k_m", 16, 18},
                   {"m4-max", "llama-2-7b:q4_0", 83, 84},           {"rtx-4090", "gpt-oss-20b:mxfp4_moe", 200, 250}};
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        cost_box b = box_of(reports[i].hardware, reports[i].model);
        double low = 1 / cost_decode_share_s(&b, 1, 0, b.shares.shallow_low);
        double high = 1 / cost_decode_share_s(&b, 1, 0, b.shares.shallow_high);
        if (low > reports[i].least || high < reports[i].most)
            fail_msg("%s on %s: %g to %g", reports[i].model, reports[i].hardware, low, high);
    }
}

/* gpt-oss as it is published: experts in mxfp4, 16 bits elsewhere. */
static void counts_wide_weights_beside_the_experts(void **state)
{
    (void)state;
    cost_box wide = box_of("dgx-spark", "gpt-oss-120b:mxfp4_bf16"), narrow = box_of("dgx-spark", "gpt-oss-120b:mxfp4"),
             dense = box_of("dgx-spark", "llama-3.1-8b:mxfp4_bf16");
    double experts = 36.0 * 128 * (double)wide.sums.expert, others = (double)wide.sums.total - experts;
    assert_near(cost_weight_bytes(&wide), 65.2e9, 0.01); /* its folder, as published */
    assert_near(cost_weight_bytes(&wide), others * 2 + experts * 17 / 32, 1e-9);
    double step = (double)wide.sums.always * 2 + 36 * 4 * (double)wide.sums.expert * 17 / 32;
    assert_near(cost_step_weight_bytes(&wide, 1), step, 1e-9);
    assert_true(step > 1.2 * cost_step_weight_bytes(&narrow, 1));
    assert_near(cost_weight_bytes(&dense), (double)dense.sums.total * 17 / 32, 1e-9);
}

static void holds_for_every_row_of_the_tables(void **state)
{
    (void)state;
    static const char *const models[] = {"llama-3.1-8b:q4_0", "qwen3.6-35b-a3b:mxfp8"};
    for (size_t i = 0; i < hardware_count(); i++)
        for (int m = 0; m < 2; m++) {
            cost_box b = box_of(hardware_at(i)->name, models[m]);
            const cost_shares *s = &b.shares;
            assert_true(s->decode_low > 0 && s->decode_low <= s->decode && s->decode <= s->decode_high);
            assert_true(s->decode_low <= s->shallow_low && s->shallow_high <= s->decode_high && s->decode_high <= 1.05);
            assert_true(s->matmul > 0 && s->matmul <= 1 && s->read > 0 && s->read <= 1 && s->overhead_s >= 0 && s->why);
            double last = 0;
            for (double rows = 1; rows <= 64; rows *= 2) {
                double t = cost_decode_s(&b, rows, 4096);
                assert_true(isfinite(t) && t >= last && t >= cost_ceiling_s(&b, rows, 4096) * 0.95);
                last = t;
            }
            assert_true(cost_decode_s(&b, 1, 8192) >= cost_decode_s(&b, 1, 4096));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_the_bytes_of_the_case_study),
        cmocka_unit_test(touches_the_expected_union_of_experts),
        cmocka_unit_test(takes_bytes_of_a_step_as_given),
        cmocka_unit_test(adds_up_operations_as_a_loop_does),
        cmocka_unit_test(adds_up_chunks),
        cmocka_unit_test(takes_the_larger_of_bytes_and_operations),
        cmocka_unit_test(picks_the_rate_of_the_type),
        cmocka_unit_test(hands_rows_over_the_link),
        cmocka_unit_test(leaves_no_known_run_outside),
        cmocka_unit_test(says_three_quarters_and_more_of_dense_models),
        cmocka_unit_test(takes_experts_by_what_is_known),
        cmocka_unit_test(is_not_sure_by_one_run),
        cmocka_unit_test(asks_devices_of_its_kind_first),
        cmocka_unit_test(holds_what_others_report),
        cmocka_unit_test(counts_wide_weights_beside_the_experts),
        cmocka_unit_test(holds_for_every_row_of_the_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
