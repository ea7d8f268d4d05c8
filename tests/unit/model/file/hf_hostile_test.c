/* Directories by hand and damaged: each opens or is refused with one line that names the file (run under ASan and
 * UBSan: the buffers are of the exact size). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/file/hf.h"
#include "tensor/quant.h"

#define HF_VECTORS "tests/numeric/vectors/hf/"

/* A safetensors file of `header` and `data_bytes` zero bytes after it. */
static void build(buf *out, const char *header, size_t data_bytes)
{
    uint64_t size = strlen(header);
    buf_clear(out);
    buf_append(out, &size, sizeof size);
    buf_text(out, header);
    for (size_t i = 0; i < data_bytes; i++)
        buf_byte(out, 0);
}

uint32_t sum; /* of all that is read, so that the reads stay */

static status parse(const void *data, size_t size, error *err)
{
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, data, size);
    st_file file = {.path = strdup("x.safetensors"), .data = exact, .size = size};
    status code = safetensors_parse(&file, err);
    for (size_t i = 0; code == OK && i < file.tensor_count; i++) {
        const st_tensor *t = &file.tensors[i];
        assert_true(t->data >= exact && t->data + t->bytes <= exact + size);
        for (size_t k = 0; k < t->bytes; k++)
            sum += t->data[k];
    }
    safetensors_close(&file);
    free(exact);
    return code;
}

static void refuses_hostile_headers(void **state)
{
    (void)state;
    static const struct {
        const char *header, *words;
    } CASES[] = {
        {"", "expected a JSON object"},
        {"[]", "expected a JSON object"},
        {"{", "a tensor's name"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", "the end of the object"},
        {"{\"a\":{\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]}}", "tensor a: dtype \"F99\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,16]}}", "16 bytes of data, expected the 8"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]}}", "data from 0 to 32"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", "data from 8 to 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", "a dimension"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}", "too large"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}", "more dimensions"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}", "a dimension"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "data_offsets is missing"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "occurs twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],"
         "\"data_offsets\":[4,12]}}",
         "tensor b: its data overlaps that of a"},
        {"{\"\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "a name of 1 to 512"},
        {"{\"a\\u0000\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "a tensor's name"},
        {"{\"__metadata__\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "header"},
        {"{} x", "nothing after the object"},
    };
    buf b = {0};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        error err = {0};
        build(&b, CASES[i].header, 16);
        assert_int_not_equal(parse(b.data, b.size, &err), OK);
        if (!strstr(err.text, CASES[i].words) || strncmp(err.text, "x.safetensors: ", 15) != 0)
            fail_msg("\"%s\" does not say \"%s\"", err.text, CASES[i].words);
    }
    uint64_t lengths[] = {UINT64_MAX, 1u << 30, 1000};
    for (size_t i = 0; i < 3; i++) {
        error err = {0};
        build(&b, "{}", 0);
        memcpy(b.data, &lengths[i], 8);
        assert_int_equal(parse(b.data, b.size, &err), ERR_INVALID);
        assert_non_null(strstr(err.text, "x.safetensors: header of"));
    }
    build(&b,
          "{\"a\":{\"data_offsets\":[1,9],\"shape\":[2],\"dtype\":\"F32\",\"more\":{\"x\":[1,null]}},\"s\":"
          "{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}} ",
          16);
    assert_int_equal(parse(b.data, b.size, NULL), OK); /* misaligned, holes, unknown fields: all right */
    buf_free(&b);
}

/* --- mutations --- */

static uint64_t random_state = 88172645463325252u;
static uint64_t random_below(uint64_t bound)
{
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return random_state % bound;
}

static void mutate(char *data, size_t *size)
{
    static const char *const PIECES[] = {
        "{", "}",   "[",     "]",    "\"",       ",",  ":", "\\", "-1", "99999999999999999999",
        "0", "F32", "[0,0]", "null", "\"a\":{}", "..", "/", "\0"};
    for (uint64_t n = 1 + random_below(4); n-- && *size > 16;) {
        size_t at = random_below(*size);
        const char *piece = PIECES[random_below(sizeof PIECES / sizeof *PIECES)];
        size_t length = strlen(piece) + !*piece;
        switch (random_below(5)) {
        case 0:
            data[at] = (char)random_below(256);
            break;
        case 1:
            data[at] ^= (char)(1 << random_below(8));
            break;
        case 2:
            memcpy(data + at, piece, length < *size - at ? length : *size - at);
            break;
        case 3: /* a run goes */
            length = 1 + random_below(*size - at < 40 ? *size - at : 40);
            memmove(data + at, data + at + length, *size - at - length);
            *size -= length;
            break;
        default:
            *size = 8 + at;
            *size = *size < 16 ? 16 : *size;
            return;
        }
    }
}

static void read_file(const char *path, buf *out)
{
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    char block[4096];
    for (size_t got; (got = fread(block, 1, sizeof block, in)) > 0;)
        buf_append(out, block, got);
    fclose(in);
}

