/* text/parse/json_call.h: a call that is one JSON object, {"name": …, "arguments" or "parameters": {…}}, in any order,
 * other keys allowed. The JSON's own structure decides where it ends. Private to text/parse. */
#ifndef HEADWAY_TEXT_PARSE_JSON_CALL_H
#define HEADWAY_TEXT_PARSE_JSON_CALL_H

#include "text/parse/family.h"
#include "text/parse/json_scan.h"

enum { JSON_CALL_WORD = 128 };

typedef struct { /* zero-initialise; buf_free(&text) */
    uint8_t state, key;
    bool strict; /* other keys than those of a call: it is none (for calls that nothing marks) */
    bool has_arguments;
    uint32_t word_size;
    char word[JSON_CALL_WORD];
    json_scan scan;
    buf text; /* arguments that came as a string */
} json_call;

/* As call_family.push, from the first byte behind the opener; CALL_DONE: the object has ended, call_end was called. */
call_step json_call_push(json_call *c, output_parser *p, char byte);
void json_call_reset(json_call *c); /* for the next one */

#endif
