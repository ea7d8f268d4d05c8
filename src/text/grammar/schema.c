/* text/grammar/schema.c: keywords, references, and sets of subschemas to flat alternatives. */
#include "text/grammar/schema.h"

#include <stdlib.h>

/* ---- keywords ---- */

typedef enum {
    KIND_ANY,
    KIND_OBJECT,
    KIND_ARRAY,
    KIND_STRING,
    KIND_NUMBER,
    KIND_COUNT,
    KIND_SCHEMA,
    KIND_FLAG,
    KIND_TYPE
} value_kind;

typedef struct {
    const char *name;
    value_kind kind;
} keyword;

static const keyword known[] = {
    {"type", KIND_TYPE},
    {"properties", KIND_OBJECT},
    {"patternProperties", KIND_OBJECT},
    {"additionalProperties", KIND_SCHEMA},
    {"required", KIND_ARRAY},
    {"minProperties", KIND_COUNT},
    {"maxProperties", KIND_COUNT},
    {"propertyNames", KIND_SCHEMA},
    {"unevaluatedProperties", KIND_SCHEMA},
    {"unevaluatedItems", KIND_SCHEMA},
    {"dependentRequired", KIND_OBJECT},
    {"dependentSchemas", KIND_OBJECT},
    {"items", KIND_SCHEMA},
    {"prefixItems", KIND_ARRAY},
    {"minItems", KIND_COUNT},
    {"maxItems", KIND_COUNT},
    {"minLength", KIND_COUNT},
    {"maxLength", KIND_COUNT},
    {"pattern", KIND_STRING},
    {"format", KIND_STRING},
    {"minimum", KIND_NUMBER},
    {"maximum", KIND_NUMBER},
    {"exclusiveMinimum", KIND_NUMBER},
    {"exclusiveMaximum", KIND_NUMBER},
    {"multipleOf", KIND_NUMBER},
    {"enum", KIND_ARRAY},
    {"const", KIND_ANY},
    {"anyOf", KIND_ARRAY},
    {"oneOf", KIND_ARRAY},
    {"allOf", KIND_ARRAY},
    {"not", KIND_SCHEMA},
    {"$ref", KIND_STRING},
    {"$defs", KIND_OBJECT},
    {"definitions", KIND_OBJECT},
    {"$anchor", KIND_STRING},
    {"$schema", KIND_STRING},
    {"$comment", KIND_STRING},
    {"title", KIND_ANY},
    {"description", KIND_ANY},
    {"default", KIND_ANY},
    {"examples", KIND_ANY},
    {"deprecated", KIND_ANY},
    {"readOnly", KIND_ANY},
    {"writeOnly", KIND_ANY},
    {"contentEncoding", KIND_ANY},
    {"contentMediaType", KIND_ANY},
    {"contentSchema", KIND_ANY},
};

static bool is_schema(const json_t *value)
{
    return json_is_object(value) || json_is_boolean(value);
}

static bool is_count(const json_t *value)
{
    return (json_is_integer(value) && json_integer_value(value) >= 0) ||
           (json_is_real(value) && json_real_value(value) >= 0 && json_real_value(value) < 1e15 &&
            json_real_value(value) == (double)(json_int_t)json_real_value(value));
}

static bool fits(value_kind kind, const json_t *value)
{
    switch (kind) {
    case KIND_OBJECT:
        return json_is_object(value);
    case KIND_ARRAY:
        return json_is_array(value);
    case KIND_STRING:
        return json_is_string(value);
    case KIND_NUMBER:
        return json_is_number(value);
    case KIND_COUNT:
        return is_count(value);
    case KIND_SCHEMA:
        return is_schema(value);
    case KIND_FLAG:
        return json_is_boolean(value);
    case KIND_TYPE:
        return json_is_string(value) || json_is_array(value);
    case KIND_ANY:
        break;
    }
    return true;
}

static bool bad_keyword(schema_reader *r, status code, const char *name, const char *why)
{
    builder_fail(r->b, code, "json schema: \"%.60s\" %s", name, why);
    return false;
}

