/* text/chat_json.c: integers over 64 bits past jansson: 12345678901234567890 is read as
 * "\u0000int:12345678901234567890". */
#include "text/chat_json.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"

enum { DIGITS_MAX = 4300 }; /* as Python: longer ones are refused when printed */

static const char mark[] = "\0int:"; /* a NUL in front: no sane text starts so */
enum { MARK_SIZE = sizeof mark - 1 };

static bool is_number_byte(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/* An integer by its spelling, and too large for 64 bits. */
static bool is_big_integer(span number)
{
    size_t sign = number.size && number.data[0] == '-';
    char digits[24];
    if (number.size - sign < 19 || number.size > DIGITS_MAX || number.data[sign] == '0')
        return false;
    for (size_t i = sign; i < number.size; i++)
        if (number.data[i] < '0' || number.data[i] > '9')
            return false;
    if (number.size >= sizeof digits)
        return true;
    memcpy(digits, number.data, number.size);
    digits[number.size] = 0;
    errno = 0;
    (void)strtoll(digits, NULL, 10);
    return errno == ERANGE;
}

static size_t string_end(span text, size_t at)
{
    for (at++; at < text.size && text.data[at] != '"'; at++)
        if (text.data[at] == '\\')
            at++;
    return at < text.size ? at + 1 : text.size;
}

/* The text with its large integers as marked strings; nothing is written when there are none. */
static void mark_integers(span text, buf *out)
{
    size_t copied = 0;
    for (size_t at = 0; at < text.size;) {
        if (text.data[at] == '"') {
            at = string_end(text, at);
            continue;
        }
        size_t start = at;
        while (at < text.size && is_number_byte(text.data[at]))
            at++;
        span number = span_of(text.data + start, at - start);
        if (number.size && is_big_integer(number)) {
            buf_append(out, text.data + copied, start - copied);
            buf_text(out, "\"\\u0000int:");
            buf_append(out, number.data, number.size);
            buf_byte(out, '"');
            copied = at;
        }
        at += at == start;
    }
    if (copied)
        buf_append(out, text.data + copied, text.size - copied);
}

json_t *chat_json_load(span text, size_t flags, json_error_t *where)
{
    buf marked = {0};
    mark_integers(text, &marked);
    span source = marked.size && !marked.failed ? buf_span(&marked) : text;
    json_t *json = json_loadb(source.data ? source.data : "", source.size, flags | JSON_ALLOW_NUL, where);
    buf_free(&marked);
    return json;
}

span chat_json_big_integer(span text)
{
    if (text.size <= MARK_SIZE || memcmp(text.data, mark, MARK_SIZE))
        return (span){0};
    span digits = span_of(text.data + MARK_SIZE, text.size - MARK_SIZE);
    return is_big_integer(digits) ? digits : (span){0};
}
