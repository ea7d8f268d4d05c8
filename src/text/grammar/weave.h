/* text/grammar/weave.h: from the nodes of a builder to an nfa. Private to the compilation of grammars. */
#ifndef HEADWAY_TEXT_GRAMMAR_WEAVE_H
#define HEADWAY_TEXT_GRAMMAR_WEAVE_H

#include "text/grammar/nfa.h"

typedef struct {     /* what is known of the nodes when procedures are made */
    uint8_t *traits; /* by node: TRAIT_* */
    uint32_t *weights;
    uint8_t *uses; /* up to 2 */
    uint32_t (*procedure_of)(void *context, uint32_t node);
    void *context;
} weave_facts;

enum {
    TRAIT_PRODUCTIVE = 1, /* some text, the empty one maybe */
    TRAIT_NULLABLE = 2,   /* the empty text */
    TRAIT_LONG = 4,       /* some text that is not empty */
};

bool weave_is_loop(const grammar_builder *b, const weave_facts *f, uint32_t node); /* a repetition that counts */

/* The node itself is written out; below it, what weave_facts says is a call of the procedure's texts that are not
 * empty, and a silent edge where the empty one is among them. */
void weave_procedure(grammar_builder *b, nfa *n, const weave_facts *f, uint32_t node);
void weave_regular(grammar_builder *b, nfa *n, uint32_t node); /* everything written out */

#endif
