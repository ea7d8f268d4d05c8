/* Chat templates: every language rule against what jinja2 renders, provenance, bounds, threads, and the published
 * templates. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "text/chat_json.h"
#include "text/chat_template.h"
#include "unit/slow.h"

enum { NOW = 1767323045 }; /* 2026-01-02 03:04:05 UTC */

static buf read_file(const char *path)
{
    buf out = {0};
    FILE *file = fopen(path, "rb");
    size_t got;
    while (file && buf_reserve(&out, 1 << 16) && (got = fread(out.data + out.size, 1, 1 << 16, file)) > 0)
        out.size += got;
    if (file)
        fclose(file);
    return out;
}

static bool next_line(span *rest, span *line)
{
    if (!rest->size)
        return false;
    const char *end = memchr(rest->data, '\n', rest->size);
    line->data = rest->data;
    line->size = end ? (size_t)(end - rest->data) : rest->size;
    size_t used = line->size + (end != NULL);
    *rest = span_of(rest->data + used, rest->size - used);
    return true;
}

static json_t *parse(span text)
{
    json_error_t where;
    json_t *json = chat_json_load(text, 0, &where);
    if (!json)
        fail_msg("%s", where.text);
    return json;
}

static status render(const char *source, const char *variables, render_result *out, error *err)
{
    chat_template *t;
    json_t *json = parse(span_from(variables));
    status st = chat_template_compile(&t, span_from(source), err);
    if (!st) {
        st = chat_template_render(t, json, NOW, out, err);
        chat_template_destroy(t);
    }
    json_decref(json);
    return st;
}

static void check_output(const char *source, const char *variables, const char *want)
{
    render_result out = {0};
    error err = {{0}};
    if (render(source, variables, &out, &err))
        fail_msg("%s: %s", source, err.text);
    assert_string_equal(out.text.data ? out.text.data : "", want);
    render_result_free(&out);
}

static void check_failure(const char *source, const char *variables, const char *part)
{
    render_result out = {0};
    error err = {{0}};
    assert_int_not_equal(render(source, variables, &out, &err), OK);
    if (!strstr(err.text, part))
        fail_msg("%s: the message is \"%s\", without \"%s\"", source, err.text, part);
    render_result_free(&out);
}

/* Does the rendering agree with what jinja2 made? */
static bool agrees(const json_t *record, status st, const render_result *out, const error *err)
{
    const json_t *output = json_object_get(record, "output");
    span text = buf_span(&out->text);
    if (output)
        return !st && span_equal(text, span_of(json_string_value(output), json_string_length(output)));
    const char *kind = json_string_value(json_object_get(record, "kind"));
    if (strcmp(kind, "SecurityError") == 0) /* the sandbox refuses to change lists; that may work here */
        return true;
    bool own = strcmp(kind, "TemplateError") == 0;
    const char *message = json_string_value(json_object_get(record, "error"));
    return st && out->raised == own && (!own || strcmp(err->text, message) == 0);
}

static void renders_each_rule_as_jinja2_does(void **state)
{
    (void)state;
    buf file = read_file("tests/unit/text/chat_template_cases.jsonl");
    span rest = buf_span(&file), line;
    size_t count = 0, wrong = 0;
    json_t *variables = NULL;
    render_result out = {0};
    while (next_line(&rest, &line)) {
        json_t *record = parse(line);
        if (!variables) {
            variables = json_incref(json_object_get(record, "variables"));
            json_decref(record);
            continue;
        }
        chat_template *t = NULL;
        error err = {{0}};
        const json_t *source = json_object_get(record, "template");
        out.raised = false;
        status st = chat_template_compile(&t, span_of(json_string_value(source), json_string_length(source)), &err);
        if (!st)
            st = chat_template_render(t, variables, NOW, &out, &err);
        chat_template_destroy(t);
        count++;
        if (!agrees(record, st, &out, &err)) {
            wrong++;
            print_error("%s: got %s\n", json_string_value(json_object_get(record, "name")),
                        st ? err.text : out.text.data);
        }
        json_decref(record);
    }
    render_result_free(&out);
    json_decref(variables);
    buf_free(&file);
    assert_true(count > 250);
    assert_int_equal(wrong, 0);
}

