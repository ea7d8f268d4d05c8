/* sim/sim_settings.c: one table says which names there are and what they may be. */
#include "sim/sim_settings.h"

#include "base/buf.h"
#include "sim/script_runner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *key;
    enum { NUMBER, LONG, INT } type;
    size_t offset;
    double most;
} setting;

static const setting settings[] = {
    {"prefill_tokens_per_s", NUMBER, offsetof(sim_config, prefill_tokens_per_s), 1e9},
    {"decode_base_us", LONG, offsetof(sim_config, decode_base_us), 1e8},
    {"decode_row_us", LONG, offsetof(sim_config, decode_row_us), 1e8},
    {"reply_tokens", INT, offsetof(sim_config, reply_tokens), 1e9},
    {"context_length", INT, offsetof(sim_config, context_length), 1 << 24},
    {"page_tokens", INT, offsetof(sim_config, page_tokens), 1 << 16},
    {"page_count", INT, offsetof(sim_config, page_count), 1 << 24},
    {"max_sequences", INT, offsetof(sim_config, max_sequences), 1 << 16},
    {"max_rows", INT, offsetof(sim_config, max_rows), 1 << 16},
    {"max_chunk_tokens", INT, offsetof(sim_config, max_chunk_tokens), 1 << 20},
    {"block_tokens", INT, offsetof(sim_config, block_tokens), 1 << 20},
    {"parts", INT, offsetof(sim_config, parts), PAGE_PARTS_MAX},
    {"state_bytes", LONG, offsetof(sim_config, state_bytes), 1e9},
    {"state_pages", INT, offsetof(sim_config, state_pages), 1 << 12},
};
enum { SETTING_COUNT = sizeof settings / sizeof settings[0] };

static status unknown_key(const char *key, error *err)
{
    buf names = {0};
    for (int i = 0; i < SETTING_COUNT; i++)
        buf_printf(&names, "%s%s", i ? ", " : "", settings[i].key);
    error_set(err, ERR_INVALID, "sim setting \"%s\": unknown, want one of: %s", key, names.data);
    buf_free(&names);
    return ERR_INVALID;
}

status sim_settings_set(sim_config *config, const char *key, double value, error *err)
{
    for (int i = 0; i < SETTING_COUNT; i++) {
        const setting *s = &settings[i];
        if (strcmp(s->key, key) != 0)
            continue;
        if (!(value >= 1 && value <= s->most))
            return error_set(err, ERR_INVALID, "sim setting \"%s\": %g, want 1 to %.0f", key, value, s->most);
        char *at = (char *)config + s->offset;
        if (s->type == NUMBER)
            *(double *)at = value;
        else if (s->type == LONG)
            *(uint64_t *)at = (uint64_t)value;
        else
            *(uint32_t *)at = (uint32_t)value;
        return OK;
    }
    return unknown_key(key, err);
}

status sim_settings_parse(sim_config *config, const char *text, error *err)
{
    while (*text) {
        char key[64], *end;
        size_t size = strcspn(text, "=,");
        if (text[size] != '=' || size >= sizeof key)
            return error_set(err, ERR_INVALID, "sim settings: \"%.40s\", want key=number,key=number", text);
        memcpy(key, text, size);
        key[size] = '\0';
        const char *number = text + size + 1;
        double value = strtod(number, &end);
        if (end == number || (*end != ',' && *end != '\0'))
            return error_set(err, ERR_INVALID, "sim setting \"%s\": \"%.40s\" is no number", key, number);
        status st = sim_settings_set(config, key, value, err);
        if (st)
            return st;
        text = *end ? end + 1 : end;
    }
    return OK;
}

status sim_runner_open(runner **out, const char *spec, const sim_config *base, error *err)
{
    sim_config config = base ? *base : (sim_config){0};
    if (strncmp(spec, "script:", 7) == 0)
        return script_runner_create(out, spec + 7, &config, err);
    bool bare = strcmp(spec, "sim") == 0;
    if (!bare && strncmp(spec, "sim:", 4) != 0)
        return error_set(err, ERR_NOT_FOUND, "runner \"%s\": want \"sim\", \"sim:key=value,...\" or \"script:FILE\"",
                         spec);
    status st = bare ? OK : sim_settings_parse(&config, spec + 4, err);
    return st ? st : sim_runner_create(out, &config, err);
}
