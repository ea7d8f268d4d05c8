/* cli/inspect.c: `headway inspect FILE [--json]`. Exit 0 when the file reads (whether Headway runs it or not), 1 when
 * not. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/inspect_facts.h"

enum { SHORT_TOKENS = 4096, TEXT_BYTES = 32, WORDS_BYTES = 512 };

typedef struct {
    char text[TEXT_BYTES];
} number_text;

typedef struct {
    char text[WORDS_BYTES];
} words_text;

/* 49152 -> "49,152" */
static number_text grouped(uint64_t number)
{
    char digits[TEXT_BYTES];
    number_text out;
    int count = snprintf(digits, sizeof digits, "%" PRIu64, number), used = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            out.text[used++] = ',';
        out.text[used++] = digits[i];
    }
    out.text[used] = 0;
    return out;
}

/* Powers of 1,000 with three digits: "98.4 M", "1.02 G"; the unit's letter follows. */
static number_text scaled(uint64_t number, const char *unit)
{
    static const char *const PREFIXES[] = {"", "k", "M", "G", "T", "P", "E"};
    double value = (double)number;
    int prefix = 0;
    for (; value >= 999.5; prefix++)
        value /= 1000;
    number_text out;
    int decimals = prefix == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(out.text, sizeof out.text, "%.*f %s%s", decimals, value, PREFIXES[prefix], unit);
    return out;
}

/* Words from the file, safe for a terminal. */
static words_text plain(span words)
{
    words_text out;
    size_t n = words.size < WORDS_BYTES - 1 ? words.size : WORDS_BYTES - 1;
    for (size_t i = 0; i < n; i++)
        out.text[i] = words.data[i] >= 0x20 && words.data[i] < 0x7f ? words.data[i] : '?';
    out.text[n] = 0;
    return out;
}

static void print_architecture(const inspect_facts *f)
{
    printf("architecture   %s", f->architecture.size ? plain(f->architecture).text : "not said");
    if (f->layers)
        printf(", %" PRIu64 " layer%s of %s", f->layers, f->layers == 1 ? "" : "s", grouped(f->hidden).text);
    if (f->heads)
        printf(", %" PRIu64 " heads of %" PRIu64 " (%" PRIu64 " for KV)", f->heads, f->head_dim, f->kv_heads);
    if (f->feed_forward)
        printf(", feed-forward %s", grouped(f->feed_forward).text);
    if (f->experts)
        printf(", %" PRIu64 " experts (%" PRIu64 " used)", f->experts, f->experts_used);
    if (f->recurrent_layers)
        printf(", %" PRIu64 " of the layers with a recurrent state", f->recurrent_layers);
    printf("\nparameters     %s\n", scaled(f->parameters, "").text);
    if (f->draft_tensors)
        printf("not loaded     multi-token prediction (%" PRIu64 " tensors): recognised, not used yet\n",
               f->draft_tensors);
    if (f->vision_tensors)
        printf("not loaded     a vision tower (%" PRIu64 " tensors): text only\n", f->vision_tensors);
}

static void print_types(const inspect_facts *f)
{
    printf("stored as      %s%s", f->file_type ? f->file_type : "", f->file_type ? ": " : "");
    const char *comma = "";
    for (uint32_t id = 0; id < DT_COUNT; id++) {
        if (f->types[id].tensors == 0)
            continue;
        printf("%s%" PRIu64 " x %s (%s)", comma, f->types[id].tensors, dtype_get(id)->name,
               scaled(f->types[id].bytes, "B").text);
        comma = ", ";
    }
    puts(*comma ? "" : "no tensors");
}

static void print_needs(const inspect_facts *f)
{
    printf("weights        %s\n", scaled(f->weight_bytes, "B").text);
    printf("KV cache       %s per token (f16)\n", scaled(f->kv_bytes_per_token, "B").text);
    if (f->state_bytes)
        printf("state          %s per sequence (f32)\n", scaled(f->state_bytes, "B").text);
    printf("memory         ");
    if (f->context == 0 || f->context > SHORT_TOKENS)
        printf("%s for %s tokens%s", scaled(inspect_memory(f, SHORT_TOKENS), "B").text, grouped(SHORT_TOKENS).text,
               f->context ? ", " : "");
    if (f->context)
        printf("%s for the full context of %s", scaled(inspect_memory(f, f->context), "B").text,
               grouped(f->context).text);
    putchar('\n');
}

/* Did `headway synth` write it? */
static bool is_synthetic(const model_file *file, uint64_t *seed)
{
    bool synthetic = false;
    model_file_bool(file, "headway.synthetic", &synthetic, NULL);
    model_file_u64(file, "headway.synthetic_seed", seed, NULL);
    return synthetic;
}

static void print_human(const inspect_facts *f, const model_file *file)
{
    printf("%s\n", f->name.size ? plain(f->name).text : "A model without a name");
    uint64_t seed = 0;
    if (is_synthetic(file, &seed))
        printf("synthetic      yes: random weights (seed %" PRIu64 "), its answers mean nothing\n", seed);
    printf("file           %s (%s, %s)\n", model_file_path(file), scaled(model_file_bytes(file), "B").text,
           model_file_format(file));
    print_architecture(f);
    print_types(f);
    printf("context        %s tokens", f->context ? grouped(f->context).text : "unknown");
    if (f->window)
        printf(", sliding window of %s in some layers", grouped(f->window).text);
    printf("\ntokenizer      %s%s%s, %s tokens\n", f->tokenizer_model.size ? plain(f->tokenizer_model).text : "none",
           f->tokenizer_pre.size ? " / " : "", plain(f->tokenizer_pre).text, grouped(f->vocabulary).text);
    printf("chat template  %s\n", f->chat_template ? "yes" : "no (completions only, or give --chat-template FILE)");
    print_needs(f);
    printf("runs           %s\n", f->reason_count ? "no" : "yes");
    for (uint32_t i = 0; i < f->reason_count; i++)
        printf("  because      %s\n", plain(span_from(f->reasons[i].text)).text);
}

