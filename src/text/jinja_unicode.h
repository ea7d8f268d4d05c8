/* text/jinja_unicode.h: characters as Python sees them. UTF-8 in, code points out; invalid bytes read as U+FFFD, one
 * each. */
#ifndef HEADWAY_TEXT_JINJA_UNICODE_H
#define HEADWAY_TEXT_JINJA_UNICODE_H

#include "base/span.h"

int32_t jinja_decode(const char *data, size_t size, size_t *used); /* size > 0; used: 1 to 4 */
size_t jinja_encode(int32_t code, char out[4]);                    /* bytes written; surrogates become U+FFFD */
size_t jinja_char_count(span text);
size_t jinja_char_offset(span text, size_t index); /* byte offset of a character; text.size past the end */
bool jinja_valid_utf8(span text);

bool jinja_is_space(int32_t code); /* str.isspace */
bool jinja_is_printable(int32_t code);
bool jinja_is_upper(int32_t code);
bool jinja_is_lower(int32_t code);
bool jinja_is_title(int32_t code);
bool jinja_is_alpha(int32_t code);
bool jinja_is_digit(int32_t code);   /* Nd: what str.isdigit and int() take */
bool jinja_is_numeric(int32_t code); /* Nd, Nl, No */
bool jinja_is_cased(int32_t code);
bool jinja_is_name_start(int32_t code);
bool jinja_is_name(int32_t code);

typedef enum { CASE_UPPER, CASE_LOWER, CASE_TITLE } jinja_case;
size_t jinja_change_case(int32_t code, jinja_case to, int32_t out[3]); /* count of code points, 1 to 3 */

span jinja_strip(span text, span chars, bool use_chars, bool left, bool right); /* str.strip; without chars: blanks */

#endif
