/* base/decimal.h: a plain decimal number, whatever the locale says. No sign, exponent, hex, infinity or blanks. */
#ifndef HEADWAY_BASE_DECIMAL_H
#define HEADWAY_BASE_DECIMAL_H

#include "base/span.h"

/* "12", "0.5", "12." and ".5", of at most 18 digits; false and *out untouched for anything else. Any thread. */
bool decimal_read(span text, double *out);

/* Bytes: a decimal number and perhaps K, M, G or T (powers of 1024, either case, a B may follow): "512M", "1.5G". False
 * and *out untouched for anything else. Any thread. */
bool decimal_read_bytes(span text, uint64_t *out);

#endif
