/* base/sha256.h: SHA-256 (FIPS 180-4) of bytes in memory, for API keys: what is kept cannot be turned back into a key.
 * Leaves no trace of the input on the stack. Any thread. */
#ifndef HEADWAY_BASE_SHA256_H
#define HEADWAY_BASE_SHA256_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

enum { SHA256_BYTES = 32, SHA256_HEX = 2 * SHA256_BYTES };

void sha256(span data, uint8_t hash[SHA256_BYTES]);
void sha256_write_hex(const uint8_t hash[SHA256_BYTES], char hex[SHA256_HEX + 1]);
bool sha256_read_hex(span hex, uint8_t hash[SHA256_BYTES]); /* exactly 64 hex digits, either case */

#endif
