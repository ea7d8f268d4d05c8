/* tests/unit/server/batch_test.c: lines of batches, their answers, and a store that is opened again after anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "server/batch/disk.h"
#include "server/batch/line.h"
#include "server/batch/store.h"

static const char url[] = "/v1/completions";

static void write_line(buf *out, const char *id, const char *body)
{
    buf_printf(out, "{\"custom_id\":\"%s\",\"method\":\"POST\",\"url\":\"%s\",\"body\":%s}\n", id, url, body);
}

static void reads_lines_and_names_faults(void **state)
{
    (void)state;
    buf text = {0};
    batch_input input;
    batch_record r = {.endpoint = "/v1/completions"};
    write_line(&text, "a", "{}");
    buf_text(&text, "\r\n  \n");
    write_line(&text, "b", "[]");
    write_line(&text, "a", "{}");
    write_line(&text, "", "{}");
    buf_text(&text, "[1]\n{\n\"x\"");
    assert_true(batch_input_read(&input, buf_span(&text), &r));
    static const struct {
        uint32_t line;
        const char *code;
    } wanted[] = {{4, "missing_required_parameter"}, {6, "missing_required_parameter"}, {7, "invalid_json_line"},
                  {8, "invalid_json_line"},          {9, "invalid_json_line"},          {5, "duplicate_custom_id"}};
    assert_int_equal(r.fault_count, sizeof wanted / sizeof *wanted);
    for (uint32_t i = 0; i < r.fault_count; i++) {
        assert_int_equal(r.faults[i].line, wanted[i].line);
        assert_string_equal(r.faults[i].code, wanted[i].code);
    }
    assert_int_equal(input.count, 2);
    assert_int_equal(text.data[input.starts[1] + input.sizes[1]], '\n');
    batch_input_free(&input);
    buf_free(&text);
}

static void bounds_what_it_reads(void **state)
{
    (void)state;
    buf text = {0};
    batch_input input;
    batch_record r = {.endpoint = "/v1/completions"};
    for (int i = 0; i <= BATCH_LINES_MAX; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        write_line(&text, id, "{}");
    }
    assert_true(batch_input_read(&input, buf_span(&text), &r));
    assert_int_equal(input.count, BATCH_LINES_MAX);
    assert_int_equal(r.fault_count, 1);
    assert_string_equal(r.faults[0].code, "too_many_requests");
    batch_input_free(&input);
    buf_clear(&text);
    r.fault_count = 0;
    for (int i = 0; i < 3 * BATCH_ERRORS_MAX; i++)
        buf_text(&text, "{\n");
    assert_true(batch_input_read(&input, buf_span(&text), &r));
    assert_int_equal(r.fault_count, BATCH_ERRORS_MAX);
    batch_input_free(&input);
    buf_free(&text);
}

static void answers_say_which_line_they_answer(void **state)
{
    (void)state;
    static const char batch[] = "batch_0123456789abcdef01234567";
    uint32_t index;
    for (uint32_t line = 1; line < 50000; line = line * 7 + 3) {
        buf text = {0};
        batch_answer_write(&text, batch, line, "a\"b\n", 200, span_from("{\"x\":1}"));
        json_t *parsed = json_loadb(text.data, text.size, 0, NULL);
        assert_non_null(parsed);
        assert_string_equal(json_string_value(json_object_get(parsed, "custom_id")), "a\"b\n");
        json_decref(parsed);
        span whole = span_of(text.data, text.size - 1);
        assert_true(batch_answer_index(whole, batch, &index));
        assert_int_equal(index, line);
        for (size_t cut = 0; cut + 1 < whole.size; cut++) /* torn: the end is not an object's, or is inside one */
            if (whole.data[cut ? cut - 1 : 0] != '}')
                assert_false(batch_answer_index(span_of(whole.data, cut), batch, &index));
        assert_false(batch_answer_index(whole, "batch_1123456789abcdef01234567", &index));
        buf_free(&text);
    }
}

/* ---- the store ---- */

typedef struct {
    char dir[64], path[256];
    batch_store *store;
} fixture;

static void open_store(fixture *f, uint64_t bytes_max, uint64_t now)
{
    error err = {""};
    batch_store_close(f->store);
    f->store = NULL;
    if (batch_store_open(&f->store, f->dir, bytes_max, now, &err))
        fail_msg("%s", err.text);
}

static fixture fixture_open(void)
{
    fixture f = {.dir = "/tmp/headway-batch-XXXXXX"};
    assert_non_null(mkdtemp(f.dir));
    open_store(&f, 1000, 100);
    return f;
}

