/* engine/engine.c: the step loop. A turn: collect what came in, ask the scheduler for a plan, let the runner carry it
 * out, apply the result, hand out the tokens, publish the numbers. The engine thread is the only one that finishes a
 * job; the consumer of events frees it with its FINISHED event. */
#include "engine/engine_state.h"

#include "base/log.h"
#include "sched/step_seed.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_QUEUED = 1024, FAILURES_MAX = 3 /* runs that fail in a row before the engine gives up */ };

/* ---- creation ---- */

static status check_config(const engine_config *config, const sched_policy **policy, error *err)
{
    const char *name = config->policy ? config->policy : "cadence";
    *policy = policy_find(name);
    if (!*policy)
        return error_set(err, ERR_INVALID, "policy \"%s\": unknown, want one of: %s", name, policy_names());
    return OK;
}

static void poke(void *context)
{
    engine *e = context;
    inbox_poke(e->inbox);
    e->runner->ops->yield(e->runner);
}

status engine_create(engine **out, runner *runner, const engine_config *config, error *err)
{
    const sched_policy *policy;
    status st = check_config(config, &policy, err);
    if (st)
        return st;
    engine *e = calloc(1, sizeof *e);
    if (!e)
        return error_set(err, ERR_MEMORY, "engine: out of memory");
    e->runner = runner;
    e->clock = config->clock ? config->clock : clock_real();
    e->wake = config->wake;
    e->wake_context = config->wake_context;
    uint32_t queued_max = config->max_queued ? config->max_queued : MAX_QUEUED;
    uint32_t live_max = queued_max + 2 * runner->info.max_sequences; /* running, and finished ones not taken yet */
    inbox_config box = {.waiting_max = queued_max, .live_max = live_max};
    e->policy = policy;
    e->gap_chosen = config->schedule.gap_us > 0;
    e->waiting_max = queued_max;
    e->idle_us = config->cache.ttl_us ? 1000000 : 0;
    e->tenant_count = config->tenants ? config->tenants->count : 1;
    pthread_mutex_init(&e->model_lock, NULL);
    cache_desk_open(&e->cache);
    front_desk_open(&e->desk, config->tenants);
    step_model_init(&e->model);
    if (!config->unseeded)
        step_model_seed(&e->model, runner, e->clock);
    prefix_settings prefixes = {.idle_bytes = config->cache.idle_bytes,
                                .ttl_us = config->cache.ttl_us,
                                .tier_count = config->cache.tier_count,
                                .wake = poke,
                                .wake_context = e};
    memcpy(prefixes.tiers, config->cache.tiers, sizeof prefixes.tiers);
    scheduler_config sched = {.runner = runner,
                              .policy = policy,
                              .settings = config->schedule,
                              .model = &e->model,
                              .tenants = config->tenants,
                              .cache = config->cache.off ? NULL : &prefixes};
    if ((st = inbox_create(&e->inbox, &box, err)) || (st = scheduler_create(&e->scheduler, &sched, err)) ||
        (st = outbox_create(&e->outbox, err)) || (st = trace_create(&e->trace, err)))
        goto fail;
    e->sampled = calloc((size_t)runner->info.max_rows + 1, sizeof *e->sampled);
    e->resting = calloc(live_max, sizeof(job *));
    if (!e->sampled || !e->resting) {
        st = error_set(err, ERR_MEMORY, "engine: out of memory");
        goto fail;
    }
    scheduler_watch(e->scheduler, engine_note_move, e);
    e->counts.max_sequences = runner->info.max_sequences;
    e->counts.pages_total = e->counts.pages_free = runner->info.page_count;
    engine_publish(e, e->clock->now_us(e->clock));
    cache_desk_publish(&e->cache, e->scheduler, e->clock->now_us(e->clock), true);
    *out = e;
    return OK;
fail:
    engine_destroy(e);
    return st;
}

const runner_info *engine_runner_info(const engine *e)
{
    return &e->runner->info;
}

uint32_t engine_token_limit(const engine *e)
{
    return scheduler_token_limit(&e->runner->info);
}

void engine_read_snapshot(engine *e, engine_snapshot *out)
{
    snapshot_board_read(&e->board, out);
}

status engine_set_tenants(engine *e, const tenant_table *tenants, error *err)
{
    status st = front_desk_set(&e->desk, tenants, err);
    if (!st)
        inbox_poke(e->inbox);
    return st;
}

