/* tests/unit/server/json_text_test.c: hand-written JSON is valid JSON, whatever the bytes; keys are compared whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/rng.h"
#include "server/auth.h"
#include "server/json_text.h"

static void escapes_what_must_be(void **state)
{
    (void)state;
    buf out = {0};
    json_text_string(&out, span_of("a\"\\\n\t\r\b\f\0\x1b\x7f\xc3\xa9\xf0\x9f\x98\x80", 17));
    assert_string_equal(out.data, "\"a\\\"\\\\\\n\\t\\r\\b\\f\\u0000\\u001b\\u007f\xc3\xa9\xf0\x9f\x98\x80\"");
    buf_free(&out);
}

static void replaces_invalid_utf8(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                        "\xf8", "\xe2\x82"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        buf out = {0};
        json_text_string(&out, span_from(wrong[i]));
        json_t *read = json_loads(out.data, JSON_DECODE_ANY, NULL);
        assert_non_null(read);
        assert_non_null(strstr(json_string_value(read), "\xef\xbf\xbd"));
        json_decref(read);
        buf_free(&out);
    }
}

static void any_bytes_give_valid_json(void **state)
{
    (void)state;
    rng r = {11};
    for (int i = 0; i < 20000; i++) {
        char bytes[24];
        size_t size = (size_t)rng_below(&r, sizeof bytes);
        for (size_t k = 0; k < size; k++)
            bytes[k] = (char)(rng_below(&r, 2) ? rng_next(&r) : 0xc0 + rng_below(&r, 0x40));
        buf out = {0};
        json_text_string(&out, span_of(bytes, size));
        json_t *read = json_loadb(out.data, out.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(read);
        json_decref(read);
        buf_free(&out);
    }
}

static void an_error_names_code_and_field(void **state)
{
    (void)state;
    api_error e = {0};
    buf out = {0};
    assert_false(api_fail(&e, 400, "top_p", "top_p must be \"%d\"", 1));
    api_fail(&e, 500, NULL, "a later error does not replace the first");
    api_error_write(&e, &out);
    assert_string_equal(out.data,
                        "{\"error\":{\"message\":\"top_p must be \\\"1\\\"\",\"type\":\"invalid_request_error\","
                        "\"code\":null,\"param\":\"top_p\"}}");
    buf_free(&out);
}

static void a_refusal_says_why_and_when_in_headers(void **state)
{
    (void)state;
    api_error refused = {.code = "queue_full", .dropped = true, .retry_after = 7}, other = {.code = "unknown"};
    buf out = {0};
    api_fail(&refused, 429, NULL, "no room");
    api_error_headers(&refused, &out);
    assert_string_equal(out.data, "Retry-After: 7\r\nx-llm-d-request-dropped-reason: queue_full\r\n");
    buf_clear(&out);
    api_fail(&other, 401, NULL, "no key");
    api_error_headers(&other, &out);
    assert_string_equal(out.data, "WWW-Authenticate: Bearer\r\n");
    buf_free(&out);
}

static void keys_open_only_when_whole(void **state)
{
    (void)state;
    static auth_keys auth, open;
    uint8_t hash[SHA256_BYTES];
    sha256(span_from("secret"), hash);
    assert_int_equal(auth_add(&auth, hash, 4), AUTH_ADDED);
    assert_int_equal(auth_add(&auth, hash, 5), AUTH_TWICE);
    sha256(span_from("other"), hash);
    assert_int_equal(auth_add(&auth, hash, 5), AUTH_ADDED);
    assert_int_equal(auth_tenant(&auth, span_from("Bearer secret"), (span){0}), 4);
    assert_int_equal(auth_tenant(&auth, span_from("bearer  other"), (span){0}), 5);
    assert_int_equal(auth_tenant(&auth, (span){0}, span_from("other")), 5);
    assert_int_equal(auth_tenant(&open, (span){0}, (span){0}), 0);
    static const char *const wrong[] = {
        "", "Bearer ", "Bearer secre", "Bearer secrets", "Bearer secretsecret", "secret", "Basic secret"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(auth_tenant(&auth, span_from(wrong[i]), (span){0}), AUTH_NOBODY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_what_must_be),
        cmocka_unit_test(replaces_invalid_utf8),
        cmocka_unit_test(any_bytes_give_valid_json),
        cmocka_unit_test(an_error_names_code_and_field),
        cmocka_unit_test(a_refusal_says_why_and_when_in_headers),
        cmocka_unit_test(keys_open_only_when_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
