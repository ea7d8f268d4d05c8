/* server/api/tool_history.c: see tool_history.h. */
#include "server/api/tool_history.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "server/api/tool_memory.h"
#include "text/chat_json.h"

static bool bad_call(exchange *x, size_t index, size_t call, const char *what)
{
    char param[64];
    snprintf(param, sizeof param, "messages[%zu]", index);
    return api_fail(&x->error, 400, param, "%s.tool_calls[%zu]: %s", param, call, what);
}

static span span_of_json(json_t *string)
{
    return span_of(json_string_value(string), json_string_length(string));
}

/* ---- arguments ---- */

static json_t *parse_arguments(json_t *arguments)
{
    json_error_t where;
    json_t *parsed = json_is_string(arguments) ? chat_json_load(span_of_json(arguments), 0, &where) : NULL;
    if (parsed && !json_is_object(parsed)) {
        json_decref(parsed);
        parsed = NULL;
    }
    return json_is_object(arguments) ? json_incref(arguments) : parsed;
}

/* What the model wrote, if the client's arguments mean the same; *parsed is replaced, key order and all. */
static bool recall(exchange *x, json_t *id, json_t **parsed, buf *text)
{
    json_error_t where;
    tool_memory *memory = x->form ? x->form->memory : NULL;
    if (!json_is_string(id) || !tool_memory_get(memory, x->terms.tenant, span_of_json(id), text))
        return false;
    json_t *original = chat_json_load(buf_span(text), 0, &where);
    bool same = original && json_equal(original, *parsed);
    if (same) {
        json_decref(*parsed);
        *parsed = json_incref(original);
    }
    json_decref(original);
    return same;
}

static void set_text(json_t *function, span text)
{
    json_object_set_new(function, "arguments", json_stringn(text.data ? text.data : "", text.size));
}

static void set_arguments(exchange *x, json_t *id, json_t *function)
{
    json_t *arguments = json_object_get(function, "arguments"), *parsed = parse_arguments(arguments);
    bool object = !x->form || x->form->takes_object, takes_text = x->form && x->form->takes_text;
    buf text = {0};
    if (!parsed) /* malformed: as it came */
        return;
    bool known = recall(x, id, &parsed, &text);
    if (takes_text && known)
        set_text(function, buf_span(&text));
    else if (object)
        json_object_set(function, "arguments", parsed);
    else if (!json_is_string(arguments)) {
        char *dumped = json_dumps(parsed, 0);
        set_text(function, span_from(dumped));
        free(dumped);
    }
    buf_free(&text);
    json_decref(parsed);
}

/* ---- ids ---- */

/* Nine letters and digits, the same for the same id, for templates that refuse others. */
static void shorten(json_t *owner, const char *key)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    json_t *id = json_object_get(owner, key);
    char text[10] = {0};
    if (!json_is_string(id) || json_string_length(id) == 9)
        return;
    uint64_t hash = XXH3_64bits(json_string_value(id), json_string_length(id));
    for (int i = 0; i < 9; i++, hash /= 62)
        text[i] = letters[hash % 62];
    json_object_set_new(owner, key, json_string(text));
}

/* ---- messages ---- */

static bool prepare_call(exchange *x, json_t *call, size_t index, size_t number)
{
    json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
    if (!json_is_object(function) || !json_is_string(json_object_get(function, "name")))
        return bad_call(x, index, number, "needs a function with a name");
    if (arguments && !json_is_null(arguments) && !json_is_string(arguments) && !json_is_object(arguments))
        return bad_call(x, index, number, "arguments must be JSON text or an object");
    if (!arguments || json_is_null(arguments) || (json_is_string(arguments) && !json_string_length(arguments)))
        set_text(function, span_from("{}"));
    set_arguments(x, json_object_get(call, "id"), function);
    if (x->form && x->form->short_ids)
        shorten(call, "id");
    return true;
}

