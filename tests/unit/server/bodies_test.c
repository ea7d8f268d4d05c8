/* tests/unit/server/bodies_test.c: which bodies are taken, which are refused and what the refusal names; then 10,000
 * wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "unit/server/bodies.h"

static bodies world;

static bodies_result chat_with(const char *fields)
{
    char body[4096];
    int size = snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]%s%s}",
                        *fields ? "," : "", fields);
    return bodies_run(&world, openai_chat, body, (size_t)size);
}

static bodies_result complete(const char *body)
{
    return bodies_run(&world, openai_completions, body, strlen(body));
}

static void takes_what_clients_send(void **state)
{
    (void)state;
    static const char *const fields[] = {
        "",
        "\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true}",
        "\"temperature\":0.5,\"top_p\":0.9,\"n\":2,\"max_tokens\":10,\"stop\":[\"a\",\"b\"],\"seed\":1,\"user\":\"u\"",
        "\"max_completion_tokens\":7,\"logprobs\":true,\"top_logprobs\":20,\"logit_bias\":{\"5\":-100}",
        "\"logit_bias\":[[5,false],[\"ab\",1.5]],\"top_k\":-1,\"min_p\":0.1,\"repeat_penalty\":1.1",
        "\"temperature\":null,\"stop\":null,\"tools\":null,\"response_format\":{\"type\":\"text\"},\"modalities\":["
        "\"text\"]",
        "\"echo\":false,\"best_of\":1,\"grammar\":\"\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"
        "],\"tool_choice\":\"auto\"",
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        bodies_result r = chat_with(fields[i]);
        if (r.status || r.prompts != 1)
            fail_msg("%s: %d %s", fields[i], r.status, r.text);
    }
}

static void refuses_what_would_change_the_answer_by_name(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\"response_format\":{\"type\":\"json_object\"}", "\"param\":\"response_format\""},
        {"\"grammar\":\"root ::= x\"", "\"param\":\"grammar\""},
        {"\"tool_choice\":\"required\"", "\"param\":\"tool_choice\""},
        {"\"tools\":{}", "\"param\":\"tools\""},
        {"\"tools\":[{\"type\":\"web_search\"}]", "\"param\":\"tools[0]\""},
        {"\"tools\":[{\"function\":{\"name\":\"\"}}]", "\"param\":\"tools[0]\""},
        {"\"tools\":[{\"function\":{\"name\":\"f\",\"parameters\":7}}]", "\"param\":\"tools[0]\""},
        {"\"tools\":[{\"function\":{\"name\":\"f\"}}],\"tool_choice\":{\"function\":{\"name\":\"g\"}}",
         "\"param\":\"tool_choice\""},
        {"\"tools\":[{\"function\":{\"name\":\"f\"}}],\"tool_choice\":7", "\"param\":\"tool_choice\""},
        {"\"tools\":[{\"function\":{\"name\":\"f\"}}],\"parallel_tool_calls\":1", "\"param\":\"parallel_tool_calls\""},
        {"\"reasoning_effort\":[]", "\"param\":\"reasoning_effort\""},
        {"\"reasoning\":7", "\"param\":\"reasoning\""},
        {"\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":\"x\"}", "\"param\":\"thinking.budget_tokens\""},
        {"\"thinking_budget\":-2", "\"param\":\"thinking_budget\""},
        {"\"best_of\":3", "\"param\":\"best_of\""},
        {"\"echo\":true", "\"param\":\"echo\""},
        {"\"modalities\":[\"audio\"]", "\"param\":\"modalities\""},
        {"\"temperature\":-1", "\"param\":\"temperature\""},
        {"\"temperature\":\"1\"", "\"param\":\"temperature\""},
        {"\"top_logprobs\":3", "\"param\":\"top_logprobs\""},
        {"\"max_tokens\":0", "\"param\":\"max_tokens\""},
        {"\"stop\":[\"\"]", "\"param\":\"stop\""},
        {"\"stop\":[1]", "\"param\":\"stop\""},
        {"\"logit_bias\":{\"999\":1}", "\"param\":\"logit_bias\""},
        {"\"n\":1000", "\"param\":\"n\""},
        {"\"seed\":18446744073709551615", "not valid JSON"},
        {"\"n\":1,\"n\":2", "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bodies_result r = chat_with(cases[i][0]);
        if (r.status != 400 || !strstr(r.text, cases[i][1]))
            fail_msg("%s: %d %s", cases[i][0], r.status, r.text);
    }
}

static void names_unknown_fields_in_a_warning(void **state)
{
    (void)state;
    bodies_result r = chat_with("\"foo\":1,\"b\\nr\":2,\"user\":\"x\"");
    assert_int_equal(r.status, 0);
    assert_string_equal(r.text, "ignored: foo, b?r|");
}

static void refuses_other_content_than_text(void **state)
{
    (void)state;
    static const char body[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}]}]}";
    bodies_result r = bodies_run(&world, openai_chat, body, sizeof body - 1);
    assert_int_equal(r.status, 400);
    assert_non_null(strstr(r.text, "messages[0]"));
    assert_non_null(strstr(r.text, "image_url"));
}

static void joins_text_parts(void **state)
{
    (void)state;
    static const char parts[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"h\"},{\"type\":\"text\","
        "\"text\":\"i\"}]}]}";
    bodies_result r = bodies_run(&world, openai_chat, parts, sizeof parts - 1);
    assert_int_equal(r.prompt_tokens, chat_with("").prompt_tokens);
}

static bodies_result begun_with(const char *message, const char *fields)
{
    char body[1024];
    int size = snprintf(body, sizeof body,
                        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},%s],\"continue_final_message\":"
                        "true%s}",
                        message, fields);
    return bodies_run(&world, openai_chat, body, (size_t)size);
}

#define BEGUN "{\"role\":\"assistant\",\"content\":\"Well\"}"

/* Four bytes, four tokens behind the prompt of the conversation without it; control tokens in them stay text. */
static void goes_on_from_an_answer_that_was_begun(void **state)
{
    (void)state;
    size_t before = chat_with("").prompt_tokens;
    bodies_result r = begun_with(BEGUN, ",\"add_generation_prompt\":false");
    assert_int_equal(r.status, 0);
    assert_int_equal(r.prompt_tokens, before + 4);
    r = begun_with("{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"<|im_\"},{\"type\":\"text\","
                   "\"text\":\"end|>\"}]}",
                   "");
    assert_int_equal(r.prompt_tokens, before + 10);
    assert_int_equal(begun_with("{\"role\":\"assistant\",\"content\":\"\"}", "").prompt_tokens, before);
    static const char *const refused[][2] = {
        {"{\"role\":\"user\",\"content\":\"x\"}", ""},
        {"{\"role\":\"assistant\",\"content\":null}", ""},
        {"{\"role\":\"assistant\",\"content\":[{\"type\":\"image\"}]}", ""},
        {"{\"role\":\"assistant\",\"content\":\"x\",\"reasoning_content\":\"t\"}", ""},
        {"{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}", ""},
        {BEGUN, ",\"response_format\":{\"type\":\"json_object\"}"},
        {BEGUN, ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":\"required\""},
        {"5", ""},
        {BEGUN, ",\"n\":\"x\""},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        r = begun_with(refused[i][0], refused[i][1]);
        if (r.status != 400)
            fail_msg("%s%s: %d %s", refused[i][0], refused[i][1], r.status, r.text);
    }
    static const char alone[] = "{\"messages\":[" BEGUN "],\"continue_final_message\":true}";
    assert_int_equal(bodies_run(&world, openai_chat, alone, sizeof alone - 1).status, 400);
}

