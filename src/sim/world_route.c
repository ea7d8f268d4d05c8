/* sim/world_route.c: which box? For prefix affinity a table remembers where a session was last: open addressing, at
 * most half full; when it would be fuller it is emptied, and sessions find a new home. */
#include "sim/world_state.h"

#include <stdlib.h>
#include <string.h>

enum { TABLE_SLOTS = 1 << 17 };

struct route_table {
    uint64_t keys[TABLE_SLOTS]; /* 0: free */
    uint8_t boxes[TABLE_SLOTS];
    uint32_t used;
};

static const char *const route_names[ROUTES] = {"round-robin", "least-loaded", "prefix"};

const char *world_route_name(world_route route)
{
    return route_names[route];
}

bool world_route_find(world_route *out, const char *name)
{
    for (int i = 0; i < ROUTES; i++)
        if (!strcmp(route_names[i], name)) {
            *out = (world_route)i;
            return true;
        }
    return false;
}

route_table *route_table_create(void)
{
    return calloc(1, sizeof(route_table));
}

void route_table_destroy(route_table *t)
{
    free(t);
}

uint64_t route_key_of(const load_session *session)
{
    bool blocks = session->row && session->row->block_count > 0;
    rng r = {blocks ? session->blocks[session->row->block_start] : session->key};
    uint64_t key = rng_next(&r);
    return key ? key : 1;
}

static uint32_t slot_of(const route_table *t, uint64_t key)
{
    uint32_t at = (uint32_t)(key % TABLE_SLOTS);
    while (t->keys[at] && t->keys[at] != key)
        at = (at + 1) % TABLE_SLOTS;
    return at;
}

static void remember(route_table *t, uint64_t key, uint32_t box)
{
    if (t->used >= TABLE_SLOTS / 2)
        memset(t, 0, sizeof *t);
    uint32_t at = slot_of(t, key);
    t->used += t->keys[at] == 0;
    t->keys[at] = key;
    t->boxes[at] = (uint8_t)box;
}

static uint32_t least_loaded(const world *w, uint32_t from, uint32_t to)
{
    uint32_t best = from;
    for (uint32_t i = from + 1; i < to; i++)
        if (w->boxes[i].live_count < w->boxes[best].live_count)
            best = i;
    return best;
}

uint32_t world_route_pick(world *w, uint64_t key)
{
    if (w->front_count == 1)
        return 0;
    if (w->config.route == ROUTE_ROUND_ROBIN)
        return w->next_box++ % w->front_count;
    if (w->config.route == ROUTE_LEAST_LOADED)
        return least_loaded(w, 0, w->front_count);
    uint32_t at = slot_of(w->routes, key);
    uint32_t box = w->routes->keys[at] ? w->routes->boxes[at] : least_loaded(w, 0, w->front_count);
    remember(w->routes, key, box);
    return box;
}

uint32_t world_route_decode(const world *w)
{
    return least_loaded(w, w->front_count, w->box_count);
}
