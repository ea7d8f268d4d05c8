/* server/api/anthropic_request.c: a Messages request as a chat completion's. Texts of a user's message are joined by
 * line ends, those of an answer by nothing; results of tools become messages of their own. What a client adds for
 * Anthropic's cache alone (cache_control) is dropped: it moves from turn to turn. */
#include <stdio.h>
#include <strings.h>

#include "server/api/anthropic.h"
#include "server/api/params.h"
#include "server/api/translate.h"

typedef struct {
    exchange *x;
    json_t *messages; /* of the chat */
    size_t index;     /* of the message that is read */
} reader;

static bool bad_block(reader *r, size_t block, const char *what)
{
    char where[64];
    snprintf(where, sizeof where, "messages.%zu.content.%zu", r->index, block);
    return translate_bad(r->x, where, what);
}

static bool bad_message(reader *r, const char *what)
{
    char where[64];
    snprintf(where, sizeof where, "messages.%zu", r->index);
    return translate_bad(r->x, where, what);
}

static bool unsupported_block(reader *r, size_t block, const char *type)
{
    char what[120];
    snprintf(what, sizeof what, "blocks of type \"%.40s\" are not supported here, this model reads text", type);
    bad_block(r, block, what);
    r->x->error.code = "unsupported_parameter";
    return false;
}

/* The text of a block that is one: of a text, or of a document of plain text; NULL: it is none. */
static json_t *text_of(json_t *block)
{
    const char *type = translate_type(block);
    json_t *text = NULL, *source = json_object_get(block, "source");
    if (type && strcmp(type, "text") == 0)
        text = json_object_get(block, "text");
    else if (type && strcmp(type, "document") == 0 && translate_type(source) &&
             strcmp(translate_type(source), "text") == 0)
        text = json_object_get(source, "data");
    return json_is_string(text) ? text : NULL;
}

static bool add_text(reader *r, size_t index, json_t *block, const char *between, buf *out)
{
    json_t *text = text_of(block);
    const char *type = translate_type(block);
    if (!type)
        return bad_block(r, index, "a content block is an object with a type");
    if (!text)
        return strcmp(type, "text") == 0 ? bad_block(r, index, "text must be a string")
                                         : unsupported_block(r, index, type);
    if (out->size)
        buf_text(out, between);
    buf_append(out, json_string_value(text), json_string_length(text));
    return true;
}

/* ---- messages ---- */

static bool add_result(reader *r, size_t index, json_t *block)
{
    json_t *id = json_object_get(block, "tool_use_id"), *content = json_object_get(block, "content"), *part;
    buf text = {0};
    bool ok = true;
    size_t i;
    if (!json_is_string(id))
        return bad_block(r, index, "tool_use_id must be a string");
    if (json_is_true(json_object_get(block, "is_error")))
        buf_text(&text, "Error: ");
    if (json_is_string(content))
        buf_append(&text, json_string_value(content), json_string_length(content));
    else if (content && !json_is_null(content) && !json_is_array(content))
        ok = bad_block(r, index, "the content of a tool_result must be a string or an array of blocks");
    json_array_foreach(content, i, part) ok = ok && add_text(r, index, part, "\n", &text);
    if (ok)
        json_array_append_new(r->messages, json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content",
                                                     translate_text(&text)));
    buf_free(&text);
    return ok;
}

static void flush_text(reader *r, const char *role, buf *text)
{
    if (text->size)
        translate_add(r->messages, role, translate_text(text));
    buf_clear(text);
}

static bool add_user(reader *r, const char *role, json_t *content)
{
    buf text = {0};
    bool ok = true;
    size_t i, before = json_array_size(r->messages);
    json_t *block;
    json_array_foreach(content, i, block)
    {
        const char *type = translate_type(block);
        if (type && strcmp(type, "tool_result") == 0) {
            flush_text(r, role, &text);
            ok = add_result(r, i, block);
        } else {
            ok = add_text(r, i, block, "\n", &text);
        }
        if (!ok)
            break;
    }
    flush_text(r, role, &text);
    buf_free(&text);
    if (ok && json_array_size(r->messages) == before)
        translate_add(r->messages, role, json_string(""));
    return ok;
}

