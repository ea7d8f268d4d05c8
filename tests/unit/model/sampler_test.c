/* tests/unit/model/sampler_test.c: draws, filters, penalties and log-probabilities against what their definitions say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "model/sampler.h"

enum { VOCAB = 50 };
static const sampling_params greedy = {.top_p = 1, .typical_p = 1, .repetition_penalty = 1};

static void fill(float *logits)
{
    for (int i = 0; i < VOCAB; i++)
        logits[i] = 3.0f * sinf((float)(i * i) * 0.37f);
}

/* Draws once from a fresh sampler that has generated `before` tokens. */
static sampled_token draw_once(const sampling_params *params, const int32_t *tokens, uint32_t prompt, uint32_t before,
                               const float *logits)
{
    sampler *s;
    sampled_token out = {0};
    float copy[VOCAB];
    memcpy(copy, logits, sizeof copy);
    assert_int_equal(sampler_create(&s, params, VOCAB, tokens, prompt, before), OK);
    sampler_draw(s, copy, &out);
    sampler_destroy(s);
    return out;
}

static int best_of(const float *logits)
{
    int best = 0;
    for (int i = 1; i < VOCAB; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void greedy_is_exactly_argmax_with_the_lowest_id_on_ties(void **state)
{
    (void)state;
    float logits[VOCAB];
    fill(logits);
    assert_int_equal(draw_once(&greedy, NULL, 0, 0, logits).token, best_of(logits));
    for (int i = 0; i < VOCAB; i++)
        logits[i] = i == 7 || i == 31 ? 2.0f : 1.0f;
    assert_int_equal(draw_once(&greedy, NULL, 0, 0, logits).token, 7);
}

static const uint32_t *only_some(token_constraint *self)
{
    (void)self;
    static const uint32_t bits[(VOCAB + 31) / 32] = {1u << 3 | 1u << 9, 1u << (40 - 32)};
    return bits;
}

static void what_a_constraint_bars_is_never_drawn(void **state)
{
    (void)state;
    static const token_constraint_ops ops = {.mask = only_some};
    token_constraint constraint = {&ops};
    sampling_params drawn = greedy;
    float logits[VOCAB];
    fill(logits);
    int best = logits[9] > logits[3] ? 9 : 3;
    best = logits[40] > logits[best] ? 40 : best;
    assert_true(best_of(logits) != best);
    drawn.constraint = &constraint;
    drawn.logprobs = 2;
    sampled_token free_one = draw_once(
        &(sampling_params){.top_p = 1, .typical_p = 1, .repetition_penalty = 1, .logprobs = 2}, NULL, 0, 0, logits);
    sampled_token one = draw_once(&drawn, NULL, 0, 0, logits);
    assert_int_equal(one.token, best);
    assert_int_equal(one.top_tokens[0], best_of(logits)); /* log-probabilities stay those of the free distribution */
    assert_true(fabsf(one.top_logprobs[0] - free_one.top_logprobs[0]) < 1e-6f && one.logprob < one.top_logprobs[0]);
    const logit_bias wanted = {best_of(logits), 100};
    drawn.biases = &wanted;
    drawn.bias_count = 1;
    drawn.temperature = 3;
    for (uint64_t seed = 0; seed < 200; seed++) {
        drawn.seed = seed;
        drawn.top_k = seed % 3 ? 5 : 0;
        int32_t token = draw_once(&drawn, NULL, 0, 0, logits).token;
        assert_true(token == 3 || token == 9 || token == 40);
    }
}

static void greedy_finds_the_first_best_anywhere_in_a_large_vocabulary(void **state)
{
    (void)state;
    enum { LARGE = 5003 };
    static const int32_t places[] = {0, 1, 2047, 2048, 2049, 4095, 4096, LARGE - 1};
    static float logits[LARGE];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        sampler *s;
        sampled_token out = {0};
        for (int k = 0; k < LARGE; k++)
            logits[k] = k % 3 ? -INFINITY : k >= places[i] ? 2.0f : 1.0f; /* ties in every later block */
        logits[places[i]] = 2.0f;
        logits[LARGE / 2] = places[i] == LARGE / 2 ? 2.0f : NAN;
        assert_int_equal(sampler_create(&s, &greedy, LARGE, NULL, 0, 0), OK);
        sampler_draw(s, logits, &out);
        assert_int_equal(out.token, places[i]);
        sampler_destroy(s);
    }
}

static void a_draw_depends_on_seed_and_index_only(void **state)
{
    (void)state;
    sampling_params p = greedy;
    p.temperature = 1.3f;
    p.seed = 1234;
    float logits[VOCAB], copy[VOCAB];
    fill(logits);
    sampler *s;
    int32_t none[64] = {0}, sequence[20];
    assert_int_equal(sampler_create(&s, &p, VOCAB, none, 1, 0), OK);
    int distinct = 0;
    for (uint32_t n = 0; n < 20; n++) {
        sampled_token out;
        memcpy(copy, logits, sizeof copy);
        sampler_draw(s, copy, &out);
        sequence[n] = out.token;
        distinct += n && sequence[n] != sequence[0];
    }
    sampler_destroy(s);
    for (uint32_t n = 0; n < 20; n++) /* as after a preemption */
        assert_int_equal(draw_once(&p, none, 3, n, logits).token, sequence[n]);
    assert_true(distinct > 5);
}

/* Chi-square of draws over many seeds against the softmax. */
static void draws_follow_the_distribution(void **state)
{
    (void)state;
    sampling_params p = greedy;
    p.temperature = 0.8f;
    float logits[VOCAB];
    double want[VOCAB], total = 0, chi = 0;
    int seen[VOCAB] = {0}, draws = 20000, cells = 0;
    fill(logits);
    for (int i = 0; i < VOCAB; i++)
        total += want[i] = exp((double)logits[i] / 0.8);
    for (int n = 0; n < draws; n++) {
        p.seed = (uint64_t)n;
        seen[draw_once(&p, NULL, 0, 0, logits).token]++;
    }
    for (int i = 0; i < VOCAB; i++) {
        double expected = want[i] / total * draws;
        if (expected < 5)
            continue;
        chi += (seen[i] - expected) * (seen[i] - expected) / expected;
        cells++;
    }
    assert_true(chi < cells + 5 * sqrt(2.0 * cells));
}

static void filters_keep_what_they_name(void **state)
{
    (void)state;
    float logits[VOCAB];
    for (int i = 0; i < VOCAB; i++)
        logits[i] = -5;
    logits[3] = logf(0.5f);
    logits[9] = logf(0.3f);
    logits[20] = logf(0.15f);
    logits[41] = logf(0.05f);
    for (int i = 0; i < VOCAB; i++)
        if (i != 3 && i != 9 && i != 20 && i != 41)
            logits[i] = -40;
    const struct {
        sampling_params p;
        int allowed[4], count;
    } cases[] = {
        {{.temperature = 1, .top_k = 2, .top_p = 1, .typical_p = 1, .repetition_penalty = 1}, {3, 9}, 2},
        {{.temperature = 1, .top_p = 0.79f, .typical_p = 1, .repetition_penalty = 1}, {3, 9}, 2},
        {{.temperature = 1, .top_p = 1, .min_p = 0.25f, .typical_p = 1, .repetition_penalty = 1}, {3, 9, 20}, 3},
        {{.temperature = 1, .top_p = 1, .typical_p = 0.2f, .repetition_penalty = 1}, {9}, 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bool hit[VOCAB] = {false};
        for (uint64_t seed = 0; seed < 500; seed++) {
            sampling_params p = cases[c].p;
            p.seed = seed;
            hit[draw_once(&p, NULL, 0, 0, logits).token] = true;
        }
        int hits = 0;
        for (int i = 0; i < VOCAB; i++)
            hits += hit[i];
        assert_int_equal(hits, cases[c].count);
        for (int k = 0; k < cases[c].count; k++)
            assert_true(hit[cases[c].allowed[k]]);
    }
}

static void penalties_and_biases_change_the_choice(void **state)
{
    (void)state;
    float logits[VOCAB] = {0};
    int32_t tokens[] = {4, 5}; /* 4 in the prompt, 5 generated */
    logits[4] = 2.0f;
    logits[5] = 1.9f;
    logits[6] = 1.2f;
    sampling_params p = greedy;
    assert_int_equal(draw_once(&p, tokens, 1, 1, logits).token, 4);
    p.repetition_penalty = 2; /* 4 and 5 halve */
    assert_int_equal(draw_once(&p, tokens, 1, 1, logits).token, 6);
    p.repetition_penalty = 1;
    p.presence_penalty = 5; /* generated only */
    assert_int_equal(draw_once(&p, tokens, 1, 1, logits).token, 4);
    logit_bias ban[] = {{4, -INFINITY}, {6, 0.5f}};
    p.biases = ban;
    p.bias_count = 2;
    assert_int_equal(draw_once(&p, tokens, 1, 1, logits).token, 6);
}

static void everything_banned_still_gives_a_token(void **state)
{
    (void)state;
    float logits[VOCAB];
    for (int i = 0; i < VOCAB; i++)
        logits[i] = -INFINITY;
    sampling_params p = greedy;
    p.temperature = 1;
    int32_t token = draw_once(&p, NULL, 0, 0, logits).token;
    assert_true(token >= 0 && token < VOCAB);
    for (int i = 0; i < VOCAB; i++)
        logits[i] = NAN;
    token = draw_once(&p, NULL, 0, 0, logits).token;
    assert_true(token >= 0 && token < VOCAB);
}

static void log_probabilities_are_of_the_raw_distribution(void **state)
{
    (void)state;
    float logits[VOCAB];
    double total = 0;
    fill(logits);
    for (int i = 0; i < VOCAB; i++)
        total += exp((double)logits[i]);
    logit_bias bias[] = {{11, 100}};
    sampling_params p = greedy;
    p.logprobs = 6;
    p.biases = bias;
    p.bias_count = 1;
    sampled_token out = draw_once(&p, NULL, 0, 0, logits);
    assert_int_equal(out.token, 11);
    assert_float_equal(out.logprob, logits[11] - log(total), 1e-5);
    assert_int_equal(out.top_count, 5);
    assert_int_equal(out.top_tokens[0], best_of(logits));
    for (uint32_t i = 0; i < out.top_count; i++) {
        assert_float_equal(out.top_logprobs[i], logits[out.top_tokens[i]] - log(total), 1e-5);
        assert_true(i == 0 || out.top_logprobs[i] <= out.top_logprobs[i - 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_constraint_bars_is_never_drawn),
        cmocka_unit_test(greedy_is_exactly_argmax_with_the_lowest_id_on_ties),
        cmocka_unit_test(greedy_finds_the_first_best_anywhere_in_a_large_vocabulary),
        cmocka_unit_test(a_draw_depends_on_seed_and_index_only),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(filters_keep_what_they_name),
        cmocka_unit_test(penalties_and_biases_change_the_choice),
        cmocka_unit_test(everything_banned_still_gives_a_token),
        cmocka_unit_test(log_probabilities_are_of_the_raw_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
