/* text/parse/value.h: what a call's syntax leaves untyped, as JSON: by the tool's schema, which decides, never by how a
 * value looks. Of text/parse, and of those who write grammars of calls. */
#ifndef HEADWAY_TEXT_PARSE_VALUE_H
#define HEADWAY_TEXT_PARSE_VALUE_H

#include <jansson.h>

#include "base/buf.h"
#include "base/span.h"

enum {
    VALUE_STRING = 1,
    VALUE_NUMBER = 2,
    VALUE_INTEGER = 4,
    VALUE_BOOLEAN = 8,
    VALUE_NULL = 16,
    VALUE_OBJECT = 32,
    VALUE_ARRAY = 64
};

/* The types that a tool's parameter may have; 0: its schema does not say. `tools`: as in output_parser_config. */
unsigned value_types(json_t *tools, span tool, span parameter);

/* Appends `text` as a JSON value of one of `types` (not of string alone, nor of none); what fits none becomes a string.
 */
void value_typed(span text, unsigned types, buf *out);

/* Number, true, false, null, in JSON's or Python's spelling. False: it is none, and nothing is appended. */
bool value_literal(span text, buf *out);
void value_string(span text, buf *out); /* appends a JSON string */

#endif
