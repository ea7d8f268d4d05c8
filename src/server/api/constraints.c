/* server/api/constraints.c: see constraints.h. */
#include "server/api/constraints.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/sha256.h"
#include "server/api/params.h"

enum { KEPT_MAX = 64 };

typedef struct {
    uint8_t key[SHA256_BYTES];
    grammar *g;
    uint64_t used;
} kept_grammar;

struct constraint_store {
    pthread_mutex_t lock;
    token_masks *masks; /* made when they are first needed */
    kept_grammar kept[KEPT_MAX];
    uint64_t turn;
};

constraint_store *constraint_store_create(void)
{
    constraint_store *s = calloc(1, sizeof *s);
    if (s)
        pthread_mutex_init(&s->lock, NULL);
    return s;
}

void constraint_store_destroy(constraint_store *s)
{
    if (!s)
        return;
    token_masks_destroy(s->masks);
    for (int i = 0; i < KEPT_MAX; i++)
        grammar_release(s->kept[i].g);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static grammar *find_kept(constraint_store *s, const uint8_t *key) /* with a reference; NULL */
{
    grammar *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < KEPT_MAX && !found; i++)
        if (s->kept[i].g && memcmp(s->kept[i].key, key, SHA256_BYTES) == 0) {
            s->kept[i].used = ++s->turn;
            found = s->kept[i].g;
            grammar_hold(found);
        }
    pthread_mutex_unlock(&s->lock);
    return found;
}

static void keep(constraint_store *s, const uint8_t *key, grammar *g)
{
    kept_grammar *oldest = &s->kept[0];
    pthread_mutex_lock(&s->lock);
    for (int i = 1; i < KEPT_MAX; i++)
        if (s->kept[i].used < oldest->used)
            oldest = &s->kept[i];
    grammar *old = oldest->g;
    grammar_hold(g);
    oldest->g = g;
    oldest->used = ++s->turn;
    memcpy(oldest->key, key, SHA256_BYTES);
    pthread_mutex_unlock(&s->lock);
    grammar_release(old);
}

static bool have_masks(exchange *x)
{
    const server_model *model = x->model;
    constraint_store *s = model->constraints;
    error err = {""};
    if (!s)
        return api_fail(&x->error, 400, NULL, "answers cannot be held to a format here");
    pthread_mutex_lock(&s->lock);
    if (!s->masks)
        token_masks_create(&s->masks, model->tokenizer, engine_runner_info(model->engine)->vocab_size,
                           model->stop_tokens, model->stop_token_count, &err);
    bool ok = s->masks != NULL;
    pthread_mutex_unlock(&s->lock);
    return ok || api_fail(&x->error, 500, NULL, "%s", err.text);
}

/* ---- what is asked for ---- */

typedef enum { ASK_OBJECT, ASK_SCHEMA, ASK_REGEX, ASK_CHOICE, ASK_GRAMMAR } ask_kind;

typedef struct {
    const char *name; /* of the field, NULL: nothing was asked for yet */
    ask_kind kind;
    json_t *value; /* borrowed */
} ask;

static bool note(exchange *x, ask *a, const char *name, ask_kind kind, json_t *value)
{
    if (a->name)
        return api_fail(&x->error, 400, name, "%s and %s are both given: an answer can keep to one of them", a->name,
                        name);
    *a = (ask){name, kind, value};
    return true;
}

static bool read_format(exchange *x, ask *a, json_t *format)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!json_is_object(format) || !type)
        return api_fail(&x->error, 400, "response_format", "response_format must be an object with a type");
    if (strcmp(type, "text") == 0)
        return true;
    json_t *schema = json_object_get(format, "schema");
    if (strcmp(type, "json_object") == 0)
        return note(x, a, "response_format", schema ? ASK_SCHEMA : ASK_OBJECT, schema);
    if (strcmp(type, "json_schema") != 0)
        return params_unsupported(x, "response_format", "only the types text, json_object and json_schema");
    json_t *outer = json_object_get(format, "json_schema"), *strict = json_object_get(outer, "strict");
    schema = outer ? json_object_get(outer, "schema") : schema;
    if (strict && !json_is_boolean(strict) && !json_is_null(strict))
        return api_fail(&x->error, 400, "response_format", "response_format.json_schema.strict must be true or false");
    if (!schema)
        return api_fail(&x->error, 400, "response_format", "response_format.json_schema.schema is missing");
    return note(x, a, "response_format", ASK_SCHEMA, schema);
}

