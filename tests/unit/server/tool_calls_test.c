/* tests/unit/server/tool_calls_test.c: what the server remembers of calls, grammars of answers that must call, and the
 * limit of a thought. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "cli/vocab.c" /* the byte vocabulary as a tokenizer */
#include "server/api/reasoning_limit.h"
#include "server/api/tool_grammar.h"
#include "server/api/tool_memory.h"

/* ---- memory ---- */

static bool remembers(tool_memory *m, uint32_t tenant, const char *id, const char *wanted)
{
    buf text = {0};
    bool found = tool_memory_get(m, tenant, span_from(id), &text) && span_is(buf_span(&text), wanted);
    buf_free(&text);
    return found;
}

static void memory_is_by_tenant_and_bounded(void **state)
{
    tool_memory *m = tool_memory_create();
    static char large[TOOL_MEMORY_TEXT_MAX + 1];
    char id[32];
    uint32_t kept = 0;
    (void)state;
    memset(large, 'x', sizeof large);
    tool_memory_put(m, 1, span_from("call_a"), span_from("{}"));
    tool_memory_put(m, 2, span_from("call_a"), span_from("[]"));
    assert_true(remembers(m, 1, "call_a", "{}"));
    assert_true(remembers(m, 2, "call_a", "[]"));
    assert_false(remembers(m, 3, "call_a", "{}"));
    tool_memory_put(m, 1, span_from("call_a"), span_from("{1}"));
    assert_true(remembers(m, 1, "call_a", "{1}"));
    tool_memory_put(m, 1, span_from("long"), span_of(large, sizeof large));
    assert_false(tool_memory_get(m, 1, span_from("long"), &(buf){.limit = 1}));
    for (int i = 0; i < 2000; i++) {
        snprintf(id, sizeof id, "call_%d", i);
        tool_memory_put(m, 1, span_from(id), span_of(large, TOOL_MEMORY_TEXT_MAX));
        buf text = {0};
        assert_true(tool_memory_get(m, 1, span_from(id), &text));
        buf_free(&text);
    }
    for (int i = 0; i < 2000; i++) {
        buf text = {0};
        snprintf(id, sizeof id, "call_%d", i);
        kept += tool_memory_get(m, 1, span_from(id), &text);
        buf_free(&text);
    }
    assert_in_range(kept, 100, TOOL_MEMORY_BYTES / TOOL_MEMORY_TEXT_MAX);
    tool_memory_put(NULL, 1, span_from("a"), span_from("b"));
    assert_false(tool_memory_get(NULL, 1, span_from("a"), &(buf){0}));
    tool_memory_destroy(m);
    tool_memory_destroy(NULL);
}

/* ---- the limit of a thought ---- */

typedef struct {
    token_constraint base;
    buf accepted;
    uint32_t bits[(BYTE_VOCAB_SIZE + 31) / 32];
    bool ready, destroyed;
} fake;

static bool fake_ready(token_constraint *self)
{
    return ((fake *)self)->ready;
}

static const uint32_t *fake_mask(token_constraint *self)
{
    return ((fake *)self)->bits;
}

static constraint_state fake_accept(token_constraint *self, int32_t token)
{
    buf_byte(&((fake *)self)->accepted, (char)token);
    return token == '!' ? CONSTRAINT_OVER : CONSTRAINT_OPEN;
}

static void fake_watch(token_constraint *self, void (*woken)(void *context), void *context)
{
    (void)self;
    woken(context);
}

static void fake_destroy(token_constraint *self)
{
    ((fake *)self)->destroyed = true;
}

static const token_constraint_ops fake_ops = {fake_ready, fake_mask, fake_accept, fake_watch, fake_destroy};

static bool allows(const uint32_t *mask, int32_t token)
{
    return !mask || (mask[token / 32] >> (token % 32) & 1);
}

/* Says `wish` as far as it may; what is forced instead goes into `out`. */
static void say(token_constraint *c, const char *wish, size_t tokens, buf *out)
{
    for (size_t i = 0; i < tokens; i++) {
        const uint32_t *mask = c->ops->mask(c);
        int32_t token = wish[i % strlen(wish)];
        for (int32_t k = 0; !allows(mask, token) && k < BYTE_VOCAB_SIZE; k++)
            token = allows(mask, k) ? k : token;
        buf_byte(out, (char)token);
        assert_true(c->ops->ready(c));
        c->ops->accept(c, token);
    }
}

