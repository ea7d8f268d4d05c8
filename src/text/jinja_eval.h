/* text/jinja_eval.h: one rendering of a template, shared by the evaluator, the filters, tests, methods and globals.
 * Owner: chat_template_render, on its stack. One thread. Failures jump out through `trap`. */
#ifndef HEADWAY_TEXT_JINJA_EVAL_H
#define HEADWAY_TEXT_JINJA_EVAL_H

#include <jansson.h>

#include "text/jinja_ast.h"

/* A rendering of the largest conversation that a server takes (some MB) needs a small part of each. */
enum {
    JINJA_STEPS_MAX = 50 * 1000 * 1000, /* nodes evaluated, plus one for each 64 bytes touched: about 2 s */
    JINJA_DEPTH_MAX = 900,              /* nested evaluations: under 1 MB of stack */
    JINJA_VALUE_DEPTH_MAX = 200,        /* lists in lists, here and in the JSON of a request */
    JINJA_ITEMS_MAX = 100 * 1000,       /* range() */
    JINJA_MEMORY_MAX = 256 << 20,
    JINJA_OUTPUT_MAX = 32 << 20,
};

typedef struct jinja_scope jinja_scope;
typedef struct {
    const jinja_name *name;
    jinja_value value;
} jinja_binding;

struct jinja_scope {
    jinja_scope *parent;
    jinja_binding *bindings;
    uint32_t count, capacity;
    bool captured; /* a macro or an inner scope that outlives an iteration points here */
};

typedef struct {
    jinja_value *values;
    uint32_t count;
    const jinja_name **names;
    jinja_value *named;
    uint32_t named_count;
} jinja_args;

struct jinja_render {
    jinja_trap trap;
    jinja_arena arena;
    const jinja_tree *tree;
    json_t *variables;
    uint64_t now_unix;
    uint64_t steps;
    uint32_t depth, value_depth, line;
    jinja_scope globals;  /* converted variables of the request, by use */
    jinja_scope root;     /* what the template sets at its top level */
    jinja_builder *out;   /* where statements print */
    jinja_string *result; /* the whole output, once rendered */
    bool raised;
};

struct jinja_macro {
    const jinja_name *name; /* NULL: the body of a call block */
    const jinja_params *params;
    jinja_body body;
    jinja_scope *scope; /* where it was defined */
};

/* A native function: `bound` holds the parameters of `signature`, in order, V_MISSING where absent. */
typedef jinja_value jinja_native(jinja_render *r, jinja_value self, jinja_value *bound, const jinja_args *args);
enum { V_MISSING = 255, JINJA_PARAMS_MAX = 8 };

struct jinja_function {
    const char *name;
    jinja_native *call;
    const char *signature; /* "width,first,blank"; "*": takes what comes, reads `args` itself */
    int required;
    jinja_value self;
};

struct jinja_loop {
    jinja_list *list;
    size_t index;
    uint32_t depth0;
    bool is_recursive;
    const jinja_node *node;
    jinja_scope *scope;       /* outside the loop */
    jinja_value last_changed; /* V_MISSING before the first call */
};

struct jinja_object {
    bool is_joiner;
    jinja_list *items; /* cycler */
    size_t at;
    bool used;
    jinja_value separator; /* joiner */
};

