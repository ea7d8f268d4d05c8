/* server/debug/query.c: see query.h. */
#include "server/debug/query.h"

static query_result read_digits(span text, uint64_t *out)
{
    uint64_t value = 0;
    if (!text.size)
        return QUERY_WRONG;
    for (size_t i = 0; i < text.size; i++) {
        uint64_t digit = (uint64_t)(text.data[i] - '0');
        if (text.data[i] < '0' || text.data[i] > '9' || value > (UINT64_MAX - digit) / 10)
            return QUERY_WRONG;
        value = value * 10 + digit;
    }
    *out = value;
    return QUERY_NUMBER;
}

/* NULL data: it is not there. */
static span find_value(span query, const char *name)
{
    size_t name_size = strlen(name);
    for (size_t at = 0; at < query.size;) {
        const char *end = memchr(query.data + at, '&', query.size - at);
        size_t size = end ? (size_t)(end - query.data) - at : query.size - at;
        if (size > name_size && memcmp(query.data + at, name, name_size) == 0 && query.data[at + name_size] == '=')
            return span_of(query.data + at + name_size + 1, size - name_size - 1);
        at += size + 1;
    }
    return (span){0};
}

query_result query_number(span query, const char *name, uint64_t *out)
{
    span value = find_value(query, name);
    return value.data ? read_digits(value, out) : QUERY_ABSENT;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

query_result query_text(span query, const char *name, char *out, size_t size)
{
    span value = find_value(query, name);
    size_t count = 0;
    if (!value.data)
        return QUERY_ABSENT;
    for (size_t i = 0; i < value.size; i++) {
        int c = (unsigned char)value.data[i];
        if (c == '%') {
            int high = value.size - i > 2 ? hex_digit(value.data[i + 1]) : -1;
            int low = value.size - i > 2 ? hex_digit(value.data[i + 2]) : -1;
            c = high < 0 || low < 0 ? 0 : high * 16 + low;
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        if (c < ' ' || c == 0x7f || count + 1 >= size)
            return QUERY_WRONG;
        out[count++] = (char)c;
    }
    out[count] = 0;
    return count ? QUERY_TEXT : QUERY_WRONG;
}
