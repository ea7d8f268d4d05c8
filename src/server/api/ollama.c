/* server/api/ollama.c: POST /api/chat and /api/generate, made into OpenAI's form. What Ollama takes as a setting of the
 * model it would load (num_ctx, keep_alive, threads) is set here once, for the server: a request may ask for what there
 * is, or less. */
#include "server/api/ollama.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/api/openai.h"
#include "server/api/params.h"

/* Options that mean the same by another name, or by the same. */
static const struct {
    const char *name, *openai;
} same_options[] = {
    {"temperature", "temperature"},
    {"top_p", "top_p"},
    {"top_k", "top_k"},
    {"min_p", "min_p"},
    {"typical_p", "typical_p"},
    {"seed", "seed"},
    {"stop", "stop"},
    {"repeat_penalty", "repeat_penalty"},
    {"presence_penalty", "presence_penalty"},
    {"frequency_penalty", "frequency_penalty"},
    {"mirostat", "mirostat"},
};

/* Of the machine, or without effect unless another is set. */
static const char *const idle_options[] = {
    "num_keep",     "num_batch",  "num_gpu", "main_gpu",         "num_thread",        "use_mmap",
    "use_mlock",    "low_vram",   "numa",    "f16_kv",           "vocab_only",        "mirostat_eta",
    "mirostat_tau", "logits_all", "tfs_z",   "penalize_newline", "draft_num_predict",
};

static bool is_idle(const char *name)
{
    for (size_t i = 0; i < sizeof idle_options / sizeof *idle_options; i++)
        if (strcmp(name, idle_options[i]) == 0)
            return true;
    return false;
}

static bool read_context(exchange *x, json_t *value)
{
    uint64_t context = 0;
    if (!params_read_uint(x, "num_ctx", value, 0, INT32_MAX, &context))
        return false;
    if (context <= x->model->context_length)
        return true;
    return api_fail(&x->error, 400, "num_ctx", "num_ctx is %llu and the context of this server holds %u: see --ctx",
                    (unsigned long long)context, x->model->context_length);
}

/* Negative and 0: no limit of its own. */
static bool read_predict(exchange *x, json_t *value, json_t *into)
{
    if (!json_is_integer(value) || json_integer_value(value) > INT32_MAX)
        return api_fail(&x->error, 400, "num_predict", "num_predict must be an integer");
    json_int_t count = json_integer_value(value);
    json_object_set_new(into, "max_tokens", json_integer(count > 0 ? count : -1));
    return true;
}

static bool read_option(exchange *x, const char *name, json_t *value, json_t *into)
{
    if (json_is_null(value) || is_idle(name))
        return true;
    if (strcmp(name, "num_ctx") == 0)
        return read_context(x, value);
    if (strcmp(name, "num_predict") == 0)
        return read_predict(x, value, into);
    for (size_t i = 0; i < sizeof same_options / sizeof *same_options; i++)
        if (strcmp(name, same_options[i].name) == 0) {
            json_object_set(into, same_options[i].openai, value);
            return true;
        }
    if (strcmp(name, "repeat_last_n") == 0)
        params_warn(x, "ignored: repeat_last_n");
    else
        json_object_set(into, name, value); /* ignored there, and named */
    return true;
}

static bool read_options(exchange *x, json_t *options, json_t *into)
{
    const char *name;
    json_t *value;
    if (!options || json_is_null(options))
        return true;
    if (!json_is_object(options))
        return api_fail(&x->error, 400, "options", "options must be an object");
    json_object_foreach(options, name, value) if (!read_option(x, name, value, into)) return false;
    return true;
}

/* A number of seconds, or text such as "5m", "-1", "1h30m". *zero: the model is to go at once. */
static bool read_keep_alive(exchange *x, json_t *value, bool *zero)
{
    const char *text = json_string_value(value);
    *zero = json_is_number(value) && json_number_value(value) == 0;
    if (!value || json_is_null(value) || json_is_number(value))
        return true;
    bool digits = false, other = false, nonzero = false;
    for (const char *c = text; c && *c; c++) {
        digits |= isdigit((unsigned char)*c) != 0;
        nonzero |= *c >= '1' && *c <= '9';
        other |= !isdigit((unsigned char)*c) && !strchr("+-.nuµmsh", *c);
    }
    *zero = digits && !nonzero;
    return (digits && !other) ||
           api_fail(&x->error, 400, "keep_alive", "keep_alive must be a duration: \"5m\", 300, -1");
}

