/* kv/prefix_evict.c: what is given up, and when.
 * Victims wait in queues, two an owner: leaves and checkpoints that nobody uses. Who is asked for room takes the best
 * of all queues whose owner may give: first what was used once, then what is protected; within each by GreedyDual: the
 * rank is the segment's clock at the last use plus what computing it again would cost per page, and the clock is raised
 * to the rank of what went last, so that what is not used sinks. A checkpoint's cost depends on the one before it,
 * which may have gone since: its rank is looked at again before it goes.
 *
 * A protected page falls back when twice the pool became protected since its last use: sessions age by the growth of
 * other sessions, never by documents. What went after one use and soon comes back is protected at once (`ghosts`);
 * else sessions that are dead could keep the live ones out for ever. */
#include "kv/prefix_state.h"

#include <string.h>

/* KV below the last checkpoint of a path helps only once somebody puts a checkpoint there, and a checkpoint that a
 * deeper one of the same line has passed only after an edit: each counts as this part of its cost. */
static const double UNLIKELY = 0.25;

void prefix_list_add(prefix_cache *c, uint32_t at, use_list list)
{
    prefix_node *n = node_at(c, at);
    n->list = (uint8_t)list;
    n->newer = 0;
    n->older = c->newest[list];
    if (n->older)
        node_at(c, n->older)->newer = at;
    else
        c->oldest[list] = at;
    c->newest[list] = at;
}

void prefix_list_remove(prefix_cache *c, uint32_t at)
{
    prefix_node *n = node_at(c, at);
    *(n->older ? &node_at(c, n->older)->newer : &c->oldest[n->list]) = n->newer;
    *(n->newer ? &node_at(c, n->newer)->older : &c->newest[n->list]) = n->older;
    n->older = n->newer = 0;
}

static double page_cost(const prefix_cache *c, const prefix_node *n)
{
    double tokens = c->config.page_tokens, before = (n->depth - 1) * tokens;
    return tokens * (c->config.token_us + c->config.depth_us * before) * (c->config.state_pages ? UNLIKELY : 1);
}

/* The nearest checkpoint above; 0: none. */
static uint32_t state_above(const prefix_cache *c, uint32_t at)
{
    do
        at = node_at(c, at)->parent;
    while (at && !node_at(c, at)->has_state);
    return at;
}

static double state_cost(const prefix_cache *c, uint32_t at)
{
    const prefix_node *n = node_at(c, at);
    uint32_t above = state_above(c, at);
    double end = (double)n->depth * c->config.page_tokens;
    double start = above ? (double)node_at(c, above)->depth * c->config.page_tokens : 0;
    double cost = (end - start) * (c->config.token_us + c->config.depth_us * (start + end) / 2);
    return cost / c->config.state_pages * (n->passed ? UNLIKELY : 1);
}

static void queue_item(prefix_cache *c, uint32_t at, item_kind kind, bool wanted)
{
    heap_item *item = item_at(c, at, kind);
    if (!wanted) {
        prefix_queue_remove(c, at, kind);
    } else if (item->prev == UNQUEUED) {
        item->rank = item->base + (kind == ITEM_PAGE ? page_cost(c, node_at(c, at)) : state_cost(c, at));
        prefix_queue_add(c, at, kind);
    }
}

static void count_node(prefix_cache *c, prefix_node *n, bool loose, bool idle_state)
{
    prefix_owner *owner = &c->owners[n->owner];
    bool pure = loose && !n->foreign_children;
    uint32_t pages = loose + (idle_state ? c->config.state_pages : 0);
    uint32_t before = n->counted + (n->state_counted ? c->config.state_pages : 0);
    c->protected_pages += n->protected ? pages - before : 0;
    owner->loose += (uint32_t)loose - n->counted;
    owner->pure += (uint32_t)pure - n->pure;
    if (idle_state != n->state_counted)
        owner->idle_state_pages += idle_state ? c->config.state_pages : 0u - c->config.state_pages;
    n->counted = loose;
    n->pure = pure;
    n->state_counted = idle_state;
}