static bool read_structured(exchange *x, ask *a, json_t *value)
{
    static const struct {
        const char *key, *name;
        ask_kind kind;
    } parts[] = {{"json", "structured_outputs.json", ASK_SCHEMA},
                 {"regex", "structured_outputs.regex", ASK_REGEX},
                 {"choice", "structured_outputs.choice", ASK_CHOICE},
                 {"grammar", "structured_outputs.grammar", ASK_GRAMMAR},
                 {"json_object", "structured_outputs.json_object", ASK_OBJECT}};
    const char *key;
    json_t *part;
    if (!json_is_object(value))
        return api_fail(&x->error, 400, "structured_outputs", "structured_outputs must be an object");
    json_object_foreach(value, key, part)
    {
        size_t i = 0, count = sizeof parts / sizeof *parts;
        while (i < count && strcmp(parts[i].key, key) != 0)
            i++;
        if (json_is_null(part) || json_is_false(part))
            continue;
        if (i == count)
            return api_fail(&x->error, 400, "structured_outputs", "structured_outputs.%.60s is not supported", key);
        if (parts[i].kind == ASK_OBJECT && !json_is_true(part))
            return api_fail(&x->error, 400, parts[i].name, "%s must be true or false", parts[i].name);
        if (!note(x, a, parts[i].name, parts[i].kind, part))
            return false;
    }
    return true;
}

static const struct {
    const char *name;
    ask_kind kind;
} plain_fields[] = {{"guided_json", ASK_SCHEMA},     {"guided_regex", ASK_REGEX}, {"guided_choice", ASK_CHOICE},
                    {"guided_grammar", ASK_GRAMMAR}, {"json_schema", ASK_SCHEMA}, {"grammar", ASK_GRAMMAR}};

bool constraints_is_field(const char *name)
{
    for (size_t i = 0; i < sizeof plain_fields / sizeof *plain_fields; i++)
        if (strcmp(plain_fields[i].name, name) == 0)
            return true;
    return strcmp(name, "response_format") == 0 || strcmp(name, "structured_outputs") == 0 ||
           strcmp(name, "guided_whitespace_pattern") == 0;
}

static bool collect(exchange *x, ask *a, json_t *body)
{
    json_t *format = json_object_get(body, "response_format"), *newer = json_object_get(body, "structured_outputs");
    json_t *blanks = json_object_get(body, "guided_whitespace_pattern");
    if (blanks && !params_is_off(blanks))
        return params_unsupported(x, "guided_whitespace_pattern", NULL);
    if (format && !json_is_null(format) && !read_format(x, a, format))
        return false;
    if (newer && !json_is_null(newer) && !read_structured(x, a, newer))
        return false;
    for (size_t i = 0; i < sizeof plain_fields / sizeof *plain_fields; i++) {
        json_t *value = json_object_get(body, plain_fields[i].name);
        bool off = !value || json_is_null(value) || (json_is_string(value) && !json_string_length(value));
        if (!off && !note(x, a, plain_fields[i].name, plain_fields[i].kind, value))
            return false;
    }
    return true;
}

/* ---- to a grammar ---- */

static grammar_rule choice_rule(exchange *x, const ask *a, grammar_builder *b)
{
    size_t count = json_array_size(a->value), i;
    grammar_rule *rules = malloc((count + 1) * sizeof *rules), rule = 0;
    json_t *item;
    bool ok = rules && count > 0;
    json_array_foreach(a->value, i, item) if ((ok = ok && json_is_string(item) && json_string_length(item) > 0))
        rules[i] = grammar_text(b, span_of(json_string_value(item), json_string_length(item)));
    if (ok)
        rule = grammar_choice(b, rules, (uint32_t)count);
    else
        api_fail(&x->error, 400, a->name, "%s must be an array of strings, none of them empty", a->name);
    free(rules);
    return rule;
}

