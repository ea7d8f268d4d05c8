/* tests/unit/cli/chat_test.c: the parts of `headway chat` that need no server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/chat.h"

/* Adds lines until the message is complete; returns how many it took, 0 when it never was. */
static size_t add_lines(chat_draft *draft, const char *const *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (chat_draft_add(draft, span_from(lines[i])))
            return i + 1;
    return 0;
}

static void expect_message(const char *const *lines, size_t count, const char *want)
{
    chat_draft draft = {0};
    assert_int_equal(add_lines(&draft, lines, count), count);
    assert_string_equal(draft.text.data, want);
    chat_draft_clear(&draft);
    assert_true(chat_draft_add(&draft, span_from("next")));
    assert_string_equal(draft.text.data, "next");
    chat_draft_free(&draft);
}

#define LINES(...) (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

static void sends_a_plain_line_at_once(void **state)
{
    (void)state;
    expect_message(LINES("hello"), "hello");
}

static void joins_lines_that_end_in_a_backslash(void **state)
{
    (void)state;
    expect_message(LINES("a\\", "b\\", "c"), "a\nb\nc");
    expect_message(LINES("\\", ""), "\n");
}

static void keeps_a_fenced_block_with_its_marks(void **state)
{
    (void)state;
    expect_message(LINES("```c", "int a;\\", "", "```"), "```c\nint a;\\\n\n```");
    expect_message(LINES("```x```"), "```x```");
}

static void drops_the_marks_of_a_quoted_block(void **state)
{
    (void)state;
    expect_message(LINES("\"\"\"", "a", "", "b", "\"\"\""), "a\n\nb");
    expect_message(LINES("\"\"\"a", "b\"\"\""), "a\nb");
    expect_message(LINES("\"\"\"a\"\"\""), "a");
}

static void reads_lines_of_any_length_and_the_last_one_without_newline(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char *text = malloc(10000);
    assert_non_null(text);
    memset(text, 'x', 10000);
    memcpy(text + 9990, "\n\nlast", 6);
    assert_int_equal(write(ends[1], text, 9996), 9996);
    close(ends[1]);
    chat_lines lines = {.fd = ends[0]};
    volatile sig_atomic_t stop = 0;
    buf line = {0};
    static const size_t sizes[] = {9990, 0, 4};
    for (size_t i = 0; i < 3; i++) {
        buf_clear(&line);
        assert_int_equal(chat_lines_next(&lines, &stop, &line), LINE_READ);
        assert_int_equal(line.size, sizes[i]);
    }
    assert_int_equal(chat_lines_next(&lines, &stop, &line), LINE_END);
    buf_free(&line);
    buf_free(&lines.held);
    close(ends[0]);
    free(text);
}

static void collect(void *context, span text, bool reasoning)
{
    buf *out = context;
    buf_byte(out, reasoning ? 'r' : 't');
    buf_append(out, text.data, text.size);
}

static const char events[] = ": waiting\r\n\r\n"
                             "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n"
                             "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"
                             "event: x\ndata:{\"choices\":[{\"delta\":\ndata: {\"content\":\"h\\u00e9\"}}]}\r\n\r\n"
                             "data: {\"choices\":[],\"usage\":{}}\n\n"
                             "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
                             "data: [DONE]\n\n";

static void reads_the_same_answer_byte_by_byte_as_whole(void **state)
{
    (void)state;
    for (size_t step = 1; step <= sizeof events; step += step < 8 ? 1 : 50) {
        buf out = {0};
        chat_stream stream = {.on_text = collect, .context = &out};
        for (size_t at = 0; at < sizeof events - 1; at += step)
            chat_stream_push(&stream, span_of(events + at, at + step < sizeof events ? step : sizeof events - 1 - at));
        assert_true(stream.done);
        assert_false(stream.failed);
        assert_string_equal(stream.finish, "stop");
        assert_string_equal(out.data, "rhmth\xc3\xa9");
        chat_stream_free(&stream);
        buf_free(&out);
    }
}

static void reports_the_servers_error_and_broken_events(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"data: {\"error\":{\"message\":\"no room\"}}\n\n", "no room"},
                                         {"data: {\n\n", "the server sent an event that is not JSON"}};
    for (size_t i = 0; i < 2; i++) {
        buf out = {0};
        chat_stream stream = {.on_text = collect, .context = &out};
        chat_stream_push(&stream, span_from(bad[i][0]));
        assert_true(stream.failed);
        assert_string_equal(stream.problem.text, bad[i][1]);
        chat_stream_free(&stream);
        buf_free(&out);
    }
}

static void lets_no_control_character_through_to_the_terminal(void **state)
{
    (void)state;
    buf out = {0};
    unsigned char held = 0;
    chat_printable(span_from("a\033[31m\tb\r\n\x7f\xc2"), &held, &out);
    chat_printable(span_from("\x9b"
                             "c\xc2\xa0\xc3\xa9"),
                   &held, &out);
    assert_string_equal(out.data, "a[31m\tb\nc\xc2\xa0\xc3\xa9");
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends_a_plain_line_at_once),
        cmocka_unit_test(joins_lines_that_end_in_a_backslash),
        cmocka_unit_test(keeps_a_fenced_block_with_its_marks),
        cmocka_unit_test(drops_the_marks_of_a_quoted_block),
        cmocka_unit_test(reads_lines_of_any_length_and_the_last_one_without_newline),
        cmocka_unit_test(reads_the_same_answer_byte_by_byte_as_whole),
        cmocka_unit_test(reports_the_servers_error_and_broken_events),
        cmocka_unit_test(lets_no_control_character_through_to_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
