/* text/jinja_eval.c: expressions. Walks the tree; every node costs a step and a level of depth. */
#include <stdio.h>

#include "text/chat_json.h"
#include "text/jinja_eval.h"
#include "text/jinja_lexer.h"

/* ---- failures and bounds ---- */

static _Noreturn void fail_at(jinja_render *r, status code, const char *format, va_list args)
{
    char text[400];
    vsnprintf(text, sizeof text, format, args);
    jinja_throw(&r->trap, code, "template line %u: %s", r->line, text);
}

void jinja_fail(jinja_render *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_at(r, ERR_INVALID, format, args);
}

void jinja_limit(jinja_render *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_at(r, ERR_LIMIT, format, args);
}

void jinja_undefined_error(jinja_render *r, jinja_value v)
{
    jinja_fail(r, "%s", v.undefined ? v.undefined : "value is undefined");
}

void jinja_charge(jinja_render *r, uint64_t steps)
{
    r->steps += steps;
    if (r->steps > JINJA_STEPS_MAX)
        jinja_limit(r, "more than %d steps", JINJA_STEPS_MAX);
}

void jinja_enter_value(jinja_render *r)
{
    if (++r->value_depth > JINJA_VALUE_DEPTH_MAX)
        jinja_limit(r, "values nested deeper than %d", JINJA_VALUE_DEPTH_MAX);
}

static char *format_text(jinja_render *r, const char *format, va_list args)
{
    char text[256];
    int size = vsnprintf(text, sizeof text, format, args);
    size_t used = size < 0 ? 0 : (size_t)size < sizeof text ? (size_t)size : sizeof text - 1;
    return jinja_grow(&r->arena, text, used, used + 1);
}

char *jinja_text(jinja_render *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(r, format, args);
    va_end(args);
    return text;
}

jinja_value jinja_undefined(jinja_render *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(r, format, args);
    va_end(args);
    return (jinja_value){.type = V_UNDEFINED, .undefined = text};
}

/* ---- names ---- */

jinja_value *jinja_scope_find(jinja_scope *scope, const jinja_name *name)
{
    for (uint32_t i = 0; i < scope->count; i++)
        if (scope->bindings[i].name == name)
            return &scope->bindings[i].value;
    return NULL;
}

void jinja_scope_set(jinja_render *r, jinja_scope *scope, const jinja_name *name, jinja_value value)
{
    jinja_value *slot = jinja_scope_find(scope, name);
    if (slot) {
        *slot = value;
        return;
    }
    if (scope->count == scope->capacity) {
        uint32_t capacity = scope->capacity ? scope->capacity * 2 : 4;
        scope->bindings = jinja_grow(&r->arena, scope->bindings, scope->count * sizeof *scope->bindings,
                                     capacity * sizeof *scope->bindings);
        scope->capacity = capacity;
    }
    scope->bindings[scope->count++] = (jinja_binding){name, value};
}

jinja_value jinja_from_json(jinja_render *r, json_t *json, bool trusted)
{
    jinja_list *list;
    jinja_dict *dict;
    const char *key;
    size_t size, index;
    json_t *item;
    span text, digits;
    jinja_charge(r, 1);
    switch (json_typeof(json)) {
    case JSON_NULL:
        return jinja_none();
    case JSON_TRUE:
    case JSON_FALSE:
        return jinja_bool(json_is_true(json));
    case JSON_INTEGER:
        return jinja_int(json_integer_value(json));
    case JSON_REAL:
        return jinja_float(json_real_value(json));
    case JSON_STRING:
        text = span_of(json_string_value(json), json_string_length(json));
        digits = chat_json_big_integer(text);
        if (digits.size)
            return (jinja_value){.type = V_BIG, .string = jinja_string_borrow(&r->arena, digits, false)};
        return jinja_of_string(jinja_string_borrow(&r->arena, text, trusted));
    case JSON_ARRAY:
        jinja_enter_value(r);
        list = jinja_list_new(r, LIST_LIST, json_array_size(json));
        json_array_foreach(json, index, item) jinja_list_push(r, list, jinja_from_json(r, item, false));
        jinja_leave_value(r);
        return jinja_of_list(list);
    default:
        jinja_enter_value(r);
        dict = jinja_dict_new(r, json_object_size(json));
        json_object_keylen_foreach(json, key, size, item)
        {
            jinja_value name = jinja_of_string(jinja_string_borrow(&r->arena, span_of(key, size), false));
            jinja_dict_put(r, dict, name, jinja_from_json(r, item, false));
        }
        jinja_leave_value(r);
        return jinja_of_dict(dict);
    }
}