/* ---- the published templates beside the repository ---- */

static const char *shared_folder(void)
{
    const char *path = getenv("HEADWAY_SHARED");
    return path ? path : "../shared";
}

static buf read_shared(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/templates/%s", shared_folder(), name);
    return read_file(path);
}

static json_t *find_conversation(json_t *conversations, const char *name)
{
    size_t i;
    json_t *conversation;
    json_array_foreach(conversations, i, conversation)
    {
        if (strcmp(json_string_value(json_object_get(conversation, "name")), name) == 0)
            return conversation;
    }
    return NULL;
}

static void set_or_null(json_t *variables, const char *name, json_t *value)
{
    json_object_set_new(variables, name, value ? json_incref(value) : json_null());
}

static json_t *variables_of(const json_t *record, json_t *conversation, json_t *tokens)
{
    json_t *variables = json_object(), *value;
    const char *key;
    json_object_foreach(tokens, key, value)
    {
        size_t size = strlen(key);
        if (size > 6 && strcmp(key + size - 6, "_token") == 0)
            json_object_set(variables, key, value);
    }
    set_or_null(variables, "messages", json_object_get(conversation, "messages"));
    set_or_null(variables, "tools", json_object_get(conversation, "tools"));
    set_or_null(variables, "documents", json_object_get(conversation, "documents"));
    json_object_update(variables, json_object_get(record, "options"));
    return variables;
}

/* The ranges lie end to end and cover the text. */
static bool ranges_cover(const render_result *out)
{
    size_t at = 0;
    for (size_t i = 0; i < out->range_count; i++) {
        if (out->ranges[i].offset != at || !out->ranges[i].size)
            return false;
        at += out->ranges[i].size;
    }
    return at == out->text.size;
}

static bool check_record(const json_t *record, json_t *conversations, json_t *manifest)
{
    const char *name = json_string_value(json_object_get(record, "template"));
    const char *conversation = json_string_value(json_object_get(record, "conversation"));
    buf source = read_shared(name);
    json_t *variables =
        variables_of(record, find_conversation(conversations, conversation), json_object_get(manifest, name));
    chat_template *t = NULL;
    error err = {{0}};
    render_result out = {0};
    status st = chat_template_compile(&t, buf_span(&source), &err);
    if (!st)
        st = chat_template_render(t, variables, NOW, &out, &err);
    bool good = agrees(record, st, &out, &err) && (st || ranges_cover(&out));
    if (!good)
        print_error("%s over %s: %s\n", name, conversation, st ? err.text : "differs");
    chat_template_destroy(t);
    render_result_free(&out);
    json_decref(variables);
    buf_free(&source);
    return good;
}

static void renders_the_published_templates_byte_for_byte(void **state)
{
    (void)state;
    buf expected = read_shared("expected.jsonl"), conversations = read_shared("conversations.json"),
        manifest = read_shared("templates.json");
    if (!expected.size || !conversations.size || !manifest.size) {
        print_message("%s/templates is not there: skipped\n", shared_folder());
        buf_free(&expected);
        buf_free(&conversations);
        buf_free(&manifest);
        skip();
    }
    json_t *talks = parse(buf_span(&conversations)), *tokens = parse(buf_span(&manifest));
    span rest = buf_span(&expected), line;
    size_t count = 0, good = 0;
    while (next_line(&rest, &line)) {
        json_t *record = parse(line);
        count++;
        good += check_record(record, talks, tokens);
        json_decref(record);
    }
    print_message("%zu of %zu renderings agree\n", good, count);
    json_decref(talks);
    json_decref(tokens);
    buf_free(&expected);
    buf_free(&conversations);
    buf_free(&manifest);
    assert_int_equal(good, count);
}

