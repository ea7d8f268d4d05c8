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

query_result query_number(span query, const char *name, uint64_t *out)
{
    size_t name_size = strlen(name);
    for (size_t at = 0; at < query.size;) {
        const char *end = memchr(query.data + at, '&', query.size - at);
        size_t size = end ? (size_t)(end - query.data) - at : query.size - at;
        if (size > name_size && memcmp(query.data + at, name, name_size) == 0 && query.data[at + name_size] == '=')
            return read_digits(span_of(query.data + at + name_size + 1, size - name_size - 1), out);
        at += size + 1;
    }
    return QUERY_ABSENT;
}
