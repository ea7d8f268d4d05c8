/* server/api/llama_server.c: POST /completion, GET /props and /slots. A slot is a place for a stream; which stream has
 * which is not told, so those that run come first. */
#include "server/api/llama_server.h"

#include <stdlib.h>

#include "server/api/openai.h"
#include "server/api/openai_answer.h"
#include "server/api/params.h"
#include "server/debug/query.h"

enum { SLOTS_SHOWN = 64 };

/* One prompt, text or ids, and by default no end but the model's. */
void llama_server_completion(exchange *x)
{
    json_t *body = params_parse_body(x);
    json_t *prompt = json_object_get(body, "prompt");
    bool one = json_is_string(prompt) || json_is_integer(json_array_get(prompt, 0));
    if (body && !one) {
        api_fail(&x->error, 400, "prompt", "prompt must be a string or an array of token ids");
    } else if (body) {
        json_t *predict = json_object_get(body, "n_predict"), *tokens = json_object_get(body, "max_tokens");
        if (!predict && !tokens)
            json_object_set_new(body, "n_predict", json_integer(-1));
        char *text = json_dumps(body, JSON_COMPACT);
        buf came = x->body;
        x->body = (buf){0};
        if (text)
            buf_text(&x->body, text);
        free(text);
        openai_completions(x);
        buf_free(&x->body);
        x->body = came;
        if (x->plan.choices != 1)
            params_unsupported(x, "n_cmpl", "only 1 here: see /v1/completions");
    }
    json_decref(body);
}

static void write_content(buf *out, const generation *g)
{
    buf text = {0};
    answer_pieces_join(&g->pieces, PIECE_TEXT, 0, &text);
    buf_printf(out, "{\"index\":%u,\"content\":", g->index);
    json_text_string(out, buf_span(&text));
    buf_free(&text);
}

static void write_settings(buf *out, const exchange *x)
{
    const sampling_params *p = &x->plan.sampling;
    const struct {
        const char *name;
        float value;
    } numbers[] = {{"temperature", p->temperature},
                   {"top_p", p->top_p},
                   {"min_p", p->min_p},
                   {"typical_p", p->typical_p},
                   {"repeat_penalty", p->repetition_penalty},
                   {"presence_penalty", p->presence_penalty},
                   {"frequency_penalty", p->frequency_penalty}};
    buf_printf(out, ",\"generation_settings\":{\"n_predict\":%lld,\"seed\":%llu,\"top_k\":%u,\"stream\":%s",
               x->plan.max_tokens ? (long long)x->plan.max_tokens : -1LL, (unsigned long long)p->seed, p->top_k,
               x->plan.stream ? "true" : "false");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        buf_printf(out, ",\"%s\":", numbers[i].name);
        json_text_number(out, (double)numbers[i].value);
    }
    buf_byte(out, '}');
}

static span stop_text(const exchange *x, const generation *g)
{
    const stop_set *stops = &x->plan.stops;
    return span_of(stops->text[g->stop_string], stops->size[g->stop_string]);
}

/* What the last object says beside its text. */
static void write_end(buf *out, const exchange *x, const generation *g)
{
    bool word = strcmp(g->finish, "stop") == 0 && g->stop_string >= 0;
    const char *type = strcmp(g->finish, "length") == 0 ? "limit" : word ? "word" : "eos";
    buf_printf(out, ",\"tokens\":[],\"id_slot\":0,\"stop\":true,\"model\":");
    json_text_string(out, span_from(x->model->name));
    buf_printf(out, ",\"tokens_predicted\":%u,\"tokens_evaluated\":%u,\"has_new_line\":false,\"truncated\":false",
               g->tokens, g->prompt_tokens);
    write_settings(out, x);
    buf_printf(out, ",\"stop_type\":\"%s\",\"stopping_word\":", type);
    json_text_string(out, word ? stop_text(x, g) : span_of("", 0));
    buf_printf(out, ",\"tokens_cached\":%u,", g->prompt_tokens + g->tokens);
    openai_timings(out, g);
    buf_byte(out, '}');
}

static void pieces(buf *out, exchange *x, generation *g)
{
    buf_text(out, "data: ");
    write_content(out, g);
    buf_printf(out, ",\"tokens\":[],\"stop\":false,\"id_slot\":0,\"tokens_predicted\":%u,\"tokens_evaluated\":%u",
               g->tokens, g->prompt_tokens);
    if (x->plan.timings) {
        buf_byte(out, ',');
        openai_timings(out, g);
    }
    buf_text(out, "}\n\n");
}