/* ---- provenance ---- */

/* The output with what is not trusted in square brackets. */
static void check_trust(const char *source, const char *variables, const char *want)
{
    render_result out = {0};
    error err = {{0}};
    buf marked = {0};
    if (render(source, variables, &out, &err))
        fail_msg("%s: %s", source, err.text);
    assert_true(ranges_cover(&out));
    for (size_t i = 0; i < out.range_count; i++) {
        const render_range *range = &out.ranges[i];
        buf_text(&marked, range->trusted ? "" : "[");
        buf_append(&marked, out.text.data + range->offset, range->size);
        buf_text(&marked, range->trusted ? "" : "]");
    }
    assert_string_equal(marked.data ? marked.data : "", want);
    buf_free(&marked);
    render_result_free(&out);
}

static const char user[] = "{\"bos_token\": \"<s>\", \"m\": \"Hi <s> You\", \"l\": [\"a\", \"b\"], \"n\": 5,"
                           " \"d\": {\"k\": \"v\"}, \"blank\": \" x \", \"o\": {\"eos_token\": \"</s>\"}}";

static void knows_who_wrote_each_byte(void **state)
{
    (void)state;
    check_trust("{{ bos_token }}<u>{{ m }}</u>", user, "<s><u>[Hi <s> You]</u>");
    check_trust("{{ o.eos_token }}", user, "[</s>]");
    check_trust("{{ '<a>' + m + '<b>' }}{{ '<a>' ~ m ~ '<b>' }}", user, "<a>[Hi <s> You]<b><a>[Hi <s> You]<b>");
    check_trust("{{ 'a' + 'b' }}", user, "ab");
    check_trust("{% set x = '<a>' + m + '<b>' %}{{ x[1:6] }}|{{ x[:2] }}", user, "a>[Hi ]|<a");
    check_trust("{% set x %}<{{ m[:2] }}>{% endset %}{{ x }}{{ x | upper }}{{ x | trim('<') }}", user,
                "<[Hi]><[HI]>[Hi]>");
    check_trust("{{ blank.strip() }}{{ ('<' + blank).strip('< ') }}", user, "[xx]");
    check_trust("{% for p in ('<a>|' + m).split('|') %}{{ p }};{% endfor %}", user, "<a>;[Hi <s> You];");
    check_trust("{{ m.replace('Hi', '<hi>') }}", user, "<hi>[ <s> You]");
    check_trust("{{ '<x>'.replace('x', m[:2]) }}", user, "<[Hi]>");
    check_trust("{{ l | join('<sep>') }}{{ ','.join(l) }}", user, "[a]<sep>[ba],[b]");
    check_trust("{{ d | tojson }}{{ {'a': '<s>'} | tojson }}", user, "[{\"k\": \"v\"}{\"a\": \"<s>\"}]");
    check_trust("{{ l }}{{ n }}{{ 5 }}{{ n + 1 }}", user, "[['a', 'b']5]5[6]");
    check_trust("{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", user, "[k]=[v]");
    check_trust("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(m[:2]) }}{{ f('t') }}", user, "<[Hi]><t>");
    check_trust("{{ '%s|%s' % (m[:2], '<t>') }}{{ '{}|{}'.format(m[:2], '<t>') }}", user, "[Hi]|<t>[Hi]|<t>");
    check_trust("{% set ns = namespace(t='') %}{% for x in l %}{% set ns.t = ns.t + '<' + x %}{% endfor %}{{ ns.t }}",
                user, "<[a]<[b]");
    check_trust("{{ m | e }}{{ ('<b>' | safe) + '&' }}", user, "[Hi &lt;s&gt; You]<b>&amp;");
    check_trust("{{ '<<' ~ m[3:4] * 3 }}", user, "<<[<<<]");
    check_trust("{{ ('<a>\\n' + m) | indent(2) }}{{ missing | default('<d>') }}", user, "<a>\n  [Hi <s> You]<d>");
    check_trust("{% filter upper %}<a>{{ l[0] }}{% endfilter %}", user, "<A>[A]");
    check_trust("{{ ('<é' + m[:1])[::-1] }}", user, "[H]é<");
}

