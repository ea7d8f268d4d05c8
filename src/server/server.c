/* server/server.c: the loop. Connections call in (head, request, gone, room), workers come back (work_done), the engine
 * wakes an async handle; whatever they produced is written once at the end of the turn (on_turn), before the loop
 * sleeps. */
#include "server/server.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "server/batch/service.h"
#include "server/debug/trace_stream.h"
#include "server/exchange.h"
#include "server/forward_choice.h"
#include "server/heads.h"
#include "server/measures.h"
#include "server/router.h"

enum {
    EVENTS_PER_TURN = 4096,
    EVENTS_AT_ONCE = 64,
    LARGE_BODY = 100 * 1024,
    SHORT_BODY = 64 * 1024,
    LARGE_AT_ONCE = 2,
    TRACE_TICK_MS = 50
};

struct server {
    server_config config;
    server_model model;
    uv_loop_t loop;
    network *network;
    uv_async_t wake, stop;
    uv_timer_t timer, trace_timer;
    uv_signal_t terminate, interrupt, hangup;
    uv_prepare_t before_sleep;
    uv_check_t after_poll;
    exchange *first, *dirty;
    exchange *large_first, *large_last; /* waiting for a worker: large bodies leave room for small ones */
    uint32_t large_running, tasks;      /* tasks: of server_run_task, not ended; they use the engine */
    uint32_t open;
    server_measures measures;
    tenants *tenants;
    forwards *forwards;          /* NULL: nothing has been forwarded yet */
    struct batch_service *batch; /* NULL: no Files and Batches */
    health_watch watch;
    rng random;
    const char *tier_names[TIERS_MAX];
    uint64_t last_id;
    bool draining, stopping;
    chat_form form;
    atomic_bool stop_asked;
    engine_event events[EVENTS_AT_ONCE];
};

/* ---- what the handlers ask ---- */

bool server_draining(const server *s)
{
    return s->draining;
}

const server_model *server_model_of(const server *s)
{
    return &s->model;
}

server_measures *server_measures_of(server *s)
{
    return &s->measures;
}

const tenant_table *server_tenants(const server *s)
{
    return tenants_table(s->tenants);
}

const tenants *server_tenants_of(const server *s)
{
    return s->tenants;
}

exchange *server_exchanges(const server *s)
{
    return s->first;
}

static void watch_health(server *s, const engine_snapshot *now, uint64_t now_us)
{
    uint32_t work = 0;
    for (const exchange *x = s->first; x; x = x->next)
        work += x->live;
    health_see(&s->watch, now, work, now_us);
}

health server_health(server *s, const engine_snapshot *now, uint64_t now_us)
{
    watch_health(s, now, now_us);
    return health_judge(&s->watch, now, s->draining, now_us);
}

uint64_t server_waited_us(const server *s, uint64_t now_us)
{
    return health_waited_us(&s->watch, now_us);
}

const char *server_curves_path(const server *s)
{
    return s->config.curves_path ? s->config.curves_path : "";
}

const char *server_cache_place(const server *s, uint32_t place)
{
    const char *tier = place >= PLACE_TIERS && place < CACHE_PLACES ? s->tier_names[place - PLACE_TIERS] : NULL;
    return tier ? tier : place == PLACE_RAM ? "ram" : "tier";
}

network_counts server_network_counts(const server *s)
{
    return network_read_counts(s->network);
}

bool server_admit(server *s, const admission_ask *ask, api_error *e)
{
    admission_answer answer = engine_admit(s->model.engine, ask);
    if (answer.verdict == ADMIT_OK)
        return true;
    e->code = answer.reason;
    e->dropped = true;
    e->retry_after = answer.retry_after_s;
    return api_fail(e, answer.status, NULL, "%s", answer.message);
}

const config_forward *server_forward_batch(const server *s)
{
    return s->config.forward_batch.url[0] ? &s->config.forward_batch : NULL;
}

forwards *server_forwards(server *s, error *err)
{
    return s->forwards || !forwards_open(&s->forwards, &s->loop, s->measures.registry, err) ? s->forwards : NULL;
}

