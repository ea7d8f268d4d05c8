/* text/parse/gemma.c: call:NAME{key:value,…} between marks, strings between quotes that are tokens of their own, of
 * Gemma 4 and FunctionGemma. Inside a string only the quote means anything. */
#include "text/parse/family.h"
#include "text/parse/value.h"

enum { DEPTH_MAX = 256, WORD_MAX = 128, QUOTE_MAX = 16 };

typedef struct {
    const char *open, *close, *quote;
} gemma_marks;

enum { PREFIX, NAME, KEY_START, KEY, KEY_QUOTED, COLON, VALUE_START, SCALAR, STRING, AFTER, CLOSER };

typedef struct {
    const gemma_marks *marks;
    uint8_t state;
    bool key_quoted, some; /* some: the container that is open has an element */
    uint32_t at, depth, size, look_size;
    char word[WORD_MAX];
    char look[QUOTE_MAX];           /* of a string: what may be its quote */
    uint8_t objects[DEPTH_MAX / 8]; /* a bit a level */
} gemma;

static call_step go(gemma *g, uint8_t state)
{
    g->state = state;
    g->at = g->size = g->look_size = 0;
    return CALL_MORE;
}

static bool in_object(const gemma *g)
{
    return g->objects[(g->depth - 1) / 8] >> ((g->depth - 1) % 8) & 1;
}

static call_step open_level(gemma *g, output_parser *p, bool object)
{
    if (g->depth == DEPTH_MAX)
        return CALL_NOT;
    uint8_t bit = (uint8_t)(1u << (g->depth % 8)), *byte = &g->objects[g->depth / 8];
    *byte = (uint8_t)(object ? *byte | bit : *byte & ~bit);
    g->depth++;
    g->some = false;
    call_argument_byte(p, object ? '{' : '[');
    return go(g, object ? KEY_START : VALUE_START);
}

static call_step close_level(gemma *g, output_parser *p, char byte)
{
    if ((byte == '}') != in_object(g))
        return CALL_NOT;
    call_argument_byte(p, byte);
    g->some = true;
    if (--g->depth)
        return go(g, AFTER);
    call_end(p);
    return go(g, CLOSER);
}

static void write_key(gemma *g, output_parser *p)
{
    buf key = {0};
    value_string(span_of(g->word, g->size), &key);
    buf_text(&key, ": ");
    call_arguments(p, buf_span(&key));
    buf_free(&key);
}

static call_step push_key(gemma *g, output_parser *p, char byte)
{
    if (byte == ':') {
        write_key(g, p);
        return go(g, VALUE_START);
    }
    if (g->size == WORD_MAX || byte == '{' || byte == '}' || byte == ',')
        return CALL_NOT;
    g->word[g->size++] = byte;
    return CALL_MORE;
}

static call_step push_after(gemma *g, output_parser *p, char byte)
{
    if (is_blank(byte))
        return CALL_MORE;
    if (byte == ',') {
        call_arguments(p, span_from(", "));
        return go(g, in_object(g) ? KEY_START : VALUE_START);
    }
    return byte == '}' || byte == ']' ? close_level(g, p, byte) : CALL_NOT;
}

/* A bare value ends where its container goes on: a literal, or text that has lost its quotes. */
static call_step push_scalar(gemma *g, output_parser *p, char byte)
{
    buf value = {0};
    if (byte != ',' && byte != '}' && byte != ']') {
        if (g->size == WORD_MAX || byte == '{' || byte == '[')
            return CALL_NOT;
        g->word[g->size++] = byte;
        return CALL_MORE;
    }
    while (g->size && is_blank(g->word[g->size - 1]))
        g->size--;
    span text = span_of(g->word, g->size);
    if (!value_literal(text, &value))
        value_string(text, &value);
    call_arguments(p, buf_span(&value));
    buf_free(&value);
    g->state = AFTER;
    return push_after(g, p, byte);
}

/* The inside of a string (or of a quoted key), up to the quote. True: it has ended. */
static bool push_quoted(gemma *g, output_parser *p, char byte, bool key)
{
    size_t quote = strlen(g->marks->quote);
    g->look[g->look_size++] = byte;
    while (g->look_size && memcmp(g->look, g->marks->quote, g->look_size) != 0) {
        if (!key)
            call_argument_string(p, span_of(g->look, 1));
        else if (g->size < WORD_MAX)
            g->word[g->size++] = g->look[0];
        memmove(g->look, g->look + 1, --g->look_size);
    }
    return g->look_size == quote;
}

