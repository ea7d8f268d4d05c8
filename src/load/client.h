/* load/client.h: a load_transport over HTTP: many streams of one OpenAI-compatible server, by libcurl, on the caller's
 * thread, which sleeps in poll between bytes. A token's time is taken when its bytes are read. One thread. */
#ifndef HEADWAY_LOAD_CLIENT_H
#define HEADWAY_LOAD_CLIENT_H

#include "load/prompt.h"
#include "load/replay.h"

typedef struct {
    const char *url;           /* http://host:port, with or without /v1 */
    const char *key, *doc_key; /* NULL: no Authorization header; doc_key NULL: the same as key */
    prompt_settings prompt;    /* copied; strings borrowed */
    volatile int *stop;        /* wait returns when it is set; NULL: never */
} client_config;

typedef struct load_client load_client;
status load_client_open(load_client **out, const client_config *config, error *err);
void load_client_close(load_client *c); /* NULL is allowed */
load_transport *load_client_transport(load_client *c);

typedef struct {
    char model[256];         /* the first of /v1/models */
    uint32_t context_tokens; /* max_model_len, or meta.n_ctx; 0: the server does not say */
} server_facts;
status load_client_facts(load_client *c, server_facts *out, error *err);
void load_client_name_model(load_client *c, const char *model); /* borrowed: the `model` of later requests */

/* Sends two small prompts and learns from their usage how many words make a token and what the template adds. Keeps the
 * estimate of one word a token when the server reports no usage. ERR_IO: the server answers no request. */
status load_client_calibrate(load_client *c, uint64_t seed, error *err);
const prompt_settings *load_client_prompt(const load_client *c);

#endif
