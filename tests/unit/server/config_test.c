/* tests/unit/server/config_test.c: what a config file may say, and where it is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/config.h"

#define HASH_OF_ABC "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static config *parsed; /* too large for the stack of some machines */
static error err;

static status check_setting(void *context, const char *name, const char *value, error *why)
{
    (void)context;
    if (strcmp(name, "chunk") != 0)
        return error_set(why, ERR_INVALID, "no such setting");
    return strcmp(value, "512") == 0 ? OK : error_set(why, ERR_INVALID, "'%s', want 512", value);
}

static const config_rules rules = {.check = check_setting};

static status parse(const char *text)
{
    err = (error){""};
    return config_parse(parsed, "h.ini", span_from(text), &rules, &err);
}

static void refuses(const char *text, const char *message)
{
    assert_int_not_equal(parse(text), OK);
    if (strncmp(err.text, message, strlen(message)) != 0)
        fail_msg("wanted \"%s…\", got \"%s\"", message, err.text);
}

static void reads_every_key_of_a_tenant(void **state)
{
    (void)state;
    assert_int_equal(
        parse("\xef\xbb\xbf; a comment\n[server]\n  chunk = 512 ; one more\n\n[tenant a.b/c]\r\nkey = one\nkey: two\n"
              "key-hash = " HASH_OF_ABC "\nclass = batch\nweight = 2.5\nconcurrent = 3\nqueued = 4\n"
              "tokens = 5000000\ngap-ms = 12.5\nttft-ms = 800\nmay-raise = yes\nshare_prefix = team.a\n"
              "cache-floor = 1.5G\n# end\n[ tenant  d ]"),
        OK);
    assert_int_equal(parsed->setting_count, 1);
    assert_string_equal(parsed->settings[0].name, "chunk");
    assert_string_equal(parsed->settings[0].value, "512");
    assert_int_equal(parsed->settings[0].line, 3);
    assert_int_equal(parsed->tenant_count, 2);
    const config_tenant *t = &parsed->tenants[0];
    assert_string_equal(t->who.name, "a.b/c");
    assert_int_equal(t->who.klass, CLASS_BATCH);
    assert_true(t->who.weight == 2.5 && t->may_raise && t->keyed && t->line == 5);
    assert_int_equal(t->who.concurrent_max, 3);
    assert_int_equal(t->who.queued_max, 4);
    assert_int_equal(t->who.tokens_max, 5000000);
    assert_int_equal(t->who.gap_us, 12500);
    assert_int_equal(t->who.first_token_us, 800000);
    assert_string_equal(t->who.share_prefix, "team.a");
    assert_true(t->who.cache_floor == UINT64_C(3) << 29);
    assert_int_equal(parsed->keys.count, 3);
    assert_true(parsed->plain_keys);
    assert_string_equal(parsed->tenants[1].who.name, "d");
    assert_true(parsed->tenants[1].who.weight == 1 && !parsed->tenants[1].keyed && !parsed->tenants[1].may_raise);
    assert_int_equal(parsed->tenants[1].who.klass, CLASS_INTERACTIVE);
}

static void finds_the_tenant_of_a_key(void **state)
{
    (void)state;
    assert_int_equal(parse("[tenant a]\nkey = one\n[tenant b]\nkey-hash = " HASH_OF_ABC "\nkey = two\n"), OK);
    const auth_keys *keys = &parsed->keys;
    assert_int_equal(auth_tenant(keys, span_from("Bearer one"), (span){0}), 0);
    assert_int_equal(auth_tenant(keys, span_from("bearer  abc"), (span){0}), 1);
    assert_int_equal(auth_tenant(keys, (span){0}, span_from("two")), 1);
    assert_int_equal(auth_tenant(keys, (span){0}, span_from("three")), AUTH_NOBODY);
    assert_int_equal(auth_tenant(keys, span_from("Bearer "), (span){0}), AUTH_NOBODY);
    assert_int_equal(auth_tenant(keys, (span){0}, (span){0}), AUTH_NOBODY);
    /* the hash itself is no key */
    assert_int_equal(auth_tenant(keys, (span){0}, span_from(HASH_OF_ABC)), AUTH_NOBODY);
    assert_int_equal(auth_tenant(keys, (span){0}, span_from("on")), AUTH_NOBODY);
    assert_int_equal(auth_tenant(keys, (span){0}, span_from("one ")), AUTH_NOBODY);
    static const auth_keys none;
    assert_int_equal(auth_tenant(&none, (span){0}, (span){0}), 0);
}

