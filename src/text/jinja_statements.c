/* text/jinja_statements.c: statements of the template language, and the whole template. */
#include <stdio.h>

#include "text/jinja_parser.h"
#include "text/jinja_unicode.h"

static jinja_body parse_until(jinja_parser *p, const char *const *ends, const char *opener, uint32_t line);

static const char *const end_of_if[] = {"elif", "else", "endif", NULL};
static const char *const end_of_for[] = {"endfor", "else", NULL};

static void add_body(jinja_parser *p, jinja_node *node, jinja_body body)
{
    node->bodies = jinja_grow(p->arena, node->bodies, node->body_count * sizeof *node->bodies,
                              (node->body_count + 1) * sizeof *node->bodies);
    node->bodies[node->body_count++] = body;
}

/* The rest of an opening tag, the body, and the closing word; the caller's statement loop takes the "%}" behind it. */
static jinja_body parse_body(jinja_parser *p, const char *const *ends, const char *opener, uint32_t line)
{
    jinja_skip(p, TOK_COLON);
    jinja_expect(p, TOK_BLOCK_END, "'%}'");
    return parse_until(p, ends, opener, line);
}

static jinja_body parse_simple_body(jinja_parser *p, const char *end, const char *opener, uint32_t line)
{
    const char *const ends[] = {end, NULL};
    jinja_body body = parse_body(p, ends, opener, line);
    jinja_next(p);
    return body;
}

static jinja_node *parse_if(jinja_parser *p, uint32_t line)
{
    jinja_node *node = jinja_node_new(p, NODE_IF, line);
    jinja_node_list tests = {0};
    for (;;) {
        jinja_node_push(p, &tests, jinja_parse_tuple(p, false, NULL, false));
        add_body(p, node, parse_body(p, end_of_if, "if", line));
        if (jinja_skip_name(p, "elif"))
            continue;
        if (jinja_skip_name(p, "else"))
            add_body(p, node, parse_simple_body(p, "endif", "if", line));
        else
            jinja_next(p);
        break;
    }
    jinja_set_items(node, &tests);
    return node;
}

static jinja_node *parse_for(jinja_parser *p, uint32_t line)
{
    jinja_node *node = jinja_node_new(p, NODE_FOR, line);
    node->a = jinja_parse_target(p, "in", false);
    if (!jinja_skip_name(p, "in"))
        jinja_unexpected(p, "'in'");
    node->b = jinja_parse_tuple(p, false, "recursive", false);
    if (jinja_skip_name(p, "if"))
        node->c = jinja_parse_expression(p, true);
    node->flag = jinja_skip_name(p, "recursive");
    p->loop_depth++;
    add_body(p, node, parse_body(p, end_of_for, "for", line));
    p->loop_depth--;
    if (jinja_skip_name(p, "else"))
        add_body(p, node, parse_simple_body(p, "endfor", "for", line));
    else
        jinja_next(p);
    return node;
}

static jinja_node *parse_set(jinja_parser *p, uint32_t line)
{
    jinja_node *target = jinja_parse_target(p, NULL, true);
    jinja_node *node = jinja_node_new(p, NODE_SET, line);
    node->a = target;
    if (jinja_skip(p, TOK_ASSIGN)) {
        node->b = jinja_parse_tuple(p, true, NULL, false);
        return node;
    }
    node->kind = NODE_SET_BLOCK;
    node->b = jinja_parse_filters(p, NULL, false);
    add_body(p, node, parse_simple_body(p, "endset", "set", line));
    return node;
}

static void parse_signature(jinja_parser *p, jinja_params *params)
{
    jinja_node_list defaults = {0};
    bool has_default = false;
    jinja_expect(p, TOK_LPAREN, "'('");
    while (!jinja_at(p, TOK_RPAREN)) {
        if (params->count)
            jinja_expect(p, TOK_COMMA, "',' or ')'");
        size_t size = params->count * sizeof *params->names;
        const jinja_name *name = jinja_expect_name(p, "the name of a parameter");
        params->names = jinja_grow(p->arena, params->names, size, size + sizeof *params->names);
        params->names[params->count++] = name;
        jinja_node *value = NULL;
        if (jinja_skip(p, TOK_ASSIGN)) {
            value = jinja_parse_expression(p, true);
            has_default = true;
        } else if (has_default) {
            jinja_syntax_error(p->arena, jinja_peek(p)->line, "non-default argument follows default argument");
        }
        jinja_node_push(p, &defaults, value);
    }
    jinja_expect(p, TOK_RPAREN, "')'");
    params->defaults = defaults.nodes;
}

