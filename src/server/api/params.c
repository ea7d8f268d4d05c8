/* server/api/params.c: one table of shared fields, one function per shape of field. */
#include "server/api/constraints.h"
#include "server/api/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sha256.h"
#include "text/grammar/grammar.h"

void plan_init(generation_plan *plan)
{
    *plan = (generation_plan){.choices = 1, .output.thought_budget = THOUGHT_UNLIMITED};
    plan->sampling = (sampling_params){.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1};
}

void plan_free(generation_plan *plan)
{
    for (uint32_t i = 0; i < plan->prompt_count; i++)
        token_list_free(&plan->prompts[i]);
    free(plan->prompts);
    free((void *)plan->sampling.biases);
    free(plan->stop_tokens);
    grammar_release(plan->grammar);
    stop_set_free(&plan->stops);
    json_decref(plan->output.tools);
    *plan = (generation_plan){0};
}

json_t *params_parse_body(exchange *x)
{
    json_error_t where;
    if (!x->body.size) {
        api_fail(&x->error, 400, NULL, "the request has no body; a JSON object is expected");
        return NULL;
    }
    json_t *body = json_loadb(x->body.data, x->body.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!x->forward) /* else it may have to go on as it came */
        buf_free(&x->body);
    if (!body)
        api_fail(&x->error, 400, NULL, "the body is not valid JSON: line %d, column %d: %s", where.line, where.column,
                 where.text);
    else if (!json_is_object(body)) {
        json_decref(body);
        body = NULL;
        api_fail(&x->error, 400, NULL, "the body must be a JSON object");
    }
    return body;
}

void params_warn(exchange *x, const char *text)
{
    if (x->warnings.size > 600)
        return;
    if (x->warnings.size)
        buf_text(&x->warnings, "; ");
    buf_text(&x->warnings, text);
}

static void warn_ignored(exchange *x, const char *key)
{
    if (x->ignored.size > 400)
        return;
    buf_text(&x->ignored, x->ignored.size ? ", " : "ignored: ");
    for (size_t i = 0; key[i] && i < 40; i++) /* a header value: nothing odd */
        buf_byte(&x->ignored, key[i] > 0x20 && key[i] < 0x7f && key[i] != ',' ? key[i] : '?');
}