/* What says nothing here although its keyword is not supported. */
static bool says_nothing(const json_t *schema, const char *name, const json_t *value)
{
    if (strcmp(name, "uniqueItems") == 0)
        return json_is_false(value) || (is_count(json_object_get(schema, "maxItems")) &&
                                        json_number_value(json_object_get(schema, "maxItems")) <= 1);
    if (strcmp(name, "minContains") == 0 || strcmp(name, "maxContains") == 0)
        return !json_object_get(schema, "contains");
    if (strcmp(name, "if") == 0)
        return !json_object_get(schema, "then") && !json_object_get(schema, "else");
    if (strcmp(name, "then") == 0 || strcmp(name, "else") == 0)
        return !json_object_get(schema, "if");
    return strncmp(name, "x-", 2) == 0;
}

static bool check_keyword(schema_reader *r, const json_t *schema, const char *name, const json_t *value)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return fits(known[i].kind, value) || bad_keyword(r, ERR_INVALID, name, "has a value of the wrong kind");
    if (strcmp(name, "$id") == 0)
        return (schema == r->root && json_is_string(value)) ||
               bad_keyword(r, ERR_UNSUPPORTED, name, "is supported at the root only");
    return says_nothing(schema, name, value) || bad_keyword(r, ERR_UNSUPPORTED, name, "is not supported");
}

bool schema_check(schema_reader *r, const json_t *schema)
{
    const char *name;
    json_t *value;
    if (!is_schema(schema)) {
        builder_fail(r->b, ERR_INVALID, "json schema: a schema must be an object, true or false");
        return false;
    }
    if (json_is_object(schema)) {
        json_object_foreach((json_t *)schema, name, value) if (!check_keyword(r, schema, name, value)) return false;
    }
    return builder_work(r->b, json_object_size(schema) * 8 + 1);
}

/* ---- references ---- */

static size_t unescape(const char *from, size_t size, char *to) /* one step of a JSON pointer in a URI fragment */
{
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        char c = from[i];
        if (c == '%' && i + 2 < size) {
            char hex[3] = {from[i + 1], from[i + 2], 0};
            c = (char)strtol(hex, NULL, 16);
            i += 2;
        }
        to[used++] = c;
    }
    size_t out = 0;
    for (size_t i = 0; i < used; i++) {
        char c = to[i];
        if (c == '~' && i + 1 < used && (to[i + 1] == '0' || to[i + 1] == '1'))
            c = to[++i] == '0' ? '~' : '/';
        to[out++] = c;
    }
    return out;
}

static const json_t *find_anchor(schema_reader *r, const json_t *at, const char *name, uint32_t depth)
{
    const json_t *anchor = json_object_get(at, "$anchor"), *found = NULL;
    const char *key;
    size_t i;
    json_t *value;
    if (!builder_work(r->b, 2) || depth > NESTING_MAX)
        return NULL;
    if (json_is_string(anchor) && strcmp(json_string_value(anchor), name) == 0)
        return at;
    json_object_foreach((json_t *)at, key, value) if (!found && (json_is_object(value) || json_is_array(value))) found =
        strcmp(key, "enum") && strcmp(key, "const") ? find_anchor(r, value, name, depth + 1) : NULL;
    json_array_foreach(at, i, value) if (!found && json_is_object(value)) found =
        find_anchor(r, value, name, depth + 1);
    return found;
}

static const json_t *step_into(const json_t *at, const char *key, size_t size)
{
    if (json_is_array(at)) {
        char *end, digits[24] = "";
        memcpy(digits, key, size < 20 ? size : 20);
        unsigned long long index = strtoull(digits, &end, 10);
        return size && !*end ? json_array_get(at, (size_t)index) : NULL;
    }
    return json_object_getn(at, key, size);
}

static const json_t *follow_pointer(schema_reader *r, const char *pointer)
{
    const json_t *at = r->root;
    while (at && *pointer) {
        char key[1024];
        const char *end = strchr(++pointer, '/');
        size_t size = end ? (size_t)(end - pointer) : strlen(pointer);
        if (size >= sizeof key || !builder_work(r->b, size + 1))
            return NULL;
        at = step_into(at, key, unescape(pointer, size, key));
        if (json_object_get(at, "$id") && at != r->root) {
            bad_keyword(r, ERR_UNSUPPORTED, "$id", "is supported at the root only");
            return NULL;
        }
        pointer += size;
    }
    return at;
}

