/* cli/chat_client.c: HTTP to one server. The multi interface is polled in short steps, so that a signal stops a
 * transfer at once. */
#include <curl/curl.h>
#include <stdlib.h>

#include "cli/chat.h"

enum { POLL_MS = 50, REPLY_MAX = 1 << 20, CONNECT_MS = 10000 };

struct chat_client {
    CURL *easy;
    CURLM *multi;
    char *url;
    struct curl_slist *headers;
    volatile sig_atomic_t *stop;
    char problem[CURL_ERROR_SIZE];
};

typedef struct { /* of one transfer */
    chat_client *client;
    chat_stream *stream; /* NULL: everything goes to `body` */
    buf body;
} reply;

static size_t take_bytes(char *data, size_t one, size_t size, void *context)
{
    reply *r = context;
    long code = 0;
    curl_easy_getinfo(r->client->easy, CURLINFO_RESPONSE_CODE, &code);
    if (r->stream && code == 200)
        chat_stream_push(r->stream, span_of(data, one * size));
    else
        buf_append(&r->body, data, one * size);
    return r->stream && r->stream->failed ? 0 : one * size;
}

status chat_client_open(chat_client **out, const char *url, const char *api_key, volatile sig_atomic_t *stop,
                        error *err)
{
    chat_client *client = calloc(1, sizeof *client);
    if (!client || curl_global_init(CURL_GLOBAL_DEFAULT)) {
        free(client);
        return error_set(err, ERR_MEMORY, "out of memory");
    }
    client->stop = stop;
    client->easy = curl_easy_init();
    client->multi = curl_multi_init();
    client->url = strdup(url);
    client->headers = curl_slist_append(NULL, "Content-Type: application/json");
    client->headers = curl_slist_append(client->headers, "Expect:");
    if (api_key && api_key[0]) {
        buf line = {0};
        buf_printf(&line, "Authorization: Bearer %s", api_key);
        if (!line.failed)
            client->headers = curl_slist_append(client->headers, line.data);
        buf_free(&line);
    }
    if (!client->easy || !client->multi || !client->url || !client->headers) {
        chat_client_close(client);
        return error_set(err, ERR_MEMORY, "out of memory");
    }
    size_t size = strlen(client->url); /* both http://host:port and http://host:port/v1 are given by people */
    while (size > 0 && client->url[size - 1] == '/')
        client->url[--size] = '\0';
    if (size > 3 && !strcmp(client->url + size - 3, "/v1"))
        client->url[size - 3] = '\0';
    *out = client;
    return OK;
}

void chat_client_close(chat_client *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->easy);
    curl_multi_cleanup(client->multi);
    curl_slist_free_all(client->headers);
    free(client->url);
    free(client);
    curl_global_cleanup();
}

static void prepare(chat_client *client, const char *path, const char *post, reply *r)
{
    buf url = {0};
    buf_printf(&url, "%s%s", client->url, path);
    curl_easy_reset(client->easy); /* keeps the connection */
    client->problem[0] = '\0';
    r->client = client;
    r->body.limit = REPLY_MAX;
    curl_easy_setopt(client->easy, CURLOPT_URL, url.data ? url.data : "");
    curl_easy_setopt(client->easy, CURLOPT_HTTPHEADER, client->headers);
    curl_easy_setopt(client->easy, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(client->easy, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(client->easy, CURLOPT_ERRORBUFFER, client->problem);
    curl_easy_setopt(client->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(client->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(client->easy, CURLOPT_USERAGENT, "headway-chat");
    if (post)
        curl_easy_setopt(client->easy, CURLOPT_POSTFIELDS, post);
    buf_free(&url);
}

/* Runs the prepared transfer. ERR_CANCELLED: *stop was set; the connection is closed, which tells the server. */
static status run(chat_client *client, error *err)
{
    CURLcode result = CURLE_OK;
    int running = 1;
    status st = OK;
    curl_multi_add_handle(client->multi, client->easy);
    while (running) {
        if (*client->stop) {
            st = ERR_CANCELLED;
            break;
        }
        if (curl_multi_perform(client->multi, &running) != CURLM_OK)
            break;
        if (running)
            curl_multi_poll(client->multi, NULL, 0, POLL_MS, NULL);
    }
    int left = 0;
    for (CURLMsg *message; (message = curl_multi_info_read(client->multi, &left));)
        if (message->msg == CURLMSG_DONE)
            result = message->data.result;
    curl_multi_remove_handle(client->multi, client->easy);
    if (st == OK && result != CURLE_OK)
        st = error_set(err, ERR_IO, "%s: %s", client->url,
                       client->problem[0] ? client->problem : curl_easy_strerror(result));
    return st;
}

/* The server's own words out of a reply that is not 200. */
static status refused(long code, const reply *r, error *err)
{
    json_t *body = json_loadb(r->body.data ? r->body.data : "", r->body.size, JSON_ALLOW_NUL, NULL);
    const char *words = json_string_value(json_object_get(json_object_get(body, "error"), "message"));
    if (words)
        error_set(err, ERR_INVALID, "the server answered %ld: %s", code, words);
    else
        error_set(err, ERR_IO, "the server answered %ld", code);
    json_decref(body);
    return ERR_INVALID;
}

static status fetch(chat_client *client, const char *path, reply *r, error *err)
{
    prepare(client, path, NULL, r);
    status st = run(client, err);
    long code = 0;
    curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &code);
    return st == OK && code != 200 ? refused(code, r, err) : st;
}

bool chat_client_healthy(chat_client *client)
{
    reply r = {0};
    error ignored = {0};
    bool healthy = fetch(client, "/health", &r, &ignored) == OK;
    buf_free(&r.body);
    return healthy;
}

status chat_client_model(chat_client *client, buf *name, error *err)
{
    reply r = {0};
    status st = fetch(client, "/v1/models", &r, err);
    if (st == OK) {
        json_t *body = json_loadb(r.body.data ? r.body.data : "", r.body.size, 0, NULL);
        json_t *first = json_array_get(json_object_get(body, "data"), 0);
        const char *id = json_string_value(json_object_get(first, "id"));
        if (id)
            buf_text(name, id);
        else
            st = error_set(err, ERR_IO, "%s/v1/models: no model in the list", client->url);
        json_decref(body);
    }
    buf_free(&r.body);
    return st;
}

status chat_client_ask(chat_client *client, json_t *request, chat_stream *stream, error *err)
{
    char *body = json_dumps(request, JSON_COMPACT);
    if (!body)
        return error_set(err, ERR_MEMORY, "out of memory");
    reply r = {.stream = stream};
    prepare(client, "/v1/chat/completions", body, &r);
    status st = run(client, err);
    long code = 0;
    curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &code);
    if (stream->failed)
        st = error_set(err, ERR_IO, "%s", stream->problem.text);
    else if (st == OK && code != 200)
        st = refused(code, &r, err);
    else if (st == OK && !stream->done)
        st = error_set(err, ERR_IO, "the server closed the stream before the answer's end");
    free(body);
    buf_free(&r.body);
    return st;
}
