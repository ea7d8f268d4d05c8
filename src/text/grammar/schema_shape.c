/* text/grammar/schema_shape.c: what a flat set of schemas allows: types, listed values, strings and numbers. */
#include "text/grammar/schema.h"

#include <math.h>
#include <stdlib.h>

static bool unsupported(schema_reader *r, const char *name, const char *why)
{
    builder_fail(r->b, ERR_UNSUPPORTED, "json schema: \"%s\" %s", name, why);
    return false;
}

/* ---- types ---- */

static bool read_type(schema_reader *r, const json_t *name, uint32_t *types)
{
    uint32_t named = schema_types_named(name);
    *types |= named;
    if (named)
        return true;
    builder_fail(r->b, ERR_INVALID, "json schema: \"type\" names no type of JSON");
    return false;
}

static bool read_types(schema_reader *r, const json_t *type, uint32_t *types)
{
    size_t i;
    json_t *name;
    *types = 0;
    if (!json_is_array(type))
        return read_type(r, type, types);
    json_array_foreach(type, i, name) if (!read_type(r, name, types)) return false;
    return true;
}

/* What a `not` takes away: nothing but a type, or listed values, can be taken away exactly. */
static bool take_not(schema_reader *r, const json_t *schema, uint32_t *types)
{
    const json_t *not = json_object_get(schema, "not"), *type = json_object_get(not, "type");
    if (!not || json_is_false(not ))
        return true;
    if (!schema_check(r, not ))
        return false;
    if (json_is_true(not ) || json_object_size(not ) == 0) {
        *types = 0;
        return true;
    }
    if (json_object_get(not, "enum") || json_object_get(not, "const"))
        return json_object_size(not ) == 1 || unsupported(r, "not", "is supported for a type or for listed values");
    uint32_t away;
    if (!type || json_object_size(not ) != 1)
        return unsupported(r, "not", "is supported for a type or for listed values");
    if (!read_types(r, type, &away))
        return false;
    *types &= ~away;
    return true;
}

bool flat_types(schema_reader *r, const schema_set *flat, uint32_t *types)
{
    *types = TYPE_ALL;
    for (uint32_t i = 0; i < flat->count; i++) {
        const json_t *type = json_object_get(flat->schemas[i], "type");
        uint32_t some;
        if (type && !read_types(r, type, &some))
            return false;
        if (type)
            *types &= some;
        if (!take_not(r, flat->schemas[i], types))
            return false;
    }
    return true;
}

/* ---- listed values ---- */

/* The set's schemas without what stands in the set by itself, and without `but`, which is known to hold. */
static json_t *plain_schemas(const schema_set *flat, const json_t *but)
{
    static const char *const branches[] = {"anyOf", "oneOf", "allOf", "$ref", "$id"};
    json_t *out = json_array();
    for (uint32_t i = 0; out && i < flat->count; i++) {
        json_t *schema = (json_t *)flat->schemas[i], *plain = json_is_object(schema) ? json_copy(schema) : NULL;
        for (size_t k = 0; plain && k < sizeof branches / sizeof *branches; k++)
            json_object_del(plain, branches[k]);
        if (but && json_object_get(plain, "enum") == but)
            json_object_del(plain, "enum");
        if (plain)
            json_array_append_new(out, plain);
        else
            json_array_append(out, schema);
    }
    return out;
}

static bool satisfies_each(schema_reader *r, const json_t *schemas, const json_t *value)
{
    size_t i;
    json_t *schema;
    bool ok = builder_work(r->b, 8);
    json_array_foreach(schemas, i, schema) ok = ok && value_valid(r, value, schema);
    return ok && !r->b->failed;
}

static bool satisfies_all(schema_reader *r, const schema_set *flat, const json_t *value)
{
    json_t *schemas = plain_schemas(flat, NULL);
    bool ok = satisfies_each(r, schemas, value);
    json_decref(schemas);
    return ok;
}

json_t *flat_values(schema_reader *r, const schema_set *flat, bool *listed)
{
    const json_t *list = NULL;
    json_t *one = NULL, *out = NULL, *value;
    size_t i;
    for (uint32_t k = 0; k < flat->count; k++) {
        json_t *only = json_object_get(flat->schemas[k], "const"), *some = json_object_get(flat->schemas[k], "enum");
        if (only && !one)
            one = json_pack("[O]", only);
        if (some && !list)
            list = some;
    }
    list = one ? one : list;
    *listed = list != NULL;
    if (list && (out = json_array())) {
        json_t *schemas = plain_schemas(flat, list);
        json_array_foreach(list, i, value) if (satisfies_each(r, schemas, value)) json_array_append(out, value);
        json_decref(schemas);
    }
    json_decref(one);
    return out;
}

