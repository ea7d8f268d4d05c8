/* kv/prefix_cache.c: the tree. A child is found through one table of chains for all nodes, by the key that names it;
 * its parent and its tokens are compared in full, so that a key alone is never trusted. What goes, and when, is in
 * prefix_evict.c. */
#include "kv/prefix_state.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    NEAREST_MAX = 64, /* children looked at for the first token that differs */
    BRANCHES_MAX = 4  /* an end that was continued as often is a prefix that many share, not a session's */
};

static prefix_key key_of(const void *data, size_t size)
{
    XXH128_hash_t hash = XXH3_128bits(data, size);
    return (prefix_key){hash.low64, hash.high64};
}

prefix_key prefix_key_root(uint64_t space)
{
    return key_of(&space, sizeof space);
}

prefix_key prefix_key_next(prefix_key before, const int32_t *tokens, uint32_t count)
{
    XXH128_hash_t own = XXH3_128bits(tokens, count * sizeof *tokens);
    uint64_t both[4] = {before.low, before.high, own.low64, own.high64};
    return key_of(both, sizeof both);
}

prefix_key prefix_key_state(prefix_key at, uint32_t index)
{
    uint64_t parts[3] = {at.low, at.high, index};
    return key_of(parts, sizeof parts);
}

static bool same_key(prefix_key a, prefix_key b)
{
    return a.low == b.low && a.high == b.high;
}

static size_t round_up(size_t size)
{
    return (size + 7) / 8 * 8;
}

/* Roots are nodes too, each with at least one child that holds a page: so twice the pages bound them. Tables are not
 * touched before they are used. */
static bool reserve(prefix_cache *c)
{
    const prefix_cache_config *config = &c->config;
    c->state_offset = round_up(sizeof(prefix_node) + config->page_tokens * sizeof(int32_t));
    c->node_bytes = c->state_offset;
    if (config->state_pages)
        c->node_bytes = round_up(c->state_offset + sizeof(node_state) + config->state_pages * sizeof(page_id));
    c->node_max = 2 * c->page_count;
    c->bucket_mask = 1;
    while (c->bucket_mask < 2 * c->page_count)
        c->bucket_mask = c->bucket_mask * 2 + 1;
    c->ghost_mask = c->bucket_mask;
    c->nodes = calloc(c->node_max + (size_t)1, c->node_bytes);
    c->buckets = calloc(c->bucket_mask + (size_t)1, sizeof *c->buckets);
    c->ghosts = calloc(c->ghost_mask + (size_t)1, sizeof *c->ghosts);
    c->node_of = calloc(c->page_count, sizeof *c->node_of);
    c->page_busy = calloc(c->page_count, sizeof *c->page_busy);
    return c->nodes && c->buckets && c->ghosts && c->node_of && c->page_busy;
}

status prefix_cache_create(prefix_cache **out, const prefix_cache_config *config, error *err)
{
    uint32_t pages = page_pool_read_counts(config->pool).total;
    if (config->page_tokens == 0 || config->page_tokens > 1 << 16 || config->state_pages > 1 << 20 || pages > 1 << 30)
        return error_set(err, ERR_INVALID, "prefix cache: %u tokens a page, %u pages a checkpoint, %u pages",
                         config->page_tokens, config->state_pages, pages);
    prefix_cache *c = calloc(1, sizeof *c);
    if (c) {
        c->config = *config;
        c->pool = config->pool;
        c->page_count = pages;
    }
    if (!c || !reserve(c)) {
        prefix_cache_destroy(c);
        return error_set(err, ERR_MEMORY, "prefix cache: no memory for the nodes of %u pages", pages);
    }
    *out = c;
    return OK;
}

static void give_share_back(prefix_cache *c, page_id page)
{
    page_pool_keep(c->pool, page, false);
    page_pool_release(c->pool, page);
}

void prefix_cache_destroy(prefix_cache *c)
{
    if (!c)
        return;
    for (uint32_t at = 1; c->nodes && at <= c->nodes_touched; at++) {
        prefix_node *n = node_at(c, at);
        if (!n->used || n->root)
            continue;
        assert(n->pins == 0);
        give_share_back(c, n->page);
        for (uint32_t i = 0; n->has_state && i < c->config.state_pages; i++)
            give_share_back(c, state_of(c, n)->pages[i]);
    }
    free(c->nodes);
    free(c->buckets);
    free(c->ghosts);
    free(c->node_of);
    free(c->page_busy);
    free(c);
}