/* ---- what jinja2's sandbox refuses and templates want ---- */

static void lists_and_dicts_may_change(void **state)
{
    (void)state;
    check_output(
        "{% set l = [1] %}{% do l.append(2) %}{% set _ = l.append(3) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}", "{}",
        "[1, 2, 3]31[2]");
    check_output("{% set d = {'a': 1} %}{% do d.update({'b': 2}, c=3) %}{{ d.pop('a') }}{{ d }}{{ d.pop('z', 0) }}",
                 "{}", "1{'b': 2, 'c': 3}0");
    check_output(
        "{% set l = [1, 3] %}{% do l.insert(1, 2) %}{% do l.extend([4]) %}{% do l.remove(3) %}{% do l.reverse() "
        "%}{{ l }}",
        "{}", "[4, 2, 1]");
    check_output(
        "{% set d = {} %}{% for i in range(50) %}{% do d.update({i: i}) %}{% endfor %}{{ d.pop(7) }}{{ d | length "
        "}}{{ 7 in d }}{{ d[49] }}",
        "{}", "749False49");
    check_failure("{% set l = [] %}{% do l.append(l) %}{{ l }}", "{}", "nested deeper");
}

/* ---- errors and bounds ---- */

static void errors_say_the_line(void **state)
{
    (void)state;
    check_failure("a\nb\n{{ x.y }}", "{}", "template line 3: 'x' is undefined");
    check_failure("a\n\n{% if %}", "{}", "template line 3: ");
    check_failure("a\n{% for x in y %}\n", "{}", "'for' of line 2 is not closed");
    check_failure("\n{% include 'x' %}", "{}", "template line 2: 'include' is not supported");
    check_failure("\xff", "{}", "not UTF-8");
}

static void raised_messages_are_verbatim(void **state)
{
    (void)state;
    render_result out = {0};
    error err = {{0}};
    assert_int_not_equal(render("{{ raise_exception('Only %s \"x\"\n') }}", "{}", &out, &err), OK);
    assert_true(out.raised);
    assert_string_equal(err.text, "Only %s \"x\"\n");
    assert_int_not_equal(render("{{ raise_exception('x' * 510 + 'é' * 9) }}", "{}", &out, &err), OK);
    assert_int_equal(strlen(err.text), 510); /* cut between characters */
    assert_int_not_equal(render("{{ 1 + 'a' }}", "{}", &out, &err), OK);
    assert_false(out.raised);
    render_result_free(&out);
}

static void endless_work_is_cut_off(void **state)
{
    (void)state;
    check_failure("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "{}",
                  "more than");
    check_failure("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{}", "nested deeper");
    check_failure("{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}", "{}", "nested deeper");
    check_failure("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}", "{}",
                  "more than");
    check_failure("{{ 'x' * 9000000000 }}", "{}", "template line 1");
    check_failure(
        "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "{}",
        "template");
    check_failure("{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}", "{}", "output of more than");
    check_failure(
        "{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = [ns.l] * 2 %}{% endfor %}{{ ns.l }}", "{}",
        "template");
    check_failure("{{ '%9999999d' % 1 }}{{ '{:99999999}'.format(1) }}", "{}", "width");
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    buf source = {0};
    const char *const parts[] = {"(", "[", "-", "not ", "{'a':", "a[", "a(", "a|f("};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        buf_clear(&source);
        buf_text(&source, "{{ ");
        for (int k = 0; k < 100000; k++)
            buf_text(&source, parts[i]);
        check_failure(source.data, "{}", "template line 1");
    }
    buf_clear(&source);
    for (int k = 0; k < 100000; k++)
        buf_text(&source, "{% if a %}");
    check_failure(source.data, "{}", "nested deeper");
    buf_clear(&source);
    buf_text(&source, "{{ a");
    for (int k = 0; k < 100000; k++)
        buf_text(&source, " + a");
    buf_text(&source, " }}");
    check_failure(source.data, "{}", "in a row");
    buf_clear(&source);
    buf_text(&source, "{\"a\":");
    for (int k = 0; k < 1500; k++)
        buf_text(&source, "[");
    for (int k = 0; k < 1500; k++)
        buf_text(&source, "]");
    buf_text(&source, "}");
    check_failure("{{ a }}", source.data, "nested deeper");
    check_output("fine", source.data, "fine"); /* what is not read costs nothing */
    buf_free(&source);
}

