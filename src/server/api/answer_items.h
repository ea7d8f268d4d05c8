/* server/api/answer_items.h: an answer's pieces taken together as dialects that speak of items or blocks list them: a
 * text, a thought, a call with its arguments. Any thread. */
#ifndef HEADWAY_SERVER_API_ANSWER_ITEMS_H
#define HEADWAY_SERVER_API_ANSWER_ITEMS_H

#include "server/answer_pieces.h"

typedef struct {
    piece_kind kind; /* PIECE_TEXT, PIECE_THOUGHT, PIECE_CALL */
    uint32_t call;
    span text;      /* a call's name */
    span arguments; /* of a call: a JSON object, unless it was cut */
    bool cut;       /* the call has no end */
} answer_item;

/* The item at piece *at, which moves behind it. Borrowed from `p`. False: there is none. */
bool answer_items_next(const answer_pieces *p, uint32_t *at, answer_item *out);
bool answer_items_get(const answer_pieces *p, uint32_t index, answer_item *out);

#endif
