/* server/api/messages.c: messages to prompt tokens. */
#include "server/api/messages.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "server/api/begun_answer.h"
#include "server/api/params.h"
#include "server/api/reasoning_params.h"
#include "server/api/shared_prefix.h"
#include "server/api/tool_choice.h"
#include "server/api/tool_grammar.h"
#include "server/api/tool_history.h"

enum { MESSAGES_MAX = 20000 };

static bool bad_message(exchange *x, size_t index, const char *what)
{
    char param[64];
    snprintf(param, sizeof param, "messages[%zu]", index);
    return api_fail(&x->error, 400, param, "%s: %s", param, what);
}

bool messages_template_takes_parts(const chat_template *t)
{
    json_t *variables = json_pack("{s:[{s:s, s:[{s:s, s:s}]}], s:b, s:n, s:n, s:s, s:s}", "messages", "role", "user",
                                  "content", "type", "text", "text", "qXjZk", "add_generation_prompt", 0, "tools",
                                  "documents", "bos_token", "", "eos_token", "");
    render_result result = {0};
    bool takes = false;
    if (variables && chat_template_render(t, variables, 0, &result, NULL) == OK && result.text.data)
        takes = strstr(result.text.data, "qXjZk") && !strstr(result.text.data, "type");
    render_result_free(&result);
    json_decref(variables);
    return takes;
}

static bool check_part(exchange *x, size_t index, json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!type)
        return bad_message(x, index, "a content part needs a type");
    if (strcmp(type, "text") == 0 && json_is_string(json_object_get(part, "text")))
        return true;
    if (strcmp(type, "refusal") == 0 && json_is_string(json_object_get(part, "refusal")))
        return true;
    char what[120];
    snprintf(what, sizeof what, "content parts of type \"%.40s\" are not supported, only text", type);
    bad_message(x, index, what);
    x->error.code = "unsupported_parameter";
    return false;
}

/* content: null, a string, or an array of text parts, which is joined unless the template takes parts. */
static bool prepare_content(exchange *x, size_t index, json_t *message, bool takes_parts)
{
    json_t *content = json_object_get(message, "content");
    if (!content || json_is_string(content))
        return true;
    if (!json_is_array(content))
        return bad_message(x, index, "content must be a string or an array of parts");
    buf joined = {0};
    size_t i;
    json_t *part;
    bool ok = true;
    json_array_foreach(content, i, part)
    {
        ok = ok && check_part(x, index, part);
        json_t *text = json_object_get(part, "text");
        text = text ? text : json_object_get(part, "refusal");
        if (ok)
            buf_append(&joined, json_string_value(text), json_string_length(text));
    }
    if (ok && !takes_parts)
        ok = json_object_set_new(message, "content", json_stringn(joined.data ? joined.data : "", joined.size)) == 0;
    buf_free(&joined);
    return ok;
}

static void prepare_reasoning(json_t *message)
{
    json_t *one = json_object_get(message, "reasoning_content"), *other = json_object_get(message, "thinking");
    json_t *third = json_object_get(message, "reasoning");
    json_t *any = one ? one : other ? other : json_is_string(third) ? third : NULL;
    if (any && !one)
        json_object_set(message, "reasoning_content", any);
    if (any && !other)
        json_object_set(message, "thinking", any);
}

static bool prepare_messages(exchange *x, json_t *messages)
{
    bool takes_parts = x->form && x->form->takes_parts;
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message)
    {
        if (!json_is_object(message))
            return bad_message(x, i, "must be an object");
        if (!json_is_string(json_object_get(message, "role")))
            return bad_message(x, i, "needs a role");
        const char *key;
        json_t *value;
        void *next;
        json_object_foreach_safe(message, next, key, value) if (json_is_null(value)) json_object_del(message, key);
        if (!prepare_content(x, i, message, takes_parts))
            return false;
        prepare_reasoning(message);
        if (!tool_history_prepare(x, message, i))
            return false;
    }
    return true;
}

static void set_token(json_t *variables, const char *name, const tokenizer *t, token_id id)
{
    span text = id >= 0 ? tokenizer_token_text(t, id) : (span){0};
    if (text.size)
        json_object_set_new(variables, name, json_stringn(text.data, text.size));
}

/* A client's own template variables; never one that a template trusts as a special token (chat_template.h). */
static void add_extra_variables(json_t *variables, json_t *extra)
{
    static const char suffix[] = "_token";
    const size_t tail = sizeof suffix - 1;
    const char *key;
    json_t *value;
    json_object_foreach(extra, key, value)
    {
        size_t size = strlen(key);
        if (size < tail || strcmp(key + size - tail, suffix))
            json_object_set(variables, key, value);
    }
}

