/* tests/unit/text/output_parser_test.c: every family, cut everywhere: what comes out is what was meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "text/output_parser.h"
#include "unit/slow.h"
#include "unit/text/output_calls.h"

enum { CALLS_MAX = 64 };

typedef struct { /* the pieces, put together */
    buf text, thought, names[CALLS_MAX], arguments[CALLS_MAX];
    uint32_t begun, whole, cut, deltas, last_cut;
} heard;

static void hear(void *context, const output_piece *piece)
{
    heard *h = context;
    assert_true(piece->call < CALLS_MAX);
    switch (piece->kind) {
    case PIECE_TEXT:
        buf_append(&h->text, piece->text.data, piece->text.size);
        break;
    case PIECE_THOUGHT:
        buf_append(&h->thought, piece->text.data, piece->text.size);
        break;
    case PIECE_CALL:
        assert_int_equal(piece->call, h->begun);
        assert_int_equal(h->begun, h->whole + h->cut);
        buf_append(&h->names[h->begun++], piece->text.data, piece->text.size);
        break;
    case PIECE_ARGUMENTS:
        assert_int_equal(piece->call + 1, h->begun);
        h->deltas++;
        buf_append(&h->arguments[piece->call], piece->text.data, piece->text.size);
        break;
    default:
        assert_int_equal(piece->call + 1, h->begun);
        h->whole += piece->kind == PIECE_CALL_END;
        h->cut += piece->kind == PIECE_CALL_CUT;
        h->last_cut = piece->kind == PIECE_CALL_CUT ? piece->call : h->last_cut;
    }
}

static void heard_free(heard *h)
{
    buf_free(&h->text);
    buf_free(&h->thought);
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        buf_free(&h->names[i]);
        buf_free(&h->arguments[i]);
    }
}

static bool same(const heard *a, const heard *b)
{
    bool equal = span_equal(buf_span(&a->text), buf_span(&b->text)) &&
                 span_equal(buf_span(&a->thought), buf_span(&b->thought)) && a->begun == b->begun &&
                 a->whole == b->whole && a->cut == b->cut;
    for (uint32_t i = 0; i < a->begun && equal; i++)
        equal = span_equal(buf_span(&a->names[i]), buf_span(&b->names[i])) &&
                span_equal(buf_span(&a->arguments[i]), buf_span(&b->arguments[i]));
    return equal;
}

/* Fed in pieces of `step` bytes, the first of `first`. */
static heard listen(const output_parser_config *config, span text, size_t first, size_t step)
{
    output_parser *p;
    heard h = {0};
    assert_int_equal(output_parser_create(&p, config, NULL), OK);
    for (size_t at = 0, size = first; at < text.size; at += size, size = step) {
        size = size < text.size - at ? size : text.size - at;
        size += size == 0;
        output_parser_feed(p, span_of(text.data + at, size), hear, &h);
    }
    output_parser_end(p, hear, &h);
    assert_int_equal(h.begun, h.whole + h.cut);
    output_parser_destroy(p);
    return h;
}

static bool valid_object(span text)
{
    json_t *json = json_loadb(text.data ? text.data : "", text.size, JSON_ALLOW_NUL, NULL);
    bool object = json_is_object(json);
    json_decref(json);
    return object;
}

/* Whole, in two at every byte, and byte by byte: all the same, which is returned. */
static heard listen_all_ways(const output_parser_config *config, span text, size_t stride)
{
    heard whole = listen(config, text, text.size, text.size);
    for (size_t cut = 0; cut <= text.size; cut += stride) {
        heard two = cut ? listen(config, text, cut, text.size) : listen(config, text, 1, 1);
        if (!same(&whole, &two))
            fail_msg("%s: other pieces when cut at %zu: %.*s", config->family ? config->family : "", cut,
                     (int)text.size, text.data);
        heard_free(&two);
    }
    return whole;
}

static json_t *tools_open(void)
{
    json_t *tools = json_loads(calls_tools, 0, NULL);
    assert_non_null(tools);
    return tools;
}

/* ---- generated calls ---- */

enum { GENERATED = 200 };

typedef struct {
    buf text, said;
    const char *names[3];
    json_t *arguments[3];
    uint32_t count;
} answer;

