/* server/http.h: what does this client ask for? A strict HTTP/1.1 request-head parser and a chunk decoder. No I/O, no
 * allocation, no clock. Both are fed bytes in pieces of any size and give the same answer for every way of cutting
 * them. Refused: bare LF, folded headers, NUL and control bytes, blanks before a colon, two Content-Length or Host,
 * Content-Length with Transfer-Encoding, any coding but "chunked", absolute or authority targets, HTTP/2. The caller
 * owns everything; one thread. */
#ifndef HEADWAY_SERVER_HTTP_H
#define HEADWAY_SERVER_HTTP_H

#include "base/span.h"

enum {
    HTTP_HEAD_MAX = 16384,  /* bytes of a request head */
    HTTP_TARGET_MAX = 4096, /* bytes of path and query */
    HTTP_HEADERS_MAX = 64,
};

typedef enum { HTTP_MORE, HTTP_DONE, HTTP_BAD } http_result;
typedef enum { HTTP_GET, HTTP_HEAD, HTTP_POST, HTTP_DELETE, HTTP_OPTIONS, HTTP_OTHER } http_method;

typedef struct { /* offsets into the fed bytes, so that the buffer may move */
    uint16_t name, name_size, value, value_size;
} http_header;

typedef struct { /* zero-initialise, or http_head_reset */
    /* result, valid after HTTP_DONE */
    http_method method;
    uint16_t target, target_size; /* path and query */
    uint16_t path_size;           /* of the target, up to '?' */
    uint16_t head_size;           /* bytes of the head, blank line included: the body starts there */
    uint8_t minor;                /* HTTP/1.minor */
    bool keep_alive, chunked, has_length, expect_continue;
    uint64_t content_length;
    uint16_t header_count;
    http_header headers[HTTP_HEADERS_MAX];
    /* after HTTP_BAD */
    int status;         /* 400, 414, 431, 501, 505 */
    const char *reason; /* for people */
    /* private */
    uint8_t state, version_at;
    uint16_t offset, mark, value_end;
} http_head;

void http_head_reset(http_head *h);
/* `data` holds all bytes of this head so far (from its first byte), `size` >= what earlier calls saw. */
http_result http_head_feed(http_head *h, const char *data, size_t size);
/* Value of the header `name` (lower case), an empty span with NULL data when absent. The first one if repeated. */
span http_head_get(const http_head *h, const char *data, const char *name);
span http_head_path(const http_head *h, const char *data);
/* Does a comma-separated header value hold `token` (lower case)? */
bool http_value_has(span value, const char *token);

typedef struct { /* zero-initialise */
    uint8_t state, digits;
    uint16_t line; /* bytes of extension or trailer seen */
    uint64_t left; /* of the current chunk */
} http_chunks;

/* Decodes from data[*used]; stops after each run of payload, which is given as `payload` (borrowed from data), at the
 * end (HTTP_DONE) or when all bytes are used (HTTP_MORE; call again while *used < size). Trailers are read and dropped.
 */
http_result http_chunks_feed(http_chunks *c, const char *data, size_t size, size_t *used, span *payload);

#endif
