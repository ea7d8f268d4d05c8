/* server/json_text.c: JSON by hand. */
#include "server/json_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* Bytes of the well-formed UTF-8 character at text[at], 0 if there is none. */
static size_t character_size(span text, size_t at)
{
    const unsigned char *p = (const unsigned char *)text.data + at;
    size_t left = text.size - at;
    size_t size = p[0] < 0x80                   ? 1
                  : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                  : (p[0] & 0xf0) == 0xe0       ? 3
                  : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                                : 0;
    if (size == 0 || size > left)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool wrong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) || (p[0] == 0xf0 && p[1] < 0x90) ||
                 (p[0] == 0xf4 && p[1] >= 0x90);
    return wrong ? 0 : size;
}

static void escape_byte(buf *out, unsigned char c)
{
    static const char *const names = "btn?fr"; /* 8, 9, 10, -, 12, 13 */
    if (c == '"' || c == '\\') {
        buf_byte(out, '\\');
        buf_byte(out, (char)c);
    } else if (c >= 8 && c <= 13 && c != 11) {
        buf_byte(out, '\\');
        buf_byte(out, names[c - 8]);
    } else {
        buf_printf(out, "\\u%04x", c);
    }
}

void json_text_string(buf *out, span text)
{
    buf_byte(out, '"');
    size_t start = 0, at = 0;
    while (at < text.size) {
        unsigned char c = (unsigned char)text.data[at];
        size_t size = c < 0x80 ? 1 : character_size(text, at);
        if (size && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            at += size;
            continue;
        }
        buf_append(out, text.data + start, at - start);
        if (size)
            escape_byte(out, c);
        else
            buf_text(out, "\xef\xbf\xbd");
        start = ++at;
    }
    if (at > start)
        buf_append(out, text.data + start, at - start);
    buf_byte(out, '"');
}

void json_text_number(buf *out, double value)
{
    if (isfinite(value))
        buf_printf(out, "%.9g", value);
    else
        buf_text(out, "null");
}

static const char *default_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    case 500:
        return "server_error";
    case 501:
        return "not_supported_error";
    case 503:
        return "unavailable_error";
    default:
        return "invalid_request_error";
    }
}

bool api_fail(api_error *e, int status, const char *param, const char *format, ...)
{
    if (e->status)
        return false;
    va_list args;
    va_start(args, format);
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    e->status = status;
    e->type = default_type(status);
    return false;
}

void api_error_write(const api_error *e, buf *out)
{
    buf_text(out, "{\"error\":{\"message\":");
    json_text_string(out, span_from(e->message));
    buf_text(out, ",\"type\":");
    json_text_string(out, span_from(e->type));
    buf_text(out, ",\"code\":");
    if (e->code)
        json_text_string(out, span_from(e->code));
    else
        buf_text(out, "null");
    buf_text(out, ",\"param\":");
    if (e->param[0])
        json_text_string(out, span_from(e->param));
    else
        buf_text(out, "null");
    if (e->has_sizes)
        buf_printf(out, ",\"n_prompt_tokens\":%llu,\"n_ctx\":%llu", (unsigned long long)e->prompt_tokens,
                   (unsigned long long)e->context);
    buf_text(out, "}}");
}

void api_request_id_headers(const char *request_id, buf *out)
{
    if (request_id[0])
        buf_printf(out, "x-request-id: %s\r\nrequest-id: %s\r\n", request_id, request_id);
}

void api_error_headers(const api_error *e, buf *out)
{
    if (e->retry_after)
        buf_printf(out, "Retry-After: %u\r\n", e->retry_after);
    if (e->status == 401)
        buf_text(out, "WWW-Authenticate: Bearer\r\n");
    if (e->dropped && e->code)
        buf_printf(out, "x-llm-d-request-dropped-reason: %s\r\n", e->code);
}
