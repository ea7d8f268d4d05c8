/* server/api/responses_request.c: a Responses request as a chat completion's. Items that one answer was made of
 * (reasoning, message, calls) become one message again. */
#include <stdio.h>

#include "server/api/params.h"
#include "server/api/responses.h"
#include "server/api/translate.h"

typedef struct {
    exchange *x;
    json_t *messages; /* of the chat */
    json_t *answer;   /* borrowed: the assistant's message that further items belong to; NULL */
    size_t index;     /* of the item that is read */
} reader;

static bool bad_item(reader *r, const char *what)
{
    char where[64];
    snprintf(where, sizeof where, "input[%zu]", r->index);
    return translate_bad(r->x, where, what);
}

static bool unsupported(reader *r, const char *what, const char *type)
{
    char text[160];
    snprintf(text, sizeof text, "%s of type \"%.60s\" are not supported", what, type);
    bad_item(r, text);
    r->x->error.code = "unsupported_parameter";
    return false;
}

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

/* content: a string, or parts that are text. */
static bool read_content(reader *r, json_t *content, buf *out)
{
    static const char *const texts[] = {"input_text",     "output_text", "text", "summary_text",
                                        "reasoning_text", "refusal",     NULL};
    size_t i;
    json_t *part;
    if (json_is_string(content)) {
        buf_append(out, json_string_value(content), json_string_length(content));
        return true;
    }
    if (!json_is_array(content))
        return bad_item(r, "content must be a string or an array of parts");
    json_array_foreach(content, i, part)
    {
        const char *type = translate_type(part);
        json_t *text = json_object_get(part, type && strcmp(type, "refusal") == 0 ? "refusal" : "text");
        if (!type)
            return bad_item(r, "a content part is an object with a type");
        if (!is_one_of(type, texts))
            return unsupported(r, "content parts", type);
        if (!json_is_string(text))
            return bad_item(r, "the text of a content part must be a string");
        buf_append(out, json_string_value(text), json_string_length(text));
    }
    return true;
}

static json_t *open_answer(reader *r)
{
    if (!r->answer) {
        r->answer = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
        json_array_append_new(r->messages, r->answer);
    }
    return r->answer;
}

static void append_field(json_t *message, const char *name, const buf *more)
{
    json_t *old = json_object_get(message, name);
    buf text = {0};
    buf_append(&text, json_string_length(old) ? json_string_value(old) : "", json_string_length(old));
    buf_append(&text, more->size ? more->data : "", more->size);
    if (text.size || old)
        json_object_set_new(message, name, translate_text(&text));
    buf_free(&text);
}

/* ---- items ---- */

static void add_system(reader *r, buf *text)
{
    json_t *last = json_array_get(r->messages, 0);
    bool alone =
        json_array_size(r->messages) == 1 && strcmp(json_string_value(json_object_get(last, "role")), "system") == 0;
    if (!alone) {
        translate_add(r->messages, "system", translate_text(text));
        return;
    }
    buf more = {0}; /* templates take one, first */
    buf_text(&more, "\n\n");
    buf_append(&more, text->size ? text->data : "", text->size);
    append_field(last, "content", &more);
    buf_free(&more);
}

static bool add_message(reader *r, json_t *item)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer", NULL};
    const char *role = json_string_value(json_object_get(item, "role"));
    buf text = {0};
    if (!role || !is_one_of(role, roles))
        return bad_item(r, "role must be \"user\", \"assistant\", \"system\" or \"developer\"");
    bool ok = read_content(r, json_object_get(item, "content"), &text);
    if (ok && strcmp(role, "assistant") == 0) {
        append_field(open_answer(r), "content", &text);
    } else if (ok) {
        r->answer = NULL;
        if (strcmp(role, "user") == 0)
            translate_add(r->messages, role, translate_text(&text));
        else
            add_system(r, &text);
    }
    buf_free(&text);
    return ok;
}

static bool add_call(reader *r, json_t *item)
{
    const char *id = json_string_value(json_object_get(item, "call_id"));
    const char *name = json_string_value(json_object_get(item, "name"));
    json_t *arguments = json_object_get(item, "arguments");
    if (!id || !name || !json_is_string(arguments))
        return bad_item(r, "a function_call needs a call_id, a name, and arguments that are a string");
    json_t *message = open_answer(r), *calls = json_object_get(message, "tool_calls");
    if (!calls) {
        calls = json_array();
        json_object_set_new(message, "tool_calls", calls);
    }
    json_array_append_new(calls, translate_call(id, name, arguments));
    return true;
}

