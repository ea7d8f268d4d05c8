/* text/jinja_methods.c: attributes of values: methods of list, dict and loop, and which names a type has at all. An
 * attribute that Python has and this engine lacks is still defined (`x.encode is defined` holds), and fails only when
 * called. */
#include "text/jinja_eval.h"

static jinja_value not_supported(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)a, (void)args;
    jinja_fail(r, "this method of '%s' is not supported", jinja_type_name(self));
}

/* ---- dict ---- */

static jinja_list *entries_of(jinja_render *r, const jinja_dict *d, jinja_list_kind kind)
{
    jinja_list *out = jinja_list_new(r, kind, d->live);
    jinja_charge(r, d->count);
    for (size_t i = 0; i < d->count; i++) {
        const jinja_entry *e = &d->entries[i];
        if (e->gone)
            continue;
        if (kind == LIST_ITEMS) {
            jinja_list *pair = jinja_list_new(r, LIST_TUPLE, 2);
            jinja_list_push(r, pair, e->key);
            jinja_list_push(r, pair, e->value);
            jinja_list_push(r, out, jinja_of_list(pair));
        } else {
            jinja_list_push(r, out, kind == LIST_KEYS ? e->key : e->value);
        }
    }
    return out;
}

static jinja_value dict_items(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)a, (void)args;
    return jinja_of_list(entries_of(r, self.dict, LIST_ITEMS));
}

static jinja_value dict_keys(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)a, (void)args;
    return jinja_of_list(entries_of(r, self.dict, LIST_KEYS));
}

static jinja_value dict_values(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)a, (void)args;
    return jinja_of_list(entries_of(r, self.dict, LIST_VALUES));
}

static jinja_value dict_get(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)args;
    jinja_value *found = jinja_dict_get(r, self.dict, a[0]);
    return found ? *found : jinja_given(a[1]) ? a[1] : jinja_none();
}

static jinja_value dict_pop(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)args;
    jinja_value *found = jinja_dict_get(r, self.dict, a[0]);
    if (!found && !jinja_given(a[1]))
        jinja_fail(r, "pop: no such key");
    jinja_value out = found ? *found : a[1];
    jinja_dict_drop(r, self.dict, a[0]);
    return out;
}

static jinja_value dict_setdefault(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)args;
    jinja_value *found = jinja_dict_get(r, self.dict, a[0]);
    if (found)
        return *found;
    jinja_value out = jinja_given(a[1]) ? a[1] : jinja_none();
    jinja_dict_put(r, self.dict, a[0], out);
    return out;
}

static jinja_value dict_copy(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)a, (void)args;
    jinja_dict *out = jinja_dict_new(r, self.dict->live);
    for (size_t i = 0; i < self.dict->count; i++)
        if (!self.dict->entries[i].gone)
            jinja_dict_put(r, out, self.dict->entries[i].key, self.dict->entries[i].value);
    return jinja_of_dict(out);
}

static jinja_value dict_update(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)a;
    if (args->count > 1)
        jinja_fail(r, "update expected at most 1 argument");
    if (args->count && args->values[0].type != V_DICT)
        jinja_fail(r, "update: '%s' is no dict", jinja_type_name(args->values[0]));
    for (size_t i = 0; args->count && i < args->values[0].dict->count; i++) {
        jinja_entry e = args->values[0].dict->entries[i];
        if (!e.gone)
            jinja_dict_put(r, self.dict, e.key, e.value);
    }
    for (uint32_t i = 0; i < args->named_count; i++)
        jinja_dict_put(r, self.dict, jinja_of_string(jinja_string_borrow(&r->arena, args->names[i]->text, false)),
                       args->named[i]);
    return jinja_none();
}

static jinja_value dict_clear(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)r, (void)a, (void)args;
    *self.dict = (jinja_dict){0};
    return jinja_none();
}