static answer answer_make(rng *r, const calls_syntax *syntax)
{
    answer a = {.count = 1 + (uint32_t)rng_below(r, 3)};
    if (syntax->text_before && rng_below(r, 2)) {
        buf_text(&a.said, "I look < it up, <tool");
        buf_append(&a.text, a.said.data, a.said.size);
        buf_text(&a.text, rng_below(r, 2) ? "\n\n" : "");
    }
    buf_text(&a.text, syntax->before);
    for (uint32_t i = 0; i < a.count; i++) {
        bool code = rng_below(r, 4) == 0;
        a.names[i] = code ? "run.code-2" : "get_weather";
        a.arguments[i] = code ? json_object() : calls_arguments(r);
        if (code)
            json_object_set_new(a.arguments[i], "code", calls_json_string(r));
        if (i)
            buf_text(&a.text, syntax->between);
        syntax->write(r, &a.text, a.names[i], a.arguments[i]);
    }
    buf_text(&a.text, syntax->after);
    if (syntax->text_before && rng_below(r, 3) == 0) {
        buf_text(&a.text, "\nDone {so}.");
        buf_text(&a.said, "\nDone {so}.");
    }
    return a;
}

static void answer_free(answer *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        json_decref(a->arguments[i]);
    buf_free(&a->text);
    buf_free(&a->said);
}

static void check_answer(const calls_syntax *syntax, const answer *a, const heard *h)
{
    if (h->whole != a->count || h->cut)
        fail_msg("%s: %u calls of %u, %u cut: %s", syntax->family, h->whole, a->count, h->cut, a->text.data);
    for (uint32_t i = 0; i < a->count; i++) {
        json_t *got = json_loadb(h->arguments[i].data, h->arguments[i].size, JSON_ALLOW_NUL, NULL);
        if (!json_equal(got, a->arguments[i]) || !span_is(buf_span(&h->names[i]), a->names[i]))
            fail_msg("%s: call %u is %s%s, of %s", syntax->family, i, h->names[i].data, h->arguments[i].data,
                     a->text.data);
        json_decref(got);
    }
    if (!span_equal(buf_span(&h->text), buf_span(&a->said)))
        fail_msg("%s: said \"%s\", not \"%s\": %s", syntax->family, h->text.data, a->said.data, a->text.data);
}

static void calls_come_out_as_they_were_meant(void **state)
{
    json_t *tools = tools_open();
    rng r = {11};
    (void)state;
    for (size_t k = 0; k < CALLS_SYNTAXES; k++) {
        const calls_syntax *syntax = &calls_syntaxes[k];
        output_parser_config config = {.family = syntax->family, .tools = tools};
        for (uint32_t i = 0; i < slowly(GENERATED, GENERATED / 4); i++) {
            answer a = answer_make(&r, syntax);
            heard h = listen_all_ways(&config, buf_span(&a.text), a.text.size < 1500 ? 1 : 37);
            check_answer(syntax, &a, &h);
            heard_free(&h);
            answer_free(&a);
        }
    }
    json_decref(tools);
}

/* A prefix of an answer, and one with a byte changed: all cuts agree, calls that end are whole JSON, and where there is
 * none the text is what came. */
static void broken_calls_are_text_or_cut(void **state)
{
    json_t *tools = tools_open();
    rng r = {12};
    (void)state;
    for (size_t k = 0; k < CALLS_SYNTAXES; k++)
        for (uint32_t i = 0; i < 300; i++) {
            output_parser_config config = {.family = calls_syntaxes[k].family, .tools = tools};
            answer a = answer_make(&r, &calls_syntaxes[k]);
            if (rng_below(&r, 2))
                a.text.size = 1 + rng_below(&r, a.text.size);
            while (a.text.size > 1 && (unsigned char)a.text.data[a.text.size - 1] >= 0x80) /* never half a character */
                a.text.size--;
            for (uint64_t n = rng_below(&r, 3); n > 0; n--) {
                char *byte = &a.text.data[rng_below(&r, a.text.size)];
                *byte = (unsigned char)*byte < 0x80 ? "<>{}[]\"',:=ax/| \n"[rng_below(&r, 17)] : *byte;
            }
            if (i % slowly(1, 4)) {
                answer_free(&a);
                continue;
            }
            heard h = listen_all_ways(&config, buf_span(&a.text), 5);
            for (uint32_t c = 0; c < h.begun && !h.cut; c++)
                if (!valid_object(buf_span(&h.arguments[c])))
                    fail_msg("%s: no JSON: %s of %s", config.family, h.arguments[c].data, a.text.data);
            if (!h.begun && !span_equal(buf_span(&h.text), buf_span(&a.text)))
                fail_msg("%s: text changed: %s of %s", config.family, h.text.data, a.text.data);
            if (h.cut)
                assert_true(h.arguments[h.last_cut].size > OUTPUT_HELD_ARGUMENTS);
            heard_free(&h);
            answer_free(&a);
        }
    json_decref(tools);
}