static bool add_output(reader *r, json_t *item)
{
    json_t *id = json_object_get(item, "call_id");
    buf text = {0};
    if (!json_is_string(id))
        return bad_item(r, "call_id must be a string");
    bool ok = read_content(r, json_object_get(item, "output"), &text);
    r->answer = NULL;
    if (ok)
        json_array_append_new(r->messages, json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content",
                                                     translate_text(&text)));
    buf_free(&text);
    return ok;
}

/* A thought begins an answer, unless it follows another. */
static bool add_reasoning(reader *r, json_t *item)
{
    static const size_t mark = sizeof REASONING_MARK - 1;
    json_t *content = json_object_get(item, "content"), *hidden = json_object_get(item, "encrypted_content");
    const char *text = json_string_value(hidden);
    buf thought = {0};
    bool ok = true;
    if (json_array_size(content))
        ok = read_content(r, content, &thought);
    else if (text && strncmp(text, REASONING_MARK, mark) == 0)
        buf_append(&thought, text + mark, json_string_length(hidden) - mark);
    else if (json_array_size(json_object_get(item, "summary")))
        ok = read_content(r, json_object_get(item, "summary"), &thought);
    if (r->answer &&
        (json_string_length(json_object_get(r->answer, "content")) || json_object_get(r->answer, "tool_calls")))
        r->answer = NULL;
    if (ok && thought.size)
        append_field(open_answer(r), "reasoning_content", &thought);
    buf_free(&thought);
    return ok;
}

static bool add_item(reader *r, json_t *item)
{
    static const struct {
        const char *type;
        bool (*add)(reader *r, json_t *item);
    } kinds[] = {{"message", add_message},
                 {"function_call", add_call},
                 {"function_call_output", add_output},
                 {"reasoning", add_reasoning}};
    const char *type = translate_type(item);
    if (!json_is_object(item))
        return bad_item(r, "must be an object");
    type = type ? type : "message";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].type, type) == 0)
            return kinds[i].add(r, item);
    return unsupported(r, "items", type);
}

static bool add_input(reader *r, json_t *input)
{
    json_t *item;
    if (json_is_string(input)) {
        translate_add(r->messages, "user", json_incref(input));
        return true;
    }
    if (!json_is_array(input) || !json_array_size(input))
        return translate_bad(r->x, "input", "must be a string or an array of at least one item");
    json_array_foreach(input, r->index, item) if (!add_item(r, item)) return false;
    return true;
}

static bool add_instructions(reader *r, json_t *value)
{
    if (!value || json_is_null(value))
        return true;
    if (!json_is_string(value))
        return translate_bad(r->x, "instructions", "must be a string");
    if (json_string_length(value))
        translate_add(r->messages, "system", json_incref(value));
    return true;
}

/* ---- fields ---- */