static bool is_token_name(span name)
{
    static const char ending[] = "_token";
    size_t size = sizeof ending - 1;
    return name.size > size && memcmp(name.data + name.size - size, ending, size) == 0;
}

static jinja_value eval_name(jinja_render *r, jinja_scope *scope, const jinja_name *name)
{
    jinja_value *found;
    for (; scope; scope = scope->parent)
        if ((found = jinja_scope_find(scope, name)))
            return *found;
    if ((found = jinja_scope_find(&r->globals, name)))
        return *found;
    json_t *json = r->variables ? json_object_get(r->variables, name->text.data) : NULL;
    if (json) {
        jinja_value value = jinja_from_json(r, json, is_token_name(name->text));
        jinja_scope_set(r, &r->globals, name, value);
        return value;
    }
    const jinja_function *f = jinja_find_global(name->text);
    if (f)
        return (jinja_value){.type = V_FUNCTION, .function = f};
    return jinja_undefined(r, "'%s' is undefined", name->text.data);
}

/* ---- calls ---- */

static void push_named(jinja_render *r, jinja_args *args, uint32_t *capacity, const jinja_name *name, jinja_value value)
{
    for (uint32_t i = 0; i < args->named_count; i++)
        if (span_equal(args->names[i]->text, name->text))
            jinja_fail(r, "got multiple values for keyword argument '%s'", name->text.data);
    if (args->named_count == *capacity) {
        uint32_t count = args->named_count, grown = *capacity ? *capacity * 2 : 4;
        args->names = jinja_grow(&r->arena, args->names, count * sizeof *args->names, grown * sizeof *args->names);
        args->named = jinja_grow(&r->arena, args->named, count * sizeof *args->named, grown * sizeof *args->named);
        *capacity = grown;
    }
    args->names[args->named_count] = name;
    args->named[args->named_count++] = value;
}

static const jinja_name *name_of(jinja_render *r, jinja_value key)
{
    if (key.type != V_STRING)
        jinja_fail(r, "keywords must be strings");
    const jinja_name *name = jinja_find_name(&r->tree->names, key.string->text);
    jinja_names fresh = {0}; /* never spelled in the template: a name of its own */
    return name ? name : jinja_intern(&r->arena, &fresh, key.string->text);
}

jinja_args jinja_eval_args(jinja_render *r, jinja_scope *scope, const jinja_arguments *a)
{
    jinja_args args = {0};
    if (!a)
        return args;
    uint32_t capacity = 0;
    jinja_list *values = jinja_list_new(r, LIST_LIST, a->arg_count);
    for (uint32_t i = 0; i < a->arg_count; i++)
        jinja_list_push(r, values, jinja_eval(r, scope, a->args[i]));
    if (a->star) {
        jinja_list *more = jinja_iterate(r, jinja_eval(r, scope, a->star));
        for (size_t i = 0; i < more->count; i++)
            jinja_list_push(r, values, more->items[i]);
        jinja_charge(r, more->count);
    }
    for (uint32_t i = 0; i < a->keyword_count; i++)
        push_named(r, &args, &capacity, a->names[i], jinja_eval(r, scope, a->values[i]));
    if (a->star_star) {
        jinja_value more = jinja_eval(r, scope, a->star_star);
        if (more.type != V_DICT)
            jinja_fail(r, "argument after ** must be a mapping, not %s", jinja_type_name(more));
        for (size_t i = 0; i < more.dict->count; i++) {
            const jinja_entry *e = &more.dict->entries[i];
            jinja_charge(r, args.named_count + 1);
            if (!e->gone)
                push_named(r, &args, &capacity, name_of(r, e->key), e->value);
        }
    }
    args.values = values->items;
    args.count = (uint32_t)values->count;
    return args;
}

/* Finds where a parameter of the signature stands: its index or -1. */
static int parameter_index(const char *signature, span name, int *count)
{
    int index = 0, found = -1;
    for (const char *at = signature; *at; index++) {
        size_t size = strcspn(at, ",");
        if (span_equal(name, span_of(at, size)))
            found = index;
        at += size + (at[size] == ',');
    }
    *count = index;
    return found;
}