void engine_read_tenants(engine *e, tenant_counts *out, uint32_t count)
{
    front_desk_read(&e->desk, out, count);
}

admission_answer engine_admit(engine *e, const admission_ask *ask)
{
    engine_snapshot snapshot;
    engine_read_snapshot(e, &snapshot);
    snapshot.admission.draining = inbox_draining(e->inbox);
    return front_desk_admit(&e->desk, &snapshot.admission, ask);
}

size_t engine_read_trace(engine *e, uint64_t *cursor, trace_record *records, size_t max, uint64_t *lost)
{
    return trace_read(e->trace, cursor, records, max, lost);
}

step_model engine_step_model(engine *e)
{
    if (!e->threaded)
        return *scheduler_model(e->scheduler);
    pthread_mutex_lock(&e->model_lock);
    step_model model = e->model;
    pthread_mutex_unlock(&e->model_lock);
    return model;
}

void engine_describe(engine *e, char *text, size_t size)
{
    const schedule_settings *set = scheduler_settings(e->scheduler);
    step_model model = engine_step_model(e);
    uint32_t documents = schedule_document_tokens(set, &model, set->gap_us), context = engine_token_limit(e);
    char limit[64] = "no prompt is a document";
    if (documents < context)
        snprintf(limit, sizeof limit, "prompts over %u tokens are documents", documents);
    snprintf(
        text, size,
        "policy %s: gap bound %.3g ms (%s; a decode step takes %.2g ms, with all %u streams %.2g), chat share %.2g; "
        "%s (%s)",
        e->policy->name, (double)set->gap_us / 1e3, e->gap_chosen ? "asked for" : "the larger of 50 and 4 steps",
        step_model_decode_us(&model, 1, 0) / 1e3, e->runner->info.max_rows,
        step_model_decode_us(&model, e->runner->info.max_rows, 0) / 1e3, set->chat_share, limit,
        set->document_tokens ? "asked for" : "reading one takes over 4 bounds");
}

/* ---- submitting threads ---- */

static status check_tokens(const engine *e, const request *r, error *err)
{
    uint32_t vocab = e->runner->info.vocab_size;
    for (uint32_t i = 0; i < r->prompt_count; i++)
        if (r->prompt[i] < 0 || (uint32_t)r->prompt[i] >= vocab)
            return error_set(err, ERR_INVALID, "prompt token %u is id %d, the vocabulary has %u", i, r->prompt[i],
                             vocab);
    for (uint32_t i = 0; i < r->sampling.bias_count; i++)
        if (r->sampling.biases[i].token < 0 || (uint32_t)r->sampling.biases[i].token >= vocab)
            return error_set(err, ERR_INVALID, "logit bias for token id %d, the vocabulary has %u",
                             r->sampling.biases[i].token, vocab);
    return OK;
}

static status check_request(const engine *e, const request *r, error *err)
{
    if (r->prompt_count == 0 || !r->prompt)
        return error_set(err, ERR_INVALID, "the prompt is empty, want at least 1 token");
    if (r->max_tokens == 0)
        return error_set(err, ERR_INVALID, "max_tokens is 0, want at least 1");
    if (r->sampling.logprobs > LOGPROBS_MAX)
        return error_set(err, ERR_INVALID, "%u top logprobs, at most %d", r->sampling.logprobs - 1, LOGPROBS_MAX - 1);
    uint64_t want = (uint64_t)r->prompt_count + r->max_tokens;
    const runner_info *info = &e->runner->info;
    uint64_t pool_tokens = (uint64_t)info->page_count * info->page_tokens;
    if (want > info->context_length)
        return error_set(err, ERR_LIMIT, "%u prompt tokens and %u new tokens, the context holds %u", r->prompt_count,
                         r->max_tokens, info->context_length);
    if (want > pool_tokens)
        return error_set(err, ERR_LIMIT, "%u prompt tokens and %u new tokens, the KV memory holds %llu",
                         r->prompt_count, r->max_tokens, (unsigned long long)pool_tokens);
    return check_tokens(e, r, err);
}

