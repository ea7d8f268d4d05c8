/* server/answer_pieces.h: the pieces of an answer in order (text/output_parser.h), neighbours of one kind joined.
 * Zero-initialise; answer_pieces_free. One thread. */
#ifndef HEADWAY_SERVER_ANSWER_PIECES_H
#define HEADWAY_SERVER_ANSWER_PIECES_H

#include "base/buf.h"
#include "text/output_parser.h"

typedef struct {
    piece_kind kind;
    uint32_t call;
    size_t start, size; /* in bytes */
} answer_piece;

typedef struct {
    buf bytes;
    answer_piece *items;
    uint32_t count, capacity;
} answer_pieces;

void answer_pieces_add(answer_pieces *p, const output_piece *piece);
void answer_pieces_clear(answer_pieces *p); /* memory is kept */
void answer_pieces_free(answer_pieces *p);

static inline span answer_piece_text(const answer_pieces *p, uint32_t i)
{
    return (span){p->bytes.data ? p->bytes.data + p->items[i].start : "", p->items[i].size};
}

/* Appends all that is of `kind` (of call number `call`, for those of calls); false: there is no such piece. */
bool answer_pieces_join(const answer_pieces *p, piece_kind kind, uint32_t call, buf *out);

#endif
