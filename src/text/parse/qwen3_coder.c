/* text/parse/qwen3_coder.c: <tool_call><function=NAME><parameter=KEY>VALUE</parameter>…</function></tool_call>, of
 * Qwen3-Coder, Qwen 3.5 and others. Values are bare text, so the schema says what they are, and what ends one is not a
 * mark by itself but all that must follow it: </parameter> and the next <parameter=, or all closing marks. Code that
 * spells some of these marks stays code. The outer marks may be missing. */
#include "text/parse/family.h"
#include "text/parse/json_scan.h"
#include "text/parse/value.h"

enum { WRAPPER, NAME, BETWEEN, VALUE, TAIL };
enum { LOOK_MAX = 256, BLANK_MAX = 16, WORD_MAX = 128 };

typedef struct {
    uint8_t state;
    bool wrapped; /* <tool_call> has come */
    bool first;   /* no parameter yet */
    bool fresh;   /* of a value: nothing has come */
    bool streams; /* the value is a string: it goes out as it comes */
    unsigned types;
    uint32_t look_size, word_size;
    char look[LOOK_MAX]; /* what may be marks */
    char word[WORD_MAX];
    buf value; /* one that does not stream */
    json_scan scan;
    bool inside; /* of a value that begins as JSON and is not complete: no mark ends it */
} qwen3_coder;

static const char parameter[] = "<parameter=", function[] = "<function=";
static const char parameter_end[] = "</parameter>", function_end[] = "</function>", call_open[] = "<tool_call>",
                  call_close[] = "</tool_call>";

static call_step go(qwen3_coder *q, uint8_t state)
{
    q->state = state;
    q->look_size = q->word_size = 0;
    return CALL_MORE;
}

static void begin(void *state, output_parser *p, uint32_t opener)
{
    qwen3_coder *q = state;
    (void)p;
    q->wrapped = opener == 0;
    q->state = q->wrapped ? WRAPPER : NAME;
}

/* ---- what the look-ahead spells ---- */

typedef enum { NOTHING, PART, NEXT_PARAMETER, NEXT_FUNCTION, NEXT_CALL, END_FUNCTION, END_CALL } spelled;

typedef struct {
    const char *at, *end;
} cursor;

/* Skips white space, then compares with `word`: NOTHING, PART (the text ends within) or, for all of it, `full`. */
static spelled compare(cursor *c, const char *word, spelled full)
{
    const char *at = c->at;
    while (at < c->end && is_blank(*at) && at - c->at < BLANK_MAX)
        at++;
    size_t size = strlen(word), left = (size_t)(c->end - at);
    if (memcmp(at, word, left < size ? left : size) != 0)
        return NOTHING;
    if (left < size)
        return PART;
    c->at = at + size;
    return full;
}

static spelled best(spelled a, spelled b)
{
    return a > b ? a : b;
}

/* Behind </function>: what must follow for it to be the end. Without <tool_call> nothing need. */
static spelled spell_tail(const qwen3_coder *q, cursor c)
{
    cursor b = c, d = c;
    if (!q->wrapped)
        return END_FUNCTION;
    return best(compare(&c, call_close, END_CALL),
                best(compare(&b, function, NEXT_FUNCTION), compare(&d, call_open, NEXT_CALL)));
}

static bool is_key_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (unsigned char)c >= 0x80 ||
           (c && strchr("_.-$:/", c));
}

/* <parameter=KEY> */
static spelled spell_parameter(cursor c)
{
    spelled how = compare(&c, parameter, NEXT_PARAMETER);
    const char *at = c.at;
    if (how != NEXT_PARAMETER)
        return how;
    while (at < c.end && is_key_byte(*at))
        at++;
    return at - c.at > WORD_MAX ? NOTHING : at == c.end ? PART : *at == '>' && at > c.at ? NEXT_PARAMETER : NOTHING;
}

/* Behind a value (or nothing): the next parameter, or the end. */
static spelled spell_between(const qwen3_coder *q, cursor c)
{
    spelled as_parameter = spell_parameter(c), as_end = compare(&c, function_end, END_FUNCTION);
    return as_end == END_FUNCTION ? spell_tail(q, c) : best(as_parameter, as_end);
}

static spelled spell_value_end(const qwen3_coder *q, cursor c)
{
    if (c.at < c.end && *c.at == '\n')
        c.at++;
    size_t left = (size_t)(c.end - c.at), size = sizeof parameter_end - 1;
    if (memcmp(c.at, parameter_end, left < size ? left : size) != 0)
        return NOTHING;
    c.at += left < size ? left : size;
    return left < size ? PART : spell_between(q, c);
}

/* ---- values ---- */

static void put(qwen3_coder *q, output_parser *p, span text)
{
    if (q->streams) {
        call_argument_string(p, text);
        return;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (!q->value.size && (text.data[i] == '{' || text.data[i] == '['))
            q->inside = true;
        if (q->inside)
            q->inside = json_scan_push(&q->scan, text.data[i]) == JSON_SCAN_MORE;
        buf_append(&q->value, &text.data[i], 1);
    }
}

