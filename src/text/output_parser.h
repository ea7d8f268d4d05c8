/* text/output_parser.h: what of a model's output is text, what is thought, what is a tool call? A streaming parser over
 * detokenized text, one family of syntax each (a file each in text/parse), chosen from the chat template
 * (output_family_of) or by name. Whatever the cuts of the input, the pieces' concatenation is the same: text and
 * thoughts by kind, a call's name once, its arguments as JSON text in order. What only looks like a call and is none
 * comes out as text, unchanged. Never fails on input; memory is bounded by OUTPUT_HELD_MAX, above which a call that
 * does not end is text. Any one thread. */
#ifndef HEADWAY_TEXT_OUTPUT_PARSER_H
#define HEADWAY_TEXT_OUTPUT_PARSER_H

#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

enum { OUTPUT_HELD_MAX = 1 << 20 };

typedef struct output_parser output_parser;

typedef enum {
    PIECE_TEXT,
    PIECE_THOUGHT,
    PIECE_CALL,      /* call number `call` begins: `text` is its name */
    PIECE_ARGUMENTS, /* more of its arguments: JSON text */
    PIECE_CALL_END,
} piece_kind;

typedef struct {
    piece_kind kind;
    uint32_t call; /* from 0 on */
    span text;     /* valid during the call */
} output_piece;

typedef void (*piece_taker)(void *context, const output_piece *piece);

typedef struct {
    const char *family;       /* a name of output_families(); NULL: no tool calls are looked for */
    bool thoughts;            /* <think> and kin are looked for */
    bool thought_open;        /* the prompt has opened a thought already */
    const char *const *tools; /* names that may be called; NULL: any */
    uint32_t tool_count;
} output_parser_config;

status output_parser_create(output_parser **out, const output_parser_config *config, error *err);
void output_parser_destroy(output_parser *p); /* NULL allowed */
void output_parser_feed(output_parser *p, span text, piece_taker take, void *context);
void output_parser_end(output_parser *p, piece_taker take, void *context); /* what is held comes out */

/* The family whose syntax this chat template teaches; NULL: none that is known. */
const char *output_family_of(span chat_template);
const char *output_families(void); /* "hermes, qwen3_coder, llama3_json, ..." */

#endif
