/* sim/world_box.c: one box: a sim runner, the engine over it, and what its engine said that nobody was told yet. */
#include "sim/world_state.h"

#include <stdlib.h>
#include <string.h>

enum { EVENTS_AT_ONCE = 32 };

status world_box_open(world_box *b, const world *w, bool decodes, error *err)
{
    sim_config config = w->config.runner;
    engine_config how = {.policy = w->config.policy,
                         .schedule = w->config.schedule,
                         .cache = {.off = w->config.cache_off, .idle_bytes = w->config.cache_idle_bytes},
                         .max_queued = w->config.max_queued,
                         .clock = &b->clock.base};
    b->decodes = decodes;
    config.light = true;
    config.costs = decodes ? &w->decode_costs : &w->costs;
    if (decodes) { /* a prefix that came over the link is one step, whatever its length */
        config.max_chunk_tokens = config.context_length;
        how.schedule.chunk_tokens = 0;
        how.max_queued = SAMPLES_MAX < 1 << 16 ? SAMPLES_MAX : 1 << 16;
    }
    virtual_clock_init(&b->clock, 0);
    status st = sim_runner_create(&b->runner, &config, err);
    return st ? st : engine_create(&b->engine, b->runner, &how, err);
}

void world_box_close(world_box *b)
{
    engine_destroy(b->engine);
    if (b->runner)
        b->runner->ops->close(b->runner);
    for (size_t i = b->first; i < b->end; i++)
        free(b->events[i].trouble);
    free(b->events);
    *b = (world_box){0};
}

bool world_box_put(world_box *b, const world_event *event)
{
    if (b->end == b->capacity) {
        size_t capacity = b->capacity ? b->capacity * 2 : 256;
        world_event *events = realloc(b->events, capacity * sizeof *events);
        if (!events)
            return false;
        b->events = events;
        b->capacity = capacity;
    }
    b->events[b->end++] = *event;
    return true;
}

static bool keep_event(world_box *b, const engine_event *e)
{
    flight *f = e->context;
    world_event out = {.at_us = e->time_us, .of = f, .token = -1, .reason = e->reason};
    if (e->kind == EVENT_PROGRESS)
        return true;
    if (e->kind == EVENT_TOKEN) {
        out.token = e->token.token;
    } else {
        b->live--;
        if (!b->decodes)
            f->cached = e->cached;
        if (e->reason == FINISH_ERROR)
            out.trouble = strdup(e->error_text);
    }
    return world_box_put(b, &out);
}

bool world_box_step(world_box *b, uint64_t interrupt_us)
{
    engine_event events[EVENTS_AT_ONCE];
    size_t count;
    sim_runner_interrupt_at(b->runner, interrupt_us);
    b->active = engine_step(b->engine);
    do {
        count = engine_take_events(b->engine, events, EVENTS_AT_ONCE);
        for (size_t i = 0; i < count; i++)
            if (!keep_event(b, &events[i]))
                return false;
    } while (count == EVENTS_AT_ONCE);
    return true;
}
