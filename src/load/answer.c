/* load/answer.c: events to deltas, by jansson. */
#include "load/answer.h"

#include <jansson.h>
#include <stdio.h>

static uint32_t count_of(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 && value < UINT32_MAX ? (uint32_t)value : 0;
}

static void take_usage(answer_stream *a, const json_t *usage)
{
    if (!json_is_object(usage))
        return;
    a->usage.seen = true;
    a->usage.prompt_tokens = count_of(usage, "prompt_tokens");
    a->usage.completion_tokens = count_of(usage, "completion_tokens");
    a->usage.cached_tokens = count_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
}

static bool give_text(answer_stream *a, const json_t *object, const char *key)
{
    const json_t *text = json_object_get(object, key);
    if (!json_is_string(text) || json_string_length(text) == 0)
        return false;
    a->on_text(a->context, span_of(json_string_value(text), json_string_length(text)));
    return true;
}

static void take_choice(answer_stream *a, const json_t *choice)
{
    static const char *const keys[] = {"content", "reasoning_content", "reasoning"};
    const json_t *delta = json_object_get(choice, "delta");
    bool given = give_text(a, choice, "text");
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !given; i++)
        given = give_text(a, delta, keys[i]);
    const char *finish = json_string_value(json_object_get(choice, "finish_reason"));
    if (finish)
        snprintf(a->finish, sizeof a->finish, "%s", finish);
}

static void take_event(void *context, span data)
{
    answer_stream *a = context;
    if (span_is(data, "[DONE]")) {
        a->done = true;
        return;
    }
    json_t *event = json_loadb(data.data, data.size, JSON_ALLOW_NUL, NULL);
    if (!event) {
        snprintf(a->problem, sizeof a->problem, "an event of the stream is not JSON");
        return;
    }
    const json_t *trouble = json_object_get(event, "error");
    if (json_is_object(trouble)) {
        const char *words = json_string_value(json_object_get(trouble, "message"));
        snprintf(a->problem, sizeof a->problem, "%s", words ? words : "an error without a message");
    }
    take_choice(a, json_array_get(json_object_get(event, "choices"), 0));
    take_usage(a, json_object_get(event, "usage"));
    json_decref(event);
}

void answer_open(answer_stream *a)
{
    a->sse = (sse_parser){.on_event = take_event, .context = a};
}

void answer_push(answer_stream *a, span bytes)
{
    sse_push(&a->sse, bytes);
    if (a->sse.failed)
        snprintf(a->problem, sizeof a->problem, "an event of the stream is longer than %d bytes", SSE_EVENT_MAX);
}

void answer_free(answer_stream *a)
{
    sse_free(&a->sse);
}

void answer_error_reason(span body, char *reason, size_t reason_size, char *message, size_t message_size)
{
    json_t *root = json_loadb(body.data ? body.data : "", body.size, JSON_ALLOW_NUL, NULL);
    const json_t *trouble = json_object_get(root, "error");
    const char *code = json_string_value(json_object_get(trouble, "code"));
    const char *type = json_string_value(json_object_get(trouble, "type"));
    const char *words = json_string_value(json_object_get(trouble, "message"));
    snprintf(reason, reason_size, "%s", code ? code : type ? type : "");
    snprintf(message, message_size, "%s", words ? words : json_is_string(trouble) ? json_string_value(trouble) : "");
    json_decref(root);
}
