/* cli/synth.c: `headway synth`: a model of random weights in the shape of a config.json. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/synth_dir.h"
#include "cli/synth_vocab.h"
#include "model/write/model_write.h"

static const flag_spec FLAGS[] = {
    {"--config", "FILE", "the config.json of a Hugging Face model", NULL},
    {"--out", "PATH", "a new file (gguf) or directory (hf, mlx)", NULL},
    {"--format", "NAME", "gguf, hf or mlx", "gguf"},
    {"--type", "NAME", "f32, f16, bf16, q8_0, q4_0, mxfp8, mxfp4, affine4", "bf16"},
    {"--tokenizer", "PATH", "a tokenizer.json or a GGUF, instead of one of bytes", NULL},
    {"--seed", "N", "same seed, same weights, in every format", "1"},
    {NULL, NULL, NULL, NULL},
};
static const command_spec SPEC = {
    .name = "synth",
    .summary = "Writes a model with random weights in the shape of any config.json, to measure speed and memory "
               "without a download. Its answers mean nothing, and its metadata says so.",
    .flags = FLAGS,
    .notes = "Families: llama, qwen2, qwen3, gemma3, qwen3_moe, qwen3_next, qwen3_5, qwen3_5_moe, also inside "
             "text_config; a vision tower and MTP are not written.\nBesides f32, f16 and bf16: gguf has q8_0, q4_0 "
             "and mxfp4; mlx mxfp8, mxfp4 and affine4.",
};

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

/* --- progress --- */

enum { LINE_EVERY_S = 5 };

typedef struct {
    const char *path;
    bool terminal;
    uint64_t started_us, said_us;
} progress;

static void show_progress(void *context, uint64_t done, uint64_t all)
{
    progress *p = context;
    uint64_t now = clock_now_us();
    double seconds = (double)(now - p->started_us) / 1e6, percent = all ? 100.0 * (double)done / (double)all : 100;
    if (p->terminal) {
        fprintf(stderr, "\r%s: %5.1f%% of %.2f GB, %.0f MB/s\033[K", p->path, percent, (double)all / 1e9,
                seconds > 0 ? (double)done / 1e6 / seconds : 0);
        fflush(stderr);
    } else if (now - p->said_us >= LINE_EVERY_S * 1000000u) {
        p->said_us = now;
        fprintf(stderr, "%s: %.0f%% of %.2f GB after %.0f s\n", p->path, percent, (double)all / 1e9, seconds);
    }
}

/* --- flags --- */

static int index_of(const char *text, const char *(*name)(int), int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, name(i)) == 0)
            return i;
    return -1;
}

static const char *name_of_format(int i)
{
    return format_name((model_format)i);
}

static const char *name_of_type(int i)
{
    return type_name((weight_type)i);
}

typedef struct {
    const char *config, *out, *tokenizer;
    model_format format;
    weight_type type;
    uint64_t seed;
} settings;

static status read_flags(const command_flags *flags, settings *out, error *err)
{
    *out = (settings){.config = flag_text(flags, "--config"),
                      .out = flag_text(flags, "--out"),
                      .tokenizer = flag_text(flags, "--tokenizer")};
    if (!out->config || !out->out)
        return error_set(err, ERR_INVALID, "%s is missing (see `headway synth --help`)",
                         out->config ? "--out PATH" : "--config FILE");
    const char *format = flag_text(flags, "--format"), *type = flag_text(flags, "--type");
    int format_index = index_of(format, name_of_format, FORMAT_COUNT),
        type_index = index_of(type, name_of_type, TYPE_COUNT);
    if (format_index < 0)
        return error_set(err, ERR_INVALID, "--format: \"%s\", expected gguf, hf or mlx", format);
    if (type_index < 0)
        return error_set(err, ERR_INVALID,
                         "--type: \"%s\", expected f32, f16, bf16, q8_0, q4_0, mxfp8, mxfp4 or affine4", type);
    out->format = (model_format)format_index;
    out->type = (weight_type)type_index;
    return flag_number(flags, "--seed", 0, UINT64_MAX, &out->seed, err);
}

