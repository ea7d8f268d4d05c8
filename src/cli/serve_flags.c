/* cli/serve_flags.c: see serve_flags.h. */
#include "cli/serve_flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/decimal.h"
#include "base/secret.h"
#include "sched/policy.h"
#include "tensor/kv_type.h"
#include "text/output_parser.h"

static const flag_spec serve_flags[] = {
    {"--model", "PATH", "the model, a GGUF file [the default model's place]", NULL},
    {"--host", "ADDRESS", "where to listen", "127.0.0.1"},
    {"--port", "N", "0: any free one", "8080"},
    {"--threads", "N", "worker threads [the machine's]", NULL},
    {"--ctx", "N", "tokens a conversation may hold [what fits]", NULL},
    {"--parallel", "N", "streams at once [16; with bare sim 1024]", NULL},
    {"--kv-memory", "SIZE", "of the page pool, e.g. 2G [what fits]", NULL},
    {"--kv", "TYPE", "keys and values: auto, f16, bf16, q8, q4, f32", "auto"},
    {"--cache-ram", "SIZE", "of it for idle prefixes; 0: keep none [all]", NULL},
    {"--cache-sessions", "N", "or: keep so many conversations warm", NULL},
    {"--cache-session-tokens", "N", "of one of them [the context, at most 24k]", NULL},
    {"--cache-disk", "DIR", "prefixes that outlive RAM and restarts [none]", NULL},
    {"--cache-disk-size", "SIZE", "of what lies there, at most [8G]", NULL},
    {"--cache-redis", "URL", "prefixes shared with other servers [none]", NULL},
    {"--cache-ttl", "SECONDS", "forget prefixes not used for so long [never]", NULL},
    {"--api-key", "KEY[,KEY]", "clients must send one; also from HEADWAY_API_KEY", NULL},
    {"--config", "FILE", "tenants, their keys, limits; SIGHUP reads it again", NULL},
    {"--forward-batch", "URL", "batch work goes to another server [stays here]", NULL},
    {"--forward-batch-key", "KEY", "for that server [none]", NULL},
    {"--batch-dir", "DIR", "files and batches of the API lie there [none]", NULL},
    {"--batch-dir-size", "SIZE", "of all files there, at most [8G]", NULL},
    {"--policy", "NAME", "prefill-first, decode-first, chunked, gate [cadence]", NULL},
    {"--gap-ms", "N|auto", "longest gap between a stream's tokens [auto]", NULL},
    {"--chat-share", "F", "of the device time for chats, at least [0.25]", NULL},
    {"--chunk", "N", "tokens of a prompt in one step [the most]", NULL},
    {"--window-ms", "N", "gate: of decoding between two chunks [250]", NULL},
    {"--document-tokens", "N", "longer prompts are documents [by the bound]", NULL},
    {"--chat-template", "FILE", "a Jinja file instead of the model's own", NULL},
    {"--tool-parser", "NAME", "how calls are written, or none [by the template]", NULL},
    {"--reasoning-parser", "NAME", "how thoughts are, or none [by the template]", NULL},
    {"--curves", "FILE", "of `headway tune` [curves.json beside --config]", NULL},
    {"--runner", "NAME", "model, sim, sim:KEY=N,… or script:FILE", "model"},
    {"--hardware", "NAME", "sim: its machine, a steps.json or a trace [none]", NULL},
    {"--model-shape", "NAME", "sim: the model on it, of plan --list models", NULL},
    {NULL, NULL, NULL, NULL},
};

const command_spec serve_spec = {
    .name = "serve",
    .summary = "Serves a model over an OpenAI-compatible HTTP API.",
    .flags = serve_flags,
    .notes = "SIGTERM lets running answers end; a second one, or Ctrl-C, stops at once.",
};

enum { GAP_MS_MAX = 3600000 };

