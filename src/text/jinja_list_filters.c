/* text/jinja_list_filters.c: filters on sequences and mappings. What jinja2 makes a generator is one here too: it
 * prints as one, has no length, is refused by tojson, and is gone once read; but its items are made at once. */
#include "text/jinja_eval.h"
#include "text/jinja_lexer.h"

#define FILTER(name) static jinja_value name(jinja_render *r, jinja_value v, jinja_value *a, const jinja_args *args)

static bool present(jinja_value v)
{
    return jinja_given(v) && v.type != V_NONE;
}

static jinja_value lower_case(jinja_render *r, jinja_value v)
{
    return v.type == V_STRING ? jinja_of_string(jinja_change_string(r, v.string, CHANGE_LOWER)) : v;
}

/* What an item is sorted or compared by. */
static jinja_value sort_key(jinja_render *r, jinja_value item, jinja_value attribute, bool case_sensitive)
{
    if (present(attribute))
        item = jinja_get_path(r, item, attribute);
    return case_sensitive ? item : lower_case(r, item);
}

typedef struct {
    jinja_value key, item;
} keyed;

/* Stable merge sort of `count` pairs; `spare` is as large. */
static void merge_sort(jinja_render *r, keyed *pairs, keyed *spare, size_t count, bool reverse)
{
    if (count < 2)
        return;
    size_t half = count / 2, i = 0, k = half, out = 0;
    merge_sort(r, pairs, spare, half, reverse);
    merge_sort(r, pairs + half, spare, count - half, reverse);
    while (i < half && k < count) {
        int order = jinja_order(r, pairs[k].key, pairs[i].key, "<");
        bool second = reverse ? order != 2 && order > 0 : order < 0;
        spare[out++] = second ? pairs[k++] : pairs[i++];
    }
    while (i < half)
        spare[out++] = pairs[i++];
    memcpy(pairs, spare, out * sizeof *pairs);
}

static jinja_list *sorted(jinja_render *r, const jinja_list *items, keyed *pairs, bool reverse)
{
    keyed *spare = jinja_alloc_raw(&r->arena, (items->count + 1) * sizeof *spare);
    merge_sort(r, pairs, spare, items->count, reverse);
    jinja_list *out = jinja_list_new(r, LIST_LIST, items->count);
    for (size_t i = 0; i < items->count; i++)
        jinja_list_push(r, out, pairs[i].item);
    return out;
}

FILTER(length)
{
    (void)a, (void)args;
    int64_t length = jinja_length(r, v);
    if (length < 0)
        jinja_fail(r, "object of type '%s' has no len()", jinja_type_name(v));
    return jinja_int(length);
}

static jinja_list *copy_items(jinja_render *r, jinja_value v, jinja_list_kind kind)
{
    const jinja_list *items = jinja_iterate(r, v);
    jinja_list *out = jinja_list_new(r, kind, items->count);
    jinja_charge(r, items->count);
    for (size_t i = 0; i < items->count; i++)
        jinja_list_push(r, out, items->items[i]);
    return out;
}

FILTER(list)
{
    (void)a, (void)args;
    return jinja_of_list(copy_items(r, v, LIST_LIST));
}

FILTER(items)
{
    (void)a, (void)args;
    jinja_value method;
    jinja_args none = {0};
    if (v.type == V_UNDEFINED)
        return jinja_of_list(jinja_list_new(r, LIST_GENERATOR, 0));
    if (v.type != V_DICT)
        jinja_fail(r, "Can only get item pairs from a mapping.");
    jinja_method(r, v, span_from("items"), &method);
    jinja_value pairs = jinja_call(r, method, &none);
    pairs.list->kind = LIST_GENERATOR;
    return pairs;
}

FILTER(join)
{
    (void)args;
    jinja_list *items = jinja_iterate(r, v);
    jinja_string *separator =
        jinja_given(a[0]) ? jinja_to_string(r, a[0]) : jinja_string_borrow(&r->arena, span_of("", 0), true);
    if (present(a[1])) {
        jinja_list *parts = jinja_list_new(r, LIST_LIST, items->count);
        for (size_t i = 0; i < items->count; i++)
            jinja_list_push(r, parts, jinja_get_path(r, items->items[i], a[1]));
        items = parts;
    }
    return jinja_of_string(jinja_join(r, separator, items, false));
}

FILTER(first)
{
    (void)a, (void)args;
    jinja_list *items = jinja_iterate(r, v);
    return items->count ? items->items[0] : jinja_undefined(r, "No first item, sequence was empty.");
}

FILTER(last)
{
    (void)a, (void)args;
    if (v.type == V_LIST && v.list->kind == LIST_GENERATOR)
        jinja_fail(r, "'generator' object is not reversible");
    jinja_list *items = jinja_iterate(r, v);
    return items->count ? items->items[items->count - 1] : jinja_undefined(r, "No last item, sequence was empty.");
}

