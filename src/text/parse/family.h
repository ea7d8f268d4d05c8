/* text/parse/family.h: one syntax of tool calls, as the parser (parser.c) sees it: a machine that is shown one byte at
 * a time, so that the cuts of the input cannot matter. It says what it finds by the call_* functions and returns
 * whether it goes on. Private to text/parse. */
#ifndef HEADWAY_TEXT_PARSE_FAMILY_H
#define HEADWAY_TEXT_PARSE_FAMILY_H

#include <jansson.h>

#include "base/buf.h"
#include "text/output_parser.h"

typedef enum {
    CALL_MORE, /* goes on */
    CALL_DONE, /* this byte was the last of it; at least one call has ended */
    CALL_NOT,  /* what has come since the last call_end (or the opener) is no call, this byte included */
} call_step;

typedef struct {
    const char *name;
    const char *const *openers;       /* where a call may begin; NULL-terminated; none is the beginning of another */
    const char *const *start_openers; /* the same, but only before any text; NULL-terminated; NULL: none */
    const char *const *marks;         /* further control tokens of the syntax; NULL-terminated; NULL: none */
    size_t state_size;                /* zeroed before begin */
    /* After openers[opener] (start openers count on). False: out of memory. */
    void (*begin)(void *state, output_parser *p, uint32_t opener);
    call_step (*push)(void *state, output_parser *p, char byte);
    void (*finish)(void *state, output_parser *p); /* the output ends: last chance to call_end; NULL */
    void (*release)(void *state);                  /* what the state owns; NULL */
} call_family;

extern const call_family hermes_family, qwen3_coder_family, llama3_json_family, pythonic_family, mistral_family,
    gemma4_family, function_gemma_family;

/* What a machine says, in this order; arguments may come before the name. */
bool call_name(output_parser *p, span name);      /* false: not a tool of this request: return CALL_NOT */
void call_arguments(output_parser *p, span text); /* more JSON text */
void call_argument_byte(output_parser *p, char byte);
void call_argument_string(output_parser *p, span text); /* more of the inside of a JSON string: escapes it */
void call_end(output_parser *p);
bool call_named(const output_parser *p);
json_t *call_tools(const output_parser *p); /* NULL: anything may be called */
span call_name_of(const output_parser *p);  /* once it is named */

static inline bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Progress of matching one literal, byte by byte. */
typedef enum { LITERAL_MORE, LITERAL_FULL, LITERAL_NOT } literal_step;

static inline literal_step literal_push(const char *literal, uint32_t *at, char byte)
{
    if (literal[*at] != byte)
        return LITERAL_NOT;
    return literal[++*at] ? LITERAL_MORE : LITERAL_FULL;
}

#endif
