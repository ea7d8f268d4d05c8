/* tests/unit/plan/model_config_test.c: config.json files of every family against counts of another implementation
 * (model_configs.py), what is refused with which words, and ten thousand spoilt files. */
#include "plan/model_shape.h"

#include "base/buf.h"
#include "base/rng.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CASES_MAX = 64, MUTATIONS = 12000 };

typedef struct {
    char name[64];
    uint64_t parameters;
    char *config; /* text */
    bool tower;
} config_case;

static config_case cases[CASES_MAX];
static size_t case_count;

static int load_cases(void **unused)
{
    (void)unused;
    FILE *file = fopen("tests/unit/plan/model_configs.jsonl", "rb");
    static char line[1 << 16];
    if (!file)
        return -1;
    while (case_count < CASES_MAX && fgets(line, sizeof line, file)) {
        json_t *row = json_loads(line, 0, NULL), *config = json_object_get(row, "config");
        config_case *c = &cases[case_count++];
        snprintf(c->name, sizeof c->name, "%s", json_string_value(json_object_get(row, "name")));
        c->parameters = (uint64_t)json_integer_value(json_object_get(row, "parameters"));
        c->config = json_dumps(config, JSON_COMPACT);
        c->tower = json_object_get(config, "vision_config") != NULL;
        json_decref(row);
    }
    fclose(file);
    return 0;
}

static int free_cases(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < case_count; i++)
        free(cases[i].config);
    return 0;
}

static void test_counts_are_those_of_another_implementation(void **unused)
{
    (void)unused;
    assert_true(case_count >= 35);
    for (size_t i = 0; i < case_count; i++) {
        model_shape shape;
        model_sums sums;
        error err = {0};
        if (model_shape_read(&shape, span_from(cases[i].config), "config.json", &err) != OK)
            fail_msg("%s: %s", cases[i].config, err.text);
        model_shape_sums(&shape, &sums);
        uint64_t got = sums.total + (cases[i].tower ? shape.other_parameters : 0);
        if (got != cases[i].parameters)
            fail_msg("%s: %llu, expected %llu", cases[i].config, (unsigned long long)got,
                     (unsigned long long)cases[i].parameters);
    }
}

static void test_rows_of_the_catalogue_are_their_configs(void **unused)
{
    (void)unused;
    size_t named = 0;
    for (size_t i = 0; i < case_count; i++) {
        const model_shape *row;
        model_shape shape;
        model_sums a, b;
        if (!cases[i].name[0])
            continue;
        named++;
        assert_int_equal(catalogue_find(&row, NULL, cases[i].name, NULL), OK);
        assert_int_equal(model_shape_read(&shape, span_from(cases[i].config), "config.json", NULL), OK);
        model_shape_sums(row, &a);
        model_shape_sums(&shape, &b);
        if (memcmp(&a, &b, sizeof a) != 0)
            fail_msg("%s: the catalogue's sums are not those of its config", cases[i].name);
        assert_int_equal(row->tied, shape.tied);
        assert_int_equal(row->window, shape.window);
    }
    assert_true(named >= 12);
}

/* As on the hub, with what is not text: a draft layer and a tower. */
static const char HYBRID[] =
    "{\"architectures\":[\"Qwen3_5MoeForConditionalGeneration\"],\"model_type\":\"qwen3_5_moe\","
    "\"tie_word_embeddings\":false,\"text_config\":{\"model_type\":\"qwen3_5_moe_text\",\"dtype\":\"bfloat16\","
    "\"attn_output_gate\":true,\"full_attention_interval\":4,\"head_dim\":256,\"hidden_size\":2048,"
    "\"linear_conv_kernel_dim\":4,\"linear_key_head_dim\":128,\"linear_num_key_heads\":16,"
    "\"linear_num_value_heads\":32,\"linear_value_head_dim\":128,\"max_position_embeddings\":262144,"
    "\"moe_intermediate_size\":512,\"mtp_num_hidden_layers\":1,\"num_attention_heads\":16,\"num_experts\":256,"
    "\"num_experts_per_tok\":8,\"num_hidden_layers\":40,\"num_key_value_heads\":2,"
    "\"shared_expert_intermediate_size\":512,\"vocab_size\":248320},"
    "\"vision_config\":{\"depth\":27,\"hidden_size\":1152,\"in_channels\":3,\"intermediate_size\":4304,"
    "\"num_heads\":16,\"num_position_embeddings\":2304,\"out_hidden_size\":2048,\"patch_size\":16,"
    "\"spatial_merge_size\":2,\"temporal_patch_size\":2}}";