FILTER(reverse)
{
    (void)a, (void)args;
    jinja_list *items = jinja_iterate(r, v);
    jinja_list *out = jinja_list_new(r, v.type == V_STRING ? LIST_LIST : LIST_GENERATOR, items->count);
    for (size_t i = items->count; i-- > 0;)
        jinja_list_push(r, out, items->items[i]);
    if (v.type != V_STRING)
        return jinja_of_list(out);
    return jinja_of_string(jinja_join(r, jinja_string_borrow(&r->arena, span_of("", 0), true), out, false));
}

FILTER(sort)
{
    (void)args;
    jinja_list *items = jinja_iterate(r, v);
    keyed *pairs = jinja_alloc_raw(&r->arena, (items->count + 1) * sizeof *pairs);
    bool several =
        present(a[2]) && a[2].type == V_STRING && jinja_search(a[2].string->text, span_from(","), 0) != SIZE_MAX;
    jinja_list *attributes = NULL;
    if (several) {
        jinja_value comma = jinja_of_string(jinja_string_copy(r, ","));
        jinja_args split = {.values = &comma, .count = 1};
        jinja_value method;
        jinja_method(r, a[2], span_from("split"), &method);
        attributes = jinja_call(r, method, &split).list;
    }
    for (size_t i = 0; i < items->count; i++) {
        bool exact = jinja_arg_bool(r, a[1], false);
        jinja_value key;
        if (several) {
            jinja_list *keys = jinja_list_new(r, LIST_LIST, attributes->count);
            for (size_t k = 0; k < attributes->count; k++)
                jinja_list_push(r, keys, sort_key(r, items->items[i], attributes->items[k], exact));
            key = jinja_of_list(keys);
        } else {
            key = sort_key(r, items->items[i], a[2], exact);
        }
        pairs[i] = (keyed){key, items->items[i]};
    }
    return jinja_of_list(sorted(r, items, pairs, jinja_arg_bool(r, a[0], false)));
}

FILTER(dictsort)
{
    (void)args;
    if (v.type == V_UNDEFINED)
        jinja_undefined_error(r, v);
    if (v.type != V_DICT)
        jinja_fail(r, "dictsort wants a mapping, not '%s'", jinja_type_name(v));
    span by = jinja_given(a[1]) ? jinja_arg_str(r, a[1], "by")->text : span_from("key");
    bool by_value = span_is(by, "value");
    if (!by_value && !span_is(by, "key"))
        jinja_fail(r, "You can only sort by either \"key\" or \"value\"");
    jinja_list *pairs = items(r, v, a, args).list;
    keyed *keys = jinja_alloc_raw(&r->arena, (pairs->count + 1) * sizeof *keys);
    for (size_t i = 0; i < pairs->count; i++) {
        jinja_value key = pairs->items[i].list->items[by_value];
        keys[i] = (keyed){jinja_arg_bool(r, a[0], false) ? key : lower_case(r, key), pairs->items[i]};
    }
    return jinja_of_list(sorted(r, pairs, keys, jinja_arg_bool(r, a[2], false)));
}

FILTER(unique)
{
    (void)args;
    jinja_list *items = jinja_iterate(r, v), *out = jinja_list_new(r, LIST_GENERATOR, 0);
    jinja_dict *seen = jinja_dict_new(r, 0);
    for (size_t i = 0; i < items->count; i++) {
        jinja_value key = sort_key(r, items->items[i], a[1], jinja_arg_bool(r, a[0], false));
        if (jinja_dict_get(r, seen, key))
            continue;
        jinja_dict_put(r, seen, key, jinja_none());
        jinja_list_push(r, out, items->items[i]);
    }
    return jinja_of_list(out);
}

static jinja_value extreme(jinja_render *r, jinja_value v, const jinja_value *a, bool want_max)
{
    jinja_list *items = jinja_iterate(r, v);
    if (!items->count)
        return jinja_undefined(r, "No aggregated item, sequence was empty.");
    bool exact = jinja_arg_bool(r, a[0], false);
    jinja_value best = items->items[0], best_key = sort_key(r, best, a[1], exact);
    for (size_t i = 1; i < items->count; i++) {
        jinja_value key = sort_key(r, items->items[i], a[1], exact);
        int order = jinja_order(r, key, best_key, want_max ? ">" : "<");
        if (order == 2 || (want_max ? order <= 0 : order >= 0))
            continue;
        best = items->items[i];
        best_key = key;
    }
    return best;
}

FILTER(min)
{
    (void)args;
    return extreme(r, v, a, false);
}

FILTER(max)
{
    (void)args;
    return extreme(r, v, a, true);
}

