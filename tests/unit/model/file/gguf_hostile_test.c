/* One lie per file, and the words that it must be refused with: the file, the key or tensor, what was found or
 * expected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "unit/model/file/gguf_builder.h"

static const uint64_t NE_32_4[] = {32, 4};

/* Header. */

static void empty(buf *b)
{
    buf_reserve(b, 1);
}

static void header_cut(buf *b)
{
    buf_append(b, "GGUF\3\0\0\0\0\0\0\0", 12);
}

static void header_only(buf *b, const char *magic, uint32_t version, uint64_t tensors, uint64_t keys)
{
    buf_text(b, magic);
    put_u32(b, version);
    put_u64(b, tensors);
    put_u64(b, keys);
}

static void other_magic(buf *b)
{
    header_only(b, "GGML", 3, 0, 0);
}

static void version_one(buf *b)
{
    header_only(b, "GGUF", 1, 0, 0);
}

static void version_four(buf *b)
{
    header_only(b, "GGUF", 4, 0, 0);
}

static void big_endian(buf *b)
{
    header_only(b, "GGUF", 0x03000000, 0, 0);
}

static void tensor_count_lies(buf *b)
{
    header_only(b, "GGUF", 3, 1ull << 60, 0);
}

static void key_count_lies(buf *b)
{
    header_only(b, "GGUF", 3, 0, UINT64_MAX);
}

static void more_tensors_said_than_there(buf *b)
{
    gguf_builder g = builder();
    add_tensor(&g, "t", DT_F32, 32, 4);
    g.tensor_count = 3;
    build(&g, b);
}

/* Keys. */

static void keys_then(buf *b, gguf_builder *g)
{
    add_string(g, "z.last", "so that the file does not end with the lie");
    build(g, b);
}

static void empty_key(buf *b)
{
    gguf_builder g = builder();
    add_u32(&g, "", 1);
    keys_then(b, &g);
}

static void long_key(buf *b)
{
    gguf_builder g = builder();
    char *name = calloc(1, 70001);
    memset(name, 'k', 70000);
    add_u32(&g, name, 1);
    keys_then(b, &g);
    free(name);
}

static void duplicate_key(buf *b)
{
    gguf_builder g = builder();
    add_u32(&g, "llama.block_count", 1);
    add_u32(&g, "llama.block_count", 2);
    keys_then(b, &g);
}

static void string_length_lies(buf *b)
{
    gguf_builder g = builder();
    put_u64(add_key(&g, "general.name", MV_STRING), UINT64_MAX - 4);
    keys_then(b, &g);
}

static void array_length_lies(buf *b)
{
    gguf_builder g = builder();
    add_array(&g, "tokenizer.ggml.scores", MV_F32, 1ull << 62);
    keys_then(b, &g);
}

static void string_array_length_lies(buf *b)
{
    gguf_builder g = builder();
    put_string(add_array(&g, "tokenizer.ggml.tokens", MV_STRING, 1ull << 61), "a");
    keys_then(b, &g);
}

static void string_in_array_lies(buf *b)
{
    gguf_builder g = builder();
    put_u64(add_array(&g, "tokenizer.ggml.tokens", MV_STRING, 1), 1ull << 63);
    keys_then(b, &g);
}

static void nested_array(buf *b)
{
    gguf_builder g = builder();
    add_array(&g, "deep", MV_ARRAY, 1);
    keys_then(b, &g);
}

static void unknown_value_type(buf *b)
{
    gguf_builder g = builder();
    add_key(&g, "odd", 13);
    keys_then(b, &g);
}

static void unknown_element_type(buf *b)
{
    gguf_builder g = builder();
    add_array(&g, "odd.array", 77, 1);
    keys_then(b, &g);
}

static void bool_of_two(buf *b)
{
    gguf_builder g = builder();
    put_u8(add_key(&g, "tokenizer.ggml.add_bos_token", MV_BOOL), 2);
    keys_then(b, &g);
}

static void alignment_of(buf *b, uint32_t value)
{
    gguf_builder g = builder();
    add_u32(&g, "general.alignment", value);
    keys_then(b, &g);
}

static void alignment_zero(buf *b)
{
    alignment_of(b, 0);
}

static void alignment_odd(buf *b)
{
    alignment_of(b, 48);
}

static void alignment_huge(buf *b)
{
    alignment_of(b, 1u << 31);
}

static void alignment_text(buf *b)
{
    gguf_builder g = builder();
    add_string(&g, "general.alignment", "32");
    keys_then(b, &g);
}

static void file_ends_in_a_value(buf *b)
{
    gguf_builder g = builder();
    add_u32(&g, "llama.block_count", 1);
    add_u32(&g, "llama.context_length", 1);
    build(&g, b);
    b->size -= 2;
}