/* The child of `parent` (0: none) with that key and those tokens; a root has no tokens, and its space in their place.
 */
static uint32_t find_node(const prefix_cache *c, uint32_t parent, prefix_key key, const int32_t *tokens, uint64_t space)
{
    for (uint32_t at = c->buckets[key.low & c->bucket_mask]; at; at = node_at(c, at)->hash_next) {
        prefix_node *n = node_at(c, at);
        if (n->parent != parent || !same_key(n->key, key))
            continue;
        if (n->root ? !tokens && n->space == space
                    : tokens && memcmp(node_tokens(n), tokens, c->config.page_tokens * sizeof *tokens) == 0)
            return at;
    }
    return 0;
}

static uint32_t find_root(const prefix_cache *c, uint64_t space)
{
    return find_node(c, 0, prefix_key_root(space), NULL, space);
}

static uint32_t find_child(const prefix_cache *c, uint32_t parent, const int32_t *tokens)
{
    if (!parent)
        return 0;
    return find_node(c, parent, prefix_key_next(node_at(c, parent)->key, tokens, c->config.page_tokens), tokens, 0);
}

static void hash_node(prefix_cache *c, uint32_t at)
{
    prefix_node *n = node_at(c, at);
    uint32_t *bucket = &c->buckets[n->key.low & c->bucket_mask];
    n->hash_next = *bucket;
    *bucket = at;
}

void prefix_unhash(prefix_cache *c, uint32_t at)
{
    prefix_node *n = node_at(c, at);
    uint32_t *from = &c->buckets[n->key.low & c->bucket_mask];
    while (*from != at)
        from = &node_at(c, *from)->hash_next;
    *from = n->hash_next;
}

static uint32_t take_node(prefix_cache *c)
{
    uint32_t at = c->free_node;
    if (at)
        c->free_node = node_at(c, at)->next_sibling;
    else
        at = ++c->nodes_touched;
    assert(at <= c->node_max);
    prefix_node *n = node_at(c, at);
    *n = (prefix_node){.used = true, .item.prev = UNQUEUED};
    if (c->config.state_pages)
        *state_of(c, n) = (node_state){.item.prev = UNQUEUED};
    return at;
}

static void leave_siblings(prefix_cache *c, uint32_t at)
{
    prefix_node *n = node_at(c, at);
    if (n->prev_sibling)
        node_at(c, n->prev_sibling)->next_sibling = n->next_sibling;
    else
        node_at(c, n->parent)->first_child = n->next_sibling;
    if (n->next_sibling)
        node_at(c, n->next_sibling)->prev_sibling = n->prev_sibling;
}

void prefix_free_node(prefix_cache *c, uint32_t at)
{
    prefix_node *n = node_at(c, at);
    uint32_t parent = n->parent;
    assert(!n->first_child && !n->pins && !n->has_state);
    if (!n->root)
        leave_siblings(c, at);
    memset(node_tokens(n), 0, c->config.page_tokens * sizeof(int32_t));
    n->used = false;
    n->next_sibling = c->free_node;
    c->free_node = at;
    if (parent && node_at(c, parent)->root && !node_at(c, parent)->first_child) {
        prefix_unhash(c, parent);
        prefix_free_node(c, parent);
    }
}

static uint32_t make_root(prefix_cache *c, uint64_t space)
{
    uint32_t at = take_node(c);
    prefix_node *n = node_at(c, at);
    n->root = true;
    n->key = prefix_key_root(space);
    n->space = space;
    hash_node(c, at);
    return at;
}

/* The node's last use, as far as recency goes. */
static void touch(prefix_cache *c, uint32_t at, uint64_t now_us)
{
    prefix_node *n = node_at(c, at);
    assert(n->item.prev == UNQUEUED);
    n->last_us = now_us;
    n->grown_at = c->grown;
    n->item.base = c->clock[n->protected];
    n->item.stamp = c->stamp;
    prefix_list_remove(c, at);
    prefix_list_add(c, at, n->protected ? LIST_PROTECTED : LIST_ONCE);
}

/* From the deepest node up, so that no node is ever younger than what it hangs on. */
static void touch_path(prefix_cache *c, uint32_t at, bool protect, uint64_t now_us)
{
    c->stamp++;
    for (; !node_at(c, at)->root; at = node_at(c, at)->parent) {
        if (protect)
            prefix_protect(c, at);
        touch(c, at, now_us);
    }
}