static void finish(buf *out, exchange *x, generation *g)
{
    buf_printf(out, "data: {\"index\":%u,\"content\":\"\"", g->index);
    write_end(out, x, g);
    buf_text(out, "\n\n");
}

static void whole(buf *out, exchange *x)
{
    write_content(out, &x->generations[0]);
    write_end(out, x, &x->generations[0]);
}

static void progress(buf *out, exchange *x, const generation *g, const engine_event *event)
{
    buf_printf(out,
               "data: {\"index\":%u,\"content\":\"\",\"tokens\":[],\"stop\":false,\"id_slot\":0,"
               "\"prompt_progress\":{\"total\":%u,\"cache\":%u,\"processed\":%u,\"time_ms\":%llu}}\n\n",
               g->index, event->prompt_total, event->cached, event->prompt_done,
               (unsigned long long)(event->time_us - x->arrived_us) / 1000);
}

const answer_format llama_server_format = {
    .id_prefix = "cmpl-",
    .pieces = pieces,
    .finish = finish,
    .whole = whole,
    .progress = progress,
};

/* ---- the server ---- */

static void answer_json(exchange *x)
{
    x->answer.status = 200;
    x->answer.type = "application/json";
}

void llama_server_props(exchange *x)
{
    engine_snapshot now;
    const server_model *model = x->model;
    buf *out = &x->answer.body;
    engine_read_snapshot(model->engine, &now);
    buf_printf(out, "{\"default_generation_settings\":{\"n_ctx\":%u,\"params\":{\"n_predict\":-1,\"temperature\":",
               model->context_length);
    json_text_number(out, model->sampling ? (double)model->sampling->temperature : 1.0);
    buf_printf(out, "}},\"total_slots\":%u,\"model_alias\":", now.max_sequences);
    json_text_string(out, span_from(model->name));
    buf_text(out, ",\"model_path\":");
    json_text_string(out, span_from(model->name));
    buf_printf(out,
               ",\"modalities\":{\"vision\":false,\"audio\":false},\"chat_template\":\"\",\"n_ctx\":%u,"
               "\"build_info\":\"headway\",\"is_sleeping\":false}",
               model->context_length);
    answer_json(x);
}

static void write_slot(buf *out, const exchange *x, uint32_t id, const generation *g)
{
    buf_printf(out, "%s{\"id\":%u,\"id_task\":%lld,\"n_ctx\":%u,\"speculative\":false,\"is_processing\":%s",
               id ? "," : "", id, g ? (long long)g->id : -1LL, x->model->context_length, g ? "true" : "false");
    uint32_t limit = g ? g->exchange->plan.max_tokens : 0;
    buf_printf(out,
               ",\"params\":{\"n_predict\":%lld},\"next_token\":[{\"has_next_token\":%s,\"n_remain\":%lld,"
               "\"n_decoded\":%u}]}",
               limit ? (long long)limit : -1LL, g ? "true" : "false",
               limit ? (long long)limit - (long long)g->tokens : -1LL, g ? g->tokens : 0);
}

/* The caller's own streams are shown as busy slots; others' only count. */
void llama_server_slots(exchange *x)
{
    engine_snapshot now;
    uint64_t fail = 0;
    buf *out = &x->answer.body;
    uint32_t id = 0, shown;
    engine_read_snapshot(x->model->engine, &now);
    if (query_number(buf_span(&x->query), "fail_on_no_slot", &fail) == QUERY_NUMBER && fail &&
        now.running >= now.max_sequences) {
        api_fail(&x->error, 503, NULL, "no slot available");
        return;
    }
    shown = now.max_sequences < SLOTS_SHOWN ? now.max_sequences : SLOTS_SHOWN;
    buf_byte(out, '[');
    for (const exchange *e = server_exchanges(x->server); e; e = e->next)
        for (uint32_t i = 0; e->terms.tenant == x->terms.tenant && i < e->count && id < shown; i++)
            if (!e->generations[i].done)
                write_slot(out, x, id++, &e->generations[i]);
    while (id < shown) {
        write_slot(out, x, id, NULL);
        id++;
    }
    buf_byte(out, ']');
    answer_json(x);
}
