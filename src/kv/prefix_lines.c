/* kv/prefix_lines.c: the entries that ended, for people to look at. Few, so they are searched one by one; a node that
 * is the last page here of some line says so (`lined`). */
#include "kv/prefix_state.h"

#include <stdlib.h>

static bool is_whole(const prefix_cache *c, const kept_line *l)
{
    return l->line.pages_here == l->line.tokens / c->config.page_tokens;
}

static const uint32_t NO_LINE = LINES_KEPT;

static uint32_t line_ending_at(const prefix_cache *c, uint32_t at, uint32_t owner)
{
    for (uint32_t i = 0; i < c->line_count; i++)
        if (c->line_nodes[i] == at && c->lines[i].line.owner == owner && is_whole(c, &c->lines[i]))
            return i;
    return NO_LINE;
}

/* A free one, or that of the line that was used longest ago. */
static uint32_t line_take(prefix_cache *c)
{
    if (c->line_count < LINES_KEPT)
        return c->line_count++;
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < c->line_count; i++)
        if (c->lines[i].stamp < c->lines[oldest].stamp)
            oldest = i;
    return oldest;
}

void prefix_line_ended(prefix_cache *c, uint32_t at, uint32_t owner, uint64_t now_us)
{
    uint32_t i = NO_LINE;
    for (uint32_t up = at; i == NO_LINE && !node_at(c, up)->root; up = node_at(c, up)->parent)
        if (node_at(c, up)->lined)
            i = line_ending_at(c, up, owner);
    uint32_t uses = i < NO_LINE ? c->lines[i].line.uses + 1 : 0;
    prefix_node *n = node_at(c, at);
    if (i == NO_LINE)
        i = line_take(c);
    c->lines[i].line = (prefix_line){owner, n->depth * c->config.page_tokens, n->depth, uses, now_us, n->key};
    c->lines[i].stamp = ++c->stamp;
    c->line_nodes[i] = at;
    c->line_keys[i] = n->key.low;
    n->lined = true;
}

void prefix_lines_leave(prefix_cache *c, uint32_t at)
{
    prefix_node *n = node_at(c, at);
    if (!n->lined)
        return;
    uint32_t up = n->parent;
    while (node_at(c, up)->detached)
        up = node_at(c, up)->parent;
    bool root = node_at(c, up)->root;
    for (uint32_t i = 0; i < c->line_count; i++) {
        if (c->line_nodes[i] != at)
            continue;
        c->line_nodes[i] = root ? 0 : up;
        c->lines[i].line.pages_here = node_at(c, up)->depth;
        node_at(c, up)->lined |= !root;
    }
    n->lined = false;
}

void prefix_lines_join(prefix_cache *c, uint32_t at)
{
    prefix_node *n = node_at(c, at);
    for (uint32_t i = 0; i < c->line_count; i++) {
        if (c->line_keys[i] != n->key.low || c->lines[i].line.key.high != n->key.high)
            continue;
        c->line_nodes[i] = at;
        c->lines[i].line.pages_here = n->depth;
        n->lined = true;
    }
}

void prefix_lines_forget(prefix_cache *c, uint32_t first, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->line_count; i++) {
        if (c->lines[i].line.owner >= first && c->lines[i].line.owner - first < count)
            continue;
        c->lines[kept] = c->lines[i];
        c->line_nodes[kept] = c->line_nodes[i];
        c->line_keys[kept++] = c->line_keys[i];
    }
    c->line_count = kept;
}

static int newest_first(const void *a, const void *b)
{
    uint32_t left = (*(const kept_line *const *)a)->stamp, right = (*(const kept_line *const *)b)->stamp;
    return (left < right) - (left > right);
}

uint32_t prefix_cache_lines(const prefix_cache *c, prefix_line *out, uint32_t max)
{
    const kept_line *order[LINES_KEPT];
    for (uint32_t i = 0; i < c->line_count; i++)
        order[i] = &c->lines[i];
    qsort(order, c->line_count, sizeof order[0], newest_first);
    uint32_t count = c->line_count < max ? c->line_count : max;
    for (uint32_t i = 0; i < count; i++)
        out[i] = order[i]->line;
    return count;
}