bool params_is_off(json_t *value)
{
    return json_is_null(value) || json_is_false(value) || (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

bool params_unsupported(exchange *x, const char *name, const char *why)
{
    api_fail(&x->error, 400, name, "%s is not supported%s%s", name, why ? ": " : "", why ? why : "");
    x->error.code = "unsupported_parameter";
    return false;
}

static bool read_number(exchange *x, const char *name, json_t *value, double min, double max, double *out)
{
    double number = json_number_value(value);
    if (!json_is_number(value) || number < min || number > max)
        return api_fail(&x->error, 400, name, "%s must be a number from %g to %g", name, min, max);
    *out = number;
    return true;
}

static bool read_int(exchange *x, const char *name, json_t *value, int64_t min, int64_t max, int64_t *out)
{
    bool whole = json_is_integer(value);
    int64_t number = whole ? json_integer_value(value) : 0;
    if (json_is_real(value) && fabs(json_real_value(value)) < 9e15 &&
        floor(json_real_value(value)) == json_real_value(value)) {
        whole = true;
        number = (int64_t)json_real_value(value);
    }
    if (!whole || number < min || number > max)
        return api_fail(&x->error, 400, name, "%s must be an integer from %lld to %lld", name, (long long)min,
                        (long long)max);
    *out = number;
    return true;
}

bool params_read_uint(exchange *x, const char *name, json_t *value, uint64_t min, uint64_t max, uint64_t *out)
{
    int64_t number = 0;
    if (!read_int(x, name, value, (int64_t)min, (int64_t)max, &number))
        return false;
    *out = (uint64_t)number;
    return true;
}

bool params_read_bool(exchange *x, const char *name, json_t *value, bool *out)
{
    if (!json_is_boolean(value))
        return api_fail(&x->error, 400, name, "%s must be true or false", name);
    *out = json_is_true(value);
    return true;
}

/* ---- fields with a rule of their own ---- */

static bool read_stream_options(exchange *x, json_t *value)
{
    if (!json_is_object(value))
        return api_fail(&x->error, 400, "stream_options", "stream_options must be an object");
    json_t *usage = json_object_get(value, "include_usage"), *each = json_object_get(value, "continuous_usage_stats");
    if (usage && !json_is_null(usage) &&
        !params_read_bool(x, "stream_options.include_usage", usage, &x->plan.include_usage))
        return false;
    return !each || json_is_null(each) ||
           params_read_bool(x, "stream_options.continuous_usage_stats", each, &x->plan.continuous_usage);
}

static bool read_seed(exchange *x, json_t *value)
{
    int64_t seed = 0;
    if (!read_int(x, "seed", value, INT64_MIN, INT64_MAX, &seed))
        return false;
    x->plan.has_seed = seed != -1; /* llama.cpp: -1 is random */
    x->plan.sampling.seed = (uint64_t)seed;
    return true;
}

static bool read_top_k(exchange *x, json_t *value)
{
    int64_t k = 0;
    if (!read_int(x, "top_k", value, -1, INT32_MAX, &k))
        return false;
    x->plan.sampling.top_k = k < 0 ? 0 : (uint32_t)k;
    return true;
}

static bool read_max_tokens(exchange *x, const char *name, json_t *value)
{
    int64_t count = 0;
    if (!read_int(x, name, value, -1, INT32_MAX, &count))
        return false;
    if (count == 0)
        return api_fail(&x->error, 400, name, "%s must be at least 1", name);
    x->plan.max_tokens = count < 0 ? 0 : (uint32_t)count;
    return true;
}

static bool read_max_tokens_field(exchange *x, json_t *value)
{
    return read_max_tokens(x, "max_tokens", value);
}

static bool read_max_completion_tokens(exchange *x, json_t *value)
{
    return read_max_tokens(x, "max_completion_tokens", value);
}

static bool read_n_predict(exchange *x, json_t *value)
{
    return read_max_tokens(x, "n_predict", value);
}

static bool read_choices(exchange *x, json_t *value)
{
    uint64_t n = 1;
    if (!params_read_uint(x, "n", value, 1, CHOICES_MAX, &n))
        return false;
    x->plan.choices = (uint32_t)n;
    return true;
}

static bool read_best_of(exchange *x, json_t *value)
{
    uint64_t best = 1;
    if (!params_read_uint(x, "best_of", value, 1, CHOICES_MAX, &best))
        return false;
    return best == 1 || params_unsupported(x, "best_of", "only 1");
}

static bool add_stop(exchange *x, json_t *value)
{
    if (!json_is_string(value) || !json_string_length(value))
        return api_fail(&x->error, 400, "stop", "stop must be a string or an array of strings, none of them empty");
    if (json_string_length(value) > STOP_BYTES_MAX)
        return api_fail(&x->error, 400, "stop", "a stop string may have %d bytes at most", STOP_BYTES_MAX);
    if (!stop_set_add(&x->plan.stops, span_of(json_string_value(value), json_string_length(value))))
        return api_fail(&x->error, 400, "stop", "stop may hold %d strings at most", STOP_STRINGS_MAX);
    return true;
}

static bool read_stop(exchange *x, json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value) == 0 || add_stop(x, value);
    if (!json_is_array(value))
        return add_stop(x, value);
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item) if (!add_stop(x, item)) return false;
    return true;
}

