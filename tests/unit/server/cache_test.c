/* tests/unit/server/cache_test.c: what a request says of the prefix cache, and what an answer and /metrics say of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/decimal.h"
#include "base/rng.h"
#include "server/api/shared_prefix.h"
#include "server/cache_lines.h"
#include "server/cache_usage.h"
#include "server/debug/query.h"
#include "unit/server/bodies.h"

static bodies world;

/* ---- what a body says ---- */

static generation_plan plan_of(void (*handle)(exchange *x), const char *body)
{
    exchange x = {.model = &world.model};
    plan_init(&x.plan);
    buf_text(&x.body, body);
    handle(&x);
    if (x.error.status)
        fail_msg("%s: %s", body, x.error.message);
    generation_plan plan = x.plan;
    plan_free(&x.plan);
    buf_free(&x.body);
    buf_free(&x.ignored);
    buf_free(&x.warnings);
    return plan;
}

#define ONE_USER "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static void a_salt_isolates(void **state)
{
    (void)state;
    uint64_t none = plan_of(openai_chat, ONE_USER "}").cache_salt;
    uint64_t a = plan_of(openai_chat, ONE_USER ",\"cache_salt\":\"a\"}").cache_salt;
    uint64_t b = plan_of(openai_chat, ONE_USER ",\"cache_salt\":\"b\"}").cache_salt;
    assert_true(none == 0 && a != 0 && b != 0 && a != b);
    assert_true(a == plan_of(openai_completions, "{\"prompt\":\"x\",\"cache_salt\":\"a\"}").cache_salt);
}

static void cache_prompt_and_cache_key_are_read(void **state)
{
    (void)state;
    assert_false(plan_of(openai_chat, ONE_USER ",\"cache_prompt\":true}").no_cache);
    assert_true(plan_of(openai_chat, ONE_USER ",\"cache_prompt\":false}").no_cache);
    assert_false(plan_of(openai_chat, ONE_USER "}").keep);
    assert_false(plan_of(openai_chat, ONE_USER ",\"prompt_cache_key\":null}").keep);
    assert_true(plan_of(openai_chat, ONE_USER ",\"prompt_cache_key\":\"k\"}").keep);
    assert_true(plan_of(openai_completions, "{\"prompt\":\"x\",\"prompt_cache_key\":\"k\"}").keep);
    assert_true(plan_of(openai_chat,
                        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
                        "{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"}]}")
                    .keep);
}

static void wrong_cache_fields_are_named(void **state)
{
    (void)state;
    static const char *const fields[][2] = {{"\"cache_salt\":\"\"", "cache_salt"},
                                            {"\"cache_salt\":7", "cache_salt"},
                                            {"\"cache_prompt\":1", "cache_prompt"},
                                            {"\"prompt_cache_key\":[]", "prompt_cache_key"}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char body[200];
        int size = snprintf(body, sizeof body, ONE_USER ",%s}", fields[i][0]);
        bodies_result r = bodies_run(&world, openai_chat, body, (size_t)size);
        assert_int_equal(r.status, 400);
        assert_non_null(strstr(r.text, fields[i][1]));
    }
}

/* ---- the shared part of a prompt ---- */

/* The byte vocabulary: a token is a byte or a control token, so positions can be counted by hand. */
static void the_shared_part_ends_where_the_user_begins(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        uint32_t shared;
    } cases[] = {
        {ONE_USER "}", 1 + 5}, /* <|im_start|> and "user\n" */
        {"{\"messages\":[{\"role\":\"system\",\"content\":\"be hi\"},{\"role\":\"user\",\"content\":\"hi\"}]}",
         1 + 7 + 5 + 1 + 1 + 1 + 5},
        /* the system prompt says the very same */
        {"{\"messages\":[{\"role\":\"system\",\"content\":\"hi\"},{\"role\":\"user\",\"content\":\"hi\"}]}",
         1 + 7 + 2 + 1 + 1 + 1 + 5},
        /* the first user message counts */
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},"
         "{\"role\":\"user\",\"content\":\"c\"}]}",
         1 + 5},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\" \\n\"}]}", 0},
        {"{\"messages\":[{\"role\":\"system\",\"content\":\"alone\"}]}", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t shared = plan_of(openai_chat, cases[i].body).shared_tokens;
        if (shared != cases[i].shared)
            fail_msg("%s: %u, want %u", cases[i].body, shared, cases[i].shared);
    }
    assert_int_equal(plan_of(openai_completions, "{\"prompt\":\"abc\"}").shared_tokens, 0);
}

static size_t shared_of(const char *template_text, const char *system, const char *user, buf *text)
{
    chat_template *t;
    error err = {0};
    render_result rendered = {0};
    assert_int_equal(chat_template_compile(&t, span_from(template_text), &err), OK);
    json_t *messages =
        json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "system", "content", system, "role", "user", "content", user);
    json_t *variables = json_pack("{s:O}", "messages", messages);
    assert_int_equal(chat_template_render(t, variables, 0, &rendered, &err), OK);
    size_t bytes = shared_prefix_bytes(messages, &rendered);
    buf_clear(text);
    buf_append(text, rendered.text.data, rendered.text.size);
    render_result_free(&rendered);
    json_decref(variables);
    json_decref(messages);
    chat_template_destroy(t);
    return bytes;
}

/* Templates that trim, or that put the system prompt into the user's turn. */
static void the_user_is_found_in_other_templates(void **state)
{
    (void)state;
    static const char *const templates[] = {
        "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}",
        "<user>{{ messages[0].content + '\n\n' + messages[1].content }}</>",
        "<user>{{ messages[0].content }}\n\n{{ messages[1].content }}</>",
        "{%- set s = messages[0].content %}<user>[{{ s }}] {{ messages[1].content }}",
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        buf text = {0};
        size_t bytes = shared_of(templates[i], "always be kind", "  what is rain? \n", &text);
        const char *where = strstr(text.data, "what is rain?");
        if (bytes != (size_t)(where - text.data))
            fail_msg("template %zu: %zu, want %zu", i, bytes, (size_t)(where - text.data));
        buf_free(&text);
    }
}

