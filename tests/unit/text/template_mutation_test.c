/* 10,000 mutated templates: each renders or fails with words; none crashes, leaks, or runs on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "text/chat_json.h"
#include "text/chat_template.h"
#include "unit/text/template_mutator.h"

enum { MUTATION_COUNT = 10000, SEED_MAX = 1000 };

typedef struct {
    json_t *records[SEED_MAX]; /* own the texts */
    span sources[SEED_MAX];
    size_t count;
    json_t *variables;
} seed_set;

static void load_seeds(seed_set *seeds)
{
    FILE *file = fopen("tests/unit/text/chat_template_cases.jsonl", "rb");
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    json_error_t where;
    assert_non_null(file);
    while ((size = getline(&line, &capacity, file)) > 0 && seeds->count < SEED_MAX) {
        json_t *record = chat_json_load(span_of(line, (size_t)size), 0, &where);
        const json_t *source = json_object_get(record, "template");
        if (!source) {
            seeds->variables = json_incref(json_object_get(record, "variables"));
            json_decref(record);
            continue;
        }
        seeds->sources[seeds->count] = span_of(json_string_value(source), json_string_length(source));
        seeds->records[seeds->count++] = record;
    }
    free(line);
    fclose(file);
}

/* True when it rendered. */
static bool try_template(span source, json_t *variables, render_result *out)
{
    chat_template *t;
    error err = {{0}};
    if (chat_template_compile(&t, source, &err)) {
        assert_true(err.text[0]);
        return false;
    }
    status st = chat_template_render(t, variables, 1767323045, out, &err);
    chat_template_destroy(t);
    if (st) {
        assert_true(err.text[0] || out->raised);
        return false;
    }
    size_t at = 0;
    for (size_t i = 0; i < out->range_count; i++) {
        assert_int_equal(out->ranges[i].offset, at);
        at += out->ranges[i].size;
    }
    assert_int_equal(at, out->text.size);
    return true;
}

static void mutated_templates_render_or_fail_with_words(void **state)
{
    (void)state;
    static seed_set seeds;
    rng random = {20260102};
    load_seeds(&seeds);
    assert_true(seeds.count > 250);
    buf text[2] = {{0}, {0}};
    render_result out = {0};
    size_t rendered = 0;
    for (int i = 0; i < MUTATION_COUNT; i++) {
        span source = seeds.sources[mutator_below(&random, seeds.count)];
        for (size_t k = 1 + (mutator_below(&random, 3) == 0), turn = 0; k > 0; k--, turn ^= 1) {
            buf_clear(&text[turn]);
            mutate_once(&text[turn], &random, source, seeds.sources[mutator_below(&random, seeds.count)]);
            source = buf_span(&text[turn]);
        }
        rendered += try_template(source, seeds.variables, &out);
    }
    print_message("%zu of %d mutated templates still rendered\n", rendered, MUTATION_COUNT);
    assert_true(rendered > MUTATION_COUNT / 10); /* else the mutations only meet the parser */
    render_result_free(&out);
    buf_free(&text[0]);
    buf_free(&text[1]);
    for (size_t i = 0; i < seeds.count; i++)
        json_decref(seeds.records[i]);
    json_decref(seeds.variables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mutated_templates_render_or_fail_with_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
