/* tests/fuzz/json_mutator.h: mutations that keep JSON valid, so that what is behind the parser is met too: of a tree, a
 * value is replaced by one that lies elsewhere or by an odd one, a field gets another's name, is doubled or goes.
 * One in four mutations is libFuzzer's own, of bytes. The first `head` bytes are never JSON and are left alone. */
#ifndef HEADWAY_TESTS_JSON_MUTATOR_H
#define HEADWAY_TESTS_JSON_MUTATOR_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/rng.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

enum { JSON_NODES_MAX = 400 };

typedef struct {
    json_t *parent, *value; /* parent: an array or an object */
    const char *key;        /* in an object */
    size_t index;           /* in an array */
} json_place;

typedef struct {
    json_place places[JSON_NODES_MAX];
    uint32_t count;
} json_places;

static void json_collect(json_places *all, json_t *node, int depth)
{
    const char *key;
    json_t *value;
    size_t i;
    if (depth > 30)
        return;
    json_object_foreach(node, key, value) if (all->count < JSON_NODES_MAX)
    {
        all->places[all->count++] = (json_place){node, value, key, 0};
        json_collect(all, value, depth + 1);
    }
    json_array_foreach(node, i, value) if (all->count < JSON_NODES_MAX)
    {
        all->places[all->count++] = (json_place){node, value, NULL, i};
        json_collect(all, value, depth + 1);
    }
}

static json_t *json_odd_value(rng *r)
{
    static const char *const values[] = {"null",
                                         "true",
                                         "false",
                                         "0",
                                         "1",
                                         "-1",
                                         "2",
                                         "1e300",
                                         "4294967296",
                                         "9223372036854775807",
                                         "0.5",
                                         "-0.0",
                                         "\"\"",
                                         "[]",
                                         "{}",
                                         "[[]]",
                                         "[null]",
                                         "[{}]",
                                         "\"auto\"",
                                         "\"none\"",
                                         "\"any\"",
                                         "\"tool\"",
                                         "\"user\"",
                                         "\"assistant\"",
                                         "\"text\"",
                                         "\"tool_use\"",
                                         "\"tool_result\"",
                                         "\"a\\u0000b\"",
                                         "\"\\ud83d\\ude00\"",
                                         "\"<think>\"",
                                         "\"<tool_call>\"",
                                         "{\"type\":\"text\",\"text\":\"x\"}",
                                         "{\"type\":\"object\"}",
                                         "[\"a\",\"b\"]",
                                         "{\"type\":\"json_schema\",\"schema\":{\"type\":\"integer\"}}"};
    return json_loads(values[rng_below(r, sizeof values / sizeof *values)], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

/* Takes `value`. */
static void json_put(const json_place *at, json_t *value)
{
    if (at->key)
        json_object_set_new(at->parent, at->key, value);
    else
        json_array_set_new(at->parent, at->index, value);
}

static void json_mutate_tree(json_t *root, rng *r)
{
    static json_places all;
    all.count = 0;
    json_collect(&all, root, 0);
    if (!all.count)
        return;
    json_place at = all.places[rng_below(r, all.count)], other = all.places[rng_below(r, all.count)];
    json_t *copy = json_deep_copy(other.value);
    switch (rng_below(r, 6)) {
    case 0:
        json_put(&at, json_odd_value(r));
        break;
    case 1:
        json_put(&at, json_incref(copy));
        break;
    case 2: /* under another's name */
        if (other.key)
            json_object_set(json_is_object(at.value) ? at.value : root, other.key, copy);
        break;
    case 3:
        json_array_append(json_is_array(at.value) ? at.value : at.parent, copy);
        break;
    case 4:
        if (at.key)
            json_object_del(at.parent, at.key);
        else
            json_array_remove(at.parent, at.index);
        break;
    default: /* wrapped */
        json_put(&at, rng_below(r, 2) ? json_pack("[O]", at.value) : json_pack("{s:O}", "text", at.value));
        break;
    }
    json_decref(copy);
}

static size_t json_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed, size_t head)
{
    rng r = {seed};
    json_t *root = size > head && rng_below(&r, 4)
                       ? json_loadb((const char *)data + head, size - head, JSON_ALLOW_NUL, NULL)
                       : NULL;
    if (!root)
        return LLVMFuzzerMutate(data, size, max_size);
    for (uint64_t left = 1 + rng_below(&r, 3); left--;)
        json_mutate_tree(root, &r);
    if (head && rng_below(&r, 4) == 0)
        data[0] = (uint8_t)rng_below(&r, 256);
    char *text = json_dumps(root, JSON_COMPACT);
    size_t length = text ? strlen(text) : 0;
    json_decref(root);
    if (length && head + length <= max_size)
        memcpy(data + head, text, length);
    free(text);
    return length && head + length <= max_size ? head + length : LLVMFuzzerMutate(data, size, max_size);
}

#endif