static void names_file_line_and_key_of_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"chunk = 1\n", "h.ini:1: chunk: stands before any section"},
        {"\n[servers]\n", "h.ini:2: [servers]: no such section, want [server] or [tenant NAME]"},
        {"[tenant]\n", "h.ini:1: [tenant]: no such section"},
        {"[tenant a b]\n", "h.ini:1: a tenant's name has 1 to 63 letters"},
        {"[server\n", "h.ini:1: the section's ']' is missing"},
        {"[server] x\n", "h.ini:1: there is more after"},
        {"[server]\n[tenant a]\n[server]\n", "h.ini:3: [server] stands in line 1 already"},
        {"[tenant a]\n[tenant b]\n[tenant a]\n", "h.ini:3: tenant a: has a section in line 1 already"},
        {"[server]\nchunk = 5\n", "h.ini:2: chunk: '5', want 512"},
        {"[server]\nx = 5\n", "h.ini:2: x: no such setting"},
        {"[server]\nchunk = 512\nchunk = 512\n", "h.ini:3: chunk: given in line 2 already"},
        {"[server]\nchunk\n", "h.ini:2: want NAME = VALUE"},
        {"[server]\nchunk\n[oops]\n", "h.ini:2: want NAME = VALUE"},
        {"[server]\nx = 1\nchunk\n", "h.ini:2: x: no such setting"},
        {"[tenant a]\nshare-prefix = a b\n", "h.ini:2: share-prefix: a group's name has 1 to 63 letters"},
        {"[tenant a]\ncache-floor = 1X\n", "h.ini:2: cache-floor: '1X' is not a size such as 512M"},
        {"[tenant a]\ncache-floor = -1M\n", "h.ini:2: cache-floor: '-1M' is not a size"},
        {"[tenant a]\nshare-prefix = g\nshare_prefix = g\n", "h.ini:3: share_prefix: given twice for tenant a"},
        {"[tenant a]\nshare-prefixes = g\n", "h.ini:2: share-prefixes: no such key"},
        {"[tenant a]\nshare-pre = g\n", "h.ini:2: share-pre: no such key"},
        {"[tenant a]\nforward = ftp://h\n", "h.ini:2: forward: want the http:// or https:// address"},
        {"[tenant a]\nforward = http://\n", "h.ini:2: forward: the address has no host"},
        {"[tenant a]\nforward = http://u:p@h\n", "h.ini:2: forward: an address has a host, a port and a path; a key"},
        {"[tenant a]\nforward = http://h?key=1\n", "h.ini:2: forward: an address has a host"},
        {"[tenant a]\nforward-key = a b\n", "h.ini:2: forward-key: a key has visible ASCII"},
        {"[tenant a]\nforward = http://h\nforward = http://h\n", "h.ini:3: forward: given twice for tenant a"},
        {"[tenant a]\nchunk = 512\n", "h.ini:2: chunk: no such key of a tenant, want key, key-hash,"},
        {"[tenant a]\nclass = fast\n", "h.ini:2: class: 'fast', want interactive or batch"},
        {"[tenant a]\nclass = batch\nclass = batch\n", "h.ini:3: class: given twice for tenant a"},
        {"[tenant a]\nclass =\n", "h.ini:2: class: the value is missing"},
        {"[tenant a]\nweight = 0\n", "h.ini:2: weight: '0' is not a number from 0.001 to 1000"},
        {"[tenant a]\nweight = 1e3\n", "h.ini:2: weight: '1e3' is not a number"},
        {"[tenant a]\nweight = nan\n", "h.ini:2: weight: 'nan' is not a number"},
        {"[tenant a]\nweight = -1\n", "h.ini:2: weight: '-1' is not a number"},
        {"[tenant a]\nconcurrent = 1.5\n", "h.ini:2: concurrent: '1.5' is not a whole number from 0"},
        {"[tenant a]\nqueued = 10000000\n",
         "h.ini:2: queued: '10000000' is not a whole number from 0 (no limit) to 1000000"},
        {"[tenant a]\ntokens = many\n", "h.ini:2: tokens: 'many' is not a whole number"},
        {"[tenant a]\ngap-ms = 0.5\n", "h.ini:2: gap-ms: '0.5' is not a number from 1 to 3600000"},
        {"[tenant a]\nttft-ms = 4e9\n", "h.ini:2: ttft-ms: '4e9' is not a number"},
        {"[tenant a]\nmay-raise = 1\n", "h.ini:2: may-raise: '1', want yes or no"},
        {"[tenant a]\nkey = a b\n", "h.ini:2: key: a key has visible ASCII characters only"},
        {"[tenant a]\nkey = \xc3\xa4\n", "h.ini:2: key: a key has visible ASCII characters only"},
        {"[tenant a]\nkey = x\n[tenant b]\nkey = x\n", "h.ini:4: key: the same key stands in line 2 already"},
        {"[tenant a]\nkey = abc\nkey-hash = " HASH_OF_ABC "\n",
         "h.ini:3: key-hash: the same key stands in line 2 already"},
        {"[tenant a]\nkey-hash = ba7816\n", "h.ini:2: key-hash: want sha256: and 64 hex digits"},
        {"[tenant a]\nkey-hash = sha256:zz\n", "h.ini:2: key-hash: want sha256: and 64 hex digits"},
        {"[tenant a]\nkey = a\x01z\n", "h.ini:2: the line holds a control character"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(cases[i].text, cases[i].message);
    static const char nul[] = "[server]\n\0[tenant a]\n";
    assert_int_equal(config_parse(parsed, "h.ini", span_of(nul, sizeof nul - 1), &rules, &err), ERR_INVALID);
}

