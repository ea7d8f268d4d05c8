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

/* Where `wanted` lies at the end of a range from *from on, which moves behind that range; false: nowhere. */
static bool find_text(const render_result *rendered, span wanted, size_t *from, size_t *offset)
{
    for (size_t k = *from; k < rendered->range_count; k++) {
        const render_range *range = &rendered->ranges[k];
        span text = span_of(rendered->text.data + range->offset, range->size), core = trimmed(text);
        if (range->trusted || core.size < wanted.size)
            continue;
        size_t before = core.size - wanted.size;
        if (memcmp(core.data + before, wanted.data, wanted.size) != 0)
            continue;
        *offset = range->offset + (size_t)(core.data - text.data) + before;
        *from = k + 1;
        return true;
    }
    return false;
}

uint32_t turn_bytes(json_t *messages, const render_result *rendered, size_t out[TURN_MARKS_MAX])
{
    uint32_t count = 0;
    size_t i, from = 0, offset;
    json_t *message;
    json_array_foreach(messages, i, message)
    {
        span wanted = text_of(message);
        if (!wanted.size || !find_text(rendered, wanted, &from, &offset))
            continue; /* of every message, so that what follows is looked for behind it */
        if (!has_role(message, "user") && !has_role(message, "tool"))
            continue;
        if (count == TURN_MARKS_MAX)
            memmove(out, out + 1, --count * sizeof *out);
        out[count++] = offset;
    }
    return count;
}

void prefix_tokens(const tokenizer *t, const token_list *tokens, const size_t *bytes, uint32_t count, uint32_t *out)
{
    detokenizer d = {.keep_specials = true};
    buf text = {0};
    size_t seen = 0;
    uint32_t at = 0, next = 0;
    for (; next < count && at < tokens->count; at++) {
        detokenizer_push(&d, t, tokens->ids[at], &text);
        seen += text.size;
        text.size = 0;
        while (next < count && seen + d.held_size > bytes[next])
            out[next++] = at;
    }
    for (; next < count; next++)
        out[next] = at;
    buf_free(&text);
}

uint32_t shared_prefix_tokens(const tokenizer *t, const token_list *tokens, size_t bytes)
{
    uint32_t count = 0;
    if (bytes > 0)
        prefix_tokens(t, tokens, &bytes, 1, &count);
    return count;
}