status engine_submit(engine *e, request *r, error *err)
{
    status st = check_request(e, r, err);
    if (st)
        return st;
    job *j;
    engine_snapshot now;
    engine_read_snapshot(e, &now);
    if ((st = front_desk_enter(&e->desk, r, now.admission.slots_free, err)))
        return st;
    if ((st = job_create(&j, r, e->clock->now_us(e->clock), err))) {
        front_desk_leave(&e->desk, r);
        return st;
    }
    token_constraint *constraint = r->sampling.constraint;
    if (constraint)
        constraint->ops->watch(constraint, poke, e);
    if ((st = inbox_put(e->inbox, j, err))) {
        front_desk_leave(&e->desk, r);
        job_disown(j);
        return st;
    }
    e->runner->ops->yield(e->runner);
    return OK;
}

void engine_cancel(engine *e, uint64_t request_id, finish_reason reason)
{
    if (inbox_cancel(e->inbox, request_id, reason))
        e->runner->ops->yield(e->runner);
}

void engine_drain(engine *e)
{
    inbox_drain(e->inbox);
}

/* ---- the consumer ---- */

size_t engine_take_events(engine *e, engine_event *events, size_t max)
{
    job *done;
    bool room;
    size_t count = outbox_take(e->outbox, events, max, &done, &room);
    while (done) {
        job *next = done->delivery.next;
        inbox_forget(e->inbox, done);
        job_destroy(done);
        done = next;
    }
    if (room) {
        atomic_store(&e->room_made, true);
        inbox_poke(e->inbox);
    }
    return count;
}

/* ---- the engine thread: ends ---- */

static uint64_t between(uint64_t from_us, uint64_t to_us)
{
    return from_us && to_us > from_us ? to_us - from_us : 0;
}

static void stop_resting(engine *e, const job *j)
{
    for (uint32_t i = 0; i < e->resting_count; i++)
        if (e->resting[i] == j) {
            e->resting[i] = e->resting[--e->resting_count];
            return;
        }
}

/* Between outbox_begin and outbox_commit. `drop_tokens`: what was not taken yet is of no use to anybody. */
static void finish_job(engine *e, job *j, engine_event *end, bool drop_tokens)
{
    uint64_t now_us = end->time_us;
    uint64_t admitted_us = j->sequence.admitted_us, first_us = j->steps.first_token_us;
    end->kind = EVENT_FINISHED;
    end->request_id = j->request->id;
    end->context = j->request->context;
    end->prompt_total = j->request->prompt_count;
    end->prompt_done = first_us || j->sequence.kv_count > end->prompt_total ? end->prompt_total : j->sequence.kv_count;
    end->cached = j->sequence.cache.cached;
    end->lookup = j->sequence.cache.lookup;
    end->queued_us = between(j->submitted_us, admitted_us ? admitted_us : now_us);
    end->prefill_us = between(admitted_us, first_us ? first_us : now_us);
    end->decode_us = between(first_us, j->steps.last_token_us);
    if (j->sequence.paused)
        stop_resting(e, j);
    if (end->reason != FINISH_CANCELLED || inbox_draining(e->inbox))
        scheduler_remove(e->scheduler, &j->sequence);
    else
        scheduler_abandon(e->scheduler, &j->sequence, &j->request);
    j->steps.finished = true;
    e->counts.finished[end->reason]++;
    e->counts.cancelled += end->reason == FINISH_CANCELLED;
    front_desk_leave(&e->desk, j->request);
    engine_note_request(e, j, TRACE_FINISHED, now_us);
    outbox_put_finish(e->outbox, j, end, drop_tokens);
}

static void finish_with(engine *e, job *j, finish_reason reason, uint64_t now_us)
{
    engine_event end = {.reason = reason, .stop_token = -1, .generated = j->sequence.generated, .time_us = now_us};
    finish_job(e, j, &end, true);
}

static void finish_with_error(engine *e, job *j, const char *text, uint64_t now_us)
{
    engine_event end = {
        .reason = FINISH_ERROR, .stop_token = -1, .generated = j->sequence.generated, .time_us = now_us};
    size_t size = strlen(text);
    if (size >= sizeof end.error_text)
        size = sizeof end.error_text - 1;
    while (size > 0 && ((unsigned char)text[size] & 0xC0) == 0x80) /* never half a character */
        size--;
    memcpy(end.error_text, text, size);
    finish_job(e, j, &end, false);
}

/* ---- the engine thread: one turn ---- */