/* Tensors. */

static void tensor_said(buf *b, const char *name, uint32_t type, uint32_t dims, const uint64_t *ne, uint64_t offset)
{
    gguf_builder g = builder();
    say_tensor(&g, name, type, dims, ne, offset);
    for (int i = 0; i < 512; i++)
        put_u8(&g.data, 0);
    build(&g, b);
}

static void no_dimensions(buf *b)
{
    tensor_said(b, "t", DT_F32, 0, NE_32_4, 0);
}

static void five_dimensions(buf *b)
{
    static const uint64_t NE[] = {1, 1, 1, 1, 1};
    tensor_said(b, "t", DT_F32, 5, NE, 0);
}

static void dimension_of_zero(buf *b)
{
    static const uint64_t NE[] = {0, 4};
    tensor_said(b, "blk.0.attn_q.weight", DT_Q4_0, 2, NE, 0);
}

static void negative_dimension(buf *b)
{
    static const uint64_t NE[] = {32, (uint64_t)-4};
    tensor_said(b, "t", DT_F32, 2, NE, 0);
}

static void element_count_overflows(buf *b)
{
    static const uint64_t NE[] = {1ull << 32, 1ull << 32, 1ull << 32, 2};
    tensor_said(b, "t", DT_F32, 4, NE, 0);
}

static void byte_count_overflows(buf *b)
{
    static const uint64_t NE[] = {1ull << 62};
    tensor_said(b, "t", DT_F32, 1, NE, 0);
}

static void unknown_tensor_type(buf *b)
{
    tensor_said(b, "t", 57, 2, NE_32_4, 0);
}

static void withdrawn_tensor_type(buf *b)
{
    tensor_said(b, "t", 4, 2, NE_32_4, 0);
}

static void rows_that_cut_a_block(buf *b)
{
    static const uint64_t NE[] = {33, 4};
    tensor_said(b, "t", DT_Q4_0, 2, NE, 0);
}

static void misaligned_offset(buf *b)
{
    tensor_said(b, "t", DT_F32, 2, NE_32_4, 4);
}

static void offset_past_the_end(buf *b)
{
    tensor_said(b, "t", DT_F32, 2, NE_32_4, 1ull << 40);
}

static void offset_that_wraps(buf *b)
{
    tensor_said(b, "t", DT_F32, 2, NE_32_4, 0xffffffffffffffe0);
}

static void data_past_the_end(buf *b)
{
    tensor_said(b, "t", DT_F32, 2, NE_32_4, 32);
}

static void overlapping_tensors(buf *b)
{
    gguf_builder g = builder();
    add_tensor(&g, "first", DT_F32, 32, 4);
    say_tensor(&g, "second", DT_F32, 2, NE_32_4, 32);
    add_tensor(&g, "third", DT_F32, 32, 4);
    build(&g, b);
}

static void duplicate_tensor(buf *b)
{
    gguf_builder g = builder();
    add_tensor(&g, "twin", DT_F32, 32, 4);
    add_tensor(&g, "twin", DT_F32, 32, 4);
    build(&g, b);
}

static void empty_tensor_name(buf *b)
{
    tensor_said(b, "", DT_F32, 2, NE_32_4, 0);
}

static void long_tensor_name(buf *b)
{
    tensor_said(b, "0123456789012345678901234567890123456789012345678901234567890123", DT_F32, 2, NE_32_4, 0);
}

static void data_cut(buf *b)
{
    gguf_builder g = builder();
    add_llama_keys(&g);
    add_llama_tensors(&g);
    build(&g, b);
    b->size -= 1;
}

/* What keys and tensors say about each other. */

static void llama_with(buf *b, const char *key, uint32_t value)
{
    gguf_builder g = builder();
    add_string(&g, "general.architecture", "llama");
    add_u32(&g, key, value);
    keys_then(b, &g);
}

static void layers_by_the_million(buf *b)
{
    llama_with(b, "llama.block_count", 1000000);
}

static void no_layers(buf *b)
{
    llama_with(b, "llama.block_count", 0);
}

static void experts_without_end(buf *b)
{
    llama_with(b, "llama.expert_count", UINT32_MAX);
}

static void head_counts_in_an_array(buf *b)
{
    gguf_builder g = builder();
    add_string(&g, "general.architecture", "llama");
    put_u32(add_array(&g, "llama.attention.head_count_kv", MV_I32, 1), (uint32_t)-1);
    keys_then(b, &g);
}

static void layer_count_in_words(buf *b)
{
    gguf_builder g = builder();
    add_string(&g, "general.architecture", "llama");
    add_string(&g, "llama.block_count", "many");
    keys_then(b, &g);
}

