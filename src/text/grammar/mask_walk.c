/* text/grammar/mask_walk.c: depth first, with the ways of each level on a stack. */
#include "text/grammar/mask_walk.h"

#include <stdlib.h>

bool mask_walk_init(mask_walk *w, const token_trie *trie)
{
    *w = (mask_walk){.trie = trie};
    w->levels = malloc((trie->longest + 2) * sizeof *w->levels);
    w->ways = malloc((size_t)(trie->longest + 2) * WAYS_MAX * sizeof *w->ways);
    w->exits = malloc((trie->node_count + 1) * sizeof *w->exits);
    return w->levels && w->ways && w->exits;
}

void mask_walk_free(mask_walk *w)
{
    free(w->levels);
    free(w->ways);
    free(w->exits);
    *w = (mask_walk){0};
}

static void allow(mask_walk *w, const trie_node *node)
{
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t token = w->trie->tokens[node->first + i];
        w->bits[token / 32] |= 1u << token % 32;
    }
}

void mask_walk_nodes(mask_walk *w, machine *m, const way *ways, uint32_t count, uint32_t from, uint32_t end)
{
    const trie_node *nodes = w->trie->nodes;
    walk_level *level = w->levels;
    *level = (walk_level){end, 0, count, m->frame_count};
    memcpy(w->ways, ways, count * sizeof *ways);
    for (uint32_t i = from;;) {
        while (i >= level->end) {
            if (level == w->levels)
                return;
            level--;
            machine_forget(m, level->frames);
        }
        const trie_node *node = &nodes[i];
        uint32_t top = level->ways + level->count;
        way_list out = {w->ways + top, 0, WAYS_MAX, false};
        machine_step(m, w->ways + level->ways, level->count, node->byte, &out);
        if (m->steps > WALK_STEPS_MAX) {
            w->cut = true;
            machine_forget(m, w->levels->frames);
            return;
        }
        bool deeper = node->skip > i + 1;
        if (out.count || out.ended)
            allow(w, node);
        if (out.ended && w->want_exits && deeper)
            w->exits[w->exit_count++] = i;
        if (out.count && deeper) {
            *++level = (walk_level){node->skip, top, out.count, m->frame_count};
            i++;
        } else {
            machine_forget(m, level->frames);
            i = node->skip;
        }
    }
}

void mask_walk_roots(mask_walk *w, machine *m, const way *ways, uint32_t count)
{
    uint32_t frames = m->frame_count;
    for (uint32_t i = 0; i < w->trie->node_count; i = w->trie->nodes[i].skip) {
        way_list out = {w->ways, 0, WAYS_MAX, false};
        machine_step(m, ways, count, w->trie->nodes[i].byte, &out);
        machine_forget(m, frames);
        if (out.count || out.ended)
            allow(w, &w->trie->nodes[i]);
    }
}
