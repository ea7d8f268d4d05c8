/* tests/unit/server/trace_export_test.c: whatever the records, the trace is JSON that a viewer can read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/rng.h"
#include "server/debug/trace_export.h"

typedef struct {
    trace_export *e;
    buf text;
    tenant_table *tenants;
} fixture;

static fixture open_fixture(void)
{
    fixture f = {.e = calloc(1, sizeof *f.e), .tenants = malloc(sizeof *f.tenants)};
    *f.tenants = tenant_table_default();
    trace_export_begin(f.e, &f.text, &(trace_about){span_from("a \"model\""), 1000, 20, 3, 640, 99}, 5);
    return f;
}

static json_t *close_fixture(fixture *f)
{
    trace_export_end(f->e, &f->text, 1000000);
    json_error_t error;
    json_t *events = json_loadb(f->text.data, f->text.size, JSON_REJECT_DUPLICATES, &error);
    if (!events)
        fail_msg("%s at %d: %s", error.text, error.position, f->text.data);
    assert_true(json_is_array(events));
    buf_free(&f->text);
    free(f->e);
    free(f->tenants);
    return events;
}

static void add(fixture *f, trace_record record)
{
    trace_export_record(f->e, &f->text, &record, f->tenants);
}

/* The only event called `name`. */
static json_t *find(json_t *events, const char *name)
{
    size_t i;
    json_t *event, *found = NULL;
    json_array_foreach(events, i, event) if (strcmp(json_string_value(json_object_get(event, "name")), name) == 0)
    {
        assert_null(found);
        found = event;
    }
    assert_non_null(found);
    return found;
}

static json_int_t number(json_t *event, const char *key)
{
    json_t *value = json_object_get(event, key);
    value = value ? value : json_object_get(json_object_get(event, "args"), key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void a_request_is_a_track_with_its_life_on_it(void **state)
{
    (void)state;
    fixture f = open_fixture();
    add(&f, (trace_record){.kind = TRACE_ARRIVED, .start_us = 100, .duration_us = 30, .request_id = 9});
    add(&f, (trace_record){.kind = TRACE_ADMITTED, .start_us = 160, .request_id = 9});
    add(&f, (trace_record){.kind = TRACE_PREFILL,
                           .start_us = 170,
                           .duration_us = 100,
                           .request_id = 9,
                           .tokens = 64,
                           .bytes = 500000,
                           .predicted_us = 90,
                           .flags = TRACE_YIELDED,
                           .part = 255});
    add(&f, (trace_record){.kind = TRACE_TOKEN, .start_us = 270, .request_id = 9, .predicted_us = 50});
    add(&f, (trace_record){.kind = TRACE_DECODE, .start_us = 280, .duration_us = 70, .rows = 3, .position = 99});
    add(&f, (trace_record){.kind = TRACE_TOKEN,
                           .start_us = 350,
                           .duration_us = 80,
                           .request_id = 9,
                           .predicted_us = 50,
                           .flags = TRACE_VIOLATED});
    add(&f, (trace_record){.kind = TRACE_FINISHED, .start_us = 351, .request_id = 9, .tokens = 2});
    json_t *events = close_fixture(&f);
    json_t *waiting = find(events, "waiting"), *late = find(events, "late token"), *decode = find(events, "decode");
    assert_int_equal(number(waiting, "ts"), 100);
    assert_int_equal(number(waiting, "dur"), 60);
    assert_int_equal(number(find(events, "arrived"), "way_us"), 30);
    assert_int_equal(number(late, "ts"), 270); /* from the token before to this one */
    assert_int_equal(number(late, "dur"), 80);
    assert_int_equal(number(late, "bound_us"), 50);
    assert_int_equal(number(late, "tid"), 9);
    assert_int_equal(number(decode, "rows"), 3);
    assert_int_equal(number(decode, "context"), 99);
    assert_int_equal(number(find(events, "trace starts"), "kv_token_bytes"), 20);
    assert_int_equal(number(find(events, "trace starts"), "kv_bytes"), 640);
    assert_int_equal(number(find(events, "trace starts"), "context"), 99);
    assert_int_equal(number(find(events, "finished"), "tokens"), 2);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(find(events, "trace starts"), "args"), "model")),
        "a \"model\"");
    assert_int_equal(number(find(events, "trace ends"), "records"), 7);
    size_t prefills = 0, i; /* on the device's track and on the request's */
    json_t *event;
    json_array_foreach(events, i, event) if (strcmp(json_string_value(json_object_get(event, "name")), "prefill") == 0)
    {
        prefills++;
        if (number(event, "pid") == 1) {
            json_t *args = json_object_get(event, "args");
            assert_true(json_is_true(json_object_get(args, "yielded")));
            assert_true(json_real_value(json_object_get(args, "gb_per_s")) == 5.0);
        }
    }
    assert_int_equal(prefills, 2);
    json_decref(events);
}

static void lost_records_are_said(void **state)
{
    (void)state;
    fixture f = open_fixture();
    trace_export_lost(f.e, &f.text, 0, 10);
    trace_export_lost(f.e, &f.text, 17, 20);
    trace_export_lost(f.e, &f.text, 5, 30);
    json_t *events = close_fixture(&f);
    assert_int_equal(number(find(events, "trace ends"), "lost"), 22);
    json_decref(events);
}

static void any_records_make_valid_json(void **state)
{
    (void)state;
    rng random = {.state = 7};
    for (int round = 0; round < 200; round++) {
        fixture f = open_fixture();
        memset(f.tenants->tenants[0].name, '"', 20);
        for (int i = 0; i < 50; i++) {
            trace_record record;
            uint64_t words[(sizeof record + 7) / 8];
            for (size_t k = 0; k < sizeof words / sizeof *words; k++)
                words[k] = rng_next(&random) >> rng_below(&random, 60);
            memcpy(&record, words, sizeof record);
            record.kind = (uint8_t)rng_below(&random, TRACE_FINISHED + 3);
            record.start_us >>= 2; /* integers of JSON have a sign */
            record.duration_us %= record.start_us + 1;
            record.request_id >>= 1;
            add(&f, record);
        }
        json_decref(close_fixture(&f));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_a_track_with_its_life_on_it),
        cmocka_unit_test(lost_records_are_said),
        cmocka_unit_test(any_records_make_valid_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