static void control_tokens_in_messages_stay_text(void **state)
{
    (void)state;
    static const char spelled[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi<|im_end|>\"}]}";
    bodies_result r = bodies_run(&world, openai_chat, spelled, sizeof spelled - 1);
    assert_int_equal(r.prompt_tokens, chat_with("").prompt_tokens + 10); /* ten bytes, not one token */
    assert_int_equal(complete("{\"prompt\":\"hi<|im_end|>\"}").prompt_tokens, 3);
}

static void takes_every_form_of_prompt(void **state)
{
    (void)state;
    assert_int_equal(complete("{\"prompt\":\"abc\"}").prompt_tokens, 3);
    assert_int_equal(complete("{\"prompt\":[\"abc\",\"d\"]}").prompts, 2);
    assert_int_equal(complete("{\"prompt\":[1,2,258]}").prompt_tokens, 3);
    assert_int_equal(complete("{\"prompt\":[[1,2],[3]]}").prompts, 2);
    assert_int_equal(complete("{\"prompt\":[1,259]}").status, 400);
    assert_int_equal(complete("{\"prompt\":[]}").status, 400);
    assert_int_equal(complete("{\"prompt\":[[]]}").status, 400);
    assert_int_equal(complete("{}").status, 400);
}

static void says_both_numbers_when_the_prompt_is_too_long(void **state)
{
    (void)state;
    char body[2000];
    int size = snprintf(body, sizeof body, "{\"prompt\":\"%0600d\"}", 0);
    bodies_result r = bodies_run(&world, openai_completions, body, (size_t)size);
    assert_int_equal(r.status, 400);
    assert_non_null(strstr(r.text, "\"type\":\"exceed_context_size_error\""));
    assert_non_null(strstr(r.text, "\"n_prompt_tokens\":600,\"n_ctx\":512"));
}

/* ---- wrong bodies ---- */

static const char *const keys[] = {
    "messages",
    "prompt",
    "model",
    "stream",
    "stream_options",
    "n",
    "max_tokens",
    "stop",
    "seed",
    "top_k",
    "top_p",
    "temperature",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "tools",
    "tool_choice",
    "service_tier",
    "content",
    "tokens",
    "response_format",
    "echo",
    "stop_token_ids",
    "documents",
    "n_predict",
    "best_of",
    "modalities",
    "metadata",
    "with_pieces",
    "chat_template_kwargs",
    "add_generation_prompt",
    "reasoning_effort",
    "ignore_eos",
    "unheard_of",
};
static const char *const values[] = {
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2.5",
    "1e308",
    "9223372036854775807",
    "\"\"",
    "\"a\"",
    "\"\\u0000\"",
    "\"\\ud83d\\ude00\"",
    "[]",
    "{}",
    "[1,2]",
    "[[1],[2]]",
    "[\"a\",\"b\"]",
    "[[1,false],[\"a\",2]]",
    "{\"1\":5,\"x\":1}",
    "{\"type\":\"text\"}",
    "[null]",
    "[{\"role\":\"user\",\"content\":\"hi\"}]",
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}]",
    "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{"
    "\\\"a\\\":1}\"}}]}]",
    "[{\"role\":1}]",
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\"},3]}]",
    "{\"include_usage\":true}",
    "\"auto\"",
    "[258,256]",
};

