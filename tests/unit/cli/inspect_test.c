/* tests/unit/cli/inspect_test.c: what `headway inspect` finds out, on files made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli/commands.h"
#include "cli/inspect_facts.h"
#include "unit/model/file/gguf_builder.h"

static void add_number(gguf_builder *g, const char *arch, const char *suffix, uint32_t value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", arch, suffix);
    add_u32(g, key, value);
}

static void add_numbers(gguf_builder *g, const char *arch)
{
    static const struct {
        const char *suffix;
        uint32_t value;
    } NUMBERS[] = {
        {"block_count", 1},          {"context_length", 8192},    {"embedding_length", 64},
        {"feed_forward_length", 96}, {"attention.head_count", 4}, {"attention.head_count_kv", 2},
    };
    add_string(g, "general.architecture", arch);
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        add_number(g, arch, NUMBERS[i].suffix, NUMBERS[i].value);
    buf *k = add_array(g, "tokenizer.ggml.tokens", MV_STRING, 8);
    for (int i = 0; i < 8; i++)
        put_string(k, (const char[2]){(char)('a' + i), 0});
}

static void add_weights(gguf_builder *g, uint32_t down_type, const char *left_out)
{
    const struct {
        const char *name;
        uint64_t cols, rows;
        uint32_t type;
    } WEIGHTS[] = {
        {"token_embd.weight", 64, 8, DT_F16},         {"output_norm.weight", 64, 1, DT_F32},
        {"blk.0.attn_norm.weight", 64, 1, DT_F32},    {"blk.0.ffn_norm.weight", 64, 1, DT_F32},
        {"blk.0.attn_q.weight", 64, 64, DT_Q8_0},     {"blk.0.attn_k.weight", 64, 32, DT_Q8_0},
        {"blk.0.attn_v.weight", 64, 32, DT_Q8_0},     {"blk.0.attn_output.weight", 64, 64, DT_Q8_0},
        {"blk.0.ffn_gate.weight", 64, 96, DT_Q8_0},   {"blk.0.ffn_up.weight", 64, 96, DT_Q8_0},
        {"blk.0.ffn_down.weight", 96, 64, down_type},
    };
    for (size_t i = 0; i < sizeof WEIGHTS / sizeof *WEIGHTS; i++)
        if (!left_out || strcmp(WEIGHTS[i].name, left_out))
            add_tensor(g, WEIGHTS[i].name, WEIGHTS[i].type, WEIGHTS[i].cols, WEIGHTS[i].rows);
}

typedef struct {
    buf bytes;
    model_file *file;
    inspect_facts facts;
} inspected;

static void inspect(inspected *s, gguf_builder *g)
{
    error err = {0};
    *s = (inspected){0};
    build(g, &s->bytes);
    if (gguf_open_memory(&s->file, "m.gguf", s->bytes.data, s->bytes.size, &err) != OK)
        fail_msg("%s", err.text);
    inspect_gather(&s->facts, s->file);
}

static void release(inspected *s)
{
    model_file_close(s->file);
    buf_free(&s->bytes);
}

static void expect_reasons(const inspect_facts *f, uint32_t count, const char *words)
{
    if (f->reason_count != count || !strstr(f->reasons[0].text, words))
        fail_msg("%u reasons, first \"%s\"; expected %u, \"%s\"", f->reason_count, f->reasons[0].text, count, words);
}

static void says_what_a_model_is_and_needs(void **state)
{
    (void)state;
    gguf_builder g = builder();
    inspected s;
    add_numbers(&g, "llama");
    add_string(&g, "tokenizer.ggml.model", "gpt2");
    add_string(&g, "tokenizer.chat_template", "{{ messages }}");
    add_u32(&g, "general.file_type", 15);
    add_weights(&g, DT_Q4_0, NULL);
    inspect(&s, &g);
    const inspect_facts *f = &s.facts;
    expect_reasons(f, 0, "");
    assert_int_equal(f->layers, 1);
    assert_int_equal(f->head_dim, 16);
    assert_int_equal(f->kv_bytes_per_token, 2 * (16 + 16) * 2);
    assert_int_equal(f->vocabulary, 8);
    assert_true(f->chat_template);
    assert_string_equal(f->file_type, "Q4_K_M");
    assert_int_equal(f->parameters, 8 * 64 + 3 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96);
    assert_int_equal(f->types[DT_Q4_0].tensors, 1);
    assert_int_equal(f->types[DT_Q4_0].bytes, 64 * 3 * 18);
    assert_int_equal(inspect_memory(f, 4096), f->weight_bytes + 4096 * 128);
    release(&s);
}

static void names_an_architecture_that_is_not_there(void **state)
{
    (void)state;
    gguf_builder g = builder();
    inspected s;
    add_numbers(&g, "mamba");
    add_string(&g, "tokenizer.ggml.model", "gpt2");
    inspect(&s, &g);
    expect_reasons(&s.facts, 1, "architecture \"mamba\"");
    release(&s);
}

static void names_the_tensor_whose_type_is_not_supported(void **state)
{
    (void)state;
    gguf_builder g = builder();
    inspected s;
    add_numbers(&g, "llama");
    add_string(&g, "tokenizer.ggml.model", "gpt2");
    add_weights(&g, 24, NULL);
    inspect(&s, &g);
    expect_reasons(&s.facts, 1, "tensor blk.0.ffn_down.weight (and 0 more) is stored as I8");
    release(&s);
}

static void names_a_tensor_that_is_missing(void **state)
{
    (void)state;
    gguf_builder g = builder();
    inspected s;
    add_numbers(&g, "llama");
    add_string(&g, "tokenizer.ggml.model", "gpt2");
    add_weights(&g, DT_Q8_0, "blk.0.attn_v.weight");
    inspect(&s, &g);
    expect_reasons(&s.facts, 1, "blk.0.attn_v.weight");
    release(&s);
}

static void names_a_tokenizer_that_is_not_there(void **state)
{
    (void)state;
    gguf_builder g = builder();
    inspected s;
    add_numbers(&g, "llama");
    add_string(&g, "tokenizer.ggml.model", "rwkv");
    add_weights(&g, DT_Q8_0, NULL);
    inspect(&s, &g);
    expect_reasons(&s.facts, 1, "rwkv");
    release(&s);
}

static void says_what_a_file_of_a_vocabulary_only_lacks(void **state)
{
    (void)state;
    gguf_builder g = builder();
    inspected s;
    add_numbers(&g, "llama");
    add_string(&g, "tokenizer.ggml.model", "gpt2");
    inspect(&s, &g);
    expect_reasons(&s.facts, 1, "token_embd.weight");
    release(&s);
}

/* Runs the command with its standard output (1) or error (2) in `text`; returns the exit code. */
static int run_inspect(char **argv, int stream, char *text, size_t size)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    FILE *captured = tmpfile();
    assert_non_null(captured);
    fflush(stdout);
    int kept = dup(stream);
    dup2(fileno(captured), stream);
    int code = inspect_main(argc, argv);
    fflush(stdout);
    dup2(kept, stream);
    close(kept);
    rewind(captured);
    text[fread(text, 1, size - 1, captured)] = 0;
    fclose(captured);
    return code;
}

