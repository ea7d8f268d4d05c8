/* tests/unit/server/tenants_test.c: reloads keep indexes and change all or nothing; classes and bounds of requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/terms.h"

static char path[64];
static error err;

static void write_config(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fchmod(fileno(file), 0600); /* keys: no warning */
    fputs(text, file);
    fclose(file);
}

static status any_setting(void *context, const char *name, const char *value, error *why)
{
    (void)context, (void)name, (void)value, (void)why;
    return OK;
}

static tenants *open_tenants(const char *text, char *key)
{
    tenants *t = NULL;
    char *keys[] = {key};
    if (text)
        write_config(text);
    tenants_source source = {
        .config_path = text ? path : NULL, .rules.check = any_setting, .keys = keys, .key_count = key ? 1 : 0};
    err = (error){""};
    if (tenants_open(&t, &source, &err))
        return NULL;
    return t;
}

static status takes_all(void *context, const tenants *next, error *why)
{
    (void)why;
    *(uint32_t *)context = tenants_table(next)->count;
    return OK;
}

static status takes_nothing(void *context, const tenants *next, error *why)
{
    (void)context, (void)next;
    return error_set(why, ERR_LIMIT, "no");
}

static status reload(tenants *t, const char *text)
{
    uint32_t seen = 0;
    err = (error){""};
    write_config(text);
    status st = tenants_reload(t, takes_all, &seen, &err);
    assert_true(st ? seen == 0 : seen == tenants_table(t)->count);
    return st;
}

static int of_key(const tenants *t, const char *key)
{
    return tenants_of_key(t, (span){0}, span_from(key));
}

static void without_a_file_everyone_is_default(void **state)
{
    (void)state;
    tenants *t = open_tenants(NULL, NULL);
    assert_int_equal(tenants_table(t)->count, 1);
    assert_string_equal(tenants_table(t)->tenants[0].name, "default");
    assert_int_equal(of_key(t, "whatever"), 0);
    assert_false(tenants_from_file(t));
    tenants_close(t);
}

static void keys_of_the_command_line_are_defaults_and_are_wiped(void **state)
{
    (void)state;
    char key[] = "open-sesame";
    tenants *t = open_tenants("[tenant a]\nkey = k\n", key);
    assert_int_equal(of_key(t, "open-sesame"), 0);
    assert_int_equal(of_key(t, "k"), 1);
    assert_int_equal(of_key(t, "other"), AUTH_NOBODY);
    for (size_t i = 0; i < sizeof key; i++)
        assert_int_equal(key[i], 0);
    tenants_close(t);
    char again[] = "k";
    assert_null(open_tenants("[tenant a]\nkey = k\n", again));
    assert_non_null(strstr(err.text, "tenant a"));
}

static void a_name_keeps_its_index_over_reloads(void **state)
{
    (void)state;
    tenants *t = open_tenants("[tenant a]\nkey = ka\n[tenant b]\nkey = kb\nweight = 2\n", NULL);
    assert_int_equal(of_key(t, "kb"), 2);
    assert_int_equal(reload(t, "[tenant c]\nkey = kc\n[tenant b]\nkey = kb2\nweight = 3\n"), OK);
    const tenant_table *table = tenants_table(t);
    assert_int_equal(table->count, 4);
    assert_string_equal(table->tenants[1].name, "a");
    assert_true(table->tenants[1].removed && !table->tenants[2].removed && !table->tenants[3].removed);
    assert_true(table->tenants[2].weight == 3);
    assert_int_equal(of_key(t, "ka"), AUTH_NOBODY);
    assert_int_equal(of_key(t, "kb"), AUTH_NOBODY);
    assert_int_equal(of_key(t, "kb2"), 2);
    assert_int_equal(of_key(t, "kc"), 3);
    assert_int_equal(reload(t, "[tenant a]\nkey = ka\nclass = batch\n[tenant default]\nqueued = 7\n"), OK);
    table = tenants_table(t);
    assert_int_equal(table->count, 4);
    assert_int_equal(of_key(t, "ka"), 1);
    assert_true(!table->tenants[1].removed && table->tenants[2].removed && table->tenants[3].removed);
    assert_int_equal(table->tenants[1].klass, CLASS_BATCH);
    assert_int_equal(table->tenants[0].queued_max, 7);
    assert_int_equal(reload(t, ""), OK); /* "default" without a section is as it was at first */
    assert_int_equal(tenants_table(t)->tenants[0].queued_max, 0);
    assert_int_equal(of_key(t, ""), 0); /* no keys at all: everyone */
    tenants_close(t);
}