static void pin(prefix_cache *c, uint32_t at)
{
    node_at(c, at)->pins++;
    prefix_settle(c, at);
}

static void unpin(prefix_cache *c, uint32_t at)
{
    assert(node_at(c, at)->pins > 0);
    node_at(c, at)->pins--;
    prefix_settle(c, at);
    prefix_reap(c, at);
}

static uint32_t children_of(const prefix_cache *c, uint32_t at, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t child = node_at(c, at)->first_child; child && count < max; child = node_at(c, child)->next_sibling)
        count++;
    return count;
}

/* What goes on here goes on with an entry: one that ended here, or one that broke off. */
static bool is_line_end(const prefix_cache *c, uint32_t at)
{
    const prefix_node *n = node_at(c, at);
    return n->ended ? children_of(c, at, BRANCHES_MAX) < BRANCHES_MAX : !n->first_child && !n->pins;
}

/* Of the `count` tokens after `at`, how many does its nearest child begin with? */
static uint32_t nearest_child(const prefix_cache *c, uint32_t at, const int32_t *tokens, uint32_t count)
{
    uint32_t best = 0, seen = 0;
    if (count > c->config.page_tokens)
        count = c->config.page_tokens;
    for (uint32_t child = node_at(c, at)->first_child; child && seen < NEAREST_MAX && best < count; seen++) {
        prefix_node *n = node_at(c, child);
        uint32_t same = 0;
        while (!n->detached && same < count && node_tokens(n)[same] == tokens[same])
            same++;
        best = same > best ? same : best;
        child = n->next_sibling;
    }
    return best;
}

prefix_match prefix_cache_find(const prefix_cache *c, uint64_t space, const int32_t *tokens, uint32_t count,
                               uint32_t pages_max)
{
    prefix_match match = {0};
    uint32_t page_tokens = c->config.page_tokens, at = find_root(c, space), next, usable = 0, held = 0;
    for (; match.pages < count / page_tokens; match.pages++, at = next) {
        next = find_child(c, at, tokens + (size_t)match.pages * page_tokens);
        if (!next)
            break;
        held += page_pool_holders(c->pool, node_at(c, next)->page) > 1;
        if (match.pages < pages_max && (!c->config.state_pages || node_at(c, next)->has_state)) {
            match.usable = match.pages + 1;
            match.in_use = held;
            usable = next;
        }
    }
    match.line_end = usable && is_line_end(c, usable);
    match.differs_at = match.pages * page_tokens;
    if (at)
        match.differs_at += nearest_child(c, at, tokens + match.differs_at, count - match.differs_at);
    return match;
}

void prefix_cache_open(prefix_cache *c, prefix_cursor *cursor, uint64_t space, uint32_t owner, const int32_t *tokens,
                       uint32_t pages, uint64_t now_us, page_id *page_out, page_id *state_out)
{
    assert(owner < PREFIX_OWNERS_MAX);
    *cursor = (prefix_cursor){.depth = pages, .space = space, .owner = owner, .epoch = c->owners[owner].epoch};
    if (pages == 0)
        return;
    uint32_t at = find_root(c, space);
    for (uint32_t i = 0; i < pages; i++) {
        at = find_child(c, at, tokens + (size_t)i * c->config.page_tokens);
        assert(at);
        page_out[i] = node_at(c, at)->page;
        page_pool_share(c->pool, page_out[i]);
    }
    prefix_node *n = node_at(c, at);
    cursor->node = n;
    cursor->continues = is_line_end(c, at);
    pin(c, at);
    touch_path(c, at, true, now_us);
    if (!c->config.state_pages || !state_out)
        return;
    assert(n->has_state);
    prefix_queue_remove(c, at, ITEM_STATE);
    state_of(c, n)->item.base = c->clock[n->protected];
    state_of(c, n)->item.stamp = c->stamp;
    n->passed = false;
    for (uint32_t i = 0; i < c->config.state_pages; i++) {
        state_out[i] = state_of(c, n)->pages[i];
        page_pool_share(c->pool, state_out[i]);
    }
    prefix_settle(c, at);
}

/* Its text was forgotten, or that of its tenant: what the sequence computes on leaves nothing here. */
static bool is_dead(const prefix_cache *c, const prefix_cursor *cursor)
{
    return cursor->epoch != c->owners[cursor->owner].epoch || (cursor->node && cursor->node->detached);
}

