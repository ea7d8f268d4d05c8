/* engine/cache_desk.c: see the header. */
#include "engine/cache_desk.h"

enum { PUBLISH_US = 100000 };

void cache_desk_open(cache_desk *d)
{
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->served, NULL);
}

void cache_desk_close(cache_desk *d)
{
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->served);
}

void cache_desk_renew(cache_desk *d, const scheduler *s)
{
    pthread_mutex_lock(&d->lock);
    scheduler_fill_cache(s, &d->report);
    pthread_mutex_unlock(&d->lock);
}

void cache_desk_publish(cache_desk *d, const scheduler *s, uint64_t now_us, bool last)
{
    bool due = !d->published_us || now_us >= d->published_us + PUBLISH_US || (last && d->stale);
    d->stale = !due && !last;
    if (!due)
        return;
    d->published_us = now_us ? now_us : 1;
    cache_desk_renew(d, s);
}

void cache_desk_serve(cache_desk *d, scheduler *s)
{
    if (!atomic_exchange(&d->asked, false))
        return;
    pthread_mutex_lock(&d->lock);
    for (cache_errand *errand = d->errands, *next; errand; errand = next) {
        next = errand->next; /* its owner may be gone once it is done */
        errand->pages = scheduler_forget(s, errand->tenant);
        errand->space = scheduler_tier_space(s, errand->tenant);
        errand->done = true;
    }
    d->errands = NULL;
    scheduler_fill_cache(s, &d->report);
    pthread_cond_broadcast(&d->served);
    pthread_mutex_unlock(&d->lock);
}

void cache_desk_read(cache_desk *d, cache_report *out)
{
    pthread_mutex_lock(&d->lock);
    *out = d->report;
    pthread_mutex_unlock(&d->lock);
}

void cache_desk_ask(cache_desk *d, cache_errand *errand, int tenant)
{
    pthread_mutex_lock(&d->lock);
    *errand = (cache_errand){.tenant = tenant, .next = d->errands};
    d->errands = errand;
    pthread_mutex_unlock(&d->lock);
    atomic_store(&d->asked, true);
}

void cache_desk_wait(cache_desk *d, cache_errand *errand)
{
    pthread_mutex_lock(&d->lock);
    while (!errand->done)
        pthread_cond_wait(&d->served, &d->lock);
    pthread_mutex_unlock(&d->lock);
}