static void nameless_architecture(buf *b)
{
    gguf_builder g = builder();
    add_string(&g, "general.architecture", "");
    keys_then(b, &g);
}

static gguf_builder with_tokens(uint64_t count)
{
    gguf_builder g = builder();
    buf *k = add_array(&g, "tokenizer.ggml.tokens", MV_STRING, count);
    for (uint64_t i = 0; i < count; i++)
        put_string(k, "t");
    return g;
}

static void fewer_rows_than_tokens(buf *b)
{
    gguf_builder g = with_tokens(5);
    add_tensor(&g, "token_embd.weight", DT_F32, 32, 4);
    build(&g, b);
}

static void fewer_scores_than_tokens(buf *b)
{
    gguf_builder g = with_tokens(3);
    buf *k = add_array(&g, "tokenizer.ggml.scores", MV_F32, 2);
    put_f32(k, 0);
    put_f32(k, 0);
    keys_then(b, &g);
}

static void token_types_of_text(buf *b)
{
    gguf_builder g = with_tokens(1);
    put_string(add_array(&g, "tokenizer.ggml.token_type", MV_STRING, 1), "normal");
    keys_then(b, &g);
}

static void tokens_that_are_numbers(buf *b)
{
    gguf_builder g = builder();
    put_u32(add_array(&g, "tokenizer.ggml.tokens", MV_U32, 1), 1);
    keys_then(b, &g);
}

static void end_token_past_the_vocabulary(buf *b)
{
    gguf_builder g = with_tokens(3);
    add_u32(&g, "tokenizer.ggml.eos_token_id", 3);
    keys_then(b, &g);
}

typedef struct {
    const char *name;
    void (*make)(buf *b);
    const char *words; /* what the message says after "bad.gguf: " */
} hostile_case;

#define CASE(make, words)                                                                                              \
    {                                                                                                                  \
#make, make, words                                                                                             \
    }
static const hostile_case CASES[] = {
    CASE(empty, "is 0 bytes long, expected at least the 24 of a header"),
    CASE(header_cut, "is 12 bytes long, expected at least the 24"),
    CASE(other_magic, "header: starts with \"GGML\", expected \"GGUF\""),
    CASE(version_one, "header: GGUF version 1, expected 2 or 3"),
    CASE(version_four, "header: GGUF version 4, expected 2 or 3"),
    CASE(big_endian, "header: big-endian GGUF, expected little-endian"),
    CASE(tensor_count_lies, "header: 1152921504606846976 tensors, expected at most 0"),
    CASE(key_count_lies, "header: 18446744073709551615 keys, expected at most 0"),
    CASE(more_tensors_said_than_there, "tensor 1"),
    CASE(empty_key, "key 0: its name is 0 bytes long, expected 1 to 65535"),
    CASE(long_key, "key 0: its name is 70000 bytes long"),
    CASE(duplicate_key, "key llama.block_count: occurs twice"),
    CASE(string_length_lies, "key general.name: a string length of 18446744073709551611, expected at most"),
    CASE(array_length_lies, "key tokenizer.ggml.scores: an array length of 4611686018427387904, expected at most"),
    CASE(string_array_length_lies, "key tokenizer.ggml.tokens: an array length of"),
    CASE(string_in_array_lies, "key tokenizer.ggml.tokens: a string length of 9223372036854775808"),
    CASE(nested_array, "key deep: array of arrays"),
    CASE(unknown_value_type, "key odd: value type 13, expected 0 to 12"),
    CASE(unknown_element_type, "key odd.array: array of an unknown type (77)"),
    CASE(bool_of_two, "key tokenizer.ggml.add_bos_token: found the byte 2, expected a bool of 0 or 1"),
    CASE(alignment_zero, "key general.alignment: found 0, expected a power of two"),
    CASE(alignment_odd, "key general.alignment: found 48, expected a power of two"),
    CASE(alignment_huge, "key general.alignment: found 2147483648, expected a power of two"),
    CASE(alignment_text, "key general.alignment: found a string, expected u32"),
    CASE(file_ends_in_a_value, "key 1 (llama.context_length): the file ends inside it"),
    CASE(no_dimensions, "tensor t: dimension count 0, expected 1 to 4"),
    CASE(five_dimensions, "tensor t: dimension count 5, expected 1 to 4"),
    CASE(dimension_of_zero, "tensor blk.0.attn_q.weight: a dimension of 0, expected 1 to"),
    CASE(negative_dimension, "tensor t: a dimension of 18446744073709551612, expected 1 to"),
    CASE(element_count_overflows, "tensor t: the element count overflows"),
    CASE(byte_count_overflows, "tensor t: 4611686018427387904 elements of F32, expected to fit in a file of"),
    CASE(unknown_tensor_type, "tensor t: type id 57"),
    CASE(withdrawn_tensor_type, "tensor t: type id 4"),
    CASE(rows_that_cut_a_block, "tensor t: rows of 33 elements, expected a multiple of 32 (Q4_0)"),
    CASE(misaligned_offset, "tensor t: offset 4, expected a multiple of 32"),
    CASE(offset_past_the_end, "tensor t: offset 1099511627776, expected one inside the file"),
    CASE(offset_that_wraps, "tensor t: offset 18446744073709551584, expected one inside the file"),
    CASE(data_past_the_end, "tensor t: data at bytes 128 to 640, expected inside the file of 608"),
    CASE(overlapping_tensors, "tensor second: overlaps tensor first"),
    CASE(duplicate_tensor, "tensor twin: occurs twice"),
    CASE(empty_tensor_name, "tensor 0: its name is 0 bytes long"),
    CASE(long_tensor_name, "tensor 0: its name is 64 bytes long, expected 1 to 63"),
    CASE(data_cut, "tensor output_norm.weight: data at bytes"),
    CASE(layers_by_the_million, "key llama.block_count: found 1000000, expected 1 to 1024"),
    CASE(no_layers, "key llama.block_count: found 0, expected 1 to 1024"),
    CASE(experts_without_end, "key llama.expert_count: found 4294967295"),
    CASE(head_counts_in_an_array, "key llama.attention.head_count_kv: found -1, expected 0 to 4096"),
    CASE(layer_count_in_words, "key llama.block_count: found a string, expected an integer"),
    CASE(nameless_architecture, "key general.architecture: found \"\""),
    CASE(fewer_rows_than_tokens, "tensor token_embd.weight: found 4 rows, expected one for each of the 5 tokens"),
    CASE(fewer_scores_than_tokens, "key tokenizer.ggml.scores: found 2 elements of f32, expected 3 of f32"),
    CASE(token_types_of_text, "key tokenizer.ggml.token_type: found 1 elements of a string, expected 1 of i32"),
    CASE(tokens_that_are_numbers, "key tokenizer.ggml.tokens: found 1 elements of u32, expected strings"),
    CASE(end_token_past_the_vocabulary, "key tokenizer.ggml.eos_token_id: found 3, expected less than the 3 tokens"),
};

