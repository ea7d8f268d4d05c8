/* server/json_text.h: JSON written by hand into a buffer: strings, numbers, API errors. Ten times cheaper than a tree,
 * and the shape can be read off the code. Any thread; the caller owns the buffer. */
#ifndef HEADWAY_SERVER_JSON_TEXT_H
#define HEADWAY_SERVER_JSON_TEXT_H

#include "base/buf.h"

/* Appends `text` quoted and escaped. Invalid UTF-8 becomes U+FFFD, so that the output is always valid JSON. */
void json_text_string(buf *out, span text);
void json_text_number(buf *out, double value); /* null when not finite */

typedef struct {      /* an answer that is not 200 */
    int status;       /* 0: no error */
    const char *type; /* "invalid_request_error", … */
    const char *code; /* NULL: null */
    char param[64];   /* "": null */
    char message[640];
    bool has_sizes; /* adds n_prompt_tokens and n_ctx, which llama.cpp clients read */
    uint64_t prompt_tokens, context;
    char request_id[28];  /* "": none */
    uint32_t retry_after; /* seconds; 0: no header */
    bool dropped;         /* by admission: `code` goes into a header for gateways too */
} api_error;

/* Fills `e` (if it is empty: the first error stays). Always false, for `return api_fail(…)`. */
bool api_fail(api_error *e, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void api_error_write(const api_error *e, buf *out); /* {"error":{…}} */
/* Under the names of both OpenAI's and Anthropic's clients. */
void api_request_id_headers(const char *request_id, buf *out);
void api_error_headers(const api_error *e, buf *out); /* header lines that go with it */

#endif