static size_t random_body(rng *r, char *out, size_t size)
{
    buf b = {0};
    const char *sep = "{";
    uint64_t skip = rng_below(r, sizeof keys / sizeof *keys);
    for (uint64_t i = 0, count = 1 + rng_below(r, 8); i < count; i++, sep = ",") {
        size_t key = (size_t)((skip + i * 5) % (sizeof keys / sizeof *keys));
        buf_printf(&b, "%s\"%s\":%s", sep, keys[key], values[rng_below(r, sizeof values / sizeof *values)]);
    }
    buf_byte(&b, '}');
    size_t used = b.size < size ? b.size : size;
    memcpy(out, b.data, used);
    buf_free(&b);
    if (rng_below(r, 3) == 0) /* then not even JSON */
        for (uint64_t edits = 1 + rng_below(r, 3); edits-- > 0;)
            out[rng_below(r, used)] = (char)rng_next(r);
    return used;
}

static void wrong_bodies_get_an_answer(void **state)
{
    (void)state;
    enum { BODIES = 10000 };
    void (*const handlers[])(exchange *) = {openai_chat, openai_completions, api_tokenize, api_detokenize};
    rng r = {5};
    unsigned taken = 0;
    for (int i = 0; i < BODIES; i++) {
        char body[2048];
        size_t size = random_body(&r, body, sizeof body);
        for (size_t k = 0; k < 4; k++)
            taken += bodies_run(&world, handlers[k], body, size).status < 400;
    }
    assert_in_range(taken, 50, BODIES); /* the bodies reach both sides */
}

static int open_world(void **state)
{
    (void)state;
    bodies_open(&world);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    bodies_close(&world);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_clients_send),
        cmocka_unit_test(refuses_what_would_change_the_answer_by_name),
        cmocka_unit_test(names_unknown_fields_in_a_warning),
        cmocka_unit_test(refuses_other_content_than_text),
        cmocka_unit_test(joins_text_parts),
        cmocka_unit_test(goes_on_from_an_answer_that_was_begun),
        cmocka_unit_test(control_tokens_in_messages_stay_text),
        cmocka_unit_test(takes_every_form_of_prompt),
        cmocka_unit_test(says_both_numbers_when_the_prompt_is_too_long),
        cmocka_unit_test(wrong_bodies_get_an_answer),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
