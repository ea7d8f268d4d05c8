/* engine/front_desk.c: see the header. */
#include "engine/front_desk.h"

#include <string.h>

void front_desk_open(front_desk *d, const tenant_table *tenants)
{
    pthread_mutex_init(&d->lock, NULL);
    d->tenants = tenants ? *tenants : tenant_table_default();
}

void front_desk_close(front_desk *d)
{
    pthread_mutex_destroy(&d->lock);
}

status front_desk_set(front_desk *d, const tenant_table *tenants, error *err)
{
    pthread_mutex_lock(&d->lock);
    bool shrinks = tenants->count < d->tenants.count;
    if (!shrinks)
        d->tenants = *tenants;
    pthread_mutex_unlock(&d->lock);
    if (shrinks)
        return error_set(err, ERR_INVALID, "the new table has %u tenants, fewer than before: indices must stay",
                         tenants->count);
    atomic_store(&d->changed, true);
    return OK;
}

bool front_desk_news(front_desk *d, tenant_table *out)
{
    if (!atomic_exchange(&d->changed, false))
        return false;
    pthread_mutex_lock(&d->lock);
    *out = d->tenants;
    pthread_mutex_unlock(&d->lock);
    return true;
}

static tenant tenant_at(front_desk *d, uint32_t index)
{
    pthread_mutex_lock(&d->lock);
    tenant who = d->tenants.tenants[index < d->tenants.count ? index : 0];
    pthread_mutex_unlock(&d->lock);
    return who;
}

static uint64_t waiting_of(const desk_counts *c)
{
    uint64_t live = atomic_load(&c->live), running = atomic_load(&c->running);
    return live > running ? live - running : 0;
}

static void read_one(desk_counts *c, tenant_counts *out)
{
    *out = (tenant_counts){.running = (uint32_t)atomic_load(&c->running),
                           .waiting = (uint32_t)waiting_of(c),
                           .tokens_held = atomic_load(&c->tokens_held),
                           .device_us = atomic_load(&c->device_us),
                           .prompt_tokens = atomic_load(&c->prompt_tokens),
                           .cached_tokens = atomic_load(&c->cached_tokens),
                           .generated_tokens = atomic_load(&c->generated_tokens),
                           .requests = atomic_load(&c->requests),
                           .refused = atomic_load(&c->refused),
                           .cached_share = (double)atomic_load(&c->cached_ppm) / 1e6,
                           .gaps = atomic_load(&c->gaps),
                           .violations = atomic_load(&c->violations)};
}

void front_desk_read(front_desk *d, tenant_counts *out, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (i < TENANTS_MAX)
            read_one(&d->counts[i], &out[i]);
}

admission_answer front_desk_admit(front_desk *d, const admission_view *view, const admission_ask *ask)
{
    uint32_t index = ask->tenant < TENANTS_MAX ? ask->tenant : 0;
    tenant who = tenant_at(d, index);
    tenant_counts counts;
    read_one(&d->counts[index], &counts);
    admission_answer answer = admission_decide(view, &who, &counts, ask);
    if (answer.verdict != ADMIT_OK)
        atomic_fetch_add(&d->counts[index].refused, 1);
    return answer;
}

static uint64_t tokens_of(const request *r)
{
    return (uint64_t)r->prompt_count + r->max_tokens;
}

status front_desk_enter(front_desk *d, const request *r, uint32_t slots_free, error *err)
{
    uint32_t index = r->tenant < TENANTS_MAX ? r->tenant : 0;
    tenant who = tenant_at(d, index);
    desk_counts *c = &d->counts[index];
    uint64_t live = atomic_fetch_add(&c->live, 1) + 1, running = atomic_load(&c->running);
    uint64_t held = atomic_fetch_add(&c->tokens_held, tokens_of(r)) + tokens_of(r);
    /* One that could run at once does not count as waiting. */
    uint64_t most = who.concurrent_max ? who.concurrent_max : running + slots_free;
    uint64_t room = (uint64_t)who.queued_max + (most > running ? most : running);
    status st = OK;
    if (who.queued_max > 0 && live > room)
        st = error_set(err, ERR_BUSY, "tenant %s: %llu requests wait, at most %u may", who.name,
                       (unsigned long long)(live - 1 - running), who.queued_max);
    else if (who.tokens_max > 0 && held > who.tokens_max)
        st = error_set(err, ERR_BUSY, "tenant %s: %llu tokens in flight with this request, at most %llu may be",
                       who.name, (unsigned long long)held, (unsigned long long)who.tokens_max);
    if (!st) {
        atomic_fetch_add(&c->requests, 1);
        return OK;
    }
    front_desk_leave(d, r);
    atomic_fetch_add(&c->refused, 1);
    return st;
}

void front_desk_leave(front_desk *d, const request *r)
{
    desk_counts *c = &d->counts[r->tenant < TENANTS_MAX ? r->tenant : 0];
    atomic_fetch_sub(&c->live, 1);
    atomic_fetch_sub(&c->tokens_held, tokens_of(r));
}

void front_desk_saw_turn(front_desk *d, uint32_t tenant, uint32_t prompt, uint32_t cached)
{
    _Atomic uint64_t *share = &d->counts[tenant < TENANTS_MAX ? tenant : 0].cached_ppm;
    uint64_t now = (uint64_t)cached * 1000000 / (prompt ? prompt : 1);
    atomic_store(share, (3 * atomic_load(share) + now) / 4);
}
