/* text/jinja_parser.c: expressions of the template language, by recursive descent with jinja2's precedence: choice, or,
 * and, not, comparison, + -, ~, * / // %, **, unary, postfix, filters and tests. */
#include "text/jinja_parser.h"

#include <stdio.h>

#include "text/jinja_unicode.h"

void jinja_unexpected(jinja_parser *p, const char *wanted)
{
    const jinja_token *token = jinja_peek(p);
    if (token->type == TOK_EOF)
        jinja_syntax_error(p->arena, token->line, "unexpected end of template, expected %s", wanted);
    int size = token->text.size > 40 ? 40 : (int)token->text.size;
    jinja_syntax_error(p->arena, token->line, "unexpected '%.*s', expected %s", size, token->text.data, wanted);
}

bool jinja_skip(jinja_parser *p, jinja_token_type type)
{
    if (!jinja_at(p, type))
        return false;
    jinja_next(p);
    return true;
}

bool jinja_skip_name(jinja_parser *p, const char *name)
{
    if (!jinja_at_name(p, name))
        return false;
    jinja_next(p);
    return true;
}

const jinja_token *jinja_expect(jinja_parser *p, jinja_token_type type, const char *what)
{
    if (!jinja_at(p, type))
        jinja_unexpected(p, what);
    return jinja_next(p);
}

const jinja_name *jinja_expect_name(jinja_parser *p, const char *what)
{
    return jinja_intern(p->arena, p->names, jinja_expect(p, TOK_NAME, what)->text);
}

jinja_node *jinja_node_new(jinja_parser *p, jinja_node_kind kind, uint32_t line)
{
    jinja_node *node = jinja_alloc(p->arena, sizeof *node);
    node->kind = (uint8_t)kind;
    node->line = line;
    return node;
}

void jinja_node_push(jinja_parser *p, jinja_node_list *list, jinja_node *node)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 4;
        list->nodes =
            jinja_grow(p->arena, list->nodes, list->count * sizeof *list->nodes, capacity * sizeof *list->nodes);
        list->capacity = capacity;
    }
    list->nodes[list->count++] = node;
}

void jinja_set_items(jinja_node *node, const jinja_node_list *list)
{
    node->items = list->nodes;
    node->item_count = list->count;
}

jinja_node *jinja_string_node(jinja_parser *p, jinja_node_kind kind, uint32_t line, span text)
{
    jinja_node *node = jinja_node_new(p, kind, line);
    node->value = jinja_of_string(jinja_string_borrow(p->arena, text, true));
    jinja_string_chars(node->value.string); /* counted now: later the tree is read-only */
    return node;
}

void jinja_descend(jinja_parser *p)
{
    if (++p->depth > JINJA_PARSE_DEPTH_MAX)
        jinja_syntax_error(p->arena, jinja_peek(p)->line, "nested deeper than %d", JINJA_PARSE_DEPTH_MAX);
}

static jinja_node *binary_node(jinja_parser *p, jinja_node_kind kind, uint32_t line, jinja_node *a, jinja_node *b)
{
    jinja_node *node = jinja_node_new(p, kind, line);
    node->a = a;
    node->b = b;
    return node;
}

/* A chain like a + b + c nests to the left; it is evaluated by recursion, so its length has a limit. */
static void check_chain(jinja_parser *p, uint32_t length)
{
    if (length > JINJA_CHAIN_MAX)
        jinja_syntax_error(p->arena, jinja_peek(p)->line, "more than %d operators in a row", JINJA_CHAIN_MAX);
}

static jinja_node *parse_primary(jinja_parser *p, bool with_namespace);
static jinja_node *parse_unary(jinja_parser *p, bool with_filter);
static jinja_node *parse_postfix(jinja_parser *p, jinja_node *node);

/* ---- calls, filters, tests ---- */

