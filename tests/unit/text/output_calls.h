/* tests/unit/text/output_calls.h: tool calls made at random and written in each family's syntax, as a model would: what
 * was intended is known, whatever the parser makes of it. */
#ifndef HEADWAY_TESTS_OUTPUT_CALLS_H
#define HEADWAY_TESTS_OUTPUT_CALLS_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/rng.h"

/* One parameter of each type. */
static const char calls_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"},\"limit\":{\"type\":\"number\"},\"deep\":{"
    "\"type\":"
    "\"boolean\"},\"where\":{\"type\":\"object\"},\"list\":{\"type\":\"array\"},\"note\":{\"type\":[\"string\","
    "\"null\"]},\"either\":{\"anyOf\":[{\"type\":\"integer\"},{\"$ref\":\"#/$defs/o\"}]}},\"$defs\":{\"o\":{\"type\":"
    "\"object\"}}}}},{\"type\":\"function\",\"function\":{\"name\":\"run.code-2\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"code\":{\"type\":\"string\"}}}}}]";

/* What strings are put together from: marks of all families among it. */
static const char *const calls_words[] = {
    "a",
    "Paris",
    " ",
    "\n",
    "\"",
    "'",
    "\\",
    "\\n",
    "東京",
    "é",
    "😀",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "</tool_call>",
    "<tool_call>",
    "</parameter>",
    "</function>",
    "<function=get_weather>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|python_tag|>",
    "<tool_call|>",
    "call:x{",
    "<|tool_call_end|>",
    "<think>",
    "</think>",
    "null",
    "5",
    "true",
    "if (a < b) { return \"x\"; }\n",
    "\t",
    "\x01",
    "<",
    "</",
    "</tool_cal",
    "<parameter=",
    "$",
    "=",
    ")",
    "(",
    ";",
    "\n\n",
    "  ",
    "let s = '</tool_call>';",
    "\r\n",
};
enum { CALLS_WORDS = sizeof calls_words / sizeof *calls_words };

static void calls_string(rng *r, buf *out, unsigned most)
{
    for (uint64_t n = rng_below(r, most + 1); n > 0; n--)
        buf_text(out, calls_words[rng_below(r, CALLS_WORDS)]);
}

static json_t *calls_value(rng *r, int depth);

static json_t *calls_json_string(rng *r)
{
    buf text = {0};
    calls_string(r, &text, rng_below(r, 20) == 0 ? 120 : 8);
    json_t *value = json_stringn(text.data ? text.data : "", text.size);
    buf_free(&text);
    return value;
}

static json_t *calls_number(rng *r)
{
    int64_t whole = (int64_t)rng_below(r, 2000001) - 1000000;
    return rng_below(r, 2) ? json_integer(whole) : json_real((double)whole / 64);
}

static json_t *calls_object(rng *r, int depth)
{
    json_t *object = json_object();
    for (uint64_t n = rng_below(r, 4); n > 0; n--) {
        char key[16];
        snprintf(key, sizeof key, "%s%d", rng_below(r, 3) ? "key" : "é_k", (int)rng_below(r, 50));
        json_object_set_new(object, key, calls_value(r, depth + 1));
    }
    return object;
}

static json_t *calls_array(rng *r, int depth)
{
    json_t *array = json_array();
    for (uint64_t n = rng_below(r, 4); n > 0; n--)
        json_array_append_new(array, calls_value(r, depth + 1));
    return array;
}

static json_t *calls_value(rng *r, int depth)
{
    switch (rng_below(r, depth < 4 ? 7 : 5)) {
    case 0:
    case 1:
        return calls_json_string(r);
    case 2:
        return calls_number(r);
    case 3:
        return json_boolean(rng_below(r, 2));
    case 4:
        return json_null();
    case 5:
        return calls_object(r, depth);
    default:
        return calls_array(r, depth);
    }
}

