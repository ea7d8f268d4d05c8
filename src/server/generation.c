/* server/generation.c: from engine events to bytes. A generation's text goes detokenizer -> stop matcher -> output
 * parser -> g->pieces; a stream takes them from there frame by frame, unless its client reads too slowly: then text
 * collects (a few bytes a token) until there is room, and leaves as one frame. A client that takes nothing for the
 * stall deadline is gone. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/api/constraints.h"
#include "server/api/openai_answer.h"
#include "server/api/params.h"
#include "server/api/reasoning_limit.h"
#include "server/api/tool_memory.h"
#include "server/cache_usage.h"
#include "server/exchange.h"
#include "server/measures.h"

enum { UNSENT_MAX = 8 << 20 }; /* bytes of one generation that wait for its client */

static double seconds(uint64_t us)
{
    return (double)us * 1e-6;
}

/* ---- to the engine ---- */

/* What may come next: a thought within its budget, then what the grammar allows. */
static bool constrain(exchange *x, token_constraint **out)
{
    const generation_plan *plan = &x->plan;
    const output_marks *marks = output_marks_find(plan->output.thoughts);
    bool thinks = marks && (plan->output.thought_open || plan->output.thought_may_open);
    error err = {0};
    if (!constraints_make(x, out))
        return false;
    if (!thinks || (!*out && plan->output.thought_budget == THOUGHT_UNLIMITED))
        return true;
    reasoning_limit_config config = {.tokenizer = x->model->tokenizer,
                                     .vocab_size = engine_runner_info(x->model->engine)->vocab_size,
                                     .marks = marks,
                                     .open = plan->output.thought_open,
                                     .may_open = plan->output.thought_may_open,
                                     .budget = plan->output.thought_budget,
                                     .inner = *out};
    return reasoning_limit_create(out, &config, &err) == OK || api_fail(&x->error, 500, NULL, "%s", err.text);
}

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
                   .received_us = x->read_us,
                   .context = g};
    r->turn_mark_count = prompt_index == 0 ? plan->turn_mark_count : 0;
    memcpy(r->turn_marks, plan->turn_marks, sizeof r->turn_marks);
    r->sampling.biases = biases;
    if (!constrain(x, &r->sampling.constraint)) {
        request_free(r);
        return NULL;
    }
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

static status open_parser(exchange *x, generation *g, error *err)
{
    output_parser_config config = {.family = x->plan.output.family,
                                   .thoughts = x->plan.output.thoughts,
                                   .thought_open = x->plan.output.thought_open,
                                   .tools = x->plan.output.tools};
    return config.family || config.thoughts ? output_parser_create(&g->parser, &config, err) : OK;
}

static bool submit_one(exchange *x, uint32_t index)
{
    generation *g = &x->generations[index];
    *g = (generation){.exchange = x, .index = index, .stop_string = -1};
    error err = {0};
    if (open_parser(x, g, &err))
        return api_fail(&x->error, 500, NULL, "%s", err.text);
    request *r = make_request(x, g, index / x->plan.choices, index % x->plan.choices);
    if (!r)
        return api_fail(&x->error, 500, NULL, "out of memory");
    g->id = r->id;
    g->prompt_tokens = r->prompt_count;
    g->tenant = r->tenant;
    g->klass = r->klass;
    g->gaps.bound_us = gap_bound_us(x, r);
    uint32_t max_tokens = r->max_tokens;
    status code = engine_submit(x->model->engine, r, &err);
    if (code) {
        refuse_submit(x, r, code, err.text);
        request_free(r);
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
                         .conversation = plan->keep,
                         .gap_us = x->terms.klass == CLASS_INTERACTIVE ? x->terms.gap_us : 0,
                         .first_token_us = x->terms.first_token_us};
    if (!server_admit(x->server, &ask, &x->error))
        return false;
    ask.prompt_tokens = longest;
    ask.copies = 1;
    return longest == mean || server_admit(x->server, &ask, &x->error);
}

static void write_frame(exchange *x, const buf *frame)
{
    if (!frame->size)
        return;
    x->sent_us = clock_now_us();
    connection_stream(x->connection, buf_span(frame));
}

