/* server/answer_pieces.c: see answer_pieces.h. Out of memory drops what does not fit, as a buf does. */
#include "server/answer_pieces.h"

#include <stdlib.h>

static bool joins(const answer_piece *last, const output_piece *piece)
{
    bool grows = piece->kind == PIECE_TEXT || piece->kind == PIECE_THOUGHT || piece->kind == PIECE_ARGUMENTS;
    return grows && last->kind == piece->kind && (piece->kind != PIECE_ARGUMENTS || last->call == piece->call);
}

void answer_pieces_add(answer_pieces *p, const output_piece *piece)
{
    size_t start = p->bytes.size;
    buf_append(&p->bytes, piece->text.data ? piece->text.data : "", piece->text.size);
    if (p->bytes.failed)
        return;
    if (p->count && joins(&p->items[p->count - 1], piece)) {
        p->items[p->count - 1].size += piece->text.size;
        return;
    }
    if (p->count == p->capacity) {
        uint32_t capacity = p->capacity ? 2 * p->capacity : 4;
        answer_piece *grown = realloc(p->items, capacity * sizeof *grown);
        if (!grown)
            return;
        p->items = grown;
        p->capacity = capacity;
    }
    p->items[p->count++] = (answer_piece){piece->kind, piece->call, start, piece->text.size};
}

void answer_pieces_clear(answer_pieces *p)
{
    buf_clear(&p->bytes);
    p->count = 0;
}

void answer_pieces_free(answer_pieces *p)
{
    buf_free(&p->bytes);
    free(p->items);
    *p = (answer_pieces){0};
}

bool answer_pieces_join(const answer_pieces *p, piece_kind kind, uint32_t call, buf *out)
{
    bool of_call = kind != PIECE_TEXT && kind != PIECE_THOUGHT, found = false;
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->items[i].kind != kind || (of_call && p->items[i].call != call))
            continue;
        span text = answer_piece_text(p, i);
        buf_append(out, text.data, text.size);
        found = true;
    }
    return found;
}
