/* kv/prefix_cache.h: whose prompt was read before, in which pages does its KV lie, and what is given up first?
 * A tree of whole pages: a node stands for page_tokens token ids and, through its parents, for all tokens before them.
 * It holds one share of its page, and for models with a recurrent state it may hold a checkpoint: state_pages more
 * pages with the state as it is after the node's last token. Entries of one space are invisible to every other space.
 * A page in the tree is never written again. Ids and counts only, time is an argument, nothing is random.
 *
 * Pages that only the cache holds are idle (page_pool_counts.idle); those above `idle_pages_max` are given up at once,
 * the others when somebody needs the room: checkpoints and leaves, cheapest first by what it would cost to compute them
 * again per page, aged by time (GreedyDual). What was used once (a document) goes before what was used again or
 * continues an entry that had ended (a chat), and nothing falls below its owner's floor for another owner's sake.
 * Owner: the scheduler; engine thread only. */
#ifndef HEADWAY_KV_PREFIX_CACHE_H
#define HEADWAY_KV_PREFIX_CACHE_H

#include "kv/page_pool.h"

typedef struct prefix_cache prefix_cache;
typedef struct prefix_node prefix_node;

typedef struct { /* XXH3-128 of space, salt and all tokens up to a page's end; names the page in the tiers too */
    uint64_t low, high;
} prefix_key;

enum { PREFIX_OWNERS_MAX = 256, PREFIX_LINES_MAX = 64 };

typedef struct {
    page_pool *pool; /* borrowed */
    uint32_t page_tokens;
    uint32_t state_pages;    /* of one checkpoint; 0: the model keeps no state */
    uint32_t idle_pages_max; /* pages that only the cache holds, at most */
    uint64_t ttl_us;         /* entries not used for as long are given up; 0: never */
    double token_us;         /* what a token costs to compute at depth 0, and what each token before it adds: see */
    double depth_us;         /* prefix_cache_set_cost */
} prefix_cache_config;

typedef enum { EVICTED_ROOM, EVICTED_BUDGET, EVICTED_TTL, EVICTED_DELETED, EVICTED_CAUSES } eviction_cause;

typedef struct {       /* a place in the tree; pins its node, so what lies above stays. One per sequence. */
    prefix_node *node; /* NULL: the root of the space */
    uint32_t depth;    /* pages from the root to the node */
    uint64_t space;
    uint32_t owner; /* < PREFIX_OWNERS_MAX: a tenant and a class; whose floor and counts */
    uint32_t epoch; /* of the owner at the opening: text that was forgotten since does not come back */
    bool continues; /* what is added here goes on where an entry had ended: a session, not a document. Set by open and
                       extend, the caller may set it as well */
} prefix_cursor;

typedef struct {
    uint32_t pages;      /* leading whole pages of the tokens that are in the tree */
    uint32_t usable;     /* of them, how many a sequence can start with: up to the deepest checkpoint where a state is
                            kept; never more than `pages_max` */
    uint32_t differs_at; /* the first token that no entry has (nearest entry, token by token); `count`: none */
    uint32_t in_use;     /* of the usable ones, how many a sequence holds now: sharing them costs nothing */
    bool line_end;       /* the usable part ends where an entry ended or broke off: the prompt continues it. An end
                            that was continued several times is a prefix that many share, and none any more */
} prefix_match;

status prefix_cache_create(prefix_cache **out, const prefix_cache_config *config, error *err);
void prefix_cache_destroy(prefix_cache *c); /* gives all pages back; NULL allowed; no cursor is open */

/* What of `tokens` is there, without touching anything. At most `pages_max` pages are usable. */
prefix_match prefix_cache_find(const prefix_cache *c, uint64_t space, const int32_t *tokens, uint32_t count,
                               uint32_t pages_max);
/* Opens `cursor` after the first `pages` (<= find's usable) pages of `tokens`; shares them into pages[0..pages), and
 * the checkpoint there into state[0..state_pages) when pages > 0 and states are kept. With state_out NULL no state is
 * wanted, and `pages` may be up to find's `pages`. A use: the path is young again. */
void prefix_cache_open(prefix_cache *c, prefix_cursor *cursor, uint64_t space, uint32_t owner, const int32_t *tokens,
                       uint32_t pages, uint64_t now_us, page_id *page_out, page_id *state_out);
