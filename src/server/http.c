/* server/http.c: the request-head state machine (one byte at a time, each byte checked as it comes), then the checks
 * that need the whole head, then the chunk decoder. */
#include "server/http.h"

enum { /* states of the head */
       AT_START,
       AT_START_LF, /* one empty line before a request is allowed */
       IN_METHOD,
       IN_TARGET,
       IN_VERSION,
       AT_LINE_LF,
       AT_HEADER,
       IN_NAME,
       BEFORE_VALUE,
       IN_VALUE,
       AT_HEADER_LF,
       AT_END_LF,
       FINISHED,
       BROKEN,
};

static bool is_token_char(unsigned char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
        return true;
    return c && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool equals_lower(span a, const char *b)
{
    size_t i = 0;
    for (; i < a.size && b[i]; i++)
        if (lower(a.data[i]) != b[i])
            return false;
    return i == a.size && !b[i];
}

static http_result bad(http_head *h, int status, const char *reason)
{
    h->state = BROKEN;
    h->status = status;
    h->reason = reason;
    return HTTP_BAD;
}

void http_head_reset(http_head *h)
{
    memset(h, 0, sizeof *h);
}

span http_head_get(const http_head *h, const char *data, const char *name)
{
    for (uint16_t i = 0; i < h->header_count; i++)
        if (equals_lower(span_of(data + h->headers[i].name, h->headers[i].name_size), name))
            return span_of(data + h->headers[i].value, h->headers[i].value_size);
    return (span){0};
}

span http_head_path(const http_head *h, const char *data)
{
    return span_of(data + h->target, h->path_size);
}

bool http_value_has(span value, const char *token)
{
    size_t at = 0;
    while (at < value.size) {
        size_t end = at;
        while (end < value.size && value.data[end] != ',')
            end++;
        size_t first = at, last = end;
        while (first < last && (value.data[first] == ' ' || value.data[first] == '\t'))
            first++;
        while (last > first && (value.data[last - 1] == ' ' || value.data[last - 1] == '\t'))
            last--;
        if (equals_lower(span_of(value.data + first, last - first), token))
            return true;
        at = end + 1;
    }
    return false;
}

static size_t count_headers(const http_head *h, const char *data, const char *name)
{
    size_t count = 0;
    for (uint16_t i = 0; i < h->header_count; i++)
        count += equals_lower(span_of(data + h->headers[i].name, h->headers[i].name_size), name);
    return count;
}

static http_method method_of(span m)
{
    static const struct {
        const char *name;
        http_method method;
    } known[] = {{"GET", HTTP_GET},
                 {"HEAD", HTTP_HEAD},
                 {"POST", HTTP_POST},
                 {"DELETE", HTTP_DELETE},
                 {"OPTIONS", HTTP_OPTIONS}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (span_is(m, known[i].name))
            return known[i].method;
    return HTTP_OTHER;
}

static http_result read_length(http_head *h, span value)
{
    if (value.size == 0 || value.size > 18)
        return bad(h, 400, "Content-Length is not a number of 1 to 18 digits");
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] < '0' || value.data[i] > '9')
            return bad(h, 400, "Content-Length is not a number");
        h->content_length = h->content_length * 10 + (uint64_t)(value.data[i] - '0');
    }
    h->has_length = true;
    return HTTP_DONE;
}

/* What can only be said about the whole head: framing, Host, connection options. */
static http_result check_head(http_head *h, const char *data)
{
    size_t lengths = count_headers(h, data, "content-length"), codings = count_headers(h, data, "transfer-encoding");
    size_t hosts = count_headers(h, data, "host");
    if (hosts > 1 || (hosts == 0 && h->minor == 1))
        return bad(h, 400, "exactly one Host header is required");
    if (lengths > 1 || codings > 1 || (lengths && codings))
        return bad(h, 400, "more than one header says how long the body is");
    if (lengths && read_length(h, http_head_get(h, data, "content-length")) == HTTP_BAD)
        return HTTP_BAD;
    if (codings) {
        if (h->minor == 0)
            return bad(h, 400, "Transfer-Encoding in an HTTP/1.0 request");
        if (!equals_lower(http_head_get(h, data, "transfer-encoding"), "chunked"))
            return bad(h, 501, "only the transfer coding \"chunked\" is supported");
        h->chunked = true;
    }
    span expect = http_head_get(h, data, "expect");
    h->expect_continue = expect.data && h->minor == 1 && equals_lower(expect, "100-continue");
    if (expect.data && h->minor == 1 && !h->expect_continue)
        return bad(h, 417, "only Expect: 100-continue is supported");
    span connection = http_head_get(h, data, "connection");
    h->keep_alive = h->minor == 1 ? !http_value_has(connection, "close") : http_value_has(connection, "keep-alive");
    return HTTP_DONE;
}