/* Numbers first: who reads the snapshot after a FINISHED event sees its pages free. */
static void commit(engine *e)
{
    engine_publish(e, e->clock->now_us(e->clock));
    if (outbox_commit(e->outbox) && e->wake)
        e->wake(e->wake_context);
}

static void resume_rested(engine *e)
{
    if (!atomic_exchange(&e->room_made, false))
        return;
    outbox_begin(e->outbox);
    for (uint32_t i = 0; i < e->resting_count;) {
        job *j = e->resting[i];
        if (outbox_has_room(e->outbox, j)) {
            scheduler_pause(e->scheduler, &j->sequence, false);
            e->resting[i] = e->resting[--e->resting_count];
        } else {
            i++;
        }
    }
    commit(e);
}

static void take_tenants(engine *e)
{
    tenant_table table;
    if (!front_desk_news(&e->desk, &table))
        return;
    e->tenant_count = table.count;
    scheduler_set_tenants(e->scheduler, &table);
}

static bool collect(engine *e, bool *stop) /* true: something ended or arrived */
{
    if (e->runner->ops->yield_seen)
        e->runner->ops->yield_seen(e->runner);
    inbox_batch batch = inbox_collect(e->inbox, scheduler_read_counts(e->scheduler).waiting);
    *stop = batch.stop;
    take_tenants(e);
    cache_desk_serve(&e->cache, e->scheduler);
    for (job *j = batch.arrivals, *next; j; j = next) {
        next = j->mail.next;
        scheduler_add(e->scheduler, &j->sequence, j->submitted_us);
        engine_note_request(e, j, TRACE_ARRIVED, j->submitted_us);
    }
    if (batch.cancellation_count > 0) {
        outbox_begin(e->outbox);
        uint64_t now_us = e->clock->now_us(e->clock);
        for (uint32_t i = 0; i < batch.cancellation_count; i++)
            finish_with(e, batch.cancellations[i].job, batch.cancellations[i].reason, now_us);
        commit(e);
    }
    resume_rested(e);
    return batch.arrival_count > 0 || batch.cancellation_count > 0;
}

static bool is_stop_token(const request *r, int32_t token)
{
    for (uint32_t i = 0; i < r->stop_token_count; i++)
        if (r->stop_tokens[i] == token)
            return true;
    return false;
}

/* Tells the constraint of the token; false: the job has ended, for the text is of no use any more. */
static bool constrain(engine *e, job *j, int32_t token, uint64_t now_us, bool *over)
{
    token_constraint *c = j->request->sampling.constraint;
    constraint_state state = c ? c->ops->accept(c, token) : CONSTRAINT_OPEN;
    *over = state == CONSTRAINT_OVER;
    if (state != CONSTRAINT_FAILED)
        return true;
    finish_with_error(e, j, "no token is left that the asked-for format allows", now_us);
    return false;
}

static void deliver(engine *e, job *j, const sampled_token *token, uint64_t now_us)
{
    if (j->steps.first_token_us == 0) {
        j->steps.first_token_us = now_us;
        e->counts.prompt_tokens += j->request->prompt_count;
        atomic_fetch_add(&e->desk.counts[j->sequence.tenant].prompt_tokens, j->request->prompt_count);
        if (j->request->keep)
            front_desk_saw_turn(&e->desk, j->sequence.tenant, j->request->prompt_count, j->sequence.cache.cached);
        e->counts.cached_tokens += j->sequence.cache.cached;
        atomic_fetch_add(&e->desk.counts[j->sequence.tenant].cached_tokens, j->sequence.cache.cached);
    }
    bool over;
    engine_note_token(e, j, now_us);
    j->steps.last_token_us = now_us;
    if (!constrain(e, j, token->token, now_us, &over))
        return;
    if (is_stop_token(j->request, token->token)) {
        engine_event end = {.reason = FINISH_STOP,
                            .stop_token = token->token,
                            .generated = j->sequence.generated - 1,
                            .time_us = now_us};
        finish_job(e, j, &end, false);
        return;
    }
    e->counts.generated_tokens++;
    atomic_fetch_add(&e->desk.counts[j->sequence.tenant].generated_tokens, 1);
    bool room = outbox_put_token(e->outbox, j, token, now_us);
    if (over || j->sequence.generated == j->request->max_tokens) {
        engine_event end = {.reason = over ? FINISH_STOP : FINISH_LENGTH,
                            .stop_token = -1,
                            .generated = j->sequence.generated,
                            .time_us = now_us};
        finish_job(e, j, &end, false);
    } else if (!room) {
        scheduler_pause(e->scheduler, &j->sequence, true);
        j->steps.rested = true;
        e->resting[e->resting_count++] = j;
    }
}