static void push_keyword(jinja_parser *p, jinja_arguments *a, const jinja_name *name, jinja_node *value)
{
    size_t count = a->keyword_count;
    if ((count & (count - 1)) == 0) { /* full at every power of two */
        size_t capacity = count ? count * 2 : 1;
        a->names = jinja_grow(p->arena, a->names, count * sizeof *a->names, capacity * sizeof *a->names);
        a->values = jinja_grow(p->arena, a->values, count * sizeof *a->values, capacity * sizeof *a->values);
    }
    a->names[count] = name;
    a->values[count] = value;
    a->keyword_count++;
}

static jinja_arguments *parse_arguments(jinja_parser *p)
{
    jinja_arguments *a = jinja_alloc(p->arena, sizeof *a);
    jinja_node_list args = {0};
    uint32_t line = jinja_expect(p, TOK_LPAREN, "'('")->line;
    bool first = true;
    while (!jinja_at(p, TOK_RPAREN)) {
        bool valid = true;
        if (!first) {
            jinja_expect(p, TOK_COMMA, "',' or ')'");
            if (jinja_at(p, TOK_RPAREN))
                break;
        }
        first = false;
        if (jinja_at(p, TOK_MUL)) {
            valid = !a->star && !a->star_star;
            jinja_next(p);
            a->star = jinja_parse_expression(p, true);
        } else if (jinja_at(p, TOK_POW)) {
            valid = !a->star_star;
            jinja_next(p);
            a->star_star = jinja_parse_expression(p, true);
        } else if (jinja_at(p, TOK_NAME) && p->tokens[p->at + 1].type == TOK_ASSIGN) {
            valid = !a->star_star;
            const jinja_name *name = jinja_expect_name(p, "a name");
            jinja_next(p);
            push_keyword(p, a, name, jinja_parse_expression(p, true));
        } else {
            valid = !a->star && !a->star_star && !a->keyword_count;
            jinja_node_push(p, &args, jinja_parse_expression(p, true));
        }
        if (!valid)
            jinja_syntax_error(p->arena, line, "invalid syntax for function call expression");
    }
    jinja_expect(p, TOK_RPAREN, "')'");
    a->args = args.nodes;
    a->arg_count = args.count;
    return a;
}

static jinja_node *parse_call(jinja_parser *p, jinja_node *callee)
{
    jinja_node *node = jinja_node_new(p, NODE_CALL, jinja_peek(p)->line);
    node->a = callee;
    node->arguments = parse_arguments(p);
    return node;
}

/* "a" or "a.b" as one name. */
static const jinja_name *parse_dotted(jinja_parser *p, const char *what)
{
    char text[128];
    const jinja_name *name = jinja_expect_name(p, what);
    while (jinja_skip(p, TOK_DOT)) {
        const jinja_name *more = jinja_expect_name(p, what);
        int size = snprintf(text, sizeof text, "%s.%s", name->text.data, more->text.data);
        if (size < 0 || (size_t)size >= sizeof text)
            jinja_syntax_error(p->arena, jinja_peek(p)->line, "name of %s too long", what);
        name = jinja_intern(p->arena, p->names, span_of(text, (size_t)size));
    }
    return name;
}

jinja_node *jinja_parse_filters(jinja_parser *p, jinja_node *node, bool start_inline)
{
    for (uint32_t length = 0; jinja_at(p, TOK_PIPE) || start_inline; start_inline = false) {
        check_chain(p, ++length);
        if (!start_inline)
            jinja_next(p);
        jinja_node *filter = jinja_node_new(p, NODE_FILTER, jinja_peek(p)->line);
        filter->name = parse_dotted(p, "the name of a filter");
        filter->a = node;
        if (jinja_at(p, TOK_LPAREN))
            filter->arguments = parse_arguments(p);
        node = filter;
    }
    return node;
}

static bool starts_test_argument(const jinja_parser *p)
{
    switch (jinja_peek(p)->type) {
    case TOK_NAME:
        return !jinja_at_name(p, "else") && !jinja_at_name(p, "or") && !jinja_at_name(p, "and");
    case TOK_STRING:
    case TOK_INTEGER:
    case TOK_FLOAT:
    case TOK_LBRACKET:
    case TOK_LBRACE:
        return true;
    default:
        return false;
    }
}

