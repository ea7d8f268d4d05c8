/* text/jinja_exec.c: statements, loops, macros. Each scope is a small list of names; the chain of scopes is the nesting
 * of the template. A loop reuses its scope from one iteration to the next unless a macro holds on to it. */
#include "text/jinja_eval.h"

static jinja_scope *scope_new(jinja_render *r, jinja_scope *parent)
{
    jinja_scope *scope = jinja_alloc(&r->arena, sizeof *scope);
    scope->parent = parent;
    return scope;
}

static void capture_scopes(jinja_scope *scope)
{
    for (; scope && !scope->captured; scope = scope->parent)
        scope->captured = true;
}

/* ---- assignment ---- */

static void assign_attribute(jinja_render *r, jinja_scope *scope, const jinja_node *target, jinja_value value)
{
    jinja_node name = {.kind = NODE_NAME, .line = target->line, .name = target->name};
    jinja_value object = jinja_eval(r, scope, &name);
    if (object.type != V_NAMESPACE)
        jinja_fail(r, "cannot assign attribute on non-namespace object");
    jinja_dict_put(r, object.dict, target->value, value);
}

static void assign(jinja_render *r, jinja_scope *scope, const jinja_node *target, jinja_value value)
{
    if (target->kind == NODE_NAME) {
        jinja_scope_set(r, scope, target->name, value);
        return;
    }
    if (target->kind == NODE_NSREF) {
        assign_attribute(r, scope, target, value);
        return;
    }
    jinja_list *items = jinja_iterate(r, value);
    if (items->count > target->item_count)
        jinja_fail(r, "too many values to unpack (expected %u)", target->item_count);
    if (items->count < target->item_count)
        jinja_fail(r, "not enough values to unpack (expected %u, got %zu)", target->item_count, items->count);
    for (uint32_t i = 0; i < target->item_count; i++)
        assign(r, scope, target->items[i], items->items[i]);
}

/* ---- printing ---- */

static void print_value(jinja_render *r, const jinja_node *node, jinja_value value)
{
    if (node->kind == NODE_CONST && value.type != V_STRING) {
        const jinja_string *text = jinja_to_string(r, value); /* a number written in the template is the template's */
        jinja_put(r->out, text->text.data, text->text.size, true);
    } else {
        jinja_put_value(r->out, value);
    }
    if (jinja_built_size(r->out) > JINJA_OUTPUT_MAX)
        jinja_limit(r, "output of more than %d MB", JINJA_OUTPUT_MAX >> 20);
}

jinja_value jinja_capture(jinja_render *r, jinja_scope *scope, const jinja_body *body)
{
    jinja_builder text, *outer = r->out;
    jinja_build(&text, r);
    r->out = &text;
    jinja_exec(r, scope, body);
    r->out = outer;
    return jinja_of_string(jinja_built(&text));
}

static jinja_value apply_filters(jinja_render *r, jinja_scope *scope, const jinja_node *filter, jinja_value input)
{
    if (filter->a)
        input = apply_filters(r, scope, filter->a, input);
    return jinja_apply_filter(r, scope, filter, input);
}

/* ---- loops ---- */

static jinja_list *filter_items(jinja_render *r, jinja_scope *scope, const jinja_node *node, jinja_list *items)
{
    jinja_list *kept = jinja_list_new(r, LIST_LIST, 0);
    for (size_t i = 0; i < items->count; i++) {
        jinja_scope *inner = scope_new(r, scope);
        jinja_value item = items->items[i];
        assign(r, inner, node->a, item);
        if (jinja_truth(r, jinja_eval(r, inner, node->c)))
            jinja_list_push(r, kept, item);
    }
    return kept;
}

static void run_loop(jinja_render *r, jinja_scope *scope, const jinja_node *node, jinja_value iterable, uint32_t depth0)
{
    jinja_list *items = jinja_iterate(r, iterable);
    if (node->c)
        items = filter_items(r, scope, node, items);
    jinja_loop *loop = jinja_alloc(&r->arena, sizeof *loop);
    *loop = (jinja_loop){.list = items, .depth0 = depth0, .is_recursive = node->flag, .node = node, .scope = scope};
    loop->last_changed.type = V_MISSING;
    jinja_scope *inner = NULL;
    bool completed = false; /* as jinja2 has it: `else` also runs when every iteration broke off */
    for (size_t i = 0; i < items->count; i++) {
        jinja_charge(r, 1);
        if (!inner || inner->captured)
            inner = scope_new(r, scope);
        inner->count = 0;
        loop->index = i;
        jinja_scope_set(r, inner, r->tree->loop, (jinja_value){.type = V_LOOP, .loop = loop});
        assign(r, inner, node->a, items->items[i]);
        jinja_flow flow = jinja_exec(r, inner, &node->bodies[0]);
        if (flow == FLOW_BREAK)
            break;
        completed |= flow == FLOW_ON;
    }
    if (!completed && node->body_count > 1)
        jinja_exec(r, scope_new(r, scope), &node->bodies[1]);
}