static void report_progress(engine *e, const step_plan *plan, uint64_t now_us)
{
    const job *reader = (const job *)scheduler_at(e->scheduler, plan->chunk.seq);
    if (!reader->request->want_progress || reader->sequence.generated > 0)
        return;
    engine_event event = {.kind = EVENT_PROGRESS,
                          .request_id = reader->request->id,
                          .context = reader->request->context,
                          .prompt_done = reader->sequence.kv_count,
                          .prompt_total = reader->request->prompt_count,
                          .cached = reader->sequence.cache.cached,
                          .time_us = now_us};
    outbox_put_progress(e->outbox, (job *)reader, &event);
}

static void apply(engine *e, const step_plan *plan, const step_result *result, uint64_t start_us, uint64_t now_us)
{
    bool chunk_ended = plan->chunk.token_count > 0 && result->chunk_done;
    bool chunk_sampled = chunk_ended && plan->chunk.sample;
    assert(result->token_count == plan->row_count + chunk_sampled);
    engine_note_step(e, plan, result, start_us, now_us);
    bool orphan = plan->chunk.token_count > 0 && scheduler_is_orphan(e->scheduler, plan->chunk.seq);
    scheduler_apply(e->scheduler, plan, result, start_us, now_us);
    outbox_begin(e->outbox);
    uint32_t told = result->token_count - (orphan && chunk_sampled);
    for (uint32_t i = 0; i < told; i++) {
        uint32_t slot = i < plan->row_count ? plan->rows[i].seq : plan->chunk.seq;
        deliver(e, (job *)scheduler_at(e->scheduler, slot), &result->tokens[i], now_us);
    }
    if (chunk_ended && !chunk_sampled && !orphan)
        report_progress(e, plan, now_us);
    commit(e);
}

static void account(engine *e, const step_plan *plan, const step_result *result, uint64_t step_us)
{
    engine_snapshot *counts = &e->counts;
    counts->steps++;
    counts->busy_us += step_us;
    counts->bytes += result->bytes;
    counts->last_step_bytes = result->bytes;
    counts->last_step_us = step_us;
    counts->decode_rows += plan->row_count;
    if (plan->row_count > 0)
        counts->decode_steps++;
    if (plan->kind == STEP_DECODE) {
        counts->decode_us += step_us;
    } else if (plan->kind == STEP_PREFILL) {
        counts->prefill_runs++;
        counts->prefill_us += step_us;
    } else {
        counts->fused_steps++;
        counts->fused_us += step_us;
    }
}

static void fail_slot(engine *e, uint32_t slot, const char *text, uint64_t now_us)
{
    if (scheduler_is_orphan(e->scheduler, slot)) {
        scheduler_fail_orphan(e->scheduler, slot);
    } else {
        sequence *seq = scheduler_at(e->scheduler, slot);
        seq->broken = true;
        finish_with_error(e, (job *)seq, text, now_us);
    }
}

static void fail_plan(engine *e, const step_plan *plan, const error *err, uint64_t now_us)
{
    log_error("a step failed: %s", err->text);
    outbox_begin(e->outbox);
    for (uint32_t i = 0; i < plan->row_count; i++)
        fail_slot(e, plan->rows[i].seq, err->text, now_us);
    if (plan->chunk.token_count > 0)
        fail_slot(e, plan->chunk.seq, err->text, now_us);
    commit(e);
    if (++e->failures >= FAILURES_MAX && !e->counts.failed) {
        log_error("%u steps in a row have failed: no new work is taken", e->failures);
        e->counts.failed = true;
        inbox_drain(e->inbox);
    }
}

static bool end_refused(engine *e) /* sequences that the runner did not open */
{
    sequence *seq = scheduler_take_failed(e->scheduler);
    if (!seq)
        return false;
    outbox_begin(e->outbox);
    for (; seq; seq = scheduler_take_failed(e->scheduler)) {
        error text = {""};
        error_set(&text, seq->open_status, "the runner could not start the request (status %d)", (int)seq->open_status);
        finish_with_error(e, (job *)seq, text.text, e->clock->now_us(e->clock));
    }
    commit(e);
    return true;
}

