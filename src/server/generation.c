/* server/generation.c: from engine events to bytes. A generation's text goes detokenizer -> stop matcher -> g->text; a
 * stream takes it from there frame by frame, unless its client reads too slowly: then text collects (a few bytes a
 * token) until there is room, and leaves as one frame. A client that takes nothing for the stall deadline is gone. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/api/params.h"
#include "server/cache_usage.h"
#include "server/exchange.h"
#include "server/measures.h"

enum { UNSENT_MAX = 8 << 20 }; /* bytes of one generation that wait for its client */

static double seconds(uint64_t us)
{
    return (double)us * 1e-6;
}

/* ---- to the engine ---- */

static request *make_request(exchange *x, generation *g, uint32_t prompt_index, uint32_t choice)
{
    const generation_plan *plan = &x->plan;
    const token_list *prompt = &plan->prompts[prompt_index];
    const server_model *model = x->model;
    request *r = calloc(1, sizeof *r);
    int32_t *ids = malloc(prompt->count * sizeof *ids);
    logit_bias *biases = plan->sampling.bias_count ? malloc(plan->sampling.bias_count * sizeof *biases) : NULL;
    if (!r || !ids || (plan->sampling.bias_count && !biases)) {
        free(r);
        free(ids);
        free(biases);
        return NULL;
    }
    memcpy(ids, prompt->ids, prompt->count * sizeof *ids);
    if (biases)
        memcpy(biases, plan->sampling.biases, plan->sampling.bias_count * sizeof *biases);
    uint32_t room = model->context_length - (uint32_t)prompt->count;
    *r = (request){.id = server_next_id(x->server),
                   .prompt = ids,
                   .prompt_count = (uint32_t)prompt->count,
                   .max_tokens = plan->max_tokens && plan->max_tokens < room ? plan->max_tokens : room,
                   .sampling = plan->sampling,
                   .klass = x->terms.klass,
                   .tenant = x->terms.tenant,
                   .gap_us = x->terms.klass == CLASS_INTERACTIVE ? x->terms.gap_us : 0,
                   .first_token_us = x->terms.first_token_us,
                   .shared_tokens = prompt_index == 0 ? plan->shared_tokens : 0,
                   .cache_salt = plan->cache_salt,
                   .no_cache = plan->no_cache,
                   .keep = plan->keep,
                   .want_progress = true, /* for /debug/state too */
                   .context = g};
    r->turn_mark_count = prompt_index == 0 ? plan->turn_mark_count : 0;
    memcpy(r->turn_marks, plan->turn_marks, sizeof r->turn_marks);
    r->sampling.biases = biases;
    if (!plan->has_seed)
        r->sampling.seed = server_random(x->server);
    r->sampling.seed += 0x9E3779B97F4A7C15u * choice; /* choice 0 has the seed as given */
    if (plan->stop_token_count) {
        r->stop_tokens = plan->stop_tokens;
        r->stop_token_count = plan->stop_token_count;
    } else if (!plan->ignore_eos) {
        r->stop_tokens = model->stop_tokens;
        r->stop_token_count = model->stop_token_count;
    }
    return r;
}

static void free_request(request *r)
{
    free(r->prompt);
    free((void *)r->sampling.biases);
    free(r);
}

/* The request's own stop tokens go before the model's; all in one array. */
static bool merge_stop_tokens(exchange *x)
{
    generation_plan *plan = &x->plan;
    const server_model *model = x->model;
    if (!plan->stop_token_count || plan->ignore_eos)
        return true;
    size_t total = plan->stop_token_count + model->stop_token_count;
    int32_t *all = realloc(plan->stop_tokens, total * sizeof *all);
    if (!all)
        return false;
    memcpy(all + plan->stop_token_count, model->stop_tokens, model->stop_token_count * sizeof *all);
    plan->stop_tokens = all;
    plan->stop_token_count = (uint32_t)total;
    return true;
}

/* What this stream is promised, as the engine finds it; 0: nothing. */
static uint64_t gap_bound_us(const exchange *x, const request *r)
{
    const tenant_table *table = server_tenants(x->server);
    const tenant *who = r->tenant < table->count ? &table->tenants[r->tenant] : &table->tenants[0];
    engine_snapshot now;
    if (r->klass != CLASS_INTERACTIVE)
        return 0;
    if (r->gap_us || who->gap_us)
        return r->gap_us ? r->gap_us : who->gap_us;
    engine_read_snapshot(x->model->engine, &now);
    return now.gap_us;
}

