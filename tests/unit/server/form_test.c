/* tests/unit/server/form_test.c: form uploads: what is written comes back, what is not quite one is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/rng.h"
#include "unit/server/form_model.h"

static bool parse(form *f, const char *body, const char **why)
{
    return form_parse(f, span_from("bo"), span_from(body), why);
}

#define HEAD "Content-Disposition: form-data; name=\"a\""

static void reads_the_boundary(void **state)
{
    (void)state;
    static const struct {
        const char *type, *boundary; /* NULL: refused */
    } cases[] = {
        {"multipart/form-data; boundary=abc", "abc"},
        {"Multipart/Form-Data;Boundary=\"a:b\"; charset=x", "a:b"},
        {"multipart/form-data; charset=utf-8; boundary=abc", "abc"},
        {"multipart/form-data", NULL},
        {"multipart/form-data; boundary=", NULL},
        {"multipart/form-data; boundary=\"a", NULL},
        {"multipart/form-data; boundary=a\"b", NULL},
        {"multipart/form-data-x; boundary=abc", NULL},
        {"multipart/mixed; boundary=abc", NULL},
        {"application/json", NULL},
        {"", NULL},
        {"multipart/form-data; boundary=0123456789012345678901234567890123456789012345678901234567890123456789x", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        span boundary;
        bool good = form_boundary(span_from(cases[i].type), &boundary);
        assert_int_equal(good, cases[i].boundary != NULL);
        if (good)
            assert_true(span_is(boundary, cases[i].boundary));
    }
}

static void refuses_what_is_not_quite_a_form(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "--b",
        "--bo",
        "--bo\r\n",
        "--bo\n" HEAD "\r\n\r\nx\r\n--bo--",
        "x--bo\r\n" HEAD "\r\n\r\nx\r\n--bo--",
        "--bo\r\n" HEAD "\n\nx\r\n--bo--",
        "--bo\r\n" HEAD "\r\n\r\nx\r\n--bo",
        "--bo\r\n" HEAD "\r\n\r\nx\r\n--bo-",
        "--bo\r\n" HEAD "\r\n\r\nx\r\n--box--",
        "--bo\r\n" HEAD "\r\n\r\nx\n--bo--",
        "--bo\r\n" HEAD "\r\n\r\nx\r\n--bo--\r\n ",
        "--bo\r\n" HEAD "\r\n" HEAD "\r\n\r\nx\r\n--bo--",
        "--bo\r\nContent-Type: text/plain\r\n\r\nx\r\n--bo--",
        "--bo\r\nContent-Disposition: form-data\r\n\r\nx\r\n--bo--",
        "--bo\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\nx\r\n--bo--",
        "--bo\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--bo--",
        "--bo\r\nContent-Disposition: form-data; name=\"a\\\r\n\r\nx\r\n--bo--",
        "--bo\r\nContent-Disposition: form-data; name=\"a\"; name=\"b\"\r\n\r\nx\r\n--bo--",
        "--bo\r\n" HEAD "\r\nnonsense\r\n\r\nx\r\n--bo--",
        "--bo\r\n" HEAD "\r\nContent-Transfer-Encoding: base64\r\n\r\nx\r\n--bo--",
        "--bo\r\n" HEAD "\r\nX: \x01\r\n\r\nx\r\n--bo--",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        form f;
        const char *why = NULL;
        if (parse(&f, wrong[i], &why))
            fail_msg("accepted: %s", wrong[i]);
        assert_non_null(why);
    }
}

