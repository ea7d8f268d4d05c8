/* server/api/shared_prefix.c: the template says which bytes came from the request, not from which message: the range
 * that is the user's text, or ends with it, is looked for. A wrong guess costs a checkpoint in the wrong place. */
#include "server/api/shared_prefix.h"

static bool has_role(json_t *message, const char *role)
{
    const char *own = json_string_value(json_object_get(message, "role"));
    return own && strcmp(own, role) == 0;
}

bool messages_continue(json_t *messages)
{
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message) if (has_role(message, "assistant")) return true;
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static span trimmed(span text) /* many templates do so */
{
    while (text.size && is_blank(text.data[0]))
        text = span_of(text.data + 1, text.size - 1);
    while (text.size && is_blank(text.data[text.size - 1]))
        text.size--;
    return text;
}

static span text_of(json_t *message)
{
    json_t *content = json_object_get(message, "content");
    if (json_is_array(content))
        content = json_object_get(json_array_get(content, 0), "text");
    return trimmed(span_of(json_string_value(content), json_string_length(content)));
}

size_t shared_prefix_bytes(json_t *messages, const render_result *rendered)
{
    span wanted = {0};
    size_t i, same = 0, ending = 0;
    json_t *message;
    json_array_foreach(messages, i, message)
    {
        wanted = text_of(message);
        if (has_role(message, "user"))
            break;
    }
    if (!wanted.size || i == json_array_size(messages))
        return 0;
    for (size_t k = 0; k < i; k++) /* a system prompt may say the same words */
        same += span_equal(text_of(json_array_get(messages, k)), wanted);
    for (size_t k = 0; k < rendered->range_count; k++) {
        const render_range *range = &rendered->ranges[k];
        span text = span_of(rendered->text.data + range->offset, range->size), core = trimmed(text);
        if (range->trusted || core.size < wanted.size)
            continue;
        size_t before = core.size - wanted.size;
        if (before == 0 && span_equal(core, wanted)) {
            if (same-- == 0)
                return range->offset + (size_t)(core.data - text.data);
        } else if (!ending && memcmp(core.data + before, wanted.data, wanted.size) == 0) {
            ending = range->offset + (size_t)(core.data - text.data) + before;
        }
    }
    return ending;
}

uint32_t shared_prefix_tokens(const tokenizer *t, const token_list *tokens, size_t bytes)
{
    detokenizer d = {.keep_specials = true};
    buf text = {0};
    size_t seen = 0;
    uint32_t count = 0;
    while (count < tokens->count && seen < bytes) {
        detokenizer_push(&d, t, tokens->ids[count], &text);
        seen += text.size;
        text.size = 0;
        if (seen + d.held_size > bytes)
            break;
        count++;
    }
    buf_free(&text);
    return count;
}