/* ---- can two alternatives hold at once? ---- */

static bool disjoint_lists(const json_t *x, const json_t *y)
{
    size_t i, j;
    json_t *a, *b;
    json_array_foreach(x, i, a) json_array_foreach(y, j, b) if (value_equal(a, b)) return false;
    return true;
}

static bool is_required(const schema_set *flat, const char *name)
{
    size_t k;
    json_t *item;
    for (uint32_t i = 0; i < flat->count; i++)
        json_array_foreach(json_object_get(flat->schemas[i], "required"), k,
                           item) if (json_is_string(item) && strcmp(json_string_value(item), name) == 0) return true;
    return false;
}

static bool is_barred(const schema_set *flat, const char *name) /* by additionalProperties, or by false */
{
    for (uint32_t i = 0; i < flat->count; i++) {
        const json_t *schema = flat->schemas[i], *own = json_object_get(json_object_get(schema, "properties"), name);
        if (json_is_false(own) || (!own && json_is_false(json_object_get(schema, "additionalProperties")) &&
                                   !json_object_get(schema, "patternProperties")))
            return true;
    }
    return false;
}

static bool property_sets(schema_reader *r, const schema_set *flat, const char *name, schema_sets *out)
{
    schema_set set = {0};
    for (uint32_t i = 0; i < flat->count; i++) {
        const json_t *own = json_object_get(json_object_get(flat->schemas[i], "properties"), name);
        if (own && !set_add(r, &set, own))
            return false;
    }
    return set_expand(r, &set, out);
}

/* Both have this property, with values that cannot be the same. */
static bool disjoint_property(schema_reader *r, const schema_set *x, const schema_set *y, const char *name)
{
    schema_sets a = {0}, b = {0};
    bool apart = ++r->depth < 8 && property_sets(r, x, name, &a) && property_sets(r, y, name, &b);
    for (uint32_t i = 0; apart && i < a.count; i++)
        for (uint32_t j = 0; apart && j < b.count; j++)
            apart = flat_disjoint(r, &a.sets[i], &b.sets[j]);
    r->depth--;
    free(a.sets);
    free(b.sets);
    return apart;
}

static bool disjoint_objects(schema_reader *r, const schema_set *x, const schema_set *y)
{
    size_t k;
    json_t *item;
    for (uint32_t i = 0; i < x->count; i++)
        json_array_foreach(json_object_get(x->schemas[i], "required"), k, item)
        {
            const char *name = json_string_value(item);
            if (name && (is_barred(y, name) || (is_required(y, name) && disjoint_property(r, x, y, name))))
                return true;
        }
    for (uint32_t i = 0; i < y->count; i++)
        json_array_foreach(json_object_get(y->schemas[i], "required"), k,
                           item) if (json_is_string(item) && is_barred(x, json_string_value(item))) return true;
    return false;
}

static void number_bounds(const schema_set *flat, number_bound *low, number_bound *high)
{
    static const struct {
        const char *name;
        bool low, exclusive;
    } names[] = {{"minimum", true, false},
                 {"exclusiveMinimum", true, true},
                 {"maximum", false, false},
                 {"exclusiveMaximum", false, true}};
    *low = *high = (number_bound){0};
    for (uint32_t i = 0; i < flat->count; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            const json_t *value = json_object_get(flat->schemas[i], names[k].name);
            number_bound *bound = names[k].low ? low : high;
            double x = json_number_value(value);
            bool tighter = !bound->present || (names[k].low ? x > bound->value : x < bound->value) ||
                           (x == bound->value && names[k].exclusive);
            if (json_is_number(value) && tighter)
                *bound = (number_bound){true, names[k].exclusive, x};
        }
}

static bool disjoint_numbers(const schema_set *x, const schema_set *y)
{
    number_bound low[2], high[2];
    number_bounds(x, &low[0], &high[0]);
    number_bounds(y, &low[1], &high[1]);
    for (int i = 0; i < 2; i++)
        if (high[i].present && low[1 - i].present &&
            (high[i].value < low[1 - i].value ||
             (high[i].value == low[1 - i].value && (high[i].exclusive || low[1 - i].exclusive))))
            return true;
    return false;
}

