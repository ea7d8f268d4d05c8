/* text/output_parser.h: what of a model's output is text, what is thought, what is a tool call? A streaming parser over
 * detokenized text, one family of syntax each (a file each in text/parse), chosen from the chat template
 * (output_family_of) or by name. Whatever the cuts of the input, the pieces' concatenation is the same: text and
 * thoughts by kind, a call's name once, its arguments as JSON text in order.
 *
 * What only looks like a call and is none comes out as text, unchanged. So that this can be said of most calls and a
 * long argument streams all the same, a call is held back until it has ended or its arguments exceed
 * OUTPUT_HELD_ARGUMENTS bytes; one that breaks after that ends with PIECE_CALL_CUT: its arguments are no whole JSON,
 * and no client can take them for whole. White space between a text and a call, between calls, and around a thought
 * belongs to the syntax and is dropped. Nothing inside a thought is a call. Never fails on input; time is linear,
 * memory bounded by OUTPUT_HELD_MAX. Any one thread. */
#ifndef HEADWAY_TEXT_OUTPUT_PARSER_H
#define HEADWAY_TEXT_OUTPUT_PARSER_H

#include <jansson.h>

#include "base/error.h"
#include "base/span.h"

enum { OUTPUT_HELD_ARGUMENTS = 512, OUTPUT_HELD_MAX = 64 << 10 };

typedef struct output_parser output_parser;

typedef enum {
    PIECE_TEXT,
    PIECE_THOUGHT,
    PIECE_CALL,      /* call number `call` begins: `text` is its name */
    PIECE_ARGUMENTS, /* more of its arguments: JSON text */
    PIECE_CALL_END,  /* its arguments are a JSON object */
    PIECE_CALL_CUT,  /* it ended before they were */
} piece_kind;

typedef struct {
    piece_kind kind;
    uint32_t call; /* from 0 on */
    span text;     /* valid during the call */
} output_piece;

typedef void (*piece_taker)(void *context, const output_piece *piece);

typedef struct {
    const char *family;   /* a name of output_families(); NULL: no tool calls are looked for */
    const char *thoughts; /* a name of output_thoughts(); NULL: they are not looked for */
    bool thought_open;    /* the prompt has opened a thought already */
    json_t *tools;        /* borrowed: what may be called, [{"function": {"name", "parameters"}}, …], and what type a
                             parameter has where the syntax does not say; NULL: anything */
} output_parser_config;

status output_parser_create(output_parser **out, const output_parser_config *config, error *err);
void output_parser_destroy(output_parser *p); /* NULL allowed */
void output_parser_feed(output_parser *p, span text, piece_taker take, void *context);
void output_parser_end(output_parser *p, piece_taker take, void *context); /* what is held comes out */
bool output_parser_in_thought(const output_parser *p);                     /* what comes next is thought */
/* Is this control token part of the syntax? Its text must be fed then, though control tokens are not printed. */
bool output_parser_wants(const output_parser *p, span control_token);

/* The family whose syntax this chat template teaches; NULL: none that is known. */
const char *output_family_of(span chat_template);
const char *output_families(void); /* "hermes, qwen3_coder, llama3_json, ..." */
bool output_family_known(const char *name);

typedef struct { /* how thoughts are marked */
    const char *name, *open, *close;
    const char *end; /* what ends one cleanly: `close` with the white space that models put around it */
    bool anywhere;   /* control tokens: a text does not spell them; else a thought can only come first */
} output_marks;

const char *output_thoughts(void);                       /* "gemma4, mistral, ..." */
const output_marks *output_marks_find(const char *name); /* NULL: none of this name, or no name */
/* The marks that this chat template knows; NULL: none. */
const char *output_thoughts_of(span chat_template);
/* Does a prompt that ends like this leave a thought open? */
bool output_thought_is_open(const output_marks *marks, span prompt);
bool output_thought_is_over(const output_marks *marks, span prompt); /* … or has it had its thought? */

#endif
