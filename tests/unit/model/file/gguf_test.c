/* GGUF files as they should be: what the getters say, and models in several shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/model/file/gguf_builder.h"
#include "unit/model/file/gguf_walk.h"

static model_file *open_ok(const buf *b)
{
    model_file *file = NULL;
    error err = {0};
    if (gguf_open_memory(&file, "test.gguf", b->data, b->size, &err) != OK)
        fail_msg("%s", err.text);
    return file;
}

static void reads_tensors_by_name_and_in_order(void **state)
{
    (void)state;
    gguf_builder g = builder();
    buf b = {0};
    add_llama_keys(&g);
    add_llama_tensors(&g);
    build(&g, &b);
    model_file *file = open_ok(&b);
    assert_int_equal(model_file_tensor_count(file), 4);
    assert_int_equal(model_file_version(file), 3);
    assert_int_equal(model_file_bytes(file), b.size);
    const model_tensor *t = model_file_tensor(file, "blk.0.attn_q.weight");
    assert_ptr_equal(t, model_file_tensor_at(file, 2));
    assert_int_equal(t->type, DT_Q4_1);
    assert_int_equal(t->dims, 2);
    assert_int_equal(t->ne[0], 32);
    assert_int_equal(t->ne[1], 32);
    assert_int_equal(t->ne[2], 1);
    assert_int_equal(t->bytes, 32 * 20);
    for (size_t i = 0; i < t->bytes; i++)
        assert_int_equal(((const uint8_t *)t->data)[i], (uint8_t)(i + 3));
    assert_null(model_file_tensor(file, "blk.1.attn_q.weight"));
    assert_null(model_file_tensor_at(file, 4));
    model_file_close(file);
    buf_free(&b);
}

static void reads_every_element_of_arrays(void **state)
{
    (void)state;
    gguf_builder g = builder();
    buf b = {0};
    add_llama_keys(&g);
    buf *k = add_array(&g, "more.words", MV_STRING, 2);
    put_string(k, "");
    put_string(k, "two\nlines");
    k = add_array(&g, "small", MV_I8, 2);
    put_u8(k, 0x80);
    put_u8(k, 5);
    build(&g, &b);
    model_file *file = open_ok(&b);
    model_array array;
    assert_int_equal(model_file_array(file, "tokenizer.ggml.tokens", &array, NULL), OK);
    assert_int_equal(array.count, 4);
    assert_true(span_is(model_array_string(&array, 3), "a"));
    assert_true(span_is(model_array_string(&array, 0), "<unk>"));
    assert_int_equal(model_array_string(&array, 4).size, 0);
    assert_int_equal(model_file_array(file, "more.words", &array, NULL), OK);
    assert_int_equal(model_array_string(&array, 0).size, 0);
    assert_true(span_is(model_array_string(&array, 1), "two\nlines"));
    assert_int_equal(model_file_array(file, "small", &array, NULL), OK);
    assert_int_equal(model_array_i64(&array, 0), -128);
    assert_true(model_array_f64(&array, 1) == 5);
    assert_int_equal(model_file_array(file, "tokenizer.ggml.scores", &array, NULL), OK);
    assert_true(model_array_f64(&array, 2) == -2);
    model_file_close(file);
    buf_free(&b);
}

static void converts_integers_that_fit_and_refuses_others_with_words(void **state)
{
    (void)state;
    gguf_builder g = builder();
    buf b = {0};
    put_u8(add_key(&g, "byte", MV_U8), 200);
    put_u64(add_key(&g, "most", MV_U64), UINT64_MAX);
    put_u64(add_key(&g, "minus", MV_I64), (uint64_t)-3);
    put_u32(add_key(&g, "int", MV_I32), 7);
    put_f32(add_key(&g, "half", MV_F32), 0.5f);
    put_u8(add_key(&g, "yes", MV_BOOL), 1);
    build(&g, &b);
    model_file *file = open_ok(&b);
    uint64_t u = 42;
    double f;
    bool flag;
    span text;
    error err = {0};
    assert_int_equal(model_file_u64(file, "byte", &u, &err), OK);
    assert_int_equal(u, 200);
    assert_int_equal(model_file_u64(file, "most", &u, &err), OK);
    assert_true(u == UINT64_MAX);
    assert_int_equal(model_file_u64(file, "int", &u, &err), OK);
    assert_int_equal(model_file_u64(file, "minus", &u, &err), ERR_INVALID);
    assert_string_equal(err.text, "test.gguf: key minus: found -3, expected 0 or more");
    assert_int_equal(model_file_u64(file, "half", &u, &err), ERR_INVALID);
    assert_string_equal(err.text, "test.gguf: key half: found f32, expected an integer");
    assert_int_equal(model_file_u64(file, "absent", &u, &err), ERR_NOT_FOUND);
    assert_int_equal(u, 7);
    assert_int_equal(model_file_f64(file, "half", &f, &err), OK);
    assert_true(f == 0.5);
    assert_int_equal(model_file_f64(file, "minus", &f, &err), OK);
    assert_true(f == -3);
    assert_int_equal(model_file_bool(file, "yes", &flag, &err), OK);
    assert_true(flag);
    assert_int_equal(model_file_bool(file, "byte", &flag, &err), ERR_INVALID);
    assert_int_equal(model_file_string(file, "byte", &text, &err), ERR_INVALID);
    assert_string_equal(err.text, "test.gguf: key byte: found u8, expected a string");
    model_file_close(file);
    buf_free(&b);
}

static void finds_each_of_thousands_of_tensors(void **state)
{
    (void)state;
    gguf_builder g = builder();
    buf b = {0};
    char name[32];
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "blk.%d.ffn_up.weight", i);
        add_tensor(&g, name, DT_F16, 8, 1);
    }
    build(&g, &b);
    model_file *file = open_ok(&b);
    for (size_t i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "blk.%zu.ffn_up.weight", i);
        assert_ptr_equal(model_file_tensor(file, name), model_file_tensor_at(file, i));
    }
    model_file_close(file);
    buf_free(&b);
}

/* Shards on disk. */

