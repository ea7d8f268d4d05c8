/* load/replay.c: a list of sessions being played. Each waits for a time, or runs a request. */
#include "load/replay.h"

#include <stdio.h>
#include <stdlib.h>

enum { RETRY_LONGEST_S = 30, FAILURE_PAUSE_US = 500000 };

typedef struct {
    load_session session;
    uint32_t group, turn, sample, tries; /* sample: of the turn that runs */
    uint32_t answers[TURNS_MAX];         /* samples of the turns before */
    uint64_t due_us;
    bool running;
} play;

typedef struct {
    const load_group *plan;
    uint32_t started, sessions, live; /* requests and sessions started, sessions being played */
    load_arrivals arrivals;
    uint64_t next_arrival_us; /* open loop, absolute; UINT64_MAX: none */
    bool closed_for_new;
} group_state;

typedef struct {
    const replay_config *config;
    load_samples *samples;
    play *plays;
    uint32_t play_count, play_capacity;
    const load_phase *phase;
    uint32_t phase_index;
    uint64_t start_us;
    group_state groups[GROUPS_MAX];
    uint32_t next_session[LOAD_ROLES];
    uint32_t done, refused, failed, failed_in_row;
    uint64_t next_tick_us;
    error last_failure;
} replay;

static uint64_t now_us(const replay *r)
{
    return r->config->clock->now_us(r->config->clock);
}

static bool stopped(const replay *r)
{
    return r->config->stop && *r->config->stop;
}

static bool gives_up(const replay *r)
{
    return r->failed_in_row >= (r->done || r->refused ? 4 * FAILURES_MAX : FAILURES_MAX);
}

static bool time_is_up(const replay *r, uint64_t now)
{
    return r->phase->duration_us && now >= r->start_us + r->phase->duration_us;
}

static bool limit_reached(const replay *r, const group_state *g)
{
    return g->plan->request_limit && g->started >= g->plan->request_limit &&
           now_us(r) >= r->start_us + r->phase->at_least_us;
}

/* Agents play on while others finish; a group that has a limit of its own, or is no agent, is finished for itself. */
static bool bounded(const group_state *g)
{
    return g->plan->request_limit > 0 || g->plan->role != LOAD_AGENTS;
}

static bool others_work(const replay *r)
{
    for (uint32_t i = 0; i < r->phase->group_count; i++) {
        const group_state *g = &r->groups[i];
        if (bounded(g) && (g->live > 0 || (!g->closed_for_new && !limit_reached(r, g))))
            return true;
    }
    return false;
}

static bool has_bounded(const replay *r)
{
    for (uint32_t i = 0; i < r->phase->group_count; i++)
        if (bounded(&r->groups[i]))
            return true;
    return false;
}

/* ---- sessions ---- */

static bool start_session(replay *r, uint32_t group, uint64_t at_us)
{
    group_state *g = &r->groups[group];
    if (r->play_count == r->play_capacity) {
        uint32_t capacity = r->play_capacity ? r->play_capacity * 2 : 64;
        play *plays = r->play_count < PLAYS_MAX ? realloc(r->plays, capacity * sizeof *plays) : NULL;
        if (!plays) {
            r->samples->full = true; /* ends the run */
            return false;
        }
        r->plays = plays;
        r->play_capacity = capacity;
    }
    play *p = &r->plays[r->play_count++];
    *p = (play){.group = group};
    workload_session(r->config->work, g->plan->role, r->next_session[g->plan->role]++, &p->session);
    bool own_time = g->plan->concurrency == 0;
    p->due_us = at_us + (own_time ? 0 : p->session.turns[0].think_us);
    g->sessions++;
    g->live++;
    return true;
}

static void drop_play(replay *r, uint32_t index)
{
    r->groups[r->plays[index].group].live--;
    r->plays[index] = r->plays[--r->play_count];
}

/* The session is over: in a closed loop the next one takes its place. */
static void replace_play(replay *r, uint32_t index, uint64_t now)
{
    uint32_t group = r->plays[index].group;
    group_state *g = &r->groups[group];
    drop_play(r, index);
    if (g->plan->concurrency && !g->closed_for_new && !limit_reached(r, g))
        start_session(r, group, now);
}

static void failed(replay *r, const char *reason, const char *message)
{
    r->failed++;
    r->failed_in_row++;
    error_set(&r->last_failure, ERR_IO, "%s%s%s", reason, message[0] ? ": " : "", message);
}

