/* tests/fuzz/tokenizer_fuzz.c: hostile tokenizer.json files, and hostile text through an honest tokenizer.
 * The first byte chooses: a whole tokenizer.json; or pieces of text, cut at each 0xFE (trusted) and 0xFD (not), for
 * which what must always hold is checked: streams equal whole decodes, ids are in range, untrusted text makes no
 * control token. */
#include <stdio.h>
#include <stdlib.h>

#include "text/tokenizer.h"
#include "text/tokenizer_utf8.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                              \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static const char honest_json[] =
    "{\"added_tokens\":[{\"id\":270,\"content\":\"<s>\",\"special\":true},{\"id\":271,\"content\":\"<t>\",\"lstrip\":"
    "true},"
    "{\"id\":272,\"content\":\"</"
    "s>\",\"special\":true,\"rstrip\":true},{\"id\":273,\"content\":\"ab\",\"single_word\":true}],"
    "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
    "\"pattern\":{\"Regex\":\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|"
    "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_"
    "space\":false,"
    "\"use_regex\":false}]},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{%s},"
    "\"merges\":[\"a b\",\"a a\",\"aa aa\"]}}";

/* 256 characters of the byte-level alphabet and three merged tokens. */
static tokenizer *make_honest(void)
{
    buf vocab = {0}, json = {0};
    int next = 0;
    for (uint32_t code = 0x21; code < 0x144; code++) {
        char text[5] = {0};
        if ((code > 0x7E && code < 0xA1) || code == 0xAD)
            continue;
        utf8_put(text, code);
        buf_printf(&vocab, "\"%s%s\":%d,", code == '"' || code == '\\' ? "\\" : "", text, next++);
    }
    buf_printf(&vocab, "\"ab\":%d,\"aa\":%d,\"aaaa\":%d", next, next + 1, next + 2);
    buf_printf(&json, honest_json, vocab.data);
    tokenizer *t = NULL;
    error err = {""};
    if (tokenizer_create_json(&t, buf_span(&json), span_from(""), &err)) {
        fprintf(stderr, "the honest tokenizer: %s\n", err.text);
        abort();
    }
    buf_free(&vocab);
    buf_free(&json);
    return t;
}

static void check_decode(const tokenizer *t, const token_list *ids)
{
    buf whole = {0}, stream = {0};
    buf_reserve(&stream, 1);
    detokenizer d = {.keep_specials = true};
    for (size_t i = 0; i < ids->count; i++) {
        CHECK(ids->ids[i] >= 0 && (uint32_t)ids->ids[i] < tokenizer_vocab_size(t));
        size_t before = stream.size;
        detokenizer_push(&d, t, ids->ids[i], &stream);
        CHECK(utf8_valid_prefix(span_of(stream.data + before, stream.size - before)) == stream.size - before);
    }
    detokenizer_finish(&d, &stream);
    tokenizer_decode(t, ids->ids, ids->count, true, &whole);
    CHECK(span_equal(buf_span(&whole), buf_span(&stream)));
    buf_free(&whole);
    buf_free(&stream);
}

static void fuzz_text(const tokenizer *t, const char *data, size_t size)
{
    text_piece pieces[64];
    size_t count = 0, start = 0;
    bool trusted = false, any_trusted = false;
    for (size_t at = 0; at <= size && count < 64; at++) {
        unsigned char b = at < size ? (unsigned char)data[at] : 0xFE;
        if (b < 0xFD || b > 0xFE)
            continue;
        any_trusted |= trusted;
        pieces[count++] = (text_piece){span_of(data + start, at - start), trusted};
        trusted = b == 0xFE;
        start = at + 1;
    }
    token_list ids = {0};
    error err;
    if (tokenizer_encode_pieces(t, pieces, count, TOKENIZE_SPECIALS, &ids, &err) == OK) {
        check_decode(t, &ids);
        for (size_t i = 0; i < ids.count && !any_trusted; i++)
            CHECK(!tokenizer_is_control(t, ids.ids[i]));
    }
    ids.count = 0;
    if (tokenizer_encode(t, span_of(data, size), 0, &ids, &err) == OK)
        check_decode(t, &ids);
    token_list_free(&ids);
}

static void fuzz_json(const char *data, size_t size)
{
    static const char text[] = "Hello world, 123 <s>it's</s> \xE8\xAA\x9E\xF0\x9F\x98\x80 a\xCC\x81  \n\n\xFFx";
    tokenizer *t = NULL;
    error err = {""};
    if (tokenizer_create_json(&t, span_of(data, size), span_of(data, size / 2 % 7 ? 0 : size), &err)) {
        CHECK(!t && err.text[0]);
        return;
    }
    token_list ids = {0};
    if (tokenizer_encode(t, span_of(text, sizeof text - 1), TOKENIZE_SPECIALS | TOKENIZE_BOS_EOS, &ids, &err) == OK)
        check_decode(t, &ids);
    token_list_free(&ids);
    tokenizer_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tokenizer *honest;
    if (!honest)
        honest = make_honest();
    if (size == 0)
        return 0;
    if (data[0] == '{')
        fuzz_json((const char *)data, size);
    else
        fuzz_text(honest, (const char *)data + 1, size - 1);
    return 0;
}