uint64_t server_next_id(server *s)
{
    return ++s->last_id;
}

uint64_t server_random(server *s)
{
    return rng_next(&s->random);
}

void server_mark_dirty(exchange *x)
{
    if (x->dirty)
        return;
    x->dirty = true;
    x->next_dirty = x->server->dirty;
    x->server->dirty = x;
}

/* ---- exchanges ---- */

static exchange *exchange_create(server *s, connection *c, const route *r)
{
    exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->server = s;
    x->model = &s->model;
    x->form = &s->form;
    x->connection = c;
    x->route = r;
    make_request_id(s, x->request_id);
    x->arrived_us = x->sent_us = clock_now_us();
    plan_init(&x->plan);
    if (s->model.sampling)
        x->plan.sampling = *s->model.sampling;
    x->next = s->first;
    if (s->first)
        s->first->previous = x;
    s->first = x;
    s->open++;
    if (c)
        connection_set_exchange(c, x);
    return x;
}

static void exchange_destroy(exchange *x)
{
    server *s = x->server;
    if (x->previous)
        x->previous->next = x->next;
    else
        s->first = x->next;
    if (x->next)
        x->next->previous = x->previous;
    for (exchange **at = &s->dirty; x->dirty && *at; at = &(*at)->next_dirty)
        if (*at == x) {
            *at = x->next_dirty;
            break;
        }
    s->open--;
    exchange_release(x);
    free(x);
}

void exchange_free_if_done(exchange *x)
{
    if (!exchange_waited_for(x) && !x->live && !x->working)
        exchange_destroy(x);
}

void exchange_respond(exchange *x)
{
    buf headers = {0};
    connection *c = x->connection;
    if (!exchange_waited_for(x))
        return;
    if (x->error.status) {
        buf_clear(&x->answer.body);
        exchange_write_error(x);
        x->answer.status = x->error.status;
        x->answer.type = "application/json";
        api_error_headers(&x->error, &headers);
        if (x->error.dropped)
            histogram_observe(x->server->measures.refusal_s, (double)(clock_now_us() - x->read_us) * 1e-6);
    }
    buf_append(&headers, x->answer.headers.data, x->answer.headers.size);
    exchange_warning_header(x, &headers);
    if (!x->forward) /* another's answer has its own */
        api_request_id_headers(x->request_id, &headers);
    x->connection = NULL;
    if (c)
        connection_respond(c, x->answer.status, x->answer.type, buf_span(&headers), buf_span(&x->answer.body));
    else
        x->inside.answered(x->inside.context, x);
    x->inside.answered = NULL;
    buf_free(&headers);
    server_mark_dirty(x); /* freed at the end of the turn */
}

/* ---- workers ---- */

static void start_work(exchange *x);

static void answer(exchange *x)
{
    if (x->inside.answered && x->plan.stream)
        api_fail(&x->error, 400, "stream", "a request of a batch cannot be streamed");
    if (x->inside.answered)
        x->plan.tier = TIER_NONE; /* its class is the batch's */
    if (!x->error.status && !x->answer.status && x->route->format) {
        if (!forward_after_all(x))
            generation_start(x);
    } else if (!x->tracing && !x->working)
        exchange_respond(x);
}

static void on_work(uv_work_t *work)
{
    exchange *x = work->data;
    if (x->task)
        x->task(x);
    else
        x->route->handle(x);
}

static void on_work_done(uv_work_t *work, int result)
{
    exchange *x = work->data;
    server *s = x->server;
    (void)result;
    x->working = false;
    s->large_running -= x->large;
    s->tasks -= x->task != NULL;
    if (s->large_first && s->large_running < LARGE_AT_ONCE) {
        exchange *waiting = s->large_first;
        s->large_first = waiting->next_large;
        s->large_running++;
        start_work(waiting);
    }
    if (exchange_waited_for(x))
        answer(x);
    server_mark_dirty(x);
}

