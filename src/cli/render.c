/* cli/render.c: `headway render`: a JSON object of variables in, the text of a chat template out. */
#include "cli/commands.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "cli/help.h"
#include "text/chat_json.h"
#include "text/chat_template.h"

static const flag_spec render_flags[] = {
    {"--template", "FILE", "the Jinja template", NULL},
    {"--batch", NULL, "one object a line in; {output} or {error, raised} out", NULL},
    {"--ranges", NULL, "with --batch: [offset, size, trusted] of each piece of text", NULL},
    {NULL, NULL, NULL, NULL},
};
static const command_spec render_spec = {
    .name = "render",
    .summary =
        "Renders a model's chat template. Standard input is one JSON object with messages, tools, "
        "add_generation_prompt, bos_token and whatever else the template reads; the text goes to standard output. "
        "A failing template prints its message on standard error and exits with 1.",
    .flags = render_flags,
    .notes = "HEADWAY_NOW fixes the clock: unix seconds or \"YYYY-MM-DD HH:MM:SS\".",
};

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
    command_flags flags;
    chat_template *template = NULL;
    error err = {{0}};
    uint64_t now;
    int code = command_parse(&render_spec, argc, argv, &flags);
    if (code != COMMAND_RUN)
        return code;
    if (!flag_given(&flags, "--template")) {
        error_set(&err, ERR_INVALID, "--template FILE is missing (see `headway render --help`)");
        return command_fail(&render_spec, &err, 2);
    }
    if (!clock_setting(&now))
        return 2;
    if (load_template(&template, flag_text(&flags, "--template"), &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    code = flag_given(&flags, "--batch") ? render_batch(template, now, flag_given(&flags, "--ranges"))
                                         : render_once(template, now);
    chat_template_destroy(template);
    return code;
}