/* Admitted, and there is no room after all: admission is asked again, for the reason. */
static bool refuse_submit(exchange *x, const request *r, status code, const char *text)
{
    admission_ask ask = {
        .tenant = r->tenant, .klass = CLASS_BATCH, .prompt_tokens = r->prompt_count, .max_tokens = r->max_tokens};
    if (code != ERR_BUSY)
        return api_fail(&x->error, 400, NULL, "%s", text);
    if (!server_admit(x->server, &ask, &x->error))
        return false;
    x->error.dropped = true;
    x->error.code = "queue_full";
    x->error.retry_after = 1;
    return api_fail(&x->error, 429, NULL, "%s", text);
}

static bool submit_one(exchange *x, uint32_t index)
{
    generation *g = &x->generations[index];
    *g = (generation){.exchange = x, .index = index, .decode.keep_specials = x->plan.keep_specials};
    request *r = make_request(x, g, index / x->plan.choices, index % x->plan.choices);
    if (!r)
        return api_fail(&x->error, 500, NULL, "out of memory");
    error err = {0};
    g->id = r->id;
    g->prompt_tokens = r->prompt_count;
    g->tenant = r->tenant;
    g->klass = r->klass;
    g->gaps.bound_us = gap_bound_us(x, r);
    uint32_t max_tokens = r->max_tokens;
    status code = engine_submit(x->model->engine, r, &err);
    if (code) {
        refuse_submit(x, r, code, err.text);
        free_request(r);
        return false;
    }
    histogram_observe(server_measures_of(x->server)->serving.request_max_tokens, max_tokens);
    x->live++;
    return true;
}

/* Class and bounds as they are now that the body is known; what has no effect is said. */
static void settle_terms(exchange *x)
{
    request_terms *terms = &x->terms;
    terms_take_tier(terms, server_tenants_of(x->server), x->plan.tier);
    if (terms->lowered)
        params_warn(x, "served as batch: the tenant may not ask for more");
    if (terms->klass == CLASS_BATCH && terms->gap_us)
        params_warn(x, "ignored: x-llm-d-slo-tpot-ms, batch requests have no bound between tokens");
}

/* Is there room for all that x asks for, and for its longest prompt within its bounds? */
static bool admit(exchange *x)
{
    const generation_plan *plan = &x->plan;
    uint64_t prompts = 0, total = 0, count = plan->prompt_count;
    uint32_t longest = 0, context = x->model->context_length;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = (uint32_t)plan->prompts[i].count, room = context - size;
        prompts += size;
        total += size + (plan->max_tokens && plan->max_tokens < room ? plan->max_tokens : room);
        longest = size > longest ? size : longest;
    }
    uint32_t mean = (uint32_t)((prompts + count - 1) / count);
    admission_ask ask = {.tenant = x->terms.tenant,
                         .klass = x->terms.klass,
                         .prompt_tokens = mean,
                         .max_tokens = (uint32_t)((total + count - 1) / count) - mean,
                         .copies = plan->prompt_count * plan->choices,
                         .gap_us = x->terms.klass == CLASS_INTERACTIVE ? x->terms.gap_us : 0,
                         .first_token_us = x->terms.first_token_us};
    if (!server_admit(x->server, &ask, &x->error))
        return false;
    ask.prompt_tokens = longest;
    ask.copies = 1;
    return longest == mean || server_admit(x->server, &ask, &x->error);
}