/* Arguments that the first tool's schema allows, in any order. */
static json_t *calls_arguments(rng *r)
{
    static const char *const names[] = {"city", "days", "limit", "deep", "where", "list", "note", "either"};
    json_t *arguments = json_object();
    for (uint64_t n = rng_below(r, 6); n > 0; n--) {
        uint64_t which = rng_below(r, 8);
        json_t *value = which == 0   ? calls_json_string(r)
                        : which == 1 ? json_integer((int64_t)rng_below(r, 100))
                        : which == 2 ? calls_number(r)
                        : which == 3 ? json_boolean(rng_below(r, 2))
                        : which == 4 ? calls_object(r, 1)
                        : which == 5 ? calls_array(r, 1)
                        : which == 6 ? (rng_below(r, 2) ? json_null() : json_string("words\n\"of\" note"))
                                     : (rng_below(r, 2) ? json_integer(7) : calls_object(r, 1));
        json_object_set_new(arguments, names[which], value);
    }
    return arguments;
}

static void calls_json(buf *out, json_t *value, size_t flags)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | flags);
    buf_text(out, text);
    free(text);
}

/* ---- as each family writes it ---- */

static void calls_write_hermes(rng *r, buf *out, const char *name, json_t *arguments)
{
    size_t flags = rng_below(r, 2) ? JSON_ENSURE_ASCII : rng_below(r, 2) ? JSON_COMPACT : 0;
    bool name_first = rng_below(r, 4);
    buf_text(out, rng_below(r, 4) ? "<tool_call>\n{" : "<tool_call>{ ");
    if (name_first)
        buf_printf(out, "\"name\": \"%s\", ", name);
    buf_text(out, rng_below(r, 2) ? "\"arguments\": " : "\"parameters\":");
    calls_json(out, arguments, flags);
    if (!name_first)
        buf_printf(out, ", \"name\": \"%s\"", name);
    buf_text(out, "}\n</tool_call>");
}

static void calls_write_llama(rng *r, buf *out, const char *name, json_t *arguments)
{
    buf_printf(out, "{\"name\": \"%s\", \"parameters\": ", name);
    calls_json(out, arguments, rng_below(r, 2) ? JSON_ENSURE_ASCII : 0);
    buf_byte(out, '}');
}

static void calls_write_mistral(rng *r, buf *out, const char *name, json_t *arguments)
{
    buf_printf(out, "[TOOL_CALLS]%s%s[ARGS]", name, rng_below(r, 2) ? "[CALL_ID]abcdefghi" : "");
    calls_json(out, arguments, 0);
}

static bool calls_is_container(json_t *value)
{
    return json_is_object(value) || json_is_array(value);
}

static void calls_write_qwen3_coder(rng *r, buf *out, const char *name, json_t *arguments)
{
    const char *key;
    json_t *value;
    buf_printf(out, "<tool_call>\n<function=%s>\n", name);
    json_object_foreach(arguments, key, value)
    {
        buf_printf(out, "<parameter=%s>\n", key);
        if (json_is_string(value))
            buf_append(out, json_string_value(value), json_string_length(value));
        else if (!calls_is_container(value) && rng_below(r, 2) && !json_is_number(value))
            buf_text(out, json_is_true(value) ? "True" : json_is_false(value) ? "False" : "None");
        else
            calls_json(out, value, 0);
        buf_text(out, "\n</parameter>\n");
    }
    buf_text(out, "</function>\n</tool_call>");
}

static void calls_python(rng *r, buf *out, json_t *value);

static void calls_python_string(rng *r, buf *out, json_t *value)
{
    char quote = rng_below(r, 2) ? '"' : '\'';
    const char *text = json_string_value(value);
    buf_byte(out, quote);
    for (size_t i = 0; i < json_string_length(value); i++) {
        if (text[i] == quote || text[i] == '\\')
            buf_byte(out, '\\');
        if (text[i] == '\n' && rng_below(r, 2))
            buf_text(out, "\\n");
        else if (text[i] > ' ' && text[i] < 127 && text[i] != quote && text[i] != '\\' && !rng_below(r, 20))
            buf_printf(out, rng_below(r, 2) ? "\\x%02x" : "\\u%04x", (unsigned)text[i]);
        else
            buf_byte(out, text[i]);
    }
    buf_byte(out, quote);
}

