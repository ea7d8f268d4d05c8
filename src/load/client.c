/* load/client.c: one easy handle a request, kept for the next one; all in one multi handle. */
#include "load/client.h"

#include <curl/curl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { BODY_MAX = 64 << 10, CONNECT_MS = 10000, PROBE_MS = 10000, POLL_LONGEST_MS = 1000, PROBE_S = 300 };
enum { PROBE_SHORT = 40, PROBE_LONG = 240 }; /* words */

typedef struct transfer transfer;
struct transfer {
    load_client *client;
    CURL *easy;
    transfer *next; /* of the free list or the running list */
    uint32_t sample;
    bool running;
    buf body;  /* of the request */
    buf reply; /* of an answer that is no stream */
    answer_stream answer;
    uint64_t last_us; /* when the bytes being parsed were read */
    char reason[REASON_MAX];
    uint32_t retry_after_s;
    char problem[CURL_ERROR_SIZE];
};

struct load_client {
    load_transport base; /* first: a load_client* is a load_transport* */
    client_config config;
    char *url;
    CURLM *multi;
    struct curl_slist *headers, *doc_headers;
    transfer *all;
    const load_sink *sink; /* during wait */
    bool ended;            /* a request ended during this wait */
};

static void on_text(void *context, span text)
{
    transfer *t = context;
    t->client->sink->token(t->client->sink->self, t->sample, t->last_us, text);
}

static size_t take_bytes(char *data, size_t one, size_t size, void *context)
{
    transfer *t = context;
    long code = 0;
    t->last_us = clock_now_us();
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &code);
    if (code == 200)
        answer_push(&t->answer, span_of(data, one * size));
    else
        buf_append(&t->reply, data, one * size); /* stops at its limit */
    return t->answer.problem[0] ? 0 : one * size;
}

static span header_value(span line, const char *name)
{
    size_t size = strlen(name);
    if (line.size <= size || strncasecmp(line.data, name, size) || line.data[size] != ':')
        return (span){0};
    span v = span_of(line.data + size + 1, line.size - size - 1);
    while (v.size && (v.data[0] == ' ' || v.data[0] == '\t'))
        v = span_of(v.data + 1, v.size - 1);
    while (v.size && (unsigned char)v.data[v.size - 1] <= ' ')
        v.size--;
    return v;
}

static size_t take_header(char *data, size_t one, size_t size, void *context)
{
    transfer *t = context;
    span line = span_of(data, one * size), value;
    if ((value = header_value(line, "Retry-After")).size) {
        uint64_t seconds = 0;
        for (size_t i = 0; i < value.size && value.data[i] >= '0' && value.data[i] <= '9' && seconds < 100000; i++)
            seconds = seconds * 10 + (uint64_t)(value.data[i] - '0');
        t->retry_after_s = (uint32_t)seconds;
    } else if ((value = header_value(line, "x-llm-d-request-dropped-reason")).size) {
        snprintf(t->reason, sizeof t->reason, "%.*s", (int)value.size, value.data);
    }
    return one * size;
}

/* ---- one request ---- */

static void set_common(CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "headway-bench");
}

static transfer *acquire(load_client *c)
{
    transfer *t = c->all;
    while (t && t->running)
        t = t->next;
    if (!t) {
        t = calloc(1, sizeof *t);
        if (!t || !(t->easy = curl_easy_init())) {
            free(t);
            return NULL;
        }
        t->client = c;
        t->next = c->all;
        c->all = t;
    }
    buf_clear(&t->body);
    buf_clear(&t->reply);
    t->reply.limit = BODY_MAX;
    answer_free(&t->answer);
    t->answer = (answer_stream){.on_text = on_text, .context = t};
    answer_open(&t->answer);
    t->reason[0] = t->problem[0] = '\0';
    t->retry_after_s = 0;
    return t;
}

static status client_send(load_transport *base, const load_request *request, error *err)
{
    load_client *c = (load_client *)base;
    transfer *t = acquire(c);
    if (!t)
        return error_set(err, ERR_MEMORY, "out of memory");
    t->sample = request->sample;
    prompt_body(&t->body, &c->config.prompt, request);
    if (t->body.failed)
        return error_set(err, ERR_MEMORY, "out of memory");
    char url[1200];
    snprintf(url, sizeof url, "%s/v1/chat/completions", c->url);
    curl_easy_reset(t->easy); /* keeps the connection */
    set_common(t->easy);
    curl_easy_setopt(t->easy, CURLOPT_URL, url);
    curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, request->session->role == LOAD_AGENTS ? c->headers : c->doc_headers);
    curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, t->body.data);
    curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body.size);
    curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->problem);
    curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
    if (curl_multi_add_handle(c->multi, t->easy) != CURLM_OK)
        return error_set(err, ERR_MEMORY, "libcurl takes no further transfer");
    t->running = true;
    return OK;
}

