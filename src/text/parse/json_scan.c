/* text/parse/json_scan.c: see json_scan.h. */
#include "text/parse/json_scan.h"

#include <stdio.h>

enum { VALUE, FIRST_KEY, KEY, COLON, FIRST_ITEM, AFTER, STRING = JSON_SCAN_IN_STRING, ESCAPE, HEX, LITERAL, NUMBER };
/* What has been read of a number. */
enum { SIGN, ZERO, DIGITS, POINT, FRACTION, EXPONENT, EXPONENT_SIGN, EXPONENT_DIGITS };
enum { IS_KEY = 0x80 }; /* flag on STRING's states: the string is a key */

static bool blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool in_object(const json_scan *j)
{
    uint32_t level = j->depth - 1;
    return j->objects[level / 8] >> (level % 8) & 1;
}

static json_scan_step open_level(json_scan *j, bool object)
{
    if (j->depth == JSON_SCAN_DEPTH)
        return JSON_SCAN_BAD;
    uint32_t level = j->depth++;
    j->objects[level / 8] &= (uint8_t) ~(1u << (level % 8));
    j->objects[level / 8] |= (uint8_t)((unsigned)object << (level % 8));
    j->state = object ? FIRST_KEY : FIRST_ITEM;
    return JSON_SCAN_MORE;
}

static json_scan_step value_ended(json_scan *j)
{
    j->state = AFTER;
    return j->depth ? JSON_SCAN_MORE : JSON_SCAN_END;
}

static json_scan_step close_level(json_scan *j, bool object)
{
    if (in_object(j) != object)
        return JSON_SCAN_BAD;
    j->depth--;
    return value_ended(j);
}

static json_scan_step begin_literal(json_scan *j, const char *literal)
{
    j->state = LITERAL;
    j->literal = literal;
    j->literal_at = 1;
    return JSON_SCAN_MORE;
}

static json_scan_step begin_value(json_scan *j, char c)
{
    j->number = c == '-' ? SIGN : c == '0' ? ZERO : DIGITS;
    if (blank(c))
        return JSON_SCAN_MORE;
    if (c == '{' || c == '[')
        return open_level(j, c == '{');
    if (c == '"') {
        j->state = STRING;
        return JSON_SCAN_MORE;
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        j->state = NUMBER;
        return JSON_SCAN_MORE;
    }
    return c == 't'   ? begin_literal(j, "true")
           : c == 'f' ? begin_literal(j, "false")
           : c == 'n' ? begin_literal(j, "null")
                      : JSON_SCAN_BAD;
}

static json_scan_step push_after(json_scan *j, char c)
{
    if (blank(c))
        return JSON_SCAN_MORE;
    if (!j->depth)
        return JSON_SCAN_BAD;
    if (c == ',') {
        j->state = in_object(j) ? KEY : VALUE;
        return JSON_SCAN_MORE;
    }
    return c == '}' || c == ']' ? close_level(j, c == '}') : JSON_SCAN_BAD;
}

/* The state after `c` in a number; -1: it is none of it. */
static int number_next(uint8_t state, char c)
{
    bool digit = c >= '0' && c <= '9', e = c == 'e' || c == 'E';
    switch (state) {
    case SIGN:
        return c == '0' ? ZERO : digit ? DIGITS : -1;
    case ZERO:
        return c == '.' ? POINT : e ? EXPONENT : -1;
    case DIGITS:
        return digit ? DIGITS : c == '.' ? POINT : e ? EXPONENT : -1;
    case POINT:
        return digit ? FRACTION : -1;
    case FRACTION:
        return digit ? FRACTION : e ? EXPONENT : -1;
    case EXPONENT:
        return c == '+' || c == '-' ? EXPONENT_SIGN : digit ? EXPONENT_DIGITS : -1;
    default:
        return digit ? EXPONENT_DIGITS : -1;
    }
}

static bool number_may_end(uint8_t state)
{
    return state == ZERO || state == DIGITS || state == FRACTION || state == EXPONENT_DIGITS;
}

static json_scan_step push_number(json_scan *j, char c)
{
    int next = number_next(j->number, c);
    if (next >= 0) {
        j->number = (uint8_t)next;
        return JSON_SCAN_MORE;
    }
    if (!number_may_end(j->number))
        return JSON_SCAN_BAD;
    j->state = AFTER;
    return j->depth ? push_after(j, c) : JSON_SCAN_END_BEFORE;
}

static json_scan_step push_string(json_scan *j, char c)
{
    uint8_t key = j->state & IS_KEY;
    if ((unsigned char)c < 0x20) {
        static const char names[] = "btnvfr"; /* 8 to 13, but v is none */
        if (c >= 8 && c <= 13 && c != 11)
            j->out_size = (uint8_t)snprintf(j->out, sizeof j->out, "\\%c", names[c - 8]);
        else
            j->out_size = (uint8_t)snprintf(j->out, sizeof j->out, "\\u%04x", (unsigned)c);
    } else if (c == '\\') {
        j->state = ESCAPE | key;
    } else if (c == '"') {
        if (!key)
            return value_ended(j);
        j->state = COLON;
    }
    return JSON_SCAN_MORE;
}

static json_scan_step push_escape(json_scan *j, char c)
{
    uint8_t key = j->state & IS_KEY;
    if (!c || !strchr("\"\\/bfnrtu", c))
        return JSON_SCAN_BAD;
    j->state = (c == 'u' ? HEX : STRING) | key;
    j->hex = 0;
    return JSON_SCAN_MORE;
}

static json_scan_step push_hex(json_scan *j, char c)
{
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
        return JSON_SCAN_BAD;
    if (++j->hex == 4)
        j->state = STRING | (j->state & IS_KEY);
    return JSON_SCAN_MORE;
}

static json_scan_step push_literal(json_scan *j, char c)
{
    if (j->literal[j->literal_at] != c)
        return JSON_SCAN_BAD;
    return j->literal[++j->literal_at] ? JSON_SCAN_MORE : value_ended(j);
}

json_scan_step json_scan_push(json_scan *j, char c)
{
    j->out[0] = c;
    j->out_size = 1;
    switch (j->state & ~IS_KEY) {
    case FIRST_KEY:
        if (c == '}')
            return close_level(j, true);
        /* fall through */
    case KEY:
        if (c == '"')
            j->state = STRING | IS_KEY;
        return c == '"' || blank(c) ? JSON_SCAN_MORE : JSON_SCAN_BAD;
    case COLON:
        if (c == ':')
            j->state = VALUE;
        return c == ':' || blank(c) ? JSON_SCAN_MORE : JSON_SCAN_BAD;
    case FIRST_ITEM:
        if (c == ']')
            return close_level(j, false);
        /* fall through */
    case VALUE:
        return begin_value(j, c);
    case AFTER:
        return push_after(j, c);
    case STRING:
        return push_string(j, c);
    case ESCAPE:
        return push_escape(j, c);
    case HEX:
        return push_hex(j, c);
    case LITERAL:
        return push_literal(j, c);
    default:
        return push_number(j, c);
    }
}

bool json_scan_whole(span text)
{
    json_scan j = {0};
    bool ended = false;
    for (size_t i = 0; i < text.size; i++) {
        json_scan_step step = ended ? JSON_SCAN_END : json_scan_push(&j, text.data[i]);
        if (ended ? !blank(text.data[i]) : step == JSON_SCAN_BAD)
            return false;
        if (step == JSON_SCAN_END_BEFORE && !blank(text.data[i]))
            return false;
        ended = ended || step != JSON_SCAN_MORE;
    }
    return ended || (j.state == NUMBER && !j.depth && number_may_end(j.number));
}