static bool disjoint_lengths(schema_reader *r, const schema_set *x, const schema_set *y, const char *least,
                             const char *most)
{
    uint32_t min, max;
    return (flat_count(r, x, least, true, &min) && flat_count(r, y, most, false, &max) && min > max) ||
           (flat_count(r, y, least, true, &min) && flat_count(r, x, most, false, &max) && min > max);
}

bool flat_disjoint(schema_reader *r, const schema_set *x, const schema_set *y)
{
    uint32_t a, b;
    bool listed_x, listed_y;
    if (!builder_work(r->b, 100) || !flat_types(r, x, &a) || !flat_types(r, y, &b))
        return false;
    json_t *xs = flat_values(r, x, &listed_x), *ys = flat_values(r, y, &listed_y);
    bool apart = false;
    if (listed_x && listed_y) {
        apart = builder_work(r->b, json_array_size(xs) * json_array_size(ys) / 4) && disjoint_lists(xs, ys);
    } else if (listed_x || listed_y) {
        json_t *one = listed_x ? xs : ys, *value;
        size_t i;
        json_t *schemas = plain_schemas(listed_x ? y : x, NULL);
        apart = true;
        json_array_foreach(one, i, value) apart = apart && !satisfies_each(r, schemas, value);
        json_decref(schemas);
    } else {
        uint32_t common = a & b & ~(uint32_t)TYPE_FRACTION;
        if ((common & TYPE_OBJECT) && disjoint_objects(r, x, y))
            common &= ~(uint32_t)TYPE_OBJECT;
        if ((common & TYPE_INTEGER) && disjoint_numbers(x, y))
            common &= ~(uint32_t)TYPE_INTEGER;
        if ((common & TYPE_STRING) && disjoint_lengths(r, x, y, "minLength", "maxLength"))
            common &= ~(uint32_t)TYPE_STRING;
        if ((common & TYPE_ARRAY) && disjoint_lengths(r, x, y, "minItems", "maxItems"))
            common &= ~(uint32_t)TYPE_ARRAY;
        apart = common == 0;
    }
    json_decref(xs);
    json_decref(ys);
    return apart && !r->b->failed;
}

/* ---- strings ---- */

bool flat_count(schema_reader *r, const schema_set *flat, const char *name, bool largest, uint32_t *out)
{
    bool found = false;
    (void)r;
    for (uint32_t i = 0; i < flat->count; i++) {
        const json_t *value = json_object_get(flat->schemas[i], name);
        double x = json_number_value(value);
        uint32_t count = x > 1e9 ? 1000000000 : (uint32_t)x;
        if (!value)
            continue;
        if (!found || (largest ? count > *out : count < *out))
            *out = count;
        found = true;
    }
    return found;
}

static const char *pattern_of(const char *format)
{
#define DATE                                                                                                           \
    "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
#define CLOCK "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define LABEL "[a-zA-Z0-9]([a-zA-Z0-9-]{0,20}[a-zA-Z0-9])?"
    static const char *const formats[][2] = {
        {"date", "^" DATE "$"},
        {"time", "^" CLOCK "$"},
        {"date-time", "^" DATE "T" CLOCK "$"},
        {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
        {"ipv4", "^" BYTE "\\." BYTE "\\." BYTE "\\." BYTE "$"},
        {"email", "^[a-zA-Z0-9_+-]{1,30}(\\.[a-zA-Z0-9_+-]{1,30}){0,3}@" LABEL "(\\." LABEL "){1,3}$"},
        {"hostname", "^" LABEL "(\\." LABEL "){0,4}$"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i][0], format) == 0)
            return formats[i][1];
    return NULL;
}

/* Narrows *rule to what `more` has too. */
static bool narrow(schema_reader *r, grammar_rule *rule, grammar_rule more)
{
    automaton x = {0}, y = {0}, out;
    if (!*rule) {
        *rule = more;
        return more != 0;
    }
    bool ok =
        regular_of(r->b, *rule, &x) && regular_of(r->b, more, &y) && regular_combine(r->b, &x, &y, REGULAR_AND, &out);
    automaton_free(&x);
    automaton_free(&y);
    *rule = ok ? builder_automaton(r->b, &out) : 0;
    return *rule != 0;
}