static token_constraint *limit_open(tokenizer *t, bool open, uint32_t budget, token_constraint *inner)
{
    token_constraint *c = NULL;
    reasoning_limit_config config = {.tokenizer = t,
                                     .vocab_size = BYTE_VOCAB_SIZE,
                                     .marks = output_marks_find("think"),
                                     .open = open,
                                     .budget = budget,
                                     .inner = inner};
    assert_int_equal(reasoning_limit_create(&c, &config, NULL), OK);
    return c;
}

static void a_thought_ends_cleanly_at_its_budget(void **state)
{
    static const struct {
        const char *wish, *said;
        bool open;
        uint32_t budget;
    } rows[] = {
        {"abc", "abcab\n</think>\n\nbca", true, 5},
        {"abc", "\n</think>\n\ncab", true, 0},
        {"ab</think>c", "ab</think>cab</think>", true, 50},
        {"abc", "abcabcabcabc", false, 2},
        {"abc", "abcabcabcabc", true, UINT32_MAX},
        {"\xc3\xa9", "\xc3\xa9\xc3\xa9\n</think>\n\n", true, 3}, /* not in the middle of a character */
    };
    tokenizer *t;
    (void)state;
    assert_int_equal(vocab_of_bytes(&t, NULL), OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf said = {0};
        token_constraint *c = limit_open(t, rows[i].open, rows[i].budget, NULL);
        for (size_t k = 0; k < strlen(rows[i].said); k++) {
            const uint32_t *mask = c->ops->mask(c);
            int32_t token = (unsigned char)rows[i].wish[k % strlen(rows[i].wish)];
            for (int32_t forced = 0; !allows(mask, token); forced++)
                token = allows(mask, forced) ? forced : token;
            buf_byte(&said, (char)token);
            c->ops->accept(c, token);
        }
        assert_string_equal(said.data, rows[i].said);
        buf_free(&said);
        c->ops->destroy(c);
    }
    tokenizer_destroy(t);
}

static void behind_a_thought_the_inner_constraint_rules(void **state)
{
    tokenizer *t;
    buf said = {0};
    fake inner = {.base.ops = &fake_ops};
    (void)state;
    assert_int_equal(vocab_of_bytes(&t, NULL), OK);
    inner.bits['!' / 32] |= 1u << ('!' % 32);
    token_constraint *c = limit_open(t, true, 4, &inner.base);
    assert_true(c->ops->ready(c)); /* though the inner one is not: it is not asked yet */
    assert_false(allows(c->ops->mask(c), BYTE_VOCAB_IM_END));
    assert_true(allows(c->ops->mask(c), 'x'));
    say(c, "hmmm", 4, &said);
    say(c, "x", strlen("\n</think>\n\n"), &said);
    assert_false(c->ops->ready(c));
    inner.ready = true;
    assert_false(allows(c->ops->mask(c), 'x'));
    assert_true(allows(c->ops->mask(c), '!'));
    assert_int_equal(c->ops->accept(c, '!'), CONSTRAINT_OVER);
    assert_string_equal(said.data, "hmmm\n</think>\n\n");
    assert_string_equal(inner.accepted.data, "!");
    c->ops->destroy(c);
    assert_true(inner.destroyed);
    buf_free(&inner.accepted);
    buf_free(&said);
    tokenizer_destroy(t);
}

/* ---- grammars ---- */

static const char tools_text[] =
    "[{\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":"
    "\"string\",\"maxLength\":12},\"unit\":{\"type\":\"string\",\"enum\":[\"celsius\",\"kelvin\"]},\"days\":{\"type\":"
    "\"integer\"},\"deep\":{\"type\":\"boolean\"}},\"required\":[\"unit\",\"days\"],\"additionalProperties\":false}}},"
    "{\"function\":{\"name\":\"now\",\"parameters\":{\"type\":\"object\",\"properties\":{},\"additionalProperties\":"
    "false}}}]";

/* A token at random of those allowed, one that ends things more often than not. */
static int32_t any_allowed(rng *r, const uint32_t *mask)
{
    static const char likely[] = "}\"]),<\n/:pfctand_=>|{e";
    for (int i = 0; i < 40; i++) {
        int32_t token = (unsigned char)likely[rng_below(r, sizeof likely - 1)];
        if (allows(mask, token) && rng_below(r, 4))
            return token;
    }
    for (;;) {
        int32_t token = (int32_t)rng_below(r, BYTE_VOCAB_SIZE);
        if (allows(mask, token))
            return token;
    }
}

