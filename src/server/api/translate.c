/* server/api/translate.c: see translate.h. */
#include "server/api/translate.h"

#include "server/api/params.h"

bool translate_bad(exchange *x, const char *where, const char *what)
{
    return api_fail(&x->error, 400, where, "%s: %s", where, what);
}

const char *translate_type(json_t *block)
{
    return json_string_value(json_object_get(block, "type"));
}

json_t *translate_text(const buf *text)
{
    return json_stringn(text->data ? text->data : "", text->size);
}

void translate_add(json_t *messages, const char *role, json_t *content)
{
    json_array_append_new(messages, json_pack("{s:s, s:o}", "role", role, "content", content));
}

json_t *translate_call(const char *id, const char *name, json_t *arguments)
{
    return json_pack("{s:s, s:s, s:{s:s, s:O}}", "id", id, "type", "function", "function", "name", name, "arguments",
                     arguments);
}

void translate_set_kwarg(json_t *chat, const char *name, json_t *value)
{
    json_t *kwargs = json_object_get(chat, "chat_template_kwargs");
    if (!kwargs) {
        kwargs = json_object();
        json_object_set_new(chat, "chat_template_kwargs", kwargs);
    }
    if (!json_object_get(kwargs, name))
        json_object_set(kwargs, name, value);
}

bool translate_effort(exchange *x, const char *name, json_t *value, json_t *chat)
{
    if (!json_is_string(value))
        return translate_bad(x, name, "must be a string");
    json_object_set(chat, "reasoning_effort", value);
    return true;
}

static const translate_field *find(const translate_field *fields, const char *name)
{
    for (; fields->name; fields++)
        if (strcmp(fields->name, name) == 0)
            return fields;
    return NULL;
}

static bool refused(exchange *x, const char *name, json_t *value)
{
    static const char *const answers[] = {"n", "n_cmpl", "best_of"};
    static const char *const unwritten[] = {"logprobs", "top_logprobs", "return_progress"};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (strcmp(answers[i], name) == 0 && !(json_is_integer(value) && json_integer_value(value) == 1))
            return !params_unsupported(x, name, "this endpoint gives one answer");
    for (size_t i = 0; i < sizeof unwritten / sizeof *unwritten; i++)
        if (strcmp(unwritten[i], name) == 0 && !params_is_off(value))
            return !params_unsupported(x, name, "use /v1/chat/completions");
    return false;
}

bool translate_fields(exchange *x, json_t *body, const translate_field *own, json_t *chat)
{
    const char *name;
    json_t *value, *kwargs = json_object_get(body, "chat_template_kwargs");
    if (json_is_object(kwargs)) /* the client's own win over what is put there */
        json_object_set_new(chat, "chat_template_kwargs", json_copy(kwargs));
    json_object_foreach(body, name, value)
    {
        const translate_field *field = find(own, name);
        if (json_is_null(value))
            continue;
        if (field ? field->put && !field->put(x, value, chat) : refused(x, name, value))
            return false;
        if (!field && !json_object_get(chat, name))
            json_object_set(chat, name, value);
    }
    return true;
}
