/* cli/plan_flags.c: the flags of `headway plan`, and how they become a request. */
#include "cli/plan_flags.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/decimal.h"
#include "cli/plan_model.h"
#include "cli/run_names.h"

static const flag_spec plan_flags[] = {
    {"--model", "M", "NAME:TYPE, config.json, folder or GGUF file", NULL},
    {"--hardware", "H", "a name of the table [this machine]", NULL},
    {"--bandwidth", "GB/s", "instead of a name, or of the row's", NULL},
    {"--flops", "TFLOPS", "dense matmul rate in the weights' type", NULL},
    {"--memory", "GB", "memory of a device", NULL},
    {"--watts", "W", "of a device under load", NULL},
    {"--devices", "N", "that share the model", "1"},
    {"--link", "GB/s", "between two of them [the row's]", NULL},
    {"--batch", "N", "streams at once", "1"},
    {"--ctx", "N", "tokens a stream holds; decode is said at that depth", NULL},
    {"--kv", "TYPE", "f16, bf16, q8, q4", "f16"},
    {"--step-gb", "X", "GB of weights a step reads, instead of the model's", NULL},
    {"--prompt", "N", "tokens to the first of the answer [--ctx or 4096]", NULL},
    {"--cached", "N", "of them in the cache", NULL},
    {"--prefill-tok-s", "X", "the rate of reading prompts, given", NULL},
    {"--overhead", "S", "seconds of a request besides", NULL},
    {"--chunk", "N", "tokens of a chunk", "2048"},
    {"--document", "N", "tokens of a document beside chats [60000]", NULL},
    {"--gap-ms", "N", "bound of policy cadence [50, 4 steps at least]", NULL},
    {"--chat-share", "F", "of the time that chats get at least", "0.25"},
    {"--ssd", "GB/s", "the disk that prefixes come back from", "7"},
    {"--sessions", "N", "kept warm in the cache", "0"},
    {"--session-tokens", "N", "of each [--ctx or 23000]", NULL},
    {"--read-ratio", "R", "tokens read for each one written", "77"},
    {"--draft", "K", "tokens drafted a step", NULL},
    {"--accept", "A", "chance that one of them is taken", "0.7"},
    {"--compare", "A,B", "two machines under the same load", NULL},
    {"--list", "WHAT", "hardware or models", NULL},
    {"--import", "FILE", "take measured runs of others", NULL},
    {"--explain", NULL, "each figure's formula, with its numbers", NULL},
    {"--json", NULL, "one JSON object", NULL},
    {NULL, NULL, NULL, NULL},
};

const command_spec plan_spec = {
    .name = "plan",
    .summary = "Says what a machine will do with a model: memory, decode, prefill, gaps, energy.",
    .flags = plan_flags,
    .notes = "Without flags: a worked example for this machine.",
};

/* ---- numbers ---- */

/* 0: not given. */
static status number(const command_flags *f, const char *name, double least, double most, double *out, error *err)
{
    const char *text = flag_text(f, name);
    double value;
    if (!text)
        return OK;
    if (!decimal_read(span_from(text), &value) || value < least || value > most)
        return error_set(err, ERR_INVALID, "%s: '%.40s' is not a number from %.12g to %.12g", name, text, least, most);
    *out = value;
    return OK;
}

static status whole(const command_flags *f, const char *name, double least, double most, double *out, error *err)
{
    status st = number(f, name, least, most, out, err);
    if (!st && flag_text(f, name) && *out != floor(*out))
        return error_set(err, ERR_INVALID, "%s: '%.40s' is not a whole number", name, flag_text(f, name));
    return st;
}

typedef struct {
    double devices, link, watts, bandwidth, flops, memory, step_gb, batch, context, draft, gap_ms, cached;
} plan_numbers;

