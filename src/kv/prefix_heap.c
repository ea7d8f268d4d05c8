/* kv/prefix_heap.c: a pairing heap for each owner and kind of item. `prev` is the left sibling or, for a first child,
 * the parent; 0 at the root. Amortized O(log n), nothing recursive. */
#include "kv/prefix_state.h"

bool prefix_goes_before(const prefix_cache *c, uint32_t a, item_kind a_kind, uint32_t b, item_kind b_kind)
{
    if (node_at(c, a)->protected != node_at(c, b)->protected)
        return node_at(c, b)->protected;
    const heap_item *left = item_at(c, a, a_kind), *right = item_at(c, b, b_kind);
    if (left->rank != right->rank)
        return left->rank < right->rank;
    if (left->stamp != right->stamp)
        return left->stamp < right->stamp;
    return a < b || (a == b && a_kind > b_kind);
}

static uint32_t meld(const prefix_cache *c, item_kind kind, uint32_t a, uint32_t b)
{
    if (!a || !b)
        return a ? a : b;
    uint32_t first = prefix_goes_before(c, a, kind, b, kind) ? a : b;
    uint32_t second = first == a ? b : a;
    heap_item *up = item_at(c, first, kind), *down = item_at(c, second, kind);
    down->next = up->child;
    down->prev = first;
    if (up->child)
        item_at(c, up->child, kind)->prev = second;
    up->child = second;
    up->next = up->prev = 0;
    return first;
}

/* Melds a list of siblings into one heap: in pairs from the left, then all pairs from the right. */
static uint32_t meld_siblings(const prefix_cache *c, item_kind kind, uint32_t first)
{
    uint32_t pairs = 0;
    while (first) {
        uint32_t a = first, b = item_at(c, a, kind)->next;
        first = b ? item_at(c, b, kind)->next : 0;
        item_at(c, a, kind)->next = 0;
        if (b)
            item_at(c, b, kind)->next = 0;
        uint32_t both = meld(c, kind, a, b);
        item_at(c, both, kind)->next = pairs;
        pairs = both;
    }
    uint32_t root = 0;
    while (pairs) {
        uint32_t one = pairs;
        pairs = item_at(c, one, kind)->next;
        item_at(c, one, kind)->next = 0;
        root = meld(c, kind, root, one);
    }
    if (root)
        item_at(c, root, kind)->prev = 0;
    return root;
}

void prefix_queue_add(prefix_cache *c, uint32_t at, item_kind kind)
{
    heap_item *item = item_at(c, at, kind);
    if (item->prev != UNQUEUED)
        return;
    item->child = item->next = item->prev = 0;
    uint32_t *root = &c->owners[node_at(c, at)->owner].queue[kind];
    *root = meld(c, kind, *root, at);
}

void prefix_queue_remove(prefix_cache *c, uint32_t at, item_kind kind)
{
    heap_item *item = item_at(c, at, kind);
    if (item->prev == UNQUEUED)
        return;
    uint32_t *root = &c->owners[node_at(c, at)->owner].queue[kind];
    uint32_t below = meld_siblings(c, kind, item->child);
    if (*root == at) {
        *root = below;
    } else {
        heap_item *before = item_at(c, item->prev, kind);
        if (before->child == at)
            before->child = item->next;
        else
            before->next = item->next;
        if (item->next)
            item_at(c, item->next, kind)->prev = item->prev;
        *root = meld(c, kind, *root, below);
    }
    item->prev = UNQUEUED;
    item->child = item->next = 0;
}