static void start_work(exchange *x)
{
    x->working = true;
    x->work.data = x;
    if (uv_queue_work(&x->server->loop, &x->work, on_work, on_work_done)) {
        x->working = false;
        x->server->tasks -= x->task != NULL;
        x->server->large_running -= x->large;
        api_fail(&x->error, 500, NULL, "out of memory");
        exchange_respond(x);
    }
}

/* Large work waits for a worker while others do large work, so that there is one for the small. */
static void queue_work(exchange *x)
{
    server *s = x->server;
    if (!x->large || s->large_running < LARGE_AT_ONCE) {
        s->large_running += x->large;
        start_work(x);
        return;
    }
    x->working = true; /* in line */
    if (s->large_first)
        s->large_last->next_large = x;
    else
        s->large_first = x;
    s->large_last = x;
}

void server_run_task(exchange *x, void (*task)(exchange *x))
{
    x->task = task;
    x->large = true;
    x->server->tasks++;
    queue_work(x);
}

exchange *server_ask(server *s, const route *r, const request_terms *terms, const exchange_inside *inside,
                     void (*task)(exchange *x))
{
    exchange *x = s->stopping ? NULL : exchange_create(s, NULL, r);
    if (!x)
        return NULL;
    x->terms = *terms;
    x->inside = *inside;
    x->read_us = x->arrived_us;
    server_run_task(x, task);
    return x;
}

void server_forget(exchange *x)
{
    x->inside.answered = NULL;
    generation_cancel_all(x);
    server_mark_dirty(x);
}

struct batch_service *server_batch(const server *s)
{
    return s->batch;
}

/* ---- what connections tell ---- */

static void refuse_head(server *s, connection *c, const route *r, api_error *e, const char *allow)
{
    buf body = {0}, headers = {0};
    make_request_id(s, e->request_id);
    route_write_error(r, e, &body);
    api_request_id_headers(e->request_id, &headers);
    if (e->status == 405)
        buf_printf(&headers, "Allow: %s\r\n", allow);
    api_error_headers(e, &headers);
    connection_respond(c, e->status, "application/json", buf_span(&headers), buf_span(&body));
    buf_free(&body);
    buf_free(&headers);
}

/* What handlers may ask of the head once it is gone. */
static void keep_head(exchange *x, const http_head *head, const char *data)
{
    span match = x->route->open ? http_head_get(head, data, "if-none-match") : (span){0};
    x->head_only = head->method == HTTP_HEAD;
    if (head->target_size > head->path_size + 1)
        buf_append(&x->query, data + head->target + head->path_size + 1, head->target_size - head->path_size - 1u);
    if (match.size)
        buf_append(&x->if_none_match, match.data, match.size);
    span type = route_takes_form(x->route) ? http_head_get(head, data, "content-type") : (span){0};
    if (type.size)
        buf_append(&x->content_type, type.data, type.size);
}

/* Everything that can be known of a request before its body: key, path, kind of body, terms, and whether there is room
 * for it at all. False: `e` says what is wrong. */
static bool check_head(server *s, const http_head *head, const char *data, const route *r, request_terms *terms,
                       api_error *e)
{
    span coding = http_head_get(head, data, "content-encoding");
    int who =
        tenants_of_key(s->tenants, http_head_get(head, data, "authorization"), http_head_get(head, data, "x-api-key"));
    if (who < 0 && !(r && r->open)) {
        e->code = "invalid_api_key";
        return api_fail(e, 401, NULL, "a valid API key is required: Authorization: Bearer KEY");
    }
    if (!r)
        return false;
    if (r->method == HTTP_POST && !route_takes_form(r) && !head_is_json(http_head_get(head, data, "content-type")))
        return api_fail(e, 415, NULL, "the body must be JSON: Content-Type: application/json");
    if (coding.size && !http_value_has(coding, "identity"))
        return api_fail(e, 415, NULL, "compressed bodies are not supported");
    terms->tenant = who < 0 ? 0 : (uint32_t)who;
    if (!forward_may(r))
        return true;
    if (!terms_read_head(terms, s->tenants, who < 0 ? 0 : (uint32_t)who, head, data, e))
        return false;
    if (!r->format || forward_target(s, terms))
        return forward_admit(s, terms, e);
    admission_ask ask = {.tenant = terms->tenant, .klass = CLASS_BATCH}; /* bounds wait: the body may lower the class */
    return server_admit(s, &ask, e);
}