static http_result end_target(http_head *h, const char *data, uint16_t at)
{
    h->target_size = (uint16_t)(at - h->target);
    const char *target = data + h->target;
    bool star = h->target_size == 1 && target[0] == '*' && h->method == HTTP_OPTIONS;
    if (h->target_size == 0 || (target[0] != '/' && !star))
        return bad(h, 400, "the request target is not a path");
    const char *query = memchr(target, '?', h->target_size);
    h->path_size = query ? (uint16_t)(query - target) : h->target_size;
    h->state = IN_VERSION;
    h->mark = (uint16_t)(at + 1);
    return HTTP_MORE;
}

static http_result step_version(http_head *h, char c)
{
    static const char want[] = "HTTP/1.";
    if (h->version_at < 7) {
        if (c != want[h->version_at])
            return bad(h, h->version_at >= 5 && c >= '0' && c <= '9' ? 505 : 400,
                       "the request line does not end in HTTP/1.1");
    } else if (h->version_at == 7) {
        if (c != '0' && c != '1')
            return bad(h, c >= '2' && c <= '9' ? 505 : 400, "only HTTP/1.0 and HTTP/1.1 are spoken here");
        h->minor = (uint8_t)(c - '0');
    } else if (c != '\r') {
        return bad(h, 400, "the request line does not end in CR LF");
    } else {
        h->state = AT_LINE_LF;
    }
    h->version_at++;
    return HTTP_MORE;
}

static http_result step_line(http_head *h, const char *data, char c, uint16_t at)
{
    switch (h->state) {
    case AT_START:
        if (c == '\r' && at == 0) {
            h->state = AT_START_LF;
            return HTTP_MORE;
        }
        h->state = IN_METHOD;
        h->mark = at;
        return is_token_char((unsigned char)c) ? HTTP_MORE : bad(h, 400, "the request does not begin with a method");
    case AT_START_LF:
        h->state = AT_START;
        return c == '\n' ? HTTP_MORE : bad(h, 400, "CR without LF");
    case IN_METHOD:
        if (c == ' ') {
            h->method = method_of(span_of(data + h->mark, (size_t)(at - h->mark)));
            h->target = (uint16_t)(at + 1);
            h->state = IN_TARGET;
            return HTTP_MORE;
        }
        if (at - h->mark >= 20)
            return bad(h, 400, "the method is too long");
        return is_token_char((unsigned char)c) ? HTTP_MORE : bad(h, 400, "the method holds a wrong character");
    case IN_TARGET:
        if (c == ' ')
            return end_target(h, data, at);
        if ((unsigned char)c <= 0x20 || (unsigned char)c >= 0x7f)
            return bad(h, 400, "the request target holds a control, blank or non-ASCII character");
        return at - h->target < HTTP_TARGET_MAX ? HTTP_MORE : bad(h, 414, "the request target is too long");
    default:
        return step_version(h, c);
    }
}

static http_result step_header(http_head *h, char c, uint16_t at)
{
    http_header *header = &h->headers[h->header_count];
    bool blank = c == ' ' || c == '\t';
    switch (h->state) {
    case AT_HEADER:
        if (c == '\r') {
            h->state = AT_END_LF;
            return HTTP_MORE;
        }
        if (blank)
            return bad(h, 400, "folded headers are not allowed");
        if (h->header_count == HTTP_HEADERS_MAX)
            return bad(h, 431, "more than 64 headers");
        header->name = at;
        h->state = IN_NAME;
        return is_token_char((unsigned char)c) ? HTTP_MORE : bad(h, 400, "a header name begins with a wrong character");
    case IN_NAME:
        if (c == ':') {
            header->name_size = (uint16_t)(at - header->name);
            h->state = BEFORE_VALUE;
            return HTTP_MORE;
        }
        return is_token_char((unsigned char)c) ? HTTP_MORE : bad(h, 400, "a header name holds a wrong character");
    case BEFORE_VALUE:
        if (blank)
            return HTTP_MORE;
        header->value = h->value_end = at;
        h->state = IN_VALUE; /* fall through */
    case IN_VALUE:
        if (c == '\r') {
            header->value_size = (uint16_t)(h->value_end - header->value);
            h->state = AT_HEADER_LF;
            return HTTP_MORE;
        }
        if (((unsigned char)c < 0x20 && c != '\t') || c == 0x7f)
            return bad(h, 400, "a header value holds a control character");
        if (!blank)
            h->value_end = (uint16_t)(at + 1);
        return HTTP_MORE;
    default:
        return HTTP_MORE;
    }
}

