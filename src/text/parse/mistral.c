/* text/parse/mistral.c: [TOOL_CALLS], then an array of {"name": …, "arguments": {…}} (until 2024) or NAME, perhaps
 * [CALL_ID]ID, [ARGS] and the arguments (since). Of the later form each call has its own [TOOL_CALLS]. */
#include "text/parse/json_call.h"

enum { START, NAME, TAG, ID, ARGUMENTS, ELEMENT, BETWEEN };

typedef struct {
    uint8_t state;
    uint32_t size;
    char word[JSON_CALL_WORD];
    json_scan scan;
    json_call call;
} mistral;

static void begin(void *state, output_parser *p, uint32_t opener)
{
    (void)state, (void)p, (void)opener;
}

static call_step go(mistral *m, uint8_t state)
{
    m->state = state;
    m->size = 0;
    return CALL_MORE;
}

static call_step add(mistral *m, char byte)
{
    if (m->size == sizeof m->word)
        return CALL_NOT;
    m->word[m->size++] = byte;
    return CALL_MORE;
}

static call_step push_arguments(mistral *m, output_parser *p, char byte)
{
    if (m->scan.depth == 0 && is_blank(byte))
        return CALL_MORE;
    if (m->scan.depth == 0 && byte != '{')
        return CALL_NOT;
    json_scan_step step = json_scan_push(&m->scan, byte);
    if (step == JSON_SCAN_BAD)
        return CALL_NOT;
    call_arguments(p, span_of(m->scan.out, m->scan.out_size));
    if (step != JSON_SCAN_END)
        return CALL_MORE;
    call_end(p);
    return CALL_DONE;
}

static call_step push_name(mistral *m, output_parser *p, char byte)
{
    if (byte != '[' && byte != '{')
        return is_blank(byte) && m->size == 0 ? CALL_MORE : add(m, byte);
    while (m->size && is_blank(m->word[m->size - 1]))
        m->size--;
    if (!call_name(p, span_of(m->word, m->size)))
        return CALL_NOT;
    go(m, byte == '[' ? TAG : ARGUMENTS);
    return byte == '[' ? CALL_MORE : push_arguments(m, p, byte);
}

static call_step push_tag(mistral *m, char byte)
{
    if (byte != ']')
        return add(m, byte);
    span tag = span_of(m->word, m->size);
    return span_is(tag, "ARGS") ? go(m, ARGUMENTS) : span_is(tag, "CALL_ID") ? go(m, ID) : CALL_NOT;
}

/* An element of the array, or what stands between two. */
static call_step push_array(mistral *m, output_parser *p, char byte)
{
    if (m->state == BETWEEN) {
        if (byte == ']')
            return CALL_DONE;
        if (byte == ',') {
            json_call_reset(&m->call);
            return go(m, ELEMENT);
        }
        return is_blank(byte) ? CALL_MORE : CALL_NOT;
    }
    call_step step = json_call_push(&m->call, p, byte);
    return step == CALL_DONE ? go(m, BETWEEN) : step;
}

static call_step push(void *state, output_parser *p, char byte)
{
    mistral *m = state;
    switch (m->state) {
    case START:
        if (is_blank(byte))
            return CALL_MORE;
        go(m, byte == '[' ? ELEMENT : NAME);
        return byte == '[' ? CALL_MORE : push_name(m, p, byte);
    case NAME:
        return push_name(m, p, byte);
    case TAG:
        return push_tag(m, byte);
    case ID:
        return byte == '[' ? go(m, TAG) : add(m, byte);
    case ARGUMENTS:
        return push_arguments(m, p, byte);
    default:
        return push_array(m, p, byte);
    }
}

static void release(void *state)
{
    buf_free(&((mistral *)state)->call.text);
}

static const char *const openers[] = {"[TOOL_CALLS]", NULL};
static const char *const marks[] = {"[ARGS]", "[CALL_ID]", NULL};

const call_family mistral_family = {.name = "mistral",
                                    .openers = openers,
                                    .marks = marks,
                                    .state_size = sizeof(mistral),
                                    .begin = begin,
                                    .push = push,
                                    .release = release};
