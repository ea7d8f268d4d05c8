/* text/jinja_value.c: names, lists, dicts, truth, equality and order, as Python has them. */
#include <math.h>
#include <stdlib.h>

#include "text/jinja_eval.h"
#include "text/jinja_unicode.h"

enum { DICT_LINEAR_MAX = 8 };

static uint32_t hash_bytes(const char *data, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)data[i]) * 16777619u;
    return hash ^ hash >> 15;
}

/* ---- names ---- */

static const jinja_name **name_slot(const jinja_names *names, span text, uint32_t hash)
{
    size_t i = hash & (names->capacity - 1);
    while (names->slots[i] && !span_equal(names->slots[i]->text, text))
        i = (i + 1) & (names->capacity - 1);
    return &names->slots[i];
}

const jinja_name *jinja_find_name(const jinja_names *names, span text)
{
    return names->capacity ? *name_slot(names, text, hash_bytes(text.data, text.size)) : NULL;
}

const jinja_name *jinja_intern(jinja_arena *arena, jinja_names *names, span text)
{
    if (names->count * 2 >= names->capacity) {
        jinja_names grown = {.capacity = names->capacity ? names->capacity * 2 : 128, .count = names->count};
        grown.slots = jinja_alloc(arena, grown.capacity * sizeof *grown.slots);
        for (size_t i = 0; i < names->capacity; i++)
            if (names->slots[i])
                *name_slot(&grown, names->slots[i]->text, names->slots[i]->hash) = names->slots[i];
        *names = grown;
    }
    uint32_t hash = hash_bytes(text.data, text.size);
    const jinja_name **slot = name_slot(names, text, hash);
    if (!*slot) {
        jinja_name *name = jinja_alloc(arena, sizeof *name);
        char *copy = jinja_alloc_raw(arena, text.size + 1);
        memcpy(copy, text.data, text.size);
        copy[text.size] = 0;
        *name = (jinja_name){span_of(copy, text.size), hash};
        *slot = name;
        names->count++;
    }
    return *slot;
}

/* ---- lists ---- */

jinja_list *jinja_list_new(jinja_render *r, jinja_list_kind kind, size_t capacity)
{
    jinja_list *l = jinja_alloc(&r->arena, sizeof *l);
    l->kind = (uint8_t)kind;
    l->items = capacity ? jinja_alloc_raw(&r->arena, capacity * sizeof *l->items) : NULL;
    l->capacity = capacity;
    return l;
}

void jinja_list_push(jinja_render *r, jinja_list *l, jinja_value v)
{
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 4;
        l->items = jinja_grow(&r->arena, l->items, l->count * sizeof *l->items, capacity * sizeof *l->items);
        l->capacity = capacity;
    }
    l->items[l->count++] = v;
}

/* ---- dicts ---- */

static uint32_t hash_value(jinja_render *r, jinja_value v)
{
    double number;
    switch (v.type) {
    case V_STRING:
        jinja_charge(r, v.string->text.size / 64);
        return hash_bytes(v.string->text.data, v.string->text.size);
    case V_BOOL:
    case V_INT:
    case V_BIG:
    case V_FLOAT:
        jinja_number(v, &number);
        number = number == 0 ? 0 : number; /* -0.0 equals 0 */
        return hash_bytes((const char *)&number, sizeof number);
    case V_NONE:
        return 1;
    case V_LIST:
        if (v.list->kind == LIST_TUPLE || v.list->kind == LIST_RANGE) {
            uint32_t hash = 7;
            jinja_enter_value(r);
            for (size_t i = 0; i < v.list->count; i++)
                hash = hash * 31 + hash_value(r, v.list->items[i]);
            jinja_leave_value(r);
            return hash;
        }
        if (v.list->kind == LIST_GENERATOR)
            return 3;
        jinja_fail(r, "unhashable type: '%s'", jinja_type_name(v));
    case V_DICT:
        jinja_fail(r, "unhashable type: 'dict'");
    default:
        return 5;
    }
}