static const struct {
    const char *name;
    uint64_t min, max;
} number_flags[] = {
    {"--port", 0, 65535},
    {"--threads", 0, 1024},
    {"--ctx", 0, 1u << 24},
    {"--parallel", 0, 65536},
    {"--chunk", 1, 1u << 20},
    {"--window-ms", 1, GAP_MS_MAX},
    {"--document-tokens", 1, 1u << 24},
    {"--cache-sessions", 1, 1u << 20},
    {"--cache-session-tokens", 1, 1u << 24},
    {"--cache-ttl", 1, 1u << 30},
};

static const char *const size_flags[] = {"--kv-memory", "--cache-ram", "--cache-disk-size", "--batch-dir-size"};

static bool is_auto(const char *text)
{
    return !text || strcmp(text, "auto") == 0;
}

static status check_parsers(const command_flags *flags, error *err)
{
    const char *calls = flag_text(flags, "--tool-parser"), *thoughts = flag_text(flags, "--reasoning-parser");
    if (calls && strcmp(calls, "none") != 0 && !output_family_known(calls))
        return error_set(err, ERR_INVALID, "--tool-parser: '%s', want none or one of %s", calls, output_families());
    if (thoughts && strcmp(thoughts, "none") != 0 && !output_marks_find(thoughts))
        return error_set(err, ERR_INVALID, "--reasoning-parser: '%s', want none or one of %s", thoughts,
                         output_thoughts());
    return OK;
}

status serve_flags_check(const command_flags *flags, error *err)
{
    uint64_t number = 0;
    double share = 0;
    status st;
    for (size_t i = 0; i < sizeof number_flags / sizeof *number_flags; i++)
        if (flag_text(flags, number_flags[i].name) &&
            (st = flag_number(flags, number_flags[i].name, number_flags[i].min, number_flags[i].max, &number, err)))
            return st;
    for (size_t i = 0; i < sizeof size_flags / sizeof *size_flags; i++)
        if (flag_text(flags, size_flags[i]) && (st = flag_bytes(flags, size_flags[i], &number, err)))
            return st;
    kv_type kv;
    error why;
    if (!is_auto(flag_text(flags, "--kv")) && kv_type_find(flag_text(flags, "--kv"), &kv, &why))
        return error_set(err, ERR_INVALID, "--kv: %s", why.text);
    const char *gap = flag_text(flags, "--gap-ms"), *policy = flag_text(flags, "--policy");
    if (!is_auto(gap) && flag_number(flags, "--gap-ms", 1, GAP_MS_MAX, &number, NULL))
        return error_set(err, ERR_INVALID, "--gap-ms: '%s' is not auto or a number from 1 to %d", gap, GAP_MS_MAX);
    const char *forward = flag_text(flags, "--forward-batch"), *key = flag_text(flags, "--forward-batch-key");
    if (forward && (strlen(forward) >= CONFIG_VALUE_MAX || config_forward_check(forward, err)))
        return error_prefix(err, ERR_INVALID, "--forward-batch");
    if (key && (strlen(key) >= CONFIG_VALUE_MAX || !auth_key_is_valid(span_from(key))))
        return error_set(err, ERR_INVALID, "--forward-batch-key: a key has visible ASCII characters only, no blanks");
    const char *text = flag_text(flags, "--chat-share");
    if (text && (!decimal_read(span_from(text), &share) || share > 1))
        return error_set(err, ERR_INVALID, "--chat-share: '%s' is not a number from 0 to 1", text);
    if (policy && !policy_find(policy))
        return error_set(err, ERR_INVALID, "--policy: '%s', want one of %s", policy, policy_names());
    return check_parsers(flags, err);
}

uint32_t serve_flags_number(const command_flags *flags, const char *name)
{
    uint64_t number = 0;
    return flag_text(flags, name) && flag_number(flags, name, 0, UINT32_MAX, &number, NULL) == OK ? (uint32_t)number
                                                                                                  : 0;
}

schedule_settings serve_flags_schedule(const command_flags *flags)
{
    const char *share = flag_text(flags, "--chat-share");
    schedule_settings out = {.window_us = serve_flags_number(flags, "--window-ms") * UINT64_C(1000),
                             .document_tokens = serve_flags_number(flags, "--document-tokens"),
                             .chunk_tokens = serve_flags_number(flags, "--chunk")};
    if (!is_auto(flag_text(flags, "--gap-ms")))
        out.gap_us = serve_flags_number(flags, "--gap-ms") * UINT64_C(1000);
    out.chat_share_set = share && decimal_read(span_from(share), &out.chat_share);
    return out;
}