static const char ROUTED[] =
    "{\"model_type\":\"glm4_moe\",\"attention_bias\":true,\"use_qk_norm\":false,\"head_dim\":128,\"hidden_size\":4096,"
    "\"intermediate_size\":10944,\"first_k_dense_replace\":1,\"moe_intermediate_size\":1408,\"n_routed_experts\":128,"
    "\"n_shared_experts\":1,\"num_attention_heads\":96,\"num_experts_per_tok\":8,\"num_hidden_layers\":46,"
    "\"num_key_value_heads\":8,\"num_nextn_predict_layers\":1,\"vocab_size\":151552,\"torch_dtype\":\"bfloat16\"}";

static void test_draft_layers_and_towers_are_counted_apart(void **unused)
{
    (void)unused;
    model_shape shape;
    model_sums sums;
    char type[16];
    assert_int_equal(model_shape_read_type(&shape, type, span_from(HYBRID), "config.json", NULL), OK);
    model_shape_sums(&shape, &sums);
    assert_int_equal(sums.total, 34660610688);
    assert_int_equal(shape.other_parameters, 844640768 + 446571248);
    assert_int_equal(shape.context, 262144);
    assert_string_equal(type, "bf16");
    assert_int_equal(model_shape_read_type(&shape, type, span_from(ROUTED), "config.json", NULL), OK);
    model_shape_sums(&shape, &sums);
    assert_int_equal(sums.total + shape.other_parameters, 110468824832); /* the draft layer has tables of its own */
    assert_string_equal(type, "bf16");
}

/* As they are published: what the file leaves out is the family's own, names of families are in text_config. */
static void test_published_files_come_to_the_published_counts(void **unused)
{
    (void)unused;
    static const struct {
        const char *text, *type;
        uint64_t whole;
    } FILES[] = {
        {"{\"model_type\":\"gemma3\",\"torch_dtype\":\"bfloat16\",\"mm_tokens_per_image\":256,\"text_config\":{"
         "\"hidden_size\":2560,\"intermediate_size\":10240,\"model_type\":\"gemma3_text\",\"num_hidden_layers\":34,"
         "\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"},\"sliding_window\":1024},\"vision_config\":{"
         "\"hidden_size\":1152,\"image_size\":896,\"intermediate_size\":4304,\"model_type\":\"siglip_vision_model\","
         "\"num_attention_heads\":16,\"num_hidden_layers\":27,\"patch_size\":14,\"vision_use_head\":false}}",
         "bf16", 4300079472},
        {"{\"model_type\":\"deepseek_v3\",\"attention_bias\":false,\"first_k_dense_replace\":3,\"hidden_size\":7168,"
         "\"intermediate_size\":18432,\"kv_lora_rank\":512,\"max_position_embeddings\":163840,"
         "\"moe_intermediate_size\":2048,\"moe_layer_freq\":1,\"n_routed_experts\":256,\"n_shared_experts\":1,"
         "\"num_attention_heads\":128,\"num_experts_per_tok\":8,\"num_hidden_layers\":61,\"num_key_value_heads\":128,"
         "\"num_nextn_predict_layers\":1,\"q_lora_rank\":1536,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,"
         "\"quantization_config\":{\"fmt\":\"e4m3\",\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]},"
         "\"tie_word_embeddings\":false,\"v_head_dim\":128,\"vocab_size\":129280,\"torch_dtype\":\"bfloat16\"}",
         "fp8", 684489845504}, /* bf16 3,918,786,560 and fp8 680,571,043,840 of its header, and the routers' biases */
        {"{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":\"mistral\",\"head_dim\":128,"
         "\"hidden_size\":5120,\"intermediate_size\":32768,\"num_attention_heads\":32,\"num_hidden_layers\":40,"
         "\"num_key_value_heads\":8,\"sliding_window\":null,\"vocab_size\":131072},\"dtype\":\"bfloat16\"}",
         "bf16", 23572403200},
    };
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        model_shape shape;
        model_sums sums;
        char type[16];
        error err = {0};
        if (model_shape_read_type(&shape, type, span_from(FILES[i].text), "config.json", &err) != OK)
            fail_msg("%s", err.text);
        model_shape_sums(&shape, &sums);
        assert_int_equal(sums.total + shape.other_parameters, FILES[i].whole);
        assert_string_equal(type, FILES[i].type);
    }
}

