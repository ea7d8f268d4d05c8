/* cli/serve.c: `headway serve`: argv to a running server. Binds the port, opens the model (or a runner without one),
 * then hands runner, tokenizer and template to engine and server. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/default_model.h"
#include "cli/serve_cache.h"
#include "cli/serve_flags.h"
#include "cli/serve_sim.h"
#include "cli/gguf_vocab.h"
#include "cli/vocab.h"
#include "runner/model_runner.h"
#include "server/api/constraints.h"
#include "server/server.h"
#include "sim/sim_runner.h"
#include "tensor/kv_type.h"

enum { TEMPLATE_BYTES_MAX = 4 << 20, QUEUE_MAX = 1024, MODEL_STREAMS_MAX = 4096 };

static const char chatml[] =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

typedef struct {
    command_flags flags;
    tenants *tenants;
    serve_cache cache;
    uint64_t cache_bytes; /* that the cache may hold */
    char curves[4096];
    char name[256];
    server *server;
    runner *runner;
    engine *engine;
    tokenizer *tokenizer;
    constraint_store *constraints;
    chat_template *chat_template;
    buf template_text; /* its source */
    uint64_t created_unix;
    sampling_params sampling; /* where a request says nothing */
} serve;

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
    buf *text = &s->template_text;
    status st = OK;
    if (path) {
        st = read_file(path, text, err);
        if (st == OK && (st = chat_template_compile(&s->chat_template, buf_span(text), err)))
            error_prefix(err, st, "--chat-template %s", path);
        return st;
    }
    buf_append(text, own.data ? own.data : "", own.size);
    if (own.size && chat_template_compile(&s->chat_template, own, err)) {
        log_warn("the model's chat template cannot be used (%s): chat needs --chat-template FILE", err->text);
        s->chat_template = NULL;
    }
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

/* What the model's makers advise (general.sampling.*, generation_config.json), for requests that say nothing. */
static void read_sampling(serve *s, const model_file *file)
{
    s->sampling = (sampling_params){.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1};
    double top_k = 0;
    const struct {
        const char *key;
        double low, high;
        float *out;
    } numbers[] = {{"temp", 0, 2, &s->sampling.temperature},
                   {"top_p", 0.001, 1, &s->sampling.top_p},
                   {"min_p", 0, 1, &s->sampling.min_p},
                   {"penalty_repeat", 0.01, 10, &s->sampling.repetition_penalty}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char key[64];
        double value;
        snprintf(key, sizeof key, "general.sampling.%s", numbers[i].key);
        if (model_file_f64(file, key, &value, NULL) == OK && value >= numbers[i].low && value <= numbers[i].high)
            *numbers[i].out = (float)value;
    }
    if (model_file_f64(file, "general.sampling.top_k", &top_k, NULL) == OK && top_k >= 0 && top_k <= 1e6)
        s->sampling.top_k = (uint32_t)top_k;
    if (s->sampling.temperature != 1 || s->sampling.top_p != 1 || s->sampling.top_k)
        log_info("sampling where a request says nothing: temperature %g, top_p %g, top_k %u, as the model advises",
                 (double)s->sampling.temperature, (double)s->sampling.top_p, s->sampling.top_k);
}

static status open_model(serve *s, const model_file *file, error *err)
{
    model_runner_config config = {
        .kernels = getenv("HEADWAY_CPU"), .progress.report = show_progress, .cache = s->cache.wish};
    char plan[512] = "";
    span own_template = {0};
    status st;
    config.threads = serve_flags_number(&s->flags, "--threads");
    config.context = serve_flags_number(&s->flags, "--ctx");
    config.sequences = serve_flags_number(&s->flags, "--parallel");
    const char *kv = flag_text(&s->flags, "--kv"); /* checked with the other flags */
    config.kv_by_weights = !strcmp(kv, "auto");
    if (!config.kv_by_weights)
        kv_type_find(kv, &config.kv_stored, NULL);
    if (config.sequences > MODEL_STREAMS_MAX)
        return error_set(err, ERR_INVALID, "--parallel: %u, with a model at most %d", config.sequences,
                         MODEL_STREAMS_MAX);
    st = model_file_is_directory(file) ? tokenizer_from_model(&s->tokenizer, file, err)
                                       : vocab_from_model(&s->tokenizer, file, err);
    if (st)
        return st;
    if (flag_text(&s->flags, "--kv-memory") && (st = flag_bytes(&s->flags, "--kv-memory", &config.kv_memory, err)))
        return st;
    read_sampling(s, file);
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
    sim_config base = {.context_length = serve_flags_number(&s->flags, "--ctx"),
                       .max_sequences = serve_flags_number(&s->flags, "--parallel")};
    serve_sim box;
    status st = serve_sim_read(&box, &base, &s->flags, err);
    if (st)
        return st;
    if ((st = vocab_of_bytes(&s->tokenizer, err)) || (st = load_template(s, span_from(chatml), err)))
        return st;
    if ((st = sim_runner_open(&s->runner, spec, &base, err)))
        return st == ERR_NOT_FOUND ? ERR_INVALID : st;
    if (box.text[0])
        log_info("%s", box.text);
    s->created_unix = clock_unix_seconds();
    snprintf(s->name, sizeof s->name, "%s", s->runner->info.model_name);
    return OK;
}