static void begin_stream(exchange *x)
{
    buf headers = {0}, scratch = {0};
    buf_text(&headers, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    span warning = exchange_warning_header(x, &scratch);
    buf_append(&headers, warning.data, warning.size);
    api_request_id_headers(x->request_id, &headers);
    x->streaming = true;
    const char *type = x->route->format->stream_type;
    connection_begin_stream(x->connection, type ? type : "text/event-stream; charset=utf-8", buf_span(&headers));
    buf_free(&headers);
    buf_free(&scratch);
}

static void begin_answer(exchange *x)
{
    const answer_format *format = x->route->format;
    buf frame = {0};
    snprintf(x->id, sizeof x->id, "%s%016llx", format->id_prefix, (unsigned long long)server_random(x->server));
    x->created_unix = clock_unix_seconds();
    if (x->plan.stream)
        begin_stream(x);
    if (format->begin)
        format->begin(&frame, x);
    if (frame.size && x->streaming)
        write_frame(x, &frame);
    buf_free(&frame);
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
    begin_answer(x);
}

void generation_cancel_all(exchange *x)
{
    for (uint32_t i = 0; i < x->count; i++)
        if (!x->generations[i].done)
            engine_cancel(x->model->engine, x->generations[i].id, FINISH_CANCELLED);
}

/* ---- from the engine ---- */

/* An id for the call that begins; a template that wants short ones gets them back. */
static void name_call(generation *g)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    exchange *x = g->exchange;
    const char *prefix = x->route->format->call_prefix ? x->route->format->call_prefix : "call_";
    bool short_id = x->form && x->form->short_ids;
    call_id *grown = realloc(g->calls, (g->call_count + 1) * sizeof *grown);
    if (!grown)
        return;
    g->calls = grown;
    char *id = grown[g->call_count++].text;
    size_t at = short_id ? 0 : strlen(prefix), end = short_id ? 9 : at + 20;
    memcpy(id, prefix, at);
    while (at < end)
        id[at++] = letters[server_random(x->server) % (sizeof letters - 1)];
    id[at] = 0;
}

static void take_piece(void *context, const output_piece *piece)
{
    generation *g = context;
    exchange *x = g->exchange;
    if (g->stopped)
        return;
    if (piece->kind == PIECE_CALL)
        name_call(g);
    answer_pieces_add(&g->pieces, piece);
    if (x->route->format->keeps_all)
        answer_pieces_add(&g->all, piece);
    if (piece->kind == PIECE_ARGUMENTS)
        buf_append(&g->arguments, piece->text.data, piece->text.size);
    if (piece->kind == PIECE_CALL_END)
        tool_memory_put(x->form ? x->form->memory : NULL, g->tenant, span_from(generation_call_id(g, piece->call)),
                        buf_span(&g->arguments));
    if (piece->kind == PIECE_CALL_END || piece->kind == PIECE_CALL_CUT)
        buf_clear(&g->arguments);
    if (piece->kind != PIECE_CALL_END)
        return;
    g->calls_whole++;
    if (x->plan.output.one_call) {
        g->stopped = true;
        g->finish = "tool_calls";
    }
}

/* Text that was generated, `end`: the last of it. True: the answer ends here, g->finish says why. */
static bool take_text(generation *g, const buf *text, bool end)
{
    exchange *x = g->exchange;
    buf sure = {0};
    g->stop_string = stop_push(&g->stop, &x->plan.stops, buf_span(text), x->plan.include_stop, &sure);
    bool found = g->stop_string >= 0;
    if (end && !found)
        stop_finish(&g->stop, &sure);
    if (g->parser) {
        output_parser_feed(g->parser, buf_span(&sure), take_piece, g);
        if ((end || found) && !g->stopped)
            output_parser_end(g->parser, take_piece, g);
    } else if (sure.size) {
        take_piece(g, &(output_piece){.kind = PIECE_TEXT, .text = buf_span(&sure)});
    }
    buf_free(&sure);
    if (found && !g->stopped) {
        g->stopped = true;
        g->finish = "stop";
    }
    return g->stopped;
}