/* `text` with the first `from` replaced. */
static char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    size_t size = strlen(text) + strlen(to) + 1;
    char *out = malloc(size);
    snprintf(out, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

static void test_wrong_files_are_refused_by_key(void **unused)
{
    (void)unused;
    static const struct {
        const char *from, *to, *says;
    } WRONG[] = {
        {"\"hidden_size\":2048", "\"hidden\":2048", "hidden_size is missing"},
        {"\"hidden_size\":2048", "\"hidden_size\":null", "hidden_size is missing"},
        {"\"hidden_size\":2048", "\"hidden_size\":\"2048\"", "hidden_size: expected an integer"},
        {"\"hidden_size\":2048", "\"hidden_size\":2048.5", "hidden_size: expected an integer"},
        {"\"hidden_size\":2048", "\"hidden_size\":-2048", "hidden_size: -2048"},
        {"\"hidden_size\":2048", "\"hidden_size\":0", "hidden_size: 0"},
        {"\"hidden_size\":2048", "\"hidden_size\":1000000000", "hidden size: 1000000000"},
        {"\"hidden_size\":2048", "\"hidden_size\":9223372036854775807", "hidden_size: 9223372036854775807"},
        {"\"hidden_size\":2048", "\"hidden_size\":99999999999999999999", "too big integer"},
        {"\"num_hidden_layers\":40", "\"num_hidden_layers\":4000000", "num_hidden_layers: 4000000"},
        {"\"num_key_value_heads\":2", "\"num_key_value_heads\":3", "num_key_value_heads: 3, expected a divisor"},
        {"\"head_dim\":256,", "\"num_attention_heads\":7,", "duplicate"},
        {"\"linear_num_value_heads\":32", "\"linear_num_value_heads\":31", "linear_num_value_heads: 31"},
        {"\"num_experts_per_tok\":8", "\"num_experts_per_tok\":300", "num_experts_per_tok: 300, expected at most"},
        {"\"num_experts\":256", "\"num_experts\":-1", "num_experts: -1"},
        {"\"num_experts\":256", "\"num_experts\":{}", "num_experts: expected an integer"},
        {"\"tie_word_embeddings\":false", "\"tie_word_embeddings\":\"no\"", "tie_word_embeddings: expected true or"},
        {"\"depth\":27", "\"depth\":-27", "vision_config.depth: -27"},
        {"\"depth\":27,", "", "vision_config.depth is missing"},
        {"\"mtp_num_hidden_layers\":1", "\"mtp_num_hidden_layers\":99", "mtp_num_hidden_layers: 99"},
        {"qwen3_5_moe\"", "qwen9\"", "is not known (llama, "},
        {"\"model_type\":\"qwen3_5_moe\"", "\"model_type\":7", "model_type: expected the name"},
        {"{\"architectures\"", "[{\"architectures\"", "config.json: line"},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        char *text = replaced(HYBRID, WRONG[i].from, WRONG[i].to);
        if (strstr(WRONG[i].to, "qwen9")) { /* the inner name too */
            char *twice = replaced(text, "qwen3_5_moe_text", "qwen9_text");
            free(text);
            text = twice;
        }
        model_shape shape;
        error err = {0};
        status st = model_shape_read(&shape, span_from(text), "some/config.json", &err);
        if (st == OK || !strstr(err.text, "config.json") || !strstr(err.text, WRONG[i].says))
            fail_msg("%s: status %d, \"%s\"", WRONG[i].to, st, err.text);
        free(text);
    }
    model_shape shape;
    error err = {0};
    assert_int_equal(model_shape_read(&shape, span_from(""), "x", &err), ERR_INVALID);
    assert_int_equal(model_shape_read(&shape, span_of(NULL, 0), "x", &err), ERR_INVALID);
    assert_int_equal(model_shape_read(&shape, span_from("[]"), "x", &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "expected a JSON object"));
}

static void test_layer_lists_must_fit(void **unused)
{
    (void)unused;
    static const char *const LISTS[] = {"[]",
                                        "[\"full_attention\"]",
                                        "[1,2]",
                                        "\"full_attention\"",
                                        "[\"full_attention\",\"mamba\"]",
                                        "[\"full_attention\",\"linear_attention\"]"};
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        char text[512];
        model_shape shape;
        error err = {0};
        snprintf(text, sizeof text,
                 "{\"model_type\":\"qwen3\",\"hidden_size\":64,\"num_hidden_layers\":2,\"vocab_size\":100,"
                 "\"num_attention_heads\":4,\"intermediate_size\":128,\"layer_types\":%s}",
                 LISTS[i]);
        assert_int_equal(model_shape_read(&shape, span_from(text), "config.json", &err), ERR_INVALID);
        assert_non_null(strstr(err.text, "layer_types: expected"));
    }
}