_Noreturn void jinja_fail(jinja_render *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void jinja_limit(jinja_render *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void jinja_undefined_error(jinja_render *r, jinja_value v);
void jinja_charge(jinja_render *r, uint64_t steps);
void jinja_enter_value(jinja_render *r);
static inline void jinja_leave_value(jinja_render *r)
{
    r->value_depth--;
}

jinja_value jinja_undefined(jinja_render *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *jinja_text(jinja_render *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* expressions and statements (jinja_eval.c, jinja_exec.c) */
jinja_value jinja_eval(jinja_render *r, jinja_scope *scope, const jinja_node *node);
typedef enum { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } jinja_flow;
jinja_flow jinja_exec(jinja_render *r, jinja_scope *scope, const jinja_body *body);
jinja_value jinja_capture(jinja_render *r, jinja_scope *scope, const jinja_body *body); /* what the body prints */
jinja_args jinja_eval_args(jinja_render *r, jinja_scope *scope, const jinja_arguments *a);
jinja_value jinja_apply_filter(jinja_render *r, jinja_scope *scope, const jinja_node *filter, jinja_value input);
jinja_value jinja_call(jinja_render *r, jinja_value callee, const jinja_args *args);
jinja_value jinja_call_macro(jinja_render *r, const jinja_macro *macro, const jinja_args *args);
jinja_value jinja_loop_again(jinja_render *r, const jinja_loop *loop, jinja_value items); /* loop(items) */
jinja_value *jinja_scope_find(jinja_scope *scope, const jinja_name *name);                /* this scope only */
void jinja_scope_set(jinja_render *r, jinja_scope *scope, const jinja_name *name, jinja_value value);
jinja_value jinja_from_json(jinja_render *r, json_t *json, bool trusted);

/* operators (jinja_ops.c) */
jinja_value jinja_binary(jinja_render *r, int op, jinja_value a, jinja_value b);
jinja_value jinja_negate(jinja_render *r, jinja_value v, bool minus);
jinja_value jinja_slice(jinja_render *r, jinja_value v, const jinja_value part[3]);
jinja_value jinja_get_item(jinja_render *r, jinja_value v, jinja_value key);
jinja_value jinja_get_attr(jinja_render *r, jinja_value v, const jinja_name *name);
jinja_value jinja_get_path(jinja_render *r, jinja_value v, jinja_value path); /* "a.b.0" or a number */

/* tables */
jinja_value jinja_native_call(jinja_render *r, const jinja_function *f, jinja_value self, const jinja_args *args);
const jinja_function *jinja_find_filter(span name);
const jinja_function *jinja_find_test(span name);
const jinja_function *jinja_find_global(span name);
bool jinja_method(jinja_render *r, jinja_value self, span name, jinja_value *out); /* false: no such attribute */
const jinja_function *jinja_find_in(const jinja_function *table, size_t count, span name);
extern const jinja_function jinja_text_filters[], jinja_list_filters[];
extern const size_t jinja_text_filter_count, jinja_list_filter_count;
extern const jinja_function jinja_string_methods[];
extern const size_t jinja_string_method_count;

/* argument helpers for natives */
static inline bool jinja_given(jinja_value v)
{
    return v.type != V_MISSING;
}
bool jinja_arg_bool(jinja_render *r, jinja_value v, bool otherwise);
int64_t jinja_arg_int(jinja_render *r, jinja_value v, int64_t otherwise, const char *what);
jinja_string *jinja_arg_str(jinja_render *r, jinja_value v, const char *what); /* a str or an error */

/* text helpers (jinja_strings.c) */
jinja_string *jinja_escape(jinja_render *r, jinja_value v); /* Markup; what is Markup already stays */
jinja_string *jinja_change_string(jinja_render *r, const jinja_string *s, int change); /* jinja_change */
enum { CHANGE_UPPER, CHANGE_LOWER, CHANGE_TITLE, CHANGE_CAPITALIZE, CHANGE_SWAP, CHANGE_FILTER_TITLE };
jinja_string *jinja_replace(jinja_render *r, const jinja_string *s, const jinja_string *from, const jinja_string *to,
                            int64_t count);
jinja_string *jinja_repeat(jinja_render *r, const jinja_string *s, int64_t times);
jinja_string *jinja_join(jinja_render *r, const jinja_string *separator, jinja_list *items, bool only_strings);
jinja_string *jinja_percent(jinja_render *r, jinja_string *format, jinja_value args);            /* format % args */
jinja_string *jinja_brace_format(jinja_render *r, jinja_string *format, const jinja_args *args); /* format.format() */
size_t jinja_search(span text, span what, size_t from); /* byte offset or SIZE_MAX */
bool jinja_parse_int(span text, int base, int64_t *out);
bool jinja_parse_float(span text, double *out);

#endif
