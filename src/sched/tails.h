/* sched/tails.h: the tokens behind the last whole page of what was read. The tree of prefixes knows whole pages only,
 * so the next turn of a conversation would compute up to a page of the last one again: of a short turn that is a third
 * of the work. A tail is the partly filled page of a sequence that ended, held by one share; who begins with its tokens
 * copies the page and goes on inside the copy. For models with a recurrent state it holds state_pages more, with the
 * state behind its last token: then all of its tokens have to come again, or none is of use. Few are kept, and their
 * pages are at most `pages_max`: those of a session, which goes on where an entry had ended, outlive those of prompts
 * that came once; else the oldest goes first. Owner: the scheduler; engine thread only.
 */
#ifndef HEADWAY_SCHED_TAILS_H
#define HEADWAY_SCHED_TAILS_H

#include "kv/prefix_cache.h"

enum { TAILS_MAX = 64 };

typedef struct {
    uint32_t page_tokens;
    uint32_t state_pages; /* of a recurrent state; 0: the model keeps none */
    uint32_t pages_max;   /* of all tails */
} tails_config;

typedef struct {
    prefix_key before; /* of the pages before it */
    uint32_t owner, count;
    page_id page;
    uint64_t last_us; /* put or used */
    uint64_t serial;  /* names it; never 0 */
    bool session;     /* goes on where an entry had ended, or was used itself */
} tail;

typedef struct {
    page_pool *pool; /* borrowed */
    tails_config config;
    uint32_t count;
    uint64_t serials; /* given so far */
    tail tails[TAILS_MAX];
    int32_t *tokens; /* (TAILS_MAX, page_tokens) */
    page_id *states; /* (TAILS_MAX, state_pages) */
} tails;

status tails_open(tails *t, page_pool *pool, const tails_config *config, error *err);
void tails_close(tails *t); /* gives the pages back */
bool tails_is_open(const tails *t);

typedef struct {
    prefix_key before;
    uint32_t owner, count; /* count < page_tokens: tokens that lie in `page`, whose later slots mean nothing */
    const int32_t *tokens;
    page_id page;
    const page_id *state; /* (state_pages): behind the last token */
    bool session;
} new_tail;
/* Takes a share of each page, if it is kept at all. */
void tails_put(tails *t, const new_tail *made, uint64_t now_us);
/* The tail that begins with most of tokens[0, most), and is whole where a state is kept: how many, 0: none. */
uint32_t tails_peek(const tails *t, prefix_key before, const int32_t *tokens, uint32_t most);
/* The same; it is young again. `state` lives until the next change. */
typedef struct {
    page_id page;
    const page_id *state;
    uint64_t serial;
} found_tail;
uint32_t tails_find(tails *t, prefix_key before, const int32_t *tokens, uint32_t most, uint64_t now_us,
                    found_tail *out);
bool tails_drop_one(tails *t);                                               /* false: there is none */
void tails_drop(tails *t, uint64_t serial);                                  /* if it is still there */
uint32_t tails_forget(tails *t, uint32_t first_owner, uint32_t owner_count); /* how many pages */
void tails_expire(tails *t, uint64_t before_us);                             /* not used since */
uint32_t tails_pages(const tails *t);                                        /* that would be free without them */

#endif