static bool read_stop_tokens(exchange *x, json_t *value)
{
    size_t count = json_array_size(value), i;
    if (!json_is_array(value) || count > 64)
        return api_fail(&x->error, 400, "stop_token_ids", "stop_token_ids must be an array of at most 64 token ids");
    x->plan.stop_tokens = malloc((count + 1) * sizeof(int32_t));
    json_t *item;
    json_array_foreach(value, i, item)
    {
        int64_t id = 0;
        if (!read_int(x, "stop_token_ids", item, 0, (int64_t)tokenizer_vocab_size(x->model->tokenizer) - 1, &id))
            return false;
        x->plan.stop_tokens[x->plan.stop_token_count++] = (int32_t)id;
    }
    return true;
}

enum { BIASES_MAX = 4096 };

static bool add_bias(exchange *x, logit_bias *list, uint32_t *count, token_id id, json_t *bias)
{
    if (id < 0 || (uint32_t)id >= tokenizer_vocab_size(x->model->tokenizer))
        return api_fail(&x->error, 400, "logit_bias", "logit_bias names token %d, which the model does not have", id);
    double number = -INFINITY;
    if (!json_is_false(bias) && !read_number(x, "logit_bias", bias, -1000, 1000, &number))
        return false;
    if (*count == BIASES_MAX)
        return api_fail(&x->error, 400, "logit_bias", "logit_bias may name %d tokens at most", BIASES_MAX);
    list[(*count)++] = (logit_bias){id, (float)number};
    return true;
}

/* [[token or text, bias], …], as llama.cpp takes it */
static bool read_bias_pair(exchange *x, json_t *pair, logit_bias *list, uint32_t *count)
{
    json_t *which = json_array_get(pair, 0), *bias = json_array_get(pair, 1);
    if (json_array_size(pair) != 2)
        return api_fail(&x->error, 400, "logit_bias", "logit_bias must hold pairs [token, bias]");
    if (json_is_integer(which)) {
        json_int_t id = json_integer_value(which);
        return add_bias(x, list, count, id < 0 || id > INT32_MAX ? -1 : (token_id)id, bias);
    }
    if (!json_is_string(which))
        return api_fail(&x->error, 400, "logit_bias", "logit_bias must name tokens by id or by text");
    token_list ids = {0};
    bool ok = tokenizer_encode(x->model->tokenizer, span_of(json_string_value(which), json_string_length(which)), 0,
                               &ids, NULL) == OK;
    for (size_t i = 0; ok && i < ids.count; i++)
        ok = add_bias(x, list, count, ids.ids[i], bias);
    token_list_free(&ids);
    return ok || api_fail(&x->error, 400, "logit_bias", "logit_bias: the text cannot be tokenized");
}

static bool read_logit_bias(exchange *x, json_t *value)
{
    logit_bias *list = malloc(BIASES_MAX * sizeof *list);
    uint32_t count = 0;
    bool ok = list != NULL;
    if (json_is_object(value)) {
        const char *key;
        json_t *bias;
        json_object_foreach(value, key, bias)
        {
            char *end;
            long id = strtol(key, &end, 10);
            ok = ok &&
                 add_bias(x, list, &count, *end || end == key || id < 0 || id > INT32_MAX ? -1 : (token_id)id, bias);
        }
    } else if (json_is_array(value)) {
        size_t i;
        json_t *pair;
        json_array_foreach(value, i, pair) ok = ok && read_bias_pair(x, pair, list, &count);
    } else {
        ok = api_fail(&x->error, 400, "logit_bias", "logit_bias must be an object or an array of pairs");
    }
    x->plan.sampling.biases = list;
    x->plan.sampling.bias_count = count;
    return ok;
}

static bool read_service_tier(exchange *x, json_t *value)
{
    span name = span_of(json_string_value(value), json_string_length(value));
    return (name.data && service_tier_read(name, &x->plan.tier)) ||
           api_fail(&x->error, 400, "service_tier",
                    "service_tier must be one of auto, default, flex, scale, priority and fast");
}

