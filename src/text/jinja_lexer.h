/* text/jinja_lexer.h: template source to tokens, with jinja2's rules for blanks (trim_blocks, lstrip_blocks, `-`, `+`,
 * raw). Errors jump through the arena's trap with "line N: what". One thread. */
#ifndef HEADWAY_TEXT_JINJA_LEXER_H
#define HEADWAY_TEXT_JINJA_LEXER_H

#include "text/jinja_arena.h"

typedef enum {
    TOK_EOF,
    TOK_DATA,
    TOK_VARIABLE_BEGIN,
    TOK_VARIABLE_END,
    TOK_BLOCK_BEGIN,
    TOK_BLOCK_END,
    TOK_NAME,
    TOK_STRING,
    TOK_INTEGER,
    TOK_FLOAT,
    TOK_ADD,
    TOK_SUB,
    TOK_MUL,
    TOK_DIV,
    TOK_FLOORDIV,
    TOK_MOD,
    TOK_POW,
    TOK_TILDE,
    TOK_LPAREN,
    TOK_RPAREN,
    TOK_LBRACKET,
    TOK_RBRACKET,
    TOK_LBRACE,
    TOK_RBRACE,
    TOK_EQ,
    TOK_NE,
    TOK_LT,
    TOK_LE,
    TOK_GT,
    TOK_GE,
    TOK_ASSIGN,
    TOK_DOT,
    TOK_COLON,
    TOK_PIPE,
    TOK_COMMA,
    TOK_SEMICOLON,
} jinja_token_type;

typedef struct {
    jinja_token_type type;
    uint32_t line;
    span text; /* data, name, string (unescaped) or the operator as written */
    int64_t integer;
    double real;
} jinja_token;

typedef struct {
    jinja_token *tokens; /* ends with TOK_EOF */
    size_t count;
} jinja_tokens;

jinja_tokens jinja_lex(jinja_arena *arena, span source); /* copies what it needs */
_Noreturn void jinja_syntax_error(jinja_arena *arena, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