static jinja_node *parse_test(jinja_parser *p, jinja_node *subject)
{
    uint32_t line = jinja_next(p)->line;
    bool negated = jinja_skip_name(p, "not");
    jinja_node *node = jinja_node_new(p, NODE_TEST, line);
    node->a = subject;
    node->name = parse_dotted(p, "the name of a test");
    if (jinja_at(p, TOK_LPAREN)) {
        node->arguments = parse_arguments(p);
    } else if (starts_test_argument(p)) {
        if (jinja_at_name(p, "is"))
            jinja_syntax_error(p->arena, line, "You cannot chain multiple tests with is");
        jinja_node_list args = {0};
        jinja_node_push(p, &args, parse_postfix(p, parse_primary(p, false)));
        node->arguments = jinja_alloc(p->arena, sizeof *node->arguments);
        node->arguments->args = args.nodes;
        node->arguments->arg_count = args.count;
    }
    return negated ? binary_node(p, NODE_NOT, line, node, NULL) : node;
}

static jinja_node *parse_filter_expression(jinja_parser *p, jinja_node *node)
{
    for (uint32_t length = 0;; check_chain(p, ++length)) {
        if (jinja_at(p, TOK_PIPE))
            node = jinja_parse_filters(p, node, false);
        else if (jinja_at_name(p, "is"))
            node = parse_test(p, node);
        else if (jinja_at(p, TOK_LPAREN))
            node = parse_call(p, node);
        else
            return node;
    }
}

/* ---- subscripts ---- */

static jinja_node *parse_subscript_part(jinja_parser *p)
{
    bool absent = jinja_at(p, TOK_COLON) || jinja_at(p, TOK_RBRACKET) || jinja_at(p, TOK_COMMA);
    return absent ? NULL : jinja_parse_expression(p, true);
}

static jinja_node *parse_subscribed(jinja_parser *p, jinja_node *subject, uint32_t line)
{
    jinja_node *first = jinja_at(p, TOK_COLON) ? NULL : jinja_parse_expression(p, true);
    if (!jinja_at(p, TOK_COLON))
        return binary_node(p, NODE_ITEM, line, subject, first);
    jinja_node *node = binary_node(p, NODE_SLICE, line, subject, NULL);
    jinja_next(p);
    node->items = jinja_alloc(p->arena, 3 * sizeof *node->items);
    node->item_count = 3;
    node->items[0] = first;
    node->items[1] = parse_subscript_part(p);
    if (jinja_skip(p, TOK_COLON))
        node->items[2] = parse_subscript_part(p);
    return node;
}

static jinja_node *parse_subscript(jinja_parser *p, jinja_node *subject)
{
    const jinja_token *token = jinja_next(p);
    if (token->type == TOK_DOT) {
        const jinja_token *attr = jinja_next(p);
        if (attr->type == TOK_NAME) {
            jinja_node *node = jinja_node_new(p, NODE_ATTR, token->line);
            node->a = subject;
            node->name = jinja_intern(p->arena, p->names, attr->text);
            return node;
        }
        if (attr->type != TOK_INTEGER)
            jinja_syntax_error(p->arena, attr->line, "expected name or number");
        jinja_node *number = jinja_node_new(p, NODE_CONST, attr->line);
        number->value = jinja_int(attr->integer);
        return binary_node(p, NODE_ITEM, token->line, subject, number);
    }
    jinja_node *node = parse_subscribed(p, subject, token->line);
    if (jinja_at(p, TOK_COMMA)) { /* x[a, b]: a tuple is the key */
        if (node->kind == NODE_SLICE)
            jinja_syntax_error(p->arena, token->line, "slices in a tuple are not supported");
        jinja_node *tuple = jinja_node_new(p, NODE_TUPLE, token->line);
        jinja_node_list items = {0};
        jinja_node_push(p, &items, node->b);
        while (jinja_skip(p, TOK_COMMA))
            jinja_node_push(p, &items, jinja_parse_expression(p, true));
        jinja_set_items(tuple, &items);
        node->b = tuple;
    }
    jinja_expect(p, TOK_RBRACKET, "']'");
    return node;
}

