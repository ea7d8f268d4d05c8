/* cli/serve.c: `headway serve`: argv to a running server. Binds the port, opens the model (or a runner without one),
 * then hands runner, tokenizer and template to engine and server. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/vocab.h"
#include "runner/model_runner.h"
#include "server/server.h"
#include "sim/sim_runner.h"

enum { TEMPLATE_BYTES_MAX = 4 << 20, API_KEYS_MAX = 64, QUEUE_MAX = 1024 };

static const flag_spec serve_flags[] = {
    {"--model", "PATH", "the model, a GGUF file [the default model's place]", NULL},
    {"--host", "ADDRESS", "where to listen", "127.0.0.1"},
    {"--port", "N", "0: any free one", "8080"},
    {"--threads", "N", "worker threads [the machine's]", NULL},
    {"--ctx", "N", "tokens a conversation may hold [what fits]", NULL},
    {"--parallel", "N", "streams at once [16; with sim 1024]", NULL},
    {"--kv-memory", "SIZE", "of the page pool, e.g. 2G [what fits]", NULL},
    {"--api-key", "KEY[,KEY]", "clients must send one; also from HEADWAY_API_KEY", NULL},
    {"--policy", "NAME", "prefill-first or chunked", "prefill-first"},
    {"--chat-template", "FILE", "a Jinja file instead of the model's own", NULL},
    {"--runner", "NAME", "model, sim, sim:KEY=N,… or script:FILE", "model"},
    {NULL, NULL, NULL, NULL},
};
static const command_spec serve_spec = {
    .name = "serve",
    .summary = "Serves a model over an OpenAI-compatible HTTP API.",
    .flags = serve_flags,
    .notes = "SIGTERM lets running answers end; a second one, or Ctrl-C, stops at once.",
};

static const char chatml[] =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

typedef struct {
    command_flags flags;
    char *key_text; /* owned: the keys, cut at commas */
    const char *keys[API_KEYS_MAX];
    size_t key_count;
    char name[256];
    server *server;
    runner *runner;
    engine *engine;
    tokenizer *tokenizer;
    chat_template *chat_template;
    uint64_t created_unix;
} serve;

static status read_number(const serve *s, const char *name, uint64_t max, uint32_t *out, error *err)
{
    uint64_t value = 0;
    if (!flag_given(&s->flags, name) && !flag_text(&s->flags, name))
        return OK;
    status st = flag_number(&s->flags, name, 0, max, &value, err);
    *out = (uint32_t)value;
    return st;
}

static status read_keys(serve *s, error *err)
{
    const char *given = flag_text(&s->flags, "--api-key"), *environment = getenv("HEADWAY_API_KEY");
    buf text = {0};
    buf_printf(&text, "%s,%s", given ? given : "", environment ? environment : "");
    s->key_text = text.data;
    for (char *key = strtok(s->key_text, ","); key; key = strtok(NULL, ",")) {
        if (s->key_count == API_KEYS_MAX)
            return error_set(err, ERR_LIMIT, "--api-key: more than %d keys", API_KEYS_MAX);
        s->keys[s->key_count++] = key;
    }
    if (given && !s->key_count)
        return error_set(err, ERR_INVALID, "--api-key: empty");
    return OK;
}

static status read_file(const char *path, buf *out, error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    char piece[65536];
    size_t size;
    out->limit = TEMPLATE_BYTES_MAX;
    while ((size = fread(piece, 1, sizeof piece, file)) > 0)
        buf_append(out, piece, size);
    bool failed = ferror(file);
    fclose(file);
    if (failed)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    return out->failed ? error_set(err, ERR_LIMIT, "%s: longer than %d bytes", path, TEMPLATE_BYTES_MAX) : OK;
}

/* --chat-template, else what came with the model; none at all is allowed. */
static status load_template(serve *s, span own, error *err)
{
    const char *path = flag_text(&s->flags, "--chat-template");
    buf text = {0};
    status st = OK;
    if (path) {
        st = read_file(path, &text, err);
        if (st == OK && (st = chat_template_compile(&s->chat_template, buf_span(&text), err)))
            error_prefix(err, st, "--chat-template %s", path);
    } else if (own.size && chat_template_compile(&s->chat_template, own, err)) {
        log_warn("the model's chat template cannot be used (%s): chat needs --chat-template FILE", err->text);
        s->chat_template = NULL;
    }
    buf_free(&text);
    return st;
}

/* The file's name without folder and ".gguf". */
static void name_model(serve *s, const char *path)
{
    const char *base = strrchr(path, '/');
    snprintf(s->name, sizeof s->name, "%.200s", base ? base + 1 : path);
    size_t size = strlen(s->name);
    if (size > 5 && strcmp(s->name + size - 5, ".gguf") == 0)
        s->name[size - 5] = 0;
}

static void show_progress(void *context, const char *what, double fraction)
{
    static int last = -1;
    int percent = (int)(fraction * 100);
    (void)context;
    if (isatty(2)) {
        fprintf(stderr, "\r%s %3d%%%s", what, percent, percent >= 100 ? "\n" : "");
    } else if (percent / 25 != last) {
        last = percent / 25;
        log_info("%s %d%%", what, percent);
    }
}

