/* Shapes against the counts of models.md, orders against their formulas, bad configs against their messages. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "model/write/model_write.h"
#include "tensor/quant.h"

#define CONFIGS "tests/data/configs/"
#define LLAMA "\"model_type\":\"llama\",\"hidden_size\":576,\"num_hidden_layers\":30,\"num_attention_heads\":9,"
#define LLAMA_END                                                                                                      \
    "\"num_key_value_heads\":3,\"intermediate_size\":1536,\"vocab_size\":49152,\"tie_word_embeddings\":true"

static json_t *config_of(const char *source)
{
    json_error_t why;
    json_t *config = source[0] == '{' ? json_loads(source, 0, &why) : json_load_file(source, 0, &why);
    if (!config)
        fail_msg("%s: %s", source, why.text);
    return config;
}

static model_plan plan_of(const char *source, model_format format, weight_type type)
{
    json_t *config = config_of(source);
    model_shape shape;
    model_plan plan = {0};
    error err = {0};
    if (shape_read(&shape, config, "config.json", &err) || model_plan_build(&plan, &shape, format, type, 1, &err))
        fail_msg("%s: %s", source, err.text);
    json_decref(config);
    return plan;
}

static const plan_tensor *find(const model_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->count; i++)
        if (strcmp(plan_name(plan, &plan->tensors[i]), name) == 0)
            return &plan->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void known_models_have_their_number_of_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        uint64_t parameters;
    } MODELS[] = {
        {CONFIGS "qwen3_5_35b_a3b.json", 34660610688},
        {"{" LLAMA LLAMA_END "}", 134515008},
        {"{\"model_type\":\"qwen3_moe\",\"hidden_size\":2048,\"num_hidden_layers\":48,\"num_attention_heads\":32,"
         "\"num_key_value_heads\":4,\"head_dim\":128,\"intermediate_size\":6144,\"moe_intermediate_size\":768,"
         "\"num_experts\":128,\"num_experts_per_tok\":8,\"vocab_size\":151936,\"tie_word_embeddings\":false}",
         30532122624},
        {"{\"model_type\":\"gemma3_text\",\"hidden_size\":640,\"num_hidden_layers\":18,\"num_attention_heads\":4,"
         "\"num_key_value_heads\":1,\"head_dim\":256,\"intermediate_size\":2048,\"vocab_size\":262144}",
         268098176},
    };
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        for (int format = 0; format < FORMAT_COUNT; format++) {
            model_plan plan = plan_of(MODELS[i].source, (model_format)format, TYPE_BF16);
            assert_int_equal(plan.parameters, MODELS[i].parameters);
            model_plan_free(&plan);
        }
    }
}

static void the_35b_in_mxfp4_takes_17_gib(void **state)
{
    (void)state;
    model_plan plan = plan_of(CONFIGS "qwen3_5_35b_a3b.json", FORMAT_GGUF, TYPE_MXFP4);
    assert_true(plan.bytes > 17.1 * (1 << 30) && plan.bytes < 17.3 * (1 << 30));
    assert_int_equal(plan.file_count, 1);
    model_plan_free(&plan);
}

static void large_directories_are_sharded_and_listed(void **state)
{
    (void)state;
    model_plan plan = plan_of(CONFIGS "qwen3_5_35b_a3b.json", FORMAT_HF, TYPE_BF16);
    assert_true(plan.file_count >= 14);
    uint64_t sum = 0;
    for (uint32_t f = 0; f < plan.file_count; f++) {
        assert_true(plan.file_bytes[f] > 0 && plan.file_bytes[f] <= 5000000000);
        sum += plan.file_bytes[f];
    }
    assert_int_equal(sum, plan.bytes);
    assert_int_equal(sum, 2 * plan.parameters);
    buf text = {0};
    json_error_t why;
    safetensors_index(&plan, &text);
    json_t *index = json_loadb(text.data, text.size, 0, &why);
    assert_non_null(index);
    assert_int_equal(json_object_size(json_object_get(index, "weight_map")), plan.count);
    buf_free(&text);
    json_decref(index);
    model_plan_free(&plan);
}

static void headers_of_safetensors_are_json_of_their_length(void **state)
{
    (void)state;
    model_plan plan = plan_of(CONFIGS "tiny_qwen3_5_moe.json", FORMAT_MLX, TYPE_AFFINE4);
    buf text = {0};
    json_error_t why;
    safetensors_header(&plan, 0, &text);
    assert_int_equal(text.size % 8, 0);
    uint64_t length;
    memcpy(&length, text.data, 8);
    assert_int_equal(length, text.size - 8);
    json_t *header = json_loadb(text.data + 8, text.size - 8, 0, &why), *value;
    assert_non_null(header);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(header, "__metadata__"), "headway.synthetic")), "true");
    const char *name;
    uint64_t sum = 0;
    json_object_foreach(header, name, value)
    {
        const json_t *offsets = json_object_get(value, "data_offsets");
        if (offsets)
            sum += (uint64_t)(json_integer_value(json_array_get(offsets, 1)) -
                              json_integer_value(json_array_get(offsets, 0)));
    }
    assert_int_equal(sum, plan.bytes);
    assert_non_null(json_object_get(header, "language_model.model.layers.0.mlp.switch_mlp.up_proj.scales"));
    assert_non_null(json_object_get(header, "language_model.lm_head.biases"));
    json_decref(header);
    buf_free(&text);
    model_plan_free(&plan);
}

static void orders_are_permutations_by_their_formulas(void **state)
{
    (void)state;
    const plan_order pairs = {ORDER_PAIRS, 0, 16, 0, 0}, tiled = {ORDER_TILED, 8, 4, 2, 3};
    for (uint64_t h = 0; h < 3; h++)
        for (uint64_t i = 0; i < 8; i++)
            for (uint64_t s = 0; s < 2; s++)
                assert_int_equal(plan_order_source(&pairs, h * 16 + 2 * i + s), h * 16 + s * 8 + i);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(plan_order_source(&tiled, i), i);
    for (uint64_t g = 0; g < 2; g++)
        for (uint64_t j = 0; j < 3; j++)
            for (uint64_t i = 0; i < 4; i++)
                assert_int_equal(plan_order_source(&tiled, 8 + (j * 2 + g) * 4 + i), 8 + (g * 3 + j) * 4 + i);
}

static float *values_of(const model_plan *plan, const char *name)
{
    const plan_tensor *t = find(plan, name);
    float *out = malloc(t->rows * t->cols * sizeof *out), *scratch = malloc(t->cols * sizeof *scratch);
    for (uint64_t r = 0; r < t->rows; r++)
        plan_row(plan, t, r, out + r * t->cols, scratch);
    free(scratch);
    return out;
}

/* tiny_qwen3_next: 2 key heads of 32, 4 value heads of 32, hidden 64. */
static void fused_projections_hold_the_rows_of_the_split_ones(void **state)
{
    (void)state;
    model_plan hf = plan_of(CONFIGS "tiny_qwen3_next.json", FORMAT_HF, TYPE_F32);
    model_plan gguf = plan_of(CONFIGS "tiny_qwen3_next.json", FORMAT_GGUF, TYPE_F32);
    float *fused = values_of(&hf, "model.layers.0.linear_attn.in_proj_qkvz.weight");
    float *qkv = values_of(&gguf, "blk.0.attn_qkv.weight"), *z = values_of(&gguf, "blk.0.attn_gate.weight");
    for (size_t g = 0; g < 2; g++) {
        const float *head = fused + g * 192 * 64;
        assert_memory_equal(head, qkv + g * 32 * 64, 32 * 64 * sizeof(float));
        assert_memory_equal(head + 32 * 64, qkv + (64 + g * 32) * 64, 32 * 64 * sizeof(float));
        assert_memory_equal(head + 64 * 64, qkv + (128 + g * 64) * 64, 64 * 64 * sizeof(float));
        assert_memory_equal(head + 128 * 64, z + g * 64 * 64, 64 * 64 * sizeof(float));
    }
    free(fused);
    free(qkv);
    free(z);
    model_plan_free(&hf);
    model_plan_free(&gguf);
}