static void never_writes_a_key_into_a_message(void **state)
{
    (void)state;
    static const char *const texts[] = {"[tenant a]\nkey = SECRET x\n", "[tenant a]\nkey = SECRET\nkey = SECRET\n",
                                        "[tenant a]\nkey-hash = SECRET\n"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_not_equal(parse(texts[i]), OK);
        assert_null(strstr(err.text, "SECRET"));
    }
}

static void holds_its_limits(void **state)
{
    (void)state;
    char *text = calloc(1, CONFIG_BYTES_MAX + 2);
    memset(text, '\n', CONFIG_BYTES_MAX + 1);
    assert_int_equal(parse(text), ERR_LIMIT);
    text[CONFIG_BYTES_MAX] = 0;
    assert_int_equal(parse(text), OK);
    size_t at = 0;
    for (int i = 0; i <= TENANTS_MAX; i++)
        at += (size_t)snprintf(text + at, 64, "[tenant t%d]\n", i);
    refuses(text, "h.ini:65: more than 64 tenants");
    at = (size_t)snprintf(text, 64, "[tenant a]\n");
    for (int i = 0; i <= AUTH_KEYS_MAX; i++)
        at += (size_t)snprintf(text + at, 64, "key = k%d\n", i);
    refuses(text, "h.ini:1026: key: more than 1024 keys");
    memset(text, 'k', 300);
    memcpy(text, "[tenant a]\nkey = ", 17);
    text[300] = 0;
    refuses(text, "h.ini:2: the line has more than ");
    memcpy(text, "[tenant ", 8);
    memset(text + 8, 'n', 64);
    memcpy(text + 72, "]\n", 3);
    refuses(text, "h.ini:1: a tenant's name has 1 to 63");
    free(text);
}

/* Names that agree in the 50 characters that the ini library looks at are two. */
static void tells_long_names_apart(void **state)
{
    (void)state;
    char text[300], name[61];
    memset(name, 'n', 60);
    name[60] = 0;
    snprintf(text, sizeof text, "[tenant %s1]\nweight = 2\n[tenant %s2]\nweight = 3\n", name, name);
    assert_int_equal(parse(text), OK);
    assert_int_equal(parsed->tenant_count, 2);
    assert_true(parsed->tenants[0].who.weight == 2 && parsed->tenants[1].who.weight == 3);
    assert_int_equal(strlen(parsed->tenants[1].who.name), 61);
}

static void reads_files_and_says_what_is_none(void **state)
{
    (void)state;
    char path[] = "/tmp/headway-config-XXXXXX";
    int file = mkstemp(path);
    static const char text[] = "[tenant a]\nclass = batch\n";
    assert_int_equal(write(file, text, sizeof text - 1), sizeof text - 1);
    close(file);
    assert_int_equal(config_read(parsed, path, &rules, &err), OK);
    assert_int_equal(parsed->tenant_count, 1);
    unlink(path);
    assert_int_equal(config_read(parsed, path, &rules, &err), ERR_IO);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(config_read(parsed, "/tmp", &rules, &err), ERR_IO);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(config_read(parsed, path, &rules, &err), ERR_IO);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_key_of_a_tenant),
        cmocka_unit_test(finds_the_tenant_of_a_key),
        cmocka_unit_test(names_file_line_and_key_of_what_is_wrong),
        cmocka_unit_test(never_writes_a_key_into_a_message),
        cmocka_unit_test(holds_its_limits),
        cmocka_unit_test(tells_long_names_apart),
        cmocka_unit_test(reads_files_and_says_what_is_none),
    };
    parsed = calloc(1, sizeof *parsed);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(parsed);
    return failed;
}
