/* load/tune_run.c: one engine, one chat, one document. The chat's gaps count from the document's submission until the
 * chat's first token after the document's: so a chunk as long as the document is one gap, and not none. */
#include "load/tune_run.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"

enum { CHAT_ID = 1, DOCUMENT_ID = 2, WARM_TOKENS = 6, EVENTS = 64 };
static const double premium_max = 6; /* a run longer than this many times the document alone is cut */

typedef struct {
    const tune_load *load;
    engine *engine;
    rng random;
    double *gaps; /* (gap_max), microseconds */
    uint32_t gap_count, gap_max, chat_seen;
    uint64_t last_us;             /* the chat's newest token; 0: none yet */
    uint64_t from_us, end_us;     /* the window: submission of the document, the chat's last token that counts */
    uint64_t first_us, worked_us; /* the document's first token; device time on prompts when the window began */
    bool chat_over, waited_out;
    char failure[200];
} scene;

static status submit(scene *s, uint64_t id, uint32_t tokens, uint32_t max_tokens, error *err)
{
    const runner_info *info = &s->load->runner->info;
    request *r = calloc(1, sizeof *r);
    int32_t *prompt = malloc((size_t)tokens * sizeof *prompt);
    if (!r || !prompt) {
        free(r);
        free(prompt);
        return error_set(err, ERR_MEMORY, "out of memory");
    }
    for (uint32_t i = 0; i < tokens; i++)
        prompt[i] = (int32_t)rng_below(&s->random, info->vocab_size);
    *r = (request){.id = id,
                   .prompt = prompt,
                   .prompt_count = tokens,
                   .max_tokens = max_tokens,
                   .sampling = {.top_p = 1, .typical_p = 1, .repetition_penalty = 1}};
    status st = engine_submit(s->engine, r, err);
    if (st) {
        free(prompt);
        free(r);
    }
    return st;
}

static void take_chat_token(scene *s, uint64_t now_us)
{
    s->chat_seen++;
    if (s->from_us && now_us > s->from_us && s->last_us && s->gap_count < s->gap_max) {
        s->gaps[s->gap_count++] = (double)(now_us - s->last_us);
        s->end_us = now_us;
    }
    s->last_us = now_us;
}

static void take_event(scene *s, const engine_event *e)
{
    bool chat = e->request_id == CHAT_ID;
    if (e->kind == EVENT_TOKEN && chat && !(s->first_us && s->end_us > s->first_us))
        take_chat_token(s, e->time_us);
    if (e->kind == EVENT_TOKEN && !chat && !s->first_us)
        s->first_us = e->time_us;
    if (e->kind != EVENT_FINISHED)
        return;
    s->chat_over |= chat;
    if (e->reason == FINISH_ERROR)
        snprintf(s->failure, sizeof s->failure, "%s", e->error_text[0] ? e->error_text : "a request failed");
}

/* One turn of the engine. */
static status step(scene *s, error *err)
{
    engine_event events[EVENTS];
    bool busy = engine_step(s->engine);
    for (size_t count = EVENTS; count == EVENTS;) {
        count = engine_take_events(s->engine, events, EVENTS);
        for (size_t i = 0; i < count; i++)
            take_event(s, &events[i]);
    }
    if (s->failure[0])
        return error_set(err, ERR_IO, "policy %s: %s", s->load->policy, s->failure);
    return busy ? OK : error_set(err, ERR_IO, "policy %s: the engine stopped before the run was over", s->load->policy);
}

static uint64_t prompt_work_us(const scene *s)
{
    engine_snapshot now;
    engine_read_snapshot(s->engine, &now);
    return now.prefill_us + now.fused_us;
}

static uint64_t now_of(const scene *s)
{
    return s->load->clock->now_us(s->load->clock);
}