/* ---- by hand ---- */

typedef struct {
    const char *family, *input, *text, *calls; /* calls: "name{…}name{…}" */
} row;

static void check_rows(const row *rows, size_t count, const char *thoughts)
{
    json_t *tools = tools_open();
    for (size_t i = 0; i < count; i++) {
        output_parser_config config = {.family = rows[i].family, .tools = tools, .thoughts = thoughts};
        heard h = listen_all_ways(&config, span_from(rows[i].input), 1);
        buf calls = {0};
        buf_text(&calls, "");
        for (uint32_t c = 0; c < h.begun; c++) {
            buf_append(&calls, h.names[c].data, h.names[c].size);
            buf_append(&calls, h.arguments[c].data, h.arguments[c].size);
        }
        assert_string_equal(calls.size ? calls.data : "", rows[i].calls);
        assert_string_equal(h.text.size ? h.text.data : "", rows[i].text);
        buf_free(&calls);
        heard_free(&h);
    }
    json_decref(tools);
}

#define CHECK_ROWS(rows, thoughts) check_rows(rows, sizeof rows / sizeof *rows, thoughts)

static void malformed_calls_are_text(void **state)
{
    static const char *const inputs[][2] = {
        {"hermes", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": }}\n</tool_call>"},
        {"hermes", "<tool_call>{\"name\": \"nobody\", \"arguments\": {}}</tool_call>"},
        {"hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"x\"}</tool_call>"},
        {"hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": [1]}</tool_call>"},
        {"hermes", "<tool_call>get_weather</tool_call>"},
        {"hermes", "a <table> is <t \n "},
        {"llama3_json", "{\"city\": \"Paris\"}"},
        {"llama3_json", "{\"name\": \"Anna\", \"age\": 3}"},
        {"llama3_json", "Sure: {\"name\": \"get_weather\", \"parameters\": {}}"},
        {"llama3_json", "<|python_tag|>print(1)"},
        {"pythonic", "[1] is the source"},
        {"pythonic", "[get_weather(city=Paris)]"},
        {"pythonic", "[get_weather(\"Paris\")]"},
        {"mistral", "[TOOL_CALLS]get_weather[ARGS]{\"city\": Paris}"},
        {"mistral", "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\""},
        {"qwen3_coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>"},
        {"qwen3_coder", "<tool_call>\n{\"name\": \"get_weather\"}\n</tool_call>"},
        {"qwen3_coder", "<function=nobody>\n</function>"},
        {"gemma4", "<|tool_call>call:get_weather{city:<|\"|>Paris}<tool_call|>"},
        {"gemma4", "<|tool_call>call:nobody{}<tool_call|>"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        row one = {inputs[i][0], inputs[i][1], inputs[i][1], ""};
        check_rows(&one, 1, NULL);
    }
}

static void what_models_get_wrong_is_understood(void **state)
{
    static const row rows[] = {
        {"hermes", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"a\": \"x\ny\"}}", "",
         "get_weather{\"a\": \"x\\ny\"}"},
        {"hermes", "<tool_call>{\"name\":\"get_weather\",\"arguments\":\"{\\\"a\\\": [1]}\"}</tool_call>", "",
         "get_weather{\"a\": [1]}"},
        {"hermes", "<tool_call>{\"name\":\"get_weather\"}</tool_call>\n", "", "get_weather{}"},
        {"hermes", "<tool_call>{\"name\":\"get_weather\"}\n{\"name\":\"get_weather\"}</tool_call> and", " and",
         "get_weather{}get_weather{}"},
        {"hermes", "x <tool_call> y\n<tool_call>{\"name\":\"get_weather\"}", "x <tool_call> y", "get_weather{}"},
        {"hermes", "```json\n{\"name\": \"get_weather\", \"arguments\": {\"days\": 3}}\n```", "",
         "get_weather{\"days\": 3}"},
        {"hermes", "{\"name\": \"get_weather\", \"arguments\": {}}\n", "", "get_weather{}"},
        {"hermes", "```json\n{\"name\": \"get_weather\", \"unit\": {}}\n```",
         "```json\n{\"name\": \"get_weather\", \"unit\": {}}\n```", ""},
        {"qwen3_coder", "<function=get_weather>\n<parameter=days>\n5.0\n</parameter>\n</function> ok", " ok",
         "get_weather{\"days\": 5}"},
        {"qwen3_coder", "<tool_call><function=get_weather><parameter=city>null</parameter></function>", "",
         "get_weather{\"city\": \"null\"}"},
        {"qwen3_coder",
         "<tool_call>\n<function=get_weather>\n<parameter=note>\nnull\n</parameter>\n</function>\n"
         "<function=get_weather>\n</function>\n</tool_call>",
         "", "get_weather{\"note\": null}get_weather{}"},
        {"qwen3_coder",
         "<tool_call>\n<function=get_weather>\n</function>\n<tool_call>\n<function=get_weather>\n"
         "<parameter=days>\nmany\n</parameter>\n</function>\n</tool_call>",
         "", "get_weather{}get_weather{\"days\": \"many\"}"},
        {"qwen3_coder",
         "<tool_call>\n<function=get_weather>\n<parameter=city>\na\n</parameter>\n</function>\n"
         "<tool_call>\n<function=get_weather>\n</function>\n</tool_call>",
         "", "get_weather{\"city\": \"a\"}get_weather{}"},
        {"qwen3_coder",
         "<tool_call>\n<function=get_weather>\n<parameter=unknown>\n007\n</parameter>\n</function>\n"
         "</tool_call>",
         "", "get_weather{\"unknown\": \"007\"}"},
        {"mistral", "Hm.[TOOL_CALLS]get_weather{\"a\":1}[TOOL_CALLS] get_weather [ARGS] {}", "Hm.",
         "get_weather{\"a\":1}get_weather{}"},
        {"llama3_json", "{\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": {}}\nok", "\nok",
         "get_weather{}"},
        {"pythonic", "[get_weather(), get_weather(list=[1, 'a\\tb', (True, None,)], where={'k': -2.5},)]", "",
         "get_weather{}get_weather{\"list\": [1, \"a\\tb\", [true, null]], \"where\": {\"k\": -2.5}}"},
        {"gemma4", "<|tool_call>call:get_weather{days:3,deep:true,list:[],where:{}}<tool_call|>", "",
         "get_weather{\"days\": 3, \"deep\": true, \"list\": [], \"where\": {}}"},
    };
    (void)state;
    CHECK_ROWS(rows, NULL);
}