static bool add_use(reader *r, size_t index, json_t *block, json_t *calls)
{
    const char *id = json_string_value(json_object_get(block, "id"));
    const char *name = json_string_value(json_object_get(block, "name"));
    json_t *input = json_object_get(block, "input");
    if (!id || !name || !json_is_object(input))
        return bad_block(r, index, "a tool_use needs an id, a name, and an input that is an object");
    json_array_append_new(calls, translate_call(id, name, input));
    return true;
}

static bool add_answer_block(reader *r, size_t i, json_t *block, buf *text, buf *thought, json_t *calls)
{
    const char *type = translate_type(block);
    json_t *said = json_object_get(block, "thinking");
    if (type && strcmp(type, "tool_use") == 0)
        return add_use(r, i, block, calls);
    if (type && strcmp(type, "redacted_thinking") == 0)
        return true;
    if (!type || strcmp(type, "thinking") != 0)
        return add_text(r, i, block, "", text);
    if (!json_is_string(said))
        return bad_block(r, i, "thinking must be a string");
    buf_append(thought, json_string_value(said), json_string_length(said));
    return true;
}

static bool add_answer(reader *r, json_t *content)
{
    buf text = {0}, thought = {0};
    json_t *calls = json_array(), *block, *message = json_pack("{s:s}", "role", "assistant");
    bool ok = true;
    size_t i;
    json_array_foreach(content, i, block) ok = ok && add_answer_block(r, i, block, &text, &thought, calls);
    json_object_set_new(message, "content", translate_text(&text));
    if (thought.size)
        json_object_set_new(message, "reasoning_content", translate_text(&thought));
    if (json_array_size(calls))
        json_object_set(message, "tool_calls", calls);
    json_array_append_new(r->messages, message);
    json_decref(calls);
    buf_free(&text);
    buf_free(&thought);
    return ok;
}

static bool add_message(reader *r, json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    json_t *content = json_object_get(message, "content");
    if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 && strcmp(role, "system") != 0))
        return bad_message(r, "role must be \"user\" or \"assistant\"");
    if (json_is_string(content)) {
        translate_add(r->messages, role, json_incref(content));
        return true;
    }
    if (!json_is_array(content))
        return bad_message(r, "content must be a string or an array of blocks");
    return strcmp(role, "assistant") == 0 ? add_answer(r, content) : add_user(r, role, content);
}

/* A last message of the assistant's is the beginning of the answer. */
static bool begins_with_text(reader *r, json_t *content)
{
    size_t i;
    json_t *block;
    json_array_foreach(content, i, block) if (!text_of(block)) return bad_block(
        r, i, "the last message begins the answer, which it can do with text only");
    return true;
}

/* *begun: the last one is the assistant's. */
static bool add_messages(reader *r, json_t *messages, bool *begun)
{
    json_t *message, *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    if (!json_is_array(messages) || !json_array_size(messages))
        return translate_bad(r->x, "messages", "must be an array of at least one message");
    json_array_foreach(messages, r->index, message) if (!add_message(r, message)) return false;
    r->index = json_array_size(messages) - 1;
    *begun = role && strcmp(role, "assistant") == 0;
    return !*begun || begins_with_text(r, json_object_get(last, "content"));
}

/* Claude Code's first block says whom to bill, differs in every request, and would undo the cache. */
static bool is_billing(json_t *block)
{
    static const char mark[] = "x-anthropic-billing-header";
    const char *text = json_string_value(json_object_get(block, "text"));
    return text && strncasecmp(text, mark, sizeof mark - 1) == 0;
}