static bool read_think(exchange *x, json_t *value, json_t *into)
{
    if (!value || json_is_null(value))
        return true;
    if (json_is_string(value))
        return json_object_set(into, "reasoning_effort", value) == 0;
    if (!json_is_boolean(value))
        return api_fail(&x->error, 400, "think", "think must be true, false, or a level");
    json_object_set_new(into, "chat_template_kwargs", json_pack("{s:O}", "enable_thinking", value));
    return true;
}

static bool read_format(exchange *x, json_t *value, json_t *into)
{
    if (!value || params_is_off(value))
        return true;
    if (json_is_string(value) && strcmp(json_string_value(value), "json") == 0)
        json_object_set_new(into, "response_format", json_pack("{s:s}", "type", "json_object"));
    else if (json_is_object(value))
        json_object_set_new(
            into, "response_format",
            json_pack("{s:s,s:{s:s,s:O}}", "type", "json_schema", "json_schema", "name", "format", "schema", value));
    else
        return api_fail(&x->error, 400, "format", "format must be \"json\" or a JSON schema");
    return true;
}

/* Fields that both endpoints have. *load: keep_alive or an empty request want the model there, no more. */
static bool read_shared(exchange *x, json_t *body, json_t *into, bool empty)
{
    bool unload = false;
    json_t *stream = json_object_get(body, "stream"), *model = json_object_get(body, "model");
    if (!json_is_string(model))
        return api_fail(&x->error, 400, "model", "model is required");
    if (stream && !json_is_null(stream) && !json_is_boolean(stream))
        return api_fail(&x->error, 400, "stream", "stream must be true or false");
    if (!read_keep_alive(x, json_object_get(body, "keep_alive"), &unload))
        return false;
    if (unload && empty)
        return api_fail(&x->error, 400, "keep_alive", "keep_alive 0: the model stays for as long as this server runs");
    if (unload)
        params_warn(x, "ignored: keep_alive 0, the model stays");
    json_object_set(into, "model", model);
    json_object_set_new(into, "stream", json_boolean(!json_is_false(stream)));
    if (!params_is_off(json_object_get(body, "logprobs") ? json_object_get(body, "logprobs") : json_null()))
        return params_unsupported(x, "logprobs", "in this dialect");
    return read_options(x, json_object_get(body, "options"), into) &&
           read_think(x, json_object_get(body, "think"), into) && read_format(x, json_object_get(body, "format"), into);
}

/* ---- messages ---- */

/* Calls have no ids there: those of one message are numbered, and the tool messages that follow answer them in order.
 */
typedef struct {
    uint32_t calls, answered;
} call_count;

static bool change_calls(exchange *x, size_t index, json_t *calls, call_count *count)
{
    size_t i;
    json_t *call;
    count->answered = count->calls;
    json_array_foreach(calls, i, call)
    {
        char id[32];
        if (!json_is_object(call))
            return api_fail(&x->error, 400, "messages", "messages[%zu]: a tool call must be an object", index);
        snprintf(id, sizeof id, "call_%u", count->calls++);
        if (!json_object_get(call, "id"))
            json_object_set_new(call, "id", json_string(id));
        json_object_set_new(call, "type", json_string("function"));
    }
    return true;
}

static bool change_message(exchange *x, size_t index, json_t *message, call_count *count)
{
    json_t *images = json_object_get(message, "images"), *calls = json_object_get(message, "tool_calls");
    json_t *thinking = json_object_get(message, "thinking"), *name = json_object_get(message, "tool_name");
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!json_is_object(message))
        return api_fail(&x->error, 400, "messages", "messages[%zu] must be an object", index);
    if (images && !params_is_off(images))
        return api_fail(&x->error, 400, "messages", "messages[%zu]: images are not supported", index);
    json_object_del(message, "images");
    if (thinking) {
        json_object_set(message, "reasoning_content", thinking);
        json_object_del(message, "thinking");
    }
    if (json_array_size(calls) && !change_calls(x, index, calls, count))
        return false;
    if (!role || strcmp(role, "tool") != 0)
        return true;
    if (name && !json_object_get(message, "name"))
        json_object_set(message, "name", name);
    json_object_del(message, "tool_name");
    if (!json_object_get(message, "tool_call_id")) {
        char id[32];
        snprintf(id, sizeof id, "call_%u", count->answered++);
        json_object_set_new(message, "tool_call_id", json_string(id));
    }
    return true;
}

