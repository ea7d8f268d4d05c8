/* text/parse/json_scan.h: is this, byte by byte, one JSON value, and where does it end? Structure only: numbers and
 * escapes are checked, UTF-8 is not. A control character inside a string, which models write and JSON forbids, comes
 * out escaped. Private to text/parse. */
#ifndef HEADWAY_TEXT_PARSE_JSON_SCAN_H
#define HEADWAY_TEXT_PARSE_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

enum { JSON_SCAN_DEPTH = 512, JSON_SCAN_IN_STRING = 6 /* a state to start with: behind a quote */ };

typedef struct { /* zero-initialise */
    uint8_t state, number;
    uint8_t literal_at, hex;
    const char *literal;
    uint32_t depth;
    uint8_t objects[JSON_SCAN_DEPTH / 8]; /* a bit a level: object or array */
    char out[8];                          /* what the last byte became: out_size bytes */
    uint8_t out_size;
} json_scan;

typedef enum {
    JSON_SCAN_MORE,
    JSON_SCAN_END,        /* the byte was the value's last */
    JSON_SCAN_END_BEFORE, /* a number ended before this byte, which is not part of it */
    JSON_SCAN_BAD,
} json_scan_step;

json_scan_step json_scan_push(json_scan *j, char byte);
/* Is `text` one JSON value (numbers included), with white space around it at most? */
bool json_scan_whole(span text);

#endif
