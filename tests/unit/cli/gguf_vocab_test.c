/* tests/unit/cli/gguf_vocab_test.c: the tokenizer and the template of a model file. */
#include "unit/text/tokenizer_fixture.h"

#include <unistd.h>

#include "cli/gguf_vocab.h"
#include "unit/model/file/gguf_builder.h"

static const char *default_model(char *path, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache)
        snprintf(path, size, "%s/headway/models/SmolLM2-135M-Instruct.Q4_1.gguf", cache);
    else
        snprintf(path, size, "%s/.cache/headway/models/SmolLM2-135M-Instruct.Q4_1.gguf", home ? home : "");
    return path;
}

static void the_default_model_gives_the_ids_of_the_reference(void **state)
{
    (void)state;
    char path[1024];
    if (access(default_model(path, sizeof path), R_OK) != 0) {
        print_message("skipped: the default model is not at %s\n", path);
        skip();
    }
    model_file *file = NULL;
    tokenizer *t = NULL;
    error err = {""};
    span source = {0};
    if (model_file_open(&file, path, &err) || tokenizer_spec_from_gguf(&t, file, &err))
        fail_msg("%s", err.text);
    assert_int_equal(chat_template_from_gguf(&source, file, &err), OK);
    assert_true(source.size > 100);
    model_file_close(file); /* the tokenizer needs it no longer */
    json_t *root = load_vectors();
    assert_int_equal(count_differences(t, json_object_get(json_object_get(root, "models"), "smollm2"), 0, "smollm2"),
                     0);
    json_decref(root);
    size_t count = 0;
    const token_id *eog = tokenizer_eog(t, &count);
    assert_int_equal(count, 2); /* <|im_end|> and <|endoftext|> */
    assert_int_equal(eog[0], 2);
    assert_true(tokenizer_is_eog(t, 0));
    tokenizer_destroy(t);
}

typedef struct {
    const char *pre;
    bool model, tokens, scores, tall_eos;
} little_file;

static status open_little(const little_file *l, tokenizer **t, error *err)
{
    gguf_builder g = builder();
    buf bytes = {0};
    char path[] = "/tmp/headway-vocab-XXXXXX";
    add_string(&g, "general.architecture", "llama");
    if (l->model)
        add_string(&g, "tokenizer.ggml.model", "gpt2");
    add_string(&g, "tokenizer.ggml.pre", l->pre);
    if (l->tokens) {
        buf *k = add_array(&g, "tokenizer.ggml.tokens", MV_STRING, 3);
        put_string(k, "a");
        put_string(k, "b");
        put_string(k, "ab");
        k = add_array(&g, "tokenizer.ggml.merges", MV_STRING, 1);
        put_string(k, "a b");
    }
    if (l->scores) { /* one too few */
        buf *k = add_array(&g, "tokenizer.ggml.scores", MV_F32, 2);
        buf_append(k, (const float[2]){0, 0}, 8);
    }
    add_u32(&g, "tokenizer.ggml.eos_token_id", l->tall_eos ? 3 : 1);
    build(&g, &bytes);
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, bytes.data, bytes.size) == (ssize_t)bytes.size);
    close(fd);
    status st = tokenizer_from_path(t, path, err);
    unlink(path);
    buf_free(&bytes);
    return st;
}

static void a_vocabulary_alone_is_enough(void **state)
{
    (void)state;
    tokenizer *t = NULL;
    error err = {""};
    token_list ids = {0};
    if (open_little(&(little_file){"gpt-2", true, true, false, false}, &t, &err))
        fail_msg("%s", err.text);
    assert_int_equal(tokenizer_encode(t, span_from("abba"), 0, &ids, &err), OK);
    char got[64];
    show_ids(&ids, got, sizeof got);
    assert_string_equal(got, "2 1 0");
    assert_int_equal(tokenizer_eos(t), 1);
    token_list_free(&ids);
    tokenizer_destroy(t);
}

static void what_is_wrong_with_a_vocabulary_is_said(void **state)
{
    (void)state;
    static const struct {
        little_file file;
        const char *word;
    } cases[] = {
        {{"gpt-2", false, true, false, false}, "tokenizer.ggml.model"},
        {{"gpt-2", true, false, false, false}, "tokenizer.ggml.tokens"},
        {{"gpt-9", true, true, false, false}, "gpt-9"},
        {{"gpt-2", true, true, true, false}, "tokenizer.ggml.scores"},
        {{"gpt-2", true, true, false, true}, "tokenizer.ggml.eos_token_id"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tokenizer *t = NULL;
        error err = {""};
        assert_int_not_equal(open_little(&cases[i].file, &t, &err), OK);
        assert_null(t);
        if (!strstr(err.text, cases[i].word) || !strstr(err.text, "headway-vocab"))
            fail_msg("case %zu says \"%s\"", i, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_model_gives_the_ids_of_the_reference),
        cmocka_unit_test(a_vocabulary_alone_is_enough),
        cmocka_unit_test(what_is_wrong_with_a_vocabulary_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