static void calls_python(rng *r, buf *out, json_t *value)
{
    const char *key, *comma = "";
    json_t *item;
    size_t i;
    bool tuple = json_array_size(value) > 1 && rng_below(r, 3) == 0;
    if (json_is_string(value)) {
        calls_python_string(r, out, value);
    } else if (json_is_object(value)) {
        buf_byte(out, '{');
        json_object_foreach(value, key, item)
        {
            buf_printf(out, "%s\"%s\": ", comma, key);
            calls_python(r, out, item);
            comma = ", ";
        }
        buf_byte(out, '}');
    } else if (json_is_array(value)) {
        buf_byte(out, tuple ? '(' : '[');
        json_array_foreach(value, i, item)
        {
            buf_text(out, i ? ", " : "");
            calls_python(r, out, item);
        }
        buf_byte(out, tuple ? ')' : ']');
    } else if (json_is_number(value)) {
        calls_json(out, value, 0);
    } else {
        buf_text(out, json_is_true(value) ? "True" : json_is_false(value) ? "False" : "None");
    }
}

static void calls_write_pythonic(rng *r, buf *out, const char *name, json_t *arguments)
{
    const char *key, *comma = "";
    json_t *value;
    buf_printf(out, "%s(", name);
    json_object_foreach(arguments, key, value)
    {
        buf_printf(out, "%s%s=", comma, key);
        calls_python(r, out, value);
        comma = ", ";
    }
    buf_byte(out, ')');
}

static void calls_gemma_value(buf *out, json_t *value, const char *quote)
{
    const char *key, *comma = "";
    json_t *item;
    size_t i;
    if (json_is_string(value)) {
        buf_text(out, quote);
        buf_append(out, json_string_value(value), json_string_length(value));
        buf_text(out, quote);
    } else if (json_is_object(value)) {
        buf_byte(out, '{');
        json_object_foreach(value, key, item)
        {
            bool quoted = key[0] != 'k';
            buf_printf(out, "%s%s%s%s:", comma, quoted ? quote : "", key, quoted ? quote : "");
            calls_gemma_value(out, item, quote);
            comma = ",";
        }
        buf_byte(out, '}');
    } else if (json_is_array(value)) {
        buf_byte(out, '[');
        json_array_foreach(value, i, item)
        {
            buf_text(out, i ? "," : "");
            calls_gemma_value(out, item, quote);
        }
        buf_byte(out, ']');
    } else {
        calls_json(out, value, 0);
    }
}

static void calls_write_gemma4(rng *r, buf *out, const char *name, json_t *arguments)
{
    (void)r;
    buf_printf(out, "<|tool_call>call:%s", name);
    calls_gemma_value(out, arguments, "<|\"|>");
    buf_text(out, "<tool_call|>");
}

static void calls_write_function_gemma(rng *r, buf *out, const char *name, json_t *arguments)
{
    (void)r;
    buf_printf(out, "<start_function_call>call:%s", name);
    calls_gemma_value(out, arguments, "<escape>");
    buf_text(out, "<end_function_call>");
}

typedef struct {
    const char *family, *before, *between, *after; /* all calls */
    void (*write)(rng *r, buf *out, const char *name, json_t *arguments);
    bool text_before; /* calls may stand behind text */
} calls_syntax;

static void calls_write_old_mistral(rng *r, buf *out, const char *name, json_t *arguments)
{
    buf_printf(out, "{\"name\": \"%s\", \"arguments\": ", name);
    calls_json(out, arguments, 0);
    buf_text(out, rng_below(r, 2) ? ", \"id\": \"abcdefghi\"}" : "}");
}

static const calls_syntax calls_syntaxes[] = {
    {"hermes", "", "\n", "", calls_write_hermes, true},
    {"qwen3_coder", "", "\n", "", calls_write_qwen3_coder, true},
    {"llama3_json", "", "; ", "", calls_write_llama, false},
    {"llama3_json", "<|python_tag|>", "", "", calls_write_llama, true},
    {"pythonic", "[", ", ", "]", calls_write_pythonic, false},
    {"pythonic", "<|tool_call_start|>[", ", ", "]<|tool_call_end|>", calls_write_pythonic, true},
    {"mistral", "", "", "", calls_write_mistral, true},
    {"mistral", "[TOOL_CALLS][", ", ", "]", calls_write_old_mistral, true},
    {"gemma4", "", "", "", calls_write_gemma4, true},
    {"function_gemma", "", "\n", "", calls_write_function_gemma, true},
};
enum { CALLS_SYNTAXES = sizeof calls_syntaxes / sizeof *calls_syntaxes };

#endif