jinja_dict *jinja_dict_new(jinja_render *r, size_t capacity)
{
    jinja_dict *d = jinja_alloc(&r->arena, sizeof *d);
    d->entries = capacity ? jinja_alloc_raw(&r->arena, capacity * sizeof *d->entries) : NULL;
    d->capacity = capacity;
    return d;
}

static void dict_index_add(jinja_dict *d, uint32_t entry)
{
    size_t i = d->entries[entry].hash & (d->index_capacity - 1);
    while (d->index[i])
        i = (i + 1) & (d->index_capacity - 1);
    d->index[i] = entry + 1;
}

static bool entry_is(jinja_render *r, const jinja_entry *e, jinja_value key, uint32_t hash)
{
    return !e->gone && e->hash == hash && jinja_equal(r, e->key, key);
}

static jinja_entry *dict_entry(jinja_render *r, const jinja_dict *d, jinja_value key, uint32_t hash)
{
    if (!d->index) {
        for (size_t i = 0; i < d->count; i++)
            if (entry_is(r, &d->entries[i], key, hash))
                return &d->entries[i];
        return NULL;
    }
    uint64_t probes = 0;
    for (size_t i = hash & (d->index_capacity - 1); d->index[i]; i = (i + 1) & (d->index_capacity - 1), probes++) {
        jinja_entry *e = &d->entries[d->index[i] - 1];
        if (entry_is(r, e, key, hash)) {
            jinja_charge(r, probes / 8);
            return e;
        }
    }
    jinja_charge(r, probes / 8);
    return NULL;
}

jinja_value *jinja_dict_get(jinja_render *r, const jinja_dict *d, jinja_value key)
{
    jinja_entry *e = dict_entry(r, d, key, hash_value(r, key));
    return e ? &e->value : NULL;
}

jinja_value *jinja_dict_find(jinja_render *r, const jinja_dict *d, span key)
{
    jinja_string s = {.text = key};
    return jinja_dict_get(r, d, jinja_of_string(&s));
}

void jinja_dict_put(jinja_render *r, jinja_dict *d, jinja_value key, jinja_value value)
{
    uint32_t hash = hash_value(r, key);
    jinja_entry *e = dict_entry(r, d, key, hash);
    if (e) {
        e->value = value;
        return;
    }
    if (d->count == d->capacity) {
        size_t capacity = d->capacity ? d->capacity * 2 : 4;
        d->entries = jinja_grow(&r->arena, d->entries, d->count * sizeof *d->entries, capacity * sizeof *d->entries);
        d->capacity = capacity;
    }
    d->entries[d->count++] = (jinja_entry){key, value, hash, false};
    d->live++;
    if (d->count > DICT_LINEAR_MAX && d->count * 2 > d->index_capacity) {
        d->index_capacity = d->index_capacity ? d->index_capacity * 2 : 64;
        while (d->index_capacity < d->count * 2)
            d->index_capacity *= 2;
        d->index = jinja_alloc(&r->arena, d->index_capacity * sizeof *d->index);
        for (size_t i = 0; i < d->count; i++)
            dict_index_add(d, (uint32_t)i);
    } else if (d->index) {
        dict_index_add(d, (uint32_t)d->count - 1);
    }
}

bool jinja_dict_drop(jinja_render *r, jinja_dict *d, jinja_value key)
{
    jinja_entry *e = dict_entry(r, d, key, hash_value(r, key));
    if (!e)
        return false;
    e->gone = true; /* its slot stays: the index still counts it */
    d->live--;
    return true;
}

/* ---- truth, equality, order ---- */

bool jinja_number(jinja_value v, double *out)
{
    switch (v.type) {
    case V_BOOL:
        *out = v.boolean;
        return true;
    case V_INT:
        *out = (double)v.integer;
        return true;
    case V_FLOAT:
        *out = v.real;
        return true;
    case V_BIG:
        return jinja_parse_float(v.string->text, out);
    default:
        return false;
    }
}

bool jinja_integer(jinja_value v, int64_t *out)
{
    if (v.type != V_INT && v.type != V_BOOL)
        return false;
    *out = v.type == V_INT ? v.integer : v.boolean;
    return true;
}

