/* text/parse/value.c: see value.h. */
#include "text/parse/value.h"

#include <stdio.h>

#include "text/parse/json_scan.h"

enum { SCHEMA_DEPTH = 8, SCHEMA_STEPS = 256 };

typedef struct {
    json_t *root; /* what $ref starts from */
    unsigned types;
    uint32_t steps; /* of the walk, which hostile schemas make long */
} type_walk;

static unsigned type_named(const char *name)
{
    static const struct {
        const char *name;
        unsigned type;
    } rows[] = {{"string", VALUE_STRING},   {"number", VALUE_NUMBER}, {"integer", VALUE_INTEGER},
                {"boolean", VALUE_BOOLEAN}, {"null", VALUE_NULL},     {"object", VALUE_OBJECT},
                {"array", VALUE_ARRAY}};
    for (size_t i = 0; name && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].type;
    return 0;
}

static unsigned type_of(json_t *value)
{
    return json_is_string(value)    ? VALUE_STRING
           : json_is_integer(value) ? VALUE_INTEGER
           : json_is_real(value)    ? VALUE_NUMBER
           : json_is_boolean(value) ? VALUE_BOOLEAN
           : json_is_null(value)    ? VALUE_NULL
           : json_is_object(value)  ? VALUE_OBJECT
                                    : VALUE_ARRAY;
}

/* "#/$defs/Name" from the root; NULL: not there. */
static json_t *resolve(json_t *root, const char *reference)
{
    json_t *at = root;
    if (reference[0] != '#')
        return NULL;
    for (const char *part = reference + 1; *part == '/' && at;) {
        char name[128];
        size_t size = strcspn(++part, "/");
        if (size >= sizeof name)
            return NULL;
        snprintf(name, sizeof name, "%.*s", (int)size, part);
        at = json_object_get(at, name);
        part += size;
    }
    return at;
}

static void collect(type_walk *w, json_t *schema, int depth)
{
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    json_t *type = json_object_get(schema, "type"), *item;
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    size_t i;
    if (depth == SCHEMA_DEPTH || ++w->steps > SCHEMA_STEPS)
        return;
    w->types |= type_named(json_string_value(type));
    json_array_foreach(type, i, item) w->types |= type_named(json_string_value(item));
    for (size_t k = 0; k < 3; k++)
        json_array_foreach(json_object_get(schema, unions[k]), i, item) collect(w, item, depth + 1);
    if (reference)
        collect(w, resolve(w->root, reference), depth + 1);
    if (w->types)
        return;
    if (json_object_get(schema, "const"))
        w->types |= type_of(json_object_get(schema, "const"));
    json_array_foreach(json_object_get(schema, "enum"), i, item) w->types |= type_of(item);
    if (!w->types && json_object_get(schema, "properties"))
        w->types = VALUE_OBJECT;
}

unsigned value_types(json_t *tools, span tool, span parameter)
{
    size_t i;
    json_t *one;
    json_array_foreach(tools, i, one)
    {
        json_t *function = json_object_get(one, "function"), *name = json_object_get(function, "name");
        if (!json_is_string(name) || !span_equal(span_of(json_string_value(name), json_string_length(name)), tool))
            continue;
        json_t *root = json_object_get(function, "parameters");
        type_walk w = {.root = root};
        collect(&w, json_object_getn(json_object_get(root, "properties"), parameter.data, parameter.size), 0);
        return w.types;
    }
    return 0;
}

/* ---- */

static span trimmed(span text)
{
    while (text.size && strchr(" \n\t\r", text.data[0]) && text.data[0])
        text = span_of(text.data + 1, text.size - 1);
    while (text.size && strchr(" \n\t\r", text.data[text.size - 1]) && text.data[text.size - 1])
        text.size--;
    return text;
}

static const char *spelled_constant(span text)
{
    static const char *const rows[][2] = {{"true", "true"},   {"True", "true"}, {"false", "false"},
                                          {"False", "false"}, {"null", "null"}, {"None", "null"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (span_is(text, rows[i][0]))
            return rows[i][1];
    return NULL;
}

static bool is_number(span text)
{
    return text.size && (text.data[0] == '-' || (text.data[0] >= '0' && text.data[0] <= '9')) && json_scan_whole(text);
}

/* An integer, also as "5.0": its digits; empty: it is none. */
static span integer_of(span text)
{
    size_t size = 0;
    if (!is_number(text))
        return (span){0};
    while (size < text.size && (text.data[size] == '-' || (text.data[size] >= '0' && text.data[size] <= '9')))
        size++;
    if (size < text.size && text.data[size] != '.')
        return (span){0};
    for (size_t i = size + 1; i < text.size; i++)
        if (text.data[i] != '0')
            return (span){0};
    return span_of(text.data, size);
}

static void append(buf *out, span text)
{
    buf_append(out, text.data, text.size);
}

/* A JSON object or array, control characters in its strings escaped. */
static bool append_container(span text, unsigned types, buf *out)
{
    char first = text.size ? text.data[0] : 0;
    if (!(first == '{' && (types & VALUE_OBJECT)) && !(first == '[' && (types & VALUE_ARRAY)))
        return false;
    if (!json_scan_whole(text))
        return false;
    json_scan scan = {0};
    for (size_t i = 0; i < text.size; i++) {
        json_scan_push(&scan, text.data[i]);
        buf_append(out, scan.out, scan.out_size);
    }
    return true;
}

bool value_literal(span text, buf *out)
{
    const char *constant = spelled_constant(text);
    if (constant)
        buf_text(out, constant);
    else if (is_number(text))
        append(out, text);
    return constant || is_number(text);
}

void value_typed(span text, unsigned types, buf *out)
{
    span core = trimmed(text);
    const char *constant = spelled_constant(core);
    bool null = constant && constant[0] == 'n';
    span integer = integer_of(core);
    if (constant && types & (null ? VALUE_NULL : VALUE_BOOLEAN))
        buf_text(out, constant);
    else if ((types & VALUE_INTEGER) && integer.size)
        append(out, integer);
    else if ((types & VALUE_NUMBER) && is_number(core))
        append(out, core);
    else if (!append_container(core, types, out))
        value_string(text, out);
}

void value_string(span text, buf *out)
{
    buf_byte(out, '"');
    for (size_t i = 0; i < text.size; i++) {
        json_scan inside = {.state = JSON_SCAN_IN_STRING};
        if (text.data[i] == '"' || text.data[i] == '\\')
            buf_byte(out, '\\');
        json_scan_push(&inside, text.data[i]);
        buf_append(out, inside.out, inside.out_size);
    }
    buf_byte(out, '"');
}