jinja_value jinja_loop_again(jinja_render *r, const jinja_loop *loop, jinja_value items)
{
    jinja_builder text, *outer = r->out;
    jinja_build(&text, r);
    r->out = &text;
    run_loop(r, loop->scope, loop->node, items, loop->depth0 + 1);
    r->out = outer;
    return jinja_of_string(jinja_built(&text));
}

/* ---- macros ---- */

static const jinja_value *named_argument(const jinja_args *args, const jinja_name *name)
{
    for (uint32_t i = 0; i < args->named_count; i++)
        if (span_equal(args->names[i]->text, name->text))
            return &args->named[i];
    return NULL;
}

static bool is_parameter(const jinja_params *params, const jinja_name *name)
{
    for (uint32_t i = 0; i < params->count; i++)
        if (span_equal(params->names[i]->text, name->text))
            return true;
    return false;
}

static const char *macro_name(const jinja_macro *macro)
{
    return macro->name ? macro->name->text.data : "caller";
}

/* Fills varargs, kwargs and caller, or refuses what the macro does not take. */
static void bind_special(jinja_render *r, jinja_scope *scope, const jinja_macro *macro, const jinja_args *args)
{
    const jinja_params *params = macro->params;
    bool own_caller = is_parameter(params, r->tree->caller);
    jinja_dict *kwargs = jinja_dict_new(r, 0);
    for (uint32_t i = 0; i < args->named_count; i++) {
        const jinja_name *name = args->names[i];
        if (is_parameter(params, name) || (name == r->tree->caller && params->uses_caller))
            continue;
        if (!params->uses_kwargs)
            jinja_fail(r, "macro '%s' takes no keyword argument '%s'", macro_name(macro), name->text.data);
        jinja_dict_put(r, kwargs, jinja_of_string(jinja_string_borrow(&r->arena, name->text, false)), args->named[i]);
    }
    if (params->uses_kwargs)
        jinja_scope_set(r, scope, r->tree->kwargs, jinja_of_dict(kwargs));
    if (params->uses_caller && !own_caller) {
        const jinja_value *caller = named_argument(args, r->tree->caller);
        jinja_scope_set(r, scope, r->tree->caller, caller ? *caller : jinja_undefined(r, "No caller defined"));
    }
    if (!params->uses_varargs && args->count > params->count)
        jinja_fail(r, "macro '%s' takes not more than %u argument(s)", macro_name(macro), params->count);
    if (params->uses_varargs) {
        jinja_list *rest = jinja_list_new(r, LIST_TUPLE, 0);
        for (uint32_t i = params->count; i < args->count; i++)
            jinja_list_push(r, rest, args->values[i]);
        jinja_scope_set(r, scope, r->tree->varargs, jinja_of_list(rest));
    }
}

jinja_value jinja_call_macro(jinja_render *r, const jinja_macro *macro, const jinja_args *args)
{
    const jinja_params *params = macro->params;
    jinja_scope *scope = scope_new(r, macro->scope);
    bind_special(r, scope, macro, args);
    for (uint32_t i = 0; i < params->count; i++) {
        const jinja_value *named = named_argument(args, params->names[i]);
        jinja_value value;
        if (i < args->count && named)
            jinja_fail(r, "macro '%s' takes no keyword argument '%s'", macro_name(macro), params->names[i]->text.data);
        if (i < args->count)
            value = args->values[i];
        else if (named)
            value = *named;
        else if (params->defaults[i])
            value = jinja_eval(r, scope, params->defaults[i]);
        else
            value = jinja_undefined(r, "parameter '%s' was not provided", params->names[i]->text.data);
        jinja_scope_set(r, scope, params->names[i], value);
    }
    return jinja_capture(r, scope, &macro->body);
}

static jinja_value make_macro(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_macro *macro = jinja_alloc(&r->arena, sizeof *macro);
    *macro = (jinja_macro){.name = node->name, .params = node->params, .body = node->bodies[0], .scope = scope};
    capture_scopes(scope);
    return (jinja_value){.type = V_MACRO, .macro = macro};
}