static void transforms_of_a_format_are_applied(void **state)
{
    (void)state;
    model_plan hf = plan_of(CONFIGS "tiny_qwen3_5_moe.json", FORMAT_HF, TYPE_F32);
    model_plan gguf = plan_of(CONFIGS "tiny_qwen3_5_moe.json", FORMAT_GGUF, TYPE_F32);
    float *w = values_of(&hf, "model.language_model.layers.1.input_layernorm.weight");
    float *shifted = values_of(&gguf, "blk.1.attn_norm.weight");
    for (int i = 0; i < 64; i++)
        assert_true(shifted[i] == w[i] + 1);
    float *log_a = values_of(&hf, "model.language_model.layers.1.linear_attn.A_log");
    float *a = values_of(&gguf, "blk.1.ssm_a");
    static const int SOURCE[] = {0, 2, 1, 3}; /* two key heads, two value heads each */
    for (int i = 0; i < 4; i++) {
        assert_true(a[i] == -expf(log_a[SOURCE[i]]));
        assert_true(a[i] <= -0.29f && a[i] >= -8.1f);
    }
    float *packed = values_of(&hf, "model.language_model.layers.2.mlp.experts.gate_up_proj");
    float *up = values_of(&gguf, "blk.2.ffn_up_exps.weight");
    for (size_t e = 0; e < 8; e++) /* 64 gate rows, then 64 up rows of each expert */
        assert_memory_equal(packed + (e * 128 + 64) * 64, up + e * 64 * 64, 64 * 64 * sizeof(float));
    free(w);
    free(shifted);
    free(log_a);
    free(a);
    free(packed);
    free(up);
    model_plan_free(&hf);
    model_plan_free(&gguf);
}

