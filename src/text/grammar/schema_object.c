/* text/grammar/schema_object.c: objects and arrays. Properties come in the order of `properties`, the required ones
 * that it does not name after them, others at the end. Others are generated where the schema speaks of them, by
 * additionalProperties or patternProperties, or names no property at all. */
#include "text/grammar/schema.h"

#include <stdlib.h>

typedef struct {
    schema_reader *r;
    const schema_set *flat;
    json_t *names; /* an object: name to whether it is required */
    const char *patterns[PATTERNS_MAX];
    const json_t *pattern_owner[PATTERNS_MAX];
    const json_t *pattern_schema[PATTERNS_MAX];
    uint32_t pattern_count;
    bool speaks_of_others; /* additionalProperties is given, and patterns or not */
} object_reader;

static bool collect_names(object_reader *o)
{
    const char *key;
    size_t k;
    json_t *value;
    for (uint32_t i = 0; i < o->flat->count; i++)
        json_object_foreach(json_object_get(o->flat->schemas[i], "properties"), key,
                            value) if (!json_object_get(o->names, key))
            json_object_set_new_nocheck(o->names, key, json_false());
    for (uint32_t i = 0; i < o->flat->count; i++)
        json_array_foreach(json_object_get(o->flat->schemas[i], "required"), k, value)
        {
            if (!json_is_string(value)) {
                builder_fail(o->r->b, ERR_INVALID, "json schema: \"required\" must list strings");
                return false;
            }
            json_object_set_new_nocheck(o->names, json_string_value(value), json_true());
        }
    return builder_work(o->r->b, json_object_size(o->names) * 8);
}

static bool collect_patterns(object_reader *o)
{
    const char *pattern;
    json_t *schema;
    for (uint32_t i = 0; i < o->flat->count; i++) {
        const json_t *owner = o->flat->schemas[i];
        o->speaks_of_others |=
            json_object_get(owner, "additionalProperties") || json_object_get(owner, "unevaluatedProperties");
        json_object_foreach(json_object_get(owner, "patternProperties"), pattern, schema)
        {
            if (o->pattern_count == PATTERNS_MAX) {
                builder_fail(o->r->b, ERR_UNSUPPORTED,
                             "json schema: \"patternProperties\" with over %d patterns is "
                             "not supported",
                             PATTERNS_MAX);
                return false;
            }
            o->patterns[o->pattern_count] = pattern;
            o->pattern_owner[o->pattern_count] = owner;
            o->pattern_schema[o->pattern_count++] = schema;
        }
    }
    return true;
}

/* Has a schema that `at` brought in, or itself, spoken of this property? */
static bool is_evaluated(object_reader *o, uint32_t at, const char *name, uint32_t matched)
{
    for (uint32_t i = 0; i < o->flat->count; i++) {
        const json_t *schema = o->flat->schemas[i];
        if (!set_below(o->flat, i, at))
            continue;
        if (json_object_get(schema, "additionalProperties") ||
            (i != at && json_object_get(schema, "unevaluatedProperties")) ||
            (name && json_object_get(json_object_get(schema, "properties"), name)))
            return true;
        for (uint32_t p = 0; p < o->pattern_count; p++)
            if (o->pattern_owner[p] == schema && (matched >> p & 1))
                return true;
    }
    return false;
}

/* What holds for the value of a property; bit i of `matched`: its name has pattern i. */
static bool value_set(object_reader *o, const char *name, uint32_t matched, schema_set *set)
{
    for (uint32_t i = 0; i < o->flat->count; i++) {
        const json_t *schema = o->flat->schemas[i], *other = json_object_get(schema, "additionalProperties");
        const json_t *own = name ? json_object_get(json_object_get(schema, "properties"), name) : NULL;
        bool covered = own != NULL;
        if (own && !set_add(o->r, set, own))
            return false;
        for (uint32_t p = 0; p < o->pattern_count; p++)
            if (o->pattern_owner[p] == schema && (matched >> p & 1)) {
                covered = true;
                if (!set_add(o->r, set, o->pattern_schema[p]))
                    return false;
            }
        if (!covered && other && !set_add(o->r, set, other))
            return false;
        const json_t *rest = json_object_get(schema, "unevaluatedProperties");
        if (rest && !is_evaluated(o, i, name, matched) && !set_add(o->r, set, rest))
            return false;
    }
    return true;
}