static bool turn(engine *e, bool *stop)
{
    bool busy = collect(e, stop);
    if (*stop)
        return false;
    step_plan plan;
    uint64_t start_us = e->clock->now_us(e->clock);
    scheduler_next(e->scheduler, start_us, &plan);
    busy |= end_refused(e);
    if (e->threaded)
        cache_desk_publish(&e->cache, e->scheduler, start_us, plan.kind == STEP_IDLE);
    if (plan.kind == STEP_IDLE) {
        engine_publish(e, start_us);
        return busy;
    }
    step_result result = {.tokens = e->sampled};
    error err = {""};
    status st = e->runner->ops->run(e->runner, &plan, &result, e->clock, &err);
    uint64_t end_us = e->clock->now_us(e->clock);
    if (st) {
        fail_plan(e, &plan, &err, end_us);
    } else {
        e->failures = 0;
        e->counts.last_step_end_us = end_us;
        account(e, &plan, &result, end_us - start_us);
        apply(e, &plan, &result, start_us, end_us);
    }
    return true;
}

bool engine_step(engine *e)
{
    bool stop;
    return !e->stopped && turn(e, &stop);
}

/* ---- the thread ---- */

static void *run_loop(void *argument)
{
    engine *e = argument;
    for (;;) {
        bool stop;
        bool busy = turn(e, &stop);
        if (stop)
            return NULL;
        if (!busy)
            inbox_wait(e->inbox, e->idle_us);
    }
}

status engine_start(engine *e, error *err)
{
    assert(!e->started && !e->stopped);
    e->threaded = true;
    int failure = pthread_create(&e->thread, NULL, run_loop, e);
    if (failure)
        return error_set(err, ERR_IO, "the engine thread could not start: %s", strerror(failure));
    e->started = true;
    return OK;
}

static void cancel_all(engine *e)
{
    bool stop;
    collect(e, &stop);
    outbox_begin(e->outbox);
    uint64_t now_us = e->clock->now_us(e->clock);
    for (sequence *seq; (seq = scheduler_any(e->scheduler));)
        finish_with(e, (job *)seq, FINISH_CANCELLED, now_us);
    commit(e);
}

void engine_read_cache(engine *e, cache_report *out)
{
    if (!e->threaded)
        cache_desk_renew(&e->cache, e->scheduler);
    cache_desk_read(&e->cache, out);
    tiering *tiers = scheduler_tiering(e->scheduler); /* they work on while the engine sleeps */
    if (tiers)
        out->tier_count = tiering_read_counts(tiers, out->tiers, out->tier_names);
}

status engine_forget(engine *e, int tenant, uint32_t *pages, error *err)
{
    cache_errand errand;
    if (tenant >= (int)TENANTS_MAX)
        return error_set(err, ERR_INVALID, "tenant %d: there are at most %d", tenant, TENANTS_MAX);
    cache_desk_ask(&e->cache, &errand, tenant);
    inbox_poke(e->inbox);
    if (!e->started || e->stopped)
        cache_desk_serve(&e->cache, e->scheduler);
    cache_desk_wait(&e->cache, &errand);
    if (pages)
        *pages = errand.pages;
    tiering *tiers = scheduler_tiering(e->scheduler);
    return tiers ? tiering_drop(tiers, errand.space, err) : OK;
}

void engine_stop(engine *e)
{
    if (e->stopped)
        return;
    inbox_stop(e->inbox);
    e->runner->ops->yield(e->runner);
    if (e->started)
        pthread_join(e->thread, NULL);
    e->stopped = true;
    cache_desk_serve(&e->cache, e->scheduler); /* whoever asked too late */
    cancel_all(e);
}

void engine_destroy(engine *e)
{
    if (!e)
        return;
    if (e->inbox && e->outbox && e->scheduler && e->resting) {
        engine_stop(e);
        engine_event events[16];
        while (engine_take_events(e, events, 16) > 0) {}
    }
    scheduler_destroy(e->scheduler);
    inbox_destroy(e->inbox);
    outbox_destroy(e->outbox);
    trace_destroy(e->trace);
    front_desk_close(&e->desk);
    cache_desk_close(&e->cache);
    pthread_mutex_destroy(&e->model_lock);
    free(e->sampled);
    free(e->resting);
    free(e);
}