static void survives_mutated_headers(void **state)
{
    (void)state;
    enum { MUTATIONS = 10000 };
    buf base = {0};
    read_file(HF_VECTORS "modes/model.safetensors", &base);
    uint64_t header;
    memcpy(&header, base.data, 8);
    char *copy = malloc(base.size);
    uint32_t opened = 0;
    for (int i = 0; i < MUTATIONS; i++) {
        error err = {0};
        size_t size = 8 + header;
        memcpy(copy, base.data, base.size);
        mutate(copy, &size);
        if (size == 8 + header)
            size = base.size; /* the data is still where it was */
        status code = parse(copy, size, &err);
        opened += code == OK;
        if (code != OK && strncmp(err.text, "x.safetensors: ", 15) != 0)
            fail_msg("mutation %d: \"%s\"", i, err.text);
    }
    print_message("%u of %d mutated headers still open\n", opened, MUTATIONS);
    assert_true(opened > 0 && opened < MUTATIONS);
    free(copy);
    buf_free(&base);
}

static status count_entry(void *context, span tensor, span file, error *err)
{
    (void)err;
    uint32_t *bytes = context;
    for (size_t i = 0; i < tensor.size; i++)
        *bytes += (uint8_t)tensor.data[i];
    for (size_t i = 0; i < file.size; i++)
        *bytes += (uint8_t)file.data[i];
    return OK;
}

static void survives_mutated_indexes(void **state)
{
    (void)state;
    enum { MUTATIONS = 10000 };
    buf base = {0};
    read_file(HF_VECTORS "qwen3_sharded/model.safetensors.index.json", &base);
    uint32_t opened = 0, bytes = 0;
    for (int i = 0; i < MUTATIONS; i++) {
        error err = {0};
        size_t size = base.size;
        char *copy = malloc(size + 8), *exact;
        memcpy(copy, base.data, size);
        mutate(copy, &size);
        size = size > base.size ? base.size : size;
        exact = malloc(size);
        memcpy(exact, copy, size);
        status code = safetensors_index_parse("index", span_of(exact, size), count_entry, &bytes, &err);
        opened += code == OK;
        if (code != OK && strncmp(err.text, "index: ", 7) != 0)
            fail_msg("mutation %d: \"%s\"", i, err.text);
        free(exact);
        free(copy);
    }
    print_message("%u of %d mutated indexes still read\n", opened, MUTATIONS);
    assert_true(opened > 0 && opened < MUTATIONS);
    buf_free(&base);
}

/* --- whole directories --- */

static char folder[64];

static void put_file(const char *name, const void *data, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, size, out), size);
    fclose(out);
}

static void drop_file(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

static void expect(const char *words)
{
    error err = {0};
    model_file *file = NULL;
    if (!words) {
        if (model_file_open(&file, folder, &err) != OK)
            fail_msg("%s", err.text);
        model_file_close(file);
        return;
    }
    assert_int_not_equal(model_file_open(&file, folder, &err), OK);
    if (!strstr(err.text, words) || strncmp(err.text, folder, strlen(folder)) != 0)
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

static void replace(buf *text, const char *from, const char *to)
{
    char *at = strstr(text->data, from);
    if (!at)
        fail_msg("no %s", from);
    buf whole = {0};
    buf_append(&whole, text->data, (size_t)(at - text->data));
    buf_text(&whole, to);
    buf_text(&whole, at + strlen(from));
    buf_free(text);
    *text = whole;
}

/* The directory with one file changed in one place. */
static void expect_with(const char *source, const char *name, const char *from, const char *to, const char *words)
{
    static const char *const NAMES[] = {"config.json", "generation_config.json", "model.safetensors"};
    char path[256];
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        buf text = {0};
        snprintf(path, sizeof path, HF_VECTORS "%s/%s", source, NAMES[i]);
        read_file(path, &text);
        if (strcmp(name, NAMES[i]) == 0)
            replace(&text, from, to);
        put_file(NAMES[i], text.data, text.size);
        buf_free(&text);
    }
    expect(words);
}

static void refuses_what_configs_get_wrong(void **state)
{
    (void)state;
    expect_with("qwen2_f16", "config.json", "\"qwen2\"", "\"qwen2\"", NULL);
    expect_with("qwen2_f16", "config.json", "\"qwen2\"", "\"gpt9\"", "model_type \"gpt9\" is not supported");
    expect_with("qwen2_f16", "config.json", "{", "[", "config.json: line");
    expect_with("qwen2_f16", "config.json", "\"hidden_size\": 64", "\"hidden_size\": \"x\"", "hidden_size: expected");
    expect_with("qwen2_f16", "config.json", "\"hidden_size\": 64", "\"hidden_size\": -4", "hidden_size: -4");
    expect_with("qwen2_f16", "config.json", "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 100000",
                "num_hidden_layers: 100000");
    expect_with("qwen2_f16", "config.json", "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 0", "above 0");
    expect_with("qwen2_f16", "config.json", "\"linear\"", "\"ntk\"", "rope type \"ntk\"");
    expect_with("qwen2_f16", "config.json", "\"use_sliding_window\": false", "\"use_sliding_window\": true",
                "use_sliding_window");
    expect_with("qwen3_fp8", "config.json", "\"fp8\"", "\"awq\"", "quant_method \"awq\"");
    expect_with("qwen3_fp8", "config.json", "      32,", "      64,", "expected a scale for each 64 x 32");
    expect_with("qwen3moe", "config.json", "\"num_local_experts\": 4", "\"num_local_experts\": 5",
                "experts.4.gate_proj: is missing");
    expect_with("qwen3moe", "config.json", "\"num_local_experts\": 4", "\"num_local_experts\": 2", "has no such part");
    expect_with("qwen35moe", "config.json", "\"linear_num_value_heads\": 4", "\"linear_num_value_heads\": 3",
                "linear_num_value_heads");
    expect_with("mlx_floats", "config.json", "\"mxfp8\"", "\"mxfp9\"", "mode \"mxfp9\"");
    expect_with("mlx_affine", "config.json", "\"bits\": 4", "\"bits\": 7", "bits 7");
    expect_with("mlx_affine", "config.json", "\"bits\": 2", "\"bits\": 3", "tensor model.layers.0.self_attn.q_proj");
}

static void refuses_what_indexes_get_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *index, *words;
    } CASES[] = {
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "file \"../x.safetensors\", expected the name"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "file \"/etc/passwd\""},
        {"{\"weight_map\":{\"a\":\".safetensors\"}}", "file \".safetensors\""},
        {"{\"weight_map\":{\"a\":\"missing.safetensors\"}}", "missing.safetensors: cannot be opened"},
        {"{\"weight_map\":{\"nothing\":\"model.safetensors\"}}", "tensor nothing: is not in file model.safetensors"},
        {"{\"weight_map\":{}}", "names no file"},
        {"{\"metadata\":{}}", "weight_map is missing"},
        {"{\"weight_map\":[]}", "an object as weight_map"},
        {"{\"weight_map\":{\"a\":5}}", "a tensor's name and a file's"},
    };
    expect_with("qwen2_f16", "config.json", "\"qwen2\"", "\"qwen2\"", NULL);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        put_file("model.safetensors.index.json", CASES[i].index, strlen(CASES[i].index));
        expect(CASES[i].words);
    }
    drop_file("model.safetensors.index.json");
    drop_file("model.safetensors");
    expect("model.safetensors: cannot be opened");
    drop_file("config.json");
    expect("a directory without config.json");
}