static status warm_up(scene *s, error *err)
{
    const tune_load *load = s->load;
    uint32_t limit = engine_token_limit(s->engine);
    if (limit <= load->chat_tokens + WARM_TOKENS)
        return error_set(err, ERR_LIMIT, "a context of %u tokens is too short for a chat", limit);
    s->gap_max = limit;
    s->gaps = malloc((size_t)limit * sizeof *s->gaps);
    if (!s->gaps)
        return error_set(err, ERR_MEMORY, "out of memory");
    status st = submit(s, CHAT_ID, load->chat_tokens, limit - load->chat_tokens, err);
    while (!st && s->chat_seen < WARM_TOKENS)
        st = step(s, err);
    return st;
}

/* From the document's submission to the end of the window. */
static status watch(scene *s, tune_sample *out, error *err)
{
    const tune_load *load = s->load;
    bool chat = load->chat_tokens > 0, document = load->document_tokens > 0;
    s->worked_us = prompt_work_us(s);
    s->from_us = now_of(s);
    status st = document ? submit(s, DOCUMENT_ID, load->document_tokens, 1, err) : OK;
    while (!st) {
        uint64_t spent_us = now_of(s) - s->from_us;
        if (document ? s->first_us && (!chat || s->chat_over || s->end_us > s->first_us) : spent_us >= load->chat_us)
            return OK;
        if (chat && s->chat_over && !document)
            return OK;
        if (document && load->alone_us && !s->first_us && spent_us >= load->alone_us) {
            out->starved = prompt_work_us(s) == s->worked_us;
            out->estimated = (double)spent_us >= premium_max * (double)load->alone_us;
            if (out->starved || out->estimated)
                return OK;
        }
        st = step(s, err);
    }
    return st;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sum_up(scene *s, tune_sample *out)
{
    uint64_t alone_us = s->load->alone_us, end_us = s->first_us ? s->first_us : now_of(s);
    out->ttft_us = (double)(end_us - s->from_us);
    if (s->first_us)
        out->starved = out->estimated = false;
    if (out->estimated) {
        double part = (double)(prompt_work_us(s) - s->worked_us) / (double)alone_us;
        out->ttft_us /= part < 1 ? part : 1;
    }
    out->premium = alone_us && !out->starved ? out->ttft_us / (double)alone_us : 0;
    out->gaps = s->gap_count;
    if (s->gap_count == 0)
        return;
    double sum_us = 0;
    for (uint32_t i = 0; i < s->gap_count; i++)
        sum_us += s->gaps[i];
    qsort(s->gaps, s->gap_count, sizeof *s->gaps, by_value);
    out->p50_us = tune_quantile(s->gaps, s->gap_count, 0.5);
    out->p99_us = tune_quantile(s->gaps, s->gap_count, 0.99);
    out->worst_us = s->gaps[s->gap_count - 1];
    out->chat_tokens_per_s = sum_us > 0 ? s->gap_count * 1e6 / sum_us : 0;
}

static status open_engine(const tune_load *load, engine **out, error *err)
{
    engine_config config = {.policy = load->policy, .schedule = load->schedule, .clock = load->clock};
    return engine_create(out, load->runner, &config, err);
}

status tune_run(const tune_load *load, tune_sample *out, error *err)
{
    scene s = {.load = load, .random = {load->seed}};
    *out = (tune_sample){0};
    status st = open_engine(load, &s.engine, err);
    if (st)
        return st;
    if (load->chat_tokens > 0)
        st = warm_up(&s, err);
    if (!st)
        st = watch(&s, out, err);
    if (!st)
        sum_up(&s, out);
    engine_destroy(s.engine);
    free(s.gaps);
    return st;
}

status tune_resolve_gap(const tune_load *load, uint64_t *gap_us, uint64_t *smallest_us, error *err)
{
    engine *e;
    engine_snapshot now;
    status st = open_engine(load, &e, err);
    if (st)
        return st;
    engine_read_snapshot(e, &now);
    *gap_us = now.gap_us;
    *smallest_us = (uint64_t)now.admission.smallest_gap_us;
    engine_destroy(e);
    return OK;
}