static const jinja_function dict_methods[] = {
    {"items", dict_items, "", 0, {0}},        {"keys", dict_keys, "", 0, {0}},
    {"values", dict_values, "", 0, {0}},      {"get", dict_get, "key,default", 1, {0}},
    {"pop", dict_pop, "key,default", 1, {0}}, {"setdefault", dict_setdefault, "key,default", 1, {0}},
    {"copy", dict_copy, "", 0, {0}},          {"update", dict_update, "*", 0, {0}},
    {"clear", dict_clear, "", 0, {0}},        {"popitem", not_supported, "*", 0, {0}},
    {"fromkeys", not_supported, "*", 0, {0}},
};

/* ---- list and tuple ---- */

static jinja_value list_append(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)args;
    jinja_list_push(r, self.list, a[0]);
    return jinja_none();
}

static jinja_value list_extend(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)args;
    jinja_list *more = jinja_iterate(r, a[0]);
    size_t count = more->count; /* the list may be its own */
    for (size_t i = 0; i < count; i++)
        jinja_list_push(r, self.list, more->items[i]);
    jinja_charge(r, count);
    return jinja_none();
}

static jinja_value list_insert(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)args;
    jinja_list *l = self.list;
    int64_t count = (int64_t)l->count, at = jinja_arg_int(r, a[0], 0, "index");
    at = at < -count ? 0 : at < 0 ? at + count : at > count ? count : at;
    jinja_list_push(r, l, a[1]);
    memmove(l->items + at + 1, l->items + at, (size_t)(count - at) * sizeof *l->items);
    jinja_charge(r, (uint64_t)(count - at) / 4);
    l->items[at] = a[1];
    return jinja_none();
}

static void list_drop(jinja_render *r, jinja_list *l, size_t at)
{
    memmove(l->items + at, l->items + at + 1, (l->count - at - 1) * sizeof *l->items);
    jinja_charge(r, (l->count - at) / 4);
    l->count--;
}

static jinja_value list_pop(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)args;
    int64_t count = (int64_t)self.list->count, at = jinja_arg_int(r, a[0], -1, "index");
    at = at < 0 ? at + count : at;
    if (at < 0 || at >= count)
        jinja_fail(r, count ? "pop index out of range" : "pop from empty list");
    jinja_value out = self.list->items[at];
    list_drop(r, self.list, (size_t)at);
    return out;
}

static int64_t find_item(jinja_render *r, const jinja_list *l, jinja_value item)
{
    for (size_t i = 0; i < l->count; i++)
        if (jinja_equal(r, l->items[i], item))
            return (int64_t)i;
    return -1;
}

static jinja_value list_remove(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)args;
    int64_t at = find_item(r, self.list, a[0]);
    if (at < 0)
        jinja_fail(r, "list.remove(x): x not in list");
    list_drop(r, self.list, (size_t)at);
    return jinja_none();
}

static jinja_value list_index(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)args;
    int64_t at = find_item(r, self.list, a[0]);
    if (at < 0)
        jinja_fail(r, "index: value is not in the list");
    return jinja_int(at);
}

static jinja_value list_count(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)args;
    int64_t count = 0;
    for (size_t i = 0; i < self.list->count; i++)
        count += jinja_equal(r, self.list->items[i], a[0]);
    return jinja_int(count);
}

static jinja_value list_copy(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)a, (void)args;
    jinja_list *out = jinja_list_new(r, LIST_LIST, self.list->count);
    for (size_t i = 0; i < self.list->count; i++)
        jinja_list_push(r, out, self.list->items[i]);
    jinja_charge(r, out->count);
    return jinja_of_list(out);
}

static jinja_value list_reverse(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)a, (void)args;
    jinja_list *l = self.list;
    jinja_charge(r, l->count);
    for (size_t i = 0; i + i + 1 < l->count; i++) {
        jinja_value held = l->items[i];
        l->items[i] = l->items[l->count - 1 - i];
        l->items[l->count - 1 - i] = held;
    }
    return jinja_none();
}

