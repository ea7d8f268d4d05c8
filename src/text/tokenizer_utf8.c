/* text/tokenizer_utf8.c: UTF-8 by the table of well-formed sequences (Unicode 3.9, table 3-7). */
#include "text/tokenizer_utf8.h"

/* The range of the second byte depends on the first; everything later is 80..BF. Returns the length, 0: not a first
 * byte. */
static unsigned lead_info(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (lead < 0xC2)
        return 0;
    if (lead < 0xE0)
        return 2;
    if (lead < 0xF0) {
        if (lead == 0xE0)
            *low = 0xA0;
        if (lead == 0xED)
            *high = 0x9F;
        return 3;
    }
    if (lead > 0xF4)
        return 0;
    if (lead == 0xF0)
        *low = 0x90;
    if (lead == 0xF4)
        *high = 0x8F;
    return 4;
}

utf8_char utf8_next(const char *data, size_t size)
{
    const unsigned char *p = (const unsigned char *)data;
    if (size == 0)
        return (utf8_char){0xFFFD, 0, false, true};
    if (p[0] < 0x80)
        return (utf8_char){p[0], 1, true, false};
    unsigned char low, high;
    unsigned need = lead_info(p[0], &low, &high);
    if (need == 0)
        return (utf8_char){0xFFFD, 1, false, false};
    uint32_t code = p[0] & (0x7Fu >> need);
    for (unsigned i = 1; i < need; i++) {
        if (i >= size)
            return (utf8_char){0xFFFD, (uint8_t)i, false, true};
        if (p[i] < low || p[i] > high)
            return (utf8_char){0xFFFD, (uint8_t)i, false, false};
        code = code << 6 | (p[i] & 0x3F);
        low = 0x80;
        high = 0xBF;
    }
    return (utf8_char){code, (uint8_t)need, true, false};
}

uint32_t utf8_code(const char *data)
{
    const unsigned char *p = (const unsigned char *)data;
    switch (utf8_size(p[0])) {
    case 1:
        return p[0];
    case 2:
        return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    case 3:
        return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    default:
        return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
    }
}

uint32_t utf8_put(char out[4], uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

size_t utf8_valid_prefix(span text)
{
    size_t at = 0;
    while (at < text.size) {
        if ((unsigned char)text.data[at] < 0x80) {
            at++;
            continue;
        }
        utf8_char c = utf8_next(text.data + at, text.size - at);
        if (!c.valid)
            break;
        at += c.size;
    }
    return at;
}

void utf8_append_lossy(buf *out, span text)
{
    while (text.size) {
        size_t good = utf8_valid_prefix(text);
        buf_append(out, text.data, good);
        text = span_of(text.data + good, text.size - good);
        if (text.size == 0)
            break;
        utf8_char bad = utf8_next(text.data, text.size);
        buf_append(out, "\xEF\xBF\xBD", 3);
        text = span_of(text.data + bad.size, text.size - bad.size);
    }
}
