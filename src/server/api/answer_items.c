/* server/api/answer_items.c: see answer_items.h. */
#include "server/api/answer_items.h"

static void take_call(const answer_pieces *p, uint32_t *at, answer_item *out)
{
    out->cut = true;
    for (; *at < p->count; (*at)++) {
        piece_kind kind = p->items[*at].kind;
        if (kind == PIECE_ARGUMENTS) {
            out->arguments = answer_piece_text(p, *at);
        } else if (kind == PIECE_CALL_END || kind == PIECE_CALL_CUT) {
            out->cut = kind == PIECE_CALL_CUT;
            (*at)++;
            return;
        } else {
            return;
        }
    }
}

bool answer_items_next(const answer_pieces *p, uint32_t *at, answer_item *out)
{
    while (*at < p->count) {
        uint32_t i = (*at)++;
        piece_kind kind = p->items[i].kind;
        if (kind != PIECE_TEXT && kind != PIECE_THOUGHT && kind != PIECE_CALL)
            continue;
        *out = (answer_item){.kind = kind, .call = p->items[i].call, .text = answer_piece_text(p, i)};
        if (kind == PIECE_CALL)
            take_call(p, at, out);
        return true;
    }
    return false;
}

bool answer_items_get(const answer_pieces *p, uint32_t index, answer_item *out)
{
    uint32_t at = 0;
    while (answer_items_next(p, &at, out))
        if (index-- == 0)
            return true;
    return false;
}
