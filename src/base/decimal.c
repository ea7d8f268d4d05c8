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

bool decimal_read_bytes(span text, uint64_t *out)
{
    static const char units[] = "KMGT";
    double value = 0, unit = 1;
    if (text.size > 1 && (text.data[text.size - 1] == 'B' || text.data[text.size - 1] == 'b') &&
        (text.data[text.size - 2] < '0' || text.data[text.size - 2] > '9'))
        text.size--;
    for (size_t i = 0; text.size && i < sizeof units - 1; i++)
        if ((text.data[text.size - 1] & ~0x20) == units[i]) {
            unit = (double)(UINT64_C(1) << (10 * (i + 1)));
            text.size--;
            break;
        }
    if (!decimal_read(text, &value) || value * unit >= 9e18)
        return false;
    *out = (uint64_t)(value * unit);
    return true;
}