const json_t *schema_resolve(schema_reader *r, const json_t *ref)
{
    const char *text = json_string_value(ref), *id = json_string_value(json_object_get(r->root, "$id"));
    const json_t *found = NULL;
    if (id && *id && strncmp(text, id, strlen(id)) == 0 && (!text[strlen(id)] || text[strlen(id)] == '#'))
        text += strlen(id);
    if (!*text || strcmp(text, "#") == 0)
        found = r->root;
    else if (text[0] == '#')
        found = text[1] == '/' ? follow_pointer(r, text + 1) : find_anchor(r, r->root, text + 1, 0);
    else
        builder_fail(r->b, ERR_UNSUPPORTED,
                     "json schema: \"$ref\" \"%.200s\": only references inside the schema (#...) "
                     "are supported",
                     text);
    if (!found)
        builder_fail(r->b, ERR_INVALID, "json schema: \"$ref\" \"%.200s\" leads nowhere", text);
    return found;
}

/* ---- sets ---- */

static bool set_has(const schema_set *set, const json_t *schema)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->schemas[i] == schema)
            return true;
    return false;
}

bool set_add(schema_reader *r, schema_set *set, const json_t *schema)
{
    if (set_has(set, schema))
        return true;
    if (set->count == FLATS_MAX) {
        builder_fail(r->b, ERR_LIMIT, "json schema: over %d schemas apply to one place", FLATS_MAX);
        return false;
    }
    set->parents[set->count] = (uint8_t)set->count;
    set->schemas[set->count++] = schema;
    return builder_work(r->b, 1);
}

bool set_below(const schema_set *set, uint32_t at, uint32_t ancestor)
{
    while (at != ancestor && set->parents[at] != at)
        at = set->parents[at];
    return at == ancestor;
}

static bool sets_push(schema_reader *r, schema_sets *sets, const schema_set *set)
{
    if (sets->count == sets->capacity) {
        uint32_t more = sets->capacity ? sets->capacity * 2 : 4;
        schema_set *moved = realloc(sets->sets, more * sizeof *moved);
        if (!moved || sets->count >= ALTERNATIVES_MAX) {
            sets->sets = moved ? moved : sets->sets;
            builder_fail(r->b, ERR_LIMIT, "json schema: anyOf and oneOf leave over %d alternatives", ALTERNATIVES_MAX);
            return false;
        }
        sets->sets = moved;
        sets->capacity = more;
    }
    sets->sets[sets->count++] = *set;
    return builder_work(r->b, 16);
}

/* A set on its way to flat ones: schemas[0 .. next) have been looked at, branches of all but `branched` too. */
typedef struct {
    schema_set set;
    uint32_t next;
} unfolding;

/* What schemas[next] brings in. One that brought itself in would never be decided. */
static bool bring_in(schema_reader *r, unfolding *u, const json_t *schema)
{
    uint32_t count = u->set.count, at = u->next;
    for (;; at = u->set.parents[at]) {
        if (u->set.schemas[at] == schema)
            return bad_keyword(r, ERR_INVALID, "$ref", "goes round in a circle");
        if (u->set.parents[at] == at)
            break;
    }
    if (!set_add(r, &u->set, schema))
        return false;
    if (u->set.count > count)
        u->set.parents[count] = (uint8_t)u->next;
    return true;
}

static bool unfold(schema_reader *r, unfolding *u, schema_sets *out, uint32_t depth);