/* vLLM's: requests with other salts share nothing. Whoever does not know the salt cannot make one that meets it. */
static bool read_cache_salt(exchange *x, json_t *value)
{
    uint8_t hash[SHA256_BYTES];
    if (!json_string_length(value))
        return api_fail(&x->error, 400, "cache_salt", "cache_salt must be a string that is not empty");
    sha256(span_of(json_string_value(value), json_string_length(value)), hash);
    memcpy(&x->plan.cache_salt, hash, sizeof x->plan.cache_salt);
    x->plan.cache_salt += x->plan.cache_salt == 0;
    return true;
}

static bool read_cache_prompt(exchange *x, json_t *value)
{
    bool use = true;
    if (!params_read_bool(x, "cache_prompt", value, &use))
        return false;
    x->plan.no_cache = !use;
    return true;
}

/* The prefix finds itself; a client that names it says that it will come back. */
static bool read_prompt_cache_key(exchange *x, json_t *value)
{
    if (!json_is_string(value))
        return api_fail(&x->error, 400, "prompt_cache_key", "prompt_cache_key must be a string");
    x->plan.keep |= json_string_length(value) > 0;
    return true;
}

static bool read_skip_special_tokens(exchange *x, json_t *value)
{
    bool skip = true;
    if (!params_read_bool(x, "skip_special_tokens", value, &skip))
        return false;
    x->plan.keep_specials = !skip;
    return true;
}

static bool read_model(exchange *x, json_t *value)
{
    if (!json_is_string(value))
        return api_fail(&x->error, 400, "model", "model must be a string");
    if (strcmp(json_string_value(value), x->model->name) != 0 && json_string_length(value))
        params_warn(x, "model: answered by the one model served here");
    return true;
}

/* ---- the table ---- */

typedef struct {
    const char *name;
    double min, max;
    size_t offset; /* of a float in the plan */
} number_field;

#define SAMPLING(field) offsetof(generation_plan, sampling.field)
static const number_field number_fields[] = {
    {"temperature", 0, 100, SAMPLING(temperature)},
    {"top_p", 0, 1, SAMPLING(top_p)},
    {"min_p", 0, 1, SAMPLING(min_p)},
    {"typical_p", 0, 1, SAMPLING(typical_p)},
    {"repetition_penalty", 0.01, 100, SAMPLING(repetition_penalty)},
    {"repeat_penalty", 0.01, 100, SAMPLING(repetition_penalty)},
    {"presence_penalty", -2, 2, SAMPLING(presence_penalty)},
    {"frequency_penalty", -2, 2, SAMPLING(frequency_penalty)},
};

typedef struct {
    const char *name;
    size_t offset; /* of a bool in the plan */
} bool_field;

static const bool_field bool_fields[] = {
    {"stream", offsetof(generation_plan, stream)},
    {"ignore_eos", offsetof(generation_plan, ignore_eos)},
    {"include_stop_str_in_output", offsetof(generation_plan, include_stop)},
    {"return_progress", offsetof(generation_plan, return_progress)},
    {"timings_per_token", offsetof(generation_plan, timings)},
};

static const param_field call_fields[] = {
    {"model", read_model},
    {"stream_options", read_stream_options},
    {"seed", read_seed},
    {"top_k", read_top_k},
    {"max_tokens", read_max_tokens_field},
    {"max_completion_tokens", read_max_completion_tokens},
    {"n_predict", read_n_predict},
    {"n", read_choices},
    {"n_cmpl", read_choices},
    {"best_of", read_best_of},
    {"stop", read_stop},
    {"stop_token_ids", read_stop_tokens},
    {"logit_bias", read_logit_bias},
    {"service_tier", read_service_tier},
    {"skip_special_tokens", read_skip_special_tokens},
    {"cache_salt", read_cache_salt},
    {"cache_prompt", read_cache_prompt},
    {"prompt_cache_key", read_prompt_cache_key},
    {NULL, NULL},
};

/* Known, and without any effect on what is answered. */
static const char *const harmless[] = {"user",
                                       "metadata",
                                       "safety_identifier",
                                       "id_slot",
                                       "request_id",
                                       "parallel_tool_calls",
                                       "spaces_between_special_tokens"};

