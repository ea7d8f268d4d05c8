/* load/canary.c: a late wake is one hole, and the next one counts from there. */
#include "load/canary.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

enum { PERIOD_NS = 1000000, HOLE_US = 5000 };

struct canary {
    pthread_t thread;
    atomic_bool stop;
    canary_report report; /* the thread's until it is joined */
};

static uint64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *watch(void *context)
{
    canary *c = context;
    uint64_t start = monotonic_ns(), due = start + PERIOD_NS;
    while (!atomic_load_explicit(&c->stop, memory_order_relaxed)) {
        uint64_t now = monotonic_ns();
        if (now < due) {
            struct timespec rest = {0, (long)(due - now)};
            nanosleep(&rest, NULL);
            now = monotonic_ns();
        }
        uint64_t late_us = now > due ? (now - due) / 1000 : 0;
        c->report.wakes++;
        c->report.over_5ms += late_us > HOLE_US;
        for (uint32_t i = CANARY_SIZES; i > 0; i--)
            if (late_us >= 1000u << (i - 1)) {
                c->report.holes[i - 1]++;
                break;
            }
        if (late_us > c->report.worst_us) {
            c->report.worst_us = late_us;
            c->report.worst_at_us = clock_now_us();
        }
        due = now + PERIOD_NS;
    }
    c->report.watched_us = (monotonic_ns() - start) / 1000;
    return NULL;
}

status canary_start(canary **out, error *err)
{
    canary *c = calloc(1, sizeof *c);
    if (!c || pthread_create(&c->thread, NULL, watch, c)) {
        free(c);
        return error_set(err, ERR_MEMORY, "no thread for the canary");
    }
    *out = c;
    return OK;
}

canary_report canary_stop(canary *c)
{
    if (!c)
        return (canary_report){0};
    atomic_store(&c->stop, true);
    pthread_join(c->thread, NULL);
    canary_report report = c->report;
    free(c);
    return report;
}