static void fill_end(const transfer *t, CURLcode result, load_end *end)
{
    long code = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &code);
    *end = (load_end){.http_status = (int)code, .retry_after_s = t->retry_after_s, .usage = t->answer.usage};
    if (code == 200 && !t->answer.problem[0] && result == CURLE_OK && (t->answer.done || t->answer.finish[0])) {
        end->outcome = LOAD_DONE;
        return;
    }
    end->outcome = code == 429 || code == 503 ? LOAD_REFUSED : LOAD_FAILED;
    if (code == 200) {
        snprintf(end->reason, sizeof end->reason, "broken stream");
        snprintf(end->message, sizeof end->message, "%.150s",
                 t->answer.problem[0] ? t->answer.problem
                 : t->problem[0]      ? t->problem
                                      : "it ended before [DONE]");
    } else if (code == 0) {
        snprintf(end->reason, sizeof end->reason, "no answer");
        snprintf(end->message, sizeof end->message, "%.150s", t->problem[0] ? t->problem : curl_easy_strerror(result));
    } else {
        answer_error_reason(buf_span(&t->reply), end->reason, sizeof end->reason, end->message, sizeof end->message);
        if (t->reason[0])
            memcpy(end->reason, t->reason, sizeof end->reason);
        if (!end->reason[0])
            snprintf(end->reason, sizeof end->reason, "HTTP %ld", code);
    }
}

static void release(load_client *c, transfer *t)
{
    curl_multi_remove_handle(c->multi, t->easy);
    t->running = false;
}

static void take_messages(load_client *c)
{
    int left = 0;
    for (CURLMsg *m; (m = curl_multi_info_read(c->multi, &left));) {
        if (m->msg != CURLMSG_DONE)
            continue;
        CURL *easy = m->easy_handle; /* m dies with the handle's removal */
        CURLcode result = m->data.result;
        transfer *t = NULL;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&t);
        uint64_t now = clock_now_us();
        load_end end;
        fill_end(t, result, &end);
        release(c, t);
        c->ended = true;
        c->sink->end(c->sink->self, t->sample, now, &end);
    }
}

static void client_cancel(load_transport *base, uint32_t sample)
{
    load_client *c = (load_client *)base;
    for (transfer *t = c->all; t; t = t->next)
        if (t->running && t->sample == sample)
            release(c, t);
}

static void client_wait(load_transport *base, uint64_t until_us, const load_sink *sink)
{
    load_client *c = (load_client *)base;
    c->sink = sink;
    c->ended = false;
    for (;;) {
        int running = 0;
        curl_multi_perform(c->multi, &running);
        take_messages(c);
        uint64_t now = clock_now_us();
        if (c->ended || now >= until_us || (c->config.stop && *c->config.stop))
            return;
        uint64_t ms = (until_us - now + 999) / 1000;
        curl_multi_poll(c->multi, NULL, 0, ms < POLL_LONGEST_MS ? (int)ms : POLL_LONGEST_MS, NULL);
    }
}

/* ---- life ---- */

static struct curl_slist *make_headers(const char *key)
{
    struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
    list = curl_slist_append(list, "Expect:");
    if (key && key[0]) {
        buf line = {0};
        buf_printf(&line, "Authorization: Bearer %s", key);
        list = curl_slist_append(list, line.data ? line.data : "");
        buf_free(&line);
    }
    return list;
}

status load_client_open(load_client **out, const client_config *config, error *err)
{
    load_client *c = calloc(1, sizeof *c);
    if (!c || curl_global_init(CURL_GLOBAL_DEFAULT)) {
        free(c);
        return error_set(err, ERR_MEMORY, "out of memory");
    }
    c->base = (load_transport){client_send, client_cancel, client_wait};
    c->config = *config;
    c->url = strdup(config->url);
    c->multi = curl_multi_init();
    c->headers = make_headers(config->key);
    c->doc_headers = make_headers(config->doc_key ? config->doc_key : config->key);
    if (!c->url || !c->multi || !c->headers || !c->doc_headers) {
        load_client_close(c);
        return error_set(err, ERR_MEMORY, "out of memory");
    }
    size_t size = strlen(c->url);
    while (size > 0 && c->url[size - 1] == '/')
        c->url[--size] = '\0';
    if (size > 3 && !strcmp(c->url + size - 3, "/v1"))
        c->url[size -= 3] = '\0';
    if (size == 0 || size > 1000) {
        load_client_close(c);
        return error_set(err, ERR_INVALID, "--url '%s': want something like http://127.0.0.1:8080", config->url);
    }
    *out = c;
    return OK;
}

void load_client_close(load_client *c)
{
    if (!c)
        return;
    for (transfer *t = c->all, *next; t; t = next) {
        next = t->next;
        if (t->running)
            release(c, t);
        curl_easy_cleanup(t->easy);
        buf_free(&t->body);
        buf_free(&t->reply);
        answer_free(&t->answer);
        free(t);
    }
    curl_multi_cleanup(c->multi);
    curl_slist_free_all(c->headers);
    curl_slist_free_all(c->doc_headers);
    free(c->url);
    free(c);
    curl_global_cleanup();
}