void prefix_settle(prefix_cache *c, uint32_t at)
{
    for (;;) {
        prefix_node *n = node_at(c, at);
        bool state_busy = n->has_state && state_of(c, n)->busy > 0;
        bool blocked = n->pins || n->busy || n->blocked_children || state_busy;
        bool live = !n->root && !n->detached;
        count_node(c, n, live && !blocked, live && n->has_state && !state_busy);
        queue_item(c, at, ITEM_PAGE, live && !blocked && !n->first_child && !n->has_state);
        if (c->config.state_pages)
            queue_item(c, at, ITEM_STATE, n->state_counted);
        if (n->root)
            return;
        prefix_node *parent = node_at(c, n->parent);
        bool foreign = n->foreign_children || (!parent->root && n->owner != parent->owner);
        if (blocked == n->blocked && foreign == n->foreign)
            return;
        parent->blocked_children += (uint32_t)blocked - n->blocked;
        parent->foreign_children += (uint32_t)foreign - n->foreign;
        n->blocked = blocked;
        n->foreign = foreign;
        at = n->parent;
    }
}

void prefix_drain(prefix_cache *c)
{
    page_id page;
    while (page_pool_next_changed(c->pool, &page)) {
        uint32_t at = c->node_of[page];
        bool busy = page_pool_holders(c->pool, page) > 1;
        if (!at || busy == c->page_busy[page])
            continue;
        prefix_node *n = node_at(c, at);
        c->page_busy[page] = busy;
        if (n->page == page)
            n->busy = busy;
        else
            state_of(c, n)->busy += busy ? 1 : UINT32_MAX;
        prefix_settle(c, at);
        prefix_reap(c, at);
    }
}

/* Takes its items out of their queues and lets settle put them back by what they are worth now. */
static void requeue(prefix_cache *c, uint32_t at)
{
    prefix_queue_remove(c, at, ITEM_PAGE);
    if (c->config.state_pages)
        prefix_queue_remove(c, at, ITEM_STATE);
    prefix_settle(c, at);
}

static void change_segment(prefix_cache *c, uint32_t at, bool protected, use_list list)
{
    prefix_node *n = node_at(c, at);
    prefix_queue_remove(c, at, ITEM_PAGE);
    count_node(c, n, false, false);
    if (c->config.state_pages) {
        prefix_queue_remove(c, at, ITEM_STATE);
        state_of(c, n)->item.base = c->clock[protected];
    }
    n->item.base = c->clock[protected];
    n->protected = protected;
    prefix_list_remove(c, at);
    prefix_list_add(c, at, list);
    requeue(c, at);
}

void prefix_protect(prefix_cache *c, uint32_t at)
{
    if (node_at(c, at)->protected)
        return;
    c->grown++;
    change_segment(c, at, true, LIST_PROTECTED);
    node_at(c, at)->grown_at = c->grown;
}

static void age(prefix_cache *c)
{
    for (uint32_t at; (at = c->oldest[LIST_PROTECTED]);) {
        prefix_node *n = node_at(c, at);
        if (c->grown - n->grown_at <= 2 * (uint64_t)c->page_count)
            return;
        if (n->blocked) { /* in use all the time */
            n->grown_at = c->grown;
            prefix_list_remove(c, at);
            prefix_list_add(c, at, LIST_PROTECTED);
        } else {
            change_segment(c, at, false, LIST_AGED);
        }
    }
}

static void remember(prefix_cache *c, prefix_key key)
{
    c->ghosts[key.low & c->ghost_mask] = (ghost){(uint32_t)(key.high >> 32), ++c->ghost_count};
}

bool prefix_was_evicted(const prefix_cache *c, prefix_key key)
{
    ghost g = c->ghosts[key.low & c->ghost_mask];
    return g.when && g.mark == (uint32_t)(key.high >> 32) && c->ghost_count - g.when < c->page_count;
}