static grammar_rule set_or_any(schema_reader *r, const schema_set *set)
{
    return set->count ? set_rule(r, set) : grammar_json_any(r->b, false);
}

/* propertyNames of all schemas. */
static bool name_allowed(object_reader *o, const char *name, bool *allowed)
{
    json_t *text = json_string_nocheck(name);
    *allowed = true;
    for (uint32_t i = 0; i < o->flat->count; i++) {
        const json_t *names = json_object_get(o->flat->schemas[i], "propertyNames");
        *allowed = *allowed && (!names || value_valid(o->r, text, names));
    }
    json_decref(text);
    return !o->r->b->failed;
}

static grammar_rule quoted(grammar_builder *b, const char *name)
{
    json_t *text = json_string_nocheck(name);
    char *dumped = json_dumps(text, JSON_ENCODE_ANY);
    grammar_rule rule = dumped ? builder_string(b, dumped) : 0;
    free(dumped);
    json_decref(text);
    return rule;
}

static grammar_rule named_member(object_reader *o, const char *name)
{
    grammar_builder *b = o->r->b;
    schema_set set = {0};
    uint32_t matched = 0;
    bool allowed;
    for (uint32_t p = 0; p < o->pattern_count; p++)
        matched |= (uint32_t)pattern_found(o->r, span_from(o->patterns[p]), span_from(name)) << p;
    if (b->failed || !value_set(o, name, matched, &set) || !name_allowed(o, name, &allowed))
        return 0;
    if (!allowed)
        return builder_never(b);
    grammar_rule parts[] = {quoted(b, name), json_colon(b), set_or_any(o->r, &set)};
    return grammar_sequence(b, parts, 3);
}

/* ---- the others ---- */

/* Names that are not listed, quoted; with patterns in ASCII only, where all dialects agree. */
static bool other_names(object_reader *o, automaton *out)
{
    grammar_builder *b = o->r->b;
    automaton any = {0}, listed = {0};
    grammar_rule name = regex_rule(b, span_from(o->pattern_count ? "\"[ !#-\\[\\]-~]*\"" : "\"[^\"\\\\\\x00-\\x1f]*\""),
                                   SPELL_RAW, PATTERN_WHOLE, "json"),
                 list = builder_never(b);
    const char *key;
    json_t *required;
    uint32_t count = 0;
    grammar_rule *names = malloc((json_object_size(o->names) + 1) * sizeof *names);
    json_object_foreach(o->names, key, required) if (names) names[count++] = quoted(b, key);
    if (names && count)
        list = grammar_choice(b, names, count);
    free(names);
    bool ok = regular_of(b, name, &any) && regular_of(b, list, &listed) &&
              regular_combine(b, &any, &listed, REGULAR_MINUS, out);
    automaton_free(&any);
    automaton_free(&listed);
    return ok;
}

static bool split_names(object_reader *o, automaton *names, uint32_t matched)
{
    grammar_builder *b = o->r->b;
    bool ok = true;
    for (uint32_t p = 0; ok && p < o->pattern_count; p++) {
        automaton with = {0}, out = {0};
        grammar_rule quote = builder_string(b, "\"");
        grammar_rule pattern = regex_rule(b, span_from(o->patterns[p]), SPELL_JSON, PATTERN_FOUND, "patternProperties");
        grammar_rule parts[] = {quote, pattern, quote};
        ok = regular_of(b, grammar_sequence(b, parts, 3), &with) &&
             regular_combine(b, names, &with, matched >> p & 1 ? REGULAR_AND : REGULAR_MINUS, &out);
        automaton_free(&with);
        automaton_free(names);
        *names = out;
    }
    return ok;
}