/* The look-ahead ends with <parameter=KEY>. */
static void begin_value(qwen3_coder *q, output_parser *p)
{
    buf key = {0};
    uint32_t end = q->look_size - 1, start = end;
    while (q->look[start - 1] != '=')
        start--;
    span name = span_of(q->look + start, end - start);
    q->scan = (json_scan){0};
    q->inside = false;
    q->types = value_types(call_tools(p), call_name_of(p), name);
    q->streams = !(q->types & ~(unsigned)VALUE_STRING);
    if (!q->first)
        buf_text(&key, ", ");
    value_string(name, &key);
    buf_text(&key, q->streams ? ": \"" : ": ");
    call_arguments(p, buf_span(&key));
    buf_free(&key);
    buf_clear(&q->value);
    q->first = false;
    q->fresh = true;
    go(q, VALUE);
}

static void end_value(qwen3_coder *q, output_parser *p)
{
    buf value = {0};
    if (q->streams)
        buf_byte(&value, '"');
    else
        value_typed(buf_span(&q->value), q->types, &value);
    call_arguments(p, buf_span(&value));
    buf_free(&value);
}

static call_step end_call(qwen3_coder *q, output_parser *p, spelled how)
{
    call_arguments(p, span_from("}"));
    call_end(p);
    if (how == END_CALL)
        return CALL_DONE;
    return go(q, how == NEXT_FUNCTION ? NAME : how == NEXT_CALL ? WRAPPER : TAIL);
}

static call_step after_marks(qwen3_coder *q, output_parser *p, spelled how)
{
    if (how != NEXT_PARAMETER)
        return end_call(q, p, how);
    begin_value(q, p);
    return CALL_MORE;
}

static call_step push_value(qwen3_coder *q, output_parser *p, char byte)
{
    if (q->fresh && byte == '\n') {
        q->fresh = false;
        return CALL_MORE;
    }
    q->fresh = false;
    q->look[q->look_size++] = byte;
    for (uint32_t from = 0; from < q->look_size; from++) {
        cursor rest = {q->look + from, q->look + q->look_size};
        spelled how = q->inside ? NOTHING : spell_value_end(q, rest);
        if (how == NOTHING || (how == PART && q->look_size == LOOK_MAX && from == 0)) {
            put(q, p, span_of(q->look + from, 1));
            continue;
        }
        if (how > PART) {
            end_value(q, p);
            return after_marks(q, p, how);
        }
        memmove(q->look, q->look + from, q->look_size - from);
        q->look_size -= from;
        return !q->streams && q->value.size > OUTPUT_HELD_MAX ? CALL_NOT : CALL_MORE;
    }
    q->look_size = 0;
    return !q->streams && q->value.size > OUTPUT_HELD_MAX ? CALL_NOT : CALL_MORE;
}

/* ---- marks ---- */

static call_step push_look(qwen3_coder *q, output_parser *p, char byte)
{
    cursor c = {q->look, q->look + q->look_size + 1};
    cursor same = c;
    if (q->look_size == LOOK_MAX)
        return CALL_NOT;
    q->look[q->look_size++] = byte;
    spelled how = q->state == BETWEEN ? spell_between(q, c)
                  : q->state == WRAPPER
                      ? compare(&c, function, NEXT_FUNCTION)
                      : best(compare(&c, call_close, END_CALL), compare(&same, function, NEXT_FUNCTION));
    if (how <= PART)
        return how == PART ? CALL_MORE : CALL_NOT;
    if (q->state == BETWEEN)
        return after_marks(q, p, how);
    return how == END_CALL ? CALL_DONE : go(q, NAME);
}

/* The function's name, up to '>'. */
static call_step push_word(qwen3_coder *q, output_parser *p, char byte)
{
    if (byte != '>') {
        if (q->word_size == WORD_MAX || byte == '<' || byte == '\n')
            return CALL_NOT;
        q->word[q->word_size++] = byte;
        return CALL_MORE;
    }
    if (!call_name(p, span_of(q->word, q->word_size)))
        return CALL_NOT;
    call_arguments(p, span_from("{"));
    q->first = true;
    return go(q, BETWEEN);
}

static call_step push(void *state, output_parser *p, char byte)
{
    qwen3_coder *q = state;
    return q->state == VALUE  ? push_value(q, p, byte)
           : q->state == NAME ? push_word(q, p, byte)
                              : push_look(q, p, byte);
}

/* The output ends: a call whose </function> has come is whole. */
static void finish(void *state, output_parser *p)
{
    qwen3_coder *q = state;
    bool wrapped = q->wrapped;
    cursor c = {q->look, q->look + q->look_size};
    if (q->state != VALUE && q->state != BETWEEN)
        return;
    q->wrapped = false;
    if ((q->state == VALUE ? spell_value_end(q, c) : spell_between(q, c)) == END_FUNCTION) {
        if (q->state == VALUE)
            end_value(q, p);
        end_call(q, p, END_FUNCTION);
    }
    q->wrapped = wrapped;
}

static void release(void *state)
{
    buf_free(&((qwen3_coder *)state)->value);
}

static const char *const openers[] = {call_open, function, NULL};
static const char *const marks[] = {call_close, NULL};

const call_family qwen3_coder_family = {.name = "qwen3_coder",
                                        .openers = openers,
                                        .marks = marks,
                                        .state_size = sizeof(qwen3_coder),
                                        .begin = begin,
                                        .push = push,
                                        .finish = finish,
                                        .release = release};