static void give_page_back(prefix_cache *c, prefix_node *n, page_id page, eviction_cause cause)
{
    c->node_of[page] = 0;
    page_pool_keep(c->pool, page, false);
    page_pool_release(c->pool, page);
    c->evicted_pages[cause]++;
    c->owners[n->owner].evicted++;
    if (!n->detached)
        c->owners[n->owner].pages--;
}

static void give_up_state(prefix_cache *c, uint32_t at, eviction_cause cause)
{
    prefix_node *n = node_at(c, at);
    prefix_queue_remove(c, at, ITEM_STATE);
    n->has_state = false;
    for (uint32_t i = 0; i < c->config.state_pages; i++)
        give_page_back(c, n, state_of(c, n)->pages[i], cause);
    c->evicted_states[cause]++;
    c->state_count -= !n->detached;
    uint32_t above = n->detached ? 0 : state_above(c, at);
    if (above && node_at(c, above)->passed) {
        node_at(c, above)->passed = false;
        requeue(c, above);
    }
    prefix_settle(c, at);
}

/* A leaf, checkpoint and all. The parent may be a leaf then. */
static void give_up_node(prefix_cache *c, uint32_t at, eviction_cause cause)
{
    prefix_node *n = node_at(c, at);
    uint32_t parent = n->parent;
    assert(!n->blocked && !n->first_child && !n->root);
    if (n->has_state)
        give_up_state(c, at, cause);
    prefix_queue_remove(c, at, ITEM_PAGE);
    count_node(c, n, false, false);
    if (!n->detached) {
        if (!n->protected && cause <= EVICTED_BUDGET)
            remember(c, n->key);
        prefix_lines_leave(c, at);
        prefix_unhash(c, at);
        prefix_list_remove(c, at);
        c->node_count--;
    }
    give_page_back(c, n, n->page, cause);
    node_at(c, parent)->foreign_children -= n->foreign;
    bool root_goes = node_at(c, parent)->root && node_at(c, parent)->first_child == at && !n->next_sibling;
    prefix_free_node(c, at);
    if (!root_goes)
        prefix_settle(c, parent);
}

void prefix_reap(prefix_cache *c, uint32_t at)
{
    for (;;) {
        prefix_node *n = node_at(c, at);
        if (!n->detached || n->blocked || n->first_child)
            return;
        uint32_t parent = n->parent;
        give_up_node(c, at, EVICTED_DELETED);
        if (!node_at(c, parent)->used)
            return;
        at = parent;
    }
}

enum { NO_OWNER = PREFIX_OWNERS_MAX };

typedef struct {
    uint32_t node; /* 0: nothing may go */
    item_kind kind;
} victim;

static uint32_t item_pages(const prefix_cache *c, item_kind kind)
{
    return kind == ITEM_PAGE ? 1 : c->config.state_pages;
}

static victim best_victim(const prefix_cache *c, uint32_t owner, bool floors)
{
    victim best = {0};
    for (uint32_t o = 0; o < c->owner_end; o++) {
        const prefix_owner *from = &c->owners[o];
        for (item_kind kind = ITEM_PAGE; kind < ITEM_KINDS; kind++) {
            uint32_t at = from->queue[kind];
            if (!at || (floors && o != owner && from->pages < (uint64_t)from->floor + item_pages(c, kind)))
                continue;
            if (!best.node || prefix_goes_before(c, at, kind, best.node, best.kind))
                best = (victim){at, kind};
        }
    }
    return best;
}