static void long_conversations_take_linear_time(void **state)
{
    (void)state;
    buf variables = {0};
    buf_text(&variables, "{\"messages\": [");
    for (int i = 0; i < 20000; i++)
        buf_printf(&variables, "%s{\"role\": \"user\", \"content\": \"a few words of talk, number %d\"}", i ? "," : "",
                   i);
    buf_text(&variables, "]}");
    render_result out = {0};
    error err = {{0}};
    const char *source =
        "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t + '<|' + m.role + '|>' + "
        "m.content | trim %}{% endfor %}{{ ns.t }}";
    if (render(source, variables.data, &out, &err))
        fail_msg("%s", err.text);
    assert_true(out.text.size > 20000 * 36);
    assert_int_equal(out.range_count, 20000 * 4);
    render_result_free(&out);
    buf_free(&variables);
}

/* ---- threads ---- */

static void *render_many(void *template)
{
    render_result out = {0};
    error err = {{0}};
    size_t wrong = 0;
    json_t *json = parse(span_from("{\"l\": [\"é\", \"b\"]}"));
    for (uint32_t i = 0; i < slowly(2000, 500); i++) {
        status st = chat_template_render(template, json, NOW, &out, &err);
        wrong += st || !span_is(buf_span(&out.text), "0éÜ<1bÜ<");
    }
    json_decref(json);
    render_result_free(&out);
    return (void *)wrong;
}

static void one_template_serves_many_threads(void **state)
{
    (void)state;
    chat_template *t;
    error err = {{0}};
    pthread_t threads[4];
    void *wrong;
    const char *source = "{% for x in l %}{{ loop.index0 }}{{ x }}{{ 'ü'[0] | upper }}{{ '<ü'[:1] }}{% endfor %}";
    assert_int_equal(chat_template_compile(&t, span_from(source), &err), OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, render_many, t), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &wrong);
        assert_ptr_equal(wrong, NULL);
    }
    chat_template_destroy(t);
}

static void keeps_integers_of_any_size(void **state)
{
    (void)state;
    check_output("{{ a }} {{ b | tojson }} {{ c }} {{ d }}",
                 "{\"a\": 9223372036854775807, \"b\": [-99999999999999999999, \"9999999999999999999999\"], \"c\": "
                 "9223372036854775808, \"d\": 1e20}",
                 "9223372036854775807 [-99999999999999999999, \"9999999999999999999999\"] 9223372036854775808 1e+20");
    check_failure("{{ a + 1 }}", "{\"a\": 99999999999999999999}", "64 bits");
}

int main(void)
{
    setenv("TZ", "UTC", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_each_rule_as_jinja2_does),
        cmocka_unit_test(renders_the_published_templates_byte_for_byte),
        cmocka_unit_test(knows_who_wrote_each_byte),
        cmocka_unit_test(lists_and_dicts_may_change),
        cmocka_unit_test(errors_say_the_line),
        cmocka_unit_test(raised_messages_are_verbatim),
        cmocka_unit_test(endless_work_is_cut_off),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(long_conversations_take_linear_time),
        cmocka_unit_test(one_template_serves_many_threads),
        cmocka_unit_test(keeps_integers_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
