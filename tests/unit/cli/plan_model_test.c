/* tests/unit/cli/plan_model_test.c: models that `headway synth` writes here, read back as shapes; names; the default
 * model where it is in the cache folder. */
#include "cli/plan_model.h"

#include "base/buf.h"
#include "cli/commands.h"
#include "cli/default_model.h"
#include "cli/plan_gguf.h"
#include "unit/model/file/gguf_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[64];

static int make_folder(void **unused)
{
    (void)unused;
    snprintf(folder, sizeof folder, "/tmp/headway-plan-model-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **unused)
{
    (void)unused;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static plan_model find(const char *argument)
{
    plan_model model;
    error err = {0};
    if (plan_model_find(&model, argument, &err) != OK)
        fail_msg("%s: %s", argument, err.text);
    return model;
}

static void expect_error(const char *argument, status code, const char *says)
{
    plan_model model;
    error err = {0};
    status st = plan_model_find(&model, argument, &err);
    if (st != code || !strstr(err.text, says))
        fail_msg("%s: status %d, \"%s\"", argument, st, err.text);
}

static void write_text(const char *name, const char *text, char path[160])
{
    snprintf(path, 160, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* --- names --- */

static void test_names_of_the_catalogue(void **unused)
{
    (void)unused;
    plan_model m = find("qwen3.6-35b-a3b");
    assert_int_equal(m.kind, MODEL_CATALOGUE);
    assert_string_equal(m.shape.name, "qwen3.6-35b-a3b");
    assert_string_equal(m.type, "mxfp8");
    assert_int_equal(m.weight_bytes, 0);
    m = find("Llama-3.1-8B:Q4_0");
    assert_string_equal(m.shape.name, "llama-3.1-8b");
    assert_string_equal(m.type, "q4_0");
    model_shape shape;
    char type[16];
    assert_int_equal(plan_model_open(&shape, type, "meta-llama/Llama-3.1-8B-Instruct:f16", NULL), OK);
    assert_string_equal(shape.name, "llama-3.1-8b");
    assert_string_equal(type, "f16");
}

static void test_unknown_names_say_what_there_is(void **unused)
{
    (void)unused;
    expect_error("lama-3.1-8b", ERR_NOT_FOUND, "llama-3.1-8b");
    expect_error("lama-3.1-8b", ERR_NOT_FOUND, "headway plan --list models");
    expect_error("llama-3.1-8b:q9", ERR_INVALID, "q4_k_m");
    expect_error("./model.gguf", ERR_NOT_FOUND, "no such file");
    expect_error("/nowhere/config.json", ERR_NOT_FOUND, "no such file");
    expect_error("", ERR_INVALID, "model name");
    expect_error("/dev/null", ERR_INVALID, "expected a file or a folder");
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    expect_error(text, ERR_INVALID, "model name");
    assert_int_equal(plan_model_open(&(model_shape){0}, (char[16]){0}, "lama-3.1-8b", NULL), ERR_NOT_FOUND);
}

/* --- files --- */

static void synth(const char *config, const char *format, const char *type, char path[160])
{
    char in[160];
    snprintf(in, sizeof in, "tests/data/configs/%s.json", config);
    snprintf(path, 160, "%s/%s.%s.%s", folder, config, type, format);
    char *argv[] = {"synth",
                    "--config",
                    in,
                    "--out",
                    path,
                    "--format",
                    (char *)(uintptr_t)format,
                    "--type",
                    (char *)(uintptr_t)type,
                    NULL};
    assert_int_equal(synth_main(sizeof argv / sizeof *argv - 1, argv), 0);
}

static const char *const CONFIGS[] = {"tiny_llama",   "tiny_llama3",      "tiny_qwen2",
                                      "tiny_qwen3",   "tiny_qwen3_moe",   "tiny_qwen3_next",
                                      "tiny_qwen3_5", "tiny_qwen3_5_moe", "tiny_gemma3"};

static void expect_same(const model_shape *got, const model_shape *wanted, const char *what)
{
    model_sums a, b;
    model_shape_sums(got, &a);
    model_shape_sums(wanted, &b);
    if (memcmp(&a, &b, sizeof a) != 0)
        fail_msg("%s: %llu parameters, expected %llu; KV %.0f, expected %.0f", what, (unsigned long long)a.total,
                 (unsigned long long)b.total, a.kv_values, b.kv_values);
    assert_int_equal(got->window, wanted->window);
    assert_int_equal(got->context, wanted->context);
}

static void test_files_are_the_shapes_of_their_configs(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof CONFIGS / sizeof *CONFIGS; i++) {
        char config[160], gguf[160], mlx[160];
        snprintf(config, sizeof config, "tests/data/configs/%s.json", CONFIGS[i]);
        plan_model wanted = find(config);
        model_sums sums;
        model_shape_sums(&wanted.shape, &sums);
        assert_int_equal(wanted.kind, MODEL_CONFIG);
        synth(CONFIGS[i], "gguf", "bf16", gguf);
        plan_model m = find(gguf);
        assert_int_equal(m.kind, MODEL_GGUF);
        expect_same(&m.shape, &wanted.shape, gguf);
        assert_string_equal(m.type, "bf16");
        assert_in_range(m.weight_bytes, sums.total * 2, sums.total * 2 + sums.total); /* norms are f32 */
        synth(CONFIGS[i], "hf", "f16", mlx);
        m = find(mlx);
        assert_int_equal(m.kind, MODEL_FOLDER);
        expect_same(&m.shape, &wanted.shape, mlx);
        assert_in_range(m.weight_bytes, sums.total * 2, sums.total * 2 + sums.total);
    }
}

static void test_types_of_files(void **unused)
{
    (void)unused;
    char path[160], typed[200];
    synth("tiny_gemma3", "gguf", "q8_0", path);
    plan_model m = find(path);
    assert_string_equal(m.type, "q8_0");
    uint64_t bytes = m.weight_bytes;
    model_sums sums;
    model_shape_sums(&m.shape, &sums);
    assert_in_range(bytes, sums.total * 17 / 16, sums.total * 9 / 8);
    snprintf(typed, sizeof typed, "%s:q4_0", path);
    m = find(typed);
    assert_string_equal(m.type, "q4_0");
    assert_int_equal(m.weight_bytes, 0);
    snprintf(typed, sizeof typed, "%s:q9", path);
    expect_error(typed, ERR_INVALID, "weight type \"q9\"");
    synth("tiny_qwen3_moe", "mlx", "affine4", path);
    assert_string_equal(find(path).type, "affine4");
}

static void test_wrong_files_are_named(void **unused)
{
    (void)unused;
    char path[160];
    write_text("empty.json", "", path);
    expect_error(path, ERR_INVALID, "empty.json");
    write_text("cut.gguf", "GGUF", path);
    expect_error(path, ERR_INVALID, "cut.gguf");
    write_text("missing.json", "{\"model_type\":\"llama\"}", path);
    expect_error(path, ERR_INVALID, "missing.json: hidden_size is missing");
    expect_error(folder, ERR_IO, "config.json");
}

/* A family that has parts of its own is not taken for a plain one. */
static void test_unknown_parts_of_a_gguf_are_noticed(void **unused)
{
    (void)unused;
    char path[160];
    gguf_builder g = builder();
    buf bytes = {0};
    add_string(&g, "general.architecture", "strange");
    add_u32(&g, "strange.block_count", 1);
    add_u32(&g, "strange.embedding_length", 64);
    add_u32(&g, "strange.attention.head_count", 4);
    add_tensor(&g, "token_embd.weight", DT_F16, 64, 8);
    add_tensor(&g, "blk.0.ffn_down.weight", DT_F16, 96, 64);
    add_tensor(&g, "blk.0.something.weight", DT_F16, 64, 4096);
    build(&g, &bytes);
    snprintf(path, sizeof path, "%s/strange.gguf", folder);
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(bytes.data, 1, bytes.size, file), bytes.size);
    fclose(file);
    buf_free(&bytes);
    expect_error(path, ERR_UNSUPPORTED, "architecture strange has parts");
}

typedef struct {
    const char *name;
    uint32_t value;
} named_number;

typedef struct {
    const char *name;
    uint64_t cols, rows;
} named_tensor;

static plan_model read_built(const char *arch, const named_number *numbers, size_t number_count,
                             const named_tensor *tensors, size_t tensor_count)
{
    gguf_builder g = builder();
    buf bytes = {0};
    model_file *file;
    plan_model m = {0};
    error err = {0};
    char key[128];
    add_string(&g, "general.architecture", arch);
    for (size_t i = 0; i < number_count; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, numbers[i].name);
        add_u32(&g, key, numbers[i].value);
    }
    for (size_t i = 0; i < tensor_count; i++)
        add_tensor(&g, tensors[i].name, DT_F32, tensors[i].cols, tensors[i].rows);
    build(&g, &bytes);
    if (gguf_open_memory(&file, "built.gguf", bytes.data, bytes.size, &err) != OK ||
        plan_gguf_read(&m, file, &err) != OK)
        fail_msg("%s: %s", arch, err.text);
    model_file_close(file);
    buf_free(&bytes);
    return m;
}
#define COUNT(list) (sizeof(list) / sizeof *(list))

static uint64_t elements(const named_tensor *tensors, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += tensors[i].cols * tensors[i].rows;
    return sum;
}

/* Biases, sinks and a window in every other layer. */
static void test_gguf_of_gpt_oss(void **unused)
{
    (void)unused;
    static const named_number NUMBERS[] = {
        {"block_count", 2},
        {"embedding_length", 64},
        {"context_length", 1000},
        {"attention.head_count", 4},
        {"attention.head_count_kv", 2},
        {"attention.key_length", 24},
        {"attention.value_length", 24},
        {"attention.sliding_window", 128},
        {"expert_count", 5},
        {"expert_used_count", 2},
    };
    static const struct {
        const char *name;
        uint64_t cols, rows;
    } LAYER[] = {
        {"attn_norm.weight", 64, 1},        {"post_attention_norm.weight", 64, 1},
        {"attn_q.weight", 64, 96},          {"attn_q.bias", 96, 1},
        {"attn_k.weight", 64, 48},          {"attn_k.bias", 48, 1},
        {"attn_v.weight", 64, 48},          {"attn_v.bias", 48, 1},
        {"attn_output.weight", 96, 64},     {"attn_output.bias", 64, 1},
        {"attn_sinks.weight", 4, 1},        {"ffn_gate_inp.weight", 64, 5},
        {"ffn_gate_inp.bias", 5, 1},        {"ffn_gate_exps.weight", 64, 32 * 5},
        {"ffn_up_exps.weight", 64, 32 * 5}, {"ffn_down_exps.weight", 32, 64 * 5},
        {"ffn_gate_exps.bias", 32, 5},      {"ffn_up_exps.bias", 32, 5},
        {"ffn_down_exps.bias", 64, 5},
    };
    static char names[2 * COUNT(LAYER)][64];
    named_tensor tensors[2 * COUNT(LAYER) + 3] = {
        {"token_embd.weight", 64, 40}, {"output.weight", 64, 40}, {"output_norm.weight", 64, 1}};
    for (size_t i = 0; i < 2 * COUNT(LAYER); i++) {
        snprintf(names[i], sizeof names[i], "blk.%zu.%s", i / COUNT(LAYER), LAYER[i % COUNT(LAYER)].name);
        tensors[i + 3] = (named_tensor){names[i], LAYER[i % COUNT(LAYER)].cols, LAYER[i % COUNT(LAYER)].rows};
    }
    plan_model m = read_built("gpt-oss", NUMBERS, COUNT(NUMBERS), tensors, COUNT(tensors));
    model_sums sums;
    model_shape_sums(&m.shape, &sums);
    assert_int_equal(sums.total, elements(tensors, COUNT(tensors)));
    assert_int_equal(m.weight_bytes, 4 * sums.total);
    assert_true(m.shape.sinks && m.shape.biases && m.shape.output_bias && m.shape.router_bias);
    assert_int_equal(m.shape.window_layers, 1);
    assert_true(sums.kv_values == 2 * 2 * 24 && sums.window_values == 2 * 2 * 24);
    assert_string_equal(m.type, "f32");
}

/* Latent attention with its matrices split, a dense layer first, and a draft layer that is counted apart. */
static void test_gguf_of_deepseek(void **unused)
{
    (void)unused;
    static const named_number NUMBERS[] = {
        {"block_count", 3},
        {"nextn_predict_layers", 1},
        {"embedding_length", 64},
        {"context_length", 1000},
        {"attention.head_count", 2},
        {"attention.head_count_kv", 1},
        {"attention.q_lora_rank", 24},
        {"attention.kv_lora_rank", 16},
        {"attention.key_length", 24},
        {"attention.value_length", 16},
        {"attention.key_length_mla", 28},
        {"attention.value_length_mla", 12},
        {"rope.dimension_count", 8},
        {"expert_count", 5},
        {"expert_used_count", 2},
    };
    static const named_tensor TENSORS[] = {
        {"token_embd.weight", 64, 40},
        {"output.weight", 64, 40},
        {"output_norm.weight", 64, 1},
        {"blk.0.attn_norm.weight", 64, 1},
        {"blk.0.ffn_norm.weight", 64, 1},
        {"blk.0.attn_q_a.weight", 64, 24},
        {"blk.0.attn_q_a_norm.weight", 24, 1},
        {"blk.0.attn_q_b.weight", 24, 2 * 28},
        {"blk.0.attn_kv_a_mqa.weight", 64, 24},
        {"blk.0.attn_kv_a_norm.weight", 16, 1},
        {"blk.0.attn_k_b.weight", 20, 2 * 16},
        {"blk.0.attn_v_b.weight", 16, 2 * 12},
        {"blk.0.attn_output.weight", 24, 64},
        {"blk.0.ffn_gate.weight", 64, 44},
        {"blk.0.ffn_up.weight", 64, 44},
        {"blk.0.ffn_down.weight", 44, 64},
        {"blk.1.attn_norm.weight", 64, 1},
        {"blk.1.ffn_norm.weight", 64, 1},
        {"blk.1.attn_q_a.weight", 64, 24},
        {"blk.1.attn_q_a_norm.weight", 24, 1},
        {"blk.1.attn_q_b.weight", 24, 2 * 28},
        {"blk.1.attn_kv_a_mqa.weight", 64, 24},
        {"blk.1.attn_kv_a_norm.weight", 16, 1},
        {"blk.1.attn_k_b.weight", 20, 2 * 16},
        {"blk.1.attn_v_b.weight", 16, 2 * 12},
        {"blk.1.attn_output.weight", 24, 64},
        {"blk.1.ffn_gate_inp.weight", 64, 5},
        {"blk.1.exp_probs_b.bias", 5, 1},
        {"blk.1.ffn_gate_exps.weight", 64, 36 * 5},
        {"blk.1.ffn_up_exps.weight", 64, 36 * 5},
        {"blk.1.ffn_down_exps.weight", 36, 64 * 5},
        {"blk.1.ffn_gate_shexp.weight", 64, 52},
        {"blk.1.ffn_up_shexp.weight", 64, 52},
        {"blk.1.ffn_down_shexp.weight", 52, 64},
        {"blk.2.nextn.eh_proj.weight", 128, 64},
    };
    plan_model m = read_built("deepseek2", NUMBERS, COUNT(NUMBERS), TENSORS, COUNT(TENSORS));
    model_sums sums;
    model_shape_sums(&m.shape, &sums);
    assert_int_equal(sums.total, elements(TENSORS, COUNT(TENSORS) - 1));
    assert_int_equal(m.weight_bytes, 4 * sums.total);
    assert_int_equal(m.shape.other_parameters, 128 * 64);
    assert_int_equal(m.shape.dense_layers, 1);
    assert_true(sums.kv_values == 2 * (16 + 8));
}

static void test_spoilt_gguf_files_are_read_or_refused(void **unused)
{
    (void)unused;
    char path[160];
    static char text[1 << 16];
    rng random = {7};
    uint32_t taken = 0, refused = 0;
    synth("tiny_qwen3_5_moe", "gguf", "q4_0", path);
    FILE *file = fopen(path, "rb");
    buf whole = {0};
    for (size_t got; (got = fread(text, 1, sizeof text, file)) > 0;)
        buf_append(&whole, text, got);
    fclose(file);
    for (uint32_t i = 0; i < 3000; i++) {
        buf bytes = {0};
        model_file *opened;
        buf_append(&bytes, whole.data, whole.size);
        for (uint32_t n = (uint32_t)rng_below(&random, 3) + 1; n > 0; n--) /* keys and the list of tensors */
            bytes.data[rng_below(&random, 12000)] = (char)rng_below(&random, 256);
        if (gguf_open_memory(&opened, "spoilt.gguf", bytes.data, bytes.size, NULL) == OK) {
            plan_model m;
            error err = {0};
            bool ok = plan_gguf_read(&m, opened, &err) == OK;
            assert_true(ok || strstr(err.text, "spoilt.gguf"));
            assert_true(!ok || (m.weight_bytes > 0 && m.weight_bytes <= bytes.size && m.type[0]));
            taken += ok;
            refused += !ok;
            model_file_close(opened);
        }
        buf_free(&bytes);
    }
    buf_free(&whole);
    assert_true(taken > 100 && refused > 10);
}

static void test_models_in_the_cache_folder(void **unused)
{
    (void)unused;
    static const struct {
        const char *file, *row, *type;
        uint64_t bytes, copies; /* copies: of the table, as a head of its own */
    } MODELS[] = {
        {"SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m", "q4_1", 96576768, 0},
        {"qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "qwen2.5-coder-0.5b", "q5_0", 485452288, 1},
        {"gemma-3-270m-q4_k_m.gguf", "gemma-3-270m", "q8_0", 246587904, 0},
    };
    char first[4096], path[5000];
    if (default_model_path(first, sizeof first, NULL) != OK) {
        print_message("the default model is not in the cache folder (`make model`): skipped\n");
        skip();
    }
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(first, '/') - first), first, MODELS[i].file);
        if (access(path, R_OK) != 0)
            continue;
        plan_model m = find(path), row = find(MODELS[i].row);
        assert_string_equal(m.type, MODELS[i].type);
        assert_int_equal(m.weight_bytes, MODELS[i].bytes);
        assert_int_equal(m.shape.tied, MODELS[i].copies == 0);
        m.shape.tied = row.shape.tied;
        expect_same(&m.shape, &row.shape, path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_the_catalogue),
        cmocka_unit_test(test_unknown_names_say_what_there_is),
        cmocka_unit_test(test_files_are_the_shapes_of_their_configs),
        cmocka_unit_test(test_types_of_files),
        cmocka_unit_test(test_wrong_files_are_named),
        cmocka_unit_test(test_unknown_parts_of_a_gguf_are_noticed),
        cmocka_unit_test(test_gguf_of_gpt_oss),
        cmocka_unit_test(test_gguf_of_deepseek),
        cmocka_unit_test(test_spoilt_gguf_files_are_read_or_refused),
        cmocka_unit_test(test_models_in_the_cache_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