static status read_numbers(const command_flags *f, plan_request *q, plan_numbers *n, error *err)
{
    const struct {
        const char *name;
        double least, most, *out;
        bool whole;
    } table[] = {{"--bandwidth", 0.01, 1e5, &n->bandwidth, false},
                 {"--flops", 1e-6, 1e5, &n->flops, false},
                 {"--memory", 0.001, 1e5, &n->memory, false},
                 {"--watts", 0.1, 5000, &n->watts, false},
                 {"--devices", 1, 4096, &n->devices, true},
                 {"--link", 1e-4, 1e4, &n->link, false},
                 {"--batch", 1, 4096, &n->batch, true},
                 {"--ctx", 1, 1e8, &n->context, true},
                 {"--step-gb", 1e-6, 1e5, &n->step_gb, false},
                 {"--prompt", 1, 1e8, &q->prompt, true},
                 {"--cached", 0, 1e8, &n->cached, true},
                 {"--prefill-tok-s", 1e-3, 1e9, &q->prefill_tok_s, false},
                 {"--overhead", 0, 3600, &q->overhead_s, false},
                 {"--chunk", 1, 1e6, &q->chunk, true},
                 {"--document", 1, 1e8, &q->document, true},
                 {"--gap-ms", 1, 3600000, &n->gap_ms, false},
                 {"--chat-share", 0, 0.9, &q->chat_share, false},
                 {"--ssd", 0.001, 1e4, &q->ssd_gb_s, false},
                 {"--sessions", 0, 1e6, &q->sessions, true},
                 {"--session-tokens", 1, 1e8, &q->session_tokens, true},
                 {"--read-ratio", 0.001, 1e6, &q->reads_per_token, false},
                 {"--draft", 1, 64, &n->draft, true},
                 {"--accept", 0, 1, &q->accept, false}};
    status st = OK;
    for (size_t i = 0; i < sizeof table / sizeof *table && !st; i++)
        st = (table[i].whole ? whole : number)(f, table[i].name, table[i].least, table[i].most, table[i].out, err);
    return st;
}

/* ---- hardware ---- */

static void change(plan_request *q, double *field, double value)
{
    if (value <= 0)
        return;
    q->hardware_changed = q->hardware_changed || *field != value;
    *field = value;
}

static status read_hardware(plan_request *q, plan_machine_words *machine, const command_flags *f, const char *name,
                            const plan_numbers *n, error *err)
{
    hardware *hw = &q->box.hw;
    const hardware *row = NULL;
    bool rate_only = q->prefill_tok_s > 0 && !n->step_gb && !n->bandwidth && !n->memory && !n->flops;
    status st = name ? hardware_find(&row, name, err) : OK;
    if (st)
        return st;
    q->hardware_from = "the table";
    if (row) {
        *hw = *row;
    } else if (rate_only && !flag_given(f, "--model")) {
        *hw = (hardware){.name = "none", .title = "none", .family = "other", .kind = HW_CARD};
        q->hardware_from = "not asked for";
    } else if (n->bandwidth > 0) {
        *hw = (hardware){.name = "custom", .title = "as given", .family = "other", .kind = HW_CARD};
        q->hardware_from = "flags";
    } else {
        if ((st = plan_machine(hw, machine, err)))
            return st;
        q->hardware_from =
            hw->title == machine->title ? "this machine, measured in a moment" : "this machine: the table";
    }
    change(q, &hw->bandwidth_gb_s, n->bandwidth);
    change(q, &hw->memory_gb, n->memory);
    for (int i = 0; i < RATE_KINDS; i++)
        change(q, &hw->tflops[i], n->flops);
    if (n->watts > 0)
        hw->watts = n->watts;
    if (row && q->hardware_changed)
        q->hardware_from = "the table, changed by flags";
    hardware known = *hw;
    if (known.memory_gb <= 0) /* not said */
        known.memory_gb = 1;
    if (known.bandwidth_gb_s <= 0)
        known.bandwidth_gb_s = 1;
    return hardware_check(&known, err);
}

/* ---- the model ---- */

static bool is_there(const char *model)
{
    char path[4096];
    const char *colon = strrchr(model, ':');
    snprintf(path, sizeof path, "%.*s", colon ? (int)(colon - model) : 0, model);
    return access(model, F_OK) == 0 || (colon && access(path, F_OK) == 0);
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), tail = strlen(end);
    return size >= tail && !strcmp(text + size - tail, end);
}

/* "Qwen/Qwen3-8B" is a name. */
static bool is_path(const char *model)
{
    return model[0] == '/' || model[0] == '.' || ends_with(model, ".json") || ends_with(model, ".gguf");
}

/* A mixture's own mean; but where experts and the rest differ and the file is of about that size, the type's two. */
static void take_file_bits(cost_box *b, double bytes)
{
    const double near = 0.03;
    if (bytes <= 0 || !b->sums.total || (b->type.always_bits > 0 && fabs(cost_weight_bytes(b) / bytes - 1) < near))
        return;
    b->type.bits = bytes * 8 / (double)b->sums.total;
    b->type.always_bits = 0;
}

