/* sim/world_box.c: one box: a sim runner, the engine over it, and what its engine said that nobody was told yet. */
#include "sim/world_state.h"

#include <stdlib.h>
#include <string.h>

enum {
    EVENTS_AT_ONCE = 32,
    PROMPT_US = 20000 /* that an unread prompt is taken to need; it may need less: then another box notices that late */
};

status world_box_open(world_box *b, const world *w, bool decodes, error *err)
{
    sim_config config = w->config.runner;
    engine_config how = {.policy = w->config.policy,
                         .schedule = w->config.schedule,
                         .cache = {.off = w->config.cache_off, .idle_bytes = w->config.cache_idle_bytes},
                         .max_queued = w->config.max_queued,
                         .clock = &b->clock.base};
    b->decodes = decodes;
    config.light = config.copies = true;
    config.costs = decodes ? &w->decode_costs : &w->costs;
    if (decodes) { /* a prefix that came over the link is one step, whatever its length */
        config.max_chunk_tokens = config.context_length;
        how.schedule.chunk_tokens = 0;
        how.schedule.document_tokens = config.context_length;
        how.max_queued = SAMPLES_MAX < 1 << 16 ? SAMPLES_MAX : 1 << 16;
    }
    double step_us = sim_costs_decode_us(config.costs, 1, 0), least = config.costs->spread[0];
    step_us *= least > 0 ? least : 1;
    b->least_step_us = step_us > 1 ? (uint64_t)step_us : 1;
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
    free(b->live);
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

/* ---- who is there ---- */

/* Its prompt to read, then a step for each token that it still has to make. One that hands over tells its client of no
 * end. */
static uint64_t ends_not_before(const world_box *b, const flight *f)
{
    uint64_t left = f->output_tokens > f->made ? f->output_tokens - f->made : 1, from_us = b->clock.time_us;
    if (f->stage == FLIGHT_READS || f->cancelled)
        return UINT64_MAX;
    if (f->made)
        return from_us + left * b->least_step_us;
    from_us += PROMPT_US;
    return (from_us > f->reads_until_us ? from_us : f->reads_until_us) + (left - 1) * b->least_step_us;
}

bool world_box_enter(world_box *b, flight *f)
{
    if (b->live_count == b->live_capacity) {
        uint32_t capacity = b->live_capacity ? b->live_capacity * 2 : 64;
        flight **live = realloc(b->live, capacity * sizeof *live);
        if (!live)
            return false;
        b->live = live;
        b->live_capacity = capacity;
    }
    uint64_t ends_us = ends_not_before(b, f);
    b->quiet_us = b->live_count && b->quiet_us < ends_us ? b->quiet_us : ends_us;
    f->place = b->live_count;
    f->box = b;
    b->live[b->live_count++] = f;
    return true;
}

static void leave(world_box *b, flight *f)
{
    b->live[f->place] = b->live[--b->live_count];
    b->live[f->place]->place = f->place;
}

uint64_t world_box_quiet(world_box *b, uint64_t enough_us)
{
    if (b->live_count == 0)
        return UINT64_MAX;
    if (b->quiet_us >= enough_us)
        return b->quiet_us;
    b->quiet_us = UINT64_MAX;
    for (uint32_t i = 0; i < b->live_count; i++) {
        uint64_t ends_us = ends_not_before(b, b->live[i]);
        b->quiet_us = ends_us < b->quiet_us ? ends_us : b->quiet_us;
    }
    return b->quiet_us;
}

/* ---- what it says ---- */

static bool keep_event(world_box *b, const engine_event *e)
{
    flight *f = e->context;
    world_event out = {.at_us = e->time_us, .of = f, .token = -1, .reason = e->reason};
    if (e->kind == EVENT_PROGRESS)
        return true;
    if (e->kind == EVENT_TOKEN) {
        out.token = e->token.token;
        f->made++;
    } else {
        leave(b, f);
        if (!b->ended_us)
            b->ended_us = e->time_us;
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
