/* server/api/openai_small.c: models, health, metrics, embeddings, tokenize, detokenize. */
#include <stdlib.h>

#include "base/clock.h"
#include "server/api/messages.h"
#include "server/api/openai.h"
#include "server/api/params.h"
#include "server/measures.h"

static void write_model(buf *out, const server_model *model)
{
    buf_text(out, "{\"id\":");
    json_text_string(out, span_from(model->name));
    buf_printf(out,
               ",\"object\":\"model\",\"created\":%llu,\"owned_by\":\"headway\",\"max_model_len\":%u,"
               "\"meta\":{\"n_ctx\":%u,\"n_vocab\":%u}}",
               (unsigned long long)model->created_unix, model->context_length, model->context_length,
               tokenizer_vocab_size(model->tokenizer));
}

static void answer_ok(exchange *x)
{
    x->answer.status = 200;
    x->answer.type = "application/json";
}

void openai_models(exchange *x)
{
    const server_model *model = x->model;
    static const size_t prefix = sizeof "/v1/models/" - 1;
    if (x->body.size > prefix) { /* the path: one model */
        span name = span_of(x->body.data + prefix, x->body.size - prefix);
        if (!span_is(name, model->name)) {
            api_fail(&x->error, 404, "model", "the model served here is %s", model->name);
            x->error.code = "model_not_found";
            return;
        }
        write_model(&x->answer.body, model);
    } else {
        buf_text(&x->answer.body, "{\"object\":\"list\",\"data\":[");
        write_model(&x->answer.body, model);
        buf_text(&x->answer.body, "]}");
    }
    answer_ok(x);
}

void openai_health(exchange *x)
{
    engine_snapshot now;
    uint64_t now_us = clock_now_us();
    engine_read_snapshot(x->model->engine, &now);
    health state = server_health(x->server, &now, now_us);
    buf *out = &x->answer.body;
    answer_ok(x);
    buf_printf(out, "{\"status\":\"%s\"", health_word(state));
    if (state == HEALTH_STUCK)
        buf_printf(out, ",\"waited_seconds\":%.1f,\"running\":%u,\"waiting\":%u",
                   (double)server_waited_us(x->server, now_us) * 1e-6, now.running, now.waiting);
    buf_byte(out, '}');
    if (state == HEALTH_OK)
        return;
    x->answer.status = 503;
    if (state == HEALTH_DRAINING)
        buf_text(&x->answer.headers, "Retry-After: 5\r\n");
}

void api_metrics(exchange *x)
{
    engine_snapshot now;
    engine *e = x->model->engine;
    server_measures *m = server_measures_of(x->server);
    network_counts counts = server_network_counts(x->server);
    engine_read_snapshot(e, &now);
    measures_tenants(m, e, server_tenants(x->server), clock_now_us());
    measures_cadence(m, e, &now);
    measures_cache(m, e, server_tenants(x->server));
    measures_render(m, &now, engine_runner_info(e), &counts, &x->answer.body);
    x->answer.status = 200;
    x->answer.type = "text/plain; version=0.0.4; charset=utf-8";
}

void openai_embeddings(exchange *x)
{
    api_fail(&x->error, 501, NULL, "embeddings are not supported: this server generates text only");
}

/* ---- tokenize ---- */

static bool read_flag(exchange *x, json_t *body, const char *name, bool *out)
{
    json_t *value = json_object_get(body, name);
    return !value || json_is_null(value) || params_read_bool(x, name, value, out);
}

/* llama.cpp: content, add_special (false), parse_special (true); vLLM: prompt, add_special_tokens (true), or messages.
 */
static bool tokenize_body(exchange *x, json_t *body, token_list *ids)
{
    if (json_object_get(body, "messages"))
        return messages_tokenize(x, body, ids);
    json_t *content = json_object_get(body, "content"), *prompt = json_object_get(body, "prompt");
    json_t *text = content ? content : prompt;
    bool add = !content, parse = true;
    if (!json_is_string(text))
        return api_fail(&x->error, 400, "content", "content (or prompt) must be a string");
    if (!read_flag(x, body, content ? "add_special" : "add_special_tokens", &add) ||
        !read_flag(x, body, "parse_special", &parse))
        return false;
    error err = {0};
    unsigned flags = (add ? TOKENIZE_BOS_EOS : 0) | (parse ? TOKENIZE_SPECIALS : 0);
    if (tokenizer_encode(x->model->tokenizer, span_of(json_string_value(text), json_string_length(text)), flags, ids,
                         &err))
        return api_fail(&x->error, 400, "content", "the text cannot be tokenized: %s", err.text);
    return true;
}

void api_tokenize(exchange *x)
{
    json_t *body = params_parse_body(x);
    token_list ids = {0};
    bool pieces = false;
    if (body && read_flag(x, body, "with_pieces", &pieces) && tokenize_body(x, body, &ids)) {
        buf *out = &x->answer.body;
        buf_printf(out, "{\"count\":%zu,\"max_model_len\":%u,\"tokens\":[", ids.count, x->model->context_length);
        for (size_t i = 0; i < ids.count; i++) {
            buf_printf(out, pieces ? "%s{\"id\":%d,\"piece\":" : "%s%d", i ? "," : "", ids.ids[i]);
            if (!pieces)
                continue;
            buf text = {0};
            openai_token_text(x, ids.ids[i], &text);
            json_text_string(out, buf_span(&text));
            buf_byte(out, '}');
            buf_free(&text);
        }
        buf_text(out, "]}");
        answer_ok(x);
    }
    token_list_free(&ids);
    json_decref(body);
}

static bool read_tokens(exchange *x, json_t *array, token_list *ids)
{
    size_t i;
    json_t *item;
    if (!json_is_array(array))
        return api_fail(&x->error, 400, "tokens", "tokens must be an array of token ids");
    json_array_foreach(array, i, item)
    {
        json_int_t id = json_is_integer(item) ? json_integer_value(item) : -1;
        if (id < 0 || id >= (json_int_t)tokenizer_vocab_size(x->model->tokenizer))
            return api_fail(&x->error, 400, "tokens", "tokens: item %zu is not a token id of this model", i);
        if (!token_list_push(ids, (token_id)id))
            return api_fail(&x->error, 500, "tokens", "out of memory");
    }
    return true;
}

void api_detokenize(exchange *x)
{
    json_t *body = params_parse_body(x);
    token_list ids = {0};
    if (body && read_tokens(x, json_object_get(body, "tokens"), &ids)) {
        buf text = {0};
        tokenizer_decode(x->model->tokenizer, ids.ids, ids.count, true, &text);
        buf_text(&x->answer.body, "{\"content\":");
        json_text_string(&x->answer.body, buf_span(&text));
        buf_text(&x->answer.body, ",\"prompt\":");
        json_text_string(&x->answer.body, buf_span(&text));
        buf_byte(&x->answer.body, '}');
        buf_free(&text);
        answer_ok(x);
    }
    token_list_free(&ids);
    json_decref(body);
}