static void send_turn(replay *r, uint32_t index, uint64_t now)
{
    play *p = &r->plays[index];
    group_state *g = &r->groups[p->group];
    uint32_t sample = limit_reached(r, g) ? UINT32_MAX : samples_add(r->samples);
    if (sample == UINT32_MAX) {
        drop_play(r, index);
        return;
    }
    g->started++;
    const load_turn *turn = &p->session.turns[p->turn];
    load_sample *s = &r->samples->items[sample];
    s->role = p->session.role;
    s->phase = r->phase_index;
    s->session = p->session.index;
    s->turn = p->turn;
    s->intended_us = p->due_us;
    s->sent_us = now;
    s->wanted_prompt = session_prompt_tokens(&p->session, p->turn);
    s->wanted_output = turn->output_tokens;
    span answers[TURNS_MAX];
    for (uint32_t i = 0; i < p->turn; i++)
        answers[i] = buf_span(&r->samples->items[p->answers[i]].text);
    p->sample = sample;
    p->running = true;
    error err = {0};
    load_request request = {&p->session, p->turn, answers, sample};
    if (r->config->transport->send(r->config->transport, &request, &err) == OK)
        return;
    s->outcome = LOAD_FAILED;
    s->end_us = now;
    snprintf(s->reason, sizeof s->reason, "not sent");
    failed(r, "not sent", err.text);
    replace_play(r, index, now + FAILURE_PAUSE_US);
}

static void send_due(replay *r, uint64_t now)
{
    bool late = time_is_up(r, now);
    uint64_t deadline = r->start_us + r->phase->duration_us;
    for (uint32_t i = r->play_count; i-- > 0;) {
        play *p = &r->plays[i];
        if (p->running)
            continue;
        if (late && bounded(&r->groups[p->group]) && p->due_us >= deadline)
            drop_play(r, i);
        else if (p->due_us <= now)
            send_turn(r, i, now);
    }
}

/* When the next session of an open loop comes; UINT64_MAX: there is none. */
static uint64_t arrival_after(replay *r, group_state *g)
{
    if (g->plan->role != LOAD_TRACE)
        return limit_reached(r, g) ? UINT64_MAX : r->start_us + arrivals_next(&g->arrivals);
    return g->sessions < g->plan->request_limit ? r->start_us + r->config->work->trace->rows[g->sessions].at_us
                                                : UINT64_MAX;
}

static void start_arrivals(replay *r, uint64_t now)
{
    for (uint32_t i = 0; i < r->phase->group_count; i++) {
        group_state *g = &r->groups[i];
        if (time_is_up(r, now) && bounded(g))
            g->closed_for_new = true;
        while (!g->plan->concurrency && g->next_arrival_us <= now && !g->closed_for_new) {
            if (!start_session(r, i, g->next_arrival_us))
                break;
            g->next_arrival_us = arrival_after(r, g);
            g->closed_for_new = g->next_arrival_us == UINT64_MAX;
        }
    }
}

/* ---- events ---- */

static void on_token(void *self, uint32_t sample, uint64_t at_us, span text)
{
    samples_token(((replay *)self)->samples, sample, at_us, text);
}

static void on_end(void *self, uint32_t sample, uint64_t at_us, const load_end *end)
{
    replay *r = self;
    uint32_t index = 0;
    while (index < r->play_count && !(r->plays[index].running && r->plays[index].sample == sample))
        index++;
    if (index == r->play_count)
        return;
    load_sample *s = &r->samples->items[sample];
    s->end_us = at_us;
    s->outcome = end->outcome;
    s->http_status = end->http_status;
    s->retry_after_s = end->retry_after_s;
    s->usage = end->usage;
    memcpy(s->reason, end->reason, sizeof s->reason);
    memcpy(s->message, end->message, sizeof s->message);
    play *p = &r->plays[index];
    p->running = false;
    if (end->outcome == LOAD_DONE) {
        r->done++;
        r->failed_in_row = 0;
        p->answers[p->turn++] = sample;
        p->tries = 0;
        if (p->turn < p->session.turn_count)
            p->due_us = at_us + p->session.turns[p->turn].think_us;
        else
            replace_play(r, index, at_us);
    } else if (end->outcome == LOAD_REFUSED && r->groups[p->group].plan->concurrency && ++p->tries < TRIES_MAX) {
        r->refused++;
        uint32_t wait_s = end->retry_after_s ? end->retry_after_s : 1;
        p->due_us = at_us + (wait_s < RETRY_LONGEST_S ? wait_s : RETRY_LONGEST_S) * 1000000ull;
    } else {
        bool wrong = end->outcome != LOAD_REFUSED;
        if (wrong)
            failed(r, end->reason, end->message);
        else
            r->refused++;
        replace_play(r, index, at_us + (wrong ? FAILURE_PAUSE_US : 0));
    }
}