int64_t jinja_length(jinja_render *r, jinja_value v)
{
    (void)r;
    switch (v.type) {
    case V_UNDEFINED:
        return 0;
    case V_STRING:
        return (int64_t)jinja_string_chars(v.string);
    case V_LIST:
        return v.list->kind == LIST_GENERATOR ? -1 : (int64_t)v.list->count;
    case V_DICT:
        return (int64_t)v.dict->live;
    case V_LOOP:
        return (int64_t)v.loop->list->count;
    default:
        return -1;
    }
}

bool jinja_truth(jinja_render *r, jinja_value v)
{
    double number;
    if (jinja_number(v, &number))
        return number != 0;
    switch (v.type) {
    case V_UNDEFINED:
    case V_NONE:
        return false;
    case V_STRING:
        return v.string->text.size > 0;
    default:
        return jinja_length(r, v) != 0;
    }
}

static bool lists_equal(jinja_render *r, const jinja_list *a, const jinja_list *b)
{
    bool comparable = a->kind == b->kind && a->kind != LIST_GENERATOR && a->kind != LIST_VALUES;
    if (a == b)
        return true;
    if (!comparable || a->count != b->count)
        return false;
    jinja_enter_value(r);
    bool same = true;
    for (size_t i = 0; same && i < a->count && i < b->count; i++)
        same = jinja_equal(r, a->items[i], b->items[i]);
    jinja_leave_value(r);
    return same;
}

static bool dicts_equal(jinja_render *r, const jinja_dict *a, const jinja_dict *b)
{
    if (a == b)
        return true;
    if (a->live != b->live)
        return false;
    jinja_enter_value(r);
    bool same = true;
    for (size_t i = 0; same && i < a->count; i++) {
        if (a->entries[i].gone)
            continue;
        const jinja_value *other = jinja_dict_get(r, b, a->entries[i].key);
        same = other && jinja_equal(r, a->entries[i].value, *other);
    }
    jinja_leave_value(r);
    return same;
}

bool jinja_equal(jinja_render *r, jinja_value a, jinja_value b)
{
    double x, y;
    jinja_charge(r, 1);
    if (a.type == V_INT && b.type == V_INT)
        return a.integer == b.integer;
    if (a.type == V_BIG && b.type == V_BIG)
        return span_equal(a.string->text, b.string->text);
    if (jinja_number(a, &x) && jinja_number(b, &y))
        return x == y;
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case V_STRING:
        if (a.string->text.size == b.string->text.size)
            jinja_charge(r, a.string->text.size / 64);
        return span_equal(a.string->text, b.string->text);
    case V_LIST:
        return lists_equal(r, a.list, b.list);
    case V_DICT:
        return dicts_equal(r, a.dict, b.dict);
    case V_UNDEFINED:
    case V_NONE:
        return true;
    case V_FUNCTION:
        return a.function == b.function;
    default:
        return a.dict == b.dict; /* the same object */
    }
}

int jinja_order(jinja_render *r, jinja_value a, jinja_value b, const char *op)
{
    double x, y;
    jinja_charge(r, 1);
    if (a.type == V_INT && b.type == V_INT)
        return a.integer < b.integer ? -1 : a.integer > b.integer;
    if (jinja_number(a, &x) && jinja_number(b, &y))
        return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2; /* 2: not a number, every comparison is false */
    if (a.type == V_STRING && b.type == V_STRING) {
        span s = a.string->text, t = b.string->text;
        size_t least = s.size < t.size ? s.size : t.size;
        jinja_charge(r, least / 64);
        int difference = least ? memcmp(s.data, t.data, least) : 0;
        return difference ? (difference < 0 ? -1 : 1) : s.size < t.size ? -1 : s.size > t.size;
    }
    bool sequences = a.type == V_LIST && b.type == V_LIST && a.list->kind == b.list->kind && a.list->kind <= LIST_TUPLE;
    if (!sequences) {
        if (a.type == V_UNDEFINED || b.type == V_UNDEFINED)
            jinja_undefined_error(r, a.type == V_UNDEFINED ? a : b);
        jinja_fail(r, "'%s' not supported between instances of '%s' and '%s'", op, jinja_type_name(a),
                   jinja_type_name(b));
    }
    size_t least = a.list->count < b.list->count ? a.list->count : b.list->count;
    int order = 0;
    jinja_enter_value(r);
    for (size_t i = 0; i < least && !order; i++)
        if (!jinja_equal(r, a.list->items[i], b.list->items[i]))
            order = jinja_order(r, a.list->items[i], b.list->items[i], op);
    jinja_leave_value(r);
    return order ? order : a.list->count < b.list->count ? -1 : a.list->count > b.list->count;
}

