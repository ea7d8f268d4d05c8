/* text/grammar/grammar.h: which texts are allowed? A grammar over bytes, put together from literals, JSON schemas,
 * regular expressions and EBNF, compiled once, immutable and shared by reference afterwards; and the token masks that
 * it gives for a vocabulary. Bounded in time and memory: what is too large, too deep or not supported is refused with a
 * message that names the keyword or place, never ignored. Building: any one thread (a worker). */
#ifndef HEADWAY_TEXT_GRAMMAR_GRAMMAR_H
#define HEADWAY_TEXT_GRAMMAR_GRAMMAR_H

#include "base/error.h"
#include "base/span.h"
#include "base/token_constraint.h"
#include "text/tokenizer.h"

#include <jansson.h>

typedef struct grammar grammar;
typedef struct grammar_builder grammar_builder;
typedef uint32_t grammar_rule; /* of one builder; 0 is none: a failure was noted, grammar_finish reports it */

status grammar_builder_create(grammar_builder **out, error *err);
void grammar_builder_destroy(grammar_builder *b); /* NULL allowed */
grammar_rule grammar_text(grammar_builder *b, span literal);
grammar_rule grammar_until(grammar_builder *b,
                           span marker); /* any UTF-8 text that does not hold `marker`, which ends it */
grammar_rule grammar_sequence(grammar_builder *b, const grammar_rule *rules, uint32_t count);
grammar_rule grammar_choice(grammar_builder *b, const grammar_rule *rules, uint32_t count);
grammar_rule grammar_repeat(grammar_builder *b, grammar_rule rule, uint32_t min,
                            uint32_t max);                      /* max UINT32_MAX: any */
grammar_rule grammar_json_any(grammar_builder *b, bool object); /* any JSON value, or any object */
grammar_rule grammar_json_schema(grammar_builder *b, const json_t *schema);
grammar_rule grammar_regex(grammar_builder *b, span pattern);
grammar_rule grammar_ebnf(grammar_builder *b, span text); /* GBNF as llama.cpp has it, and Lark-like as vLLM takes it */
/* Takes all into a grammar with one reference; ERR_INVALID, ERR_UNSUPPORTED or ERR_LIMIT say what and where. */
status grammar_finish(grammar_builder *b, grammar_rule root, grammar **out, error *err);
void grammar_hold(grammar *g);    /* one reference more; any thread */
void grammar_release(grammar *g); /* NULL allowed; any thread */

/* A vocabulary prepared for masks, and the thread that makes them. The tokenizer outlives it. */
typedef struct token_masks token_masks;
status token_masks_create(token_masks **out, const tokenizer *t, uint32_t vocab, const int32_t *stop_tokens,
                          uint32_t stop_count, error *err);
void token_masks_destroy(token_masks *m);

/* Keeps a reference of its own to `g`; the masks outlive it. Any thread. */
status grammar_constraint(token_constraint **out, grammar *g, token_masks *m, error *err);
/* The same, and anything but a stop token may come before `marker` (up to MARKER_BYTES_MAX bytes): a thought. */
enum { MARKER_BYTES_MAX = 63 };
status grammar_constraint_after(token_constraint **out, grammar *g, token_masks *m, span marker, error *err);

#endif
