/* text/parse/json_call.c: see json_call.h. */
#include "text/parse/json_call.h"

enum { BEFORE, FIRST_KEY, NEXT_KEY, KEY, COLON, VALUE, NAME, ARGUMENTS, TEXT, OTHER, AFTER };
enum { KEY_OTHER, KEY_NAME, KEY_ARGUMENTS };

void json_call_reset(json_call *c)
{
    bool strict = c->strict;
    buf text = c->text;
    *c = (json_call){.strict = strict, .text = text};
    buf_clear(&c->text);
}

static call_step go(json_call *c, uint8_t state)
{
    c->state = state;
    return CALL_MORE;
}

/* A short string without escapes, up to its quote. */
static call_step push_word(json_call *c, char byte, uint8_t after)
{
    if (byte == '"')
        return go(c, after);
    if (byte == '\\' || (unsigned char)byte < 0x20 || c->word_size == sizeof c->word)
        return CALL_NOT;
    c->word[c->word_size++] = byte;
    return CALL_MORE;
}

static call_step take_key(json_call *c, output_parser *p)
{
    span key = span_of(c->word, c->word_size);
    bool arguments = span_is(key, "arguments") || span_is(key, "parameters");
    c->key = span_is(key, "name") ? KEY_NAME : arguments ? KEY_ARGUMENTS : KEY_OTHER;
    bool harmless = span_is(key, "type") || span_is(key, "id");
    bool again = (c->key == KEY_NAME && call_named(p)) || (arguments && c->has_arguments);
    return again || (c->strict && c->key == KEY_OTHER && !harmless) ? CALL_NOT : CALL_MORE;
}

static call_step push_value_start(json_call *c, char byte)
{
    if (is_blank(byte))
        return CALL_MORE;
    c->scan = (json_scan){0};
    c->word_size = 0;
    if (c->key == KEY_NAME)
        return byte == '"' ? go(c, NAME) : CALL_NOT;
    c->state = c->key == KEY_OTHER ? OTHER : byte == '{' ? ARGUMENTS : TEXT;
    return c->state == TEXT && byte != '"' ? CALL_NOT : CALL_MORE;
}

static call_step push_arguments(json_call *c, output_parser *p, char byte)
{
    json_scan_step step = json_scan_push(&c->scan, byte);
    if (step == JSON_SCAN_BAD)
        return CALL_NOT;
    call_arguments(p, span_of(c->scan.out, c->scan.out_size));
    if (step == JSON_SCAN_END) {
        c->has_arguments = true;
        c->state = AFTER;
    }
    return CALL_MORE;
}

/* Arguments as a string that holds JSON, as the OpenAI API has them: some models copy that. */
static call_step push_text(json_call *c, output_parser *p, char byte)
{
    json_scan_step step = json_scan_push(&c->scan, byte);
    if (step == JSON_SCAN_BAD || c->text.size > OUTPUT_HELD_MAX)
        return CALL_NOT;
    buf_append(&c->text, c->scan.out, c->scan.out_size);
    if (step != JSON_SCAN_END)
        return CALL_MORE;
    json_t *string = json_loadb(c->text.data, c->text.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    span inner = span_of(json_string_value(string), json_string_length(string));
    while (inner.size && is_blank(inner.data[0]))
        inner = span_of(inner.data + 1, inner.size - 1);
    bool object = inner.size && inner.data[0] == '{' && json_scan_whole(inner);
    if (object)
        call_arguments(p, inner);
    json_decref(string);
    c->has_arguments = true;
    c->state = AFTER;
    return object ? CALL_MORE : CALL_NOT;
}

static call_step push_after(json_call *c, output_parser *p, char byte)
{
    if (is_blank(byte))
        return CALL_MORE;
    if (byte == ',')
        return go(c, NEXT_KEY);
    if (byte != '}' || !call_named(p))
        return CALL_NOT;
    if (!c->has_arguments)
        call_arguments(p, span_from("{}"));
    call_end(p);
    return CALL_DONE;
}

static call_step push_other(json_call *c, output_parser *p, char byte)
{
    json_scan_step step = json_scan_push(&c->scan, byte);
    if (step == JSON_SCAN_MORE)
        return CALL_MORE;
    c->state = AFTER;
    return step == JSON_SCAN_END ? CALL_MORE : step == JSON_SCAN_END_BEFORE ? push_after(c, p, byte) : CALL_NOT;
}

call_step json_call_push(json_call *c, output_parser *p, char byte)
{
    call_step step;
    switch (c->state) {
    case BEFORE:
        return byte == '{' ? go(c, FIRST_KEY) : is_blank(byte) ? CALL_MORE : CALL_NOT;
    case FIRST_KEY:
    case NEXT_KEY:
        c->word_size = 0;
        return byte == '"' ? go(c, KEY) : is_blank(byte) ? CALL_MORE : CALL_NOT;
    case KEY:
        step = push_word(c, byte, COLON);
        return step == CALL_MORE && c->state == COLON ? take_key(c, p) : step;
    case COLON:
        return byte == ':' ? go(c, VALUE) : is_blank(byte) ? CALL_MORE : CALL_NOT;
    case VALUE:
        step = push_value_start(c, byte);
        return step != CALL_MORE       ? step
               : c->state == ARGUMENTS ? push_arguments(c, p, byte)
               : c->state == TEXT      ? push_text(c, p, byte)
               : c->state == OTHER     ? push_other(c, p, byte)
                                       : CALL_MORE;
    case NAME:
        step = push_word(c, byte, AFTER);
        if (step == CALL_MORE && c->state == AFTER && !call_name(p, span_of(c->word, c->word_size)))
            return CALL_NOT;
        return step;
    case ARGUMENTS:
        return push_arguments(c, p, byte);
    case TEXT:
        return push_text(c, p, byte);
    case OTHER:
        return push_other(c, p, byte);
    default:
        return push_after(c, p, byte);
    }
}