typedef struct {
    char folder[32];
    char paths[3][96];
} shards;

static void write_file(const char *path, buf *b)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->size, f), b->size);
    fclose(f);
    buf_free(b);
}

typedef struct {
    uint16_t number, count;
    int total; /* split.tensors.count; -1: no such key */
    const char *tensor;
} shard_words;

static void write_shard(const char *path, shard_words w)
{
    gguf_builder g = builder();
    buf b = {0};
    if (w.number == 0)
        add_llama_keys(&g);
    add_u16(&g, "split.no", w.number);
    add_u16(&g, "split.count", w.count);
    if (w.total >= 0)
        put_u32(add_key(&g, "split.tensors.count", MV_I32), (uint32_t)w.total);
    add_tensor(&g, w.tensor, DT_Q4_0, 32, 4);
    build(&g, &b);
    write_file(path, &b);
}

static void write_shards(shards *s)
{
    snprintf(s->folder, sizeof s->folder, "/tmp/headway-gguf-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    for (int i = 0; i < 3; i++) {
        char tensor[16];
        snprintf(s->paths[i], sizeof s->paths[i], "%s/m-%05d-of-00003.gguf", s->folder, i + 1);
        snprintf(tensor, sizeof tensor, "t%d", i);
        write_shard(s->paths[i], (shard_words){(uint16_t)i, 3, 3, tensor});
    }
}

static void remove_shards(shards *s)
{
    for (int i = 0; i < 3; i++)
        unlink(s->paths[i]);
    rmdir(s->folder);
}

static void expect_refusal(const char *path, const char *const words[3])
{
    model_file *file = NULL;
    error err = {0};
    assert_int_not_equal(model_file_open(&file, path, &err), OK);
    for (int i = 0; i < 3 && words[i]; i++)
        if (!strstr(err.text, words[i]))
            fail_msg("\"%s\" does not say \"%s\"", err.text, words[i]);
}

