/* server/api/tool_grammar.c: see tool_grammar.h. One function a family: the rule of one call. What the schemas may hold
 * is text/grammar's to say; this file knows only what stands around the values. */
#include "server/api/tool_grammar.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/api/constraints.h"
#include "text/parse/value.h"

enum { PARTS_MAX = 512 };

typedef struct {
    grammar_builder *b;
    bool mistral_args;
    grammar_rule parts[PARTS_MAX]; /* of the sequence that is being put together; a stack */
    uint32_t count;
    bool overflow;
} drawing;

typedef struct {
    span name;
    json_t *schema; /* borrowed; NULL: any object */
} tool;

static void add(drawing *d, grammar_rule rule)
{
    if (d->count == PARTS_MAX)
        d->overflow = true;
    else
        d->parts[d->count++] = rule;
}

static void add_text(drawing *d, const char *text)
{
    add(d, grammar_text(d->b, span_from(text)));
}

static void add_span(drawing *d, span text)
{
    add(d, grammar_text(d->b, text));
}

static void add_json_string(drawing *d, span text)
{
    buf quoted = {0};
    value_string(text, &quoted);
    add_span(d, buf_span(&quoted));
    buf_free(&quoted);
}

/* The parts from `from` on become one rule. */
static grammar_rule take_sequence(drawing *d, uint32_t from)
{
    grammar_rule rule = grammar_sequence(d->b, d->parts + from, d->count - from);
    d->count = from;
    return rule;
}

static grammar_rule object_rule(drawing *d, const tool *t)
{
    return t->schema ? grammar_json_schema(d->b, t->schema) : grammar_json_any(d->b, true);
}

/* ---- families ---- */

static void draw_json_call(drawing *d, const tool *t, const char *arguments)
{
    add_text(d, "{\"name\": ");
    add_json_string(d, t->name);
    add_text(d, arguments);
    add(d, object_rule(d, t));
    add_text(d, "}");
}

static void draw_hermes(drawing *d, const tool *t)
{
    add_text(d, "<tool_call>\n");
    draw_json_call(d, t, ", \"arguments\": ");
    add_text(d, "\n</tool_call>");
}

static void draw_llama3_json(drawing *d, const tool *t)
{
    draw_json_call(d, t, ", \"parameters\": ");
}

static void draw_mistral(drawing *d, const tool *t)
{
    add_text(d, d->mistral_args ? "[TOOL_CALLS]" : "[TOOL_CALLS][");
    if (d->mistral_args) {
        add_span(d, t->name);
        add_text(d, "[ARGS]");
        add(d, object_rule(d, t));
        return;
    }
    draw_json_call(d, t, ", \"arguments\": ");
    add_text(d, "]");
}

/* A property's schema with the definitions that its references name. The caller decrefs. */
static json_t *with_definitions(json_t *property, json_t *root)
{
    static const char *const names[] = {"$defs", "definitions"};
    json_t *copy = json_is_object(property) ? json_copy(property) : json_object();
    for (size_t i = 0; i < 2; i++)
        if (json_object_get(root, names[i]) && !json_object_get(copy, names[i]))
            json_object_set(copy, names[i], json_object_get(root, names[i]));
    return copy;
}

static bool is_required(json_t *schema, const char *name)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(schema, "required"), i, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), name) == 0)
            return true;
    }
    return false;
}

/* Bare text up to `marker`, which it includes: one of the words of an enum, or any. */
static grammar_rule text_rule(drawing *d, json_t *property, const char *marker)
{
    json_t *words = json_object_get(property, "enum"), *word;
    uint32_t from = d->count;
    size_t i;
    if (!json_array_size(words))
        return grammar_until(d->b, span_from(marker));
    json_array_foreach(words, i, word) if (json_is_string(word))
        add_span(d, span_of(json_string_value(word), json_string_length(word)));
    grammar_rule choice = grammar_choice(d->b, d->parts + from, d->count - from);
    d->count = from;
    add(d, choice);
    add_text(d, marker);
    return take_sequence(d, from);
}

static void draw_qwen3_coder(drawing *d, const tool *t)
{
    static const char end[] = "\n</parameter>\n";
    const char *key;
    json_t *property;
    json_t *tools =
        json_pack("[{s:{s:s%, s:O?}}]", "function", "name", t->name.data, t->name.size, "parameters", t->schema);
    add_text(d, "<tool_call>\n<function=");
    add_span(d, t->name);
    add_text(d, ">\n");
    json_object_foreach(json_object_get(t->schema, "properties"), key, property)
    {
        uint32_t from = d->count;
        add_text(d, "<parameter=");
        add_text(d, key);
        add_text(d, ">\n");
        if (value_types(tools, t->name, span_from(key)) & ~(unsigned)VALUE_STRING) {
            json_t *own = with_definitions(property, t->schema);
            add(d, grammar_json_schema(d->b, own));
            json_decref(own);
            add_text(d, end);
        } else {
            add(d, text_rule(d, property, end));
        }
        grammar_rule whole = take_sequence(d, from);
        add(d, is_required(t->schema, key) ? whole : grammar_repeat(d->b, whole, 0, 1));
    }
    add_text(d, "</function>\n</tool_call>");
    json_decref(tools);
}

/* ---- families whose values are not JSON: scalars, and strings between their own quotes ---- */