FILTER(sum)
{
    (void)args;
    jinja_list *items = jinja_iterate(r, v);
    jinja_value total = jinja_given(a[1]) ? a[1] : jinja_int(0);
    if (total.type == V_STRING)
        jinja_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < items->count; i++) {
        jinja_value item = present(a[0]) ? jinja_get_path(r, items->items[i], a[0]) : items->items[i];
        total = jinja_binary(r, TOK_ADD, total, item);
    }
    return total;
}

FILTER(batch)
{
    (void)args;
    jinja_list *items = jinja_iterate(r, v), *out = jinja_list_new(r, LIST_GENERATOR, 0), *row = NULL;
    int64_t size = jinja_arg_int(r, a[0], 1, "linecount");
    if (size < 1 || size > JINJA_ITEMS_MAX)
        jinja_fail(r, "batch: linecount out of range");
    for (size_t i = 0; i < items->count; i++) {
        if (!row || (int64_t)row->count == size) {
            row = jinja_list_new(r, LIST_LIST, 0);
            jinja_list_push(r, out, jinja_of_list(row));
        }
        jinja_list_push(r, row, items->items[i]);
    }
    while (row && present(a[1]) && (int64_t)row->count < size)
        jinja_list_push(r, row, a[1]);
    return jinja_of_list(out);
}

FILTER(slice)
{
    (void)args;
    jinja_list *items = jinja_iterate(r, v), *out = jinja_list_new(r, LIST_GENERATOR, 0);
    int64_t slices = jinja_arg_int(r, a[0], 1, "slices"), count = (int64_t)items->count, at = 0;
    if (slices < 1 || slices > JINJA_ITEMS_MAX)
        jinja_fail(r, "slice: count out of range");
    for (int64_t i = 0; i < slices; i++) {
        int64_t size = count / slices + (i < count % slices);
        jinja_list *column = jinja_list_new(r, LIST_LIST, 0);
        for (int64_t k = 0; k < size; k++)
            jinja_list_push(r, column, items->items[at++]);
        if (present(a[1]) && i >= count % slices && count % slices)
            jinja_list_push(r, column, a[1]);
        else if (present(a[1]) && !(count % slices))
            jinja_list_push(r, column, a[1]);
        jinja_list_push(r, out, jinja_of_list(column));
        jinja_charge(r, 1);
    }
    return jinja_of_list(out);
}

/* groupby(attribute, default, case_sensitive): (value, items) pairs in order of value. */
FILTER(groupby)
{
    jinja_list *items = jinja_iterate(r, v), *out = jinja_list_new(r, LIST_LIST, 0), *group = NULL;
    bool exact = jinja_arg_bool(r, a[2], false);
    keyed *pairs = jinja_alloc_raw(&r->arena, (items->count + 1) * sizeof *pairs);
    (void)args;
    for (size_t i = 0; i < items->count; i++) {
        jinja_value value = jinja_get_path(r, items->items[i], a[0]);
        if (value.type == V_UNDEFINED && jinja_given(a[1]))
            value = a[1];
        pairs[i] = (keyed){exact ? value : lower_case(r, value), items->items[i]};
    }
    jinja_list *order = sorted(r, items, pairs, false);
    for (size_t i = 0; i < order->count; i++) {
        if (!group || !jinja_equal(r, pairs[i].key, pairs[i - 1].key)) {
            jinja_list *pair = jinja_list_new(r, LIST_TUPLE, 2);
            jinja_value value = jinja_get_path(r, order->items[i], a[0]);
            group = jinja_list_new(r, LIST_LIST, 0);
            jinja_list_push(r, pair, value.type == V_UNDEFINED && jinja_given(a[1]) ? a[1] : value);
            jinja_list_push(r, pair, jinja_of_list(group));
            jinja_list_push(r, out, jinja_of_list(pair));
        }
        jinja_list_push(r, group, order->items[i]);
    }
    return jinja_of_list(out);
}

/* ---- map, select, reject ---- */

/* jinja2 takes anything false, None too, for an empty sequence in these filters. */
static jinja_list *items_or_none(jinja_render *r, jinja_value v)
{
    return jinja_truth(r, v) ? jinja_iterate(r, v) : jinja_list_new(r, LIST_LIST, 0);
}

static jinja_args rest_of(const jinja_args *args, uint32_t from)
{
    jinja_args rest = *args;
    rest.values += from;
    rest.count -= from;
    return rest;
}

static const jinja_value *named(const jinja_args *args, const char *name)
{
    for (uint32_t i = 0; i < args->named_count; i++)
        if (span_is(args->names[i]->text, name))
            return &args->named[i];
    return NULL;
}