static bool add_system(reader *r, json_t *system)
{
    buf text = {0};
    size_t i;
    json_t *block;
    bool ok = true;
    if (!system || json_is_null(system))
        return true;
    if (json_is_string(system))
        buf_append(&text, json_string_value(system), json_string_length(system));
    else if (!json_is_array(system))
        return translate_bad(r->x, "system", "must be a string or an array of text blocks");
    json_array_foreach(system, i, block)
    {
        if (!text_of(block))
            ok = translate_bad(r->x, "system", "must be a string or an array of text blocks");
        else if (!is_billing(block))
            ok = ok && add_text(r, i, block, "\n", &text);
    }
    if (ok)
        flush_text(r, "system", &text);
    buf_free(&text);
    return ok;
}

/* ---- fields ---- */

static bool put_tool(exchange *x, size_t i, json_t *tool, json_t *tools)
{
    char where[32];
    const char *type = translate_type(tool), *name = json_string_value(json_object_get(tool, "name"));
    json_t *schema = json_object_get(tool, "input_schema"), *words = json_object_get(tool, "description");
    snprintf(where, sizeof where, "tools.%zu", i);
    if (type && strcmp(type, "custom") != 0) {
        api_fail(&x->error, 400, where, "%s: tools of type \"%.60s\" are not supported, only the client's own", where,
                 type);
        x->error.code = "unsupported_parameter";
        return false;
    }
    if (!name || !json_is_object(schema))
        return translate_bad(x, where, "a tool needs a name, and an input_schema that is an object");
    json_t *function = json_pack("{s:s}", "name", name);
    if (json_is_string(words))
        json_object_set(function, "description", words);
    json_object_set(function, "parameters", schema);
    if (json_is_true(json_object_get(tool, "strict")))
        json_object_set_new(function, "strict", json_true());
    json_array_append_new(tools, json_pack("{s:s, s:o}", "type", "function", "function", function));
    return true;
}

static bool put_tools(exchange *x, json_t *value, json_t *chat)
{
    json_t *tools = json_array(), *tool;
    size_t i;
    if (!json_is_array(value)) {
        json_decref(tools);
        return translate_bad(x, "tools", "must be an array");
    }
    json_object_set_new(chat, "tools", tools);
    json_array_foreach(value, i, tool) if (!put_tool(x, i, tool, tools)) return false;
    return true;
}

static bool put_tool_choice(exchange *x, json_t *value, json_t *chat)
{
    const char *type = translate_type(value), *name = json_string_value(json_object_get(value, "name"));
    json_t *choice = NULL;
    if (type && (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0))
        choice = json_string(type);
    else if (type && strcmp(type, "any") == 0)
        choice = json_string("required");
    else if (type && strcmp(type, "tool") == 0 && name)
        choice = json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", name);
    if (!choice)
        return translate_bad(x, "tool_choice", "must be of type \"auto\", \"any\", \"none\", or \"tool\" with a name");
    json_object_set_new(chat, "tool_choice", choice);
    if (json_is_true(json_object_get(value, "disable_parallel_tool_use")))
        json_object_set_new(chat, "parallel_tool_calls", json_false());
    return true;
}

static bool put_max_tokens(exchange *x, json_t *value, json_t *chat)
{
    if (!json_is_integer(value) || json_integer_value(value) < 1)
        return translate_bad(x, "max_tokens", "must be an integer of at least 1");
    json_object_set(chat, "max_tokens", value);
    return true;
}

static bool put_stop(exchange *x, json_t *value, json_t *chat)
{
    if (!json_is_array(value))
        return translate_bad(x, "stop_sequences", "must be an array of strings");
    json_object_set(chat, "stop", value);
    return true;
}

static bool put_tier(exchange *x, json_t *value, json_t *chat)
{
    (void)x;
    bool standard = json_is_string(value) && strcmp(json_string_value(value), "standard_only") == 0;
    json_object_set_new(chat, "service_tier", standard ? json_string("default") : json_incref(value));
    return true;
}