static void a_wrong_file_or_a_refusal_changes_nothing(void **state)
{
    (void)state;
    tenants *t = open_tenants("[tenant a]\nkey = ka\n", NULL);
    assert_int_equal(reload(t, "[tenant b]\nkey = kb\nnonsense\n"), ERR_INVALID);
    assert_non_null(strstr(err.text, ":3: "));
    assert_int_equal(of_key(t, "ka"), 1);
    write_config("[tenant b]\nkey = kb\n");
    assert_int_equal(tenants_reload(t, takes_nothing, NULL, &err), ERR_LIMIT);
    assert_int_equal(tenants_table(t)->count, 2);
    assert_int_equal(of_key(t, "ka"), 1);
    assert_int_equal(of_key(t, "kb"), AUTH_NOBODY);
    unlink(path);
    uint32_t seen;
    assert_int_equal(tenants_reload(t, takes_all, &seen, &err), ERR_IO);
    assert_int_equal(of_key(t, "ka"), 1);
    tenants_close(t);
}

static void names_of_the_past_fill_the_table_and_are_told(void **state)
{
    (void)state;
    char text[64];
    tenants *t = open_tenants("", NULL);
    for (int i = 1; i < TENANTS_MAX; i++) {
        snprintf(text, sizeof text, "[tenant t%d]\n", i);
        assert_int_equal(reload(t, text), OK);
    }
    assert_int_equal(reload(t, "[tenant one-more]\n"), ERR_LIMIT);
    assert_non_null(strstr(err.text, "a restart forgets them"));
    assert_int_equal(reload(t, "[tenant t1]\n"), OK);
    assert_false(tenants_table(t)->tenants[1].removed);
    tenants_close(t);
}

static void a_bound_below_what_the_box_can_is_refused(void **state)
{
    (void)state;
    tenants *t = open_tenants("[tenant a]\ngap-ms = 5\n", NULL);
    assert_int_equal(tenants_check_gaps(t, 5000, &err), OK);
    assert_int_equal(tenants_check_gaps(t, 5001, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, ":1: tenant a: gap-ms = 5: "));
    tenants_close(t);
}

/* ---- terms ---- */

static const char sharing[] = "[tenant chat]\nkey = kc\n[tenant docs]\nclass = batch\n[tenant lift]\nclass = batch\n"
                              "may-raise = yes\n[tenant gone]\n";

static bool read_terms(request_terms *out, const tenants *t, uint32_t tenant, const char *headers, api_error *e)
{
    char text[600];
    http_head head = {0};
    int size = snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n", headers);
    assert_int_equal(http_head_feed(&head, text, (size_t)size), HTTP_DONE);
    *e = (api_error){0};
    return terms_read_head(out, t, tenant, &head, text, e);
}

static void a_gateway_speaks_for_tenants_without_keys(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        uint32_t from, tenant;
    } cases[] = {
        {"", 0, 0},
        {"x-llm-d-inference-fairness-id: docs\r\n", 0, 2},
        {"X-Gateway-Inference-Fairness-Id: docs\r\n", 0, 2},
        {"x-llm-d-inference-fairness-id: lift\r\nx-gateway-inference-fairness-id: docs\r\n", 0, 3},
        {"x-llm-d-inference-fairness-id: chat\r\n", 0, 0},    /* has a key */
        {"x-llm-d-inference-fairness-id: unknown\r\n", 0, 0}, /* nobody */
        {"x-llm-d-inference-fairness-id: gone\r\n", 0, 0},    /* removed */
        {"x-llm-d-inference-fairness-id: docs\r\n", 1, 1},    /* a key of its own */
    };
    tenants *t = open_tenants(sharing, NULL);
    char text[200];
    snprintf(text, sizeof text, "%.*s", (int)(strstr(sharing, "[tenant gone]") - sharing), sharing);
    assert_int_equal(reload(t, text), OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        request_terms terms;
        api_error e;
        assert_true(read_terms(&terms, t, cases[i].from, cases[i].headers, &e));
        assert_int_equal(terms.tenant, cases[i].tenant);
        assert_int_equal(terms.klass, tenants_table(t)->tenants[cases[i].tenant].klass);
    }
    tenants_close(t);
}

