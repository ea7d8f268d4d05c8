/* server/health.c: see health.h. */
#include "server/health.h"

void health_see(health_watch *w, const engine_snapshot *now, uint32_t work, uint64_t now_us)
{
    bool busy = work > 0 || now->running + now->waiting > 0;
    if (!busy || !w->busy || now->steps != w->steps)
        w->since_us = now_us;
    w->busy = busy;
    w->steps = now->steps;
}

uint64_t health_waited_us(const health_watch *w, uint64_t now_us)
{
    return w->busy && now_us > w->since_us ? now_us - w->since_us : 0;
}

health health_judge(const health_watch *w, const engine_snapshot *now, bool draining, uint64_t now_us)
{
    uint64_t limit = HEALTH_STUCK_STEPS * now->last_step_us;
    if (limit < HEALTH_STUCK_US)
        limit = HEALTH_STUCK_US;
    if (now->failed)
        return HEALTH_FAILED;
    if (health_waited_us(w, now_us) > limit)
        return HEALTH_STUCK;
    return draining || now->draining ? HEALTH_DRAINING : HEALTH_OK;
}

const char *health_word(health h)
{
    static const char *const words[] = {"ok", "draining", "failed", "stuck"};
    return words[h];
}
