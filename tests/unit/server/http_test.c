/* tests/unit/server/http_test.c: what the parser takes, what it refuses, and that cutting the bytes changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "unit/server/http_streams.h"

#define LINE "GET / HTTP/1.1\r\n"
#define HOST "Host: a\r\n"

static void reads_a_request(void **state)
{
    (void)state;
    static const char text[] = "\r\nPOST /v1/x?y=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nX-Odd:  \t b c "
                               "\t\r\nExpect: 100-Continue\r\n\r\nbody";
    http_head h = {0};
    assert_int_equal(http_head_feed(&h, text, sizeof text - 1), HTTP_DONE);
    assert_int_equal(h.method, HTTP_POST);
    assert_true(span_is(http_head_path(&h, text), "/v1/x"));
    assert_int_equal(h.target_size, 9);
    assert_int_equal(h.content_length, 12);
    assert_true(h.keep_alive && h.expect_continue && !h.chunked);
    assert_true(span_is(http_head_get(&h, text, "x-odd"), "b c"));
    assert_null(http_head_get(&h, text, "missing").data);
    assert_string_equal(text + h.head_size, "body");
}

static void says_when_more_is_needed(void **state)
{
    (void)state;
    static const char text[] = LINE HOST "\r\n";
    http_head h = {0};
    for (size_t size = 1; size < sizeof text - 1; size++)
        assert_int_equal(http_head_feed(&h, text, size), HTTP_MORE);
    assert_int_equal(http_head_feed(&h, text, sizeof text - 1), HTTP_DONE);
}

static void keeps_alive_as_the_version_says(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool keep;
    } cases[] = {
        {LINE HOST "\r\n", true},
        {LINE HOST "Connection: close\r\n\r\n", false},
        {LINE HOST "Connection: foo , Close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        http_head h = {0};
        assert_int_equal(http_head_feed(&h, cases[i].text, strlen(cases[i].text)), HTTP_DONE);
        assert_int_equal(h.keep_alive, cases[i].keep);
    }
}

typedef struct {
    const char *what, *text;
    size_t size; /* 0: strlen */
    int status;
} malformed;

static const malformed malformed_cases[] = {
    {"bare LF after the request line", "GET / HTTP/1.1\n" HOST "\r\n", 0, 400},
    {"bare LF after a header", LINE "Host: a\n\r\n", 0, 400},
    {"bare LF at the end", LINE HOST "\n", 0, 400},
    {"CR without LF in the request line", "GET / HTTP/1.1\rX", 0, 400},
    {"CR inside a header value", LINE "Host: a\rb\r\n\r\n", 0, 400},
    {"NUL in a value", LINE "Host: a\0b\r\n\r\n", sizeof LINE + 12, 400},
    {"NUL in the target", "GET /\0 HTTP/1.1\r\n", 17, 400},
    {"control byte in a value", LINE "Host: a\x01\r\n\r\n", 0, 400},
    {"a folded header", LINE HOST "X: a\r\n b\r\n\r\n", 0, 400},
    {"a blank before the colon", LINE "Host : a\r\n\r\n", 0, 400},
    {"a header without a colon", LINE "Host\r\n\r\n", 0, 400},
    {"an empty header name", LINE ": a\r\n" HOST "\r\n", 0, 400},
    {"no Host", LINE "\r\n", 0, 400},
    {"two Hosts", LINE HOST HOST "\r\n", 0, 400},
    {"two Content-Lengths", LINE HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 0, 400},
    {"a list of lengths", LINE HOST "Content-Length: 1, 1\r\n\r\n", 0, 400},
    {"a signed length", LINE HOST "Content-Length: +1\r\n\r\n", 0, 400},
    {"a hexadecimal length", LINE HOST "Content-Length: 0x1\r\n\r\n", 0, 400},
    {"an empty length", LINE HOST "Content-Length:\r\n\r\n", 0, 400},
    {"a huge length", LINE HOST "Content-Length: 99999999999999999999\r\n\r\n", 0, 400},
    {"length and coding", LINE HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 400},
    {"two codings", LINE HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 400},
    {"an unknown coding", LINE HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 0, 501},
    {"a disguised coding", LINE HOST "Transfer-Encoding: xchunked\r\n\r\n", 0, 501},
    {"a coding in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 400},
    {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0, 400},
    {"HTTP/2.0 for a path", "GET / HTTP/2.0\r\n\r\n", 0, 505},
    {"HTTP/1.2", "GET / HTTP/1.2\r\n\r\n", 0, 505},
    {"no version", "GET /\r\n\r\n", 0, 400},
    {"lower-case protocol", "GET / http/1.1\r\n\r\n", 0, 400},
    {"two blanks", "GET  / HTTP/1.1\r\n\r\n", 0, 400},
    {"a blank in the target", "GET /a b HTTP/1.1\r\n\r\n", 0, 400},
    {"an absolute target", "GET http://a/ HTTP/1.1\r\n\r\n", 0, 400},
    {"an authority", "CONNECT a:80 HTTP/1.1\r\n\r\n", 0, 400},
    {"non-ASCII in the target", "GET /\xc3\xa9 HTTP/1.1\r\n\r\n", 0, 400},
    {"a wrong method", "G\xc3T / HTTP/1.1\r\n\r\n", 0, 400},
    {"a TLS hello", "\x16\x03\x01\x02", 4, 400},
    {"an unknown expectation", LINE HOST "Expect: 200-ok\r\n\r\n", 0, 417},
};

static void refuses_malformed_heads(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof malformed_cases / sizeof *malformed_cases; i++) {
        const malformed *m = &malformed_cases[i];
        http_head h = {0};
        http_result result = http_head_feed(&h, m->text, m->size ? m->size : strlen(m->text));
        if (result != HTTP_BAD || h.status != m->status)
            fail_msg("%s: result %d, status %d, want %d", m->what, result, h.status, m->status);
        assert_non_null(h.reason);
        assert_int_equal(http_head_feed(&h, m->text, strlen(m->text)), HTTP_BAD); /* for good */
    }
}

