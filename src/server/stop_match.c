/* server/stop_match.c: one Knuth-Morris-Pratt automaton per stop string; the longest partial match is what is held
 * back. */
#include "server/stop_match.h"

#include <stdlib.h>

bool stop_set_add(stop_set *set, span text)
{
    if (set->count == STOP_STRINGS_MAX || text.size == 0 || text.size > STOP_BYTES_MAX)
        return false;
    char *copy = malloc(text.size);
    uint16_t *border = calloc(text.size, sizeof *border);
    if (!copy || !border) {
        free(copy);
        free(border);
        return false;
    }
    memcpy(copy, text.data, text.size);
    for (size_t i = 1, length = 0; i < text.size; i++) {
        while (length && copy[i] != copy[length])
            length = border[length - 1];
        length += copy[i] == copy[length];
        border[i] = (uint16_t)length;
    }
    set->text[set->count] = copy;
    set->border[set->count] = border;
    set->size[set->count++] = (uint16_t)text.size;
    return true;
}

void stop_set_free(stop_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        free(set->text[i]);
        free(set->border[i]);
    }
    set->count = 0;
}

/* Moves every automaton by one byte; returns the longest string completed, or -1. */
static int advance(stop_matcher *m, const stop_set *set, char byte)
{
    int found = -1;
    for (uint32_t i = 0; i < set->count; i++) {
        uint16_t at = m->matched[i];
        while (at && set->text[i][at] != byte)
            at = set->border[i][at - 1];
        at = (uint16_t)(at + (set->text[i][at] == byte));
        m->matched[i] = at;
        if (at == set->size[i] && (found < 0 || set->size[i] > set->size[found]))
            found = (int)i;
    }
    return found;
}

int stop_push(stop_matcher *m, const stop_set *set, span text, bool include, buf *out)
{
    if (!set->count) {
        buf_append(out, text.data, text.size);
        return -1;
    }
    for (size_t i = 0; i < text.size; i++) {
        buf_byte(&m->held, text.data[i]);
        int found = advance(m, set, text.data[i]);
        if (found >= 0) {
            buf_append(out, m->held.data, m->held.size - (include ? 0 : set->size[found]));
            buf_clear(&m->held);
            return found;
        }
    }
    size_t keep = 0;
    for (uint32_t i = 0; i < set->count; i++)
        keep = m->matched[i] > keep ? m->matched[i] : keep;
    size_t certain = m->held.size - keep;
    if (certain) {
        buf_append(out, m->held.data, certain);
        memmove(m->held.data, m->held.data + certain, keep);
        m->held.size = keep;
    }
    return -1;
}

void stop_finish(stop_matcher *m, buf *out)
{
    if (m->held.size)
        buf_append(out, m->held.data, m->held.size);
    buf_free(&m->held);
}