static jinja_node *parse_postfix(jinja_parser *p, jinja_node *node)
{
    for (uint32_t length = 0;; check_chain(p, ++length)) {
        if (jinja_at(p, TOK_DOT) || jinja_at(p, TOK_LBRACKET))
            node = parse_subscript(p, node);
        else if (jinja_at(p, TOK_LPAREN))
            node = parse_call(p, node);
        else
            return node;
    }
}

/* ---- primaries ---- */

static jinja_node *parse_list(jinja_parser *p)
{
    jinja_node *node = jinja_node_new(p, NODE_LIST, jinja_next(p)->line);
    jinja_node_list items = {0};
    while (!jinja_at(p, TOK_RBRACKET)) {
        if (items.count)
            jinja_expect(p, TOK_COMMA, "',' or ']'");
        if (jinja_at(p, TOK_RBRACKET))
            break;
        jinja_node_push(p, &items, jinja_parse_expression(p, true));
    }
    jinja_expect(p, TOK_RBRACKET, "']'");
    jinja_set_items(node, &items);
    return node;
}

static jinja_node *parse_dict(jinja_parser *p)
{
    jinja_node *node = jinja_node_new(p, NODE_DICT, jinja_next(p)->line);
    jinja_node_list items = {0};
    while (!jinja_at(p, TOK_RBRACE)) {
        if (items.count)
            jinja_expect(p, TOK_COMMA, "',' or '}'");
        if (jinja_at(p, TOK_RBRACE))
            break;
        jinja_node_push(p, &items, jinja_parse_expression(p, true));
        jinja_expect(p, TOK_COLON, "':'");
        jinja_node_push(p, &items, jinja_parse_expression(p, true));
    }
    jinja_expect(p, TOK_RBRACE, "'}'");
    jinja_set_items(node, &items);
    return node;
}

static jinja_node *parse_name(jinja_parser *p, bool with_namespace)
{
    const jinja_token *token = jinja_next(p);
    jinja_node *node = jinja_node_new(p, NODE_CONST, token->line);
    if (span_is(token->text, "true") || span_is(token->text, "True")) {
        node->value = jinja_bool(true);
    } else if (span_is(token->text, "false") || span_is(token->text, "False")) {
        node->value = jinja_bool(false);
    } else if (span_is(token->text, "none") || span_is(token->text, "None")) {
        node->value = jinja_none();
    } else {
        node->kind = NODE_NAME;
        node->name = jinja_intern(p->arena, p->names, token->text);
        p->saw_varargs |= span_is(token->text, "varargs");
        p->saw_kwargs |= span_is(token->text, "kwargs");
        p->saw_caller |= span_is(token->text, "caller");
        if (with_namespace && jinja_skip(p, TOK_DOT)) {
            node->kind = NODE_NSREF;
            span attr = jinja_expect(p, TOK_NAME, "the name of an attribute")->text;
            node->value = jinja_string_node(p, NODE_CONST, token->line, attr)->value;
        }
    }
    return node;
}

static jinja_node *parse_strings(jinja_parser *p)
{
    const jinja_token *token = jinja_next(p);
    span text = token->text;
    while (jinja_at(p, TOK_STRING)) { /* 'a' 'b' is 'ab' */
        span more = jinja_next(p)->text;
        char *joined = jinja_alloc_raw(p->arena, text.size + more.size + 1);
        memcpy(joined, text.data, text.size);
        memcpy(joined + text.size, more.data, more.size);
        text = span_of(joined, text.size + more.size);
    }
    return jinja_string_node(p, NODE_CONST, token->line, text);
}