static bool change_messages(exchange *x, json_t *messages)
{
    size_t i;
    json_t *message;
    call_count count = {0};
    if (!json_is_array(messages))
        return api_fail(&x->error, 400, "messages", "messages must be an array");
    json_array_foreach(messages, i, message) if (!change_message(x, i, message, &count)) return false;
    return true;
}

/* `form` goes on as if it had come to the other endpoint. The body stays as it came for whoever forwards it. */
static void go_on(exchange *x, json_t *form, void (*handle)(exchange *x))
{
    char *text = json_dumps(form, JSON_COMPACT);
    buf came = x->body;
    x->body = (buf){0};
    if (text) {
        buf_text(&x->body, text);
        free(text);
        handle(x);
    } else {
        api_fail(&x->error, 503, NULL, "out of memory");
    }
    buf_free(&x->body);
    x->body = came;
}

void ollama_chat(exchange *x)
{
    json_t *body = params_parse_body(x), *form = json_object();
    json_t *messages = json_object_get(body, "messages"), *tools = json_object_get(body, "tools");
    bool empty = !json_array_size(messages);
    if (body && read_shared(x, body, form, empty)) {
        if (empty && (!messages || json_is_array(messages) || json_is_null(messages))) {
            ollama_write_loaded(x);
        } else if (change_messages(x, messages)) {
            json_object_set(form, "messages", messages);
            if (tools && !json_is_null(tools) && (!json_is_array(tools) || json_array_size(tools)))
                json_object_set(form, "tools", tools); /* what is no array is refused there */
            go_on(x, form, openai_chat);
        }
    }
    json_decref(form);
    json_decref(body);
}

/* ---- generate ---- */

static bool refuse_rest(exchange *x, json_t *body)
{
    static const char *const refused[] = {"suffix", "template", "context", "images"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        json_t *value = json_object_get(body, refused[i]);
        if (value && !params_is_off(value))
            return params_unsupported(x, refused[i], NULL);
    }
    return true;
}

static bool add_turn(json_t *messages, const char *role, json_t *text)
{
    return json_array_append_new(messages, json_pack("{s:s,s:O}", "role", role, "content", text)) == 0;
}

static void generate(exchange *x, json_t *body, json_t *form)
{
    json_t *prompt = json_object_get(body, "prompt"), *system = json_object_get(body, "system");
    bool raw = json_is_true(json_object_get(body, "raw")) || !x->model->chat_template;
    if (!json_is_string(prompt) || (system && !json_is_null(system) && !json_is_string(system))) {
        api_fail(&x->error, 400, "prompt", "prompt and system must be strings");
    } else if (raw) {
        json_object_set(form, "prompt", prompt);
        if (!json_object_get(form, "max_tokens"))
            json_object_set_new(form, "max_tokens", json_integer(-1));
        go_on(x, form, openai_completions);
    } else {
        json_t *messages = json_array();
        if (json_string_length(system))
            add_turn(messages, "system", system);
        add_turn(messages, "user", prompt);
        json_object_set_new(form, "messages", messages);
        go_on(x, form, openai_chat);
    }
}

void ollama_generate(exchange *x)
{
    json_t *body = params_parse_body(x), *form = json_object();
    json_t *prompt = json_object_get(body, "prompt");
    bool empty = !prompt || json_is_null(prompt) || (json_is_string(prompt) && !json_string_length(prompt));
    if (body && read_shared(x, body, form, empty) && refuse_rest(x, body)) {
        if (empty && !json_object_get(body, "system"))
            ollama_write_loaded(x);
        else
            generate(x, body, form);
    }
    json_decref(form);
    json_decref(body);
}