static grammar_rule other_member(object_reader *o, uint32_t matched)
{
    grammar_builder *b = o->r->b;
    schema_set set = {0};
    automaton names = {0};
    if (!value_set(o, NULL, matched, &set))
        return 0;
    for (uint32_t i = 0; i < set.count; i++)
        if (json_is_false(set.schemas[i]))
            return builder_never(b);
    if (!other_names(o, &names) || !split_names(o, &names, matched)) {
        automaton_free(&names);
        return 0;
    }
    grammar_rule parts[] = {builder_automaton(b, &names), json_colon(b), set_or_any(o->r, &set)};
    return grammar_sequence(b, parts, 3);
}

static grammar_rule others(object_reader *o)
{
    grammar_rule ways[1 << PATTERNS_MAX];
    uint32_t count = 0;
    bool alone = json_object_size(o->names) == 0;
    for (uint32_t i = 0; i < o->flat->count; i++)
        if (json_object_get(o->flat->schemas[i], "propertyNames") &&
            (alone || o->speaks_of_others || o->pattern_count)) {
            builder_fail(o->r->b, ERR_UNSUPPORTED,
                         "json schema: \"propertyNames\" is supported where only listed properties may be");
            return 0;
        }
    for (uint32_t matched = 0; matched < 1u << o->pattern_count; matched++)
        if (matched || o->speaks_of_others || (alone && !o->pattern_count))
            ways[count++] = other_member(o, matched);
    return o->r->b->failed ? 0 : grammar_choice(o->r->b, ways, count);
}

/* ---- how many ---- */

typedef struct {
    uint32_t listed, required, min, max;
    bool others; /* some may come */
} property_counts;

static bool count_properties(object_reader *o, grammar_rule other, property_counts *c)
{
    const char *key;
    json_t *required;
    *c = (property_counts){.max = UINT32_MAX, .others = other != o->r->b->never};
    json_object_foreach(o->names, key, required)
    {
        c->listed++;
        c->required += json_is_true(required);
    }
    flat_count(o->r, o->flat, "minProperties", true, &c->min);
    flat_count(o->r, o->flat, "maxProperties", false, &c->max);
    bool fine = c->min <= c->required || (c->min == 1 && c->required == 0) || (c->min >= c->listed && !c->others);
    if (!fine)
        builder_fail(o->r->b, ERR_UNSUPPORTED,
                     "json schema: \"minProperties\" is supported up to the number of "
                     "required properties, or 1");
    else if (c->max < c->listed && c->max > c->required)
        builder_fail(o->r->b, ERR_UNSUPPORTED,
                     "json schema: \"maxProperties\" below the number of listed properties "
                     "is not supported");
    return !o->r->b->failed;
}

static grammar_rule object_rule(object_reader *o, grammar_rule other, const property_counts *c)
{
    grammar_builder *b = o->r->b;
    const char *key;
    json_t *required;
    uint32_t count = 0;
    if (c->max < c->required || (c->min > c->listed && !c->others))
        return builder_never(b);
    bool all = !c->others && c->min == c->listed && c->min > c->required; /* the optional ones too */
    grammar_rule *kids = malloc((c->listed + 1) * sizeof *kids);
    if (!kids)
        return builder_fail(b, ERR_MEMORY, "grammar: out of memory");
    json_object_foreach(o->names, key, required)
    {
        bool needed = json_is_true(required) || all;
        if (needed || c->max > c->required)
            kids[count++] = named_member(o, key) | (needed ? 0 : LIST_OPTIONAL);
    }
    uint32_t room = c->max == UINT32_MAX ? UINT32_MAX : c->max > c->listed ? c->max - c->listed : 0;
    if (c->others && room) {
        grammar_rule more =
            grammar_repeat(b, builder_pair(b, json_comma(b), other), 0, room == UINT32_MAX ? room : room - 1);
        kids[count++] = builder_pair(b, other, more) | LIST_OPTIONAL;
    }
    grammar_rule inside = builder_list(b, kids, count, json_comma(b), c->min > 0);
    free(kids);
    if (count == 0)
        inside = c->min > 0 ? builder_never(b) : builder_empty(b);
    return json_object_of(b, inside);
}