static void fixture_close(fixture *f)
{
    char command[128];
    batch_store_close(f->store);
    snprintf(command, sizeof command, "rm -r '%s'", f->dir);
    assert_int_equal(system(command), 0);
}

static stored_file add(fixture *f, const char *tenant, const char *text, status wanted)
{
    error err = {""};
    stored_file file = {.purpose = "batch", .name = "n\"\\.jsonl", .created_unix = 100, .expires_unix = 5000};
    snprintf(file.tenant, sizeof file.tenant, "%s", tenant);
    assert_int_equal(store_add_file(f->store, &file, span_from(text), &err), wanted);
    return file;
}

static batch_record add_batch(fixture *f, const stored_file *input)
{
    error err = {""};
    batch_record r = {
        .state = BATCH_VALIDATING, .why = BATCH_COMPLETED, .endpoint = "/v1/completions", .window = "24h"};
    r.times[BATCH_VALIDATING] = 100;
    r.expires_unix = 86500;
    r.metadata = strdup("{\"a\":\"b\"}");
    memcpy(r.tenant, input->tenant, sizeof r.tenant);
    memcpy(r.input, input->id, sizeof r.input);
    assert_int_equal(store_add_batch(f->store, &r, &err), OK);
    batch_record_free(&r);
    return r;
}

static bool end_it(batch_record *r, void *context)
{
    (void)context;
    r->state = BATCH_COMPLETED;
    r->has_output = true;
    r->completed = 3;
    return true;
}

static void what_was_stored_is_there_again(void **state)
{
    (void)state;
    fixture f = fixture_open();
    stored_file a = add(&f, "a", "hello", OK), b = add(&f, "b", "world!", OK), found;
    batch_record r = add_batch(&f, &a), again;
    error err;
    open_store(&f, 1000, 200);
    assert_true(store_find_file(f.store, "a", a.id, &found));
    assert_memory_equal(&found, &a, sizeof a);
    assert_false(store_find_file(f.store, "b", a.id, &found));
    assert_true(store_find_batch(f.store, "a", r.id, &again));
    assert_string_equal(again.metadata, "{\"a\":\"b\"}");
    assert_string_equal(again.output, r.output);
    batch_record_free(&again);
    assert_false(store_find_batch(f.store, "b", r.id, &again));
    assert_int_equal(store_remove_file(f.store, "b", a.id, &err), ERR_NOT_FOUND);
    assert_int_equal(store_remove_file(f.store, "a", a.id, &err), ERR_BUSY);
    assert_int_equal(store_change_batch(f.store, r.id, end_it, NULL, NULL, &err), OK);
    open_store(&f, 1000, 200);
    assert_true(store_find_batch(f.store, NULL, r.id, &again));
    assert_int_equal(again.state, BATCH_COMPLETED);
    assert_int_equal(again.completed, 3);
    batch_record_free(&again);
    assert_int_equal(store_remove_file(f.store, "a", a.id, &err), OK);
    open_store(&f, 1000, 200);
    assert_false(store_find_file(f.store, "a", a.id, &found));
    assert_true(store_find_file(f.store, "b", b.id, &found));
    fixture_close(&f);
}

static void a_folder_has_one_owner(void **state)
{
    (void)state;
    fixture f = fixture_open();
    batch_store *other = NULL;
    error err = {""};
    assert_int_equal(batch_store_open(&other, f.dir, 1000, 100, &err), ERR_IO);
    assert_non_null(strstr(err.text, "another server"));
    assert_null(other);
    open_store(&f, 1000, 100);
    fixture_close(&f);
}

static void limits_hold_and_old_things_go(void **state)
{
    (void)state;
    char big[901];
    memset(big, 'x', 900);
    big[900] = 0;
    fixture f = fixture_open();
    stored_file a = add(&f, "a", big, OK), found;
    add(&f, "a", big, ERR_LIMIT);
    batch_record r = add_batch(&f, &a);
    batch_record copy;
    error err;
    store_sweep(f.store, 6000); /* expired, but needed */
    assert_true(store_find_file(f.store, "a", a.id, &found));
    assert_int_equal(store_change_batch(f.store, r.id, end_it, NULL, NULL, &err), OK);
    store_sweep(f.store, 6000);
    assert_false(store_find_file(f.store, "a", a.id, &found));
    assert_true(store_find_batch(f.store, "a", r.id, &copy));
    batch_record_free(&copy);
    add(&f, "a", big, OK); /* its bytes are free again */
    open_store(&f, 1000, 100 + STORE_DAYS * 86400);
    assert_false(store_find_batch(f.store, "a", r.id, &copy));
    fixture_close(&f);
}