static void hold_page(prefix_cache *c, uint32_t at, page_id page)
{
    assert(page < c->page_count && !c->node_of[page]);
    page_pool_share(c->pool, page);
    page_pool_keep(c->pool, page, true);
    c->node_of[page] = at;
    c->page_busy[page] = true;
}

static uint32_t add_node(prefix_cache *c, uint32_t parent, const prefix_cursor *cursor, const int32_t *tokens,
                         page_id page)
{
    uint32_t at = take_node(c);
    prefix_node *n = node_at(c, at), *above = node_at(c, parent);
    n->key = prefix_key_next(above->key, tokens, c->config.page_tokens);
    n->parent = parent;
    n->depth = above->depth + 1;
    n->owner = (uint16_t)cursor->owner;
    n->page = page;
    memcpy(node_tokens(n), tokens, c->config.page_tokens * sizeof *tokens);
    n->next_sibling = above->first_child;
    if (above->first_child)
        node_at(c, above->first_child)->prev_sibling = at;
    above->first_child = at;
    hold_page(c, at, page);
    n->busy = true;
    hash_node(c, at);
    c->node_count++;
    c->owners[n->owner].pages++;
    if (c->owner_end <= n->owner)
        c->owner_end = n->owner + 1u;
    prefix_list_add(c, at, LIST_ONCE);
    if (cursor->continues || prefix_was_evicted(c, n->key))
        prefix_protect(c, at);
    prefix_lines_join(c, at);
    return at;
}

bool prefix_cache_extend(prefix_cache *c, prefix_cursor *cursor, const int32_t *tokens, page_id page, uint64_t now_us)
{
    cursor->depth++;
    if (is_dead(c, cursor))
        return true;
    uint32_t parent = node_number(c, cursor->node);
    if (!parent)
        parent = find_root(c, cursor->space);
    uint32_t at = find_child(c, parent, tokens);
    if (at) {
        cursor->continues |= is_line_end(c, at);
        prefix_protect(c, at);
    } else {
        if (!parent)
            parent = make_root(c, cursor->space);
        at = add_node(c, parent, cursor, tokens, page);
    }
    c->stamp++;
    pin(c, at);
    touch(c, at, now_us);
    if (cursor->node)
        unpin(c, parent);
    cursor->node = node_at(c, at);
    return true;
}

bool prefix_cache_has_state(const prefix_cache *c, const prefix_cursor *cursor)
{
    return is_dead(c, cursor) || (cursor->node && cursor->node->has_state);
}

void prefix_cache_put_state(prefix_cache *c, const prefix_cursor *cursor, const page_id *state, uint64_t now_us)
{
    assert(c->config.state_pages > 0);
    prefix_node *n = cursor->node;
    if (!n || prefix_cache_has_state(c, cursor))
        return;
    uint32_t at = node_number(c, n), above = n->parent;
    node_state *s = state_of(c, n);
    *s = (node_state){.item = {.base = c->clock[n->protected], .stamp = ++c->stamp, .prev = UNQUEUED}};
    memcpy(s->pages, state, c->config.state_pages * sizeof *state);
    for (uint32_t i = 0; i < c->config.state_pages; i++)
        hold_page(c, at, state[i]);
    s->busy = c->config.state_pages;
    n->has_state = true;
    n->passed = false;
    touch(c, at, now_us);
    c->state_count++;
    c->owners[n->owner].pages += c->config.state_pages;
    while (!node_at(c, above)->root && !node_at(c, above)->has_state)
        above = node_at(c, above)->parent;
    if (node_at(c, above)->has_state && children_of(c, above, 2) == 1) {
        node_at(c, above)->passed = true;
        prefix_queue_remove(c, above, ITEM_STATE);
        prefix_settle(c, above);
    }
    prefix_settle(c, at);
}

void prefix_cache_close(prefix_cache *c, prefix_cursor *cursor, bool ended, uint64_t now_us)
{
    uint32_t at = node_number(c, cursor->node);
    if (at && !node_at(c, at)->detached) {
        touch_path(c, at, false, now_us);
        if (ended && !is_dead(c, cursor)) {
            node_at(c, at)->ended = true;
            prefix_line_ended(c, at, cursor->owner, now_us);
        }
    }
    if (at)
        unpin(c, at);
    *cursor = (prefix_cursor){.space = cursor->space, .owner = cursor->owner};
}