/* ---- phases ---- */

static void open_phase(replay *r, uint32_t index)
{
    r->phase_index = index;
    r->phase = &r->config->plan->phases[index];
    r->start_us = now_us(r);
    r->play_count = 0;
    for (uint32_t i = 0; i < r->phase->group_count; i++) {
        group_state *g = &r->groups[i];
        *g = (group_state){.plan = &r->phase->groups[i], .next_arrival_us = UINT64_MAX};
        const load_group *plan = g->plan;
        for (uint32_t k = 0; k < plan->concurrency && !(plan->request_limit && k >= plan->request_limit); k++)
            start_session(r, i, r->start_us + plan->delay_us);
        if (plan->concurrency == 0) {
            arrivals_open(&g->arrivals, r->config->work->seed + index, plan->role, plan->rate);
            g->next_arrival_us = arrival_after(r, g);
        }
    }
}

static uint64_t next_time(const replay *r)
{
    uint64_t next = r->next_tick_us;
    if (r->phase->duration_us && !time_is_up(r, now_us(r)) && r->start_us + r->phase->duration_us < next)
        next = r->start_us + r->phase->duration_us;
    for (uint32_t i = 0; i < r->play_count; i++)
        if (!r->plays[i].running && r->plays[i].due_us < next)
            next = r->plays[i].due_us;
    for (uint32_t i = 0; i < r->phase->group_count; i++)
        if (!r->groups[i].closed_for_new && r->groups[i].next_arrival_us < next)
            next = r->groups[i].next_arrival_us;
    return next;
}

static void tell_progress(replay *r, uint64_t now)
{
    if (now < r->next_tick_us)
        return;
    r->next_tick_us = now + r->config->tick_us;
    if (!r->config->progress)
        return;
    load_progress_now p = {.phase = r->phase,
                           .phase_index = r->phase_index,
                           .done = r->done,
                           .refused = r->refused,
                           .failed = r->failed,
                           .tokens = r->samples->token_count,
                           .elapsed_us = now - r->start_us};
    for (uint32_t i = 0; i < r->play_count; i++)
        p.running += r->plays[i].running;
    r->config->progress(r->config->context, &p);
}

static bool phase_over(const replay *r, uint64_t now)
{
    if (stopped(r) || gives_up(r) || r->samples->full)
        return true;
    return has_bounded(r) ? !others_work(r) : time_is_up(r, now);
}

static void cut_rest(replay *r, uint64_t now)
{
    for (uint32_t i = 0; i < r->play_count; i++) {
        play *p = &r->plays[i];
        if (!p->running)
            continue;
        r->config->transport->cancel(r->config->transport, p->sample);
        r->samples->items[p->sample].outcome = LOAD_CUT;
        r->samples->items[p->sample].end_us = now;
    }
    r->play_count = 0;
}

static void run_phase(replay *r, load_span *out)
{
    const load_sink sink = {r, on_token, on_end};
    uint64_t now = r->start_us;
    while (!phase_over(r, now)) {
        start_arrivals(r, now);
        send_due(r, now);
        if (phase_over(r, now)) /* the last ones were not due any more */
            break;
        r->config->transport->wait(r->config->transport, next_time(r), &sink);
        now = now_us(r);
        tell_progress(r, now);
    }
    *out = (load_span){r->start_us, now, stopped(r)};
    cut_rest(r, now);
}

status replay_run(const replay_config *config, load_samples *samples, load_span *spans, error *err)
{
    replay r = {.config = config, .samples = samples};
    r.next_tick_us = now_us(&r) + config->tick_us;
    for (uint32_t i = 0; i < config->plan->phase_count && !stopped(&r) && !gives_up(&r); i++) {
        open_phase(&r, i);
        run_phase(&r, &spans[i]);
    }
    free(r.plays);
    return gives_up(&r)
               ? error_set(err, ERR_IO, "%u requests in a row failed: %s", r.failed_in_row, r.last_failure.text)
               : OK;
}