static void write_model(char *path, bool cut)
{
    gguf_builder g = builder();
    buf b = {0};
    add_numbers(&g, "llama");
    add_string(&g, "tokenizer.ggml.model", "gpt2");
    add_string(&g, "general.name", "na\x1b[31mme");
    add_weights(&g, DT_Q8_0, NULL);
    build(&g, &b);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(write(fd, b.data, b.size - cut) == (ssize_t)(b.size - cut));
    close(fd);
    buf_free(&b);
}

static void prints_json_with_the_same_keys_always(void **state)
{
    (void)state;
    static const char *const KEYS[] = {
        "path",          "format",       "version",          "bytes",         "architecture",
        "name",          "file_type",    "layers",           "hidden",        "heads",
        "kv_heads",      "head_dim",     "feed_forward",     "parameters",    "context",
        "experts",       "experts_used", "sliding_window",   "vocabulary",    "tokenizer",
        "chat_template", "synthetic",    "recurrent_layers", "draft_tensors", "vision_tensors",
        "tensors",       "types",        "memory",           "runs",          "reasons",
    };
    char path[] = "/tmp/headway-inspect-XXXXXX", text[8192];
    write_model(path, false);
    assert_int_equal(run_inspect((char *[]){"inspect", "--json", path, NULL}, STDOUT_FILENO, text, sizeof text), 0);
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (!json_object_get(root, KEYS[i]))
            fail_msg("no key %s", KEYS[i]);
    assert_int_equal(json_object_size(root), sizeof KEYS / sizeof *KEYS);
    assert_true(json_is_true(json_object_get(root, "runs")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "memory"), "kv_bytes_per_token")), 128);
    json_decref(root);
    unlink(path);
}

