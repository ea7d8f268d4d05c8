/* tests/arm64/cmocka.h: the small part of cmocka's interface that the tensor tests use, for builds where the package is
 * not to be had. Written for this project; the names and meanings are cmocka's. One thread. */
#ifndef HEADWAY_TESTS_ARM64_CMOCKA_H
#define HEADWAY_TESTS_ARM64_CMOCKA_H

#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    int (*setup_func)(void **state);
    int (*teardown_func)(void **state);
    void *initial_state;
};

#define cmocka_unit_test(f)                                                                                            \
    {                                                                                                                  \
#f, f, NULL, NULL, NULL                                                                                        \
    }
#define cmocka_unit_test_setup_teardown(f, setup, teardown)                                                            \
    {                                                                                                                  \
#f, f, setup, teardown, NULL                                                                                   \
    }
#define cmocka_unit_test_prestate(f, state)                                                                            \
    {                                                                                                                  \
#f, f, NULL, NULL, state                                                                                       \
    }
#define cmocka_run_group_tests(tests, setup, teardown)                                                                 \
    stand_in_run(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) cmocka_run_group_tests(tests, setup, teardown)
#define print_message(...) printf(__VA_ARGS__)
#define print_error(...) fprintf(stderr, __VA_ARGS__)

static jmp_buf stand_in_exit; /* longjmp value 1: failed, 2: skipped */

static inline void stand_in_fail(const char *what, const char *file, int line)
{
    printf("%s:%d: %s\n", file, line, what);
    longjmp(stand_in_exit, 1);
}

#define stand_in_check(ok, what) ((ok) ? (void)0 : stand_in_fail(what, __FILE__, __LINE__))
#define assert_true(c) stand_in_check((c), "not true: " #c)
#define assert_false(c) stand_in_check(!(c), "not false: " #c)
#define assert_null(p) stand_in_check((p) == NULL, "not NULL: " #p)
#define assert_non_null(p) stand_in_check((p) != NULL, "NULL: " #p)
#define assert_int_equal(a, b) stand_in_check((intmax_t)(a) == (intmax_t)(b), #a " != " #b)
#define assert_int_not_equal(a, b) stand_in_check((intmax_t)(a) != (intmax_t)(b), #a " == " #b)
#define assert_ptr_equal(a, b) stand_in_check((const void *)(a) == (const void *)(b), #a " != " #b)
#define assert_string_equal(a, b) stand_in_check(strcmp((a), (b)) == 0, #a " != " #b)
#define assert_memory_equal(a, b, size) stand_in_check(memcmp((a), (b), (size)) == 0, #a " != " #b)
#define assert_in_range(v, low, high)                                                                                  \
    stand_in_check((uintmax_t)(v) >= (uintmax_t)(low) && (uintmax_t)(v) <= (uintmax_t)(high), #v " out of range")
#define assert_float_equal(a, b, epsilon) stand_in_check(fabs((double)(a) - (double)(b)) <= (epsilon), #a " != " #b)
#define assert_double_equal(a, b, epsilon) assert_float_equal(a, b, epsilon)
#define fail_msg(...) (printf(__VA_ARGS__), stand_in_fail("", __FILE__, __LINE__))
#define fail() stand_in_fail("fail()", __FILE__, __LINE__)
#define skip() longjmp(stand_in_exit, 2)

static inline int stand_in_run(const struct CMUnitTest *tests, size_t count, int (*setup)(void **),
                               int (*teardown)(void **))
{
    void *group_state = NULL;
    volatile int failed = 0, passed = 0;
    if (setup && setup(&group_state))
        return 1;
    for (volatile size_t i = 0; i < count; i++) {
        void *state = tests[i].initial_state ? tests[i].initial_state : group_state;
        int outcome = tests[i].setup_func && tests[i].setup_func(&state) ? 1 : setjmp(stand_in_exit);
        if (outcome == 0)
            tests[i].test_func(&state);
        if (tests[i].teardown_func)
            tests[i].teardown_func(&state);
        printf("[ %s ] %s\n", outcome == 0 ? "  OK  " : outcome == 1 ? "FAILED" : " SKIP ", tests[i].name);
        failed += outcome == 1;
        passed += outcome == 0;
    }
    if (teardown)
        teardown(&group_state);
    printf("%d passed, %d failed\n", (int)passed, (int)failed);
    return failed;
}

#endif
