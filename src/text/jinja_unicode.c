/* text/jinja_unicode.c: Python's view of characters, over utf8proc's tables. */
#include "text/jinja_unicode.h"

#include <utf8proc.h>

int32_t jinja_decode(const char *data, size_t size, size_t *used)
{
    const unsigned char *p = (const unsigned char *)data;
    *used = 1;
    if (p[0] < 0x80)
        return p[0];
    static const int32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || size < length)
        return 0xfffd;
    int32_t code = p[0] & (0x7f >> length);
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0xfffd;
        code = code << 6 | (p[i] & 0x3f);
    }
    if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0xfffd;
    *used = length;
    return code;
}

size_t jinja_encode(int32_t code, char out[4])
{
    if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        code = 0xfffd;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00 >> length & 0xff) | code);
    return length;
}

size_t jinja_char_count(span text)
{
    size_t count = 0, used;
    for (size_t i = 0; i < text.size; i += used, count++)
        jinja_decode(text.data + i, text.size - i, &used);
    return count;
}

size_t jinja_char_offset(span text, size_t index)
{
    size_t used, i = 0;
    for (; i < text.size && index; i += used, index--)
        jinja_decode(text.data + i, text.size - i, &used);
    return i;
}

bool jinja_valid_utf8(span text)
{
    size_t used;
    for (size_t i = 0; i < text.size; i += used)
        if (jinja_decode(text.data + i, text.size - i, &used) == 0xfffd && used == 1)
            return false;
    return true;
}

bool jinja_is_space(int32_t code)
{
    if (code <= 0x20)
        return code == 0x20 || (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x1f);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool jinja_is_printable(int32_t code)
{
    if (code < 0x7f)
        return code >= 0x20;
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    default:
        return true;
    }
}

bool jinja_is_upper(int32_t code)
{
    return utf8proc_category(code) == UTF8PROC_CATEGORY_LU;
}

bool jinja_is_lower(int32_t code)
{
    return utf8proc_category(code) == UTF8PROC_CATEGORY_LL || code == 0xaa || code == 0xba;
}

bool jinja_is_title(int32_t code)
{
    return utf8proc_category(code) == UTF8PROC_CATEGORY_LT;
}

bool jinja_is_cased(int32_t code)
{
    return jinja_is_upper(code) || jinja_is_lower(code) || jinja_is_title(code);
}

bool jinja_is_alpha(int32_t code)
{
    utf8proc_category_t c = utf8proc_category(code);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool jinja_is_digit(int32_t code)
{
    return code < 0x80 ? code >= '0' && code <= '9' : utf8proc_category(code) == UTF8PROC_CATEGORY_ND;
}

bool jinja_is_numeric(int32_t code)
{
    utf8proc_category_t c = utf8proc_category(code);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool jinja_is_name_start(int32_t code)
{
    if (code < 0x80)
        return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || code == '_';
    return jinja_is_alpha(code) || utf8proc_category(code) == UTF8PROC_CATEGORY_NL;
}

bool jinja_is_name(int32_t code)
{
    if (jinja_is_name_start(code) || jinja_is_digit(code))
        return true;
    utf8proc_category_t c = code < 0x80 ? UTF8PROC_CATEGORY_CN : utf8proc_category(code);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_PC;
}

/* The characters whose case has more than one code point and that occur in real text. */
static const struct {
    int32_t code;
    jinja_case to;
    int32_t out[3];
} special_cases[] = {
    {0xdf, CASE_UPPER, {'S', 'S', 0}},          {0xdf, CASE_TITLE, {'S', 's', 0}},
    {0x130, CASE_LOWER, {'i', 0x307, 0}},       {0x149, CASE_UPPER, {0x2bc, 'N', 0}},
    {0x149, CASE_TITLE, {0x2bc, 'N', 0}},       {0x1f0, CASE_UPPER, {'J', 0x30c, 0}},
    {0x1f0, CASE_TITLE, {'J', 0x30c, 0}},       {0x390, CASE_UPPER, {0x399, 0x308, 0x301}},
    {0x3b0, CASE_UPPER, {0x3a5, 0x308, 0x301}}, {0x587, CASE_UPPER, {0x535, 0x552, 0}},
    {0x587, CASE_TITLE, {0x535, 0x582, 0}},     {0xfb00, CASE_UPPER, {'F', 'F', 0}},
    {0xfb00, CASE_TITLE, {'F', 'f', 0}},        {0xfb01, CASE_UPPER, {'F', 'I', 0}},
    {0xfb01, CASE_TITLE, {'F', 'i', 0}},        {0xfb02, CASE_UPPER, {'F', 'L', 0}},
    {0xfb02, CASE_TITLE, {'F', 'l', 0}},        {0xfb03, CASE_UPPER, {'F', 'F', 'I'}},
    {0xfb04, CASE_UPPER, {'F', 'F', 'L'}},      {0xfb05, CASE_UPPER, {'S', 'T', 0}},
    {0xfb06, CASE_UPPER, {'S', 'T', 0}},
};

size_t jinja_change_case(int32_t code, jinja_case to, int32_t out[3])
{
    if (code < 0x80) {
        bool lower = code >= 'a' && code <= 'z', upper = code >= 'A' && code <= 'Z';
        out[0] = to == CASE_LOWER ? (upper ? code + 32 : code) : (lower ? code - 32 : code);
        return 1;
    }
    for (size_t i = 0; i < sizeof special_cases / sizeof *special_cases; i++) {
        if (special_cases[i].code != code || special_cases[i].to != to)
            continue;
        memcpy(out, special_cases[i].out, sizeof special_cases[i].out);
        return out[2] ? 3 : 2;
    }
    out[0] = to == CASE_UPPER   ? utf8proc_toupper(code)
             : to == CASE_LOWER ? utf8proc_tolower(code)
                                : utf8proc_totitle(code);
    return 1;
}

static bool strips(int32_t code, span chars, bool use_chars)
{
    if (!use_chars)
        return jinja_is_space(code);
    size_t used;
    for (size_t i = 0; i < chars.size; i += used)
        if (jinja_decode(chars.data + i, chars.size - i, &used) == code)
            return true;
    return false;
}

span jinja_strip(span text, span chars, bool use_chars, bool left, bool right)
{
    size_t used;
    while (left && text.size && strips(jinja_decode(text.data, text.size, &used), chars, use_chars)) {
        text.data += used;
        text.size -= used;
    }
    while (right && text.size) {
        size_t start = text.size - 1;
        while (start > 0 && text.size - start < 4 && (text.data[start] & 0xc0) == 0x80)
            start--;
        int32_t code = jinja_decode(text.data + start, text.size - start, &used);
        if (start + used != text.size || !strips(code, chars, use_chars))
            break;
        text.size = start;
    }
    return text;
}