static jinja_value map_attribute(jinja_render *r, jinja_value item, const jinja_args *args)
{
    const jinja_value *otherwise = named(args, "default");
    jinja_value value = jinja_get_path(r, item, *named(args, "attribute"));
    return value.type == V_UNDEFINED && otherwise ? *otherwise : value;
}

FILTER(map)
{
    (void)a;
    jinja_list *items = items_or_none(r, v), *out = jinja_list_new(r, LIST_GENERATOR, items->count);
    const jinja_function *f = NULL;
    jinja_args rest = {0};
    if (!items->count)
        return jinja_of_list(out);
    if (args->count || !named(args, "attribute")) {
        if (!args->count)
            jinja_fail(r, "map requires a filter argument");
        const jinja_string *name = jinja_arg_str(r, args->values[0], "name of a filter");
        f = jinja_find_filter(name->text);
        if (!f)
            jinja_fail(r, "No filter named '%.*s' found.", name->text.size > 60 ? 60 : (int)name->text.size,
                       name->text.data);
        rest = rest_of(args, 1);
    }
    for (size_t i = 0; i < items->count; i++) {
        jinja_charge(r, 1);
        jinja_list_push(r, out,
                        f ? jinja_native_call(r, f, items->items[i], &rest) : map_attribute(r, items->items[i], args));
    }
    return jinja_of_list(out);
}

/* select, reject, selectattr, rejectattr: [attribute,] [test, arguments] */
static jinja_value choose(jinja_render *r, jinja_value v, const jinja_args *args, bool by_attribute, bool wanted)
{
    jinja_list *items = items_or_none(r, v), *out = jinja_list_new(r, LIST_GENERATOR, 0);
    uint32_t at = by_attribute ? 1 : 0;
    if (!items->count)
        return jinja_of_list(out);
    if (args->count < at)
        jinja_fail(r, "Missing parameter for attribute name");
    const jinja_function *test = NULL;
    jinja_args rest = {0};
    if (args->count > at) {
        const jinja_string *name = jinja_arg_str(r, args->values[at], "name of a test");
        test = jinja_find_test(name->text);
        if (!test)
            jinja_fail(r, "No test named '%.*s' found.", name->text.size > 60 ? 60 : (int)name->text.size,
                       name->text.data);
        rest = rest_of(args, at + 1);
    }
    for (size_t i = 0; i < items->count; i++) {
        jinja_charge(r, 1);
        jinja_value subject = by_attribute ? jinja_get_path(r, items->items[i], args->values[0]) : items->items[i];
        bool holds = jinja_truth(r, test ? jinja_native_call(r, test, subject, &rest) : subject);
        if (holds == wanted)
            jinja_list_push(r, out, items->items[i]);
    }
    return jinja_of_list(out);
}

FILTER(select_items)
{
    (void)a;
    return choose(r, v, args, false, true);
}

FILTER(reject_items)
{
    (void)a;
    return choose(r, v, args, false, false);
}

FILTER(select_by_attribute)
{
    (void)a;
    return choose(r, v, args, true, true);
}

FILTER(reject_by_attribute)
{
    (void)a;
    return choose(r, v, args, true, false);
}

const jinja_function jinja_list_filters[] = {
    {"length", length, "", 0, {0}},
    {"count", length, "", 0, {0}},
    {"items", items, "", 0, {0}},
    {"list", list, "", 0, {0}},
    {"join", join, "d,attribute", 0, {0}},
    {"map", map, "*", 0, {0}},
    {"select", select_items, "*", 0, {0}},
    {"reject", reject_items, "*", 0, {0}},
    {"selectattr", select_by_attribute, "*", 0, {0}},
    {"rejectattr", reject_by_attribute, "*", 0, {0}},
    {"first", first, "", 0, {0}},
    {"last", last, "", 0, {0}},
    {"reverse", reverse, "", 0, {0}},
    {"sort", sort, "reverse,case_sensitive,attribute", 0, {0}},
    {"dictsort", dictsort, "case_sensitive,by,reverse", 0, {0}},
    {"unique", unique, "case_sensitive,attribute", 0, {0}},
    {"min", min, "case_sensitive,attribute", 0, {0}},
    {"max", max, "case_sensitive,attribute", 0, {0}},
    {"sum", sum, "attribute,start", 0, {0}},
    {"batch", batch, "linecount,fill_with", 1, {0}},
    {"slice", slice, "slices,fill_with", 1, {0}},
    {"groupby", groupby, "attribute,default,case_sensitive", 1, {0}},
};
const size_t jinja_list_filter_count = sizeof jinja_list_filters / sizeof *jinja_list_filters;

const jinja_function *jinja_find_filter(span name)
{
    const jinja_function *found = jinja_find_in(jinja_text_filters, jinja_text_filter_count, name);
    return found ? found : jinja_find_in(jinja_list_filters, jinja_list_filter_count, name);
}