/* ---- the config file ---- */

static const flag_spec *find_flag(const char *name)
{
    for (const flag_spec *f = serve_flags; f->name; f++)
        if (strcmp(f->name + 2, name) == 0)
            return f;
    return NULL;
}

static status check_setting(void *context, const char *name, const char *value, error *err)
{
    (void)context;
    const flag_spec *flag = find_flag(name);
    if (!flag || strcmp(name, "config") == 0)
        return error_set(err, ERR_INVALID, "no such setting; they are the flags of `headway serve` without --");
    if (strcmp(name, "api-key") == 0)
        return error_set(err, ERR_INVALID, "keys belong to a tenant: key or key-hash in [tenant default]");
    command_flags alone = {.spec = &serve_spec};
    alone.values[flag - serve_flags] = value;
    return serve_flags_check(&alone, err);
}

/* The command line's value, else the environment's, cut at commas. `text` and `keys`: the caller frees. */
static status split_keys(const command_flags *flags, buf *text, char ***keys, size_t *count, error *err)
{
    const char *given = flag_text(flags, "--api-key"), *environment = getenv("HEADWAY_API_KEY");
    buf_printf(text, "%s,%s", given ? given : "", environment ? environment : "");
    *keys = calloc(AUTH_KEYS_MAX, sizeof **keys);
    if (text->failed || !*keys)
        return error_set(err, ERR_MEMORY, "out of memory");
    for (char *key = strtok(text->data, ","); key; key = strtok(NULL, ",")) {
        if (*count == AUTH_KEYS_MAX)
            return error_set(err, ERR_LIMIT, "--api-key: more than %d keys", AUTH_KEYS_MAX);
        (*keys)[(*count)++] = key;
    }
    return given && !*count ? error_set(err, ERR_INVALID, "--api-key: empty") : OK;
}

status serve_flags_open_tenants(tenants **out, command_flags *flags, error *err)
{
    buf text = {0};
    char **keys = NULL;
    tenants_source source = {.config_path = flag_text(flags, "--config"), .rules.check = check_setting};
    status st = split_keys(flags, &text, &keys, &source.key_count, err);
    source.keys = keys;
    if (st == OK)
        st = tenants_open(out, &source, err);
    secret_wipe(text.data, text.size);
    buf_free(&text);
    free(keys);
    if (st)
        return st;
    uint32_t count = 0;
    const config_setting *settings = tenants_settings(*out, &count);
    for (uint32_t i = 0; i < count; i++) {
        size_t index = (size_t)(find_flag(settings[i].name) - serve_flags);
        if (!flags->values[index])
            flags->values[index] = settings[i].value;
    }
    return OK;
}

void serve_flags_curves(const command_flags *flags, char *path, size_t size)
{
    const char *given = flag_text(flags, "--curves"), *config = flag_text(flags, "--config");
    const char *slash = config ? strrchr(config, '/') : NULL;
    int folder = slash ? (int)(slash - config) + 1 : 0;
    path[0] = 0;
    if (given)
        snprintf(path, size, "%s", given);
    else if (config)
        snprintf(path, size, "%.*scurves.json", folder, config);
}

void serve_flags_forward(const command_flags *flags, config_forward *out)
{
    const char *url = flag_text(flags, "--forward-batch"), *key = flag_text(flags, "--forward-batch-key");
    snprintf(out->url, sizeof out->url, "%s", url ? url : "");
    snprintf(out->key, sizeof out->key, "%s", key ? key : "");
}

server_batch_config serve_flags_batch(const command_flags *flags)
{
    server_batch_config out = {.dir = flag_text(flags, "--batch-dir")};
    if (flag_text(flags, "--batch-dir-size"))
        flag_bytes(flags, "--batch-dir-size", &out.bytes_max, NULL);
    return out;
}