static status read_model(plan_request *q, const command_flags *f, const char *fallback, error *err, int *exit_code)
{
    static const char *const from[] = {"the catalogue", "its config.json", "its folder", "its file"};
    plan_model model;
    const weight_type *type;
    const char *name = flag_text(f, "--model") ? flag_text(f, "--model") : fallback;
    status st = plan_model_find(&model, name, err);
    if (st) {
        bool file = is_there(name);
        *exit_code = file || is_path(name) ? PLAN_WRONG_FILE : PLAN_WRONG_FLAG;
        return file || !is_path(name) ? st : error_set(err, ERR_IO, "%s: no such file or folder", name);
    }
    if ((st = weight_type_find(&type, model.type[0] ? model.type : "f16", err)))
        return st;
    q->model = true;
    q->model_from = flag_text(f, "--model") ? from[model.kind] : "the default";
    q->box.shape = model.shape;
    run_model_name(q->box.shape.name, &model.shape); /* under which its runs are kept */
    q->box.type = *type;
    model_shape_sums(&model.shape, &q->box.sums);
    q->type_assumed = !model.type[0];
    take_file_bits(&q->box, (double)model.weight_bytes);
    return OK;
}

/* ---- the load ---- */

static void fill_load(plan_request *q, const plan_numbers *n)
{
    double most = q->model && q->box.shape.context ? q->box.shape.context : INFINITY;
    q->batch = (uint32_t)n->batch;
    q->box.devices = (uint32_t)n->devices;
    q->box.link_gb_s = n->devices > 1 ? (n->link > 0 ? n->link : q->box.hw.link_gb_s) : 0;
    q->box.step_bytes_fixed = n->step_gb * 1e9;
    q->depth = n->context;
    q->context = n->context > 0 ? n->context : fmin(8192, most);
    q->prompt = q->prompt > 0 ? q->prompt : n->context > 1 ? n->context : fmin(4096, most);
    q->cached = n->cached;
    q->document = q->document > 0 ? q->document : fmin(60000, most);
    q->session_tokens = q->session_tokens > 0 ? q->session_tokens : n->context > 0 ? n->context : fmin(23000, most);
    q->draft = (uint32_t)n->draft;
    q->gap_s = n->gap_ms / 1e3;
}

status plan_flags_read(plan_request *out, plan_machine_words *machine, const command_flags *f, const char *name,
                       error *err, int *exit_code)
{
    plan_numbers n = {.cached = -1};
    *out = (plan_request){.overhead_s = -1};
    *exit_code = PLAN_WRONG_FLAG;
    status st = read_numbers(f, out, &n, err);
    if (!st)
        st = kv_bits_find(&out->box.kv_bits, flag_text(f, "--kv"), err);
    if (st)
        return st;
    out->kv_changed = out->box.kv_bits != 16;
    if ((st = read_hardware(out, machine, f, name ? name : flag_text(f, "--hardware"), &n, err)))
        return st;
    bool modelless = n.step_gb > 0 || (out->prefill_tok_s > 0 && out->box.hw.bandwidth_gb_s <= 0);
    const char *fallback =
        name || flag_given(f, "--hardware") || n.bandwidth > 0 ? "qwen3.6-35b-a3b:mxfp8" : "smollm2-135m:q4_1";
    if ((flag_given(f, "--model") || !modelless) && (st = read_model(out, f, fallback, err, exit_code)))
        return st;
    fill_load(out, &n);
    return OK;
}

status plan_flags_pair(const command_flags *f, char a[64], char b[64], error *err)
{
    const char *text = flag_text(f, "--compare"), *comma = strchr(text, ',');
    size_t first = comma ? (size_t)(comma - text) : 0, second = comma ? strlen(comma + 1) : 0;
    if (!comma || first == 0 || second == 0 || first > 63 || second > 63 || strchr(comma + 1, ','))
        return error_set(err, ERR_INVALID, "--compare: '%.80s' is not two names with a comma between, as m4-max,h100",
                         text);
    snprintf(a, 64, "%.*s", (int)first, text);
    snprintf(b, 64, "%s", comma + 1);
    return OK;
}
