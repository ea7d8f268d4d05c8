/* server/api/begun_answer.c: see begun_answer.h. To render with the message and to cut behind its text would be another
 * way, but templates trim, and some write a thought before it: what the model has seen in training is what it opens the
 * answer with itself. */
#include "server/api/begun_answer.h"

#include <stdlib.h>

#include "server/api/params.h"

static bool refuse(exchange *x, const char *why)
{
    return api_fail(&x->error, 400, "messages", "the last message begins the answer: %s", why);
}

/* The text of a message: a string, or its parts together; NULL: there is something else in it. */
static json_t *text_of(json_t *message)
{
    json_t *content = json_object_get(message, "content"), *part;
    buf text = {0};
    size_t i;
    bool good = json_is_array(content);
    if (json_is_string(content))
        return json_incref(content);
    json_array_foreach(content, i, part)
    {
        json_t *one = json_object_get(part, "text");
        good = good && json_is_string(one);
        buf_append(&text, good ? json_string_value(one) : "", good ? json_string_length(one) : 0);
    }
    json_t *joined = good ? json_stringn(text.data ? text.data : "", text.size) : NULL;
    buf_free(&text);
    return joined;
}

static bool holds(json_t *message, const char *name)
{
    json_t *value = json_object_get(message, name);
    return value && !params_is_off(value);
}

bool begun_answer_take(exchange *x, json_t *body, json_t *messages, json_t **out)
{
    json_t *wanted = json_object_get(body, "continue_final_message");
    bool begun = false;
    *out = NULL;
    if (wanted && !json_is_null(wanted) && !params_read_bool(x, "continue_final_message", wanted, &begun))
        return false;
    if (!begun)
        return true;
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    if (!role || strcmp(role, "assistant") != 0)
        return api_fail(&x->error, 400, "continue_final_message",
                        "continue_final_message: the last message must be the assistant's");
    if (json_array_size(messages) < 2)
        return refuse(x, "another must stand before it");
    if (holds(last, "tool_calls") || holds(last, "reasoning_content") || holds(last, "reasoning") ||
        holds(last, "thinking"))
        return refuse(x, "with text only");
    if (x->plan.output.must_call || x->plan.grammar)
        return refuse(x, "an answer of a given form cannot be begun");
    *out = text_of(last);
    if (!*out)
        return refuse(x, "with text only");
    json_array_remove(messages, json_array_size(messages) - 1);
    return true;
}

bool begun_answer_append(exchange *x, json_t *begun, render_result *rendered)
{
    size_t size = json_string_length(begun), count = rendered->range_count;
    if (!size)
        return true;
    render_range *ranges = realloc(rendered->ranges, (count + 1) * sizeof *ranges);
    if (!ranges)
        return api_fail(&x->error, 503, NULL, "out of memory");
    rendered->ranges = ranges;
    rendered->range_capacity = count + 1;
    ranges[rendered->range_count++] = (render_range){rendered->text.size, size, false};
    buf_append(&rendered->text, json_string_value(begun), size);
    return !rendered->text.failed || refuse(x, "the prompt is too long");
}