static buf random_answer(rng *r, grammar *g, token_masks *masks)
{
    token_constraint *c = NULL;
    buf text = {0};
    constraint_state now = CONSTRAINT_OPEN;
    assert_int_equal(grammar_constraint(&c, g, masks, NULL), OK);
    while (now == CONSTRAINT_OPEN && text.size < 4000) {
        while (!c->ops->ready(c))
            usleep(50);
        const uint32_t *mask = c->ops->mask(c);
        if (allows(mask, BYTE_VOCAB_IM_END) && rng_below(r, 2))
            break;
        int32_t token = any_allowed(r, mask);
        if (token >= 256)
            break;
        buf_byte(&text, (char)token);
        now = c->ops->accept(c, token);
    }
    assert_true(now != CONSTRAINT_FAILED);
    c->ops->destroy(c);
    return text;
}

typedef struct {
    uint32_t whole;
    buf text, name, arguments;
} heard;

static void hear(void *context, const output_piece *piece)
{
    heard *h = context;
    buf *into = piece->kind == PIECE_CALL ? &h->name : piece->kind == PIECE_ARGUMENTS ? &h->arguments : &h->text;
    buf_append(into, piece->text.data ? piece->text.data : "", piece->text.size);
    if (piece->kind != PIECE_CALL_END)
        return;
    json_t *json = json_loadb(h->arguments.data, h->arguments.size, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(json))
        fail_msg("no object: %s", h->arguments.data);
    bool weather = span_is(buf_span(&h->name), "get_weather");
    assert_true(weather || span_is(buf_span(&h->name), "now"));
    assert_int_equal(json_is_integer(json_object_get(json, "days")), weather);
    const char *unit = json_string_value(json_object_get(json, "unit"));
    assert_true(!weather || strcmp(unit, "celsius") == 0 || strcmp(unit, "kelvin") == 0);
    json_decref(json);
    h->whole++;
    buf_clear(&h->name);
    buf_clear(&h->arguments);
}

static void a_required_call_is_one_whatever_is_drawn(void **state)
{
    static const char *const families[] = {"hermes",   "qwen3_coder", "llama3_json",   "mistral",
                                           "pythonic", "gemma4",      "function_gemma"};
    json_t *tools = json_loads(tools_text, 0, NULL);
    tokenizer *t;
    token_masks *masks;
    rng r = {5};
    static const int32_t stops[] = {BYTE_VOCAB_IM_END};
    (void)state;
    assert_int_equal(vocab_of_bytes(&t, NULL), OK);
    assert_int_equal(token_masks_create(&masks, t, BYTE_VOCAB_SIZE, stops, 1, NULL), OK);
    for (size_t i = 0; i < 2 * (sizeof families / sizeof *families); i++) {
        grammar *g = NULL;
        error err = {0};
        tool_grammar_ask ask = {.family = families[i / 2], .tools = tools, .one_call = i % 2, .mistral_args = i % 2};
        if (tool_grammar_make(&g, &ask, &err))
            fail_msg("%s: %s", ask.family, err.text);
        uint32_t ended = 0;
        for (int k = 0; k < 30; k++) {
            output_parser *p;
            heard h = {0};
            buf text = random_answer(&r, g, masks);
            output_parser_config config = {.family = ask.family, .tools = tools};
            assert_int_equal(output_parser_create(&p, &config, NULL), OK);
            output_parser_feed(p, buf_span(&text), hear, &h);
            output_parser_end(p, hear, &h);
            if (text.size < 4000 && (!h.whole || (ask.one_call && h.whole > 1)))
                fail_msg("%s: %u calls in %s", ask.family, h.whole, text.data);
            ended += text.size < 4000;
            output_parser_destroy(p);
            buf_free(&h.text);
            buf_free(&h.name);
            buf_free(&h.arguments);
            buf_free(&text);
        }
        assert_true(ended > 5);
        grammar_release(g);
    }
    token_masks_destroy(masks);
    tokenizer_destroy(t);
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_by_tenant_and_bounded),
        cmocka_unit_test(a_thought_ends_cleanly_at_its_budget),
        cmocka_unit_test(behind_a_thought_the_inner_constraint_rules),
        cmocka_unit_test(a_required_call_is_one_whatever_is_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
