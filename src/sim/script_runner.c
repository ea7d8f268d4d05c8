/* sim/script_runner.c: reads the file once, then is a voice of the sim runner. */
#include "sim/script_runner.h"

#include "base/buf.h"
#include "sim/byte_vocab.h"
#include "sim/sim_settings.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCRIPT_BYTES_MAX = 64 << 20, SCRIPT_LINES_MAX = 100000 };

typedef struct {
    char *reply, *match; /* match: NULL for any */
    size_t reply_size, match_size;
    uint32_t times, used; /* times 0: without end */
    bool end;
} script_line;

typedef struct {
    script_line *lines;
    uint32_t count, capacity;
    const script_line **chosen; /* (max_sequences) */
} script;

static const char no_reply[] = "[script: no reply is left for this request]";
static const script_line no_line = {(char *)no_reply, NULL, sizeof no_reply - 1, 0, 0, 0, true};

/* ---- choosing ---- */

static bool holds(const sequence_start *start, const script_line *line)
{
    if (!line->match)
        return true;
    for (size_t first = 0; first + line->match_size <= start->prompt_count; first++) {
        size_t i = 0;
        while (i < line->match_size && start->tokens[first + i] == (uint8_t)line->match[i])
            i++;
        if (i == line->match_size)
            return true;
    }
    return false;
}

static int32_t token_at(const script_line *line, uint32_t index)
{
    if (line->reply_size == 0 || (line->end && index == line->reply_size))
        return BYTE_VOCAB_IM_END;
    return (uint8_t)line->reply[index % line->reply_size];
}

static bool has_said(const sequence_start *start, const script_line *line)
{
    for (uint32_t i = 0; i < start->generated_before; i++)
        if (start->tokens[start->prompt_count + i] != token_at(line, i))
            return false;
    return true;
}

static const script_line *choose(script *s, const sequence_start *start)
{
    bool again = start->generated_before > 0; /* a preempted request: the line that it was given then, used up or not */
    for (uint32_t i = 0; i < s->count; i++) {
        script_line *line = &s->lines[i];
        bool left = line->times == 0 || line->used < line->times;
        if (!holds(start, line) || !(again ? has_said(start, line) : left))
            continue;
        line->used += !again;
        return line;
    }
    return &no_line;
}

static void script_open(void *self, uint32_t seq, const sequence_start *start)
{
    script *s = self;
    s->chosen[seq] = choose(s, start);
}

static int32_t script_token(void *self, uint32_t seq, uint32_t index, uint64_t state)
{
    (void)state;
    return token_at(((script *)self)->chosen[seq], index);
}

static void script_close(void *self)
{
    script *s = self;
    for (uint32_t i = 0; i < s->count; i++) {
        free(s->lines[i].reply);
        free(s->lines[i].match);
    }
    free(s->lines);
    free(s->chosen);
    free(s);
}

/* ---- reading ---- */

static status read_file(buf *out, const char *path, error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return error_set(err, ERR_IO, "script %s: %s", path, strerror(errno));
    out->limit = SCRIPT_BYTES_MAX;
    char part[65536];
    size_t size;
    while (!out->failed && (size = fread(part, 1, sizeof part, file)) > 0)
        buf_append(out, part, size);
    bool failed = ferror(file);
    fclose(file);
    if (failed)
        return error_set(err, ERR_IO, "script %s: %s", path, strerror(errno));
    if (out->failed)
        return error_set(err, ERR_LIMIT, "script %s: longer than %d bytes", path, SCRIPT_BYTES_MAX);
    return OK;
}

static char *copy_text(const json_t *text, size_t *size)
{
    *size = json_string_length(text);
    char *copy = malloc(*size + 1);
    if (copy)
        memcpy(copy, json_string_value(text), *size + 1);
    return copy;
}

static status add_line(script *s, const json_t *object, error *err)
{
    const json_t *reply = json_object_get(object, "reply"), *match = json_object_get(object, "match");
    const json_t *times = json_object_get(object, "times"), *end = json_object_get(object, "end");
    if (!json_is_string(reply))
        return error_set(err, ERR_INVALID, "\"reply\" is missing or no string");
    if ((match && !json_is_string(match)) || (end && !json_is_boolean(end)))
        return error_set(err, ERR_INVALID, "\"match\" has to be a string and \"end\" a boolean");
    if (times && (!json_is_integer(times) || json_integer_value(times) < 0 || json_integer_value(times) > UINT32_MAX))
        return error_set(err, ERR_INVALID, "\"times\" has to be a whole number from 0 on");
    if (s->count == SCRIPT_LINES_MAX)
        return error_set(err, ERR_LIMIT, "more than %d replies", SCRIPT_LINES_MAX);
    if (s->count == s->capacity) {
        uint32_t capacity = s->capacity ? s->capacity * 2 : 16;
        script_line *lines = realloc(s->lines, capacity * sizeof *lines);
        if (!lines)
            return error_set(err, ERR_MEMORY, "out of memory");
        s->lines = lines;
        s->capacity = capacity;
    }
    script_line line = {.times = times ? (uint32_t)json_integer_value(times) : 1, .end = !json_is_false(end)};
    line.reply = copy_text(reply, &line.reply_size);
    line.match = match ? copy_text(match, &line.match_size) : NULL;
    s->lines[s->count++] = line;
    return line.reply && (!match || line.match) ? OK : error_set(err, ERR_MEMORY, "out of memory");
}

static status read_settings(sim_config *config, json_t *settings, error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(settings, key, value)
    {
        if (!json_is_number(value))
            return error_set(err, ERR_INVALID, "setting \"%s\" is no number", key);
        status st = sim_settings_set(config, key, json_number_value(value), err);
        if (st)
            return st;
    }
    return OK;
}

static status read_line(script *s, sim_config *config, const char *text, size_t size, error *err)
{
    if (strspn(text, " \t\r") >= size || text[0] == '#')
        return OK;
    json_error_t fault;
    json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &fault);
    if (!object)
        return error_set(err, ERR_INVALID, "column %d: %s", fault.column, fault.text);
    json_t *settings = json_object_get(object, "settings");
    status st;
    if (!json_is_object(object))
        st = error_set(err, ERR_INVALID, "want a JSON object");
    else if (json_is_object(settings))
        st = read_settings(config, settings, err);
    else
        st = add_line(s, object, err);
    json_decref(object);
    return st;
}

static status read_script(script *s, sim_config *config, const char *path, error *err)
{
    buf text = {0};
    status st = read_file(&text, path, err);
    const char *at = text.data ? text.data : "", *end = at + text.size;
    for (uint32_t number = 1; !st && at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((stop ? stop : end) - at);
        if ((st = read_line(s, config, at, size, err)))
            error_prefix(err, st, "script %s, line %u", path, number);
        at += size + 1;
    }
    buf_free(&text);
    return st;
}

status script_runner_create(runner **out, const char *path, const sim_config *base, error *err)
{
    sim_config config = base ? *base : (sim_config){0};
    if (!config.model_name)
        config.model_name = "script";
    script *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ERR_MEMORY, "script runner: out of memory");
    sim_voice voice = {s, script_open, script_token, script_close};
    config.voice = &voice;
    runner *made = NULL;
    status st = read_script(s, &config, path, err);
    if (!st)
        st = sim_runner_create(&made, &config, err);
    if (st) {
        script_close(s);
        return st;
    }
    s->chosen = calloc(made->info.max_sequences, sizeof(script_line *));
    if (!s->chosen) {
        made->ops->close(made); /* closes the script too */
        return error_set(err, ERR_MEMORY, "script runner: out of memory");
    }
    *out = made;
    return OK;
}
