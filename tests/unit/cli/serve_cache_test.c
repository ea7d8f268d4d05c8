/* tests/unit/cli/serve_cache_test.c: from flags to the size of the cache, and the line that says it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cli/serve_cache.h"
#include "cli/serve_flags.h"

static const runner_ops fake_ops = {.name = "fake"};

/* 1 MB a page of 32 tokens; 1,000 pages. */
static runner box(uint64_t state_bytes)
{
    return (runner){.ops = &fake_ops,
                    .info = {.context_length = 32768,
                             .page_tokens = 32,
                             .page_bytes = 1 << 20,
                             .page_count = 1000,
                             .state_bytes = state_bytes}};
}

static status read_flags(serve_cache *out, error *err, int argc, char **argv)
{
    command_flags flags;
    char *all[12] = {(char *)"serve"};
    for (int i = 0; i < argc; i++)
        all[i + 1] = argv[i];
    assert_int_equal(command_parse(&serve_spec, argc + 1, all, &flags), COMMAND_RUN);
    *err = (error){""};
    status st = serve_flags_check(&flags, err);
    return st ? st : serve_cache_read(out, &flags, err);
}
#define READ(...) read_flags(&c, &err, sizeof((char *[]){__VA_ARGS__}) / sizeof(char *), (char *[]){__VA_ARGS__})

static serve_cache c;
static error err;

static void sessions_take_their_pages_and_states(void **state)
{
    (void)state;
    runner dense = box(0), hybrid = box((3 << 20) + 1);
    cache_config out;
    assert_int_equal(READ("--cache-sessions", "4", "--cache-session-tokens", "100"), OK);
    assert_int_equal(serve_cache_open(&c, &dense, &out, &err), OK);
    assert_int_equal(out.idle_bytes, (4 * 4) << 20); /* 100 tokens: 4 pages */
    assert_int_equal(serve_cache_open(&c, &hybrid, &out, &err), OK);
    assert_int_equal(out.idle_bytes, (4 * (4 + 3 * 4)) << 20);
    assert_int_equal(READ("--cache-sessions", "1"), OK); /* at most 24,000 tokens of the context */
    assert_int_equal(serve_cache_open(&c, &dense, &out, &err), OK);
    assert_int_equal(out.idle_bytes, 750 << 20);
    assert_int_equal(READ("--cache-sessions", "2"), OK);
    assert_int_equal(serve_cache_open(&c, &dense, &out, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "--cache-sessions: that is 1.46 GB, and the KV memory"));
    assert_int_equal(READ("--cache-ram", "1000M"), OK); /* all of it */
    assert_int_equal(serve_cache_open(&c, &dense, &out, &err), OK);
    assert_true(out.idle_bytes == 0 && !out.off);
}

static void nothing_said_is_all_of_the_pool_and_no_tier(void **state)
{
    (void)state;
    runner r = box(0);
    cache_config out;
    char text[512];
    assert_int_equal(READ("--port", "0"), OK);
    assert_int_equal(serve_cache_open(&c, &r, &out, &err), OK);
    assert_true(!out.off && !out.idle_bytes && !out.tier_count && !out.ttl_us);
    serve_cache_describe(&c, &r, &out, text, sizeof text);
    assert_string_equal(text, "cache: 1000 MB of idle prefixes (all of the KV memory, when nobody needs it), 1 session "
                              "of 24,000 tokens");
    assert_int_equal(READ("--cache-ram", "0"), OK);
    assert_int_equal(serve_cache_open(&c, &r, &out, &err), OK);
    assert_true(out.off);
    serve_cache_describe(&c, &r, &out, text, sizeof text);
    assert_string_equal(text, "cache: off");
}

static void count_disk(tier *t, tier_counts *out)
{
    (void)t;
    *out = (tier_counts){.bytes = UINT64_C(212) << 20, .online = true, .state = "io_uring"};
}

static void count_redis(tier *t, tier_counts *out)
{
    (void)t;
    *out = (tier_counts){.state = ""};
}

static void a_line_says_where_and_no_password(void **state)
{
    (void)state;
    static const tier_ops disk_ops = {.name = "disk", .read_counts = count_disk};
    static const tier_ops redis_ops = {.name = "redis", .read_counts = count_redis};
    tier disk = {&disk_ops}, redis = {&redis_ops};
    runner r = box(0);
    char text[512];
    assert_int_equal(READ("--cache-sessions", "6", "--cache-session-tokens", "3200", "--cache-disk", "/x",
                          "--cache-redis=redis://me:p@ss@box:6379/2", "--cache-ttl=90"),
                     OK);
    cache_config out = {.idle_bytes = 600 << 20, .tiers = {&disk, &redis}, .tier_count = 2};
    serve_cache_describe(&c, &r, &out, text, sizeof text);
    assert_string_equal(text,
                        "cache: 6 sessions of 3,200 tokens = 600 MB; forgotten after 90 s without use; disk /x 8 GB,"
                        " 212 MB there (io_uring); redis box:6379/2");
}

static void a_runner_that_cannot_move_pages_has_no_tiers(void **state)
{
    (void)state;
    runner r = box(0);
    cache_config out;
    assert_int_equal(READ("--cache-disk", "/x"), OK);
    assert_int_equal(serve_cache_open(&c, &r, &out, &err), ERR_INVALID);
    assert_string_equal(err.text, "--cache-disk: the pages of this runner (fake) cannot be stored");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_take_their_pages_and_states),
        cmocka_unit_test(nothing_said_is_all_of_the_pool_and_no_tier),
        cmocka_unit_test(a_line_says_where_and_no_password),
        cmocka_unit_test(a_runner_that_cannot_move_pages_has_no_tiers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
