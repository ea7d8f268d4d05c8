/* sim/world.c: the transport. Time is a merge: requests that arrive at boxes, turns of the box that is furthest behind,
 * and events, each at its own time. What a box did is told only when no other box can still do something earlier. */
#include "sim/world_state.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- what is due at boxes ---- */

static bool comes_first(const arrival *a, const arrival *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static bool push_arrival(world *w, uint64_t at_us, flight *f)
{
    if (w->arrival_count == w->arrival_capacity) {
        size_t capacity = w->arrival_capacity ? w->arrival_capacity * 2 : 64;
        arrival *grown = realloc(w->arrivals, capacity * sizeof *grown);
        if (!grown)
            return false;
        w->arrivals = grown;
        w->arrival_capacity = capacity;
    }
    arrival one = {at_us, w->next_order++, f};
    size_t at = w->arrival_count++;
    for (; at > 0 && comes_first(&one, &w->arrivals[(at - 1) / 2]); at = (at - 1) / 2)
        w->arrivals[at] = w->arrivals[(at - 1) / 2];
    w->arrivals[at] = one;
    return true;
}

static flight *pop_arrival(world *w)
{
    flight *first = w->arrivals[0].of;
    arrival last = w->arrivals[--w->arrival_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < w->arrival_count; at = child) {
        if (child + 1 < w->arrival_count && comes_first(&w->arrivals[child + 1], &w->arrivals[child]))
            child++;
        if (!comes_first(&w->arrivals[child], &last))
            break;
        w->arrivals[at] = w->arrivals[child];
    }
    w->arrivals[at] = last;
    return first;
}

/* ---- flights ---- */

static bool flight_slot(world *w, uint32_t sample)
{
    if (sample < w->flight_capacity)
        return true;
    uint32_t capacity = w->flight_capacity ? w->flight_capacity : 256;
    while (capacity <= sample)
        capacity *= 2;
    flight **grown = realloc(w->flights, capacity * sizeof *grown);
    if (!grown)
        return false;
    memset(grown + w->flight_capacity, 0, (capacity - w->flight_capacity) * sizeof *grown);
    w->flights = grown;
    w->flight_capacity = capacity;
    return true;
}

static void forget(world *w, flight *f)
{
    w->flights[f->sample] = NULL;
    free(f->prompt);
    free(f);
}

static bool tell_end(world *w, const load_sink *sink, flight *f, uint64_t at_us, load_end *end)
{
    bool told = !f->cancelled;
    end->usage = (load_usage){true, f->prompt_count, f->said, f->cached};
    if (told)
        sink->end(sink->self, f->sample, at_us, end);
    forget(w, f);
    return told;
}

static bool tell_failure(world *w, const load_sink *sink, flight *f, const char *reason, const char *message)
{
    load_end end = {.outcome = LOAD_FAILED, .http_status = 500};
    snprintf(end.reason, sizeof end.reason, "%s", reason);
    snprintf(end.message, sizeof end.message, "%s", message);
    return tell_end(w, sink, f, w->now_us, &end);
}

static bool tell_refusal(world *w, const load_sink *sink, flight *f, int http_status, const char *reason,
                         const char *message, uint32_t retry_after_s)
{
    load_end end = {.outcome = http_status == 429 || http_status == 503 ? LOAD_REFUSED : LOAD_FAILED,
                    .http_status = http_status,
                    .retry_after_s = retry_after_s};
    snprintf(end.reason, sizeof end.reason, "%s", reason);
    snprintf(end.message, sizeof end.message, "%s", message);
    return tell_end(w, sink, f, w->now_us, &end);
}

/* ---- a request reaches a box ---- */

static request *make_request(world *w, const flight *f)
{
    bool handed = f->stage == FLIGHT_CROSSES, split = w->box_count > w->front_count;
    request *r = calloc(1, sizeof *r);
    uint32_t count = f->prompt_count + handed;
    int32_t *tokens = r ? malloc(count * sizeof *tokens) : NULL;
    if (!tokens) {
        free(r);
        return NULL;
    }
    memcpy(tokens, f->prompt, f->prompt_count * sizeof *tokens);
    if (handed)
        tokens[f->prompt_count] = f->first_token;
    *r = (request){.id = ++w->next_id,
                   .prompt = tokens,
                   .prompt_count = count,
                   .max_tokens = handed  ? f->output_tokens - 1
                                 : split ? 1
                                         : f->output_tokens,
                   .sampling = {.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1},
                   .klass = f->klass,
                   .shared_tokens = f->shared_tokens,
                   .turn_mark_count = f->turn_mark_count,
                   .keep = f->conversation};
    r->sampling.seed = f->route_key;
    memcpy(r->turn_marks, f->turn_marks, sizeof r->turn_marks);
    return r;
}

/* As the server does before it submits. False: refused, and told. */
static bool admit(world *w, const load_sink *sink, world_box *b, flight *f)
{
    admission_ask ask = {.klass = f->klass,
                         .prompt_tokens = f->prompt_count,
                         .max_tokens = f->output_tokens,
                         .conversation = f->conversation};
    admission_answer answer = engine_admit(b->engine, &ask);
    if (answer.verdict == ADMIT_OK)
        return true;
    b->refused++;
    tell_refusal(w, sink, f, answer.status, answer.reason, answer.message, answer.retry_after_s);
    return false;
}

/* True: the request has ended here. */
static bool arrive(world *w, const load_sink *sink, flight *f)
{
    if (f->cancelled) {
        forget(w, f);
        return false;
    }
    bool handed = f->stage == FLIGHT_CROSSES;
    world_box *b = &w->boxes[handed ? world_route_decode(w) : world_route_pick(w, f->route_key)];
    if (b->clock.time_us < w->now_us)
        b->clock.time_us = w->now_us;
    if (!handed && !admit(w, sink, b, f))
        return true;
    request *r = make_request(w, f);
    if (!r)
        return tell_failure(w, sink, f, "out_of_memory", "the simulator is out of memory");
    r->context = f;
    error err = {0};
    status st = engine_submit(b->engine, r, &err);
    if (st) {
        request_free(r);
        b->refused++;
        return st == ERR_BUSY ? tell_refusal(w, sink, f, 429, "queue_full", err.text, 1)
                              : tell_refusal(w, sink, f, 400, "invalid_request", err.text, 0);
    }
    f->stage = !handed && w->box_count > w->front_count && f->output_tokens > 1 ? FLIGHT_READS : FLIGHT_RUNS;
    if (f->stage == FLIGHT_RUNS) {
        free(f->prompt);
        f->prompt = NULL;
    }
    f->request_id = w->next_id;
    f->reads_until_us = b->clock.time_us;
    if (!handed)
        f->reads_until_us += (uint64_t)sim_costs_prefill_us(&w->costs, f->prompt_count - f->fresh, f->fresh);
    b->requests++;
    b->active = true;
    w->failed = !world_box_enter(b, f);
    return false;
}

/* ---- what boxes said ---- */

static bool hand_over(world *w, const load_sink *sink, world_box *b, flight *f, uint64_t at_us)
{
    double bytes = w->costs.kv_token_bytes * f->prompt_count + w->costs.state_bytes;
    uint64_t start_us = b->link_free_us > at_us ? b->link_free_us : at_us;
    uint64_t took_us = (uint64_t)(bytes / w->config.link_bytes_s * 1e6 + 0.5);
    f->stage = FLIGHT_CROSSES;
    f->box = NULL;
    b->link_free_us = start_us + took_us;
    w->link_bytes += (uint64_t)bytes;
    w->link_transfers++;
    w->link_busy_us += took_us;
    if (b->link_free_us - at_us > w->link_worst_us)
        w->link_worst_us = b->link_free_us - at_us;
    return push_arrival(w, b->link_free_us, f) ||
           !tell_failure(w, sink, f, "out_of_memory", "the simulator is out of memory");
}

/* True: a request has ended. */
static bool tell(world *w, const load_sink *sink, world_box *b, world_event *e)
{
    flight *f = e->of;
    if (e->token >= 0) {
        char byte = (char)(e->token < 256 ? e->token : ' ');
        f->first_token = e->token;
        f->said++;
        if (!f->cancelled)
            sink->token(sink->self, f->sample, e->at_us, span_of(&byte, 1));
        return false;
    }
    f->box = NULL;
    if (f->stage == FLIGHT_READS && e->reason == FINISH_LENGTH && !f->cancelled)
        return !hand_over(w, sink, b, f, e->at_us);
    load_end end = {.outcome = LOAD_DONE, .http_status = 200};
    if (e->reason == FINISH_ERROR) {
        end = (load_end){.outcome = LOAD_FAILED, .http_status = 500, .reason = "engine"};
        snprintf(end.message, sizeof end.message, "%s", e->trouble ? e->trouble : "");
        free(e->trouble);
    }
    return tell_end(w, sink, f, e->at_us, &end);
}

static world_box *first_to_tell(world *w)
{
    world_box *best = NULL;
    for (world_box *b = w->boxes; b < w->boxes + w->box_count; b++)
        if (b->first < b->end && (!best || b->events[b->first].at_us < best->events[best->first].at_us))
            best = b;
    return best;
}

static bool deliver(world *w, const load_sink *sink, uint64_t until_us)
{
    for (world_box *b; (b = first_to_tell(w)) && b->events[b->first].at_us <= until_us;) {
        world_event e = b->events[b->first++];
        if (b->first == b->end)
            b->first = b->end = b->ended_us = 0;
        w->now_us = e.at_us > w->now_us ? e.at_us : w->now_us;
        if (tell(w, sink, b, &e))
            return true;
    }
    return false;
}

/* ---- the transport ---- */

static status world_send(load_transport *base, const load_request *request, error *err)
{
    world *w = (world *)base;
    const load_session *s = request->session;
    flight *f = w->failed ? NULL : calloc(1, sizeof *f);
    if (!f || !flight_slot(w, request->sample)) {
        free(f);
        return error_set(err, ERR_MEMORY, "the simulator is out of memory");
    }
    *f = (flight){.sample = request->sample,
                  .output_tokens = s->turns[request->turn].output_tokens,
                  .klass = w->config.documents_batch && s->role != LOAD_AGENTS ? CLASS_BATCH : CLASS_INTERACTIVE,
                  .route_key = route_key_of(s)};
    f->prompt = world_prompt(request, w->config.message_tokens, f);
    if (!f->prompt || !push_arrival(w, w->now_us + (uint64_t)(w->costs.request_us + 0.5), f)) {
        free(f->prompt);
        free(f);
        return error_set(err, ERR_MEMORY, "the simulator is out of memory");
    }
    w->flights[f->sample] = f;
    return OK;
}

static void world_cancel(load_transport *base, uint32_t sample)
{
    world *w = (world *)base;
    flight *f = sample < w->flight_capacity ? w->flights[sample] : NULL;
    if (!f)
        return;
    f->cancelled = true;
    if (f->box) { /* else it is not there yet, or has ended and is not told */
        engine_cancel(f->box->engine, f->request_id, FINISH_CANCELLED);
        f->box->active = true;
    }
}

static world_box *furthest_behind(world *w)
{
    world_box *best = NULL;
    for (world_box *b = w->boxes; b < w->boxes + w->box_count; b++)
        if (b->active && (!best || b->clock.time_us < best->clock.time_us))
            best = b;
    return best;
}

/* How far a box may run: to the limit, or to when an answer of another one may have led to a request for it. A stop is
 * a yield, at which the scheduler chooses again, so there are no more than that. */
static uint64_t may_run_to(world *w, const world_box *one, uint64_t limit_us)
{
    if (one->decodes)
        return limit_us; /* its steps are short, and never stop */
    uint64_t stop_us = limit_us, way_us = w->box_count > w->front_count ? 0 : (uint64_t)w->costs.request_us;
    for (world_box *b = w->boxes; b < w->boxes + w->box_count; b++) {
        if (b == one)
            continue;
        if (b->ended_us)
            stop_us = least(stop_us, b->ended_us + way_us);
        uint64_t quiet_us = world_box_quiet(b, stop_us);
        if (quiet_us < stop_us)
            stop_us = least(stop_us, quiet_us + way_us);
    }
    return stop_us;
}

/* Out of memory: every request fails, one for each wait. */
static void fail_next(world *w, uint64_t until_us, const load_sink *sink)
{
    w->now_us = until_us > w->now_us ? until_us : w->now_us;
    for (uint32_t i = 0; i < w->flight_capacity; i++)
        if (w->flights[i] && tell_failure(w, sink, w->flights[i], "out_of_memory", "the simulator is out of memory"))
            return;
}

static void world_wait(load_transport *base, uint64_t until_us, const load_sink *sink)
{
    world *w = (world *)base;
    if (w->failed)
        fail_next(w, until_us, sink);
    while (!w->failed && !(w->config.stop && *w->config.stop)) {
        uint64_t due_us = w->arrival_count ? w->arrivals[0].at_us : UINT64_MAX;
        uint64_t limit_us = least(due_us, until_us);
        world_box *b = furthest_behind(w);
        bool behind = b && b->clock.time_us < limit_us;
        if (deliver(w, sink, behind ? b->clock.time_us : limit_us))
            return;
        if (w->arrival_count && w->arrivals[0].at_us < limit_us)
            continue; /* handed over just now */
        if (behind) {
            w->failed = !world_box_step(b, may_run_to(w, b, limit_us));
            assert(w->failed || b->active || b->live_count == 0);
            continue;
        }
        if (limit_us > w->now_us)
            w->now_us = limit_us;
        if (due_us > until_us)
            return;
        if (arrive(w, sink, pop_arrival(w)))
            return;
    }
}

static uint64_t world_now(hw_clock *self)
{
    return ((world *)((char *)self - offsetof(world, clock)))->now_us;
}

static void world_sleep(hw_clock *self, uint64_t us)
{
    ((world *)((char *)self - offsetof(world, clock)))->now_us += us;
}

/* ---- life ---- */

static status check(const world_config *c, error *err)
{
    uint64_t boxes = (uint64_t)(c->boxes ? c->boxes : 1) + c->decode_boxes;
    if (!c->runner.costs)
        return error_set(err, ERR_INVALID, "a world needs the costs of its boxes");
    if (boxes > WORLD_BOXES_MAX)
        return error_set(err, ERR_INVALID, "%llu boxes, at most %d can be simulated", (unsigned long long)boxes,
                         WORLD_BOXES_MAX);
    if (c->decode_boxes && !(c->link_bytes_s > 0))
        return error_set(err, ERR_INVALID, "boxes that hand over need a link of more than 0 bytes a second");
    return OK;
}

/* A prefix that came over the link: one step without other streams, whatever its length. */
static sim_costs without_prefill(const sim_costs *c)
{
    sim_costs out = *c;
    out.chunks[0] = (cost_point){1e9, sim_costs_decode_us(c, 1, 0)};
    out.chunk_count = 1;
    out.depth_us = 0;
    out.units = 1;
    out.fused_row_us = sim_costs_decode_us(c, 2, 0) - sim_costs_decode_us(c, 1, 0);
    return out;
}

status world_create(world **out, const world_config *config, error *err)
{
    status st = check(config, err);
    if (st)
        return st;
    world *w = calloc(1, sizeof *w);
    if (!w)
        return error_set(err, ERR_MEMORY, "the simulator is out of memory");
    w->base = (load_transport){world_send, world_cancel, world_wait};
    w->clock = (hw_clock){world_now, world_sleep};
    w->config = *config;
    w->costs = *config->runner.costs;
    w->decode_costs = without_prefill(&w->costs);
    w->front_count = config->boxes ? config->boxes : 1;
    uint32_t count = w->front_count + config->decode_boxes;
    w->routes = route_table_create();
    if (!w->routes)
        st = error_set(err, ERR_MEMORY, "the simulator is out of memory");
    while (!st && w->box_count < count) {
        st = world_box_open(&w->boxes[w->box_count], w, w->box_count >= w->front_count, err);
        w->box_count++;
    }
    if (st) {
        world_destroy(w);
        return st;
    }
    for (uint32_t i = 0; i < count; i++) /* what starting took is over when the first request comes */
        w->start_us = w->boxes[i].clock.time_us > w->start_us ? w->boxes[i].clock.time_us : w->start_us;
    w->now_us = w->start_us;
    *out = w;
    return OK;
}

void world_destroy(world *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->box_count; i++)
        world_box_close(&w->boxes[i]);
    for (uint32_t i = 0; i < w->flight_capacity; i++)
        if (w->flights[i]) {
            free(w->flights[i]->prompt);
            free(w->flights[i]);
        }
    free(w->flights);
    free(w->arrivals);
    route_table_destroy(w->routes);
    free(w);
}