static void rows_are_a_function_of_seed_tensor_and_row(void **state)
{
    (void)state;
    float a[4096], b[4096];
    uint64_t key = fill_key(5, "layers.0.x");
    fill_row(key, 9, FILL_NORMAL, 2, false, a, 4096);
    fill_row(key, 8, FILL_NORMAL, 2, false, b, 4096);
    assert_memory_not_equal(a, b, sizeof a);
    fill_row(key, 9, FILL_NORMAL, 2, false, b, 100); /* a shorter row starts alike */
    assert_memory_equal(a, b, 100 * sizeof *a);
    assert_true(fill_key(5, "layers.0.y") != key && fill_key(6, "layers.0.x") != key);
    double sum = 0, squares = 0;
    for (int i = 0; i < 4096; i++) {
        sum += (double)a[i];
        squares += (double)a[i] * (double)a[i];
    }
    assert_true(fabs(sum / 4096) < 0.15 && fabs(sqrt(squares / 4096) - 2) < 0.1);
    fill_row(key, 9, FILL_ONE, 0.1f, true, b, 4096);
    for (int i = 0; i < 4096; i++)
        assert_true(b[i] > 0.6f && b[i] < 1.4f && bf16_to_f32(f32_to_bf16(b[i])) == b[i]);
}

static void a_bad_config_is_answered_with_what_and_where(void **state)
{
    (void)state;
    static const struct {
        const char *config, *words;
    } CASES[] = {
        {"{}", "model_type: expected the name of a family"},
        {"{\"model_type\":\"bert\"}", "model_type: \"bert\" is not known"},
        {"{\"model_type\":\"llama\"}", "num_hidden_layers is missing"},
        {"{" LLAMA "\"num_key_value_heads\":2,\"intermediate_size\":1,\"vocab_size\":9}", "num_key_value_heads: 2"},
        {"{" LLAMA "\"intermediate_size\":0,\"vocab_size\":9}", "intermediate_size: 0, expected 1 to"},
        {"{" LLAMA "\"intermediate_size\":1e3,\"vocab_size\":9}", "intermediate_size: expected an integer"},
        {"{" LLAMA "\"intermediate_size\":99999999999,\"vocab_size\":9}", "intermediate_size: 99999999999"},
        {"{" LLAMA LLAMA_END ",\"head_dim\":63}", "head_dim: expected an even number"},
        {"{" LLAMA LLAMA_END ",\"rope_scaling\":{\"rope_type\":\"odd\"}}", "rope_scaling: type \"odd\""},
        {"{" LLAMA LLAMA_END ",\"rope_scaling\":{\"rope_type\":\"linear\"}}", "rope_scaling.factor"},
        {"{" LLAMA LLAMA_END ",\"rms_norm_eps\":-1}", "rms_norm_eps: expected a number above 0"},
        {"{" LLAMA LLAMA_END ",\"partial_rotary_factor\":0.5}", "partial_rotary_factor"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        json_t *config = config_of(CASES[i].config);
        model_shape shape;
        error err = {0};
        assert_int_not_equal(shape_read(&shape, config, "config.json", &err), OK);
        if (!strstr(err.text, CASES[i].words) || !strstr(err.text, "config.json"))
            fail_msg("\"%s\" does not say \"%s\"", err.text, CASES[i].words);
        json_decref(config);
    }
}

static void a_type_that_cannot_be_is_refused(void **state)
{
    (void)state;
    static const struct {
        model_format format;
        weight_type type;
        uint32_t hidden;
        const char *words;
    } CASES[] = {
        {FORMAT_GGUF, TYPE_MXFP8, 576, "format gguf has no type mxfp8"},
        {FORMAT_HF, TYPE_Q8_0, 576, "format hf has no type q8_0"},
        {FORMAT_MLX, TYPE_Q4_0, 576, "format mlx has no type q4_0"},
        {FORMAT_GGUF, TYPE_Q4_0, 72, "rows of 72 columns, type q4_0 wants a multiple of 32"},
        {FORMAT_MLX, TYPE_AFFINE4, 96, "rows of 96 columns, type affine4 wants a multiple of 64"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        json_t *config = config_of("{" LLAMA LLAMA_END "}");
        json_object_set_new(config, "hidden_size", json_integer(CASES[i].hidden));
        json_object_set_new(config, "head_dim", json_integer(64));
        model_shape shape;
        model_plan plan;
        error err = {0};
        assert_int_equal(shape_read(&shape, config, "config.json", &err), OK);
        assert_int_not_equal(model_plan_build(&plan, &shape, CASES[i].format, CASES[i].type, 1, &err), OK);
        if (!strstr(err.text, CASES[i].words))
            fail_msg("\"%s\" does not say \"%s\"", err.text, CASES[i].words);
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_models_have_their_number_of_parameters),
        cmocka_unit_test(the_35b_in_mxfp4_takes_17_gib),
        cmocka_unit_test(large_directories_are_sharded_and_listed),
        cmocka_unit_test(headers_of_safetensors_are_json_of_their_length),
        cmocka_unit_test(orders_are_permutations_by_their_formulas),
        cmocka_unit_test(fused_projections_hold_the_rows_of_the_split_ones),
        cmocka_unit_test(transforms_of_a_format_are_applied),
        cmocka_unit_test(rows_are_a_function_of_seed_tensor_and_row),
        cmocka_unit_test(a_bad_config_is_answered_with_what_and_where),
        cmocka_unit_test(a_type_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