static bool put_tools(exchange *x, json_t *value, json_t *chat)
{
    json_t *tools = json_array(), *tool;
    size_t i;
    json_object_set_new(chat, "tools", tools);
    if (!json_is_array(value))
        return translate_bad(x, "tools", "must be an array");
    json_array_foreach(value, i, tool)
    {
        const char *type = translate_type(tool);
        char where[32];
        snprintf(where, sizeof where, "tools[%zu]", i);
        if (!type || strcmp(type, "function") != 0) {
            api_fail(&x->error, 400, where, "%s: tools of type \"%.60s\" are not supported, only \"function\"", where,
                     type ? type : "");
            x->error.code = "unsupported_parameter";
            return false;
        }
        json_t *function = json_copy(tool);
        json_object_del(function, "type");
        const char *key;
        json_t *field;
        void *next;
        json_object_foreach_safe(function, next, key, field) if (json_is_null(field)) json_object_del(function, key);
        json_array_append_new(tools, json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    return true;
}

static bool put_tool_choice(exchange *x, json_t *value, json_t *chat)
{
    const char *type = translate_type(value);
    json_t *name = json_object_get(value, "name");
    if (json_is_string(value)) {
        json_object_set(chat, "tool_choice", value);
        return true;
    }
    if (type && strcmp(type, "function") != 0)
        return params_unsupported(x, "tool_choice", "only \"auto\", \"none\", \"required\" and a function's name");
    if (!json_is_string(name))
        return translate_bad(x, "tool_choice", "must be \"auto\", \"none\", \"required\" or name a function");
    json_object_set_new(chat, "tool_choice", json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name));
    return true;
}

static bool put_max(exchange *x, json_t *value, json_t *chat)
{
    if (!json_is_integer(value) || json_integer_value(value) < 1)
        return translate_bad(x, "max_output_tokens", "must be an integer of at least 1");
    json_object_set(chat, "max_tokens", value);
    return true;
}

/* {"type": "json_schema", "name", "schema", "strict"}, which chat completions nest. */
static bool put_text(exchange *x, json_t *value, json_t *chat)
{
    json_t *format = json_object_get(value, "format");
    const char *type = translate_type(format);
    if (!json_is_object(value) || (format && !json_is_null(format) && !type))
        return translate_bad(x, "text.format", "must be an object with a type");
    if (json_object_get(value, "verbosity") && !json_is_null(json_object_get(value, "verbosity")))
        params_warn(x, "text.verbosity: ignored");
    if (!type)
        return true;
    if (strcmp(type, "json_schema") != 0) {
        json_object_set(chat, "response_format", format);
        return true;
    }
    json_t *inner = json_copy(format);
    json_object_del(inner, "type");
    json_object_set_new(chat, "response_format", json_pack("{s:s, s:o}", "type", "json_schema", "json_schema", inner));
    return true;
}

static bool put_reasoning(exchange *x, json_t *value, json_t *chat)
{
    json_t *effort = json_object_get(value, "effort");
    if (!json_is_object(value))
        return translate_bad(x, "reasoning", "must be an object");
    if (!effort || json_is_null(effort))
        return true;
    return translate_effort(x, "reasoning.effort", effort, chat);
}

static bool put_previous(exchange *x, json_t *value, json_t *chat)
{
    (void)value;
    (void)chat;
    return params_unsupported(x, "previous_response_id",
                              "responses are not kept; send the whole conversation as input items, with store false");
}

static bool put_conversation(exchange *x, json_t *value, json_t *chat)
{
    (void)value;
    (void)chat;
    return params_unsupported(x, "conversation", "nothing is kept; send the whole conversation as input items");
}

static bool put_prompt(exchange *x, json_t *value, json_t *chat)
{
    (void)value;
    (void)chat;
    return params_unsupported(x, "prompt", "no prompts are kept here; use instructions and input");
}

static bool put_background(exchange *x, json_t *value, json_t *chat)
{
    (void)chat;
    return params_is_off(value) || params_unsupported(x, "background", "nothing is kept; see the batch endpoints");
}

static bool put_store(exchange *x, json_t *value, json_t *chat)
{
    (void)chat;
    if (json_is_true(value))
        params_warn(x, "store: nothing is kept");
    return json_is_boolean(value) || translate_bad(x, "store", "must be true or false");
}

static bool put_truncation(exchange *x, json_t *value, json_t *chat)
{
    (void)chat;
    const char *word = json_string_value(value);
    return (word && strcmp(word, "disabled") == 0) || params_unsupported(x, "truncation", "only \"disabled\"");
}

static bool put_include(exchange *x, json_t *value, json_t *chat)
{
    (void)chat;
    size_t i;
    json_t *item;
    if (!json_is_array(value))
        return translate_bad(x, "include", "must be an array of strings");
    json_array_foreach(value, i, item)
    {
        const char *word = json_string_value(item);
        if (word && strcmp(word, "reasoning.encrypted_content") == 0)
            ((responses_state *)x->own)->encrypted = true;
        else if (!word || strstr(word, "logprobs"))
            return params_unsupported(x, "include", "only \"reasoning.encrypted_content\"");
    } /* others are of tools that are not here */
    return true;
}

static bool put_stream_options(exchange *x, json_t *value, json_t *chat)
{
    (void)chat;
    return json_is_object(value) || translate_bad(x, "stream_options", "must be an object");
}

static const translate_field fields[] = {
    {"input", NULL},
    {"instructions", NULL},
    {"max_tool_calls", NULL},
    {"tools", put_tools},
    {"tool_choice", put_tool_choice},
    {"max_output_tokens", put_max},
    {"text", put_text},
    {"reasoning", put_reasoning},
    {"previous_response_id", put_previous},
    {"conversation", put_conversation},
    {"prompt", put_prompt},
    {"background", put_background},
    {"store", put_store},
    {"truncation", put_truncation},
    {"include", put_include},
    {"stream_options", put_stream_options},
    {NULL, NULL},
};

json_t *responses_to_chat(exchange *x, json_t *body)
{
    json_t *chat = json_object();
    reader r = {.x = x, .messages = json_array()};
    json_object_set_new(chat, "messages", r.messages);
    if (add_instructions(&r, json_object_get(body, "instructions")) && add_input(&r, json_object_get(body, "input")) &&
        translate_fields(x, body, fields, chat))
        return chat;
    json_decref(chat);
    return NULL;
}