/* The body of a macro or call block: notes which of the special names it reads. Loops outside do not reach into it. */
static void parse_macro_body(jinja_parser *p, jinja_node *node, const char *end, const char *opener)
{
    bool varargs = p->saw_varargs, kwargs = p->saw_kwargs, caller = p->saw_caller;
    uint32_t loop_depth = p->loop_depth;
    p->saw_varargs = p->saw_kwargs = p->saw_caller = false;
    p->loop_depth = 0;
    add_body(p, node, parse_simple_body(p, end, opener, node->line));
    node->params->uses_varargs = p->saw_varargs;
    node->params->uses_kwargs = p->saw_kwargs;
    node->params->uses_caller = p->saw_caller;
    p->saw_varargs |= varargs;
    p->saw_kwargs |= kwargs;
    p->saw_caller |= caller;
    p->loop_depth = loop_depth;
}

static jinja_node *parse_macro(jinja_parser *p, uint32_t line)
{
    jinja_node *node = jinja_node_new(p, NODE_MACRO, line);
    node->params = jinja_alloc(p->arena, sizeof *node->params);
    node->name = jinja_expect_name(p, "the name of a macro");
    parse_signature(p, node->params);
    parse_macro_body(p, node, "endmacro", "macro");
    return node;
}

static jinja_node *parse_call_block(jinja_parser *p, uint32_t line)
{
    jinja_node *node = jinja_node_new(p, NODE_CALL_BLOCK, line);
    node->params = jinja_alloc(p->arena, sizeof *node->params);
    if (jinja_at(p, TOK_LPAREN))
        parse_signature(p, node->params);
    node->a = jinja_parse_expression(p, true);
    if (node->a->kind != NODE_CALL)
        jinja_syntax_error(p->arena, line, "expected call");
    parse_macro_body(p, node, "endcall", "call");
    return node;
}

static jinja_node *parse_filter_block(jinja_parser *p, uint32_t line)
{
    jinja_node *node = jinja_node_new(p, NODE_FILTER_BLOCK, line);
    node->b = jinja_parse_filters(p, NULL, true);
    add_body(p, node, parse_simple_body(p, "endfilter", "filter", line));
    return node;
}

static jinja_node *parse_with(jinja_parser *p, uint32_t line)
{
    jinja_node *node = jinja_node_new(p, NODE_WITH, line);
    jinja_node_list items = {0};
    while (!jinja_at(p, TOK_BLOCK_END)) {
        if (items.count)
            jinja_expect(p, TOK_COMMA, "',' or '%}'");
        jinja_node_push(p, &items, jinja_parse_target(p, NULL, false));
        jinja_expect(p, TOK_ASSIGN, "'='");
        jinja_node_push(p, &items, jinja_parse_expression(p, true));
    }
    jinja_set_items(node, &items);
    add_body(p, node, parse_simple_body(p, "endwith", "with", line));
    return node;
}

/* {% generation %} marks what the model wrote: a call block with its own scope, out of reach of loop controls. */
static jinja_node *parse_generation(jinja_parser *p, uint32_t line)
{
    jinja_node *node = jinja_node_new(p, NODE_SCOPE, line);
    uint32_t loop_depth = p->loop_depth;
    p->loop_depth = 0;
    add_body(p, node, parse_simple_body(p, "endgeneration", "generation", line));
    p->loop_depth = loop_depth;
    return node;
}

static jinja_node *parse_autoescape(jinja_parser *p, uint32_t line)
{
    jinja_node *node = jinja_node_new(p, NODE_SCOPE, line);
    node->a = jinja_parse_expression(p, true);
    add_body(p, node, parse_simple_body(p, "endautoescape", "autoescape", line));
    bool off = node->a->kind == NODE_CONST && node->a->value.type == V_BOOL && !node->a->value.boolean;
    if (!off)
        jinja_syntax_error(p->arena, line, "autoescape is not supported");
    return node;
}

static jinja_node *parse_block(jinja_parser *p, uint32_t line)
{
    jinja_node *node = jinja_node_new(p, NODE_SCOPE, line);
    const jinja_name *name = jinja_expect_name(p, "the name of a block");
    node->flag = !jinja_skip_name(p, "scoped");
    if (jinja_skip_name(p, "required"))
        jinja_syntax_error(p->arena, line, "required blocks need template inheritance, which is not supported");
    uint32_t loop_depth = p->loop_depth;
    p->loop_depth = 0;
    add_body(p, node, parse_simple_body(p, "endblock", "block", line));
    p->loop_depth = loop_depth;
    jinja_skip_name(p, name->text.data);
    return node;
}

static jinja_node *parse_print(jinja_parser *p, uint32_t line)
{
    jinja_node *node = jinja_node_new(p, NODE_PRINT, line);
    jinja_node_list items = {0};
    while (!jinja_at(p, TOK_BLOCK_END)) {
        if (items.count)
            jinja_expect(p, TOK_COMMA, "',' or '%}'");
        jinja_node_push(p, &items, jinja_parse_expression(p, true));
    }
    jinja_set_items(node, &items);
    return node;
}