static jinja_value list_clear(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)r, (void)a, (void)args;
    self.list->count = 0;
    return jinja_none();
}

static const jinja_function list_methods[] = {
    {"index", list_index, "value", 1, {0}}, /* the first two: tuples have them too */
    {"count", list_count, "value", 1, {0}},
    {"append", list_append, "object", 1, {0}},
    {"extend", list_extend, "iterable", 1, {0}},
    {"insert", list_insert, "index,object", 2, {0}},
    {"pop", list_pop, "index", 0, {0}},
    {"remove", list_remove, "value", 1, {0}},
    {"copy", list_copy, "", 0, {0}},
    {"reverse", list_reverse, "", 0, {0}},
    {"clear", list_clear, "", 0, {0}},
    {"sort", not_supported, "*", 0, {0}},
};

/* ---- loop, cycler, numbers ---- */

static jinja_value loop_cycle(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)a;
    if (!args->count)
        jinja_fail(r, "no items for cycling given");
    return args->values[self.loop->index % args->count];
}

static jinja_value loop_changed(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)a;
    jinja_list *now = jinja_list_new(r, LIST_TUPLE, args->count);
    for (uint32_t i = 0; i < args->count; i++)
        jinja_list_push(r, now, args->values[i]);
    jinja_value last = self.loop->last_changed, value = jinja_of_list(now);
    if (jinja_given(last) && jinja_equal(r, last, value))
        return jinja_bool(false);
    self.loop->last_changed = value;
    return jinja_bool(true);
}

static const jinja_function loop_methods[] = {
    {"cycle", loop_cycle, "*", 0, {0}},
    {"changed", loop_changed, "*", 0, {0}},
};

static bool loop_attribute(jinja_render *r, const jinja_loop *loop, span name, jinja_value *out)
{
    int64_t index = (int64_t)loop->index, count = (int64_t)loop->list->count;
    if (span_is(name, "index0"))
        *out = jinja_int(index);
    else if (span_is(name, "index"))
        *out = jinja_int(index + 1);
    else if (span_is(name, "first"))
        *out = jinja_bool(index == 0);
    else if (span_is(name, "last"))
        *out = jinja_bool(index + 1 >= count);
    else if (span_is(name, "length"))
        *out = jinja_int(count);
    else if (span_is(name, "revindex"))
        *out = jinja_int(count - index);
    else if (span_is(name, "revindex0"))
        *out = jinja_int(count - index - 1);
    else if (span_is(name, "depth"))
        *out = jinja_int(loop->depth0 + 1);
    else if (span_is(name, "depth0"))
        *out = jinja_int(loop->depth0);
    else if (span_is(name, "previtem"))
        *out = index > 0 && index <= count ? loop->list->items[index - 1]
                                           : jinja_undefined(r, "there is no previous item");
    else if (span_is(name, "nextitem"))
        *out = index + 1 < count ? loop->list->items[index + 1] : jinja_undefined(r, "there is no next item");
    else
        return false;
    return true;
}

static jinja_value cycler_next(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)r, (void)a, (void)args;
    jinja_object *o = self.object;
    return o->items->items[o->at++ % o->items->count];
}

static jinja_value cycler_reset(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)
{
    (void)r, (void)a, (void)args;
    self.object->at = 0;
    return jinja_none();
}

static const jinja_function cycler_methods[] = {
    {"next", cycler_next, "", 0, {0}},
    {"reset", cycler_reset, "", 0, {0}},
};

static const char *const number_names[] = {"real",       "imag",      "numerator",       "denominator", "conjugate",
                                           "bit_length", "bit_count", "to_bytes",        "from_bytes",  "is_integer",
                                           "hex",        "fromhex",   "as_integer_ratio"};