/* Listed strings that a `not` takes away; spelled as they are generated where nothing else may be. */
static bool take_strings_away(schema_reader *r, const schema_set *flat, grammar_rule *content)
{
    grammar_rule away = 0;
    for (uint32_t i = 0; i < flat->count; i++) {
        const json_t *not = json_object_get(flat->schemas[i], "not"), *only = json_object_get(not, "const");
        json_t *list = only ? json_pack("[O]", only) : json_incref(json_object_get(not, "enum")), *value;
        size_t k;
        json_array_foreach(list, k, value) if (json_is_string(value))
        {
            char *text = json_dumps(value, JSON_ENCODE_ANY);
            grammar_rule one = text ? grammar_text(r->b, span_of(text + 1, strlen(text) - 2)) : 0;
            away = away ? builder_either(r->b, away, one) : one;
            free(text);
        }
        json_decref(list);
    }
    if (!away)
        return !r->b->failed;
    automaton x = {0}, y = {0}, out;
    if (!*content)
        *content = grammar_repeat(r->b, any_character(r->b, SPELL_JSON), 0, UINT32_MAX);
    bool ok = regular_of(r->b, *content, &x) && regular_of(r->b, away, &y) &&
              regular_combine(r->b, &x, &y, REGULAR_MINUS, &out);
    automaton_free(&x);
    automaton_free(&y);
    *content = ok ? builder_automaton(r->b, &out) : 0;
    return *content != 0;
}

static bool add_patterns(schema_reader *r, const schema_set *flat, grammar_rule *content)
{
    for (uint32_t i = 0; i < flat->count; i++) {
        const json_t *pattern = json_object_get(flat->schemas[i], "pattern"),
                     *format = json_object_get(flat->schemas[i], "format");
        const char *shape = format ? pattern_of(json_string_value(format)) : NULL;
        if (format && !shape) {
            builder_fail(r->b, ERR_UNSUPPORTED, "json schema: \"format\" \"%.60s\" is not supported",
                         json_string_value(format));
            return false;
        }
        if (shape && !narrow(r, content, regex_rule(r->b, span_from(shape), SPELL_JSON, PATTERN_FOUND, "format")))
            return false;
        if (pattern && !narrow(r, content,
                               regex_rule(r->b, span_of(json_string_value(pattern), json_string_length(pattern)),
                                          SPELL_JSON, PATTERN_FOUND, "pattern")))
            return false;
    }
    return true;
}

grammar_rule schema_string(schema_reader *r, const schema_set *flat)
{
    grammar_builder *b = r->b;
    uint32_t min = 0, max = UINT32_MAX;
    grammar_rule content = 0, quote = builder_string(b, "\"");
    bool bounded = flat_count(r, flat, "minLength", true, &min);
    bounded |= flat_count(r, flat, "maxLength", false, &max);
    if (!add_patterns(r, flat, &content) || !take_strings_away(r, flat, &content))
        return 0;
    if (!content && !bounded)
        return json_any_string(b);
    if (!content)
        content = grammar_repeat(b, json_character(b), min, max);
    else if (bounded && !narrow(r, &content, grammar_repeat(b, any_character(b, SPELL_JSON), min, max)))
        return 0;
    return grammar_sequence(b, (grammar_rule[]){quote, content, quote}, 3);
}

/* ---- numbers ---- */

static uint64_t common_multiple(uint64_t x, uint64_t y)
{
    uint64_t a = x, b = y;
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return x / a * y;
}

static bool multiple_of(schema_reader *r, const schema_set *flat, uint32_t *out)
{
    uint64_t all = 1;
    for (uint32_t i = 0; i < flat->count; i++) {
        const json_t *value = json_object_get(flat->schemas[i], "multipleOf");
        double x = json_number_value(value);
        if (!value)
            continue;
        if (!(x > 0)) {
            builder_fail(r->b, ERR_INVALID, "json schema: \"multipleOf\" must be above 0");
            return false;
        }
        if (x != floor(x) || x > MULTIPLE_MAX || (all = common_multiple(all, (uint64_t)x)) > MULTIPLE_MAX)
            return unsupported(r, "multipleOf", "is supported for integers up to 1000");
    }
    *out = (uint32_t)all;
    return true;
}

static bool has_key(const schema_set *flat, const char *name)
{
    for (uint32_t i = 0; i < flat->count; i++)
        if (json_object_get(flat->schemas[i], name))
            return true;
    return false;
}