/* May `branches` all be seen as alternatives, though only one of them may hold? */
static bool check_exclusive(schema_reader *r, const json_t *schema, const json_t *branches)
{
    size_t count = json_array_size(branches);
    schema_sets *all = calloc(count + 1, sizeof *all);
    bool ok = all != NULL && count <= ALTERNATIVES_MAX;
    for (size_t i = 0; ok && i < count; i++) {
        schema_set alone = {0};
        ok = set_add(r, &alone, json_array_get(branches, i)) && set_expand(r, &alone, &all[i]);
        for (uint32_t k = 0; ok && k < all[i].count; k++)
            ok = set_add(r, &all[i].sets[k], schema);
    }
    for (size_t i = 0; ok && i < count; i++)
        for (size_t j = i + 1; ok && j < count; j++)
            for (uint32_t x = 0; ok && x < all[i].count; x++)
                for (uint32_t y = 0; ok && y < all[j].count; y++)
                    ok = flat_disjoint(r, &all[i].sets[x], &all[j].sets[y]);
    if (!ok && !r->b->failed)
        bad_keyword(r, ERR_UNSUPPORTED, "oneOf",
                    "has branches that may hold at once: that is not supported, use anyOf "
                    "or tell them apart by type, or by a required property with a const");
    for (size_t i = 0; all && i < count; i++)
        free(all[i].sets);
    free(all);
    return ok;
}

static bool branch_out(schema_reader *r, const unfolding *u, const json_t *branches, schema_sets *out, uint32_t depth,
                       bool (*rest)(schema_reader *, unfolding *, schema_sets *, uint32_t))
{
    size_t i;
    json_t *branch;
    unfolding *copy = malloc(sizeof *copy);
    bool ok = copy != NULL;
    json_array_foreach(branches, i, branch)
    {
        if (!ok)
            break;
        *copy = *u;
        ok = bring_in(r, copy, branch) && rest(r, copy, out, depth + 1);
    }
    free(copy);
    return ok;
}

static bool after_one(schema_reader *r, unfolding *u, schema_sets *out, uint32_t depth)
{
    u->next++;
    return unfold(r, u, out, depth);
}

static bool after_any(schema_reader *r, unfolding *u, schema_sets *out, uint32_t depth)
{
    const json_t *schema = u->set.schemas[u->next], *one = json_object_get(schema, "oneOf");
    if (!one)
        return after_one(r, u, out, depth);
    if (json_array_size(one) == 0)
        return bad_keyword(r, ERR_INVALID, "oneOf", "is empty");
    if (!check_exclusive(r, schema, one))
        return false;
    return branch_out(r, u, one, out, depth, after_one);
}

/* dependentRequired and dependentSchemas: a property is not there, or what depends on it holds. */
static bool bring_dependents(schema_reader *r, unfolding *u, const json_t *schema)
{
    const char *name;
    json_t *value;
    for (int k = 0; k < 2; k++)
        json_object_foreach(json_object_get(schema, k ? "dependentSchemas" : "dependentRequired"), name, value)
        {
            json_t *held = k ? json_incref(value) : json_pack("{s:O}", "required", value);
            json_t *either = json_pack("{s:[{s:{s:b}},{s:[{s:[s]},o]}]}", "anyOf", "properties", name, 0, "allOf",
                                       "required", name, held);
            if (!r->made)
                r->made = json_array();
            if (!either || json_array_append_new(r->made, either)) {
                builder_fail(r->b, ERR_MEMORY, "grammar: out of memory");
                return false;
            }
            if (!bring_in(r, u, either))
                return false;
        }
    return true;
}

static bool unfold(schema_reader *r, unfolding *u, schema_sets *out, uint32_t depth)
{
    if (depth > NESTING_MAX)
        return bad_keyword(r, ERR_LIMIT, "anyOf", "is nested too deep");
    while (u->next < u->set.count) {
        const json_t *schema = u->set.schemas[u->next];
        if (!schema_check(r, schema))
            return false;
        if (json_is_false(schema))
            return true; /* no alternative */
        const json_t *ref = json_object_get(schema, "$ref"), *any = json_object_get(schema, "anyOf");
        if (ref) {
            const json_t *target = schema_resolve(r, ref);
            if (!target || !bring_in(r, u, target))
                return false;
        }
        size_t i;
        json_t *part;
        json_array_foreach(json_object_get(schema, "allOf"), i, part) if (!bring_in(r, u, part)) return false;
        if (!bring_dependents(r, u, schema))
            return false;
        if (any && json_array_size(any) == 0)
            return bad_keyword(r, ERR_INVALID, "anyOf", "is empty");
        if (any)
            return branch_out(r, u, any, out, depth, after_any);
        if (json_object_get(schema, "oneOf"))
            return after_any(r, u, out, depth);
        u->next++;
    }
    return sets_push(r, out, &u->set);
}