http_result http_head_feed(http_head *h, const char *data, size_t size)
{
    if (h->state == BROKEN || h->state == FINISHED)
        return h->state == FINISHED ? HTTP_DONE : HTTP_BAD;
    while (h->offset < size) {
        if (h->offset >= HTTP_HEAD_MAX)
            return bad(h, 431, "the request head is longer than 16 KB");
        uint16_t at = h->offset++;
        char c = data[at];
        http_result result = HTTP_MORE;
        if (h->state == AT_LINE_LF || h->state == AT_HEADER_LF || h->state == AT_END_LF) {
            if (c != '\n')
                return bad(h, 400, "CR without LF");
            if (h->state == AT_END_LF) {
                h->state = FINISHED;
                h->head_size = h->offset;
                return check_head(h, data);
            }
            h->header_count = (uint16_t)(h->header_count + (h->state == AT_HEADER_LF));
            h->state = AT_HEADER;
        } else if (h->state >= AT_HEADER) {
            result = step_header(h, c, at);
        } else {
            result = step_line(h, data, c, at);
        }
        if (result == HTTP_BAD)
            return HTTP_BAD;
    }
    return HTTP_MORE;
}

enum {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    TRAILER_START,
    TRAILER,
    TRAILER_LF,
    CHUNKS_END_LF,
    CHUNKS_DONE,
    CHUNKS_BROKEN
};
enum { CHUNK_DIGITS_MAX = 12, CHUNK_LINE_MAX = 256, TRAILERS_MAX = 4096 };

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_text(char c)
{
    return (unsigned char)c >= 0x20 ? c != 0x7f : c == '\t';
}

/* One byte of the size line. */
static bool step_size(http_chunks *c, char byte)
{
    int digit = c->state == CHUNK_SIZE ? hex_digit(byte) : -1;
    if (digit >= 0) {
        c->left = c->left * 16 + (uint64_t)digit;
        return ++c->digits <= CHUNK_DIGITS_MAX;
    }
    if (c->digits == 0)
        return false;
    if (byte == '\r') {
        c->state = CHUNK_SIZE_LF;
        return true;
    }
    if (c->state == CHUNK_SIZE && byte != ';')
        return false;
    c->state = CHUNK_EXTENSION;
    return is_text(byte) && ++c->line <= CHUNK_LINE_MAX;
}

/* One byte of the trailers. */
static bool step_trailer(http_chunks *c, char byte)
{
    if (++c->line > TRAILERS_MAX)
        return false;
    if (byte == '\r') {
        c->state = c->state == TRAILER_START ? CHUNKS_END_LF : TRAILER_LF;
        return true;
    }
    bool ok = c->state == TRAILER_START ? is_token_char((unsigned char)byte) : is_text(byte);
    c->state = TRAILER;
    return ok;
}

static bool step_chunk(http_chunks *c, char byte)
{
    switch (c->state) {
    case CHUNK_SIZE:
    case CHUNK_EXTENSION:
        return step_size(c, byte);
    case CHUNK_SIZE_LF:
        c->state = c->left ? CHUNK_DATA : TRAILER_START;
        c->line = c->digits = 0;
        return byte == '\n';
    case CHUNK_DATA_CR:
        c->state = CHUNK_DATA_LF;
        return byte == '\r';
    case CHUNK_DATA_LF:
        c->state = CHUNK_SIZE;
        return byte == '\n';
    case TRAILER_LF:
        c->state = TRAILER_START;
        return byte == '\n';
    case CHUNKS_END_LF:
        c->state = CHUNKS_DONE;
        return byte == '\n';
    case TRAILER_START:
    case TRAILER:
        return step_trailer(c, byte);
    default:
        return false;
    }
}

http_result http_chunks_feed(http_chunks *c, const char *data, size_t size, size_t *used, span *payload)
{
    *payload = (span){0};
    while (c->state != CHUNKS_DONE) {
        if (*used >= size)
            return HTTP_MORE;
        if (c->state == CHUNK_DATA) {
            size_t run = size - *used < c->left ? size - *used : (size_t)c->left;
            *payload = span_of(data + *used, run);
            *used += run;
            c->left -= run;
            if (!c->left)
                c->state = CHUNK_DATA_CR;
            return HTTP_MORE;
        }
        if (!step_chunk(c, data[*used])) {
            c->state = CHUNKS_BROKEN;
            return HTTP_BAD;
        }
        ++*used;
    }
    return HTTP_DONE;
}