static status default_model_path(char *out, size_t size, error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool xdg = cache && cache[0] == '/';
    snprintf(out, size, "%s%s/headway/models/SmolLM2-135M-Instruct.Q4_1.gguf",
             xdg    ? cache
             : home ? home
                    : "",
             xdg ? "" : "/.cache");
    if (access(out, R_OK))
        return error_set(err, ERR_IO,
                         "--model is missing, and the default model is not at %s (`make serve` fetches it)", out);
    return OK;
}

static status open_model(serve *s, const model_file *file, error *err)
{
    model_runner_config config = {.kernels = getenv("HEADWAY_CPU"), .progress.report = show_progress};
    char plan[512] = "";
    span own_template = {0};
    status st;
    if ((st = vocab_from_model(&s->tokenizer, file, err)) ||
        (st = read_number(s, "--threads", 1024, &config.threads, err)) ||
        (st = read_number(s, "--ctx", 1u << 24, &config.context, err)) ||
        (st = read_number(s, "--parallel", 4096, &config.sequences, err)))
        return st;
    if (flag_text(&s->flags, "--kv-memory") && (st = flag_bytes(&s->flags, "--kv-memory", &config.kv_memory, err)))
        return st;
    model_file_string(file, "tokenizer.chat_template", &own_template, NULL);
    if ((st = load_template(s, own_template, err)))
        return st;
    config.vocab_limit = tokenizer_vocab_size(s->tokenizer);
    st = model_runner_open(&s->runner, file, &config, plan, sizeof plan, err);
    if (st == OK && plan[0])
        log_info("%s", plan);
    return st;
}

static status open_model_file(serve *s, error *err)
{
    char path[4096];
    const char *given = flag_text(&s->flags, "--model");
    status st = OK;
    if (given)
        snprintf(path, sizeof path, "%s", given);
    else
        st = default_model_path(path, sizeof path, err);
    model_file *file = NULL;
    if (st || (st = model_file_open(&file, path, err)))
        return st;
    struct stat facts;
    if (stat(path, &facts) == 0)
        s->created_unix = (uint64_t)facts.st_mtime;
    name_model(s, path);
    st = open_model(s, file, err);
    model_file_close(file);
    return st;
}

static status open_sim(serve *s, const char *spec, error *err)
{
    sim_config base = {0};
    status st;
    if ((st = read_number(s, "--ctx", 1u << 24, &base.context_length, err)) ||
        (st = read_number(s, "--parallel", 65536, &base.max_sequences, err)) ||
        (st = vocab_of_bytes(&s->tokenizer, err)) || (st = load_template(s, span_from(chatml), err)))
        return st;
    if ((st = sim_runner_open(&s->runner, spec, &base, err)))
        return st == ERR_NOT_FOUND ? ERR_INVALID : st;
    s->created_unix = clock_unix_seconds();
    snprintf(s->name, sizeof s->name, "%s", s->runner->info.model_name);
    return OK;
}

static status open_server(serve *s, error *err)
{
    uint32_t port = 0;
    status st;
    if ((st = read_number(s, "--port", 65535, &port, err)) || (st = read_keys(s, err)))
        return st;
    server_config config = {
        .host = flag_text(&s->flags, "--host"), .port = (int)port, .api_keys = s->keys, .api_key_count = s->key_count};
    if (strcmp(config.host, "localhost") == 0)
        config.host = "127.0.0.1";
    return server_create(&s->server, &config, err);
}

static status run(serve *s, error *err)
{
    size_t stops = 0;
    engine_config config = {.policy = flag_text(&s->flags, "--policy"),
                            .max_queued = QUEUE_MAX,
                            .wake = server_wake,
                            .wake_context = s->server};
    status st;
    if ((st = engine_create(&s->engine, s->runner, &config, err)) || (st = engine_start(s->engine, err)))
        return st;
    server_model model = {.engine = s->engine,
                          .tokenizer = s->tokenizer,
                          .chat_template = s->chat_template,
                          .name = s->name,
                          .created_unix = s->created_unix,
                          .context_length = engine_token_limit(s->engine),
                          .queue_max = QUEUE_MAX};
    model.stop_tokens = tokenizer_eog(s->tokenizer, &stops);
    model.stop_token_count = (uint32_t)stops;
    const char *host = flag_text(&s->flags, "--host");
    log_info("%s: context %u tokens, %u streams at once", s->name, model.context_length, s->runner->info.max_sequences);
    log_info("listening on http://%s%s%s:%d", strchr(host, ':') ? "[" : "", host, strchr(host, ':') ? "]" : "",
             server_port(s->server));
    return server_run(s->server, &model, err);
}

/* Thousands of connections need as many descriptors. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int serve_main(int argc, char **argv)
{
    serve s = {0};
    error err = {0};
    int code = command_parse(&serve_spec, argc, argv, &s.flags);
    if (code != COMMAND_RUN)
        return code;
    raise_file_limit();
    const char *kind = flag_text(&s.flags, "--runner");
    status st = open_server(&s, &err);
    if (st == OK)
        st = strcmp(kind, "model") == 0 ? open_model_file(&s, &err) : open_sim(&s, kind, &err);
    if (st == OK)
        st = run(&s, &err);
    engine_destroy(s.engine);
    server_destroy(s.server);
    if (s.runner)
        s.runner->ops->close(s.runner);
    chat_template_destroy(s.chat_template);
    tokenizer_destroy(s.tokenizer);
    free(s.key_text);
    return st ? command_fail(&serve_spec, &err, st == ERR_INVALID ? 2 : 1) : 0;
}
