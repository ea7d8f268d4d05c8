/* text/parse/pythonic.c: [name(key=value, …), …] with Python's literals, of Llama 3.2 and 4 as the whole answer, of LFM
 * between marks. Strings, numbers, lists, tuples, dictionaries and the three constants become JSON. */
#include "text/parse/family.h"
#include "text/parse/value.h"

enum { DEPTH_MAX = 256, WORD_MAX = 128 };
enum {
    LIST_START,
    NAME,
    KEYWORD_START,
    KEYWORD,
    ITEM_START, /* of a list or tuple */
    KEY_START,  /* of a dictionary */
    VALUE_START,
    SCALAR,
    STRING,
    ESCAPE,
    CODE,
    AFTER,
    BETWEEN,
    CLOSER
};
enum { OPENER_BARE = 2 };

typedef struct {
    uint8_t state;
    char quote;
    bool is_key; /* the value that is read is a dictionary's key */
    uint32_t size, code, digits, high, depth, closer_at;
    char word[WORD_MAX];
    char levels[DEPTH_MAX]; /* the byte that closes them; 'k': a call's keywords, closed by ')' */
    bool some[DEPTH_MAX];   /* has an element */
    const char *closer;     /* NULL: nothing marks the end */
} pythonic;

static const char *const openers[] = {"<|tool_call_start|>", "<|python_start|>", NULL};
static const char *const start_openers[] = {"[", NULL};
static const char *const closers[] = {"<|tool_call_end|>", "<|python_end|>", NULL};

static call_step go(pythonic *y, uint8_t state)
{
    y->state = state;
    y->size = 0;
    return CALL_MORE;
}

static void begin(void *state, output_parser *p, uint32_t opener)
{
    pythonic *y = state;
    (void)p;
    y->closer = opener == OPENER_BARE ? NULL : closers[opener];
    y->state = opener == OPENER_BARE ? NAME : LIST_START;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-' || (unsigned char)c >= 0x80;
}

static call_step add(pythonic *y, char byte)
{
    if (y->size == WORD_MAX)
        return CALL_NOT;
    y->word[y->size++] = byte;
    return CALL_MORE;
}

static char level(const pythonic *y)
{
    return y->levels[y->depth - 1];
}

static call_step next_element(pythonic *y)
{
    char own = level(y);
    return go(y, own == 'k' ? KEYWORD_START : own == '}' ? KEY_START : ITEM_START);
}

static call_step open_level(pythonic *y, output_parser *p, char closer)
{
    if (y->depth == DEPTH_MAX)
        return CALL_NOT;
    y->some[y->depth] = false;
    y->levels[y->depth++] = closer;
    call_argument_byte(p, closer == 'k' || closer == '}' ? '{' : '[');
    return next_element(y);
}

static bool closes(const pythonic *y, char byte)
{
    return byte == (level(y) == 'k' ? ')' : level(y));
}

static call_step close_level(pythonic *y, output_parser *p)
{
    char own = level(y);
    call_argument_byte(p, own == 'k' || own == '}' ? '}' : ']');
    if (--y->depth)
        return go(y, AFTER);
    call_end(p);
    return go(y, BETWEEN);
}

static call_step push_name(pythonic *y, output_parser *p, char byte)
{
    if (is_blank(byte) && !y->size)
        return CALL_MORE;
    if (is_word(byte))
        return add(y, byte);
    return byte == '(' && call_name(p, span_of(y->word, y->size)) ? open_level(y, p, 'k') : CALL_NOT;
}

static call_step push_keyword(pythonic *y, output_parser *p, char byte)
{
    buf key = {0};
    if (is_blank(byte))
        return CALL_MORE;
    if (byte != '=')
        return is_word(byte) ? add(y, byte) : CALL_NOT;
    if (!y->size)
        return CALL_NOT;
    value_string(span_of(y->word, y->size), &key);
    buf_text(&key, ": ");
    call_arguments(p, buf_span(&key));
    buf_free(&key);
    return go(y, VALUE_START);
}

/* Behind an element: a comma, a key's colon, or the end of the container. */
static call_step push_after(pythonic *y, output_parser *p, char byte)
{
    if (is_blank(byte))
        return CALL_MORE;
    if (y->is_key) {
        y->is_key = false;
        call_arguments(p, span_from(": "));
        return byte == ':' ? go(y, VALUE_START) : CALL_NOT;
    }
    y->some[y->depth - 1] = true;
    return byte == ',' ? next_element(y) : closes(y, byte) ? close_level(y, p) : CALL_NOT;
}

static call_step push_scalar(pythonic *y, output_parser *p, char byte)
{
    buf value = {0};
    if (is_word(byte) || byte == '+')
        return add(y, byte);
    if (!value_literal(span_of(y->word, y->size), &value))
        return CALL_NOT;
    if (y->is_key) /* JSON's keys are strings */
        call_argument_byte(p, '"');
    call_arguments(p, buf_span(&value));
    if (y->is_key)
        call_argument_byte(p, '"');
    buf_free(&value);
    y->state = AFTER;
    return push_after(y, p, byte);
}