static grammar_rule schema_rule(exchange *x, const ask *a, grammar_builder *b)
{
    json_t *schema = a->value, *parsed = NULL;
    json_error_t where;
    if (json_is_string(schema)) /* vLLM takes the schema's text too */
        schema = parsed =
            json_loadb(json_string_value(a->value), json_string_length(a->value), JSON_REJECT_DUPLICATES, &where);
    grammar_rule rule = 0;
    if (!schema)
        api_fail(&x->error, 400, a->name, "%s is not valid JSON: line %d, column %d: %s", a->name, where.line,
                 where.column, where.text);
    else
        rule = grammar_json_schema(b, schema);
    json_decref(parsed);
    return rule;
}

static grammar_rule rule_of(exchange *x, const ask *a, grammar_builder *b)
{
    bool text = a->kind == ASK_REGEX || a->kind == ASK_GRAMMAR;
    span value = span_of(json_string_value(a->value), json_string_length(a->value));
    if (text && !json_is_string(a->value)) {
        api_fail(&x->error, 400, a->name, "%s must be a string", a->name);
        return 0;
    }
    switch (a->kind) {
    case ASK_OBJECT:
        return grammar_json_any(b, true);
    case ASK_SCHEMA:
        return schema_rule(x, a, b);
    case ASK_REGEX:
        return grammar_regex(b, value);
    case ASK_CHOICE:
        return choice_rule(x, a, b);
    case ASK_GRAMMAR:
        break;
    }
    return grammar_ebnf(b, value);
}

static grammar *compile(exchange *x, const ask *a)
{
    grammar_builder *b;
    grammar *g = NULL;
    error err = {""};
    if (grammar_builder_create(&b, &err)) {
        api_fail(&x->error, 500, NULL, "%s", err.text);
        return NULL;
    }
    grammar_rule rule = rule_of(x, a, b);
    status st = x->error.status ? ERR_INVALID : grammar_finish(b, rule, &g, &err);
    if (st && !x->error.status) {
        api_fail(&x->error, st == ERR_MEMORY ? 500 : 400, a->name, "%s: %s", a->name, err.text);
        if (st == ERR_UNSUPPORTED)
            x->error.code = "unsupported_parameter";
    }
    grammar_builder_destroy(b);
    return g;
}

static bool key_of(const ask *a, uint8_t *key)
{
    buf text = {0};
    char *dumped = a->value ? json_dumps(a->value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    buf_printf(&text, "%d %s", (int)a->kind, dumped ? dumped : "");
    bool ok = !text.failed && (dumped || !a->value);
    sha256(buf_span(&text), key);
    free(dumped);
    buf_free(&text);
    return ok;
}

bool constraints_set(exchange *x, grammar *g)
{
    grammar_release(x->plan.grammar);
    x->plan.grammar = g;
    return have_masks(x);
}

bool constraints_read(exchange *x, json_t *body)
{
    ask a = {0};
    uint8_t key[SHA256_BYTES];
    if (!collect(x, &a, body))
        return false;
    if (!a.name)
        return true;
    constraint_store *s = x->model->constraints;
    if (!s)
        return params_unsupported(x, a.name, "not here");
    if (!key_of(&a, key))
        return api_fail(&x->error, 500, NULL, "out of memory");
    grammar *g = find_kept(s, key);
    if (!g) {
        if (!(g = compile(x, &a)))
            return false;
        keep(s, key, g);
    }
    return constraints_set(x, g);
}

bool constraints_make(exchange *x, token_constraint **out)
{
    const generation_plan *plan = &x->plan;
    error err = {""};
    *out = NULL;
    if (!plan->grammar)
        return true;
    return grammar_constraint(out, plan->grammar, x->model->constraints->masks, &err) == OK ||
           api_fail(&x->error, 500, NULL, "%s", err.text);
}
