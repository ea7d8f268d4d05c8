/* tests/unit/text/tokenizer_fixture.h: files, vectors and little vocabularies for the tokenizer's tests. */
#ifndef HEADWAY_TESTS_TOKENIZER_FIXTURE_H
#define HEADWAY_TESTS_TOKENIZER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "text/tokenizer.h"

static inline json_t *load_vectors(void)
{
    json_error_t where;
    json_t *root = json_load_file("tests/unit/text/tokenizer_vectors.json", JSON_ALLOW_NUL, &where);
    if (!root)
        fail_msg("tests/unit/text/tokenizer_vectors.json: %s (run from the root of the tree)", where.text);
    return root;
}

static inline span json_span(const json_t *text)
{
    return span_of(json_string_value(text), json_string_length(text));
}

/* Prints the first difference; returns how many of `cases` differ. */
static inline size_t count_differences(const tokenizer *t, const json_t *cases, unsigned flags, const char *name)
{
    size_t wrong = 0, i, j;
    json_t *item, *id;
    json_array_foreach(cases, i, item)
    {
        span text = json_span(json_object_get(item, "text"));
        const json_t *want = json_object_get(item, "ids");
        token_list got = {0};
        error err = {""};
        status st = tokenizer_encode(t, text, flags, &got, &err);
        bool same = !st && got.count == json_array_size(want);
        json_array_foreach(want, j, id) same = same && got.ids[j] == json_integer_value(id);
        if (!same && wrong++ == 0) {
            print_error("%s, text %zu \"%s\": %s\n  got ", name, i, text.data, err.text);
            for (j = 0; j < got.count; j++)
                print_error(" %d", got.ids[j]);
            print_error("\n  want");
            json_array_foreach(want, j, id) print_error(" %d", (int)json_integer_value(id));
            print_error("\n");
        }
        token_list_free(&got);
    }
    return wrong;
}

/* A byte-level vocabulary of single characters of the alphabet (all 256), some merged ones, and a few added tokens. */
enum { LITTLE_ADDED = 300, LITTLE_EOS = LITTLE_ADDED, LITTLE_START, LITTLE_USER, LITTLE_WIDE, LITTLE_COUNT };

typedef struct {
    char texts[LITTLE_COUNT][24];
    span tokens[LITTLE_COUNT];
    int32_t types[LITTLE_COUNT];
    span merges[8];
    tokenizer_spec spec;
} little_vocab;

static inline void little_set(little_vocab *l, int id, const char *text, int32_t type)
{
    snprintf(l->texts[id], sizeof l->texts[id], "%s", text);
    l->tokens[id] = span_from(l->texts[id]);
    l->types[id] = type;
}

static inline void little_fill(little_vocab *l, const char *pre)
{
    static const char *merged[] = {"ab", "abc", "aa", "aaaa", "aaaaaaaa", "\xC4\xA0\x61"};
    static const char *merges[] = {"a b", "ab c", "a a", "aa aa", "aaaa aaaa", "\xC4\xA0 a"};
    *l = (little_vocab){0};
    for (int i = 0; i < LITTLE_COUNT; i++) {
        char name[24];
        snprintf(name, sizeof name, "[unused%d]", i);
        little_set(l, i, name, TOKEN_UNUSED);
    }
    int next = 0;
    for (int c = 0x21; c < 0x144; c++) { /* the alphabet's code points */
        if ((c > 0x7E && c < 0xA1) || c == 0xAD)
            continue;
        char text[3] = {(char)c, 0, 0};
        if (c >= 0x80) {
            text[0] = (char)(0xC0 | c >> 6);
            text[1] = (char)(0x80 | (c & 0x3F));
        }
        little_set(l, next++, text, TOKEN_NORMAL);
    }
    assert_int_equal(next, 256);
    for (int i = 0; i < 6; i++) {
        little_set(l, next++, merged[i], TOKEN_NORMAL);
        l->merges[i] = span_from(merges[i]);
    }
    little_set(l, LITTLE_EOS, "<|im_end|>", TOKEN_CONTROL);
    little_set(l, LITTLE_START, "<|im_start|>", TOKEN_CONTROL);
    little_set(l, LITTLE_USER, "<tool>", TOKEN_USER);
    little_set(l, LITTLE_WIDE, "<\xE8\xAA\x9E>", TOKEN_CONTROL);
    l->spec = (tokenizer_spec){.model = span_from("gpt2"),
                               .pre = span_from(pre),
                               .tokens = l->tokens,
                               .types = l->types,
                               .token_count = LITTLE_COUNT,
                               .merges = l->merges,
                               .merge_count = 6,
                               .bos = LITTLE_START,
                               .eos = LITTLE_EOS,
                               .eot = -1,
                               .eom = -1,
                               .unknown = -1,
                               .pad = -1,
                               .add_bos = true};
}

static inline tokenizer *little_create(const char *pre)
{
    little_vocab *l = malloc(sizeof *l);
    error err = {""};
    tokenizer *t = NULL;
    assert_non_null(l);
    little_fill(l, pre);
    if (tokenizer_create(&t, &l->spec, &err))
        fail_msg("%s", err.text);
    free(l);
    return t;
}

/* Appends the decimal ids of a list, separated by spaces. */
static inline void show_ids(const token_list *ids, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < ids->count && used + 16 < size; i++)
        used += (size_t)snprintf(out + used, size - used, i ? " %d" : "%d", ids->ids[i]);
}

#endif
