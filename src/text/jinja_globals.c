/* text/jinja_globals.c: the functions that a template finds without asking: jinja2's own and those of transformers. */
#include <time.h>

#include "text/jinja_eval.h"

#define GLOBAL(name) static jinja_value name(jinja_render *r, jinja_value self, jinja_value *a, const jinja_args *args)

GLOBAL(range)
{
    (void)self, (void)args;
    int64_t start = 0, stop = jinja_arg_int(r, a[0], 0, "range argument"),
            step = jinja_arg_int(r, a[2], 1, "range step");
    if (jinja_given(a[1])) {
        start = stop;
        stop = jinja_arg_int(r, a[1], 0, "range argument");
    }
    if (!step)
        jinja_fail(r, "range() arg 3 must not be zero");
    jinja_list *out = jinja_list_new(r, LIST_RANGE, 0);
    out->start = start;
    out->stop = stop;
    out->step = step;
    for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
        if (out->count >= JINJA_ITEMS_MAX)
            jinja_limit(r, "Range too big. The sandbox blocks ranges larger than %d.", JINJA_ITEMS_MAX);
        jinja_charge(r, 1);
        jinja_list_push(r, out, jinja_int(i));
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return jinja_of_list(out);
}

static jinja_dict *fill_dict(jinja_render *r, const jinja_args *args, const char *name)
{
    jinja_dict *d = jinja_dict_new(r, args->named_count);
    if (args->count > 1)
        jinja_fail(r, "%s expected at most 1 argument, got %u", name, args->count);
    if (args->count && args->values[0].type == V_DICT) {
        const jinja_dict *from = args->values[0].dict;
        for (size_t i = 0; i < from->count; i++)
            if (!from->entries[i].gone)
                jinja_dict_put(r, d, from->entries[i].key, from->entries[i].value);
    } else if (args->count) {
        jinja_list *pairs = jinja_iterate(r, args->values[0]);
        for (size_t i = 0; i < pairs->count; i++) {
            jinja_list *pair = jinja_iterate(r, pairs->items[i]);
            if (pair->count != 2)
                jinja_fail(r, "%s update sequence element #%zu has length %zu; 2 is required", name, i, pair->count);
            jinja_dict_put(r, d, pair->items[0], pair->items[1]);
        }
    }
    for (uint32_t i = 0; i < args->named_count; i++)
        jinja_dict_put(r, d, jinja_of_string(jinja_string_borrow(&r->arena, args->names[i]->text, true)),
                       args->named[i]);
    return d;
}

GLOBAL(dict)
{
    (void)self, (void)a;
    return jinja_of_dict(fill_dict(r, args, "dict"));
}

GLOBAL(namespace)
{
    (void)self, (void)a;
    return (jinja_value){.type = V_NAMESPACE, .dict = fill_dict(r, args, "namespace")};
}

GLOBAL(raise_exception)
{
    (void)self, (void)args;
    span text = jinja_to_string(r, a[0])->text;
    size_t size = text.size < sizeof r->trap.err->text ? text.size : sizeof r->trap.err->text - 1;
    while (size < text.size && size > 0 && (text.data[size] & 0xc0) == 0x80) /* cut between characters */
        size--;
    r->raised = true;
    jinja_throw(&r->trap, ERR_INVALID, "%.*s", (int)size, text.data);
}

GLOBAL(strftime_now)
{
    (void)self, (void)args;
    const jinja_string *format = jinja_arg_str(r, a[0], "format");
    char out[1024], copy[256];
    struct tm parts;
    time_t now = (time_t)r->now_unix;
    if (format->text.size + 2 > sizeof copy || memchr(format->text.data ? format->text.data : "", 0, format->text.size))
        jinja_fail(r, "strftime_now: format too long");
    memcpy(copy, format->text.data ? format->text.data : "", format->text.size);
    memcpy(copy + format->text.size, "|", 2); /* so that an empty result differs from a failure */
    if (!localtime_r(&now, &parts))
        jinja_fail(r, "strftime_now: no such time");
    size_t size = strftime(out, sizeof out, copy, &parts);
    if (!size)
        jinja_fail(r, "strftime_now: result too long");
    out[size - 1] = 0;
    return jinja_of_string(jinja_string_copy(r, out));
}

GLOBAL(cycler)
{
    (void)self, (void)a;
    if (!args->count)
        jinja_fail(r, "at least one item has to be provided");
    jinja_object *o = jinja_alloc(&r->arena, sizeof *o);
    o->items = jinja_list_new(r, LIST_TUPLE, args->count);
    for (uint32_t i = 0; i < args->count; i++)
        jinja_list_push(r, o->items, args->values[i]);
    return (jinja_value){.type = V_OBJECT, .object = o};
}

GLOBAL(joiner)
{
    (void)self, (void)args;
    jinja_object *o = jinja_alloc(&r->arena, sizeof *o);
    o->is_joiner = true;
    o->separator = jinja_given(a[0]) ? a[0] : jinja_of_string(jinja_string_borrow(&r->arena, span_of(", ", 2), true));
    return (jinja_value){.type = V_OBJECT, .object = o};
}

static const jinja_function globals[] = {
    {"range", range, "start,stop,step", 1, {0}},
    {"dict", dict, "*", 0, {0}},
    {"namespace", namespace, "*", 0, {0}},
    {"raise_exception", raise_exception, "message", 1, {0}},
    {"strftime_now", strftime_now, "format", 1, {0}},
    {"cycler", cycler, "*", 0, {0}},
    {"joiner", joiner, "sep", 0, {0}},
};

const jinja_function *jinja_find_global(span name)
{
    return jinja_find_in(globals, sizeof globals / sizeof *globals, name);
}
