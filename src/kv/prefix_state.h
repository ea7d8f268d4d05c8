/* kv/prefix_state.h: private to prefix_*.c: what a node is, and what must hold.
 * Nodes lie in one table made at the start and are named by their number in it; 0 is nobody. A space's root is a node
 * without a page that lives as long as it has children.
 *
 * A node is *blocked* while its page cannot go whatever else goes: a cursor is on it, a sequence or a store still holds
 * its page or its checkpoint, or a node below it is blocked. What is not blocked can be given up, leaves first; so the
 * sum of such nodes and of the idle checkpoints is what make_room can deliver. prefix_settle keeps the marks, the
 * sums and the queues of victims right after a change of one node; prefix_drain hears of shares that others took or
 * gave back. A *detached* node was forgotten: nobody finds it, and it goes when it is not blocked any more. */
#ifndef HEADWAY_KV_PREFIX_STATE_H
#define HEADWAY_KV_PREFIX_STATE_H

#include "kv/prefix_cache.h"

#include <assert.h>
#include <stddef.h>

typedef enum { ITEM_PAGE, ITEM_STATE, ITEM_KINDS } item_kind;
typedef enum { LIST_ONCE, LIST_PROTECTED, LIST_AGED, LISTS } use_list; /* each in order of last use */

typedef struct {
    double base;                /* the segment's clock at the last use */
    double rank;                /* base + cost, fixed while it is queued */
    uint32_t stamp;             /* of the last use: ties */
    uint32_t child, next, prev; /* of a pairing heap; prev UNQUEUED: not in one */
} heap_item;

static const uint32_t UNQUEUED = UINT32_MAX;

struct prefix_node {
    prefix_key key;
    union {
        uint64_t last_us;
        uint64_t space; /* of a root */
    };
    heap_item item;
    uint32_t parent, first_child, next_sibling, prev_sibling;
    uint32_t hash_next;
    uint32_t older, newer; /* in its use_list */
    uint32_t page, depth, pins;
    uint32_t grown_at; /* the cache's `grown` at the last use */
    uint32_t blocked_children, foreign_children;
    uint16_t owner;
    uint8_t list;
    bool used : 1, root : 1, detached : 1, has_state : 1, protected : 1, ended : 1, lined : 1;
    bool busy : 1;              /* somebody else holds the page */
    bool blocked : 1;           /* as counted in the parent */
    bool foreign : 1;           /* nodes of another owner are below it or it is of another owner than its parent */
    bool counted : 1, pure : 1; /* in its owner's `loose`, in its `pure` */
    bool state_counted : 1;     /* in its owner's idle_state_pages */
    bool passed : 1;            /* a deeper checkpoint of the same line took this one's place */
    /* page_tokens ids follow, then a node_state */
};

typedef struct {
    heap_item item;
    uint32_t busy; /* of the pages, how many somebody else holds */
    page_id pages[];
} node_state;

typedef struct {
    uint32_t pages; /* in the tree, checkpoints too */
    uint32_t floor;
    uint32_t loose, pure;      /* nodes not blocked; of them, those with nobody else's nodes below */
    uint32_t idle_state_pages; /* of checkpoints that nobody uses */
    uint32_t queue[ITEM_KINDS];
    uint32_t epoch; /* times that it was forgotten */
    uint64_t evicted;
} prefix_owner;

typedef struct {
    prefix_line line;
    uint32_t stamp;
} kept_line;

enum { LINES_KEPT = PREFIX_LINES_MAX * 4 };

typedef struct { /* a page that was given up after one use */
    uint32_t mark, when;
} ghost;

struct prefix_cache {
    prefix_cache_config config;
    page_pool *pool;
    uint32_t page_count; /* of the pool */
    char *nodes;         /* (node_max + 1) of node_bytes */
    size_t node_bytes, state_offset;
    uint32_t node_max, nodes_touched, free_node; /* [1, nodes_touched] were used at some time */
    uint32_t *buckets;                           /* heads of chains, by key.low */
    uint32_t bucket_mask;
    uint32_t *node_of;  /* (page_count): who holds the page, as its page or in its checkpoint */
    uint8_t *page_busy; /* (page_count): as the node knows it */
    ghost *ghosts;      /* (ghost_mask + 1) */
    uint32_t ghost_mask, ghost_count;
    uint32_t newest[LISTS], oldest[LISTS];
    double clock[2]; /* of what was used once, of what is protected */
    uint32_t stamp;
    uint32_t grown; /* pages that became protected so far */
    uint32_t owner_end;
    prefix_owner owners[PREFIX_OWNERS_MAX];
    kept_line lines[LINES_KEPT];
    uint32_t line_nodes[LINES_KEPT]; /* the deepest page of each that is here; 0: none */
    uint64_t line_keys[LINES_KEPT];  /* key.low of each: searched for every page that is added */
    uint32_t line_count;
    uint32_t node_count, state_count;
    uint32_t protected_pages; /* that could be given up */
    uint64_t evicted_pages[EVICTED_CAUSES], evicted_states[EVICTED_CAUSES];
};

static inline prefix_node *node_at(const prefix_cache *c, uint32_t at)
{
    return (prefix_node *)(void *)(c->nodes + c->node_bytes * at);
}

static inline uint32_t node_number(const prefix_cache *c, const prefix_node *n)
{
    return n ? (uint32_t)((size_t)((const char *)n - c->nodes) / c->node_bytes) : 0;
}

static inline int32_t *node_tokens(prefix_node *n)
{
    return (int32_t *)(n + 1);
}

static inline node_state *state_of(const prefix_cache *c, prefix_node *n)
{
    return (node_state *)(void *)((char *)n + c->state_offset);
}

static inline heap_item *item_at(const prefix_cache *c, uint32_t at, item_kind kind)
{
    prefix_node *n = node_at(c, at);
    return kind == ITEM_PAGE ? &n->item : &state_of(c, n)->item;
}

/* kv/prefix_heap.c: which of these goes first? A pairing heap threaded through the nodes: nothing to allocate. */
bool prefix_goes_before(const prefix_cache *c, uint32_t a, item_kind a_kind, uint32_t b, item_kind b_kind);
void prefix_queue_add(prefix_cache *c, uint32_t at, item_kind kind);    /* nothing when it is in */
void prefix_queue_remove(prefix_cache *c, uint32_t at, item_kind kind); /* nothing when it is out */

/* kv/prefix_evict.c */
void prefix_settle(prefix_cache *c, uint32_t at);
void prefix_reap(prefix_cache *c, uint32_t at); /* frees forgotten nodes that nobody uses any more, from `at` upwards */
void prefix_drain(prefix_cache *c);
void prefix_protect(prefix_cache *c, uint32_t at);
bool prefix_was_evicted(const prefix_cache *c, prefix_key key); /* lately, after one use */
void prefix_list_add(prefix_cache *c, uint32_t at, use_list list);
void prefix_list_remove(prefix_cache *c, uint32_t at);

/* kv/prefix_cache.c */
void prefix_unhash(prefix_cache *c, uint32_t at);
void prefix_free_node(prefix_cache *c, uint32_t at); /* out of its parent's children; the root goes with the last one */

/* kv/prefix_lines.c */
void prefix_line_ended(prefix_cache *c, uint32_t at, uint32_t owner, uint64_t now_us);
void prefix_lines_leave(prefix_cache *c, uint32_t at); /* the node goes: lines end above it from now on */
void prefix_lines_join(prefix_cache *c, uint32_t at);  /* the node came: it may be a line's last page again */
void prefix_lines_forget(prefix_cache *c, uint32_t first, uint32_t count);

#endif