bool jinja_contains(jinja_render *r, jinja_value container, jinja_value item)
{
    if (container.type == V_STRING) {
        if (item.type != V_STRING)
            jinja_fail(r, "'in <string>' requires string as left operand, not %s", jinja_type_name(item));
        jinja_charge(r, container.string->text.size / 32);
        return jinja_search(container.string->text, item.string->text, 0) != SIZE_MAX;
    }
    if (container.type == V_DICT)
        return jinja_dict_get(r, container.dict, item) != NULL;
    if (!jinja_iterable(container))
        jinja_fail(r, "argument of type '%s' is not iterable", jinja_type_name(container));
    jinja_list *list = jinja_iterate(r, container);
    for (size_t i = 0; i < list->count; i++)
        if (jinja_equal(r, list->items[i], item))
            return true;
    return false;
}

const char *jinja_type_name(jinja_value v)
{
    static const char *const names[] = {"Undefined", "NoneType", "bool",        "int",   "int",
                                        "float",     "str",      "list",        "dict",  "Namespace",
                                        "Macro",     "function", "LoopContext", "object"};
    static const char *const lists[] = {"list",      "tuple",       "range",     "generator",
                                        "dict_keys", "dict_values", "dict_items"};
    return v.type == V_LIST ? lists[v.list->kind] : v.type < sizeof names / sizeof *names ? names[v.type] : "missing";
}

/* ---- iteration ---- */

bool jinja_iterable(jinja_value v)
{
    return v.type == V_UNDEFINED || v.type == V_STRING || v.type == V_LIST || v.type == V_DICT || v.type == V_LOOP;
}

static jinja_list *characters(jinja_render *r, jinja_string *s)
{
    jinja_list *list = jinja_list_new(r, LIST_LIST, jinja_string_chars(s));
    size_t used;
    for (size_t i = 0; i < s->text.size; i += used) {
        jinja_charge(r, 1);
        jinja_decode(s->text.data + i, s->text.size - i, &used);
        jinja_string *character = jinja_string_sub(&r->arena, s, i, used);
        character->markup = false; /* iteration gives plain text */
        jinja_list_push(r, list, jinja_of_string(character));
    }
    return list;
}

jinja_list *jinja_iterate(jinja_render *r, jinja_value v)
{
    jinja_list *list;
    switch (v.type) {
    case V_UNDEFINED:
        return jinja_list_new(r, LIST_LIST, 0);
    case V_STRING:
        return characters(r, v.string);
    case V_LIST:
        if (v.list->kind != LIST_GENERATOR)
            return v.list;
        list = jinja_list_new(r, LIST_LIST, 0);
        *list = *v.list;
        list->kind = LIST_LIST;
        v.list->items = NULL; /* read once */
        v.list->count = v.list->capacity = 0;
        return list;
    case V_DICT:
        list = jinja_list_new(r, LIST_LIST, v.dict->live);
        jinja_charge(r, v.dict->count);
        for (size_t i = 0; i < v.dict->count; i++)
            if (!v.dict->entries[i].gone)
                jinja_list_push(r, list, v.dict->entries[i].key);
        return list;
    case V_LOOP:
        return v.loop->list;
    default:
        jinja_fail(r, "'%s' object is not iterable", jinja_type_name(v));
    }
}