jinja_value jinja_native_call(jinja_render *r, const jinja_function *f, jinja_value self, const jinja_args *args)
{
    jinja_value bound[JINJA_PARAMS_MAX];
    int count;
    if (f->signature[0] == '*')
        return f->call(r, self, NULL, args);
    parameter_index(f->signature, (span){0}, &count);
    for (int i = 0; i < JINJA_PARAMS_MAX; i++)
        bound[i] = (jinja_value){.type = V_MISSING};
    if (args->count > (uint32_t)count)
        jinja_fail(r, "%s takes at most %d argument(s), %u given", f->name, count, args->count);
    for (uint32_t i = 0; i < args->count; i++)
        bound[i] = args->values[i];
    for (uint32_t i = 0; i < args->named_count; i++) {
        int at = parameter_index(f->signature, args->names[i]->text, &count);
        if (at < 0)
            jinja_fail(r, "%s got an unexpected keyword argument '%s'", f->name, args->names[i]->text.data);
        if (jinja_given(bound[at]))
            jinja_fail(r, "%s got multiple values for argument '%s'", f->name, args->names[i]->text.data);
        bound[at] = args->named[i];
    }
    for (int i = 0; i < f->required; i++)
        if (!jinja_given(bound[i]))
            jinja_fail(r, "%s misses an argument: it takes (%s)", f->name, f->signature);
    return f->call(r, self, bound, args);
}

const jinja_function *jinja_find_in(const jinja_function *table, size_t count, span name)
{
    for (size_t i = 0; i < count; i++)
        if (span_is(name, table[i].name))
            return &table[i];
    return NULL;
}

jinja_value jinja_call(jinja_render *r, jinja_value callee, const jinja_args *args)
{
    switch (callee.type) {
    case V_MACRO:
        return jinja_call_macro(r, callee.macro, args);
    case V_FUNCTION:
        return jinja_native_call(r, callee.function, callee.function->self, args);
    case V_LOOP:
        if (!callee.loop->is_recursive)
            jinja_fail(r, "the loop must have the 'recursive' marker to be called");
        if (args->count != 1 || args->named_count)
            jinja_fail(r, "loop() takes one argument");
        return jinja_loop_again(r, callee.loop, args->values[0]);
    case V_OBJECT: /* joiner: nothing the first time */
        if (callee.object->is_joiner) {
            bool first = !callee.object->used;
            callee.object->used = true;
            return first ? jinja_of_string(jinja_string_borrow(&r->arena, span_of("", 0), true))
                         : callee.object->separator;
        }
        break;
    case V_UNDEFINED:
        jinja_undefined_error(r, callee);
    default:
        break;
    }
    jinja_fail(r, "'%s' object is not callable", jinja_type_name(callee));
}

static jinja_value eval_call(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_value callee = jinja_eval(r, scope, node->a);
    jinja_args args = jinja_eval_args(r, scope, node->arguments);
    r->line = node->line;
    return jinja_call(r, callee, &args);
}

jinja_value jinja_apply_filter(jinja_render *r, jinja_scope *scope, const jinja_node *filter, jinja_value input)
{
    const jinja_function *f = jinja_find_filter(filter->name->text);
    if (!f) {
        r->line = filter->line;
        jinja_fail(r, "No filter named '%s' found.", filter->name->text.data);
    }
    jinja_args args = jinja_eval_args(r, scope, filter->arguments);
    r->line = filter->line;
    return jinja_native_call(r, f, input, &args);
}

static jinja_value eval_test(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    const jinja_function *f = jinja_find_test(node->name->text);
    if (!f)
        jinja_fail(r, "No test named '%s' found.", node->name->text.data);
    jinja_value subject = jinja_eval(r, scope, node->a);
    jinja_args args = jinja_eval_args(r, scope, node->arguments);
    r->line = node->line;
    return jinja_native_call(r, f, subject, &args);
}

/* ---- operators ---- */