static void refuses_heads_without_end(void **state)
{
    (void)state;
    static char text[40000];
    memset(text, 'a', sizeof text);
    memcpy(text, LINE "H: ", sizeof LINE + 2);
    http_head h = {0};
    assert_int_equal(http_head_feed(&h, text, HTTP_HEAD_MAX), HTTP_MORE);
    assert_int_equal(http_head_feed(&h, text, sizeof text), HTTP_BAD);
    assert_int_equal(h.status, 431);
    memset(text, 'a', sizeof text);
    memcpy(text, "GET /", 5);
    http_head_reset(&h);
    assert_int_equal(http_head_feed(&h, text, sizeof text), HTTP_BAD);
    assert_int_equal(h.status, 414);
    int size = snprintf(text, sizeof text, LINE HOST);
    for (int i = 0; i < 64; i++)
        size += snprintf(text + size, sizeof text - (size_t)size, "a%d: b\r\n", i);
    http_head_reset(&h);
    assert_int_equal(http_head_feed(&h, text, (size_t)size), HTTP_BAD);
    assert_int_equal(h.status, 431);
}

static void decodes_chunks_and_drops_trailers(void **state)
{
    (void)state;
    static const char text[] = "4;a=b\r\nWiki\r\n00a\r\n0123456789\r\n0\r\nX: y\r\n\r\nGET";
    http_chunks c = {0};
    size_t used = 0, total = 0;
    char out[32];
    http_result result;
    do {
        span payload;
        result = http_chunks_feed(&c, text, sizeof text - 1, &used, &payload);
        memcpy(out + total, payload.data ? payload.data : "", payload.size);
        total += payload.size;
    } while (result == HTTP_MORE);
    assert_int_equal(result, HTTP_DONE);
    assert_int_equal(total, 14);
    assert_memory_equal(out, "Wiki0123456789", 14);
    assert_string_equal(text + used, "GET");
}