load_transport *load_client_transport(load_client *c)
{
    return &c->base;
}

const prompt_settings *load_client_prompt(const load_client *c)
{
    return &c->config.prompt;
}

void load_client_name_model(load_client *c, const char *model)
{
    c->config.prompt.model = model;
}

/* ---- what the server says of itself ---- */

static size_t keep_bytes(char *data, size_t one, size_t size, void *context)
{
    buf_append(context, data, one * size);
    return one * size;
}

static void read_facts(span body, server_facts *out)
{
    json_t *root = json_loadb(body.data ? body.data : "", body.size, 0, NULL);
    const json_t *first = json_array_get(json_object_get(root, "data"), 0), *meta = json_object_get(first, "meta");
    const char *id = json_string_value(json_object_get(first, "id"));
    json_int_t length = json_integer_value(json_object_get(first, "max_model_len"));
    if (length <= 0)
        length = json_integer_value(json_object_get(meta, "n_ctx"));
    snprintf(out->model, sizeof out->model, "%s", id ? id : "default");
    out->context_tokens = length > 0 && length < UINT32_MAX ? (uint32_t)length : 0;
    json_decref(root);
}

status load_client_facts(load_client *c, server_facts *out, error *err)
{
    *out = (server_facts){0};
    CURL *easy = curl_easy_init();
    buf body = {.limit = 1 << 20};
    char url[1200], problem[CURL_ERROR_SIZE] = "";
    long code = 0;
    if (!easy)
        return error_set(err, ERR_MEMORY, "out of memory");
    snprintf(url, sizeof url, "%s/v1/models", c->url);
    set_common(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep_bytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, problem);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)PROBE_MS);
    CURLcode result = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
    status st = OK;
    if (result != CURLE_OK)
        st = error_set(err, ERR_IO, "%.300s: %.150s", url, problem[0] ? problem : curl_easy_strerror(result));
    else if (code == 401 || code == 403)
        st = error_set(err, ERR_INVALID, "%.300s: the server answers %ld: give --key", url, code);
    else
        read_facts(buf_span(&body), out);
    curl_easy_cleanup(easy);
    buf_free(&body);
    return st;
}

/* ---- how many words make a token ---- */

typedef struct {
    bool ended;
    load_end end;
} probe;

static void probe_token(void *self, uint32_t sample, uint64_t at_us, span text)
{
    (void)self, (void)sample, (void)at_us, (void)text;
}

static void probe_end(void *self, uint32_t sample, uint64_t at_us, const load_end *end)
{
    (void)sample, (void)at_us;
    *(probe *)self = (probe){true, *end};
}

static status probe_words(load_client *c, uint64_t key, uint32_t words, load_usage *usage, error *err)
{
    load_session s = {.role = LOAD_DOCUMENTS, .key = key, .turn_count = 1, .turns = {{words, 2, 0}}};
    probe p = {0};
    const load_sink sink = {&p, probe_token, probe_end};
    status st = client_send(&c->base, &(load_request){&s, 0, NULL, 0}, err);
    uint64_t limit = clock_now_us() + PROBE_S * 1000000ull;
    while (!st && !p.ended && clock_now_us() < limit && !(c->config.stop && *c->config.stop))
        client_wait(&c->base, limit, &sink);
    if (st)
        return st;
    if (!p.ended) {
        client_cancel(&c->base, 0);
        return error_set(err, ERR_CANCELLED, "stopped while the server was asked for the first time");
    }
    *usage = p.end.usage;
    if (p.end.outcome == LOAD_DONE)
        return OK;
    return error_set(err, ERR_IO, "the first request failed: %s%s%s", p.end.reason, p.end.message[0] ? ": " : "",
                     p.end.message);
}

status load_client_calibrate(load_client *c, uint64_t seed, error *err)
{
    load_usage small = {0}, large = {0};
    c->config.prompt.words_per_token = 1;
    c->config.prompt.overhead_tokens = 0;
    status st = probe_words(c, seed ^ 0xA5A5A5A5u, PROBE_SHORT, &small, err);
    if (!st)
        st = probe_words(c, seed ^ 0x5A5A5A5Au, PROBE_LONG, &large, err);
    if (st || !small.seen || !large.seen || large.prompt_tokens <= small.prompt_tokens)
        return st;
    double tokens_per_word = (double)(large.prompt_tokens - small.prompt_tokens) / (PROBE_LONG - PROBE_SHORT);
    c->config.prompt.words_per_token = 1 / tokens_per_word;
    c->config.prompt.overhead_tokens = fmax(0, small.prompt_tokens - PROBE_SHORT * tokens_per_word);
    return OK;
}