static bool there(fixture *f, const char *name)
{
    snprintf(f->path, sizeof f->path, "%s/files/%s", f->dir, name);
    return access(f->path, F_OK) == 0;
}

static void put(fixture *f, const char *name, const char *text)
{
    error err;
    snprintf(f->path, sizeof f->path, "%s/%s", f->dir, name);
    assert_int_equal(disk_replace(f->path, span_from(text), &err), OK);
}

static void rubbish_goes_and_strangers_stay(void **state)
{
    (void)state;
    fixture f = fixture_open();
    stored_file a = add(&f, "a", "hello", OK), found;
    batch_record r = add_batch(&f, &a);
    char output[64];
    snprintf(output, sizeof output, "files/%s", r.output);
    put(&f, output, "grows");
    put(&f, "files/file-00ff", "nobody's");
    put(&f, "files/file-00ff.tmp", "half");
    put(&f, "files/notes.txt", "a stranger's");
    put(&f, "files/file-0abc.json", "{\"id\":\"file-0abc\"");
    put(&f, "batches/batch_0abc.json", "{}");
    open_store(&f, 1000, 200);
    assert_true(there(&f, r.output));
    assert_true(there(&f, a.id));
    assert_true(there(&f, "notes.txt"));
    assert_false(there(&f, "file-00ff"));
    assert_false(there(&f, "file-00ff.tmp"));
    assert_true(store_find_file(f.store, "a", a.id, &found));
    fixture_close(&f);
}

/* A description cut anywhere or with a byte changed is refused or read, and never more than that. */
static void descriptions_of_any_bytes_are_safe(void **state)
{
    (void)state;
    rng random = {3};
    buf text = {0};
    batch_record r = {.id = "batch_1",
                      .tenant = "t",
                      .endpoint = "/v1/completions",
                      .window = "1h",
                      .input = "file-1",
                      .output = "file-2",
                      .errors = "file-3",
                      .state = BATCH_FAILED,
                      .why = BATCH_EXPIRED,
                      .total = 9};
    r.faults[r.fault_count++] = (batch_error){"code", "message", 3};
    batch_record_write(&r, true, &text);
    for (int i = 0; i < 20000; i++) {
        buf copy = {0};
        batch_record out;
        buf_append(&copy, text.data, text.size);
        copy.data[rng_below(&random, copy.size)] = (char)rng_next(&random);
        if (i % 2)
            copy.size = rng_below(&random, copy.size);
        (void)batch_record_read(&out, buf_span(&copy), NULL);
        assert_in_range(out.fault_count, 0, BATCH_ERRORS_MAX);
        batch_record_free(&out);
        buf_free(&copy);
    }
    batch_record same;
    assert_int_equal(batch_record_read(&same, buf_span(&text), NULL), OK);
    assert_memory_equal(&same, &r, sizeof r);
    buf_free(&text);
}

static void an_append_cuts_off_what_failed(void **state)
{
    (void)state;
    fixture f = fixture_open();
    error err = {""};
    buf text = {0};
    int fd;
    snprintf(f.path, sizeof f.path, "%s/files/file-1", f.dir);
    assert_int_equal(disk_open_append(f.path, &fd, &err), OK);
    assert_int_equal(disk_append(fd, 0, span_from("one\nto"), &err), OK);
    assert_int_equal(disk_append(fd, 4, span_from("two\n"), &err), OK);
    assert_int_equal(disk_read_at(fd, 0, 100, &text, &err), OK);
    assert_string_equal(text.data, "one\ntwo\n");
    close(fd);
    struct stat what;
    assert_int_equal(stat(f.path, &what), 0);
    assert_int_equal(what.st_mode & 0777, 0600);
    buf_free(&text);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_lines_and_names_faults),
        cmocka_unit_test(bounds_what_it_reads),
        cmocka_unit_test(answers_say_which_line_they_answer),
        cmocka_unit_test(what_was_stored_is_there_again),
        cmocka_unit_test(limits_hold_and_old_things_go),
        cmocka_unit_test(rubbish_goes_and_strangers_stay),
        cmocka_unit_test(descriptions_of_any_bytes_are_safe),
        cmocka_unit_test(an_append_cuts_off_what_failed),
        cmocka_unit_test(a_folder_has_one_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