/* The nearest integer inside; false: none of 64 bits. */
static bool integer_bound(number_bound bound, bool low, int64_t *out)
{
    double x = low ? ceil(bound.value) : floor(bound.value);
    if (bound.exclusive && x == bound.value)
        x += low ? 1 : -1;
    if (!bound.present || fabs(x) > 9e17)
        return false;
    *out = (int64_t)x;
    return true;
}

grammar_rule schema_number(schema_reader *r, const schema_set *flat, uint32_t types)
{
    number_bound low, high;
    integer_range range = {0};
    number_bounds(flat, &low, &high);
    if (!multiple_of(r, flat, &range.multiple_of))
        return 0;
    if (!(types & TYPE_FRACTION) || has_key(flat, "multipleOf")) {
        if (!low.present && !high.present && range.multiple_of == 1)
            return json_any_integer(r->b);
        range.has_low = integer_bound(low, true, &range.low);
        range.has_high = integer_bound(high, false, &range.high);
        if ((low.present && !range.has_low && low.value > 0) || (high.present && !range.has_high && high.value < 0))
            return builder_never(r->b);
        return integer_rule(r->b, &range);
    }
    if (!low.present && !high.present)
        return json_any_number(r->b);
    return number_rule(r->b, low, high);
}

/* ---- all of it ---- */

static bool not_lists(schema_reader *r, const schema_set *flat, uint32_t types) /* values that cannot be taken away */
{
    for (uint32_t i = 0; i < flat->count; i++) {
        const json_t *not = json_object_get(flat->schemas[i], "not"), *only = json_object_get(not, "const"),
                     *list = json_object_get(not, "enum");
        json_t *value;
        size_t k;
        uint32_t away = only ? value_type(only) : 0;
        json_array_foreach(list, k, value) away |= value_type(value);
        if (away & types & ~(uint32_t)(TYPE_STRING | TYPE_NULL | TYPE_BOOLEAN))
            return unsupported(r, "not", "is supported for listed strings, true, false and null, or beside an enum");
    }
    return true;
}

static grammar_rule constant(schema_reader *r, const schema_set *flat, json_t *value)
{
    grammar_rule rule = satisfies_all(r, flat, value) ? json_literal(r->b, value) : builder_never(r->b);
    json_decref(value);
    return r->b->failed ? 0 : rule;
}

static grammar_rule values_rule(schema_reader *r, const json_t *values)
{
    size_t i, count = json_array_size(values);
    grammar_rule *rules = malloc((count + 1) * sizeof *rules), rule;
    json_t *value;
    if (!rules)
        return builder_fail(r->b, ERR_MEMORY, "grammar: out of memory");
    json_array_foreach(values, i, value) rules[i] = json_literal(r->b, value);
    rule = grammar_choice(r->b, rules, (uint32_t)count);
    free(rules);
    return rule;
}

grammar_rule flat_rule(schema_reader *r, const schema_set *flat)
{
    uint32_t types, count = 0;
    bool listed, plain = true;
    grammar_rule ways[8];
    if (!flat_types(r, flat, &types))
        return 0;
    json_t *values = flat_values(r, flat, &listed);
    if (listed) {
        grammar_rule rule = r->b->failed ? 0 : values_rule(r, values);
        json_decref(values);
        return rule;
    }
    for (uint32_t i = 0; i < flat->count; i++)
        plain = plain && (json_is_true(flat->schemas[i]) || json_object_size(flat->schemas[i]) == 0);
    if (plain)
        return grammar_json_any(r->b, false);
    if (!not_lists(r, flat, types))
        return 0;
    if ((types & TYPE_FRACTION) && !(types & TYPE_INTEGER)) {
        unsupported(r, "not", "of integer is not supported");
        return 0;
    }
    if (types & TYPE_OBJECT)
        ways[count++] = schema_object(r, flat);
    if (types & TYPE_ARRAY)
        ways[count++] = schema_array(r, flat);
    if (types & TYPE_STRING)
        ways[count++] = schema_string(r, flat);
    if (types & TYPE_INTEGER)
        ways[count++] = schema_number(r, flat, types);
    if (types & TYPE_BOOLEAN) {
        ways[count++] = constant(r, flat, json_true());
        ways[count++] = constant(r, flat, json_false());
    }
    if (types & TYPE_NULL)
        ways[count++] = constant(r, flat, json_null());
    return r->b->failed ? 0 : grammar_choice(r->b, ways, count);
}