static void exec_call_block(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_value callee = jinja_eval(r, scope, node->a->a);
    jinja_args args = jinja_eval_args(r, scope, node->a->arguments);
    jinja_value *named = jinja_grow(&r->arena, args.named, args.named_count * sizeof *args.named,
                                    (args.named_count + 1) * sizeof *args.named);
    const jinja_name **names = jinja_grow(&r->arena, args.names, args.named_count * sizeof *args.names,
                                          (args.named_count + 1) * sizeof *args.names);
    named[args.named_count] = make_macro(r, scope, node);
    names[args.named_count] = r->tree->caller;
    args.named = named;
    args.names = names;
    args.named_count++;
    r->line = node->line;
    print_value(r, node, jinja_call(r, callee, &args));
}

/* ---- statements ---- */

static jinja_flow exec_with(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_scope *inner = scope_new(r, scope);
    for (uint32_t i = 0; i + 1 < node->item_count; i += 2) /* values see the outside only */
        assign(r, inner, node->items[i], jinja_eval(r, scope, node->items[i + 1]));
    return jinja_exec(r, inner, &node->bodies[0]);
}

static jinja_flow exec_if(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    for (uint32_t i = 0; i < node->item_count; i++)
        if (jinja_truth(r, jinja_eval(r, scope, node->items[i])))
            return jinja_exec(r, scope, &node->bodies[i]);
    return node->body_count > node->item_count ? jinja_exec(r, scope, &node->bodies[node->item_count]) : FLOW_ON;
}

static void exec_set_block(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_scope *inner = scope_new(r, scope);
    jinja_value value = jinja_capture(r, inner, &node->bodies[0]);
    if (node->b)
        value = apply_filters(r, inner, node->b, value);
    assign(r, scope, node->a, value);
}

static void exec_filter_block(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    jinja_scope *inner = scope_new(r, scope);
    print_value(r, node, apply_filters(r, inner, node->b, jinja_capture(r, inner, &node->bodies[0])));
}

static jinja_flow exec_inner(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    if (!node->flag)
        return jinja_exec(r, scope_new(r, scope), &node->bodies[0]);
    while (scope->parent) /* a block sees the top of the template, not the loop around it */
        scope = scope->parent;
    return jinja_exec(r, scope_new(r, scope), &node->bodies[0]);
}

static jinja_flow exec_node(jinja_render *r, jinja_scope *scope, const jinja_node *node)
{
    switch ((jinja_node_kind)node->kind) {
    case NODE_DATA:
        print_value(r, node, node->value);
        return FLOW_ON;
    case NODE_PRINT:
        for (uint32_t i = 0; i < node->item_count; i++)
            print_value(r, node->items[i], jinja_eval(r, scope, node->items[i]));
        return FLOW_ON;
    case NODE_IF:
        return exec_if(r, scope, node);
    case NODE_FOR:
        run_loop(r, scope, node, jinja_eval(r, scope, node->b), 0);
        return FLOW_ON;
    case NODE_SET:
        assign(r, scope, node->a, jinja_eval(r, scope, node->b));
        return FLOW_ON;
    case NODE_SET_BLOCK:
        exec_set_block(r, scope, node);
        return FLOW_ON;
    case NODE_MACRO:
        jinja_scope_set(r, scope, node->name, make_macro(r, scope, node));
        return FLOW_ON;
    case NODE_CALL_BLOCK:
        exec_call_block(r, scope, node);
        return FLOW_ON;
    case NODE_FILTER_BLOCK:
        exec_filter_block(r, scope, node);
        return FLOW_ON;
    case NODE_WITH:
        return exec_with(r, scope, node);
    case NODE_SCOPE:
        return exec_inner(r, scope, node);
    case NODE_DO:
        jinja_eval(r, scope, node->a);
        return FLOW_ON;
    case NODE_BREAK:
        return FLOW_BREAK;
    case NODE_CONTINUE:
        return FLOW_CONTINUE;
    default:
        jinja_fail(r, "%.*s", (int)node->value.string->text.size, node->value.string->text.data);
    }
}

jinja_flow jinja_exec(jinja_render *r, jinja_scope *scope, const jinja_body *body)
{
    jinja_flow flow = FLOW_ON;
    if (++r->depth > JINJA_DEPTH_MAX)
        jinja_limit(r, "statements and macros nested deeper than %d", JINJA_DEPTH_MAX);
    for (uint32_t i = 0; i < body->count && flow == FLOW_ON; i++) {
        jinja_charge(r, 1);
        r->line = body->nodes[i]->line;
        flow = exec_node(r, scope, body->nodes[i]);
    }
    r->depth--;
    return flow;
}
