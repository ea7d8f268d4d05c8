/* engine/engine_notes.c: what is told of each turn: the snapshot, tenants' counts, the step model, the trace, gaps. */
#include "engine/engine_state.h"

#include <string.h>

enum { MODEL_PUBLISH_US = 100000 };

/* ---- what others see ---- */

static void publish_model(engine *e, uint64_t now_us) /* now and then: it is large */
{
    if (!e->threaded)
        return;
    if (e->model_published_us && now_us < e->model_published_us + MODEL_PUBLISH_US)
        return;
    e->model_published_us = now_us;
    pthread_mutex_lock(&e->model_lock);
    e->model = *scheduler_model(e->scheduler);
    pthread_mutex_unlock(&e->model_lock);
}

static void publish_tenants(engine *e)
{
    for (uint32_t i = 0; i < e->tenant_count; i++) {
        atomic_store(&e->desk.counts[i].running, scheduler_tenant_running(e->scheduler, i));
        atomic_store(&e->desk.counts[i].device_us, scheduler_tenant_device_us(e->scheduler, i));
    }
}

void engine_publish(engine *e, uint64_t now_us)
{
    engine_snapshot *c = &e->counts;
    scheduler_counts counts = scheduler_read_counts(e->scheduler);
    c->running = counts.running;
    c->waiting = counts.waiting + inbox_waiting(e->inbox);
    c->pages_free = scheduler_spare_pages(e->scheduler);
    c->preemptions = counts.preemptions;
    c->draining = inbox_draining(e->inbox);
    c->gaps = e->gaps.gaps;
    memcpy(c->violations, e->gaps.violations, sizeof c->violations);
    c->alarms = e->gaps.alarms;
    c->slack_us = scheduler_plan_facts(e->scheduler).slack_us;
    c->gap_us = scheduler_settings(e->scheduler)->gap_us;
    c->now_us = now_us;
    scheduler_fill_admission(e->scheduler, &c->admission);
    c->admission.waiting = c->waiting;
    c->admission.waiting_max = e->waiting_max;
    c->admission.draining = c->draining;
    c->admission.failed = c->failed;
    publish_tenants(e);
    publish_model(e, now_us);
    snapshot_board_write(&e->board, c);
}

/* ---- the trace ---- */

void engine_note_request(engine *e, const job *j, trace_kind kind, uint64_t now_us)
{
    uint64_t received_us = kind == TRACE_ARRIVED ? j->request->received_us : 0;
    trace_record record = {.start_us = now_us,
                           .duration_us = received_us && received_us < now_us ? now_us - received_us : 0,
                           .request_id = j->request->id,
                           .tokens = kind == TRACE_FINISHED ? j->sequence.generated : j->request->prompt_count,
                           .position = j->sequence.kv_count,
                           .kind = (uint8_t)kind,
                           .tenant = (uint8_t)j->request->tenant,
                           .flags = j->sequence.document ? TRACE_DOCUMENT : 0,
                           .klass = (uint8_t)j->request->klass};
    trace_add(e->trace, &record);
}

void engine_note_move(void *context, const sequence *seq, scheduler_move move)
{
    static const trace_kind kinds[] = {
        [MOVE_ADMITTED] = TRACE_ADMITTED, [MOVE_SET_ASIDE] = TRACE_SET_ASIDE, [MOVE_PREEMPTED] = TRACE_PREEMPTED};
    engine *e = context;
    engine_note_request(e, (const job *)seq, kinds[move], e->clock->now_us(e->clock));
}

static uint32_t context_of(const step_plan *plan)
{
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < plan->row_count; i++)
        tokens += plan->rows[i].position + 1;
    return tokens;
}

void engine_note_step(engine *e, const step_plan *plan, const step_result *result, uint64_t start_us, uint64_t end_us)
{
    static const trace_kind kinds[] = {
        [STEP_DECODE] = TRACE_DECODE, [STEP_PREFILL] = TRACE_PREFILL, [STEP_FUSED] = TRACE_FUSED};
    plan_facts facts = scheduler_plan_facts(e->scheduler);
    trace_record record = {.start_us = start_us,
                           .duration_us = end_us - start_us,
                           .bytes = result->bytes,
                           .predicted_us = (uint32_t)(facts.predicted_us > 0 ? facts.predicted_us : 0),
                           .tokens = plan->chunk.token_count,
                           .position = plan->kind == STEP_DECODE ? context_of(plan) : plan->chunk.position,
                           .rows = (uint16_t)plan->row_count,
                           .kind = (uint8_t)kinds[plan->kind]};
    if (plan->chunk.token_count > 0) {
        const sequence *seq = scheduler_at(e->scheduler, plan->chunk.seq);
        double part = result->chunk_done ? 1 : result->chunk_part;
        record.request_id = seq->request->id;
        record.tenant = (uint8_t)seq->request->tenant;
        record.klass = (uint8_t)seq->request->klass;
        record.part = (uint8_t)(part * 255);
        record.flags = (uint8_t)((result->chunk_done ? 0 : TRACE_YIELDED) | (seq->document ? TRACE_DOCUMENT : 0));
    }
    trace_add(e->trace, &record);
    watched_step watched = {start_us, end_us, plan->deadline_us, facts.predicted_us, plan->kind};
    gap_watch_step(&e->gaps, &watched, plan->row_count + (result->chunk_done ? plan->chunk.token_count : 0));
}

/* A token of `j`, whose gap is measured unless its client had stopped the stream. */
void engine_note_token(engine *e, job *j, uint64_t now_us)
{
    uint64_t before_us = j->steps.last_token_us;
    bool first = before_us == 0, interactive = !j->sequence.batch;
    trace_record record = {.start_us = now_us,
                           .duration_us = first ? 0 : now_us - before_us,
                           .request_id = j->request->id,
                           .predicted_us = interactive ? (uint32_t)j->sequence.gap_us : 0,
                           .position = j->sequence.kv_count,
                           .kind = TRACE_TOKEN,
                           .tenant = (uint8_t)j->request->tenant,
                           .klass = (uint8_t)j->request->klass};
    if (!first && interactive && !j->steps.rested) {
        desk_counts *counts = &e->desk.counts[j->sequence.tenant];
        atomic_fetch_add(&counts->gaps, 1);
        if (gap_watch_token(&e->gaps, before_us, now_us, j->sequence.gap_us, j->sequence.preempted)) {
            atomic_fetch_add(&counts->violations, 1);
            record.flags = TRACE_VIOLATED;
        }
    }
    j->sequence.preempted = false;
    j->steps.rested = false;
    trace_add(e->trace, &record);
}
