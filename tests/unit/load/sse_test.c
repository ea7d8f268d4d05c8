/* tests/unit/load/sse_test.c: streams cut anywhere say the same; what the deltas hold is counted. */
#include "load/answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void add_event(void *context, span data)
{
    buf_append(context, data.data, data.size);
    buf_byte(context, '|');
}

static const char stream[] = ": a comment\r\n\r\ndata: {\"a\":1}\r\n\r\nevent: x\nid: 7\ndata:one\ndata: two\n\n"
                             "data:  three\r\rdata: \xC3\xA9\n\n\n\ndata: [DONE]\n\n";
static const char events[] = "{\"a\":1}|one\ntwo| three|\xC3\xA9|[DONE]|";

static void a_stream_may_be_cut_at_any_byte(void **state)
{
    (void)state;
    const size_t size = sizeof stream - 1;
    for (size_t first = 0; first <= size; first++)
        for (size_t second = first; second <= size; second++) {
            buf got = {0};
            sse_parser p = {.on_event = add_event, .context = &got};
            sse_push(&p, span_of(stream, first));
            sse_push(&p, span_of(stream + first, second - first));
            sse_push(&p, span_of(stream + second, size - second));
            assert_false(p.failed);
            assert_string_equal(got.data, events);
            sse_free(&p);
            buf_free(&got);
        }
}

static void an_event_without_end_is_not_given(void **state)
{
    (void)state;
    buf got = {0};
    sse_parser p = {.on_event = add_event, .context = &got};
    sse_push(&p, span_from("data: one\n\ndata: half\n"));
    assert_string_equal(got.data, "one|");
    sse_free(&p);
    buf_free(&got);
}

static void an_event_over_the_limit_fails(void **state)
{
    (void)state;
    buf got = {0};
    char *piece = malloc(1 << 16);
    memset(piece, 'x', 1 << 16);
    sse_parser p = {.on_event = add_event, .context = &got};
    sse_push(&p, span_from("data: "));
    for (int i = 0; i < 17; i++)
        sse_push(&p, span_of(piece, 1 << 16));
    assert_true(p.failed);
    sse_push(&p, span_from("\n\ndata: later\n\n"));
    assert_int_equal(got.size, 0);
    sse_free(&p);
    buf_free(&got);
    free(piece);
}

typedef struct {
    buf text;
    int deltas;
} heard;

static void hear(void *context, span text)
{
    heard *h = context;
    h->deltas++;
    buf_append(&h->text, text.data, text.size);
}

static void deltas_usage_and_finish_are_read(void **state)
{
    (void)state;
    heard h = {0};
    answer_stream a = {.on_text = hear, .context = &h};
    answer_open(&a);
    answer_push(&a, span_from("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
                              "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"
                              "data: {\"choices\":[{\"delta\":{\"content\":\" yes\"}}]}\n\n"
                              "data: {\"choices\":[{\"text\":\" plain\"}]}\n\n"
                              "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}],\"usage\":null}\n\n"));
    assert_false(a.usage.seen);
    answer_push(&a, span_from("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":3,"
                              "\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\ndata: [DONE]\n\n"));
    assert_int_equal(h.deltas, 3); /* the empty one is no token */
    assert_string_equal(h.text.data, "hm yes plain");
    assert_true(a.done && a.usage.seen && !a.problem[0]);
    assert_string_equal(a.finish, "length");
    assert_int_equal(a.usage.prompt_tokens, 12);
    assert_int_equal(a.usage.completion_tokens, 3);
    assert_int_equal(a.usage.cached_tokens, 8);
    answer_free(&a);
    buf_free(&h.text);
}

static void trouble_inside_a_stream_is_kept(void **state)
{
    (void)state;
    heard h = {0};
    answer_stream a = {.on_text = hear, .context = &h};
    answer_open(&a);
    answer_push(&a, span_from("data: {\"error\":{\"message\":\"out of pages\",\"code\":503}}\n\n"));
    assert_string_equal(a.problem, "out of pages");
    answer_push(&a, span_from("data: {nonsense\n\n"));
    assert_string_equal(a.problem, "an event of the stream is not JSON");
    answer_free(&a);
    char reason[96], message[160];
    answer_error_reason(span_from("{\"error\":{\"message\":\"later\",\"type\":\"rate\",\"code\":\"queue_full\"}}"),
                        reason, sizeof reason, message, sizeof message);
    assert_string_equal(reason, "queue_full");
    assert_string_equal(message, "later");
    answer_error_reason(span_from("<html>no JSON</html>"), reason, sizeof reason, message, sizeof message);
    assert_string_equal(reason, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_may_be_cut_at_any_byte), cmocka_unit_test(an_event_without_end_is_not_given),
        cmocka_unit_test(an_event_over_the_limit_fails),   cmocka_unit_test(deltas_usage_and_finish_are_read),
        cmocka_unit_test(trouble_inside_a_stream_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
