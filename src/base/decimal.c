/* base/decimal.c: digits, at most one point. */
#include "base/decimal.h"

enum { DIGITS_MAX = 18 };

bool decimal_read(span text, double *out)
{
    double digits = 0, scale = 1;
    unsigned count = 0;
    bool point = false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '.' && !point) {
            point = true;
        } else if (c >= '0' && c <= '9' && count < DIGITS_MAX) {
            digits = digits * 10 + (c - '0');
            scale *= point ? 10 : 1;
            count++;
        } else {
            return false;
        }
    }
    if (!count)
        return false;
    *out = digits / scale;
    return true;
}