grammar_rule schema_object(schema_reader *r, const schema_set *flat)
{
    object_reader o = {.r = r, .flat = flat, .names = json_object()};
    property_counts counts;
    grammar_rule rule = 0, other;
    builder_never(r->b);
    if (o.names && collect_names(&o) && collect_patterns(&o) && (other = others(&o)) &&
        count_properties(&o, other, &counts))
        rule = object_rule(&o, other, &counts);
    json_decref(o.names);
    return r->b->failed ? 0 : rule;
}

/* ---- arrays ---- */

enum { PREFIX_MAX = 200 };

static bool item_evaluated(const schema_set *flat, uint32_t at, size_t index)
{
    for (uint32_t i = 0; i < flat->count; i++) {
        const json_t *schema = flat->schemas[i];
        if (set_below(flat, i, at) &&
            (json_object_get(schema, "items") || (i != at && json_object_get(schema, "unevaluatedItems")) ||
             index < json_array_size(json_object_get(schema, "prefixItems"))))
            return true;
    }
    return false;
}

static bool item_set(schema_reader *r, const schema_set *flat, size_t index, schema_set *set)
{
    for (uint32_t i = 0; i < flat->count; i++) {
        const json_t *prefix = json_object_get(flat->schemas[i], "prefixItems"),
                     *items = json_object_get(flat->schemas[i], "items");
        const json_t *own = index < json_array_size(prefix) ? json_array_get(prefix, index) : items;
        if (own && !set_add(r, set, own))
            return false;
        const json_t *rest = json_object_get(flat->schemas[i], "unevaluatedItems");
        if (rest && !item_evaluated(flat, i, index) && !set_add(r, set, rest))
            return false;
    }
    return true;
}

static grammar_rule item_rule(schema_reader *r, const schema_set *flat, size_t index)
{
    schema_set set = {0};
    return item_set(r, flat, index, &set) ? set_or_any(r, &set) : 0;
}

/* Items from `index` on, the rest after the prefix as one repetition. */
grammar_rule schema_array(schema_reader *r, const schema_set *flat)
{
    grammar_builder *b = r->b;
    uint32_t min = 0, max = UINT32_MAX;
    size_t prefix = 0;
    flat_count(r, flat, "minItems", true, &min);
    flat_count(r, flat, "maxItems", false, &max);
    for (uint32_t i = 0; i < flat->count; i++) {
        size_t size = json_array_size(json_object_get(flat->schemas[i], "prefixItems"));
        prefix = size > prefix ? size : prefix;
    }
    if (prefix > PREFIX_MAX)
        return builder_fail(b, ERR_LIMIT, "json schema: \"prefixItems\" has over %d entries", PREFIX_MAX);
    if (min > max)
        return builder_never(b);
    grammar_rule tail = builder_empty(b), comma = json_comma(b);
    if (max > prefix) {
        grammar_rule item = item_rule(r, flat, prefix);
        uint32_t least = min > prefix ? min - (uint32_t)prefix : 0;
        uint32_t most = max == UINT32_MAX ? max : max - (uint32_t)prefix;
        if (prefix) {
            tail = grammar_repeat(b, builder_pair(b, comma, item), least, most);
        } else {
            grammar_rule more = grammar_repeat(b, builder_pair(b, comma, item), least ? least - 1 : 0,
                                               most == UINT32_MAX ? most : most - 1);
            tail = builder_pair(b, item, more);
            tail = least ? tail : builder_optional(b, tail);
        }
    }
    for (size_t i = prefix < max ? prefix : max; i-- > 0;) {
        grammar_rule item = item_rule(r, flat, i);
        tail = i ? grammar_sequence(b, (grammar_rule[]){comma, item, tail}, 3) : builder_pair(b, item, tail);
        tail = i < min ? tail : builder_optional(b, tail);
    }
    return json_array_of(b, tail);
}