static void opens_a_split_model_by_any_of_its_shards(void **state)
{
    (void)state;
    shards s;
    write_shards(&s);
    for (int i = 0; i < 3; i++) {
        model_file *file = NULL;
        error err = {0};
        if (model_file_open(&file, s.paths[i], &err) != OK)
            fail_msg("%s", err.text);
        span arch;
        assert_int_equal(model_file_tensor_count(file), 3);
        assert_non_null(model_file_tensor(file, "t2"));
        assert_int_equal(model_file_string(file, "general.architecture", &arch, &err), OK);
        assert_string_equal(model_file_path(file), s.paths[i]);
        walk_model(file);
        walk_model(file); /* released pages come back */
        model_file_close(file);
    }
    remove_shards(&s);
}

static void names_the_shard_that_is_missing(void **state)
{
    (void)state;
    shards s;
    write_shards(&s);
    unlink(s.paths[1]);
    expect_refusal(s.paths[2], (const char *const[3]){"m-00002-of-00003.gguf", "No such file"});
    remove_shards(&s);
}

static void refuses_shards_that_do_not_belong_together(void **state)
{
    (void)state;
    shards s;
    write_shards(&s);
    write_shard(s.paths[1], (shard_words){2, 3, 3, "t1"});
    expect_refusal(s.paths[0],
                   (const char *const[3]){"m-00002-of-00003.gguf", "split.no: found shard 3 of 3", "2 of 3"});
    write_shard(s.paths[1], (shard_words){1, 4, 3, "t1"});
    expect_refusal(s.paths[0], (const char *const[3]){"m-00002-of-00003.gguf", "shard 2 of 4", "expected 2 of 3"});
    write_shard(s.paths[1], (shard_words){1, 3, 3, "t0"});
    expect_refusal(s.paths[0], (const char *const[3]){"m-00002-of-00003.gguf", "tensor t0", "twice"});
    write_shard(s.paths[1], (shard_words){1, 3, 3, "t1"});
    write_shard(s.paths[0], (shard_words){0, 3, 9, "t0"});
    expect_refusal(s.paths[2], (const char *const[3]){"split.tensors.count: found 9", "expected the 3"});
    write_shard(s.paths[0], (shard_words){7, 3, 3, "t0"});
    expect_refusal(s.paths[0], (const char *const[3]){"split.no: found 7", "less than split.count 3"});
    write_shard(s.paths[0], (shard_words){0, 60000, 3, "t0"});
    expect_refusal(s.paths[0], (const char *const[3]){"split.count: found 60000"});
    write_shard(s.paths[0], (shard_words){1, 3, 3, "t0"});
    expect_refusal(s.paths[0], (const char *const[3]){"split.count", "a file name that ends in -00002-of-00003.gguf"});
    remove_shards(&s);
}

static void refuses_what_is_no_regular_file(void **state)
{
    (void)state;
    expect_refusal("/tmp", (const char *const[3]){"/tmp: a directory without config.json"});
    expect_refusal("/dev/null", (const char *const[3]){"/dev/null: is a special file"});
    expect_refusal("/nonexistent.gguf", (const char *const[3]){"/nonexistent.gguf: ", "No such file"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tensors_by_name_and_in_order),
        cmocka_unit_test(reads_every_element_of_arrays),
        cmocka_unit_test(converts_integers_that_fit_and_refuses_others_with_words),
        cmocka_unit_test(finds_each_of_thousands_of_tensors),
        cmocka_unit_test(opens_a_split_model_by_any_of_its_shards),
        cmocka_unit_test(names_the_shard_that_is_missing),
        cmocka_unit_test(refuses_shards_that_do_not_belong_together),
        cmocka_unit_test(refuses_what_is_no_regular_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