/* The template's variables out of the request. */
static json_t *make_variables(exchange *x, json_t *body, json_t *messages, json_t *tools)
{
    const server_model *model = x->model;
    json_t *variables = json_object(), *extra = json_object_get(body, "chat_template_kwargs");
    if (extra && json_is_object(extra))
        add_extra_variables(variables, extra);
    json_object_set(variables, "messages", messages);
    json_t *null = json_null(), *documents = json_object_get(body, "documents"),
           *go_on = json_object_get(body, "add_generation_prompt");
    json_object_set(variables, "tools", tools ? tools : null);
    json_object_set(variables, "documents", documents ? documents : null);
    json_object_set_new(variables, "add_generation_prompt", json_boolean(!go_on || !json_is_false(go_on)));
    set_token(variables, "bos_token", model->tokenizer, tokenizer_bos(model->tokenizer));
    set_token(variables, "eos_token", model->tokenizer, tokenizer_eos(model->tokenizer));
    return variables;
}

static bool tokenize_rendered(exchange *x, const render_result *rendered, token_list *out)
{
    text_piece *pieces = malloc((rendered->range_count + 1) * sizeof *pieces);
    if (!pieces)
        return api_fail(&x->error, 500, NULL, "out of memory");
    for (size_t i = 0; i < rendered->range_count; i++) {
        const render_range *range = &rendered->ranges[i];
        pieces[i] = (text_piece){span_of(rendered->text.data + range->offset, range->size), range->trusted};
    }
    error err = {0};
    status code =
        tokenizer_encode_pieces(x->model->tokenizer, pieces, rendered->range_count, TOKENIZE_SPECIALS, out, &err);
    free(pieces);
    return code == OK || api_fail(&x->error, 400, "messages", "the prompt cannot be tokenized: %s", err.text);
}

/* Renders; what a template does not take in one form it may take in another. */
static bool render(exchange *x, json_t *variables, json_t *messages, render_result *out)
{
    uint64_t now = clock_unix_seconds();
    error first = {0}, err = {0};
    if (chat_template_render(x->model->chat_template, variables, now, out, &first) == OK)
        return true;
    bool raised = out->raised;
    for (int attempt = 0; tool_history_retry(messages, attempt); attempt++)
        if (chat_template_render(x->model->chat_template, variables, now, out, &err) == OK)
            return true;
    return tool_history_blame(x, messages, raised, first.text);
}

static void find_thoughts(exchange *x, span prompt)
{
    const char *name = x->form ? x->form->thoughts : NULL;
    const output_marks *marks = output_marks_find(name);
    x->plan.output.thoughts = name;
    x->plan.output.thought_open = output_thought_is_open(marks, prompt);
    x->plan.output.thought_may_open = marks && !output_thought_is_over(marks, prompt);
}

/* Puts the client's words behind the prompt. An answer with words has no thought before them, unless they open one. */
static bool go_on_with(exchange *x, json_t *begun, render_result *rendered)
{
    find_thoughts(x, buf_span(&rendered->text));
    if (!json_string_length(begun))
        return true;
    if (x->plan.output.thought_open)
        return api_fail(&x->error, 400, "messages",
                        "the last message begins the answer: this model begins with a thought");
    if (!begun_answer_append(x, begun, rendered))
        return false;
    find_thoughts(x, buf_span(&rendered->text));
    x->plan.output.thought_may_open = x->plan.output.thought_open;
    return true;
}

bool messages_tokenize(exchange *x, json_t *body, token_list *out)
{
    json_t *messages = json_object_get(body, "messages");
    if (!json_is_array(messages) || !json_array_size(messages) || json_array_size(messages) > MESSAGES_MAX)
        return api_fail(&x->error, 400, "messages", "messages must be an array of 1 to %d messages", MESSAGES_MAX);
    if (!x->model->chat_template)
        return api_fail(
            &x->error, 400, "messages",
            "this model has no chat template: start the server with --chat-template FILE, or use /v1/completions");
    json_t *tools = NULL, *begun;
    if (!tool_choice_read(x, body, &tools) || !begun_answer_take(x, body, messages, &begun))
        return false;
    if (!prepare_messages(x, messages)) {
        json_decref(begun);
        return false;
    }
    json_t *variables = make_variables(x, body, messages, tools);
    if (begun)
        json_object_set_new(variables, "add_generation_prompt", json_true());
    render_result rendered = {0};
    bool ok = reasoning_params_read(x, body, variables) && render(x, variables, messages, &rendered);
    ok = ok && go_on_with(x, begun, &rendered) && tokenize_rendered(x, &rendered, out);
    if (ok) {
        x->plan.keep |= messages_continue(messages);
        x->plan.shared_tokens =
            shared_prefix_tokens(x->model->tokenizer, out, shared_prefix_bytes(messages, &rendered));
        size_t turns[TURN_MARKS_MAX];
        x->plan.turn_mark_count = turn_bytes(messages, &rendered, turns);
        prefix_tokens(x->model->tokenizer, out, turns, x->plan.turn_mark_count, x->plan.turn_marks);
    }
    render_result_free(&rendered);
    json_decref(variables);
    json_decref(begun);
    return ok && (!x->plan.output.must_call || tool_grammar_build(x));
}