static json_t *json_words(span words)
{
    if (words.size == 0)
        return json_null();
    json_t *text = json_stringn(words.data, words.size); /* NULL when not UTF-8 */
    return text ? text : json_string(plain(words).text);
}

static json_t *json_count(uint64_t number) /* JSON integers end at 2^63 - 1; 0 is "the file does not say" */
{
    if (number == 0)
        return json_null();
    return json_integer(number > INT64_MAX ? INT64_MAX : (json_int_t)number);
}

static json_t *json_types(const inspect_facts *f)
{
    json_t *list = json_array();
    for (uint32_t id = 0; id < DT_COUNT; id++)
        if (f->types[id].tensors)
            json_array_append_new(list,
                                  json_pack("{ss sI sI sb}", "type", dtype_get(id)->name, "tensors",
                                            (json_int_t)f->types[id].tensors, "bytes", (json_int_t)f->types[id].bytes,
                                            "supported", dtype_get(id)->supported));
    return list;
}

static json_t *json_reasons(const inspect_facts *f)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < f->reason_count; i++)
        json_array_append_new(list, json_words(span_from(f->reasons[i].text)));
    return list;
}

static json_t *json_memory(const inspect_facts *f)
{
    return json_pack("{so so so so so}", "weight_bytes", json_count(f->weight_bytes), "kv_bytes_per_token",
                     json_count(f->kv_bytes_per_token), "state_bytes_per_sequence", json_count(f->state_bytes),
                     "bytes_4096_tokens", json_count(inspect_memory(f, SHORT_TOKENS)), "bytes_full_context",
                     f->context ? json_count(inspect_memory(f, f->context)) : json_null());
}

static int print_json(const inspect_facts *f, const model_file *file)
{
    uint64_t seed = 0;
    const struct {
        const char *key;
        json_t *value;
    } fields[] = {
        {"path", json_words(span_from(model_file_path(file)))},
        {"format", json_string(model_file_is_directory(file) ? "safetensors" : "gguf")},
        {"version", json_integer(model_file_version(file))},
        {"bytes", json_count(model_file_bytes(file))},
        {"architecture", json_words(f->architecture)},
        {"name", json_words(f->name)},
        {"file_type", json_words(span_from(f->file_type))},
        {"parameters", json_count(f->parameters)},
        {"layers", json_count(f->layers)},
        {"hidden", json_count(f->hidden)},
        {"heads", json_count(f->heads)},
        {"kv_heads", json_count(f->kv_heads)},
        {"head_dim", json_count(f->head_dim)},
        {"feed_forward", json_count(f->feed_forward)},
        {"experts", json_count(f->experts)},
        {"experts_used", json_count(f->experts_used)},
        {"recurrent_layers", json_count(f->recurrent_layers)},
        {"draft_tensors", json_count(f->draft_tensors)},
        {"vision_tensors", json_count(f->vision_tensors)},
        {"context", json_count(f->context)},
        {"sliding_window", json_count(f->window)},
        {"vocabulary", json_count(f->vocabulary)},
        {"tokenizer",
         json_pack("{so so}", "model", json_words(f->tokenizer_model), "pre", json_words(f->tokenizer_pre))},
        {"chat_template", json_boolean(f->chat_template)},
        {"synthetic", json_boolean(is_synthetic(file, &seed))},
        {"tensors", json_integer((json_int_t)model_file_tensor_count(file))},
        {"types", json_types(f)},
        {"memory", json_memory(f)},
        {"runs", json_boolean(f->reason_count == 0)},
        {"reasons", json_reasons(f)},
    };
    json_t *root = json_object();
    bool failed = !root;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        failed |= json_object_set_new(root, fields[i].key, fields[i].value) != 0;
    failed |= json_dumpf(root, stdout, JSON_INDENT(2)) != 0;
    putchar('\n');
    json_decref(root);
    return failed ? 1 : 0;
}

int inspect_main(int argc, char **argv)
{
    static const flag_spec FLAGS[] = {
        {"--json", NULL, "one JSON object with stable keys; null where the file does not say", NULL},
        {NULL, NULL, NULL, NULL},
    };
    static const command_spec SPEC = {
        .name = "inspect",
        .operands = "MODEL",
        .summary = "Says what a model (a GGUF file or a directory) is, what it needs, and whether Headway runs it.",
        .flags = FLAGS,
        .notes = "Exit code 0: the file reads; 1: it does not, and one line says why.",
        .operand_min = 1,
        .operand_max = 1,
    };
    command_flags flags;
    int parsed = command_parse(&SPEC, argc, argv, &flags);
    if (parsed != COMMAND_RUN)
        return parsed;
    error err = {0};
    model_file *file = NULL;
    if (model_file_open(&file, flags.operands[0], &err) != OK)
        return command_fail(&SPEC, &err, 1);
    inspect_facts facts;
    inspect_gather(&facts, file);
    int code = 0;
    if (flag_given(&flags, "--json"))
        code = print_json(&facts, file);
    else
        print_human(&facts, file);
    model_file_close(file);
    return code;
}
