/* tests/unit/server/http_streams.h: carries a byte stream through the head parser and the chunk decoder, cut in given
 * pieces, and sums up all that came out. Used by the unit test and the fuzz target: any two ways of cutting must give
 * the same sum. */
#ifndef HEADWAY_TESTS_HTTP_STREAMS_H
#define HEADWAY_TESTS_HTTP_STREAMS_H

#include <stdio.h>
#include <stdlib.h>

#include "server/http.h"

typedef struct {
    unsigned requests;
    int status;    /* of the refusal, 0: none */
    uint64_t hash; /* of everything parsed */
    size_t body;   /* payload bytes */
} stream_sum;

static void stream_mix(stream_sum *sum, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum->hash = (sum->hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
}

static void stream_note_head(stream_sum *sum, const http_head *h, const char *data)
{
    sum->requests++;
    stream_mix(sum, data + h->target, h->target_size);
    stream_mix(sum, &h->content_length, sizeof h->content_length);
    for (unsigned i = 0; i < h->header_count; i++) {
        stream_mix(sum, data + h->headers[i].name, h->headers[i].name_size);
        stream_mix(sum, data + h->headers[i].value, h->headers[i].value_size);
    }
    unsigned char flags[] = {(unsigned char)h->method, h->keep_alive, h->chunked, h->has_length,
                             h->expect_continue,       h->minor};
    stream_mix(sum, flags, sizeof flags);
}

/* `step` bytes become visible at a time. The bytes lie in a block of exactly the visible size, so that reading past it
 * is seen. */
static stream_sum stream_run(const char *data, size_t size, size_t step)
{
    stream_sum sum = {0};
    http_head head = {0};
    http_chunks chunks = {0};
    size_t at = 0, seen = 0;
    uint64_t left = 0;
    enum { HEAD, LENGTH, CHUNKS } state = HEAD;
    char *copy = malloc(size + 1);
    while (seen < size && !sum.status) {
        seen = size - seen < step ? size : seen + step;
        copy = realloc(copy, seen);
        memcpy(copy, data, seen);
        http_result result = HTTP_DONE;
        while (result != HTTP_MORE && !sum.status) {
            if (state == HEAD) {
                result = at < seen ? http_head_feed(&head, copy + at, seen - at) : HTTP_MORE;
                if (result == HTTP_BAD)
                    sum.status = head.status;
                if (result != HTTP_DONE)
                    continue;
                stream_note_head(&sum, &head, copy + at);
                at += head.head_size;
                left = head.content_length;
                state = head.chunked ? CHUNKS : LENGTH;
                chunks = (http_chunks){0};
                head = (http_head){0};
            } else if (state == LENGTH) {
                size_t run = seen - at < left ? seen - at : (size_t)left;
                stream_mix(&sum, copy + at, run);
                sum.body += run;
                at += run;
                left -= run;
                result = left ? HTTP_MORE : HTTP_DONE;
                state = left ? LENGTH : HEAD;
            } else {
                span payload;
                result = http_chunks_feed(&chunks, copy, seen, &at, &payload);
                stream_mix(&sum, payload.data, payload.size);
                sum.body += payload.size;
                if (result == HTTP_BAD)
                    sum.status = 400;
                if (result == HTTP_DONE)
                    state = HEAD;
                else if (result == HTTP_MORE && at < seen)
                    result = HTTP_DONE; /* it only stopped to show a payload */
            }
        }
    }
    free(copy);
    return sum;
}

static inline bool stream_same(stream_sum a, stream_sum b)
{
    return a.requests == b.requests && a.status == b.status && a.hash == b.hash && a.body == b.body;
}

#endif