bool tool_history_prepare(exchange *x, json_t *message, size_t index)
{
    json_t *calls = json_object_get(message, "tool_calls"), *call;
    size_t i;
    if (calls && !json_is_array(calls))
        return bad_call(x, index, 0, "tool_calls must be an array");
    if (calls && !json_array_size(calls)) /* what some clients send for none, and some templates take for some */
        json_object_del(message, "tool_calls");
    json_array_foreach(calls, i, call) if (!prepare_call(x, call, index, i)) return false;
    if (x->form && x->form->short_ids)
        shorten(message, "tool_call_id");
    return true;
}

/* Every call's arguments, object to text or back. */
static bool swap_forms(json_t *messages)
{
    size_t i, k;
    json_t *message, *call;
    bool any = false;
    json_array_foreach(messages, i, message) json_array_foreach(json_object_get(message, "tool_calls"), k, call)
    {
        json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
        json_t *parsed = json_is_string(arguments) ? parse_arguments(arguments) : NULL;
        char *text = json_is_object(arguments) ? json_dumps(arguments, 0) : NULL;
        if (parsed)
            json_object_set(function, "arguments", parsed);
        else if (text)
            set_text(function, span_from(text));
        any = any || parsed || text;
        free(text);
        json_decref(parsed);
    }
    return any;
}

/* A message with calls and no content: some templates want a text all the same. */
static bool add_content(json_t *messages)
{
    size_t i;
    json_t *message;
    bool any = false;
    json_array_foreach(messages, i, message)
    {
        if (!json_object_get(message, "tool_calls") || json_object_get(message, "content"))
            continue;
        json_object_set_new(message, "content", json_string(""));
        any = true;
    }
    return any;
}

bool tool_history_retry(json_t *messages, int attempt)
{
    return attempt == 0 ? add_content(messages) || swap_forms(messages) : attempt == 1 && swap_forms(messages);
}

bool tool_history_blame(exchange *x, json_t *messages, bool raised, const char *text)
{
    size_t i, k;
    json_t *message, *call;
    json_array_foreach(messages, i, message) json_array_foreach(json_object_get(message, "tool_calls"), k, call)
    {
        json_t *arguments = json_object_get(json_object_get(call, "function"), "arguments");
        json_t *parsed = parse_arguments(arguments);
        json_decref(parsed);
        if (!parsed && !raised)
            return bad_call(x, i, k, "its arguments are no JSON object, and this model's template cannot show them");
    }
    return api_fail(&x->error, 400, "messages", raised ? "%s" : "the chat template cannot render this: %s", text);
}

static bool shows(const chat_template *t, json_t *arguments)
{
    json_t *variables =
        json_pack("{s:[{s:s, s:s}, {s:s, s:s, s:[{s:s, s:s, s:{s:s, s:O}}]}], s:b, s:n, s:n, s:s, s:s}", "messages",
                  "role", "user", "content", "a", "role", "assistant", "content", "", "tool_calls", "type", "function",
                  "id", "abcdefghi", "function", "name", "f", "arguments", arguments, "add_generation_prompt", 0,
                  "tools", "documents", "bos_token", "", "eos_token", "");
    render_result result = {0};
    bool found = variables && chat_template_render(t, variables, 0, &result, NULL) == OK && result.text.data;
    found = found && strstr(result.text.data, "qXjZk");
    if (json_is_string(arguments)) /* as it is, not as a JSON string */
        found = found && strstr(result.text.data, json_string_value(arguments));
    render_result_free(&result);
    json_decref(variables);
    return found;
}

void tool_history_probe(const chat_template *t, bool *takes_object, bool *takes_text)
{
    json_t *object = json_pack("{s:i}", "qXjZk", 1), *text = json_string("{\"qXjZk\":   1}");
    *takes_object = t && shows(t, object);
    *takes_text = t && shows(t, text);
    json_decref(object);
    json_decref(text);
}