static jinja_node *parse_do(jinja_parser *p, uint32_t line)
{
    jinja_node *node = jinja_node_new(p, NODE_DO, line);
    node->a = jinja_parse_tuple(p, true, NULL, false);
    return node;
}

static jinja_node *parse_loop_control(jinja_parser *p, uint32_t line)
{
    bool is_break = span_is(p->tokens[p->at - 1].text, "break");
    if (!p->loop_depth)
        jinja_syntax_error(p->arena, line, "'%s' outside a loop", is_break ? "break" : "continue");
    return jinja_node_new(p, is_break ? NODE_BREAK : NODE_CONTINUE, line);
}

/* include, import, from, extends: a chat template is one file. They fail when reached, as a missing file would. */
static jinja_node *parse_foreign(jinja_parser *p, uint32_t line)
{
    char text[128];
    span word = p->tokens[p->at - 1].text;
    int size =
        snprintf(text, sizeof text, "'%.*s' is not supported: a chat template is one file", (int)word.size, word.data);
    while (!jinja_at(p, TOK_BLOCK_END) && !jinja_at(p, TOK_EOF))
        jinja_next(p);
    span message = span_of(jinja_grow(p->arena, text, (size_t)size + 1, (size_t)size + 1), (size_t)size);
    return jinja_string_node(p, NODE_FAIL, line, message);
}

static const struct {
    const char *name;
    jinja_node *(*parse)(jinja_parser *p, uint32_t line);
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"generation", parse_generation},
    {"autoescape", parse_autoescape},
    {"block", parse_block},
    {"print", parse_print},
    {"do", parse_do},
    {"break", parse_loop_control},
    {"continue", parse_loop_control},
    {"include", parse_foreign},
    {"import", parse_foreign},
    {"from", parse_foreign},
    {"extends", parse_foreign},
};

static jinja_node *parse_statement(jinja_parser *p)
{
    const jinja_token *token = jinja_expect(p, TOK_NAME, "the name of a tag");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (span_is(token->text, statements[i].name))
            return statements[i].parse(p, token->line);
    int size = token->text.size > 60 ? 60 : (int)token->text.size;
    jinja_syntax_error(p->arena, token->line, "Encountered unknown tag '%.*s'", size, token->text.data);
}

static bool at_end_word(const jinja_parser *p, const char *const *ends)
{
    for (size_t i = 0; ends && ends[i]; i++)
        if (jinja_at_name(p, ends[i]))
            return true;
    return false;
}

/* Statements up to one of the words in `ends` (the word is left to the caller), or to the end when `ends` is NULL. */
static jinja_body parse_until(jinja_parser *p, const char *const *ends, const char *opener, uint32_t line)
{
    jinja_node_list list = {0};
    jinja_descend(p);
    while (!jinja_at(p, TOK_EOF)) {
        const jinja_token *token = jinja_next(p);
        if (token->type == TOK_DATA) {
            jinja_node_push(p, &list, jinja_string_node(p, NODE_DATA, token->line, token->text));
        } else if (token->type == TOK_VARIABLE_BEGIN) {
            jinja_node *print = jinja_node_new(p, NODE_PRINT, token->line);
            jinja_node_list items = {0};
            jinja_node_push(p, &items, jinja_parse_tuple(p, true, NULL, false));
            jinja_expect(p, TOK_VARIABLE_END, "'}}'");
            jinja_set_items(print, &items);
            jinja_node_push(p, &list, print);
        } else { /* TOK_BLOCK_BEGIN */
            if (at_end_word(p, ends)) {
                p->depth--;
                return (jinja_body){list.nodes, list.count};
            }
            jinja_node_push(p, &list, parse_statement(p));
            jinja_expect(p, TOK_BLOCK_END, "'%}'");
        }
    }
    if (ends)
        jinja_syntax_error(p->arena, jinja_peek(p)->line,
                           "unexpected end of template: '%s' of line %u is not closed (looking for '%s')", opener, line,
                           ends[0]);
    p->depth--;
    return (jinja_body){list.nodes, list.count};
}

void jinja_parse(jinja_tree *out, jinja_arena *arena, span source)
{
    jinja_tokens tokens = jinja_lex(arena, source);
    jinja_parser p = {.arena = arena, .names = &out->names, .tokens = tokens.tokens};
    out->loop = jinja_intern(arena, &out->names, span_from("loop"));
    out->caller = jinja_intern(arena, &out->names, span_from("caller"));
    out->varargs = jinja_intern(arena, &out->names, span_from("varargs"));
    out->kwargs = jinja_intern(arena, &out->names, span_from("kwargs"));
    out->body = parse_until(&p, NULL, "", 0);
}