/* A request that is refused is answered at once, and the connection ends, unless the body is here soon: a client that
 * tries again keeps its connection then. */
static bool is_short(const http_head *head)
{
    return !head->expect_continue && !head->chunked && head->content_length <= SHORT_BODY;
}

static void on_head(void *context, connection *c, const http_head *head, const char *data)
{
    server *s = context;
    api_error e = {0};
    request_terms terms = {0};
    bool known;
    const char *allow = "GET, HEAD, POST, DELETE, OPTIONS";
    span path = http_head_path(head, data);
    const route *r = router_find(head->method, path, &known, &allow);
    if (head->method == HTTP_OPTIONS) {
        head_answer_options(c, head, data, allow);
        return;
    }
    bool good = check_head(s, head, data, r, &terms, &e);
    bool waits = e.dropped && is_short(head);
    if (!r && known)
        api_fail(&e, 405, NULL, "this path answers %s", allow);
    else if (!r)
        api_fail(&e, 404, NULL, "there is nothing at %.*s", (int)(path.size < 200 ? path.size : 200), path.data);
    counter_add(s->measures.refused, e.dropped);
    exchange *x = good || waits ? exchange_create(s, c, r) : NULL;
    if (!x && good)
        api_fail(&e, 503, NULL, "out of memory");
    if (!x) {
        refuse_head(s, c, r, &e, allow);
        return;
    }
    x->error = e;
    x->terms = terms;
    keep_head(x, head, data);
    forward_keep_head(x, head, data);
    if (!span_is(path, r->path)) {
        size_t known_size = strlen(r->path);
        buf_append(&x->body, path.data, path.size); /* the handler reads the rest of the path */
        buf_append(&x->rest, path.data + known_size, path.size - known_size);
    }
}

static void on_request(void *context, connection *c)
{
    (void)context;
    exchange *x = connection_exchange(c);
    buf *body = connection_body(c);
    if (body->size) {
        buf_free(&x->body);
        x->body = *body;
        *body = (buf){0};
    }
    x->read_us = clock_now_us();
    if (x->error.status) {
        exchange_respond(x);
        return;
    }
    if (forward_at_once(x))
        return;
    if (!x->route->on_worker) {
        x->route->handle(x);
        answer(x);
        return;
    }
    x->large = x->body.size > LARGE_BODY;
    queue_work(x);
}

static void on_gone(void *context, connection *c)
{
    (void)context;
    exchange *x = connection_exchange(c);
    if (!x)
        return;
    x->connection = NULL;
    generation_cancel_all(x);
    forward_free(x->forward);
    x->forward = NULL;
    server_mark_dirty(x);
}

static void on_room(void *context, connection *c)
{
    (void)context;
    exchange *x = connection_exchange(c);
    if (x)
        server_mark_dirty(x);
}

static const connection_ops connection_handlers = {on_head, on_request, on_gone, on_room};

/* ---- turns of the loop ---- */

static void end_if_drained(server *s);

static void on_turn(server *s)
{
    while (s->dirty) {
        while (s->dirty) {
            exchange *x = s->dirty;
            s->dirty = x->next_dirty;
            x->dirty = false;
            if (x->tracing)
                trace_stream_flush(x, clock_now_us());
            else if (forward_under_way(x->forward))
                forward_room(x);
            else
                generation_flush(x);
            exchange_free_if_done(x);
        }
        network_flush(s->network);
    }
    network_flush(s->network);
    if (s->batch)
        batch_service_turn(s->batch);
    if (s->draining)
        end_if_drained(s);
}

static void on_before_sleep(uv_prepare_t *handle)
{
    on_turn(handle->data);
}

static void on_after_poll(uv_check_t *handle)
{
    on_turn(handle->data);
}

