/* text/jinja_parser.h: what the two halves of the parser (expressions, statements) share. Private to them. */
#ifndef HEADWAY_TEXT_JINJA_PARSER_H
#define HEADWAY_TEXT_JINJA_PARSER_H

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

enum { JINJA_PARSE_DEPTH_MAX = 150, JINJA_CHAIN_MAX = 400 };

typedef struct {
    jinja_arena *arena;
    jinja_names *names;
    const jinja_token *tokens;
    size_t at;
    uint32_t depth, loop_depth;
    bool saw_varargs, saw_kwargs, saw_caller; /* in the macro being parsed */
} jinja_parser;

typedef struct {
    jinja_node **nodes;
    uint32_t count, capacity;
} jinja_node_list;

static inline const jinja_token *jinja_peek(const jinja_parser *p)
{
    return &p->tokens[p->at];
}
static inline const jinja_token *jinja_next(jinja_parser *p)
{
    const jinja_token *token = &p->tokens[p->at];
    if (token->type != TOK_EOF)
        p->at++;
    return token;
}
static inline bool jinja_at(const jinja_parser *p, jinja_token_type type)
{
    return jinja_peek(p)->type == type;
}
static inline bool jinja_at_name(const jinja_parser *p, const char *name)
{
    return jinja_at(p, TOK_NAME) && span_is(jinja_peek(p)->text, name);
}
bool jinja_skip(jinja_parser *p, jinja_token_type type);
bool jinja_skip_name(jinja_parser *p, const char *name);
const jinja_token *jinja_expect(jinja_parser *p, jinja_token_type type, const char *what);
_Noreturn void jinja_unexpected(jinja_parser *p, const char *wanted);

jinja_node *jinja_node_new(jinja_parser *p, jinja_node_kind kind, uint32_t line);
void jinja_node_push(jinja_parser *p, jinja_node_list *list, jinja_node *node);
void jinja_set_items(jinja_node *node, const jinja_node_list *list);
const jinja_name *jinja_expect_name(jinja_parser *p, const char *what);

jinja_node *jinja_parse_expression(jinja_parser *p, bool with_choice);
/* Expressions with commas between; `end_name` (NULL allowed) is a word that ends the tuple too. */
jinja_node *jinja_parse_tuple(jinja_parser *p, bool with_choice, const char *end_name, bool in_parentheses);
jinja_node *jinja_parse_target(jinja_parser *p, const char *end_name, bool with_namespace);
jinja_node *jinja_parse_filters(jinja_parser *p, jinja_node *node, bool start_inline);
jinja_node *jinja_string_node(jinja_parser *p, jinja_node_kind kind, uint32_t line, span text);
void jinja_descend(jinja_parser *p);

#endif