/* Control tokens are printed when they are asked for, or are part of how calls and thoughts are written. */
static void decode(generation *g, token_id token, buf *out)
{
    const exchange *x = g->exchange;
    const tokenizer *t = x->model->tokenizer;
    g->decode.keep_specials = x->plan.keep_specials || (g->parser && tokenizer_is_control(t, token) &&
                                                        output_parser_wants(g->parser, tokenizer_token_text(t, token)));
    detokenizer_push(&g->decode, t, token, out);
}

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
    g->thought_tokens += g->parser && output_parser_in_thought(g->parser);
    buf text = {0};
    decode(g, event->token.token, &text);
    if (x->plan.want_logprobs && x->route->format->logprob)
        x->route->format->logprob(x, g, &event->token);
    if (take_text(g, &text, false))
        engine_cancel(x->model->engine, g->id, FINISH_STOP);
    buf_free(&text);
    if (g->pieces.bytes.size + g->logprobs[0].size > UNSENT_MAX && x->streaming) {
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
        buf text = {0};
        detokenizer_finish(&g->decode, &text);
        if (!take_text(g, &text, true))
            g->finish = event->reason == FINISH_STOP && g->calls_whole ? "tool_calls" : names[event->reason];
        buf_free(&text);
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

static void take_progress(generation *g, const engine_event *event)
{
    exchange *x = g->exchange;
    g->prompt_done = event->prompt_done;
    g->cached = event->cached;
    if (!x->connection || !x->streaming || !x->plan.return_progress || !x->route->format->progress ||
        connection_congested(x->connection))
        return;
    buf frame = {0};
    x->route->format->progress(&frame, x, g, event);
    write_frame(x, &frame);
    buf_free(&frame);
}

/* ---- to the client ---- */

/* What there is of `g`, or its end. */
static void write_chunk(exchange *x, generation *g, bool end)
{
    const answer_format *format = x->route->format;
    buf frame = {0};
    (end ? format->finish : format->pieces)(&frame, x, g);
    write_frame(x, &frame);
    buf_free(&frame);
    if (end)
        return;
    if (g->last_us <= x->sent_us)
        histogram_observe(server_measures_of(x->server)->delivery_s, seconds(x->sent_us - g->last_us));
    g->begun = true;
    answer_pieces_clear(&g->pieces);
}

static void write_stream_error(exchange *x, generation *g)
{
    const answer_format *format = x->route->format;
    buf frame = {0};
    (format->failed ? format->failed : openai_failed)(&frame, x, g);
    write_frame(x, &frame);
    buf_free(&frame);
}

static void stream_one(exchange *x, generation *g)
{
    if (g->ended || connection_congested(x->connection))
        return;
    if (g->pieces.count || (g->logprobs[0].size && !g->done))
        write_chunk(x, g, false);
    if (!g->done)
        return;
    if (strcmp(g->finish, "error") == 0)
        write_stream_error(x, g);
    else
        write_chunk(x, g, true);
    g->ended = true;
}

static void end_stream(exchange *x)
{
    buf frame = {0};
    if (x->route->format->end)
        x->route->format->end(&frame, x);
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
        x->answer.status = 200;
        x->answer.type = "application/json";
        x->route->format->whole(&x->answer.body, x);
        cache_usage_header(x, &x->answer.headers);
    }
    exchange_respond(x);
}

void generation_flush(exchange *x)
{
    if (!exchange_waited_for(x))
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
    if (event->kind == EVENT_TOKEN && !g->stopped && exchange_waited_for(x)) {
        g->cached = event->cached;
        take_token(g, event);
        if (x->streaming && g->pieces.count) /* a frame for each token, all of a wake-up in one write */
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
    const char *ping = x->route->format->ping;
    buf frame = {0};
    if (connection_congested(x->connection))
        return;
    buf_text(&frame, ping ? ping : ": waiting\n\n");
    write_frame(x, &frame);
    buf_free(&frame);
}

void generation_free(generation *g)
{
    output_parser_destroy(g->parser);
    answer_pieces_free(&g->pieces);
    answer_pieces_free(&g->all);
    free(g->calls);
    buf_free(&g->arguments);
    buf_free(&g->stop.held);
    for (size_t k = 0; k < 4; k++)
        buf_free(&g->logprobs[k]);
}

const char *generation_call_id(const generation *g, uint32_t call)
{
    return call < g->call_count ? g->calls[call].text : "";
}
