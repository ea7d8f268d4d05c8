/* text/grammar/schema_value.c: does a value that a schema lists satisfy the other schemas of its place? */
#include "text/grammar/schema.h"

#include <math.h>

uint32_t value_type(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return TYPE_OBJECT;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_INTEGER:
        return TYPE_INTEGER;
    case JSON_REAL:
        return floor(json_real_value(value)) == json_real_value(value) ? TYPE_INTEGER : TYPE_FRACTION;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_NULL:
        break;
    }
    return TYPE_NULL;
}

bool value_equal(const json_t *x, const json_t *y)
{
    if (json_is_number(x) && json_is_number(y))
        return json_is_integer(x) && json_is_integer(y) ? json_integer_value(x) == json_integer_value(y)
                                                        : json_number_value(x) == json_number_value(y);
    if (json_typeof(x) != json_typeof(y))
        return false;
    if (json_is_array(x)) {
        size_t i, count = json_array_size(x);
        bool same = count == json_array_size(y);
        for (i = 0; same && i < count; i++)
            same = value_equal(json_array_get(x, i), json_array_get(y, i));
        return same;
    }
    if (json_is_object(x)) {
        const char *key;
        json_t *item;
        bool same = json_object_size(x) == json_object_size(y);
        json_object_foreach((json_t *)x, key, item)
        {
            const json_t *other = json_object_get(y, key);
            same = same && other && value_equal(item, other);
        }
        return same;
    }
    return json_equal(x, y);
}

bool pattern_found(schema_reader *r, span pattern, span text)
{
    automaton a;
    bool found = false;
    if (regular_of(r->b, regex_rule(r->b, pattern, SPELL_RAW, PATTERN_FOUND, "pattern"), &a)) {
        found = automaton_accepts(&a, text);
        automaton_free(&a);
    }
    return found;
}

static size_t characters(const json_t *text)
{
    size_t count = 0;
    const char *data = json_string_value(text);
    for (size_t i = 0; i < json_string_length(text); i++)
        count += ((unsigned char)data[i] & 0xC0) != 0x80;
    return count;
}

uint32_t schema_types_named(const json_t *name)
{
    static const struct {
        const char *name;
        uint32_t types;
    } names[] = {{"null", TYPE_NULL},
                 {"boolean", TYPE_BOOLEAN},
                 {"integer", TYPE_INTEGER},
                 {"string", TYPE_STRING},
                 {"array", TYPE_ARRAY},
                 {"object", TYPE_OBJECT},
                 {"number", TYPE_INTEGER | TYPE_FRACTION}};
    for (size_t i = 0; json_is_string(name) && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, json_string_value(name)) == 0)
            return names[i].types;
    return 0;
}

static bool type_named(const json_t *value, const json_t *type)
{
    return (schema_types_named(type) & value_type(value)) != 0;
}

static bool type_valid(const json_t *value, const json_t *type)
{
    size_t i;
    json_t *one;
    bool ok = !json_is_array(type) && type_named(value, type);
    json_array_foreach(type, i, one) ok = ok || type_named(value, one);
    return ok;
}

/* Counts: `name` sets a bound for `size`. */
static bool count_valid(const json_t *schema, const char *least, const char *most, size_t size)
{
    const json_t *min = json_object_get(schema, least), *max = json_object_get(schema, most);
    return (!min || (double)size >= json_number_value(min)) && (!max || (double)size <= json_number_value(max));
}

static bool number_valid(const json_t *value, const json_t *schema)
{
    double x = json_number_value(value);
    const json_t *low = json_object_get(schema, "minimum"), *high = json_object_get(schema, "maximum");
    const json_t *above = json_object_get(schema, "exclusiveMinimum"),
                 *below = json_object_get(schema, "exclusiveMaximum"),
                 *multiple = json_object_get(schema, "multipleOf");
    return (!low || x >= json_number_value(low)) && (!high || x <= json_number_value(high)) &&
           (!above || x > json_number_value(above)) && (!below || x < json_number_value(below)) &&
           (!multiple || fmod(x, json_number_value(multiple)) == 0);
}

static bool array_valid(schema_reader *r, const json_t *value, const json_t *schema)
{
    const json_t *prefix = json_object_get(schema, "prefixItems"), *items = json_object_get(schema, "items");
    size_t i;
    json_t *item;
    bool ok = count_valid(schema, "minItems", "maxItems", json_array_size(value));
    json_array_foreach(value, i, item)
    {
        const json_t *at = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        ok = ok && (!at || value_valid(r, item, at));
    }
    return ok;
}

