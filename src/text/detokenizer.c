/* text/detokenizer.c: from ids back to text, one at a time.
 * A token is a run of bytes that need not end at a character's border: an unfinished character is held until the next
 * token completes or refutes it. */
#include "text/tokenizer.h"

#include "text/tokenizer_parts.h"
#include "text/tokenizer_utf8.h"

/* The bytes a token stands for, through `emit`. */
typedef struct {
    detokenizer *d;
    buf *out;
    bool drop_first_space;
    bool raw; /* bytes as they are */
} emitter;

static void emit_bytes(emitter *e, const char *data, size_t size)
{
    detokenizer *d = e->d;
    if (size == 0)
        return;
    if (e->raw) {
        buf_append(e->out, data, size);
        return;
    }
    if (!d->started) {
        d->started = true;
        if (e->drop_first_space && data[0] == ' ') {
            data++;
            size--;
        }
    }
    while (size) {
        if (d->held_size) {
            d->held[d->held_size++] = data[0];
            utf8_char c = utf8_next(d->held, d->held_size);
            if (!c.cut && !c.valid) { /* refuted by a byte that starts something else */
                buf_append(e->out, "\xEF\xBF\xBD", 3);
                d->held_size = 0;
                continue;
            }
            data++;
            size--;
            if (c.valid) {
                buf_append(e->out, d->held, d->held_size);
                d->held_size = 0;
            }
            continue;
        }
        size_t good = utf8_valid_prefix(span_of(data, size));
        buf_append(e->out, data, good);
        data += good;
        size -= good;
        if (size == 0)
            return;
        utf8_char c = utf8_next(data, size);
        if (c.cut) {
            memcpy(d->held, data, size);
            d->held_size = (uint32_t)size;
            return;
        }
        buf_append(e->out, "\xEF\xBF\xBD", 3);
        data += c.size;
        size -= c.size;
    }
}

static void emit_byte_level(emitter *e, span text)
{
    char bytes[256];
    size_t count = 0;
    for (size_t at = 0; at < text.size;) {
        utf8_char c = utf8_next(text.data + at, text.size - at);
        int byte = c.valid ? byte_level_byte(c.code) : -1;
        if (count + 4 > sizeof bytes) {
            emit_bytes(e, bytes, count);
            count = 0;
        }
        if (byte >= 0) {
            bytes[count++] = (char)byte;
        } else { /* not of the alphabet: it stands for itself */
            memcpy(bytes + count, text.data + at, c.size);
            count += c.size;
        }
        at += c.size;
    }
    emit_bytes(e, bytes, count);
}

static void emit_spaced(emitter *e, span text)
{
    size_t from = 0;
    for (size_t at = 0; at + 3 <= text.size;) {
        if (memcmp(text.data + at, SPM_SPACE, 3) != 0) {
            at++;
            continue;
        }
        emit_bytes(e, text.data + from, at - from);
        emit_bytes(e, " ", 1);
        at += 3;
        from = at;
    }
    emit_bytes(e, text.data + from, text.size - from);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* The byte of "<0xAB>", or -1. */
static int byte_token(span text)
{
    if (text.size != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>')
        return -1;
    int high = hex_digit(text.data[3]), low = hex_digit(text.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static void emit_token(emitter *e, const tokenizer *t, token_id id)
{
    token_type type = vocab_type(&t->vocab, id);
    span text = vocab_text(&t->vocab, id);
    if (((type == TOKEN_CONTROL || type == TOKEN_UNKNOWN) && !e->d->keep_specials) || text.size == 0)
        return;
    bool plain = type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || type == TOKEN_USER;
    if (t->decode == DECODE_BYTE_LEVEL && !plain) {
        emit_byte_level(e, text);
    } else if (t->decode == DECODE_SPACES) {
        int byte = type == TOKEN_BYTE ? byte_token(text) : -1;
        if (byte >= 0)
            emit_bytes(e, (const char[]){(char)byte}, 1);
        else
            emit_spaced(e, text);
    } else {
        emit_bytes(e, text.data, text.size);
    }
}

void detokenizer_push(detokenizer *d, const tokenizer *t, token_id id, buf *out)
{
    emitter e = {d, out, t->drop_first_space, false};
    emit_token(&e, t, id);
}

void tokenizer_token_bytes(const tokenizer *t, token_id id, buf *out)
{
    detokenizer plain = {0};
    emitter e = {&plain, out, false, true};
    emit_token(&e, t, id);
}

bool tokenizer_drops_first_space(const tokenizer *t)
{
    return t->drop_first_space;
}

void detokenizer_finish(detokenizer *d, buf *out)
{
    if (d->held_size)
        buf_append(out, "\xEF\xBF\xBD", 3);
    d->held_size = 0;
}

void tokenizer_decode(const tokenizer *t, const token_id *ids, size_t count, bool keep_specials, buf *out)
{
    detokenizer d = {.keep_specials = keep_specials};
    for (size_t i = 0; i < count; i++)
        detokenizer_push(&d, t, ids[i], out);
    detokenizer_finish(&d, out);
}