static bool put_output(exchange *x, json_t *value, json_t *chat)
{
    json_t *effort = json_object_get(value, "effort"), *format = json_object_get(value, "format");
    if (!json_is_object(value))
        return translate_bad(x, "output_config", "must be an object");
    if (effort && !json_is_null(effort) && !translate_effort(x, "output_config.effort", effort, chat))
        return false;
    if (!format || json_is_null(format))
        return true;
    json_t *schema = json_object_get(format, "schema");
    if (!translate_type(format) || strcmp(translate_type(format), "json_schema") != 0 || !json_is_object(schema))
        return translate_bad(x, "output_config.format", "must be of type \"json_schema\", with a schema");
    json_object_set_new(chat, "response_format",
                        json_pack("{s:s, s:{s:s, s:b, s:O}}", "type", "json_schema", "json_schema", "name", "answer",
                                  "strict", 1, "schema", schema));
    return true;
}

static bool refuse(exchange *x, const char *name, json_t *value)
{
    return params_is_off(value) || params_unsupported(x, name, "nothing is run on the server");
}

static bool refuse_servers(exchange *x, json_t *value, json_t *chat)
{
    (void)chat;
    return refuse(x, "mcp_servers", value);
}

static bool refuse_container(exchange *x, json_t *value, json_t *chat)
{
    (void)chat;
    return refuse(x, "container", value);
}

static const translate_field fields[] = {
    {"system", NULL},
    {"messages", NULL},
    {"thinking", NULL},
    {"cache_control", NULL},
    {"max_tokens", put_max_tokens},
    {"tools", put_tools},
    {"tool_choice", put_tool_choice},
    {"stop_sequences", put_stop},
    {"service_tier", put_tier},
    {"output_config", put_output},
    {"mcp_servers", refuse_servers},
    {"container", refuse_container},
    {NULL, NULL},
};

/* "adaptive" is as long as the model likes. Without the field models do not think, where the template has a switch. */
static bool put_thinking(exchange *x, json_t *value, json_t *chat)
{
    const char *type = translate_type(value);
    uint64_t budget = 0;
    if (!value || json_is_null(value)) {
        translate_set_kwarg(chat, "enable_thinking", json_false());
        translate_set_kwarg(chat, "thinking", json_false());
        return true;
    }
    if (type && strcmp(type, "adaptive") == 0) {
        json_object_set_new(chat, "thinking", json_pack("{s:s}", "type", "enabled"));
        return true;
    }
    if (!type || (strcmp(type, "enabled") != 0 && strcmp(type, "disabled") != 0))
        return translate_bad(x, "thinking", "must be of type \"enabled\", \"adaptive\" or \"disabled\"");
    if (*type == 'e' &&
        !params_read_uint(x, "thinking.budget_tokens", json_object_get(value, "budget_tokens"), 1, INT32_MAX, &budget))
        return false;
    json_object_set(chat, "thinking", value);
    return true;
}

/* Whoever begins the answer leaves the model no place to think before it. */
static bool put_begun(reader *r, bool begun, json_t *chat)
{
    const char *thinking = translate_type(json_object_get(chat, "thinking"));
    if (!begun)
        return true;
    if (thinking && strcmp(thinking, "disabled") != 0)
        return bad_message(r, "the last message must be the user's when thinking is on");
    json_object_set_new(chat, "continue_final_message", json_true());
    return true;
}

json_t *anthropic_to_chat(exchange *x, json_t *body)
{
    json_t *chat = json_object();
    reader r = {.x = x, .messages = json_array()};
    bool begun = false;
    json_object_set_new(chat, "messages", r.messages);
    if (add_system(&r, json_object_get(body, "system")) &&
        add_messages(&r, json_object_get(body, "messages"), &begun) && translate_fields(x, body, fields, chat) &&
        put_thinking(x, json_object_get(body, "thinking"), chat) && put_begun(&r, begun, chat))
        return chat;
    json_decref(chat);
    return NULL;
}