static jinja_node *parse_primary(jinja_parser *p, bool with_namespace)
{
    const jinja_token *token = jinja_peek(p);
    jinja_node *node;
    switch (token->type) {
    case TOK_NAME:
        return parse_name(p, with_namespace);
    case TOK_STRING:
        return parse_strings(p);
    case TOK_INTEGER:
    case TOK_FLOAT:
        jinja_next(p);
        node = jinja_node_new(p, NODE_CONST, token->line);
        node->value = token->type == TOK_INTEGER ? jinja_int(token->integer) : jinja_float(token->real);
        return node;
    case TOK_LPAREN:
        jinja_next(p);
        node = jinja_parse_tuple(p, true, NULL, true);
        jinja_expect(p, TOK_RPAREN, "')'");
        return node;
    case TOK_LBRACKET:
        return parse_list(p);
    case TOK_LBRACE:
        return parse_dict(p);
    default:
        jinja_unexpected(p, "an expression");
    }
}

/* ---- operators ---- */

static jinja_node *parse_unary(jinja_parser *p, bool with_filter)
{
    jinja_descend(p);
    uint32_t line = jinja_peek(p)->line;
    jinja_node *node;
    if (jinja_skip(p, TOK_SUB))
        node = binary_node(p, NODE_NEG, line, parse_unary(p, false), NULL);
    else if (jinja_skip(p, TOK_ADD))
        node = binary_node(p, NODE_POS, line, parse_unary(p, false), NULL);
    else
        node = parse_primary(p, false);
    node = parse_postfix(p, node);
    if (with_filter)
        node = parse_filter_expression(p, node);
    p->depth--;
    return node;
}

static int binary_level(jinja_token_type type)
{
    switch (type) {
    case TOK_ADD:
    case TOK_SUB:
        return 1;
    case TOK_TILDE:
        return 2;
    case TOK_MUL:
    case TOK_DIV:
    case TOK_FLOORDIV:
    case TOK_MOD:
        return 3;
    case TOK_POW:
        return 4;
    default:
        return 0;
    }
}

/* Levels 1 (+ -) to 4 (**), all left-associative as in jinja2; `~` collects its operands in one node. */
static jinja_node *parse_binary(jinja_parser *p, int level)
{
    if (level > 4)
        return parse_unary(p, true);
    jinja_node *left = parse_binary(p, level + 1);
    jinja_node_list parts = {0};
    for (uint32_t length = 0; binary_level(jinja_peek(p)->type) == level;) {
        check_chain(p, ++length);
        const jinja_token *token = jinja_next(p);
        jinja_node *right = parse_binary(p, level + 1);
        if (level == 2) {
            if (!parts.count)
                jinja_node_push(p, &parts, left);
            jinja_node_push(p, &parts, right);
        } else {
            left = binary_node(p, NODE_BINARY, token->line, left, right);
            left->op = (uint8_t)token->type;
        }
    }
    if (parts.count) {
        left = jinja_node_new(p, NODE_CONCAT, parts.nodes[0]->line);
        jinja_set_items(left, &parts);
    }
    return left;
}

static bool comparison_at(jinja_parser *p, uint8_t *op)
{
    jinja_token_type type = jinja_peek(p)->type;
    if (type >= TOK_EQ && type <= TOK_GE) {
        *op = (uint8_t)(COMPARE_EQ + (type - TOK_EQ));
    } else if (jinja_at_name(p, "in")) {
        *op = COMPARE_IN;
    } else if (jinja_at_name(p, "not") && p->tokens[p->at + 1].type == TOK_NAME &&
               span_is(p->tokens[p->at + 1].text, "in")) {
        *op = COMPARE_NOT_IN;
        jinja_next(p);
    } else {
        return false;
    }
    jinja_next(p);
    return true;
}

static jinja_node *parse_compare(jinja_parser *p)
{
    jinja_node *left = parse_binary(p, 1);
    jinja_node_list right = {0};
    uint8_t ops[JINJA_CHAIN_MAX + 1];
    uint8_t op;
    while (comparison_at(p, &op)) {
        ops[right.count] = op;
        jinja_node_push(p, &right, parse_binary(p, 1));
        check_chain(p, right.count);
    }
    if (!right.count)
        return left;
    jinja_node *node = binary_node(p, NODE_COMPARE, left->line, left, NULL);
    jinja_set_items(node, &right);
    node->ops = jinja_grow(p->arena, ops, right.count, right.count);
    return node;
}

