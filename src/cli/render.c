/* cli/render.c: `headway render`: a JSON object of variables in, the text of a chat template out. */
#include "cli/commands.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "text/chat_json.h"
#include "text/chat_template.h"

static const char usage[] =
    "Usage: headway render --template FILE [--batch] < variables.json\n"
    "\n"
    "Renders a model's chat template. Standard input is one JSON object with messages, tools,\n"
    "add_generation_prompt, bos_token and whatever else the template reads; the text goes to\n"
    "standard output. A failing template prints its message on standard error and exits with 1.\n"
    "\n"
    "  --template FILE   the Jinja template\n"
    "  --batch           one JSON object a line in, one line {\"output\"} or {\"error\", \"raised\"} out\n"
    "  --ranges          with --batch: also \"ranges\", [offset, size, trusted] for each piece of text\n"
    "  HEADWAY_NOW       fixes the clock: unix seconds or \"YYYY-MM-DD HH:MM:SS\"\n";

typedef struct {
    const char *template_path;
    bool batch, ranges, help;
} render_options;

static bool parse_options(render_options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        span arg = span_from(argv[i]);
        if (span_is(arg, "--template") && i + 1 < argc)
            o->template_path = argv[++i];
        else if (span_is(arg, "--batch"))
            o->batch = true;
        else if (span_is(arg, "--ranges"))
            o->ranges = true;
        else if (span_is(arg, "--help") || span_is(arg, "-h"))
            o->help = true;
        else {
            fprintf(stderr, "headway render: %s: unknown or incomplete option (see headway render --help)\n", argv[i]);
            return false;
        }
    }
    if (!o->help && !o->template_path)
        fprintf(stderr, "headway render: --template FILE is missing (see headway render --help)\n");
    return o->help || o->template_path;
}

/* All of a stream; false when it cannot be read. */
static bool read_all(FILE *file, buf *out)
{
    size_t got;
    out->limit = 1u << 30;
    while (buf_reserve(out, 64 << 10) && (got = fread(out->data + out->size, 1, 64 << 10, file)) > 0)
        out->size += got;
    return !out->failed && !ferror(file);
}

static bool clock_setting(uint64_t *now)
{
    const char *text = getenv("HEADWAY_NOW");
    struct tm parts = {.tm_isdst = -1};
    int used = 0;
    char *end;
    *now = clock_unix_seconds();
    if (!text || !*text)
        return true;
    unsigned long long seconds = strtoull(text, &end, 10);
    if (!*end) {
        *now = seconds;
        return true;
    }
    int fields = sscanf(text, "%d-%d-%d%*[ T]%d:%d:%d%n", &parts.tm_year, &parts.tm_mon, &parts.tm_mday, &parts.tm_hour,
                        &parts.tm_min, &parts.tm_sec, &used);
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    time_t time = fields == 6 && !text[used] ? mktime(&parts) : -1;
    if (time == (time_t)-1) {
        fprintf(stderr, "headway render: HEADWAY_NOW=%s: want unix seconds or \"YYYY-MM-DD HH:MM:SS\"\n", text);
        return false;
    }
    *now = (uint64_t)time;
    return true;
}

static status load_template(chat_template **out, const char *path, error *err)
{
    buf source = {0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return error_set(err, ERR_IO, "%s: cannot be opened", path);
    status st = read_all(file, &source) ? OK : error_set(err, ERR_IO, "%s: cannot be read", path);
    fclose(file);
    if (!st) {
        st = chat_template_compile(out, buf_span(&source), err);
        if (st)
            error_prefix(err, st, "%s", path);
    }
    buf_free(&source);
    return st;
}

static json_t *ranges_json(const render_result *result)
{
    json_t *ranges = json_array();
    for (size_t i = 0; i < result->range_count; i++)
        json_array_append_new(ranges, json_pack("[IIb]", (json_int_t)result->ranges[i].offset,
                                                (json_int_t)result->ranges[i].size, result->ranges[i].trusted));
    return ranges;
}

/* One line of --batch. */
static void render_line(const chat_template *t, const char *line, size_t size, uint64_t now, bool ranges)
{
    error err = {{0}};
    json_error_t where;
    render_result result = {0};
    json_t *reply = json_object(), *variables = chat_json_load(span_of(line, size), 0, &where);
    if (!json_is_object(variables))
        error_set(&err, ERR_INVALID, "input: want a JSON object (%s)", variables ? "it is something else" : where.text);
    if (!json_is_object(variables) || chat_template_render(t, variables, now, &result, &err)) {
        json_object_set_new(reply, "error", json_string(err.text));
        json_object_set_new(reply, "raised", json_boolean(result.raised));
    } else {
        json_object_set_new(reply, "output", json_stringn(result.text.data ? result.text.data : "", result.text.size));
        if (ranges)
            json_object_set_new(reply, "ranges", ranges_json(&result));
    }
    json_dumpf(reply, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(reply);
    json_decref(variables);
    render_result_free(&result);
}

static int render_batch(const chat_template *t, uint64_t now, bool ranges)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    while ((size = getline(&line, &capacity, stdin)) > 0)
        render_line(t, line, (size_t)size, now, ranges);
    free(line);
    return ferror(stdin) || fflush(stdout) ? 1 : 0;
}

static int render_once(const chat_template *t, uint64_t now)
{
    buf input = {0};
    error err = {{0}};
    json_error_t where;
    render_result result = {0};
    json_t *variables = NULL;
    status st = read_all(stdin, &input) ? OK : error_set(&err, ERR_IO, "standard input cannot be read");
    if (!st) {
        variables = chat_json_load(buf_span(&input), 0, &where);
        if (!variables)
            st = error_set(&err, ERR_INVALID, "standard input: line %d: %s", where.line, where.text);
        else if (!json_is_object(variables))
            st = error_set(&err, ERR_INVALID, "standard input: want a JSON object");
    }
    if (!st)
        st = chat_template_render(t, variables, now, &result, &err);
    if (st)
        fprintf(stderr, "%s\n", err.text);
    else if (fwrite(result.text.data ? result.text.data : "", 1, result.text.size, stdout) != result.text.size)
        st = ERR_IO;
    if (fflush(stdout))
        st = ERR_IO;
    json_decref(variables);
    render_result_free(&result);
    buf_free(&input);
    return st ? 1 : 0;
}

int render_main(int argc, char **argv)
{
    render_options options = {0};
    chat_template *template = NULL;
    error err = {{0}};
    uint64_t now;
    if (!parse_options(&options, argc, argv))
        return 2;
    if (options.help) {
        fputs(usage, stdout);
        return 0;
    }
    if (!clock_setting(&now))
        return 2;
    if (load_template(&template, options.template_path, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int code = options.batch ? render_batch(template, now, options.ranges) : render_once(template, now);
    chat_template_destroy(template);
    return code;
}