static bool number_attribute(jinja_render *r, jinja_value self, span name, jinja_value *out)
{
    static const jinja_function other = {"number method", not_supported, "*", 0, {0}};
    (void)r;
    if (span_is(name, "real") || (span_is(name, "numerator") && self.type != V_FLOAT))
        *out = self.type == V_BOOL ? jinja_int(self.boolean) : self;
    else if (span_is(name, "imag"))
        *out = self.type == V_FLOAT ? jinja_float(0) : jinja_int(0);
    else if (span_is(name, "denominator") && self.type != V_FLOAT)
        *out = jinja_int(1);
    else {
        bool known = false;
        for (size_t i = 0; i < sizeof number_names / sizeof *number_names; i++) {
            bool of_float = i >= 9, of_both = i < 2 || i == 4 || i == 12;
            if (of_both || of_float == (self.type == V_FLOAT))
                known |= span_is(name, number_names[i]);
        }
        if (known)
            *out = (jinja_value){.type = V_FUNCTION, .function = &other};
        return known;
    }
    return true;
}

static bool macro_attribute(jinja_render *r, const jinja_macro *m, span name, jinja_value *out)
{
    if (span_is(name, "name")) {
        *out = m->name ? jinja_of_string(jinja_string_borrow(&r->arena, m->name->text, true)) : jinja_none();
        return true;
    }
    if (span_is(name, "arguments")) {
        jinja_list *names = jinja_list_new(r, LIST_TUPLE, m->params->count);
        for (uint32_t i = 0; i < m->params->count; i++)
            jinja_list_push(r, names, jinja_of_string(jinja_string_borrow(&r->arena, m->params->names[i]->text, true)));
        *out = jinja_of_list(names);
        return true;
    }
    *out = jinja_bool(span_is(name, "caller")         ? m->params->uses_caller
                      : span_is(name, "catch_kwargs") ? m->params->uses_kwargs
                                                      : m->params->uses_varargs);
    return span_is(name, "caller") || span_is(name, "catch_kwargs") || span_is(name, "catch_varargs");
}

static bool bind_method(jinja_render *r, jinja_value self, const jinja_function *found, jinja_value *out)
{
    if (!found)
        return false;
    jinja_function *bound = jinja_alloc(&r->arena, sizeof *bound);
    *bound = *found;
    bound->self = self;
    *out = (jinja_value){.type = V_FUNCTION, .function = bound};
    return true;
}

bool jinja_method(jinja_render *r, jinja_value self, span name, jinja_value *out)
{
    jinja_value *found;
    switch (self.type) {
    case V_STRING:
        return bind_method(r, self, jinja_find_in(jinja_string_methods, jinja_string_method_count, name), out);
    case V_DICT:
        return bind_method(r, self, jinja_find_in(dict_methods, sizeof dict_methods / sizeof *dict_methods, name), out);
    case V_LIST:
        if (self.list->kind <= LIST_RANGE) {
            size_t count = self.list->kind == LIST_LIST ? sizeof list_methods / sizeof *list_methods : 2;
            return bind_method(r, self, jinja_find_in(list_methods, count, name), out);
        }
        return false;
    case V_BOOL:
    case V_INT:
    case V_BIG:
    case V_FLOAT:
        return number_attribute(r, self, name, out);
    case V_NAMESPACE:
        if ((found = jinja_dict_find(r, self.dict, name)))
            *out = *found;
        return found != NULL;
    case V_LOOP:
        return loop_attribute(r, self.loop, name, out) ||
               bind_method(r, self, jinja_find_in(loop_methods, 2, name), out);
    case V_MACRO:
        return macro_attribute(r, self.macro, name, out);
    case V_OBJECT:
        if (self.object->is_joiner)
            return false;
        if (span_is(name, "current")) {
            *out = self.object->items->items[self.object->at % self.object->items->count];
            return true;
        }
        return bind_method(r, self, jinja_find_in(cycler_methods, 2, name), out);
    default:
        return false;
    }
}