/* Gives up what is worth least. False: nothing may go. */
static bool give_up_one(prefix_cache *c, uint32_t owner, bool floors, eviction_cause cause)
{
    for (;;) {
        victim v = best_victim(c, owner, floors);
        if (!v.node)
            return false;
        heap_item *item = item_at(c, v.node, v.kind);
        double *clock = &c->clock[node_at(c, v.node)->protected];
        if (v.kind == ITEM_STATE && item->base + state_cost(c, v.node) > item->rank) {
            requeue(c, v.node); /* the checkpoint before it has gone: it is worth more than it was */
            continue;
        }
        *clock = item->rank > *clock ? item->rank : *clock;
        if (v.kind == ITEM_STATE)
            give_up_state(c, v.node, cause);
        else
            give_up_node(c, v.node, cause);
        return true;
    }
}

uint32_t prefix_cache_make_room(prefix_cache *c, uint32_t pages, uint32_t owner, uint64_t now_us)
{
    (void)now_us;
    prefix_drain(c);
    age(c);
    while (page_pool_read_counts(c->pool).free < pages && give_up_one(c, owner, true, EVICTED_ROOM))
        ;
    return page_pool_read_counts(c->pool).free;
}

bool prefix_cache_give_passed(prefix_cache *c, const prefix_cursor *cursor)
{
    uint32_t at = node_number(c, cursor->node), seen = 0, given = 0;
    prefix_drain(c);
    for (; at && !node_at(c, at)->root; at = node_at(c, at)->parent) {
        const prefix_node *n = node_at(c, at);
        if (!n->has_state)
            continue;
        if (given) {
            give_up_state(c, given, EVICTED_ROOM);
            return true;
        }
        bool alone = n->first_child && !node_at(c, n->first_child)->next_sibling && n->owner == cursor->owner;
        given = seen++ >= 2 && n->state_counted && alone ? at : 0;
    }
    return false;
}

uint32_t prefix_cache_available(const prefix_cache *c, uint32_t owner)
{
    prefix_drain((prefix_cache *)c); /* what others did since, not what the caller sees */
    uint32_t sum = page_pool_read_counts(c->pool).free, step = c->config.state_pages > 1 ? c->config.state_pages : 1;
    bool binding = false; /* where a floor holds a leaf, what lies above it stays as well, whose ever it is */
    for (uint32_t o = 0; o < c->owner_end; o++) {
        const prefix_owner *from = &c->owners[o];
        binding |= o != owner && from->loose + from->idle_state_pages + from->floor > from->pages;
    }
    for (uint32_t o = 0; o < c->owner_end; o++) {
        const prefix_owner *from = &c->owners[o];
        uint32_t may = (binding ? from->pure : from->loose) + from->idle_state_pages;
        uint32_t slack = from->pages > from->floor ? from->pages - from->floor : 0;
        if (o != owner && from->loose + from->idle_state_pages > slack) { /* the last checkpoint may not fit in */
            slack = slack >= step ? slack - (step - 1) : 0;
            may = may < slack ? may : slack;
        }
        sum += may;
    }
    return sum;
}

uint32_t prefix_cache_spare(const prefix_cache *c, uint32_t owner)
{
    uint32_t available = prefix_cache_available(c, owner);
    return available > c->protected_pages ? available - c->protected_pages : 0;
}

/* Everything below the oldest has gone or is in use, as nothing is younger than what it hangs on. */
static void expire(prefix_cache *c, use_list list, uint64_t now_us)
{
    for (uint32_t at = c->oldest[list], next; at; at = next) {
        prefix_node *n = node_at(c, at);
        if (n->last_us + c->config.ttl_us > now_us)
            return;
        next = n->newer;
        if (n->blocked) {
            n->last_us = now_us;
            prefix_list_remove(c, at);
            prefix_list_add(c, at, list);
        } else if (!n->first_child) {
            give_up_node(c, at, EVICTED_TTL);
        }
    }
}

void prefix_cache_trim(prefix_cache *c, uint64_t now_us)
{
    prefix_drain(c);
    age(c);
    for (use_list list = LIST_ONCE; c->config.ttl_us && list < LISTS; list++)
        expire(c, list, now_us);
    while (page_pool_read_counts(c->pool).idle > c->config.idle_pages_max)
        if (!give_up_one(c, NO_OWNER, true, EVICTED_BUDGET) && !give_up_one(c, NO_OWNER, false, EVICTED_BUDGET))
            return;
}