/* Adds the page that follows the cursor, or finds that it is there already, and moves on. `tokens`: its page_tokens
 * ids. The tree takes one share of `page` only if it is new. False: no memory; the cursor stays. Once its text or its
 * owner was forgotten a cursor is dead: it moves on, and takes and leaves nothing. */
bool prefix_cache_extend(prefix_cache *c, prefix_cursor *cursor, const int32_t *tokens, page_id page, uint64_t now_us);
/* A checkpoint for the cursor's node: takes one share of each state page, unless it has one. */
void prefix_cache_put_state(prefix_cache *c, const prefix_cursor *cursor, const page_id *state, uint64_t now_us);
bool prefix_cache_has_state(const prefix_cache *c, const prefix_cursor *cursor); /* true of a dead one: wants none */
/* The sequence is done with its place. `ended`: an entry ends here (a turn), so that a prompt that continues it is one
 * session with it. */
void prefix_cache_close(prefix_cache *c, prefix_cursor *cursor, bool ended, uint64_t now_us);

prefix_key prefix_key_root(uint64_t space);
prefix_key prefix_key_next(prefix_key before, const int32_t *tokens, uint32_t count); /* of the page after `before` */
prefix_key prefix_key_state(prefix_key at, uint32_t index); /* page `index` of the checkpoint at `at` */

/* Gives up idle pages until `pages` are free in the pool, or nothing more may go for `owner`'s sake. Returns how many
 * are free then. */
uint32_t prefix_cache_make_room(prefix_cache *c, uint32_t pages, uint32_t owner, uint64_t now_us);
/* How many pages would be free at most after prefix_cache_make_room for `owner`. O(1) or nearly; may be a little low.
 */
uint32_t prefix_cache_available(const prefix_cache *c, uint32_t owner);
/* Of these, how many no session would miss: what is free and what was used once. A document that needs no more than
 * that displaces no warm chat. May be low. */
uint32_t prefix_cache_spare(const prefix_cache *c, uint32_t owner);
/* Gives up one checkpoint of the cursor's owner above it that its line has passed, so that only an edit far back would
 * miss it: not the two nearest ones, nor the first of all (others may begin with it), nor one where lines part. False:
 * there is none. */
bool prefix_cache_give_passed(prefix_cache *c, const prefix_cursor *cursor);
void prefix_cache_trim(prefix_cache *c, uint64_t now_us); /* the budget and the TTL; cheap when nothing is due */
/* All that belongs to owners in [first, first + count): idle pages at once, those in use when they are idle again, and
 * nobody finds them from now on. Returns the pages that were freed. */
uint32_t prefix_cache_forget(prefix_cache *c, uint32_t first, uint32_t count);
void prefix_cache_set_floor(prefix_cache *c, uint32_t owner, uint32_t pages);
void prefix_cache_set_idle_max(prefix_cache *c, uint32_t pages);               /* from the next trim on */
void prefix_cache_set_cost(prefix_cache *c, double token_us, double depth_us); /* the step model's newest */

typedef struct {
    uint32_t nodes, idle_pages, state_checkpoints, lines;
    uint64_t evicted_pages[EVICTED_CAUSES]; /* those of checkpoints too */
    uint64_t evicted_checkpoints[EVICTED_CAUSES];
} prefix_cache_counts;
prefix_cache_counts prefix_cache_read_counts(const prefix_cache *c);
uint64_t prefix_cache_owner_evicted(const prefix_cache *c, uint32_t owner); /* pages, all causes */
uint32_t prefix_cache_owner_pages(const prefix_cache *c, uint32_t owner);   /* in the tree now */

typedef struct {            /* an entry that ended: a session or a document */
    uint32_t owner, tokens; /* whole pages of it */
    uint32_t pages_here;    /* leading pages that are still in the tree */
    uint32_t uses;          /* times that a prompt continued it */
    uint64_t last_us;
    prefix_key key; /* of its last page */
} prefix_line;
/* The newest lines first; lines whose pages are gone are kept for a while, so that a view can say so. */
uint32_t prefix_cache_lines(const prefix_cache *c, prefix_line *out, uint32_t max);

#endif