static void test_types_by_how_the_file_says_them(void **unused)
{
    (void)unused;
    static const char *const TYPES[][2] = {
        {"\"torch_dtype\":\"float16\"", "f16"},
        {"\"dtype\":\"float32\"", "f32"},
        {"\"dtype\":\"complex64\"", ""},
        {"\"dtype\":7", ""},
        {"\"quantization\":{\"group_size\":64,\"bits\":4}", "affine4"},
        {"\"quantization\":{\"group_size\":64,\"bits\":6,\"mode\":\"affine\"}", "affine6"},
        {"\"quantization\":{\"group_size\":32,\"bits\":8,\"mode\":\"mxfp8\"}", "mxfp8"},
        {"\"quantization\":{\"group_size\":64,\"bits\":99999999999}", ""},
        {"\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}", "fp8"},
        {"\"quantization_config\":{\"quant_method\":\"mxfp4\"}", "mxfp4_bf16"},
        {"\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4}", "affine4"},
        {"\"quantization_config\":{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\"}", "nvfp4"},
        {"\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"config_groups\":{\"group_0\":{\"weights\":"
         "{\"num_bits\":8,\"type\":\"float\"}}}}",
         "fp8"},
        {"\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"config_groups\":[]}", ""},
        {"\"quantization_config\":{\"quant_method\":\"something\"}", ""},
        {"\"quantization_config\":[]", ""},
    };
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        char text[512], type[16];
        model_shape shape;
        const weight_type *known;
        snprintf(text, sizeof text,
                 "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,\"vocab_size\":100,"
                 "\"num_attention_heads\":4,\"intermediate_size\":128,\"_name_or_path\":\"some/Tiny \\u00e9\\n\",%s}",
                 TYPES[i][0]);
        assert_int_equal(model_shape_read_type(&shape, type, span_from(text), "config.json", NULL), OK);
        assert_string_equal(type, TYPES[i][1]);
        assert_true(!type[0] || weight_type_find(&known, type, NULL) == OK);
        assert_string_equal(shape.name, "Tiny----"); /* nothing that a terminal or a report would trip over */
    }
}

static void mutate(buf *text, rng *random)
{
    static const char *const PIECES[] = {"-1", "0",  "1e308", "4294967295", "9223372036854775807", "null", "\"x\"",
                                         "{}", "[]", "true",  "1048576",    "1073741824",          ":",    "\\u0000"};
    size_t at = rng_below(random, text->size), rest;
    switch (rng_below(random, 4)) {
    case 0:
        text->data[at] = (char)rng_below(random, 256);
        return;
    case 1:
        text->size = at;
        return;
    case 2: /* a value for another */
        while (at < text->size && text->data[at] != ':')
            at++;
        rest = at;
        while (rest < text->size && text->data[rest] != ',' && text->data[rest] != '}')
            rest++;
        break;
    default: /* some bytes gone */
        rest = at + rng_below(random, 8);
        rest = rest < text->size ? rest : text->size;
    }
    buf out = {0};
    buf_append(&out, text->data, at < text->size ? at + 1 : at);
    buf_text(&out, PIECES[rng_below(random, sizeof PIECES / sizeof *PIECES)]);
    buf_append(&out, text->data + rest, text->size - rest);
    buf_free(text);
    *text = out;
}

static void test_spoilt_files_are_read_or_refused(void **unused)
{
    (void)unused;
    rng random = {20261130};
    uint32_t taken = 0, refused = 0;
    for (uint32_t i = 0; i < MUTATIONS; i++) {
        buf text = {0};
        size_t pick = rng_below(&random, case_count + 2);
        buf_text(&text, pick < case_count ? cases[pick].config : pick == case_count ? HYBRID : ROUTED);
        for (uint32_t n = (uint32_t)rng_below(&random, 3) + 1; n > 0 && text.size; n--)
            mutate(&text, &random);
        model_shape shape;
        model_sums sums;
        error err = {0};
        char type[16];
        if (model_shape_read_type(&shape, type, buf_span(&text), "config.json", &err) == OK) {
            taken++;
            assert_int_equal(model_shape_check(&shape, NULL), OK);
            model_shape_sums(&shape, &sums);
            assert_true(sums.total < UINT64_MAX / 2 && sums.active <= sums.total && sums.always <= sums.active);
            assert_true(sums.head <= sums.always && isfinite(sums.kv_values) && isfinite(sums.state_bytes));
            assert_true(strlen(type) < sizeof type && strlen(shape.name) < sizeof shape.name);
        } else {
            refused++;
            assert_true(strncmp(err.text, "config.json", 11) == 0);
        }
        buf_free(&text);
    }
    assert_true(taken > 200 && refused > 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_are_those_of_another_implementation),
        cmocka_unit_test(test_rows_of_the_catalogue_are_their_configs),
        cmocka_unit_test(test_draft_layers_and_towers_are_counted_apart),
        cmocka_unit_test(test_published_files_come_to_the_published_counts),
        cmocka_unit_test(test_wrong_files_are_refused_by_key),
        cmocka_unit_test(test_layer_lists_must_fit),
        cmocka_unit_test(test_types_by_how_the_file_says_them),
        cmocka_unit_test(test_spoilt_files_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, load_cases, free_cases);
}
