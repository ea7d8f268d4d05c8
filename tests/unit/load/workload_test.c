/* tests/unit/load/workload_test.c: plans follow from the seed, documents are fresh, arrivals are Poisson. */
#include "load/prompt.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { DOCUMENTS = 60, WINDOW = 32 };
static const prompt_settings settings = {.model = "m", .words_per_token = 1};

static void write_prompt(buf *out, const workload *w, load_role role, uint32_t index)
{
    load_session s;
    workload_session(w, role, index, &s);
    prompt_body(out, &settings, &(load_request){&s, 0, NULL, 0});
}

static void the_same_seed_gives_the_same_sessions(void **state)
{
    (void)state;
    for (int role = LOAD_AGENTS; role <= LOAD_DOCUMENTS; role++)
        for (uint32_t i = 0; i < 20; i++) {
            workload one = {.seed = 7, .scale = 1}, same = one, other = {.seed = 8, .scale = 1};
            load_session a, b;
            workload_session(&one, (load_role)role, i, &a);
            workload_session(&same, (load_role)role, i, &b);
            assert_memory_equal(&a, &b, sizeof a);
            buf x = {0}, y = {0}, z = {0};
            write_prompt(&x, &one, (load_role)role, i);
            write_prompt(&y, &same, (load_role)role, i);
            write_prompt(&z, &other, (load_role)role, i);
            assert_string_equal(x.data, y.data);
            assert_string_not_equal(x.data, z.data);
            buf_free(&x);
            buf_free(&y);
            buf_free(&z);
        }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A hash of each run of WINDOW words, appended. */
static void add_windows(const char *text, uint64_t *out, size_t *count)
{
    uint64_t hashes[8192];
    size_t words = 0;
    const char *at = strstr(text, "\"content\":\"") + 11;
    while (*at != '"') {
        size_t size = strcspn(at, " \"");
        uint64_t h = 14695981039346656037u;
        for (size_t i = 0; i < size; i++)
            h = (h ^ (unsigned char)at[i]) * 1099511628211u;
        hashes[words++] = h;
        at += size + (at[size] == ' ');
    }
    for (size_t i = 0; i + WINDOW <= words; i++) {
        uint64_t h = 1;
        for (size_t k = 0; k < WINDOW; k++)
            h = (h ^ hashes[i + k]) * 0x9E3779B97F4A7C15u;
        out[(*count)++] = h;
    }
}

static void no_two_documents_share_a_window_of_32_words(void **state)
{
    (void)state;
    workload w = {.seed = 3, .scale = 1};
    uint64_t *windows = malloc(DOCUMENTS * 5000 * sizeof *windows);
    size_t count = 0;
    for (uint32_t i = 0; i < DOCUMENTS; i++) {
        buf text = {0};
        write_prompt(&text, &w, LOAD_DOCUMENTS, i);
        add_windows(text.data, windows, &count);
        buf_free(&text);
    }
    assert_true(count > DOCUMENTS * 3500);
    qsort(windows, count, sizeof *windows, by_value);
    for (size_t i = 1; i < count; i++)
        assert_true(windows[i] != windows[i - 1]);
    free(windows);
}

static void agents_share_the_system_prompt_and_grow(void **state)
{
    (void)state;
    workload w = {.seed = 5, .scale = 1};
    load_session a, b;
    workload_session(&w, LOAD_AGENTS, 0, &a);
    workload_session(&w, LOAD_AGENTS, 1, &b);
    buf first = {0}, second = {0}, other = {0};
    const span answer = span_from("an \"answer\"\n");
    prompt_body(&first, &settings, &(load_request){&a, 0, NULL, 0});
    prompt_body(&second, &settings, &(load_request){&a, 1, &answer, 0});
    prompt_body(&other, &settings, &(load_request){&b, 0, NULL, 0});
    size_t system = (size_t)(strstr(first.data, "{\"role\":\"user\"") - first.data);
    size_t turn = (size_t)(strstr(first.data, "],\"max_tokens\"") - first.data);
    assert_true(system > 4000); /* 1,200 words */
    assert_memory_equal(first.data, other.data, system);
    assert_true(memcmp(first.data + system, other.data + system, 40) != 0);
    assert_memory_equal(first.data, second.data, turn);
    assert_non_null(strstr(second.data, "{\"role\":\"assistant\",\"content\":\"an \\\"answer\\\"\\u000a\"}"));
    assert_int_equal(session_prompt_tokens(&a, 1),
                     1200 + a.turns[0].prompt_tokens + a.turns[0].output_tokens + a.turns[1].prompt_tokens);
    buf_free(&first);
    buf_free(&second);
    buf_free(&other);
}

static void scale_shrinks_prompts_and_not_answers(void **state)
{
    (void)state;
    workload whole = {.seed = 5, .scale = 1}, small = {.seed = 5, .scale = 0.25};
    load_session a, b;
    workload_session(&whole, LOAD_DOCUMENTS, 4, &a);
    workload_session(&small, LOAD_DOCUMENTS, 4, &b);
    assert_true(abs((int)a.turns[0].prompt_tokens - 4 * (int)b.turns[0].prompt_tokens) <= 4);
    assert_int_equal(a.turns[0].output_tokens, b.turns[0].output_tokens);
    for (uint32_t i = 0; i < 500; i++) {
        workload_session(&small, LOAD_AGENTS, i, &b);
        uint32_t last = b.turn_count - 1;
        assert_true(session_prompt_tokens(&b, last) + b.turns[last].output_tokens <=
                    workload_longest(&small, LOAD_AGENTS));
    }
}

static void arrivals_are_poisson(void **state)
{
    (void)state;
    load_arrivals a;
    arrivals_open(&a, 11, LOAD_DOCUMENTS, 50);
    enum { COUNT = 20000 };
    double sum = 0, squares = 0;
    uint64_t before = 0;
    for (int i = 0; i < COUNT; i++) {
        uint64_t at = arrivals_next(&a);
        assert_true(at >= before);
        double gap = (double)(at - before) / 1e6;
        sum += gap;
        squares += gap * gap;
        before = at;
    }
    double mean = sum / COUNT, deviation = sqrt(squares / COUNT - mean * mean);
    assert_true(fabs(mean * 50 - 1) < 0.03); /* mean and deviation of an exponential are the same */
    assert_true(fabs(deviation * 50 - 1) < 0.05);
}

static void a_plan_of_two_tenants_has_each_alone_first(void **state)
{
    (void)state;
    load_plan plan;
    workload_plan(&(plan_options){.kind = BENCH_MIXED, .workers = 5, .duration_s = 100}, NULL, &plan);
    assert_int_equal(plan.phase_count, 3);
    assert_int_equal(plan.phases[0].groups[0].role, LOAD_AGENTS);
    assert_int_equal(plan.phases[0].groups[0].concurrency, 2);
    assert_int_equal(plan.phases[1].groups[0].role, LOAD_DOCUMENTS);
    assert_int_equal(plan.phases[1].groups[0].concurrency, 5);
    assert_true(plan.phases[2].together && plan.phases[2].group_count == 2);
    uint64_t total = 0;
    for (int i = 0; i < 3; i++)
        total += plan.phases[i].duration_us;
    assert_int_equal(total, 100000000);
    workload_plan(&(plan_options){.kind = BENCH_DOCUMENTS, .rate = 2, .requests = 7}, NULL, &plan);
    assert_int_equal(plan.phases[0].groups[0].concurrency, 0);
    assert_int_equal(plan.phases[0].groups[0].request_limit, 7);
    assert_int_equal(plan.phases[0].duration_us, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_sessions),
        cmocka_unit_test(no_two_documents_share_a_window_of_32_words),
        cmocka_unit_test(agents_share_the_system_prompt_and_grow),
        cmocka_unit_test(scale_shrinks_prompts_and_not_answers),
        cmocka_unit_test(arrivals_are_poisson),
        cmocka_unit_test(a_plan_of_two_tenants_has_each_alone_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
