/* runner/cache_plan.h: how many pages does a prefix cache of the wanted size take beside the running streams? Pure. */
#ifndef HEADWAY_RUNNER_CACHE_PLAN_H
#define HEADWAY_RUNNER_CACHE_PLAN_H

#include "sched/runner.h"

enum {
    CACHE_SESSION_TOKENS = 24000, /* of a session where nothing is said and the context is longer */
    CACHE_SESSION_STATES = 3      /* of a session: after its last turn, at the page border before, one to go back to */
};

typedef struct { /* all 0: no wish */
    uint64_t bytes;
    uint32_t sessions, session_tokens; /* tokens 0: the context, at most CACHE_SESSION_TOKENS */
} cache_wish;

static inline uint32_t cache_wish_tokens(const cache_wish *wish, uint32_t context)
{
    uint32_t tokens = context < CACHE_SESSION_TOKENS ? context : CACHE_SESSION_TOKENS;
    return wish->session_tokens ? wish->session_tokens : tokens;
}

/* Of `info` page_tokens, page_bytes and state_bytes count. */
static inline uint64_t cache_session_pages(const cache_wish *wish, const runner_info *info, uint32_t context)
{
    uint64_t pages = ((uint64_t)cache_wish_tokens(wish, context) + info->page_tokens - 1) / info->page_tokens;
    uint64_t state = info->state_bytes ? (info->state_bytes + info->page_bytes - 1) / info->page_bytes : 0;
    return pages + CACHE_SESSION_STATES * state;
}

static inline uint64_t cache_wish_pages(const cache_wish *wish, const runner_info *info, uint32_t context)
{
    if (wish->sessions)
        return wish->sessions * cache_session_pages(wish, info, context);
    return info->page_bytes ? wish->bytes / info->page_bytes : 0;
}

#endif
