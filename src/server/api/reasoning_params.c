/* server/api/reasoning_params.c: see reasoning_params.h. */
#include "server/api/reasoning_params.h"

#include "server/api/params.h"

typedef enum { AS_THE_MODEL_LIKES, THINK, DO_NOT_THINK } wish;

typedef struct {
    wish wish;
    json_t *effort; /* borrowed; NULL: not said */
    int64_t budget; /* tokens; -1: not said, or no limit */
} reasoning_ask;

static json_t *field(json_t *owner, const char *name)
{
    json_t *value = json_object_get(owner, name);
    return json_is_null(value) ? NULL : value;
}

static bool take_budget(exchange *x, const char *name, json_t *value, int64_t *budget)
{
    if (!value)
        return true;
    if (!json_is_integer(value) || json_integer_value(value) < -1 || json_integer_value(value) > INT32_MAX)
        return api_fail(&x->error, 400, name, "%s must be a number of tokens, or -1 for no limit", name);
    *budget = json_integer_value(value);
    return true;
}

static bool take_switch(exchange *x, const char *name, json_t *value, wish *out)
{
    bool on = false;
    if (!value)
        return true;
    if (!params_read_bool(x, name, value, &on))
        return false;
    *out = on ? THINK : DO_NOT_THINK;
    return true;
}

static bool take_effort(exchange *x, const char *name, json_t *value, reasoning_ask *ask)
{
    if (!value)
        return true;
    if (!json_is_string(value) || json_string_length(value) > 32)
        return api_fail(&x->error, 400, name, "%s must be a word like \"low\", \"medium\", \"high\" or \"none\"", name);
    ask->effort = value;
    ask->wish = strcmp(json_string_value(value), "none") == 0 ? DO_NOT_THINK : THINK;
    return true;
}

/* {"type": "enabled", "budget_tokens": 1024} */
static bool take_thinking(exchange *x, json_t *value, reasoning_ask *ask)
{
    const char *type = json_string_value(field(value, "type"));
    if (!value)
        return true;
    if (!json_is_object(value) || !type)
        return api_fail(&x->error, 400, "thinking", "thinking must be an object with a type");
    ask->wish = strcmp(type, "disabled") == 0 ? DO_NOT_THINK : strcmp(type, "enabled") == 0 ? THINK : ask->wish;
    return take_budget(x, "thinking.budget_tokens", field(value, "budget_tokens"), &ask->budget);
}

static bool take_reasoning(exchange *x, json_t *value, reasoning_ask *ask)
{
    if (!value)
        return true;
    if (!json_is_object(value))
        return api_fail(&x->error, 400, "reasoning", "reasoning must be an object");
    return take_switch(x, "reasoning.enabled", field(value, "enabled"), &ask->wish) &&
           take_effort(x, "reasoning.effort", field(value, "effort"), ask) &&
           take_budget(x, "reasoning.max_tokens", field(value, "max_tokens"), &ask->budget);
}

static bool read_ask(exchange *x, json_t *body, reasoning_ask *ask)
{
    static const char *const budgets[] = {"thinking_budget", "max_thinking_tokens", "thinking_token_budget",
                                          "reasoning_budget"};
    if (!take_reasoning(x, field(body, "reasoning"), ask) ||
        !take_effort(x, "reasoning_effort", field(body, "reasoning_effort"), ask) ||
        !take_thinking(x, field(body, "thinking"), ask) ||
        !take_switch(x, "enable_thinking", field(body, "enable_thinking"), &ask->wish))
        return false;
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++)
        if (!take_budget(x, budgets[i], field(body, budgets[i]), &ask->budget))
            return false;
    return true;
}

static void set_default(json_t *variables, const char *name, json_t *value)
{
    if (!json_object_get(variables, name))
        json_object_set(variables, name, value);
    json_decref(value);
}

bool reasoning_params_read(exchange *x, json_t *body, json_t *variables)
{
    reasoning_ask ask = {.budget = -1};
    const chat_form *form = x->form;
    if (!read_ask(x, body, &ask))
        return false;
    if (ask.budget == 0)
        ask.wish = DO_NOT_THINK;
    if (ask.effort)
        set_default(variables, "reasoning_effort", json_incref(ask.effort));
    if (ask.wish != AS_THE_MODEL_LIKES && form && form->enable_thinking)
        set_default(variables, "enable_thinking", json_boolean(ask.wish == THINK));
    if (ask.wish != AS_THE_MODEL_LIKES && form && form->thinking)
        set_default(variables, "thinking", json_boolean(ask.wish == THINK));
    if (ask.budget > 0 && form && form->thinking_budget)
        set_default(variables, "thinking_budget", json_integer(ask.budget));
    if (ask.wish == DO_NOT_THINK) /* a template that opens a thought all the same: it is ended at once */
        x->plan.output.thought_budget = 0;
    else if (ask.budget > 0)
        x->plan.output.thought_budget = (uint32_t)ask.budget;
    if (ask.wish != AS_THE_MODEL_LIKES && ask.budget > 0 && !(form && form->thoughts))
        params_warn(x, "no effect: a thinking budget, this model's template knows no thoughts");
    return true;
}