static void on_wake(uv_async_t *handle)
{
    server *s = handle->data;
    for (size_t taken = 0; taken < EVENTS_PER_TURN;) {
        size_t count = engine_take_events(s->model.engine, s->events, EVENTS_AT_ONCE);
        for (size_t i = 0; i < count; i++)
            generation_event(&s->events[i]);
        taken += count;
        if (count == 0)
            return;
    }
    uv_async_send(handle); /* more: after others had their turn */
}

static void on_timer(uv_timer_t *timer)
{
    server *s = timer->data;
    uint64_t now = clock_now_us();
    engine_snapshot snapshot;
    engine_read_snapshot(s->model.engine, &snapshot);
    measures_window(&s->measures, &snapshot, engine_runner_info(s->model.engine));
    measures_tenants(&s->measures, s->model.engine, tenants_table(s->tenants), now);
    watch_health(s, &snapshot, now);
    for (exchange *x = s->first; x; x = x->next)
        if (x->streaming && x->connection && !x->tracing && now - x->sent_us >= s->config.heartbeat_us)
            generation_heartbeat(x);
}

static void on_trace_timer(uv_timer_t *timer)
{
    server *s = timer->data;
    bool any = false;
    for (exchange *x = s->first; x; x = x->next)
        if (x->tracing && x->connection) {
            server_mark_dirty(x);
            any = true;
        }
    if (!any)
        uv_timer_stop(timer);
}

void server_watch_traces(server *s)
{
    if (!uv_is_active((uv_handle_t *)&s->trace_timer))
        uv_timer_start(&s->trace_timer, on_trace_timer, TRACE_TICK_MS, TRACE_TICK_MS);
}

/* ---- start and end ---- */

static void stop_now(server *s)
{
    if (s->stopping)
        return;
    s->stopping = true;
    network_close(s->network); /* every exchange hears that its client is gone */
    if (s->batch)
        batch_service_stop(s->batch);
    uv_stop(&s->loop);
}

static void end_if_drained(server *s)
{
    for (const exchange *x = s->first; x; x = x->next)
        if (x->connection || x->working)
            return;
    if (network_unsent(s->network) || (s->batch && batch_service_busy(s->batch)))
        return;
    log_info("drained: every answer is out");
    stop_now(s);
}

static void on_terminate(uv_signal_t *handle, int number)
{
    server *s = handle->data;
    (void)number;
    if (s->draining) {
        stop_now(s);
        return;
    }
    log_info("draining: %u requests are being answered; a second SIGTERM stops at once", s->open);
    s->draining = true;
    engine_drain(s->model.engine);
    network_refuse_keep_alive(s->network);
    network_close_idle(s->network);
}

static void on_interrupt(uv_signal_t *handle, int number)
{
    (void)number;
    stop_now(handle->data);
}

static status take_tenants(void *context, const tenants *next, error *err)
{
    server *s = context;
    engine_snapshot now;
    engine_read_snapshot(s->model.engine, &now);
    status st = tenants_check_gaps(next, (uint64_t)now.admission.smallest_gap_us, err);
    if (!st)
        st = tenants_check_floors(next, s->model.cache_bytes, err);
    return st ? st : engine_set_tenants(s->model.engine, tenants_table(next), err);
}

static void on_hangup(uv_signal_t *handle, int number)
{
    server *s = handle->data;
    error err = {""};
    (void)number;
    if (!tenants_from_file(s->tenants)) {
        log_info("SIGHUP: there is no config file to read again");
    } else if (tenants_reload(s->tenants, take_tenants, s, &err)) {
        log_error("the config stays as it was: %s", err.text);
    } else {
        measures_tenants(&s->measures, s->model.engine, tenants_table(s->tenants), clock_now_us());
        log_info("the config has been read again: %u tenants, %zu keys", tenants_table(s->tenants)->count,
                 tenants_key_count(s->tenants));
    }
}

static void on_stop(uv_async_t *handle)
{
    stop_now(handle->data);
}

void server_wake(void *context)
{
    server *s = context;
    uv_async_send(&s->wake);
}

void server_stop(server *s)
{
    uv_async_send(&s->stop);
}