static jinja_node *parse_not(jinja_parser *p)
{
    if (!jinja_at_name(p, "not"))
        return parse_compare(p);
    jinja_descend(p);
    uint32_t line = jinja_next(p)->line;
    jinja_node *node = binary_node(p, NODE_NOT, line, parse_not(p), NULL);
    p->depth--;
    return node;
}

static jinja_node *parse_and(jinja_parser *p)
{
    jinja_node *left = parse_not(p);
    for (uint32_t length = 0; jinja_at_name(p, "and");) {
        check_chain(p, ++length);
        uint32_t line = jinja_next(p)->line;
        left = binary_node(p, NODE_AND, line, left, parse_not(p));
    }
    return left;
}

static jinja_node *parse_or(jinja_parser *p)
{
    jinja_node *left = parse_and(p);
    for (uint32_t length = 0; jinja_at_name(p, "or");) {
        check_chain(p, ++length);
        uint32_t line = jinja_next(p)->line;
        left = binary_node(p, NODE_OR, line, left, parse_and(p));
    }
    return left;
}

jinja_node *jinja_parse_expression(jinja_parser *p, bool with_choice)
{
    jinja_descend(p);
    jinja_node *node = parse_or(p);
    for (uint32_t length = 0; with_choice && jinja_at_name(p, "if");) {
        check_chain(p, ++length);
        jinja_node *choice = jinja_node_new(p, NODE_CHOICE, jinja_next(p)->line);
        choice->a = node;
        choice->b = parse_or(p);
        if (jinja_skip_name(p, "else"))
            choice->c = jinja_parse_expression(p, true);
        node = choice;
    }
    p->depth--;
    return node;
}

/* ---- tuples and targets ---- */

static bool at_tuple_end(const jinja_parser *p, const char *end_name)
{
    return jinja_at(p, TOK_VARIABLE_END) || jinja_at(p, TOK_BLOCK_END) || jinja_at(p, TOK_RPAREN) ||
           (end_name && jinja_at_name(p, end_name));
}

jinja_node *jinja_parse_tuple(jinja_parser *p, bool with_choice, const char *end_name, bool in_parentheses)
{
    uint32_t line = jinja_peek(p)->line;
    jinja_node_list items = {0};
    bool is_tuple = false;
    while (!at_tuple_end(p, end_name)) {
        jinja_node_push(p, &items, jinja_parse_expression(p, with_choice));
        if (!jinja_skip(p, TOK_COMMA))
            break;
        is_tuple = true;
    }
    if (!is_tuple && items.count)
        return items.nodes[0];
    if (!is_tuple && !in_parentheses)
        jinja_unexpected(p, "an expression");
    jinja_node *tuple = jinja_node_new(p, NODE_TUPLE, line);
    jinja_set_items(tuple, &items);
    return tuple;
}

static void check_target(jinja_parser *p, const jinja_node *node)
{
    bool is_list = node->kind == NODE_TUPLE || node->kind == NODE_LIST;
    if (node->kind != NODE_NAME && node->kind != NODE_NSREF && !is_list)
        jinja_syntax_error(p->arena, node->line, "can't assign to this expression");
    for (uint32_t i = 0; is_list && i < node->item_count; i++)
        check_target(p, node->items[i]);
}

jinja_node *jinja_parse_target(jinja_parser *p, const char *end_name, bool with_namespace)
{
    uint32_t line = jinja_peek(p)->line;
    jinja_node_list items = {0};
    bool is_tuple = false;
    while (!at_tuple_end(p, end_name)) {
        jinja_node_push(p, &items, parse_primary(p, with_namespace));
        if (!jinja_skip(p, TOK_COMMA))
            break;
        is_tuple = true;
    }
    if (!items.count)
        jinja_unexpected(p, "a name to assign to");
    jinja_node *target = items.nodes[0];
    if (is_tuple) {
        target = jinja_node_new(p, NODE_TUPLE, line);
        jinja_set_items(target, &items);
    }
    check_target(p, target);
    return target;
}