static call_step push_value_start(pythonic *y, output_parser *p, char byte)
{
    if (is_blank(byte))
        return CALL_MORE;
    if (byte == '\'' || byte == '"') {
        y->quote = byte;
        y->high = 0;
        call_argument_byte(p, '"');
        return go(y, STRING);
    }
    if (byte == '{' || byte == '[' || byte == '(')
        return y->is_key ? CALL_NOT : open_level(y, p, byte == '{' ? '}' : byte == '[' ? ']' : ')');
    go(y, SCALAR);
    return push_scalar(y, p, byte);
}

static call_step push_element_start(pythonic *y, output_parser *p, char byte)
{
    if (is_blank(byte))
        return CALL_MORE;
    if (closes(y, byte))
        return close_level(y, p);
    if (y->some[y->depth - 1])
        call_arguments(p, span_from(", "));
    y->is_key = y->state == KEY_START;
    if (y->state != KEYWORD_START)
        return push_value_start(y, p, byte);
    go(y, KEYWORD);
    return push_keyword(y, p, byte);
}

/* ---- strings ---- */

static void put_code(output_parser *p, uint32_t code)
{
    char utf8[4];
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size; i-- > 1; code >>= 6)
        utf8[i] = (char)(0x80 | (code & 0x3f));
    utf8[0] = (char)(lead[size] | code);
    call_argument_string(p, span_of(utf8, size));
}

/* A code that was escaped; halves of a pair are put together, a half alone is no character. */
static void take_code(pythonic *y, output_parser *p, uint32_t code)
{
    bool high = code >= 0xd800 && code < 0xdc00, low = code >= 0xdc00 && code < 0xe000;
    if (y->high && low) {
        put_code(p, 0x10000 + ((y->high - 0xd800) << 10) + (code - 0xdc00));
        y->high = 0;
        return;
    }
    if (y->high)
        put_code(p, 0xfffd);
    y->high = high ? code : 0;
    if (!high)
        put_code(p, low || code > 0x10ffff ? 0xfffd : code);
}

static call_step push_string(pythonic *y, output_parser *p, char byte)
{
    if (byte == '\\')
        return go(y, ESCAPE);
    if (y->high)
        put_code(p, 0xfffd);
    y->high = 0;
    if (byte == y->quote) {
        call_argument_byte(p, '"');
        return go(y, AFTER);
    }
    call_argument_string(p, span_of(&byte, 1));
    return CALL_MORE;
}

static call_step push_escape(pythonic *y, output_parser *p, char byte)
{
    static const char names[] = "abfnrtv\\'\"0", codes[] = "\a\b\f\n\r\t\v\\'\"";
    const char *at = byte ? strchr(names, byte) : NULL;
    if (byte == 'x' || byte == 'u' || byte == 'U') {
        y->code = 0;
        y->digits = byte == 'x' ? 2 : byte == 'u' ? 4 : 8;
        return go(y, CODE);
    }
    y->state = STRING;
    if (at) {
        take_code(y, p, (unsigned char)codes[at - names]);
    } else if (byte != '\n') { /* Python keeps the backslash of what is no escape */
        take_code(y, p, '\\');
        call_argument_string(p, span_of(&byte, 1));
    }
    return CALL_MORE;
}

static call_step push_code(pythonic *y, output_parser *p, char byte)
{
    int digit = byte >= '0' && byte <= '9'   ? byte - '0'
                : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                             : -1;
    if (digit < 0)
        return CALL_NOT;
    y->code = y->code << 4 | (uint32_t)digit;
    if (--y->digits)
        return CALL_MORE;
    take_code(y, p, y->code);
    y->state = STRING;
    return CALL_MORE;
}

/* ---- */

/* Behind a call of the list. */
static call_step push_between(pythonic *y, char byte)
{
    if (is_blank(byte))
        return CALL_MORE;
    if (byte == ',')
        return go(y, NAME);
    y->closer_at = 0;
    return byte != ']' ? CALL_NOT : y->closer ? go(y, CLOSER) : CALL_DONE;
}

static call_step push(void *state, output_parser *p, char byte)
{
    pythonic *y = state;
    switch (y->state) {
    case LIST_START:
        return byte == '[' ? go(y, NAME) : is_blank(byte) ? CALL_MORE : CALL_NOT;
    case NAME:
        return push_name(y, p, byte);
    case KEYWORD_START:
    case ITEM_START:
    case KEY_START:
        return push_element_start(y, p, byte);
    case KEYWORD:
        return push_keyword(y, p, byte);
    case VALUE_START:
        return push_value_start(y, p, byte);
    case SCALAR:
        return push_scalar(y, p, byte);
    case STRING:
        return push_string(y, p, byte);
    case ESCAPE:
        return push_escape(y, p, byte);
    case CODE:
        return push_code(y, p, byte);
    case AFTER:
        return push_after(y, p, byte);
    case BETWEEN:
        return push_between(y, byte);
    default:
        break;
    }
    if (!y->closer_at && is_blank(byte))
        return CALL_MORE;
    literal_step step = literal_push(y->closer, &y->closer_at, byte);
    return step == LITERAL_FULL ? CALL_DONE : step == LITERAL_MORE ? CALL_MORE : CALL_NOT;
}

const call_family pythonic_family = {.name = "pythonic",
                                     .openers = openers,
                                     .start_openers = start_openers,
                                     .marks = closers,
                                     .state_size = sizeof(pythonic),
                                     .begin = begin,
                                     .push = push};