static void refuses_each_lie_with_the_words_that_find_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        buf b = {0};
        CASES[i].make(&b);
        uint8_t *exact = malloc(b.size ? b.size : 1);
        memcpy(exact, b.data, b.size);
        model_file *file = NULL;
        error err = {0};
        status code = gguf_open_memory(&file, "bad.gguf", exact, b.size, &err);
        free(exact);
        buf_free(&b);
        char expected[256];
        snprintf(expected, sizeof expected, "bad.gguf: %s", CASES[i].words);
        if (code != ERR_INVALID || strncmp(err.text, expected, strlen(expected)) != 0)
            fail_msg("%s: status %d, \"%s\"; expected \"%s…\"", CASES[i].name, code, err.text, expected);
        assert_null(file);
    }
}

static void refuses_every_truncation_of_a_good_file(void **state)
{
    (void)state;
    gguf_builder g = builder();
    buf b = {0};
    add_llama_keys(&g);
    add_llama_tensors(&g);
    build(&g, &b);
    for (size_t size = 0; size < b.size; size++) {
        uint8_t *exact = malloc(size ? size : 1);
        memcpy(exact, b.data, size);
        model_file *file = NULL;
        error err = {0};
        assert_int_equal(gguf_open_memory(&file, "cut.gguf", exact, size, &err), ERR_INVALID);
        assert_int_equal(strncmp(err.text, "cut.gguf: ", 10), 0);
        free(exact);
    }
    buf_free(&b);
}

static void prints_no_control_bytes_of_names(void **state)
{
    (void)state;
    gguf_builder g = builder();
    buf b = {0};
    model_file *file = NULL;
    error err = {0};
    add_key(&g, "bell\a\x1b[31m\n", 99);
    keys_then(&b, &g);
    assert_int_equal(gguf_open_memory(&file, "bad.gguf", b.data, b.size, &err), ERR_INVALID);
    assert_string_equal(err.text, "bad.gguf: key bell??[31m?: value type 99, expected 0 to 12");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_each_lie_with_the_words_that_find_it),
        cmocka_unit_test(refuses_every_truncation_of_a_good_file),
        cmocka_unit_test(prints_no_control_bytes_of_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