static bool member_valid(schema_reader *r, const char *key, const json_t *item, const json_t *schema)
{
    const json_t *own = json_object_get(json_object_get(schema, "properties"), key),
                 *other = json_object_get(schema, "additionalProperties");
    const char *pattern;
    json_t *by_pattern;
    bool matched = own != NULL, ok = !own || value_valid(r, item, own);
    json_object_foreach(json_object_get(schema, "patternProperties"), pattern, by_pattern)
    {
        if (!ok || !pattern_found(r, span_from(pattern), span_from(key)))
            continue;
        matched = true;
        ok = value_valid(r, item, by_pattern);
    }
    return ok && (matched || !other || value_valid(r, item, other));
}

static bool object_valid(schema_reader *r, const json_t *value, const json_t *schema)
{
    const json_t *names = json_object_get(schema, "propertyNames");
    const char *key;
    size_t i;
    json_t *item;
    bool ok = count_valid(schema, "minProperties", "maxProperties", json_object_size(value));
    json_array_foreach(json_object_get(schema, "required"), i, item) ok =
        ok && json_is_string(item) && json_object_get(value, json_string_value(item));
    json_object_foreach((json_t *)value, key, item)
    {
        json_t *name = ok && names ? json_string(key) : NULL;
        ok = ok && member_valid(r, key, item, schema) && (!name || value_valid(r, name, names));
        json_decref(name);
    }
    return ok;
}

static uint32_t branches_valid(schema_reader *r, const json_t *value, const json_t *branches)
{
    uint32_t count = 0;
    size_t i;
    json_t *branch;
    json_array_foreach(branches, i, branch) count += value_valid(r, value, branch);
    return count;
}

static bool applied_valid(schema_reader *r, const json_t *value, const json_t *schema)
{
    const json_t *ref = json_object_get(schema, "$ref"), *all = json_object_get(schema, "allOf"),
                 *any = json_object_get(schema, "anyOf"), *one = json_object_get(schema, "oneOf"),
                 *not = json_object_get(schema, "not");
    if (ref) {
        const json_t *target = schema_resolve(r, ref);
        if (!target || !value_valid(r, value, target))
            return false;
    }
    return (!all || branches_valid(r, value, all) == json_array_size(all)) &&
           (!any || branches_valid(r, value, any) > 0) && (!one || branches_valid(r, value, one) == 1) &&
           (!not || !value_valid(r, value, not ));
}

static bool listed(const json_t *value, const json_t *list)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) if (value_equal(value, item)) return true;
    return false;
}

static bool plain_valid(schema_reader *r, const json_t *value, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum"),
                 *only = json_object_get(schema, "const"), *pattern = json_object_get(schema, "pattern");
    if (!builder_work(r->b, json_array_size(list)))
        return false;
    if ((type && !type_valid(value, type)) || (list && !listed(value, list)) || (only && !value_equal(value, only)))
        return false;
    if (json_object_get(schema, "format") && json_is_string(value)) {
        builder_fail(r->b, ERR_UNSUPPORTED, "json schema: \"format\" is not supported beside enum and const");
        return false;
    }
    static const char *const later[] = {"unevaluatedProperties", "unevaluatedItems", "dependentRequired",
                                        "dependentSchemas"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (json_object_get(schema, later[i]) && (json_is_object(value) || json_is_array(value))) {
            builder_fail(r->b, ERR_UNSUPPORTED, "json schema: \"%s\" is not supported beside enum and const", later[i]);
            return false;
        }
    if (json_is_string(value))
        return count_valid(schema, "minLength", "maxLength", characters(value)) &&
               (!pattern || pattern_found(r, span_of(json_string_value(pattern), json_string_length(pattern)),
                                          span_of(json_string_value(value), json_string_length(value))));
    if (json_is_number(value))
        return number_valid(value, schema);
    if (json_is_array(value))
        return array_valid(r, value, schema);
    return !json_is_object(value) || object_valid(r, value, schema);
}

bool value_valid(schema_reader *r, const json_t *value, const json_t *schema)
{
    if (++r->depth > NESTING_MAX)
        builder_fail(r->b, ERR_LIMIT, "json schema: nested too deep");
    bool ok = !r->b->failed && schema_check(r, schema) && !json_is_false(schema) &&
              (json_is_true(schema) || (plain_valid(r, value, schema) && applied_valid(r, value, schema)));
    r->depth--;
    return ok;
}