static void detach(prefix_cache *c, uint32_t at)
{
    prefix_node *n = node_at(c, at);
    prefix_queue_remove(c, at, ITEM_PAGE);
    if (c->config.state_pages)
        prefix_queue_remove(c, at, ITEM_STATE);
    count_node(c, n, false, false);
    prefix_unhash(c, at);
    prefix_list_remove(c, at);
    memset(node_tokens(n), 0, c->config.page_tokens * sizeof(int32_t)); /* it may be pinned for long yet */
    n->detached = true;
    prefix_lines_leave(c, at);
    c->node_count--;
    c->state_count -= n->has_state;
    c->owners[n->owner].pages -= 1 + (n->has_state ? c->config.state_pages : 0);
}

/* The node and all below it: without the tokens above nobody can find them. */
static void detach_subtree(prefix_cache *c, uint32_t top)
{
    for (uint32_t at = top;;) {
        if (!node_at(c, at)->detached)
            detach(c, at);
        if (node_at(c, at)->first_child) {
            at = node_at(c, at)->first_child;
            continue;
        }
        while (at != top && !node_at(c, at)->next_sibling)
            at = node_at(c, at)->parent;
        if (at == top)
            return;
        at = node_at(c, at)->next_sibling;
    }
}

uint32_t prefix_cache_forget(prefix_cache *c, uint32_t first, uint32_t count)
{
    uint64_t before = c->evicted_pages[EVICTED_DELETED];
    prefix_drain(c);
    for (uint32_t o = first; o < PREFIX_OWNERS_MAX && o - first < count; o++)
        c->owners[o].epoch++;
    prefix_lines_forget(c, first, count);
    for (uint32_t at = 1; at <= c->nodes_touched; at++) {
        const prefix_node *n = node_at(c, at);
        if (n->used && !n->root && !n->detached && n->owner >= first && n->owner - first < count)
            detach_subtree(c, at);
    }
    for (uint32_t at = 1; at <= c->nodes_touched; at++) {
        const prefix_node *n = node_at(c, at);
        if (n->used && n->detached)
            prefix_reap(c, at);
    }
    memset(c->ghosts, 0, (c->ghost_mask + (size_t)1) * sizeof *c->ghosts);
    return (uint32_t)(c->evicted_pages[EVICTED_DELETED] - before);
}

void prefix_cache_set_floor(prefix_cache *c, uint32_t owner, uint32_t pages)
{
    assert(owner < PREFIX_OWNERS_MAX);
    c->owners[owner].floor = pages;
}

void prefix_cache_set_idle_max(prefix_cache *c, uint32_t pages)
{
    c->config.idle_pages_max = pages;
}

void prefix_cache_set_cost(prefix_cache *c, double token_us, double depth_us)
{
    c->config.token_us = token_us;
    c->config.depth_us = depth_us;
}

prefix_cache_counts prefix_cache_read_counts(const prefix_cache *c)
{
    prefix_cache_counts counts = {.nodes = c->node_count,
                                  .idle_pages = page_pool_read_counts(c->pool).idle,
                                  .state_checkpoints = c->state_count,
                                  .lines = c->line_count};
    memcpy(counts.evicted_pages, c->evicted_pages, sizeof counts.evicted_pages);
    memcpy(counts.evicted_checkpoints, c->evicted_states, sizeof counts.evicted_checkpoints);
    return counts;
}

uint64_t prefix_cache_owner_evicted(const prefix_cache *c, uint32_t owner)
{
    return c->owners[owner].evicted;
}

uint32_t prefix_cache_owner_pages(const prefix_cache *c, uint32_t owner)
{
    return c->owners[owner].pages;
}