/* Would change the answer; an error unless it is switched off. */
static const char *const unsupported[] = {
    "logits_processors",
    "logit_processors",
    "audio",
    "functions",
    "function_call",
    "suffix",
    "echo",
    "use_beam_search",
    "length_penalty",
    "min_tokens",
    "truncate_prompt_tokens",
    "prompt_logprobs",
    "allowed_token_ids",
    "bad_words",
    "prompt_embeds",
    "lora",
    "mirostat",
    "dynatemp_range",
    "dry_multiplier",
    "xtc_probability",
    "post_sampling_probs",
    "samplers",
    "response_fields",
    "t_max_predict_ms",
    "web_search_options",
    "chat_template",
    "continue_final_message",
    "input_extra",
    "thinking_token_budget",
};

static bool read_modalities(exchange *x, json_t *value)
{
    const char *only = json_string_value(json_array_get(value, 0));
    bool text = json_array_size(value) == 1 && only && strcmp(only, "text") == 0;
    return text || params_unsupported(x, "modalities", "only [\"text\"]");
}

static const param_field *find_field(const param_field *fields, const char *name)
{
    for (; fields && fields->name; fields++)
        if (strcmp(fields->name, name) == 0)
            return fields;
    return NULL;
}

static bool is_listed(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* One shared field that is not null. */
static bool read_shared(exchange *x, const char *name, json_t *value)
{
    for (size_t i = 0; i < sizeof number_fields / sizeof *number_fields; i++)
        if (strcmp(number_fields[i].name, name) == 0) {
            double number = 0;
            if (!read_number(x, name, value, number_fields[i].min, number_fields[i].max, &number))
                return false;
            *(float *)((char *)&x->plan + number_fields[i].offset) = (float)number;
            return true;
        }
    for (size_t i = 0; i < sizeof bool_fields / sizeof *bool_fields; i++)
        if (strcmp(bool_fields[i].name, name) == 0)
            return params_read_bool(x, name, value, (bool *)((char *)&x->plan + bool_fields[i].offset));
    const param_field *field = find_field(call_fields, name);
    if (field)
        return field->read(x, value);
    if (constraints_is_field(name))
        return true;
    if (strcmp(name, "modalities") == 0)
        return read_modalities(x, value);
    if (is_listed(unsupported, sizeof unsupported / sizeof *unsupported, name))
        return params_is_off(value) || params_unsupported(x, name, NULL);
    if (!is_listed(harmless, sizeof harmless / sizeof *harmless, name))
        warn_ignored(x, name);
    return true;
}

bool params_read(exchange *x, json_t *body, const param_field *own)
{
    const char *name;
    json_t *value;
    json_object_foreach(body, name, value)
    {
        const param_field *field = find_field(own, name);
        bool ok = true;
        if (field && field->read && !json_is_null(value))
            ok = field->read(x, value);
        else if (!field && !json_is_null(value))
            ok = read_shared(x, name, value);
        if (!ok)
            return false;
    }
    if (!x->plan.has_seed)
        x->plan.sampling.seed = 0;
    return constraints_read(x, body);
}

bool params_check_prompts(exchange *x)
{
    uint32_t context = x->model->context_length;
    for (uint32_t i = 0; i < x->plan.prompt_count; i++) {
        size_t size = x->plan.prompts[i].count;
        if (size == 0)
            return api_fail(&x->error, 400, "prompt", "the prompt is empty");
        if (size >= context) {
            api_fail(&x->error, 400, NULL, "the prompt has %zu tokens and the context holds %u, the answer included",
                     size, context);
            x->error.type = "exceed_context_size_error";
            x->error.code = "context_length_exceeded";
            x->error.has_sizes = true;
            x->error.prompt_tokens = size;
            x->error.context = context;
            return false;
        }
    }
    return true;
}
