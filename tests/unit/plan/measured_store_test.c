/* tests/unit/plan/measured_store_test.c: the user's file of runs: its place, damage, writers at once, the cap, kills.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/rng.h"
#include "plan/measured_private.h"
#include "unit/plan/plain_run.h"

static char folder[64];

static int open_store(void **state)
{
    (void)state;
    char path[128];
    snprintf(folder, sizeof folder, "/tmp/measured_XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/a/b/runs.jsonl", folder);
    log_set_level(LOG_ERROR);
    return setenv("HEADWAY_RUNS", path, 1);
}

static int remove_store(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    unsetenv("HEADWAY_RUNS");
    return system(command);
}

static uint32_t known_count(void)
{
    uint32_t count = 0;
    while (known_runs[count])
        count++;
    return count;
}

static uint32_t found_in_store(void)
{
    run_set set;
    error err = {""};
    assert_int_equal(run_store_open(&set, &err), OK);
    uint32_t n = run_set_find(&set, RUN_DECODE, "box", "m", "q4_0", 1, 0).n;
    run_set_free(&set);
    return n;
}

static void scribble(const char *text, const char *mode)
{
    char path[4096];
    assert_int_equal(run_store_path(path, sizeof path, NULL), OK);
    FILE *file = fopen(path, mode);
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void the_place_is_what_the_environment_says(void **state)
{
    (void)state;
    char path[4096], *kept = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    error err = {""};
    unsetenv("HEADWAY_RUNS");
    setenv("XDG_DATA_HOME", "/x/data", 1);
    assert_int_equal(run_store_path(path, sizeof path, &err), OK);
    assert_string_equal(path, "/x/data/headway/runs.jsonl");
    setenv("XDG_DATA_HOME", "relative", 1);
    setenv("HOME", "/home/u", 1);
    assert_int_equal(run_store_path(path, sizeof path, &err), OK);
    assert_string_equal(path, "/home/u/.local/share/headway/runs.jsonl");
    assert_int_equal(run_store_path(path, 10, &err), ERR_INVALID);
    unsetenv("XDG_DATA_HOME");
    unsetenv("HOME");
    assert_int_equal(run_store_path(path, sizeof path, &err), ERR_NOT_FOUND);
    run_set set;
    assert_int_equal(run_store_open(&set, &err), OK); /* the shipped ones are there all the same */
    assert_int_equal(set.count, known_count());
    run_set_free(&set);
    if (kept)
        setenv("HOME", kept, 1);
    free(kept);
}

static void what_is_appended_is_there_beside_the_shipped(void **state)
{
    (void)state;
    run_set set;
    error err = {""};
    assert_int_equal(run_store_open(&set, &err), OK); /* no file yet */
    assert_int_equal(set.count, known_count());
    run_set_free(&set);
    run_record two[] = {plain(50), plain(52)};
    assert_int_equal(run_store_append(two, 2, &err), OK);
    assert_int_equal(run_store_append(two, 1, &err), OK); /* again: counts once */
    assert_int_equal(run_store_open(&set, &err), OK);
    assert_int_equal(set.count, known_count() + 2);
    run_set_free(&set);
}

static void damaged_lines_take_no_others_with_them(void **state)
{
    (void)state;
    run_record a = plain(50), b = plain(51);
    assert_int_equal(run_store_append(&a, 1, NULL), OK);
    scribble("{\"format\": \"headway-run/1\", \"kind\": \"dec", "a"); /* a crash amid a line */
    assert_int_equal(run_store_append(&b, 1, NULL), OK);
    assert_int_equal(found_in_store(), 2);
    scribble("\xff\x01\n\n", "a");
    assert_int_equal(found_in_store(), 2);
}