load_transport *world_transport(world *w)
{
    return &w->base;
}

hw_clock *world_clock(world *w)
{
    return &w->clock;
}

void world_read_report(world *w, world_report *out)
{
    *out = (world_report){.box_count = w->box_count,
                          .start_us = w->start_us,
                          .now_us = w->now_us,
                          .link_bytes = w->link_bytes,
                          .link_transfers = w->link_transfers,
                          .link_busy_us = w->link_busy_us,
                          .link_worst_us = w->link_worst_us};
    for (uint32_t i = 0; i < w->box_count; i++) {
        engine_snapshot now;
        engine_read_snapshot(w->boxes[i].engine, &now);
        out->boxes[i] = (world_box_report){.decodes = w->boxes[i].decodes,
                                           .requests = w->boxes[i].requests,
                                           .refused = w->boxes[i].refused,
                                           .steps = now.steps,
                                           .decode_steps = now.decode_steps,
                                           .decode_rows = now.decode_rows,
                                           .prefill_runs = now.prefill_runs + now.fused_steps,
                                           .preemptions = now.preemptions,
                                           .prompt_tokens = now.prompt_tokens,
                                           .cached_tokens = now.cached_tokens,
                                           .generated_tokens = now.generated_tokens,
                                           .busy_us = now.busy_us,
                                           .gap_us = now.gap_us};
    }
}