static void says_what_is_not_loaded_and_what_a_sequence_takes(void **state)
{
    (void)state;
    char text[8192], *path = "tests/numeric/vectors/hybrid/qwen35moe.gguf";
    assert_int_equal(run_inspect((char *[]){"inspect", path, NULL}, STDOUT_FILENO, text, sizeof text), 0);
    assert_non_null(strstr(text, "3 layers of 64"));
    assert_non_null(strstr(text, "2 of the layers with a recurrent state"));
    assert_non_null(strstr(text, "multi-token prediction (2 tensors)"));
    assert_non_null(strstr(text, "256 B per token"));      /* one layer, 2 heads of 32, K and V in f16 */
    assert_non_null(strstr(text, "11.3 kB per sequence")); /* two layers: 3 x 128 of history, 4 heads of 16 x 16, f32 */
}

static void prints_one_screen_without_control_bytes(void **state)
{
    (void)state;
    char path[] = "/tmp/headway-inspect-XXXXXX", text[8192];
    write_model(path, false);
    assert_int_equal(run_inspect((char *[]){"inspect", path, NULL}, STDOUT_FILENO, text, sizeof text), 0);
    int lines = 0;
    for (const char *p = text; *p; p++) {
        lines += *p == '\n';
        assert_true(*p == '\n' || (*p >= 0x20 && *p < 0x7f));
    }
    assert_in_range(lines, 8, 24);
    assert_non_null(strstr(text, "\nruns           yes\n"));
    unlink(path);
}

static void says_in_one_line_why_a_file_is_bad(void **state)
{
    (void)state;
    char path[] = "/tmp/headway-inspect-XXXXXX", text[8192];
    write_model(path, true);
    assert_int_equal(run_inspect((char *[]){"inspect", path, NULL}, STDERR_FILENO, text, sizeof text), 1);
    assert_non_null(strstr(text, path));
    assert_non_null(strstr(text, "tensor blk.0.ffn_down.weight"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_a_model_is_and_needs),
        cmocka_unit_test(names_an_architecture_that_is_not_there),
        cmocka_unit_test(names_the_tensor_whose_type_is_not_supported),
        cmocka_unit_test(names_a_tensor_that_is_missing),
        cmocka_unit_test(names_a_tokenizer_that_is_not_there),
        cmocka_unit_test(says_what_a_file_of_a_vocabulary_only_lacks),
        cmocka_unit_test(prints_json_with_the_same_keys_always),
        cmocka_unit_test(says_what_is_not_loaded_and_what_a_sequence_takes),
        cmocka_unit_test(prints_one_screen_without_control_bytes),
        cmocka_unit_test(says_in_one_line_why_a_file_is_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