static void a_store_that_cannot_be_is_an_error(void **state)
{
    (void)state;
    run_record a = plain(50);
    error err = {""};
    run_set set;
    setenv("HEADWAY_RUNS", "/dev/null/runs.jsonl", 1);
    assert_int_equal(run_store_append(&a, 1, &err), ERR_IO);
    assert_non_null(strstr(err.text, "/dev/null"));
    setenv("HEADWAY_RUNS", "/tmp", 1);
    assert_int_equal(run_store_append(&a, 1, &err), ERR_IO);
    assert_int_equal(run_store_open(&set, &err), ERR_IO);
    assert_true(set.count == 0 && !set.items);
    setenv("HEADWAY_RUNS", "/dev/full", 1);
    assert_int_equal(run_store_append(&a, 1, &err), ERR_IO);
    setenv("HEADWAY_RUNS", "/dev/null", 1);
    assert_int_equal(run_store_append(&a, 1, &err), OK); /* kept nowhere */
    assert_int_equal(run_store_open(&set, &err), OK);
    run_set_free(&set);
}

/* Six processes append 25 records each, one by one; the cap is crossed meanwhile. */
static void writers_at_once_lose_nothing(void **state)
{
    (void)state;
    enum { WRITERS = 6, EACH = 25 };
    pid_t children[WRITERS];
    buf text = {0};
    for (uint32_t i = 0; i < RUNS_MAX - 75; i++) {
        run_record r = plain(1 + i * 0.001);
        memcpy(r.hardware, "other", 6);
        memcpy(r.date, "2020-01", 8);
        run_record_write(&r, &text);
    }
    run_record seed = plain(49);
    assert_int_equal(run_store_append(&seed, 1, NULL), OK);
    scribble(text.data, "a");
    buf_free(&text);
    for (int w = 0; w < WRITERS; w++)
        if ((children[w] = fork()) == 0) {
            bool failed = false;
            for (int i = 0; i < EACH; i++) {
                run_record r = plain(50 + w * EACH * 0.001 + i * 0.001);
                failed = failed || run_store_append(&r, 1, NULL) != OK;
            }
            _exit(failed);
        }
    for (int w = 0; w < WRITERS; w++) {
        int code;
        assert_int_equal(waitpid(children[w], &code, 0), children[w]);
        assert_int_equal(code, 0);
    }
    run_set set;
    assert_int_equal(run_store_open(&set, NULL), OK);
    assert_int_equal(run_set_find(&set, RUN_DECODE, "box", "m", "q4_0", 1, 0).n, WRITERS * EACH + 1);
    assert_true(set.count <= RUNS_MAX + known_count());
    run_set_free(&set);
    char fresh[4096];
    run_store_path(fresh, sizeof fresh - 8, NULL);
    strncat(fresh, ".new", sizeof fresh - strlen(fresh) - 1);
    assert_true(access(fresh, F_OK) != 0 && errno == ENOENT);
}

/* Writers that are killed at any time: every record whose append returned is there afterwards. */
static void a_kill_loses_nothing_that_was_kept(void **state)
{
    (void)state;
    rng r = {3};
    uint32_t expected = 0;
    for (int round = 0; round < 20; round++) {
        int told[2];
        assert_int_equal(pipe(told), 0);
        pid_t child = fork();
        if (child == 0)
            for (int i = 0; i < 1000; i++) {
                run_record one = plain(50 + round + i * 0.001);
                if (run_store_append(&one, 1, NULL) || write(told[1], "x", 1) != 1)
                    _exit(1);
            }
        close(told[1]);
        char bytes[64];
        ssize_t got;
        for (uint64_t wait = rng_below(&r, 30); wait && read(told[0], bytes, 1) == 1; wait--)
            expected++;
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        while ((got = read(told[0], bytes, sizeof bytes)) > 0)
            expected += (uint32_t)got;
        close(told[0]);
        uint32_t found = found_in_store();
        assert_true(found >= expected && found <= expected + (uint32_t)round + 1); /* one may have been under way */
    }
    assert_true(expected > 20);
}

#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, open_store, remove_store)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(the_place_is_what_the_environment_says), WITH_STORE(what_is_appended_is_there_beside_the_shipped),
        WITH_STORE(damaged_lines_take_no_others_with_them), WITH_STORE(a_store_that_cannot_be_is_an_error),
        WITH_STORE(writers_at_once_lose_nothing),           WITH_STORE(a_kill_loses_nothing_that_was_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