static void thoughts_are_told_from_text(void **state)
{
    static const struct {
        const char *thoughts, *input, *thought, *text;
        bool open;
    } rows[] = {
        {"think", "<think>\nhm, so\n</think>\n\nYes.", "hm, so", "Yes.", false},
        {"think", "hm\n\nso</think>Yes </think>.", "hm\n\nso", "Yes </think>.", true},
        {"think", "<think>again</think>  Yes", "again", "Yes", true},
        {"think", "\n<think></think> no thought", "", "no thought", false},
        {"think", "Say <think>x</think>.", "", "Say <think>x</think>.", false},
        {"think", "<think>it never ends ", "it never ends", "", false},
        {"think", "<think>a</think><think>b</think>c", "ab", "c", false},
        {"gemma4", "<|channel>thought\nhm<channel|>Yes", "hm", "Yes", false},
        {"mistral", "[THINK]hm[/THINK]Yes", "hm", "Yes", false},
        {NULL, "<think>a</think>", "", "<think>a</think>", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        output_parser_config config = {.thoughts = rows[i].thoughts, .thought_open = rows[i].open};
        heard h = listen_all_ways(&config, span_from(rows[i].input), 1);
        assert_string_equal(h.thought.size ? h.thought.data : "", rows[i].thought);
        assert_string_equal(h.text.size ? h.text.data : "", rows[i].text);
        heard_free(&h);
    }
}

static void a_call_inside_a_thought_is_none(void **state)
{
    output_parser_config config = {.family = "hermes", .thoughts = "think", .thought_open = true};
    heard h = listen_all_ways(&config,
                              span_from("I say <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n</think>\n\n"
                                        "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>"),
                              1);
    (void)state;
    assert_int_equal(h.whole, 1);
    assert_string_equal(h.names[0].data, "g");
    assert_string_equal(h.thought.data, "I say <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>");
    assert_int_equal(h.text.size, 0);
    heard_free(&h);
}

static void long_arguments_stream_and_may_be_cut(void **state)
{
    buf text = {0};
    output_parser_config config = {.family = "hermes"};
    (void)state;
    buf_text(&text, "<tool_call>{\"name\": \"f\", \"arguments\": {\"code\": \"");
    for (int i = 0; i < 300; i++)
        buf_text(&text, "line é\\n");
    size_t inside = text.size;
    buf_text(&text, "\"}}</tool_call>");
    heard h = listen(&config, buf_span(&text), 10, 10);
    assert_int_equal(h.whole, 1);
    assert_true(h.deltas > 100);
    assert_true(valid_object(buf_span(&h.arguments[0])));
    heard_free(&h);
    text.size = inside;
    h = listen_all_ways(&config, buf_span(&text), 7);
    assert_int_equal(h.cut, 1);
    assert_false(valid_object(buf_span(&h.arguments[0])));
    heard_free(&h);
    buf_free(&text);
}

static void memory_and_time_are_bounded(void **state)
{
    static const char *const inputs[][2] = {{"hermes", "<tool_call>{\"arguments\":{\"a\":\"<tool_call>"},
                                            {"hermes", "<tool_call>"},
                                            {"hermes", "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":"},
                                            {"qwen3_coder", "<tool_call><function=f><parameter=a>"},
                                            {"qwen3_coder", "\n</parameter>"},
                                            {"pythonic", "[f(a=["},
                                            {"mistral", "[TOOL_CALLS][{\"arguments\":{\"a\":\""},
                                            {"gemma4", "<|tool_call>call:f{a:["},
                                            {"llama3_json", "<|python_tag|>{\"parameters\":{\"a\":\""}};
    (void)state;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        buf text = {0};
        output_parser_config config = {.family = inputs[i][0], .thoughts = "think"};
        while (text.size < 300000)
            buf_text(&text, inputs[i][1]);
        heard h = listen(&config, buf_span(&text), 4096, 4096);
        if (!h.begun)
            assert_true(span_equal(buf_span(&h.text), buf_span(&text)));
        heard_free(&h);
        buf_free(&text);
    }
}

static void the_template_says_which_family_it_is(void **state)
{
    static const char *const rows[][3] = {
        {"… <tool_call>\\n{\"name\": \"x\", \"arguments\": …}</tool_call> <think> </think>", "hermes", "think"},
        {"<tool_call>\n<function=a>\n<parameter=b>", "qwen3_coder", NULL},
        {"'[TOOL_CALLS]' [THINK] [/THINK]", "mistral", "mistral"},
        {"'<|tool_call>call:' '<|channel>thought' '<channel|>'", "gemma4", "gemma4"},
        {"{{ 'plain' }}", NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *family = output_family_of(span_from(rows[i][0])),
                   *thoughts = output_thoughts_of(span_from(rows[i][0]));
        assert_string_equal(family ? family : "", rows[i][1] ? rows[i][1] : "");
        assert_string_equal(thoughts ? thoughts : "", rows[i][2] ? rows[i][2] : "");
    }
    assert_true(output_thought_is_open(output_marks_find("think"), span_from("…assistant\n<think>\n")));
    assert_false(output_thought_is_open(output_marks_find("think"), span_from("…assistant\n<think>\n\n</think>\n\n")));
    assert_true(output_thought_is_over(output_marks_find("think"), span_from("<think>\n\n</think>\n\n")));
    assert_false(output_thought_is_over(output_marks_find("think"), span_from("<think>\n")));
    assert_false(output_thought_is_open(NULL, span_from("<think>")));
}

static void unknown_names_are_refused(void **state)
{
    output_parser *p;
    error err = {0};
    (void)state;
    assert_int_equal(output_parser_create(&p, &(output_parser_config){.family = "x"}, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "\"x\""));
    assert_int_equal(output_parser_create(&p, &(output_parser_config){.thoughts = "y"}, &err), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_calls_are_text),
        cmocka_unit_test(what_models_get_wrong_is_understood),
        cmocka_unit_test(thoughts_are_told_from_text),
        cmocka_unit_test(a_call_inside_a_thought_is_none),
        cmocka_unit_test(long_arguments_stream_and_may_be_cut),
        cmocka_unit_test(calls_come_out_as_they_were_meant),
        cmocka_unit_test(broken_calls_are_text_or_cut),
        cmocka_unit_test(memory_and_time_are_bounded),
        cmocka_unit_test(the_template_says_which_family_it_is),
        cmocka_unit_test(unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
