/* text/jinja_ast.h: the syntax tree of a template. Built by jinja_parse in the template's arena, read-only afterwards:
 * any thread may evaluate it. Names are interned: equal names have equal pointers. */
#ifndef HEADWAY_TEXT_JINJA_AST_H
#define HEADWAY_TEXT_JINJA_AST_H

#include "text/jinja_value.h"

typedef enum {
    /* expressions */
    NODE_CONST,   /* value */
    NODE_NAME,    /* name */
    NODE_TUPLE,   /* items */
    NODE_LIST,    /* items */
    NODE_DICT,    /* items: key, value, key, value */
    NODE_ATTR,    /* a.name */
    NODE_ITEM,    /* a[b] */
    NODE_SLICE,   /* a[items[0]:items[1]:items[2]], each may be NULL */
    NODE_CALL,    /* a(args) */
    NODE_FILTER,  /* a | name(args); a is NULL in filter blocks and set blocks */
    NODE_TEST,    /* a is name(args) */
    NODE_NOT,     /* a */
    NODE_NEG,     /* a */
    NODE_POS,     /* a */
    NODE_AND,     /* a, b */
    NODE_OR,      /* a, b */
    NODE_BINARY,  /* op, a, b */
    NODE_CONCAT,  /* items */
    NODE_COMPARE, /* a, then ops[i] items[i] */
    NODE_CHOICE,  /* a if b else c; c may be NULL */
    NODE_NSREF,   /* name.attr as a target; the attr is in value */
    /* statements */
    NODE_DATA,         /* value: text of the template */
    NODE_PRINT,        /* items */
    NODE_IF,           /* items: test, test, …; bodies[i] belongs to items[i]; one more body: else */
    NODE_FOR,          /* target a in b, test c; bodies[0] body, bodies[1] else or NULL; flag: recursive */
    NODE_SET,          /* target a = b */
    NODE_SET_BLOCK,    /* target a, filter b or NULL, bodies[0] */
    NODE_MACRO,        /* name, params, bodies[0] */
    NODE_CALL_BLOCK,   /* a: the call, params, bodies[0] */
    NODE_FILTER_BLOCK, /* b: filter, bodies[0] */
    NODE_WITH,         /* items: target, value, …; bodies[0] */
    NODE_SCOPE, /* bodies[0] in a scope of its own: generation, autoescape; flag: on top of the template's variables
                   (block) */
    NODE_DO,    /* a */
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_FAIL, /* value: the message of a statement that is understood and not supported */
} jinja_node_kind;

typedef struct jinja_node jinja_node;

typedef struct {
    jinja_node **nodes;
    uint32_t count;
} jinja_body;

typedef struct {
    jinja_node **args;
    uint32_t arg_count;
    const jinja_name **names; /* of keyword arguments */
    jinja_node **values;
    uint32_t keyword_count;
    jinja_node *star, *star_star; /* *args, **kwargs; NULL when absent */
} jinja_arguments;

typedef struct {
    const jinja_name **names;
    jinja_node **defaults; /* NULL entry: no default */
    uint32_t count;
    bool uses_varargs, uses_kwargs, uses_caller;
} jinja_params;

struct jinja_node {
    uint8_t kind; /* jinja_node_kind */
    uint8_t op;   /* jinja_token_type of a binary operator */
    bool flag;
    uint32_t line;
    const jinja_name *name;
    jinja_node *a, *b, *c;
    jinja_node **items;
    uint8_t *ops; /* NODE_COMPARE: jinja_compare_op */
    uint32_t item_count;
    jinja_body *bodies;
    uint32_t body_count;
    jinja_value value;
    jinja_arguments *arguments;
    jinja_params *params;
};

typedef enum {
    COMPARE_EQ,
    COMPARE_NE,
    COMPARE_LT,
    COMPARE_LE,
    COMPARE_GT,
    COMPARE_GE,
    COMPARE_IN,
    COMPARE_NOT_IN,
} jinja_compare_op;

typedef struct {
    jinja_body body;
    jinja_names names;
    const jinja_name *loop, *caller, *varargs, *kwargs; /* names with a meaning of their own */
} jinja_tree;

void jinja_parse(jinja_tree *out, jinja_arena *arena, span source); /* jumps through arena->trap on a syntax error */

#endif