static void begin_stream(exchange *x)
{
    buf headers = {0}, scratch = {0};
    buf_text(&headers, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    span warning = exchange_warning_header(x, &scratch);
    buf_append(&headers, warning.data, warning.size);
    x->streaming = true;
    connection_begin_stream(x->connection, "text/event-stream; charset=utf-8", buf_span(&headers));
    buf_free(&headers);
    buf_free(&scratch);
}

static void write_prefix(exchange *x)
{
    const answer_format *format = x->route->format;
    snprintf(x->id, sizeof x->id, "%s%016llx", format->id_prefix, (unsigned long long)server_random(x->server));
    x->created_unix = clock_unix_seconds();
    buf_printf(&x->prefix, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%llu,\"model\":", x->id,
               x->plan.stream ? format->chunk_object : format->object, (unsigned long long)x->created_unix);
    json_text_string(&x->prefix, span_from(x->model->name));
    if (x->plan.tier != TIER_NONE)
        buf_printf(&x->prefix, ",\"service_tier\":\"%s\"", terms_tier_text(&x->terms, x->plan.tier));
    buf_text(&x->prefix, ",\"system_fingerprint\":\"headway\",\"choices\":[");
}

void generation_start(exchange *x)
{
    uint32_t count = x->plan.prompt_count * x->plan.choices;
    settle_terms(x);
    if (count > GENERATIONS_MAX)
        api_fail(&x->error, 400, "n", "one request may ask for %d generations at most", GENERATIONS_MAX);
    else if (!(x->generations = calloc(count, sizeof *x->generations)) || !merge_stop_tokens(x))
        api_fail(&x->error, 500, NULL, "out of memory");
    else if (admit(x))
        while (x->count < count && submit_one(x, x->count))
            x->count++;
    if (x->error.status) {
        counter_add(server_measures_of(x->server)->refused, 1);
        generation_cancel_all(x);
        exchange_respond(x);
        return;
    }
    histogram_observe(server_measures_of(x->server)->serving.request_n, x->plan.choices);
    write_prefix(x);
    if (x->plan.stream)
        begin_stream(x);
}

void generation_cancel_all(exchange *x)
{
    for (uint32_t i = 0; i < x->count; i++)
        if (!x->generations[i].done)
            engine_cancel(x->model->engine, x->generations[i].id, FINISH_CANCELLED);
}

/* ---- from the engine ---- */

static void take_token(generation *g, const engine_event *event)
{
    exchange *x = g->exchange;
    const serving_metrics *m = &server_measures_of(x->server)->serving;
    if (!g->tokens) {
        g->first_us = event->time_us;
        g->prompt_done = g->prompt_tokens;
        histogram_observe(m->first_token_s, seconds(event->time_us - x->arrived_us));
    } else {
        uint64_t gap_us = event->time_us - g->last_us;
        histogram_observe(m->between_tokens_s, seconds(gap_us));
        gap_stats_add(&g->gaps, gap_us);
        measures_gap(server_measures_of(x->server), g->tenant, g->klass, gap_us);
    }
    g->last_us = event->time_us;
    g->tokens++;
    buf piece = {0};
    detokenizer_push(&g->decode, x->model->tokenizer, event->token.token, &piece);
    if (x->plan.want_logprobs)
        x->route->format->logprob(x, g, &event->token);
    if (stop_push(&g->stop, &x->plan.stops, buf_span(&piece), x->plan.include_stop, &g->text) >= 0) {
        g->stopped = true;
        g->finish = "stop";
        engine_cancel(x->model->engine, g->id, FINISH_STOP);
    }
    buf_free(&piece);
    if (g->text.size + g->logprobs[0].size > UNSENT_MAX && x->streaming) {
        engine_cancel(x->model->engine, g->id, FINISH_CANCELLED);
        g->stopped = true;
    }
}

static void take_finish(generation *g, const engine_event *event)
{
    static const char *const names[] = {"stop", "length", "abort", "error"};
    exchange *x = g->exchange;
    g->done = true;
    x->live--;
    g->cached = event->cached;
    g->lookup = event->lookup;
    g->queued_us = event->queued_us;
    g->prefill_us = event->prefill_us;
    g->decode_us = event->decode_us;
    if (!g->stopped) {
        buf piece = {0};
        detokenizer_finish(&g->decode, &piece);
        int found = stop_push(&g->stop, &x->plan.stops, buf_span(&piece), x->plan.include_stop, &g->text);
        g->finish = found >= 0 ? "stop" : names[event->reason];
        if (found < 0)
            stop_finish(&g->stop, &g->text);
        buf_free(&piece);
    }
    g->finish = g->finish ? g->finish : "abort";
    if (event->reason == FINISH_ERROR)
        snprintf(g->error, sizeof g->error, "%s", event->error_text);
}

static void measure_finish(generation *g, const engine_event *event)
{
    static const int kinds[] = {SERVED_STOP, SERVED_LENGTH, SERVED_ABORT, SERVED_ERROR}; /* by finish_reason */
    server_measures *own = server_measures_of(g->exchange->server);
    const serving_metrics *m = &own->serving;
    counter_add(m->finished[g->stopped ? SERVED_STOP : kinds[event->reason]], 1);
    counter_add(own->prompt_seconds, seconds(event->prefill_us));
    counter_add(own->predicted_seconds, seconds(event->decode_us));
    histogram_observe(m->request_prompt_tokens, g->prompt_tokens);
    histogram_observe(m->request_generated_tokens, g->tokens);
    histogram_observe(m->request_s, seconds(event->time_us - g->exchange->arrived_us));
    histogram_observe(m->queue_s, seconds(event->queued_us));
    histogram_observe(m->prefill_s, seconds(event->prefill_us));
    histogram_observe(m->decode_s, seconds(event->decode_us));
    histogram_observe(m->inference_s, seconds(event->prefill_us + event->decode_us));
    if (g->tokens > 1)
        histogram_observe(m->per_token_s, seconds(g->last_us - g->first_us) / (g->tokens - 1));
}

static void write_frame(exchange *x, const buf *frame)
{
    x->sent_us = clock_now_us();
    connection_stream(x->connection, buf_span(frame));
}

static void take_progress(generation *g, const engine_event *event)
{
    exchange *x = g->exchange;
    g->prompt_done = event->prompt_done;
    g->cached = event->cached;
    if (!x->connection || !x->streaming || !x->plan.return_progress || connection_congested(x->connection))
        return;
    buf frame = {0};
    buf_printf(&frame,
               "data: %s],\"prompt_progress\":{\"total\":%u,\"cache\":%u,\"processed\":%u,\"time_ms\":%llu}}\n\n",
               x->prefix.data, event->prompt_total, event->cached, event->prompt_done,
               (unsigned long long)(event->time_us - x->arrived_us) / 1000);
    write_frame(x, &frame);
    buf_free(&frame);
}

/* ---- to the client ---- */

static void write_usage(buf *out, const exchange *x, const generation *only)
{
    uint64_t prompt = 0, generated = 0, cached = 0;
    bool known =
        true; /* what was cached: the engine says it with the end, or before if the prompt took several steps */
    for (uint32_t i = 0; i < x->count; i++) {
        const generation *g = &x->generations[i];
        bool first = i % x->plan.choices == 0; /* the choices of a prompt share it */
        prompt += first ? g->prompt_tokens : 0;
        cached += first ? g->cached : 0;
        known = known && (!first || g->done || g->cached);
        generated += !only || only == g ? g->tokens : 0;
    }
    buf_printf(out, "\"usage\":{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu",
               (unsigned long long)prompt, (unsigned long long)generated, (unsigned long long)(prompt + generated));
    if (known)
        buf_printf(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%llu}", (unsigned long long)cached);
    buf_byte(out, '}');
}

static void write_rate(buf *out, const char *name, uint32_t count, uint64_t us)
{
    double ms = (double)us * 1e-3;
    buf_printf(out, "\"%s_n\":%u,\"%s_ms\":%.3f,\"%s_per_token_ms\":%.3f,\"%s_per_second\":%.3f", name, count, name, ms,
               name, count ? ms / count : 0.0, name, us ? count * 1e6 / (double)us : 0.0);
}

/* While it runs, the durations as seen from here. */
static void write_timings(buf *out, const generation *g)
{
    uint64_t prompt_us = g->done ? g->prefill_us : g->first_us - g->exchange->arrived_us;
    uint64_t predicted_us = g->done ? g->decode_us : g->last_us - g->first_us;
    buf_printf(out, "\"timings\":{\"cache_n\":%u,", g->cached);
    write_rate(out, "prompt", g->prompt_tokens - g->cached, prompt_us);
    buf_byte(out, ',');
    write_rate(out, "predicted", g->tokens, predicted_us);
    buf_byte(out, '}');
}

/* One chunk of `g`: its text so far, or its end. */
static void write_chunk(exchange *x, generation *g, const char *finish)
{
    buf frame = {0};
    buf_reserve(&frame, x->prefix.size + g->text.size + 200);
    buf_text(&frame, "data: ");
    buf_append(&frame, x->prefix.data, x->prefix.size);
    x->route->format->chunk_choice(&frame, x, g, finish ? (span){0} : buf_span(&g->text), finish);
    buf_byte(&frame, ']');
    if (x->plan.continuous_usage) {
        buf_byte(&frame, ',');
        write_usage(&frame, x, g);
    } else if (x->plan.include_usage) {
        buf_text(&frame, ",\"usage\":null");
    }
    if (x->count == 1 && (finish || x->plan.timings)) {
        buf_byte(&frame, ',');
        write_timings(&frame, g);
    }
    if (x->count == 1 && finish)
        cache_usage_field(x, g, &frame);
    buf_text(&frame, "}\n\n");
    write_frame(x, &frame);
    buf_free(&frame);
    if (!finish && g->last_us <= x->sent_us)
        histogram_observe(server_measures_of(x->server)->delivery_s, seconds(x->sent_us - g->last_us));
    g->begun = true;
    if (!finish)
        buf_clear(&g->text);
}

static void write_stream_error(exchange *x, const generation *g)
{
    api_error e = {0};
    buf frame = {0};
    api_fail(&e, 500, NULL, "%s", g->error[0] ? g->error : "the engine failed");
    buf_text(&frame, "data: ");
    api_error_write(&e, &frame);
    buf_text(&frame, "\n\n");
    write_frame(x, &frame);
    buf_free(&frame);
}

static void stream_one(exchange *x, generation *g)
{
    if (g->ended || connection_congested(x->connection))
        return;
    if (g->text.size || (g->logprobs[0].size && !g->done))
        write_chunk(x, g, NULL);
    if (!g->done)
        return;
    if (strcmp(g->finish, "error") == 0)
        write_stream_error(x, g);
    else
        write_chunk(x, g, g->finish);
    g->ended = true;
}

static void end_stream(exchange *x)
{
    buf frame = {0};
    if (x->plan.include_usage) {
        buf_printf(&frame, "data: %s],", x->prefix.data);
        write_usage(&frame, x, NULL);
        buf_text(&frame, "}\n\n");
    }
    buf_text(&frame, "data: [DONE]\n\n");
    write_frame(x, &frame);
    buf_free(&frame);
    connection *c = x->connection;
    x->connection = NULL;
    connection_end_stream(c);
}

static void answer_whole(exchange *x)
{
    for (uint32_t i = 0; i < x->count; i++)
        if (strcmp(x->generations[i].finish, "error") == 0)
            api_fail(&x->error, 500, NULL, "%s", x->generations[i].error);
        else if (strcmp(x->generations[i].finish, "abort") == 0)
            api_fail(&x->error, 503, NULL, "the server stopped before the answer was complete");
    if (!x->error.status) {
        buf *out = &x->answer.body;
        x->answer.status = 200;
        x->answer.type = "application/json";
        buf_append(out, x->prefix.data, x->prefix.size);
        for (uint32_t i = 0; i < x->count; i++) {
            if (i)
                buf_byte(out, ',');
            x->route->format->full_choice(out, x, &x->generations[i]);
        }
        buf_text(out, "],");
        write_usage(out, x, NULL);
        if (x->count == 1) {
            buf_byte(out, ',');
            write_timings(out, &x->generations[0]);
            cache_usage_field(x, &x->generations[0], out);
        }
        buf_byte(out, '}');
        cache_usage_header(x, &x->answer.headers);
    }
    exchange_respond(x);
}

void generation_flush(exchange *x)
{
    if (!x->connection)
        return;
    if (x->streaming) {
        bool all_ended = true;
        for (uint32_t i = 0; i < x->count; i++) {
            stream_one(x, &x->generations[i]);
            all_ended = all_ended && x->generations[i].ended;
        }
        if (all_ended)
            end_stream(x);
    } else if (!x->live) {
        answer_whole(x);
    }
}

void generation_event(const engine_event *event)
{
    generation *g = event->context;
    exchange *x = g->exchange;
    if (event->kind == EVENT_TOKEN && !g->stopped && x->connection) {
        take_token(g, event);
        if (x->streaming && g->text.size) /* a frame for each token, all of a wake-up in one write */
            stream_one(x, g);
    } else if (event->kind == EVENT_PROGRESS) {
        take_progress(g, event);
    } else if (event->kind == EVENT_FINISHED) {
        take_finish(g, event);
        measure_finish(g, event);
    }
    server_mark_dirty(x);
}

void generation_heartbeat(exchange *x)
{
    static const buf comment = {.data = ": waiting\n\n", .size = 11};
    if (!connection_congested(x->connection))
        write_frame(x, &comment);
}
