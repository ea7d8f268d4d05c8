/* model/file/safetensors_json.c: a scanner over JSON text; nothing is built, so nothing can grow. */
#include "model/file/safetensors.h"

enum { NESTING_MAX = 64 };

static void skip_blanks(json_scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

bool scan_take(json_scan *s, char c)
{
    skip_blanks(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

bool scan_end(json_scan *s)
{
    skip_blanks(s);
    return s->at == s->end;
}

/* From after the opening quote to after the closing one. */
static bool skip_string(json_scan *s, bool *escapes)
{
    for (*escapes = false; s->at < s->end; s->at++) {
        if (*s->at == '"') {
            s->at++;
            return true;
        }
        if ((unsigned char)*s->at < 0x20)
            return false;
        if (*s->at == '\\') {
            *escapes = true;
            if (++s->at == s->end)
                return false;
        }
    }
    return false;
}

bool scan_string(json_scan *s, span *out)
{
    bool escapes;
    if (!scan_take(s, '"'))
        return false;
    const char *first = s->at;
    if (!skip_string(s, &escapes) || escapes)
        return false;
    *out = span_of(first, (size_t)(s->at - 1 - first));
    return true;
}

bool scan_u64(json_scan *s, uint64_t *out)
{
    skip_blanks(s);
    const char *first = s->at;
    uint64_t value = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*s->at - '0'), &value))
            return false;
    if (s->at == first || (*first == '0' && s->at - first > 1))
        return false;
    if (s->at < s->end && (*s->at == '.' || *s->at == 'e' || *s->at == 'E'))
        return false;
    *out = value;
    return true;
}

/* A number, true, false or null: its characters are enough here, nobody looks at what they say. */
static bool skip_word(json_scan *s)
{
    const char *first = s->at;
    while (s->at < s->end && ((*s->at >= '0' && *s->at <= '9') || (*s->at >= 'a' && *s->at <= 'z') || *s->at == '-' ||
                              *s->at == '+' || *s->at == '.' || *s->at == 'E'))
        s->at++;
    return s->at > first;
}

bool scan_skip(json_scan *s)
{
    char closers[NESTING_MAX];
    uint32_t depth = 0;
    bool escapes, comma = false; /* the last thing was a comma: a value must follow */
    for (;;) {
        skip_blanks(s);
        if (s->at == s->end)
            return false;
        if (depth && !comma && *s->at == closers[depth - 1]) {
            s->at++;
            depth--;
        } else if (*s->at == '{' || *s->at == '[') {
            if (depth == NESTING_MAX)
                return false;
            closers[depth++] = *s->at++ == '{' ? '}' : ']';
            skip_blanks(s);
            comma = false;
            if (s->at < s->end && *s->at == closers[depth - 1])
                continue;
            if (closers[depth - 1] == '}' && (!scan_take(s, '"') || !skip_string(s, &escapes) || !scan_take(s, ':')))
                return false;
            comma = true;
            continue;
        } else if (*s->at == '"') {
            s->at++;
            if (!skip_string(s, &escapes))
                return false;
        } else if (!skip_word(s)) {
            return false;
        }
        comma = false;
        if (!depth)
            return true;
        if (!scan_take(s, ','))
            continue;
        if (closers[depth - 1] == '}' && (!scan_take(s, '"') || !skip_string(s, &escapes) || !scan_take(s, ':')))
            return false;
        comma = true;
    }
}
