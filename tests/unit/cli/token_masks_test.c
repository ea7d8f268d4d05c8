/* Masks of the vocabularies of real models equal what each token's bytes say; and what they cost. Models that are not
 * in the cache folder are passed over. */
#include "unit/text/grammar_fixture.h"

#include <time.h>

#include "base/clock.h"
#include "cli/gguf_vocab.h"

static tokenizer *open_vocabulary(const char *name)
{
    char path[512];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    error err = {""};
    tokenizer *t = NULL;
    snprintf(path, sizeof path, "%s%s/headway/models/%s",
             cache  ? cache
             : home ? home
                    : "",
             cache ? "" : "/.cache", name);
    FILE *there = fopen(path, "rb");
    if (!there)
        return NULL;
    fclose(there);
    if (tokenizer_from_path(&t, path, &err))
        fail_msg("%s: %s", path, err.text);
    return t;
}

/* ---- what masks cost on answers as they are ---- */

static const struct {
    const char *schema, *answer;
} typical[] = {
    {"{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\"},\"email\":{"
     "\"type\":"
     "\"string\"},\"address\":{\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},\"city\":{\"type\":"
     "\"string\"},\"zip\":{\"type\":\"string\"}},\"required\":[\"street\",\"city\"]}},\"required\":[\"name\",\"age\"],"
     "\"additionalProperties\":false}",
     "{\"name\": \"Ada Lovelace\", \"age\": 36, \"email\": \"ada@example.org\", \"address\": {\"street\": \"12 St "
     "James "
     "Square\", \"city\": \"London\", \"zip\": \"SW1Y 4JH\"}}"},
    {"{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\",\"maxLength\":"
     "80},"
     "\"kind\":{\"enum\":[\"bug\",\"feature\",\"question\"]},\"priority\":{\"type\":\"integer\",\"minimum\":1,"
     "\"maximum\":5},\"labels\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},\"required\":[\"title\",\"kind\","
     "\"priority\"]}}",
     "[\n  {\n    \"title\": \"The server does not start when the port is taken\",\n    \"kind\": \"bug\",\n    "
     "\"priority\": 2,\n    \"labels\": [\"network\", \"startup\"]\n  },\n  {\n    \"title\": \"How do I choose "
     "another "
     "model?\",\n    \"kind\": \"question\",\n    \"priority\": 4\n  }\n]"},
    {"{\"$ref\":\"#/$defs/"
     "tree\",\"$defs\":{\"tree\":{\"type\":\"object\",\"properties\":{\"value\":{\"type\":\"number\"},"
     "\"children\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
     "tree\"}}},\"required\":[\"value\",\"children\"]}}}",
     "{\"value\": 1.5, \"children\": [{\"value\": 2, \"children\": []}, {\"value\": -3.25e2, \"children\": "
     "[{\"value\": 4, "
     "\"children\": []}]}]}"},
    {"true", "{\"city\": \"Paris\", \"tags\": [\"capital\", \"river\"], \"population\": 2102650, \"twin\": {\"city\": "
             "\"Rome\", \"since\": 1956}, \"visited\": true}"},
};

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Accepting a token and waiting for the mask behind it, for each token of the answers; `round` 0: nothing is known. */
static void measure_answers(const char *name, token_masks *m, const tokenizer *t, grammar *const *grammars, int round)
{
    uint64_t times[2000], total = 0;
    size_t count = 0;
    mask_counts before = token_masks_counts(m);
    for (size_t i = 0; i < sizeof typical / sizeof *typical; i++) {
        token_list ids = {0};
        token_constraint *c;
        assert_int_equal(tokenizer_encode(t, span_from(typical[i].answer), 0, &ids, NULL), OK);
        assert_int_equal(grammar_constraint(&c, grammars[i], m, NULL), OK);
        wait_ready(c);
        for (size_t k = 0; k < ids.count && count < 2000; k++) {
            uint64_t start = now_ns();
            if (c->ops->accept(c, ids.ids[k]) == CONSTRAINT_FAILED)
                fail_msg("answer %zu stops at token %zu", i, k);
            wait_ready(c);
            total += times[count++] = now_ns() - start;
        }
        c->ops->destroy(c);
        token_list_free(&ids);
    }
    qsort(times, count, sizeof *times, by_size);
    mask_counts c = token_masks_counts(m);
    print_message("%s, %s: %zu tokens, median %.1f us, mean %.1f, p90 %.1f, most %.1f; %u masks made, %.0f us each\n",
                  name, round ? "known masks" : "nothing known", count, (double)times[count / 2] / 1e3,
                  (double)total / (double)count / 1e3, (double)times[count * 9 / 10] / 1e3,
                  (double)times[count - 1] / 1e3, (unsigned)(c.made - before.made),
                  c.made > before.made ? (double)(c.made_us - before.made_us) / (double)(c.made - before.made) : 0);
}

static void measure_model(const char *name, token_masks *m, const tokenizer *t)
{
    enum { COUNT = sizeof typical / sizeof *typical };
    for (int again = 0; again < 2; again++) { /* with other grammars of the same schemas: strings are known */
        grammar *grammars[COUNT];
        for (int i = 0; i < COUNT; i++)
            grammars[i] = make_grammar(KIND_SCHEMA, typical[i].schema);
        for (int round = 0; round < 2; round++)
            measure_answers(name, m, t, grammars, round);
        for (int i = 0; i < COUNT; i++)
            grammar_release(grammars[i]);
    }
}

static void check_model(const char *name)
{
    tokenizer *t = open_vocabulary(name);
    if (!t) {
        print_message("%s is not there: passed over\n", name);
        return;
    }
    token_masks *m;
    error err = {""};
    size_t stops;
    const token_id *eog = tokenizer_eog(t, &stops);
    uint64_t start_us = clock_now_us(), taken = 0;
    assert_int_equal(token_masks_create(&m, t, tokenizer_vocab_size(t), eog, (uint32_t)stops, &err), OK);
    print_message("%s: %u tokens, %u nodes, prepared in %.1f ms\n", name, m->trie.vocab, m->trie.node_count,
                  (double)(clock_now_us() - start_us) / 1e3);
    measure_model(name, m, t);
    for (int i = 0; i < GRAMMAR_CASES; i++) {
        grammar *g = make_grammar(grammar_cases[i].kind, grammar_cases[i].text);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            buf text = {0};
            constraint_state end;
            taken += walk_checked(m, g, seed * 31 + (uint64_t)i, 40, 5, &text, &end);
            assert_int_not_equal(end, CONSTRAINT_FAILED);
            if (end == CONSTRAINT_OVER)
                assert_true(grammar_accepts(g, buf_span(&text)));
            buf_free(&text);
        }
        grammar_release(g);
    }
    mask_counts c = token_masks_counts(m);
    print_message("%s: %u tokens of random walks, %u masks made, %.0f us each, slowest %.1f ms\n", name,
                  (unsigned)taken, (unsigned)c.made, (double)c.made_us / (double)(c.made ? c.made : 1),
                  (double)c.slowest_us / 1e3);
    token_masks_destroy(m);
    tokenizer_destroy(t);
}

static void test_smollm2(void **state)
{
    (void)state;
    check_model("SmolLM2-135M-Instruct.Q4_1.gguf");
}

static void test_qwen2(void **state)
{
    (void)state;
    check_model("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf");
}

static void test_gemma3(void **state)
{
    (void)state;
    check_model("gemma-3-270m-q4_k_m.gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_qwen2),
        cmocka_unit_test(test_gemma3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