static bool compare(jinja_render *r, int op, jinja_value a, jinja_value b)
{
    static const char *const names[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    if (op == COMPARE_EQ || op == COMPARE_NE)
        return jinja_equal(r, a, b) == (op == COMPARE_EQ);
    if (op == COMPARE_IN || op == COMPARE_NOT_IN)
        return jinja_contains(r, b, a) == (op == COMPARE_IN);
    int order = jinja_order(r, a, b, names[op]);
    if (order == 2) /* not a number */
        return false;
    return op == COMPARE_LT ? order < 0 : op == COMPARE_LE ? order <= 0 : op == COMPARE_GT ? order > 0 : order >= 0;
}

static jinja_value eval_compare(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_value left = jinja_eval(r, scope, node->a);
    for (uint32_t i = 0; i < node->item_count; i++) {
        jinja_value right = jinja_eval(r, scope, node->items[i]);
        r->line = node->line;
        if (!compare(r, node->ops[i], left, right))
            return jinja_bool(false);
        left = right;
    }
    return jinja_bool(true);
}

static jinja_value eval_concat(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_value first = jinja_eval(r, scope, node->items[0]);
    jinja_string *text = jinja_to_string(r, first);
    if (text->markup) {
        jinja_string *plain = jinja_as_markup(r, text);
        plain->markup = false;
        text = plain;
    }
    for (uint32_t i = 1; i < node->item_count; i++)
        text = jinja_concat(r, text, jinja_to_string(r, jinja_eval(r, scope, node->items[i]))).string;
    return jinja_of_string(text);
}

static jinja_value eval_items(jinja_render *r, jinja_scope *scope, const jinja_node *node, jinja_list_kind kind)
{
    jinja_list *list = jinja_list_new(r, kind, node->item_count);
    for (uint32_t i = 0; i < node->item_count; i++)
        jinja_list_push(r, list, jinja_eval(r, scope, node->items[i]));
    return jinja_of_list(list);
}

static jinja_value eval_dict(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_dict *dict = jinja_dict_new(r, node->item_count / 2);
    for (uint32_t i = 0; i + 1 < node->item_count; i += 2) {
        jinja_value key = jinja_eval(r, scope, node->items[i]);
        jinja_dict_put(r, dict, key, jinja_eval(r, scope, node->items[i + 1]));
    }
    return jinja_of_dict(dict);
}

static jinja_value eval_slice(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_value subject = jinja_eval(r, scope, node->a), part[3];
    for (int i = 0; i < 3; i++)
        part[i] = node->items[i] ? jinja_eval(r, scope, node->items[i]) : jinja_none();
    r->line = node->line;
    return jinja_slice(r, subject, part);
}

static jinja_value eval_choice(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    if (jinja_truth(r, jinja_eval(r, scope, node->b)))
        return jinja_eval(r, scope, node->a);
    if (node->c)
        return jinja_eval(r, scope, node->c);
    return jinja_undefined(r, "the inline if-expression on line %u evaluated to false and no else section was defined",
                           node->line);
}

static jinja_value eval_pair(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_value a = jinja_eval(r, scope, node->a);
    if (node->kind == NODE_AND)
        return jinja_truth(r, a) ? jinja_eval(r, scope, node->b) : a;
    if (node->kind == NODE_OR)
        return jinja_truth(r, a) ? a : jinja_eval(r, scope, node->b);
    jinja_value b = jinja_eval(r, scope, node->b);
    r->line = node->line;
    return node->kind == NODE_ITEM ? jinja_get_item(r, a, b) : jinja_binary(r, node->op, a, b);
}

static jinja_value eval_single(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_value a = jinja_eval(r, scope, node->a);
    r->line = node->line;
    switch (node->kind) {
    case NODE_ATTR:
        return jinja_get_attr(r, a, node->name);
    case NODE_FILTER:
        return jinja_apply_filter(r, scope, node, a);
    case NODE_NOT:
        return jinja_bool(!jinja_truth(r, a));
    default:
        return jinja_negate(r, a, node->kind == NODE_NEG);
    }
}

static jinja_value eval_node(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    switch ((jinja_node_kind)node->kind) {
    case NODE_CONST:
        return node->value;
    case NODE_NAME:
        return eval_name(r, scope, node->name);
    case NODE_TUPLE:
        return eval_items(r, scope, node, LIST_TUPLE);
    case NODE_LIST:
        return eval_items(r, scope, node, LIST_LIST);
    case NODE_DICT:
        return eval_dict(r, scope, node);
    case NODE_SLICE:
        return eval_slice(r, scope, node);
    case NODE_CALL:
        return eval_call(r, scope, node);
    case NODE_TEST:
        return eval_test(r, scope, node);
    case NODE_CONCAT:
        return eval_concat(r, scope, node);
    case NODE_COMPARE:
        return eval_compare(r, scope, node);
    case NODE_CHOICE:
        return eval_choice(r, scope, node);
    case NODE_AND:
    case NODE_OR:
    case NODE_ITEM:
    case NODE_BINARY:
        return eval_pair(r, scope, node);
    default:
        return eval_single(r, scope, node);
    }
}

jinja_value jinja_eval(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_charge(r, 1);
    r->line = node->line;
    if (node->kind == NODE_CONST)
        return node->value;
    if (++r->depth > JINJA_DEPTH_MAX)
        jinja_limit(r, "expressions and macros nested deeper than %d", JINJA_DEPTH_MAX);
    jinja_value value = eval_node(r, scope, node);
    r->depth--;
    return value;
}