static void reads_names_and_values(void **state)
{
    (void)state;
    form f;
    const char *why;
    assert_true(parse(&f,
                      "--bo\r\n" HEAD "\r\n\r\n\r\n--bo\r\nCONTENT-DISPOSITION:form-data;filename=\"x \\\"y\\\".z\";"
                      "name=\"file\"\r\nContent-Type: x/y\r\n\r\n-bo\r\n\r\r\n--b\r\n--bo--\r\n",
                      &why));
    assert_int_equal(f.count, 2);
    assert_true(span_is(form_find(&f, "a")->value, ""));
    assert_null(form_find(&f, "a")->filename.data);
    const form_part *file = form_find(&f, "file");
    assert_true(span_is(file->filename, "x \\\"y\\\".z"));
    assert_true(span_is(file->value, "-bo\r\n\r\r\n--b"));
    assert_null(form_find(&f, "fil"));
}

/* Random parts of the bytes that matter, written and read again; then with one byte changed or cut: never unsound. */
static void random_forms_come_back(void **state)
{
    (void)state;
    rng r = {7};
    static const char *const pieces[] = {"\r", "\n", "-", "--", "bo", "\r\n--b", "x", "\r\n", "--bo", "{\"a\": 1}"};
    for (int round = 0; round < 20000; round++) {
        buf body = {0}, values[4] = {{0}};
        uint32_t count = 1 + (uint32_t)rng_below(&r, 4);
        for (uint32_t i = 0; i < count; i++) {
            for (uint64_t n = rng_below(&r, 8); n > 0; n--) {
                buf_text(&values[i], pieces[rng_below(&r, sizeof pieces / sizeof *pieces)]);
                span now = buf_span(&values[i]);
                if (now.size >= 6 && memcmp(now.data + now.size - 6, "\r\n--bo", 6) == 0)
                    values[i].size -= 6;
            }
            for (size_t at = 0; at + 6 <= values[i].size; at++) /* what joins to a delimiter is no value */
                if (memcmp(values[i].data + at, "\r\n--bo", 6) == 0)
                    values[i].data[at] = '.';
            if (values[i].size >= 4 && memcmp(values[i].data, "--bo", 4) == 0)
                values[i].data[0] = '.'; /* right behind the head it reads as an empty part's end */
            buf_printf(&body, "--bo\r\nContent-Disposition: form-data; name=\"n%u\"\r\n\r\n", i);
            buf_append(&body, values[i].data, values[i].size);
            buf_text(&body, "\r\n");
        }
        buf_text(&body, "--bo--\r\n");
        form f;
        const char *why;
        assert_true(form_parse(&f, span_from("bo"), buf_span(&body), &why));
        assert_int_equal(f.count, count);
        for (uint32_t i = 0; i < count; i++)
            assert_true(span_equal(f.parts[i].value, buf_span(&values[i])));
        size_t at = rng_below(&r, body.size);
        if (rng_below(&r, 2))
            body.data[at] = (char)rng_next(&r);
        else
            body.size = at;
        char *exact = malloc(body.size + 1); /* so that a sanitizer sees a read beyond the end */
        memcpy(exact, body.data, body.size);
        span changed = span_of(exact, body.size);
        if (form_parse(&f, span_from("bo"), changed, &why))
            assert_true(form_is_sound(&f, span_from("bo"), changed));
        free(exact);
        buf_free(&body);
        for (uint32_t i = 0; i < 4; i++)
            buf_free(&values[i]);
    }
}

static void bounds_the_number_of_parts(void **state)
{
    (void)state;
    for (int count = FORM_PARTS_MAX; count <= FORM_PARTS_MAX + 1; count++) {
        buf body = {0};
        form f;
        const char *why;
        for (int i = 0; i < count; i++)
            buf_text(&body, "--bo\r\n" HEAD "\r\n\r\nx\r\n");
        buf_text(&body, "--bo--");
        assert_int_equal(form_parse(&f, span_from("bo"), buf_span(&body), &why), count == FORM_PARTS_MAX);
        buf_free(&body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_boundary),         cmocka_unit_test(refuses_what_is_not_quite_a_form),
        cmocka_unit_test(reads_names_and_values),     cmocka_unit_test(random_forms_come_back),
        cmocka_unit_test(bounds_the_number_of_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