/* --- the work --- */

static status read_config(const char *path, json_t **out, error *err)
{
    json_error_t why;
    *out = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (*out)
        return OK;
    return why.line > 0 ? error_set(err, ERR_INVALID, "%s: line %d: %s", path, why.line, why.text)
                        : error_set(err, ERR_IO, "%s: %s", path, why.text);
}

typedef struct {
    char text[16];
} size_text;

static size_text parameters_text(uint64_t count) /* "34.7B", "135M" */
{
    size_text out;
    bool billions = count >= 1000000000;
    snprintf(out.text, sizeof out.text, "%.3g%s", (double)count / (billions ? 1e9 : 1e6), billions ? "B" : "M");
    return out;
}

static status write_model(const settings *s, const model_plan *plan, const json_t *config, synth_vocab *vocab,
                          error *err)
{
    progress p = {.path = s->out, .terminal = isatty(2), .started_us = clock_now_us()};
    p.said_us = p.started_us;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    write_options options = {
        .threads = cpus > 1 ? WRITE_THREADS_MAX : 1, .progress = show_progress, .context = &p, .stop = &stopped};
    size_text parameters = parameters_text(plan->parameters);
    status st;
    if (s->format == FORMAT_GGUF) {
        gguf_keys keys = {0};
        char name[128];
        snprintf(name, sizeof name, "Synthetic %s %s (random weights, seed %" PRIu64 ")",
                 shape_model_type(plan->shape.family), parameters.text, plan->seed);
        gguf_put_plan(&keys, plan, name);
        buf_append(&keys.text, vocab->keys.text.data ? vocab->keys.text.data : "", vocab->keys.text.size);
        keys.text.failed |= vocab->keys.text.failed;
        keys.count += vocab->keys.count;
        st = model_write_gguf(plan, &keys, s->out, &options, err);
        gguf_keys_free(&keys);
    } else {
        st = synth_write_directory(plan, config, vocab, s->out, &options, err);
    }
    if (p.terminal)
        fprintf(stderr, "\r\033[K");
    if (!st)
        printf("%s: %s %s, %s random parameters, %.2f GB, seed %" PRIu64 ", %.1f s\n", s->out, format_name(s->format),
               type_name(s->type), parameters.text, (double)plan->bytes / 1e9, plan->seed,
               (double)(clock_now_us() - p.started_us) / 1e6);
    return st;
}

static status synthesize(const settings *s, error *err)
{
    json_t *config = NULL;
    model_shape shape;
    model_plan plan = {0};
    synth_vocab vocab = {0};
    status st = read_config(s->config, &config, err);
    if (!st)
        st = shape_read(&shape, config, s->config, err);
    if (!st && (st = model_plan_build(&plan, &shape, s->format, s->type, s->seed, err)))
        error_prefix(err, st, "%s", s->config);
    if (!st && s->tokenizer)
        st = synth_vocab_load(&vocab, s->tokenizer, shape.vocab, s->format == FORMAT_GGUF, err);
    else if (!st && (st = synth_vocab_bytes(&vocab, shape.vocab, s->format == FORMAT_GGUF, err)))
        error_prefix(err, st, "%s", s->config);
    if (!st && !s->tokenizer) { /* what it says is text: sent back it is the same tokens */
        plan.said_first = '!';
        plan.said_end = '~' + 1;
    }
    if (!st)
        st = write_model(s, &plan, config, &vocab, err);
    synth_vocab_free(&vocab);
    model_plan_free(&plan);
    json_decref(config);
    return st;
}

int synth_main(int argc, char **argv)
{
    command_flags flags;
    settings s;
    error err = {{0}};
    int code = command_parse(&SPEC, argc, argv, &flags);
    if (code != COMMAND_RUN)
        return code;
    if (read_flags(&flags, &s, &err))
        return command_fail(&SPEC, &err, 2);
    struct sigaction action = {.sa_handler = stop, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    status st = synthesize(&s, &err);
    return st ? command_fail(&SPEC, &err, st == ERR_CANCELLED ? 130 : 1) : 0;
}