int server_port(const server *s)
{
    return network_port(s->network);
}

status server_create(server **out, const server_config *config, error *err)
{
    server *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ERR_MEMORY, "out of memory for the server");
    s->config = *config;
    s->config.heartbeat_us = config->heartbeat_us ? config->heartbeat_us : 5000000u;
    s->tenants = config->tenants;
    uv_random(NULL, NULL, &s->random, sizeof s->random, 0, NULL);
    json_object_seed(0); /* before there are threads */
    uv_loop_init(&s->loop);
    uv_async_init(&s->loop, &s->wake, on_wake);
    uv_async_init(&s->loop, &s->stop, on_stop);
    uv_timer_init(&s->loop, &s->timer);
    uv_timer_init(&s->loop, &s->trace_timer);
    uv_signal_init(&s->loop, &s->terminate);
    uv_signal_init(&s->loop, &s->interrupt);
    uv_signal_init(&s->loop, &s->hangup);
    uv_prepare_init(&s->loop, &s->before_sleep);
    uv_check_init(&s->loop, &s->after_poll);
    s->wake.data = s->stop.data = s->timer.data = s->trace_timer.data = s;
    s->terminate.data = s->interrupt.data = s->hangup.data = s;
    s->before_sleep.data = s->after_poll.data = s;
    network_config net = {.ops = &connection_handlers,
                          .context = s,
                          .host = config->host,
                          .port = config->port,
                          .connections_max = config->connections_max,
                          .body_max = config->body_max,
                          .head_us = config->head_us,
                          .idle_us = config->idle_us,
                          .stall_us = config->stall_us};
    status code = network_open(&s->network, &s->loop, &net, err);
    if (!code && config->batch.dir)
        code = batch_service_open(&s->batch, s, &s->loop, &config->batch, err);
    if (code) {
        server_destroy(s);
        return code;
    }
    *out = s;
    return OK;
}

static status read_tier_names(server *s, error *err)
{
    cache_report *report = malloc(sizeof *report);
    if (!report)
        return error_set(err, ERR_MEMORY, "out of memory for the server");
    engine_read_cache(s->model.engine, report);
    for (uint32_t i = 0; i < report->tier_count; i++)
        s->tier_names[i] = report->tier_names[i];
    free(report);
    return OK;
}

status server_run(server *s, const server_model *model, error *err)
{
    s->model = *model;
    chat_form_read(&s->form, model);
    status code =
        measures_open(&s->measures, model->name, engine_runner_info(model->engine), model->cache_bytes > 0, err);
    if (!code)
        code = read_tier_names(s, err);
    if (code || (code = network_listen(s->network, err)))
        return code;
    signal(SIGPIPE, SIG_IGN);
    uv_timer_start(&s->timer, on_timer, 500, 500);
    uv_signal_start(&s->terminate, on_terminate, SIGTERM);
    uv_signal_start(&s->interrupt, on_interrupt, SIGINT);
    if (s->config.keep_at_hangup)
        uv_signal_start(&s->hangup, on_hangup, SIGHUP);
    uv_prepare_start(&s->before_sleep, on_before_sleep);
    uv_check_start(&s->after_poll, on_after_poll);
    bool v6 = strchr(s->config.host, ':');
    log_info("listening on http://%s%s%s:%d", v6 ? "[" : "", s->config.host, v6 ? "]" : "", server_port(s));
    uv_run(&s->loop, UV_RUN_DEFAULT);
    while (s->tasks) /* the engine goes next */
        uv_run(&s->loop, UV_RUN_ONCE);
    return OK;
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void server_destroy(server *s)
{
    if (!s)
        return;
    if (s->network)
        network_close(s->network);
    forwards_close(s->forwards);
    uv_walk(&s->loop, close_handle, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT); /* workers end, handles close */
    uv_loop_close(&s->loop);
    while (s->first) {
        s->first->live = 0;
        exchange_destroy(s->first);
    }
    batch_service_close(s->batch);
    network_free(s->network);
    measures_close(&s->measures);
    chat_form_close(&s->form);
    free(s);
}