/* SIGHUP means "read the config again", also to a service without one; a terminal that closes still ends a server that
 * was started in it by hand. */
static bool keeps_at_hangup(const serve *s)
{
    return tenants_from_file(s->tenants) || !isatty(0);
}

static status open_server(serve *s, error *err)
{
    server_config config = {.host = flag_text(&s->flags, "--host"),
                            .port = (int)serve_flags_number(&s->flags, "--port"),
                            .tenants = s->tenants,
                            .keep_at_hangup = keeps_at_hangup(s),
                            .batch = serve_flags_batch(&s->flags),
                            .curves_path = s->curves};
    serve_flags_curves(&s->flags, s->curves, sizeof s->curves);
    serve_flags_forward(&s->flags, &config.forward_batch);
    if (strcmp(config.host, "localhost") == 0)
        config.host = "127.0.0.1";
    return server_create(&s->server, &config, err);
}

static status open_cache(serve *s, cache_config *out, error *err)
{
    char text[512] = "";
    const runner_info *info = &s->runner->info;
    status st = serve_cache_open(&s->cache, s->runner, out, err);
    if (st)
        return st;
    serve_cache_describe(&s->cache, s->runner, out, text, sizeof text);
    log_info("%s", text);
    s->cache_bytes = out->off ? 0 : out->idle_bytes ? out->idle_bytes : info->page_count * info->page_bytes;
    return OK;
}

static status open_engine(serve *s, error *err)
{
    engine_config config = {.policy = flag_text(&s->flags, "--policy"),
                            .schedule = serve_flags_schedule(&s->flags),
                            .tenants = tenants_table(s->tenants),
                            .max_queued = QUEUE_MAX,
                            .wake = server_wake,
                            .wake_context = s->server};
    char description[512] = "";
    engine_snapshot now;
    status st = open_cache(s, &config.cache, err);
    if (st || (st = engine_create(&s->engine, s->runner, &config, err)))
        return st;
    engine_read_snapshot(s->engine, &now);
    if ((st = tenants_check_gaps(s->tenants, (uint64_t)now.admission.smallest_gap_us, err)) ||
        (st = tenants_check_floors(s->tenants, s->cache_bytes, err)))
        return st;
    engine_describe(s->engine, description, sizeof description);
    if (description[0])
        log_info("%s", description);
    return engine_start(s->engine, err);
}

static status run(serve *s, error *err)
{
    size_t stops = 0;
    status st = open_engine(s, err);
    if (st)
        return st;
    server_model model = {.engine = s->engine,
                          .tokenizer = s->tokenizer,
                          .constraints = s->constraints = constraint_store_create(),
                          .chat_template = s->chat_template,
                          .template_text = s->template_text.data,
                          .tool_parser = flag_text(&s->flags, "--tool-parser"),
                          .reasoning_parser = flag_text(&s->flags, "--reasoning-parser"),
                          .name = s->name,
                          .created_unix = s->created_unix,
                          .sampling = s->sampling.top_p > 0 ? &s->sampling : NULL,
                          .context_length = engine_token_limit(s->engine),
                          .cache_bytes = s->cache_bytes};
    model.stop_tokens = tokenizer_eog(s->tokenizer, &stops);
    model.stop_token_count = (uint32_t)stops;
    log_info("%s: context %u tokens, %u streams at once", s->name, model.context_length, s->runner->info.max_sequences);
    if (tenants_from_file(s->tenants))
        log_info("%s: %u tenants, %zu keys", flag_text(&s->flags, "--config"), tenants_table(s->tenants)->count,
                 tenants_key_count(s->tenants));
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
    status st = serve_flags_check(&s.flags, &err);
    if (st == OK)
        st = serve_flags_open_tenants(&s.tenants, &s.flags, &err);
    if (st == OK)
        st = serve_sim_check(&s.flags, &err);
    if (st == OK)
        st = serve_cache_read(&s.cache, &s.flags, &err);
    if (st) /* a file that cannot be used counts as a wrong flag */
        return command_fail(&serve_spec, &err, 2);
    if (keeps_at_hangup(&s))
        signal(SIGHUP, SIG_IGN); /* until the server takes it */
    const char *kind = flag_text(&s.flags, "--runner");
    bool bad_model = false; /* a model that is no good is not a wrong call */
    if ((st = open_server(&s, &err)) == OK) {
        bool from_file = strcmp(kind, "model") == 0;
        st = from_file ? open_model_file(&s, &err) : open_sim(&s, kind, &err);
        bad_model = st && from_file;
    }
    if (st == OK)
        st = run(&s, &err);
    engine_destroy(s.engine);
    server_destroy(s.server);
    if (s.runner)
        s.runner->ops->close(s.runner);
    chat_template_destroy(s.chat_template);
    buf_free(&s.template_text);
    constraint_store_destroy(s.constraints);
    tokenizer_destroy(s.tokenizer);
    tenants_close(s.tenants);
    return st ? command_fail(&serve_spec, &err, st == ERR_INVALID && !bad_model ? 2 : 1) : 0;
}