/* --- values --- */

/* read_rows and the definition against mlx.dequantize, every mode, to the last bit but one. */
static void mlx_values_are_those_of_mlx(void **state)
{
    (void)state;
    enum { MODES = 9, ROWS = 4, COLS = 256 };
    hf_dir dir = {.path = strdup(HF_VECTORS "modes"), .config_path = strdup("config.json"), .mlx = true};
    static st_file file;
    assert_int_equal(safetensors_open(&file, HF_VECTORS "modes/model.safetensors", NULL), OK);
    assert_int_equal(hf_read_json(&dir, "config.json", &dir.config, NULL), OK);
    dir.quantization = json_object_get(dir.config, "quantization");
    dir.all = malloc(file.tensor_count * sizeof(st_tensor *));
    for (size_t i = 0; i < file.tensor_count; i++) {
        dir.all[i] = &file.tensors[i];
        assert_int_equal(name_index_add(&dir.names, file.tensors[i].name, (uint32_t)i), OK);
    }
    buf want = {0};
    read_file(HF_VECTORS "modes/values.bin", &want);
    assert_int_equal(want.size, MODES * ROWS * COLS * sizeof(float));
    const float *value = (const float *)(const void *)want.data;
    for (int mode = 0; mode < MODES; mode++) {
        char name[32];
        hf_matrix m;
        error err = {0};
        snprintf(name, sizeof name, "layers.%d.w", mode);
        if (hf_matrix_find(&dir, name, &m, &err) != OK)
            fail_msg("%s", err.text);
        assert_true(m.rows == ROWS && m.cols == COLS);
        for (uint64_t r = 0; r < ROWS; r++, value += COLS) {
            uint8_t blocks[COLS * 2];
            float got[COLS];
            mlx_row_blocks(&m, r, blocks);
            quant_dequantize_row(m.type, blocks, got, COLS);
            for (int k = 0; k < COLS; k++) { /* they fuse the multiply and the add */
                float d = got[k] - value[k], size = 1.5e-7f * (value[k] < 0 ? -value[k] : value[k]) + 1e-7f;
                if (!(d <= size && -d <= size))
                    fail_msg("mode %d row %d column %d: %.9g, want %.9g", mode, (int)r, k, (double)got[k],
                             (double)value[k]);
            }
        }
    }
    buf_free(&want);
    hf_dir_close(&dir);
    safetensors_close(&file);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/headway-hf-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"config.json", "generation_config.json", "model.safetensors",
                                        "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        drop_file(NAMES[i]);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_hostile_headers),
        cmocka_unit_test(survives_mutated_headers),
        cmocka_unit_test(survives_mutated_indexes),
        cmocka_unit_test_setup_teardown(refuses_what_configs_get_wrong, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(refuses_what_indexes_get_wrong, make_folder, drop_folder),
        cmocka_unit_test(mlx_values_are_those_of_mlx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
