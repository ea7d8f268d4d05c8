/* sched/tails.h: the tokens behind the last whole page of what was read. The tree of prefixes knows whole pages only,
 * so the next turn of a conversation would compute up to a page of the last one again: of a short turn that is a third
 * of the work. A tail is the partly filled page of a sequence that ended, held by one share; who begins with its tokens
 * copies the page and goes on inside the copy. Few are kept: those of a session,
 * which goes on where an entry had ended, outlive those of prompts that came once; else the oldest goes first. Not for
 * models with a recurrent state, which has checkpoints at page borders alone. Owner: the scheduler; engine thread only.
 */
#ifndef HEADWAY_SCHED_TAILS_H
#define HEADWAY_SCHED_TAILS_H

#include "kv/prefix_cache.h"

enum { TAILS_MAX = 64 };

typedef struct {
    prefix_key before; /* of the pages before it */
    uint32_t owner, count;
    page_id page;
    uint64_t last_us; /* put or used */
    bool session;     /* goes on where an entry had ended, or was used itself */
} tail;

typedef struct {
    page_pool *pool; /* borrowed */
    uint32_t page_tokens, count;
    tail tails[TAILS_MAX];
    int32_t *tokens; /* (TAILS_MAX, page_tokens) */
} tails;

status tails_open(tails *t, page_pool *pool, uint32_t page_tokens, error *err);
void tails_close(tails *t); /* gives the pages back */
/* `count` < page_tokens tokens lie in `page`, whose later slots mean nothing. Takes a share. */
void tails_put(tails *t, prefix_key before, uint32_t owner, const int32_t *tokens, uint32_t count, page_id page,
               bool session, uint64_t now_us);
/* The page that begins with most of tokens[0, most): how many, 0: none does. */
uint32_t tails_find(tails *t, prefix_key before, const int32_t *tokens, uint32_t most, uint64_t now_us, page_id *out);
bool tails_drop_one(tails *t);                                               /* false: there is none */
uint32_t tails_forget(tails *t, uint32_t first_owner, uint32_t owner_count); /* how many */
void tails_expire(tails *t, uint64_t before_us);                             /* not used since */

#endif