bool set_expand(schema_reader *r, const schema_set *set, schema_sets *out)
{
    if (++r->depth > NESTING_MAX) {
        builder_fail(r->b, ERR_LIMIT, "json schema: nested too deep");
        return false;
    }
    unfolding *u = malloc(sizeof *u);
    bool ok = u != NULL;
    if (ok) {
        *u = (unfolding){.set = *set};
        ok = unfold(r, u, out, 0);
    }
    free(u);
    r->depth--;
    return ok;
}

/* ---- a rule for each set ---- */

static uint64_t hash_of(const schema_set *set)
{
    uint64_t h = set->count;
    for (uint32_t i = 0; i < set->count; i++)
        h = (h ^ (uintptr_t)set->schemas[i]) * 0x9E3779B97F4A7C15u;
    return h >> 20;
}

static uint32_t find_slot(const set_table *t, const schema_set *set)
{
    uint32_t at = (uint32_t)(hash_of(set) % t->table_size);
    for (; t->table[at]; at = (at + 1) % t->table_size) {
        const schema_set *key = &t->keys[t->table[at] - 1];
        if (key->count == set->count && memcmp(key->schemas, set->schemas, set->count * sizeof *set->schemas) == 0)
            break;
    }
    return at;
}

static bool table_room(set_table *t)
{
    if (t->count < t->capacity)
        return true;
    uint32_t more = t->capacity ? t->capacity * 2 : 32;
    schema_set *keys = more > SETS_MAX * 2 ? NULL : realloc(t->keys, more * sizeof *keys);
    if (keys)
        t->keys = keys;
    grammar_rule *rules = keys ? realloc(t->rules, more * sizeof *rules) : NULL;
    if (rules)
        t->rules = rules;
    uint32_t *table = rules ? calloc(more * 2, sizeof *table) : NULL;
    if (!table)
        return false;
    free(t->table);
    t->table = table;
    t->table_size = more * 2;
    t->capacity = more;
    for (uint32_t i = 0; i < t->count; i++)
        t->table[find_slot(t, &t->keys[i])] = i + 1;
    return true;
}

static grammar_rule alternatives_rule(schema_reader *r, const schema_set *set)
{
    schema_sets flats = {0};
    grammar_rule rule = 0;
    grammar_rule *rules = NULL;
    if (set_expand(r, set, &flats) && (rules = malloc((flats.count + 1) * sizeof *rules))) {
        for (uint32_t i = 0; i < flats.count && !r->b->failed; i++)
            rules[i] = flat_rule(r, &flats.sets[i]);
        rule = r->b->failed ? 0 : grammar_choice(r->b, rules, flats.count);
    }
    free(rules);
    free(flats.sets);
    return rule;
}

grammar_rule set_rule(schema_reader *r, const schema_set *set)
{
    set_table *t = &r->done;
    if (r->b->failed)
        return 0;
    if (!table_room(t))
        return builder_fail(r->b, ERR_LIMIT, "json schema: too large");
    uint32_t at = find_slot(t, set);
    if (t->table[at])
        return t->rules[t->table[at] - 1];
    grammar_rule rule = builder_rule(r->b, span_from("schema"));
    t->keys[t->count] = *set;
    t->rules[t->count] = rule;
    t->table[at] = ++t->count;
    if (++r->depth > NESTING_MAX)
        return builder_fail(r->b, ERR_LIMIT, "json schema: nested too deep");
    builder_define(r->b, rule, alternatives_rule(r, set));
    r->depth--;
    return r->b->failed ? 0 : rule;
}

grammar_rule grammar_json_schema(grammar_builder *b, const json_t *schema)
{
    schema_reader r = {.b = b, .root = schema};
    schema_set set = {0};
    grammar_rule rule = b->failed || !set_add(&r, &set, schema) ? 0 : set_rule(&r, &set);
    json_decref(r.made);
    free(r.done.keys);
    free(r.done.rules);
    free(r.done.table);
    return rule;
}