static void class_follows_tenant_objective_and_tier(void **state)
{
    (void)state;
    enum { DEFAULT, CHAT, DOCS, LIFT };
    static const struct {
        uint32_t tenant;
        const char *objective, *tier;
        bool batch, lowered;
        const char *said;
    } cases[] = {
        {CHAT, NULL, "auto", false, false, "default"},
        {CHAT, NULL, "flex", true, false, "flex"},
        {CHAT, NULL, "priority", false, false, "priority"},
        {CHAT, NULL, "fast", false, false, "priority"},
        {CHAT, NULL, "scale", false, false, "scale"},
        {CHAT, "nightly-batch", "default", true, false, "flex"},
        {CHAT, "Batch", "priority", false, false, "priority"}, /* the body has the last word */
        {CHAT, "chat-batch", "auto", true, false, "flex"},
        {CHAT, "batches", "auto", false, false, "default"}, /* words, not parts of them */
        {DOCS, NULL, "auto", true, false, "flex"},
        {DOCS, NULL, "priority", true, true, "flex"},
        {DOCS, "interactive", "auto", true, true, "flex"},
        {DOCS, "interactive", "flex", true, false, "flex"},
        {LIFT, NULL, "auto", true, false, "flex"},
        {LIFT, NULL, "priority", false, false, "priority"},
        {LIFT, "team.interactive", "auto", false, false, "default"},
    };
    tenants *t = open_tenants(sharing, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        request_terms terms;
        api_error e;
        service_tier tier;
        char header[100] = "";
        if (cases[i].objective)
            snprintf(header, sizeof header, "x-llm-d-inference-objective: %s\r\n", cases[i].objective);
        assert_true(read_terms(&terms, t, cases[i].tenant, header, &e));
        assert_true(service_tier_read(span_from(cases[i].tier), &tier));
        terms_take_tier(&terms, t, tier);
        if (terms.klass != (cases[i].batch ? CLASS_BATCH : CLASS_INTERACTIVE) || terms.lowered != cases[i].lowered)
            fail_msg("case %zu: class %d, lowered %d", i, terms.klass, terms.lowered);
        assert_string_equal(terms_tier_text(&terms, tier), cases[i].said);
    }
    service_tier tier;
    assert_false(service_tier_read(span_from("Flex"), &tier));
    assert_false(service_tier_read(span_from(""), &tier));
    tenants_close(t);
}

static void bounds_are_read_and_nonsense_is_named(void **state)
{
    (void)state;
    tenants *t = open_tenants(NULL, NULL);
    request_terms terms;
    api_error e;
    assert_true(read_terms(&terms, t, 0, "x-llm-d-slo-ttft-ms: 200\r\nx-slo-tpot-ms: 12.5\r\n", &e));
    assert_int_equal(terms.first_token_us, 200000);
    assert_int_equal(terms.gap_us, 12500);
    assert_true(read_terms(&terms, t, 0, "x-slo-ttft-ms: zzz\r\nx-llm-d-slo-ttft-ms: 7\r\n", &e));
    assert_int_equal(terms.first_token_us, 7000);
    static const char *const wrong[] = {"",    "0",   "-5",      "abc", "1e3",
                                        "nan", "5ms", "3600001", "0.9", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char header[100];
        snprintf(header, sizeof header, "x-slo-tpot-ms: %s\r\n", wrong[i]);
        assert_false(read_terms(&terms, t, 0, header, &e));
        assert_int_equal(e.status, 400);
        assert_string_equal(e.param, "x-slo-tpot-ms");
    }
    tenants_close(t);
}

static void floors_must_fit_the_cache_together(void **state)
{
    (void)state;
    tenants *t = open_tenants("[tenant default]\ncache_floor = 1M\n[tenant a]\ncache-floor = 2M\n", NULL);
    assert_int_equal(tenants_check_floors(t, 3 << 20, &err), OK);
    assert_int_equal(tenants_check_floors(t, (3 << 20) - 1, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, ":3: tenant a: cache-floor = 2 MB: the cache holds 3 MB, and the tenants before"));
    assert_int_equal(tenants_check_floors(t, 0, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, ":1: tenant default:"));
    assert_int_equal(reload(t, "[tenant default]\ncache_floor = 1M\n"), OK); /* who is gone holds nothing */
    assert_int_equal(tenants_check_floors(t, 1 << 20, &err), OK);
    tenants_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_file_everyone_is_default),
        cmocka_unit_test(keys_of_the_command_line_are_defaults_and_are_wiped),
        cmocka_unit_test(a_name_keeps_its_index_over_reloads),
        cmocka_unit_test(a_wrong_file_or_a_refusal_changes_nothing),
        cmocka_unit_test(names_of_the_past_fill_the_table_and_are_told),
        cmocka_unit_test(a_bound_below_what_the_box_can_is_refused),
        cmocka_unit_test(a_gateway_speaks_for_tenants_without_keys),
        cmocka_unit_test(class_follows_tenant_objective_and_tier),
        cmocka_unit_test(bounds_are_read_and_nonsense_is_named),
        cmocka_unit_test(floors_must_fit_the_cache_together),
    };
    snprintf(path, sizeof path, "/tmp/headway-tenants-%d.ini", (int)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