static call_step push_value_start(gemma *g, output_parser *p, char byte)
{
    literal_step step;
    if (!g->at && is_blank(byte))
        return CALL_MORE;
    if (!g->at && byte == ']' && !g->some)
        return close_level(g, p, byte);
    if (!g->at && (byte == '{' || byte == '['))
        return open_level(g, p, byte == '{');
    if (g->at || byte == g->marks->quote[0]) {
        step = literal_push(g->marks->quote, &g->at, byte);
        if (step == LITERAL_FULL) {
            call_argument_byte(p, '"');
            return go(g, STRING);
        }
        return step == LITERAL_MORE ? CALL_MORE : CALL_NOT;
    }
    go(g, SCALAR);
    return push_scalar(g, p, byte);
}

static call_step push_key_start(gemma *g, output_parser *p, char byte)
{
    if (!g->at && is_blank(byte))
        return CALL_MORE;
    if (!g->at && byte == '}' && !g->some)
        return close_level(g, p, byte);
    if (!g->at && byte != g->marks->quote[0]) {
        go(g, KEY);
        return push_key(g, p, byte);
    }
    literal_step step = literal_push(g->marks->quote, &g->at, byte);
    return step == LITERAL_FULL ? go(g, KEY_QUOTED) : step == LITERAL_MORE ? CALL_MORE : CALL_NOT;
}

static call_step push_name(gemma *g, output_parser *p, char byte)
{
    if (byte != '{') {
        if (g->size == WORD_MAX || byte == '<')
            return CALL_NOT;
        g->word[g->size++] = byte;
        return CALL_MORE;
    }
    return call_name(p, span_of(g->word, g->size)) ? open_level(g, p, true) : CALL_NOT;
}

static call_step push_literal(gemma *g, const char *literal, char byte, uint8_t after)
{
    literal_step step = literal_push(literal, &g->at, byte);
    return step == LITERAL_MORE ? CALL_MORE : step == LITERAL_NOT ? CALL_NOT : go(g, after);
}

static call_step push(void *state, output_parser *p, char byte)
{
    gemma *g = state;
    switch (g->state) {
    case PREFIX:
        return push_literal(g, "call:", byte, NAME);
    case NAME:
        return push_name(g, p, byte);
    case KEY_START:
        return push_key_start(g, p, byte);
    case KEY:
        return push_key(g, p, byte);
    case KEY_QUOTED:
        if (!push_quoted(g, p, byte, true))
            return CALL_MORE;
        g->state = COLON;
        return CALL_MORE;
    case COLON:
        if (byte != ':')
            return CALL_NOT;
        write_key(g, p);
        return go(g, VALUE_START);
    case VALUE_START:
        return push_value_start(g, p, byte);
    case SCALAR:
        return push_scalar(g, p, byte);
    case STRING:
        if (!push_quoted(g, p, byte, false))
            return CALL_MORE;
        call_argument_byte(p, '"');
        return go(g, AFTER);
    case AFTER:
        return push_after(g, p, byte);
    default:
        break;
    }
    if (!g->at && is_blank(byte))
        return CALL_MORE;
    literal_step step = literal_push(g->marks->close, &g->at, byte);
    return step == LITERAL_FULL ? CALL_DONE : step == LITERAL_MORE ? CALL_MORE : CALL_NOT;
}

static const gemma_marks gemma4 = {"<|tool_call>", "<tool_call|>", "<|\"|>"};
static const gemma_marks function_gemma = {"<start_function_call>", "<end_function_call>", "<escape>"};

static void begin_gemma4(void *state, output_parser *p, uint32_t opener)
{
    (void)p, (void)opener;
    ((gemma *)state)->marks = &gemma4;
}

static void begin_function_gemma(void *state, output_parser *p, uint32_t opener)
{
    (void)p, (void)opener;
    ((gemma *)state)->marks = &function_gemma;
}

static const char *const gemma4_openers[] = {"<|tool_call>", NULL};
static const char *const gemma4_marks[] = {"<tool_call|>", "<|\"|>", NULL};
static const char *const function_gemma_openers[] = {"<start_function_call>", NULL};
static const char *const function_gemma_marks[] = {"<end_function_call>", "<escape>", NULL};

const call_family gemma4_family = {.name = "gemma4",
                                   .openers = gemma4_openers,
                                   .marks = gemma4_marks,
                                   .state_size = sizeof(gemma),
                                   .begin = begin_gemma4,
                                   .push = push};
const call_family function_gemma_family = {.name = "function_gemma",
                                           .openers = function_gemma_openers,
                                           .marks = function_gemma_marks,
                                           .state_size = sizeof(gemma),
                                           .begin = begin_function_gemma,
                                           .push = push};