/* The arguments one after the other, `first` chosen so that commas stand right: required ones come first. */
static void draw_arguments(drawing *d, const tool *t, const char *assign, const char *comma, const char *quote)
{
    bool some = false;
    for (int pass = 0; pass < 2; pass++) {
        const char *key;
        json_t *property;
        json_object_foreach(json_object_get(t->schema, "properties"), key, property)
        {
            bool required = is_required(t->schema, key);
            uint32_t from = d->count;
            if (required != (pass == 0) || (!required && !some)) /* an optional one needs something before its comma */
                continue;
            add_text(d, some ? comma : "");
            add_text(d, key);
            add_text(d, assign);
            const char *type = json_string_value(json_object_get(property, "type"));
            if (quote && type && strcmp(type, "string") == 0) {
                add_text(d, quote);
                add(d, text_rule(d, property, quote));
            } else {
                json_t *own = with_definitions(property, t->schema);
                add(d, grammar_json_schema(d->b, own));
                json_decref(own);
            }
            grammar_rule whole = take_sequence(d, from);
            add(d, required ? whole : grammar_repeat(d->b, whole, 0, 1));
            some = true;
        }
    }
}

static void draw_pythonic(drawing *d, const tool *t)
{
    add_text(d, "[");
    add_span(d, t->name);
    add_text(d, "(");
    draw_arguments(d, t, "=", ", ", NULL);
    add_text(d, ")]");
}

static void draw_gemma4(drawing *d, const tool *t)
{
    add_text(d, "<|tool_call>call:");
    add_span(d, t->name);
    add_text(d, "{");
    draw_arguments(d, t, ":", ",", "<|\"|>");
    add_text(d, "}<tool_call|>");
}

static void draw_function_gemma(drawing *d, const tool *t)
{
    add_text(d, "<start_function_call>call:");
    add_span(d, t->name);
    add_text(d, "{");
    draw_arguments(d, t, ":", ",", "<escape>");
    add_text(d, "}<end_function_call>");
}

static const struct {
    const char *family;
    void (*draw)(drawing *d, const tool *t);
    const char *between; /* two calls; NULL: one only */
} rows[] = {
    {"hermes", draw_hermes, "\n"},
    {"qwen3_coder", draw_qwen3_coder, "\n"},
    {"llama3_json", draw_llama3_json, NULL},
    {"mistral", draw_mistral, NULL},
    {"pythonic", draw_pythonic, NULL},
    {"gemma4", draw_gemma4, ""},
    {"function_gemma", draw_function_gemma, NULL},
};

/* ---- */

static tool tool_of(json_t *one)
{
    json_t *function = json_object_get(one, "function"), *name = json_object_get(function, "name");
    json_t *schema = json_object_get(function, "parameters");
    return (tool){span_of(json_string_value(name), json_string_length(name)), json_object_size(schema) ? schema : NULL};
}

/* Perhaps line ends (behind a thought), then calls. */
static grammar_rule draw_answer(drawing *d, json_t *tools, size_t row, bool one_call)
{
    grammar_rule calls[PARTS_MAX];
    uint32_t count = 0;
    size_t i;
    json_t *one;
    json_array_foreach(tools, i, one)
    {
        tool t = tool_of(one);
        if (count == PARTS_MAX) {
            d->overflow = true;
            break;
        }
        rows[row].draw(d, &t);
        calls[count++] = take_sequence(d, 0);
    }
    grammar_rule call = grammar_choice(d->b, calls, count);
    add(d, grammar_repeat(d->b, grammar_text(d->b, span_from("\n")), 0, 2));
    add(d, call);
    if (!one_call && rows[row].between) {
        grammar_rule more[] = {grammar_text(d->b, span_from(rows[row].between)), call};
        add(d, grammar_repeat(d->b, grammar_sequence(d->b, more, 2), 0, UINT32_MAX));
    }
    return take_sequence(d, 0);
}

status tool_grammar_make(grammar **out, const tool_grammar_ask *ask, error *err)
{
    size_t row = 0, count = sizeof rows / sizeof *rows;
    while (row < count && strcmp(rows[row].family, ask->family) != 0)
        row++;
    if (row == count)
        return error_set(err, ERR_UNSUPPORTED, "no grammar of calls in the syntax %s", ask->family);
    drawing *d = calloc(1, sizeof *d);
    status st = d ? grammar_builder_create(&d->b, err) : error_set(err, ERR_MEMORY, "out of memory");
    if (st == OK) {
        d->mistral_args = ask->mistral_args;
        grammar_rule root = draw_answer(d, ask->tools, row, ask->one_call);
        st = d->overflow ? error_set(err, ERR_LIMIT, "too many tools or parameters")
                         : grammar_finish(d->b, root, out, err);
        grammar_builder_destroy(d->b);
    }
    free(d);
    return st;
}

bool tool_grammar_build(exchange *x)
{
    tool_grammar_ask ask = {.family = x->plan.output.family,
                            .tools = x->plan.output.tools,
                            .one_call = x->plan.output.one_call,
                            .mistral_args = x->form && x->form->mistral_args};
    error err = {0};
    grammar *g = NULL;
    status st = tool_grammar_make(&g, &ask, &err);
    if (st)
        return api_fail(&x->error, st == ERR_MEMORY ? 500 : 400, "tools",
                        "tools: a call cannot be required with these parameters: %s", err.text);
    return constraints_set(x, g);
}
