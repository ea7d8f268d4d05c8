/* kv/tiering_ask.c: who has these pages? Quick tiers answer on the engine thread. The first page that none of them has
 * and all after it are asked of the slow ones, on their readers; an alarm ends the wait where one is stuck. */
#include "kv/tiering_private.h"

#include "base/clock.h"
#include "base/thread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ASK_US_MAX 30000u

void tiering_free_ask(tier_ask *a)
{
    if (!a)
        return;
    free(a->holders);
    for (uint32_t i = 0; i < TIERS_MAX; i++)
        free(a->answers[i]);
    free(a);
}

static tier_ask *make_ask(const tiering *t, const prefix_key *keys, uint32_t count)
{
    tier_ask *a = calloc(1, sizeof *a + count * sizeof *keys);
    if (!a)
        return NULL;
    bool failed = !(a->holders = calloc(count + 1, sizeof *a->holders));
    for (uint32_t i = 0; i < t->config.tier_count; i++)
        failed |= !(a->answers[i] = calloc(count + 1, sizeof(bool)));
    if (failed) {
        tiering_free_ask(a);
        return NULL;
    }
    if (count)
        memcpy(a->keys, keys, count * sizeof *keys);
    a->count = count;
    a->users = 1;
    a->until_us = clock_now_us() + ASK_US_MAX;
    return a;
}

static void merge(tier_ask *a, uint32_t lane, uint32_t first)
{
    for (uint32_t i = first; i < a->count; i++) /* the tier asked first has the word where several have a page */
        if (a->answers[lane][i] && (a->holders[i] == 0 || a->holders[i] > lane + 1))
            a->holders[i] = lane + 1;
}

static void ask_quick_tiers(tiering *t, tier_ask *a)
{
    for (uint32_t k = 0; k < t->config.tier_count; k++) {
        tier *each = t->config.tiers[k];
        if (!each->ops->has_is_quick)
            continue;
        each->ops->has(each, a->keys, a->count, a->answers[k]);
        merge(a, k, 0);
    }
    while (a->first < a->count && a->holders[a->first])
        a->first++;
}

static void ask_slow_tiers(tiering *t, tier_ask *a)
{
    for (uint32_t k = 0; a->first < a->count && k < t->config.tier_count; k++) {
        lane *l = &t->lanes[k];
        if (l->tier->ops->has_is_quick)
            continue;
        a->users++;
        a->left++;
        *(l->first_ask ? &l->last_ask->next_in_lane[k] : &l->first_ask) = a;
        l->last_ask = a;
        pthread_cond_signal(&l->to_read);
    }
    if (a->left)
        pthread_cond_signal(&t->alarm_set);
    else
        atomic_store_explicit(&a->answered, true, memory_order_release);
}

tier_ask *tiering_ask(tiering *t, const prefix_key *keys, uint32_t count)
{
    tier_ask *a = t->open_ask_count < ASKS_MAX ? make_ask(t, keys, count) : NULL;
    if (!a)
        return NULL;
    ask_quick_tiers(t, a);
    pthread_mutex_lock(&t->lock);
    ask_slow_tiers(t, a);
    a->next_open = t->open_asks;
    if (t->open_asks)
        t->open_asks->previous_open = a;
    t->open_asks = a;
    t->open_ask_count++;
    pthread_mutex_unlock(&t->lock);
    return a;
}

bool tiering_answered(const tier_ask *a)
{
    return atomic_load_explicit(&a->answered, memory_order_acquire);
}

uint32_t tiering_holder(const tier_ask *a, uint32_t index)
{
    assert(tiering_answered(a) && index < a->count);
    return a->holders[index];
}

static void leave(tier_ask *a) /* locked */
{
    if (--a->users == 0)
        tiering_free_ask(a);
}

static void take_out_of_lane(lane *l, tier_ask *a)
{
    tier_ask *before = NULL, **at = &l->first_ask;
    while (*at && *at != a) {
        before = *at;
        at = &before->next_in_lane[l->index];
    }
    if (!*at)
        return; /* the reader has it in hand, or is through with it */
    *at = a->next_in_lane[l->index];
    if (l->last_ask == a)
        l->last_ask = before;
    a->users--;
}

void tiering_ask_end(tiering *t, tier_ask *a)
{
    pthread_mutex_lock(&t->lock);
    for (uint32_t k = 0; k < t->config.tier_count; k++)
        take_out_of_lane(&t->lanes[k], a);
    *(a->previous_open ? &a->previous_open->next_open : &t->open_asks) = a->next_open;
    if (a->next_open)
        a->next_open->previous_open = a->previous_open;
    t->open_ask_count--;
    leave(a);
    pthread_mutex_unlock(&t->lock);
}

bool tiering_read_ask(lane *l)
{
    tiering *t = l->tiering;
    tier_ask *a = l->first_ask;
    if (!a)
        return false;
    l->first_ask = a->next_in_lane[l->index];
    bool *answers = a->answers[l->index], ended = false;
    if (!atomic_load(&a->answered) && !t->closing) {
        pthread_mutex_unlock(&t->lock);
        l->tier->ops->has(l->tier, a->keys + a->first, a->count - a->first, answers + a->first);
        pthread_mutex_lock(&t->lock);
    }
    if (!atomic_load(&a->answered)) { /* nor has the alarm answered meanwhile */
        merge(a, l->index, a->first);
        if ((ended = --a->left == 0))
            atomic_store_explicit(&a->answered, true, memory_order_release);
    }
    leave(a);
    if (ended) {
        pthread_mutex_unlock(&t->lock);
        tiering_wake(t);
        pthread_mutex_lock(&t->lock);
    }
    return true;
}

/* ---- the alarm ---- */

/* Answers what is overdue; returns when the next one is. Locked. */
static uint64_t answer_overdue(tiering *t, uint64_t now_us, bool *some)
{
    uint64_t next_us = UINT64_MAX;
    for (tier_ask *a = t->open_asks; a; a = a->next_open) {
        if (atomic_load(&a->answered))
            continue;
        if (now_us >= a->until_us) {
            atomic_store_explicit(&a->answered, true, memory_order_release);
            *some = true;
        } else if (a->until_us < next_us) {
            next_us = a->until_us;
        }
    }
    return next_us;
}

void *tiering_alarm_loop(void *argument)
{
    tiering *t = argument;
    pthread_mutex_lock(&t->lock);
    while (!t->closing) {
        bool some = false;
        uint64_t now_us = clock_now_us(), next_us = answer_overdue(t, now_us, &some);
        if (some) {
            pthread_mutex_unlock(&t->lock);
            tiering_wake(t);
            pthread_mutex_lock(&t->lock);
        } else if (next_us == UINT64_MAX) {
            pthread_cond_wait(&t->alarm_set, &t->lock);
        } else {
            thread_wait_us(&t->alarm_set, &t->lock, next_us - now_us);
        }
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}
