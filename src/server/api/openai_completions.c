/* server/api/openai_completions.c: POST /v1/completions. Prompts: a string, an array of strings, token ids, or an array
 * of those. */
#include <stdlib.h>

#include "server/api/openai.h"
#include "server/api/openai_answer.h"
#include "server/api/params.h"

enum { DEFAULT_MAX_TOKENS = 16 }; /* as the API says */

static bool read_logprobs(exchange *x, json_t *value)
{
    uint64_t top = 0;
    if (json_is_boolean(value)) { /* some clients send the chat form */
        x->plan.want_logprobs = json_is_true(value);
        x->plan.sampling.logprobs = x->plan.want_logprobs ? 1 : 0;
        return true;
    }
    if (!params_read_uint(x, "logprobs", value, 0, LOGPROBS_MAX - 1, &top))
        return false;
    x->plan.want_logprobs = true;
    x->plan.sampling.logprobs = 1 + (uint32_t)top;
    return true;
}

static const param_field fields[] = {{"prompt", NULL}, {"logprobs", read_logprobs}, {NULL, NULL}};

static token_list *add_prompt(exchange *x)
{
    generation_plan *plan = &x->plan;
    if (plan->prompt_count == PROMPTS_MAX) {
        api_fail(&x->error, 400, "prompt", "prompt may hold %d prompts at most", PROMPTS_MAX);
        return NULL;
    }
    if (!plan->prompts)
        plan->prompts = calloc(PROMPTS_MAX, sizeof *plan->prompts);
    return plan->prompts ? &plan->prompts[plan->prompt_count++] : NULL;
}

static bool add_text(exchange *x, json_t *text)
{
    token_list *list = add_prompt(x);
    error err = {0};
    if (!list)
        return false;
    if (tokenizer_encode(x->model->tokenizer, span_of(json_string_value(text), json_string_length(text)),
                         TOKENIZE_SPECIALS | TOKENIZE_BOS_EOS, list, &err))
        return api_fail(&x->error, 400, "prompt", "the prompt cannot be tokenized: %s", err.text);
    return true;
}

static bool add_ids(exchange *x, json_t *ids)
{
    token_list *list = add_prompt(x);
    if (!list)
        return false;
    size_t i;
    json_t *id;
    json_array_foreach(ids, i, id)
    {
        json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        if (number < 0 || number >= (json_int_t)tokenizer_vocab_size(x->model->tokenizer))
            return api_fail(&x->error, 400, "prompt", "prompt: item %zu is not a token id of this model", i);
        if (!token_list_push(list, (token_id)number))
            return api_fail(&x->error, 500, "prompt", "out of memory");
    }
    return true;
}

static bool read_prompt(exchange *x, json_t *prompt)
{
    if (json_is_string(prompt))
        return add_text(x, prompt);
    if (!json_is_array(prompt) || !json_array_size(prompt))
        return api_fail(&x->error, 400, "prompt",
                        "prompt must be a string, an array of strings, or an array of token ids");
    if (json_is_integer(json_array_get(prompt, 0)))
        return add_ids(x, prompt);
    size_t i;
    json_t *item;
    json_array_foreach(prompt, i, item)
    {
        bool ok = json_is_string(item) ? add_text(x, item)
                  : json_is_array(item)
                      ? add_ids(x, item)
                      : api_fail(&x->error, 400, "prompt", "prompt: item %zu is neither text nor token ids", i);
        if (!ok)
            return false;
    }
    return true;
}

void openai_completions(exchange *x)
{
    json_t *body = params_parse_body(x);
    if (!body)
        return;
    x->plan.max_tokens = DEFAULT_MAX_TOKENS;
    if (params_read(x, body, fields) && read_prompt(x, json_object_get(body, "prompt")))
        params_check_prompts(x);
    json_decref(body);
}

/* ---- what is written: log-probabilities in four columns ---- */

enum { TOKENS, LOGPROBS, TOP, OFFSETS };

static void add_key(buf *out, const exchange *x, token_id id)
{
    buf text = {0};
    openai_token_text(x, id, &text);
    json_text_string(out, buf_span(&text));
    buf_free(&text);
}

static void completions_logprob(const exchange *x, generation *g, const sampled_token *token)
{
    for (int i = 0; i < 4; i++)
        if (g->logprobs[i].size)
            buf_byte(&g->logprobs[i], ',');
    buf text = {0};
    openai_token_text(x, token->token, &text);
    json_text_string(&g->logprobs[TOKENS], buf_span(&text));
    json_text_number(&g->logprobs[LOGPROBS], (double)token->logprob);
    buf_printf(&g->logprobs[OFFSETS], "%zu", g->text_offset);
    g->text_offset += text.size;
    buf_free(&text);
    buf *top = &g->logprobs[TOP];
    uint32_t wanted = x->plan.sampling.logprobs - 1;
    buf_byte(top, '{');
    for (uint32_t i = 0; i < token->top_count && i < wanted; i++) {
        if (i)
            buf_byte(top, ',');
        add_key(top, x, token->top_tokens[i]);
        buf_byte(top, ':');
        json_text_number(top, (double)token->top_logprobs[i]);
    }
    buf_byte(top, '}');
}

static void write_logprobs(buf *out, const exchange *x, generation *g)
{
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    buf_text(out, ",\"logprobs\":");
    if (!x->plan.want_logprobs || !g->logprobs[TOKENS].size) {
        buf_text(out, "null");
        return;
    }
    for (int i = 0; i < 4; i++) {
        buf_printf(out, "%s\"%s\":[", i ? "," : "{", names[i]);
        buf_append(out, g->logprobs[i].data, g->logprobs[i].size);
        buf_byte(out, ']');
        buf_clear(&g->logprobs[i]);
    }
    buf_byte(out, '}');
}

static void completions_choice(buf *out, const exchange *x, generation *g, const char *finish)
{
    buf text = {0};
    buf_printf(out, "{\"index\":%u,\"text\":", g->index);
    answer_pieces_join(&g->pieces, PIECE_TEXT, 0, &text);
    json_text_string(out, buf_span(&text));
    buf_free(&text);
    write_logprobs(out, x, g);
    if (finish)
        buf_printf(out, ",\"finish_reason\":\"%s\"}", finish);
    else
        buf_text(out, ",\"finish_reason\":null}");
}

static void completions_full_choice(buf *out, const exchange *x, generation *g)
{
    completions_choice(out, x, g, g->finish);
}

static const openai_shape shape = {"text_completion", "text_completion", completions_choice, completions_full_choice};

static void completions_begin(buf *out, exchange *x)
{
    (void)out;
    openai_begin(x, &shape);
}

static void completions_pieces(buf *out, exchange *x, generation *g)
{
    openai_chunk(out, x, g, &shape, NULL);
}

static void completions_finish(buf *out, exchange *x, generation *g)
{
    openai_chunk(out, x, g, &shape, g->finish);
}

static void completions_whole(buf *out, exchange *x)
{
    openai_whole(out, x, &shape);
}

const answer_format openai_completions_format = {
    .id_prefix = "cmpl-",
    .begin = completions_begin,
    .pieces = completions_pieces,
    .finish = completions_finish,
    .end = openai_end,
    .whole = completions_whole,
    .progress = openai_progress,
    .logprob = completions_logprob,
};