static void refuses_malformed_chunks(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "\r\n",           "g\r\n",         "-1\r\n",       " 1\r\na\r\n0\r\n\r\n", "1 \r\na\r\n", "1\na\r\n",
        "1\r\nab\r\n",    "1\r\na\n0\r\n", "0x1\r\na\r\n", "fffffffffffff\r\n",    "1;\x01\r\n",  "0\r\n b: c\r\n\r\n",
        "0\r\na: b\n\r\n"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        http_chunks c = {0};
        size_t used = 0, size = strlen(cases[i]);
        http_result result = HTTP_MORE;
        span payload;
        while (result == HTTP_MORE && used < size)
            result = http_chunks_feed(&c, cases[i], size, &used, &payload);
        if (result != HTTP_BAD)
            fail_msg("case %zu was accepted", i);
    }
}

/* ---- mutated streams ---- */

static const char *const seeds[] = {
    "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:8080\r\nContent-Type: application/json\r\nContent-Length: "
    "5\r\n\r\n{\"a\":GET /health "
    "HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n3\r\nabc\r\n0\r\nT: "
    "v\r\n\r\nGET / HTTP/1.0\r\nConnection: "
    "keep-alive\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\nAccess-Control-Request-Headers: authorization,x\r\nExpect: "
    "100-continue\r\nContent-Length: 2\r\n\r\n{}",
    "GET /v1/models?x=%20 HTTP/1.1\r\nHost: [::1]:80\r\nAuthorization: Bearer abc\r\nConnection: Keep-Alive, "
    "foo\r\n\r\nHEAD /metrics "
    "HTTP/1.1\r\nHost: b\r\n\r\n",
};

static const char *const fragments[] = {"\r\n",
                                        "\n",
                                        "\r",
                                        ": ",
                                        " ",
                                        "\t",
                                        "Content-Length: 3\r\n",
                                        "Transfer-Encoding: chunked\r\n",
                                        "0\r\n\r\n",
                                        "Host: z\r\n",
                                        "HTTP/1.1",
                                        "ffffffff",
                                        "1\r\nx\r\n",
                                        "\r\n\r\n"};

static size_t mutate(rng *r, char *data, size_t size, size_t capacity)
{
    for (uint64_t edits = rng_below(r, 4); edits-- > 0;) {
        size_t at = (size_t)rng_below(r, size + 1);
        if (rng_below(r, 3) == 0 && size) { /* one byte */
            data[at % size] = (char)rng_next(r);
        } else if (rng_below(r, 2) == 0) { /* a piece in */
            const char *piece = fragments[rng_below(r, sizeof fragments / sizeof *fragments)];
            size_t length = strlen(piece);
            if (size + length > capacity)
                continue;
            memmove(data + at + length, data + at, size - at);
            memcpy(data + at, piece, length);
            size += length;
        } else { /* a piece out */
            size_t length = (size_t)rng_below(r, 12);
            length = length < size - at ? length : size - at;
            memmove(data + at, data + at + length, size - at - length);
            size -= length;
        }
    }
    return size;
}

static void cutting_a_stream_changes_nothing(void **state)
{
    (void)state;
    enum { STREAMS = 100000 };
    rng r = {7};
    unsigned refused = 0, requests = 0;
    for (int i = 0; i < STREAMS; i++) {
        char data[1024];
        const char *seed = seeds[rng_below(&r, sizeof seeds / sizeof *seeds)];
        size_t size = strlen(seed);
        memcpy(data, seed, size);
        size = mutate(&r, data, size, sizeof data);
        stream_sum whole = stream_run(data, size, size + 1);
        size_t step = i % 8 ? 2 + (size_t)rng_below(&r, 40) : 1;
        stream_sum pieces = stream_run(data, size, step);
        if (!stream_same(whole, pieces))
            fail_msg("stream %d: pieces of %zu give another result", i, step);
        refused += whole.status != 0;
        requests += whole.requests;
    }
    assert_in_range(refused, STREAMS / 10, STREAMS * 9 / 10); /* the mutations reach both sides */
    assert_true(requests > STREAMS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_request),
        cmocka_unit_test(says_when_more_is_needed),
        cmocka_unit_test(keeps_alive_as_the_version_says),
        cmocka_unit_test(refuses_malformed_heads),
        cmocka_unit_test(refuses_heads_without_end),
        cmocka_unit_test(decodes_chunks_and_drops_trailers),
        cmocka_unit_test(refuses_malformed_chunks),
        cmocka_unit_test(cutting_a_stream_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