/* Whatever the messages say: never more than the prompt, and what it counts decodes to the bytes before the user. */
static void any_messages_give_a_sound_prefix(void **state)
{
    (void)state;
    rng r = {5};
    static const char *const words[] = {"hi", "user", "system", " ", "", "a b", "\xc3\xa9", "hi hi", "assistant"};
    for (int i = 0; i < 3000; i++) {
        buf text = {0};
        const char *system = words[rng_below(&r, 9)], *user = words[rng_below(&r, 9)];
        size_t bytes =
            shared_of("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}",
                      system, user, &text);
        token_list ids = {0};
        assert_true(bytes < text.size);
        assert_int_equal(tokenizer_encode(world.tokenizer, buf_span(&text), TOKENIZE_SPECIALS, &ids, NULL), OK);
        uint32_t count = shared_prefix_tokens(world.tokenizer, &ids, bytes);
        buf decoded = {0};
        tokenizer_decode(world.tokenizer, ids.ids, count, true, &decoded);
        assert_int_equal(decoded.size, bytes);
        assert_int_equal(shared_prefix_tokens(world.tokenizer, &ids, text.size + 100), ids.count);
        buf_free(&decoded);
        buf_free(&text);
        token_list_free(&ids);
    }
}

/* ---- what is said of a lookup ---- */

static void the_main_cause_is_what_missed_most(void **state)
{
    (void)state;
    cache_lookup l = {.looked_up = 100, .hits = {60}, .misses = {[MISS_LAST] = 40}};
    assert_string_equal(cache_main_cause(&l), "last");
    l.misses[MISS_EVICTED] = 1;
    assert_string_equal(cache_main_cause(&l), "evicted"); /* the last page is always computed */
    l.misses[MISS_NEW] = 5;
    assert_string_equal(cache_main_cause(&l), "new");
    assert_int_equal(cache_hit_tokens(&l), 60);
    l.differs_at = 7; /* the tree's word; a tier had more */
    assert_int_equal(cache_differs_at(&l), 60);
    l.differs_at = 63;
    assert_int_equal(cache_differs_at(&l), 63);
    assert_null(cache_main_cause(&(cache_lookup){.looked_up = 5, .hits = {5}}));
}

static void an_entry_is_warm_cooling_spilled_or_gone(void **state)
{
    (void)state;
    static cache_report r; /* large */
    r.page_tokens = 32;
    r.lines[0] = (prefix_line){.tokens = 96, .pages_here = 3};
    r.lines[1] = (prefix_line){.tokens = 96, .pages_here = 1};
    r.lines[2] = (prefix_line){.tokens = 96};
    r.lines[3] = (prefix_line){.tokens = 96};
    r.line_spilled[1] = r.line_spilled[2] = true;
    assert_int_equal(cache_line_state(&r, 0), LINE_WARM);
    assert_int_equal(cache_line_state(&r, 1), LINE_COOLING);
    assert_int_equal(cache_line_state(&r, 2), LINE_SPILLED);
    assert_int_equal(cache_line_state(&r, 3), LINE_GONE);
}

/* ---- small readers ---- */

static void sizes_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"12", 12},
                {"1k", 1024},
                {"512M", UINT64_C(512) << 20},
                {"1.5G", UINT64_C(3) << 29},
                {"2GB", UINT64_C(2) << 30},
                {"3tb", UINT64_C(3) << 40}};
    static const char *const bad[] = {"",   "M",   "B",   "5B",   "1e3",       "0x10",
                                      "-1", "1 G", "1GG", "1MBB", "99999999T", "inf"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 1;
        assert_true(decimal_read_bytes(span_from(good[i].text), &bytes));
        assert_true(bytes == good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 77;
        if (decimal_read_bytes(span_from(bad[i]), &bytes) || bytes != 77)
            fail_msg("'%s' was read", bad[i]);
    }
}

static void queries_hold_text(void **state)
{
    (void)state;
    char name[8];
    assert_int_equal(query_text(span_from("a=1&tenant=b%3ac&x=2"), "tenant", name, sizeof name), QUERY_TEXT);
    assert_string_equal(name, "b:c");
    assert_int_equal(query_text(span_from("tenant=a+b%20c"), "tenant", name, sizeof name), QUERY_TEXT);
    assert_string_equal(name, "a b c");
    assert_int_equal(query_text(span_from("xtenant=a"), "tenant", name, sizeof name), QUERY_ABSENT);
    static const char *const wrong[] = {"tenant=",    "tenant=%",   "tenant=%4",       "tenant=%zz",
                                        "tenant=%00", "tenant=%0a", "tenant=12345678", "tenant=%7f"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (query_text(span_from(wrong[i]), "tenant", name, sizeof name) != QUERY_WRONG)
            fail_msg("%s was read", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_salt_isolates),
        cmocka_unit_test(cache_prompt_and_cache_key_are_read),
        cmocka_unit_test(wrong_cache_fields_are_named),
        cmocka_unit_test(the_shared_part_ends_where_the_user_begins),
        cmocka_unit_test(the_user_is_found_in_other_templates),
        cmocka_unit_test(any_messages_give_a_sound_prefix),
        cmocka_unit_test(the_main_cause_is_what_missed_most),
        cmocka_unit_test(an_entry_is_warm_cooling_spilled_or_gone),
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(queries_hold_text),
    };
    bodies_open(&world);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bodies_close(&world);
    return failed;
}
