/* server/api/tool_choice.c: see tool_choice.h. */
#include "server/api/tool_choice.h"

#include <stdio.h>

#include "server/api/params.h"

enum { TOOLS_MAX = 1024, NAME_MAX_BYTES = 128 };

static json_t *name_of(json_t *tool)
{
    json_t *name = json_object_get(json_object_get(tool, "function"), "name");
    size_t size = json_string_length(name);
    return json_is_string(name) && size > 0 && size <= NAME_MAX_BYTES ? name : NULL;
}

static bool check_tools(exchange *x, json_t *tools)
{
    size_t i;
    json_t *tool;
    char param[32];
    if (!json_is_array(tools))
        return api_fail(&x->error, 400, "tools", "tools must be an array");
    if (json_array_size(tools) > TOOLS_MAX)
        return api_fail(&x->error, 400, "tools", "tools may hold %d tools at most", TOOLS_MAX);
    json_array_foreach(tools, i, tool)
    {
        json_t *type = json_object_get(tool, "type"), *parameters;
        snprintf(param, sizeof param, "tools[%zu]", i);
        if (json_is_string(type) && strcmp(json_string_value(type), "function") != 0)
            return api_fail(&x->error, 400, param, "%s: only tools of type \"function\" are supported", param);
        if (!name_of(tool))
            return api_fail(&x->error, 400, param, "%s: needs a function with a name of 1 to %d bytes", param,
                            NAME_MAX_BYTES);
        parameters = json_object_get(json_object_get(tool, "function"), "parameters");
        if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
            return api_fail(&x->error, 400, param, "%s: parameters must be a JSON schema, an object", param);
    }
    return true;
}

static json_t *find_tool(json_t *tools, json_t *name)
{
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool) if (json_is_string(name) && json_equal(name_of(tool), name)) return tool;
    return NULL;
}

/* {"type": "function", "function": {"name": …}}: that one, once. */
static bool read_named(exchange *x, json_t *tools, json_t *choice)
{
    json_t *name = json_object_get(json_object_get(choice, "function"), "name"), *tool = find_tool(tools, name);
    const char *type = json_string_value(json_object_get(choice, "type"));
    if (type && strcmp(type, "function") != 0)
        return params_unsupported(x, "tool_choice", "only \"auto\", \"none\", \"required\" and a function's name");
    if (!json_is_string(name))
        return api_fail(&x->error, 400, "tool_choice",
                        "tool_choice must be \"auto\", \"none\", \"required\" or name a function");
    if (!tool)
        return api_fail(&x->error, 400, "tool_choice", "tool_choice names \"%.80s\", which is not among the tools",
                        json_string_value(name));
    x->plan.output.tools = json_pack("[O]", tool);
    x->plan.output.must_call = x->plan.output.one_call = true;
    return true;
}

static bool read_choice(exchange *x, json_t *tools, json_t *choice, bool *none)
{
    const char *word = json_string_value(choice);
    if (choice && !json_is_null(choice) && !word)
        return read_named(x, tools, choice);
    *none = word && strcmp(word, "none") == 0;
    x->plan.output.must_call = word && strcmp(word, "required") == 0;
    if (word && !*none && !x->plan.output.must_call && strcmp(word, "auto") != 0)
        return api_fail(&x->error, 400, "tool_choice",
                        "tool_choice must be \"auto\", \"none\", \"required\" or name a function");
    if (x->plan.output.must_call && !json_array_size(tools))
        return api_fail(&x->error, 400, "tool_choice", "tool_choice is \"required\" and there are no tools");
    return true;
}

bool tool_choice_read(exchange *x, json_t *body, json_t **shown)
{
    json_t *tools = json_object_get(body, "tools"), *parallel = json_object_get(body, "parallel_tool_calls");
    bool none = false, several = true;
    *shown = NULL;
    if (json_is_null(tools))
        tools = NULL;
    if ((tools && !check_tools(x, tools)) || !read_choice(x, tools, json_object_get(body, "tool_choice"), &none))
        return false;
    if (parallel && !json_is_null(parallel) && !params_read_bool(x, "parallel_tool_calls", parallel, &several))
        return false;
    x->plan.output.one_call |= !several;
    if (none || !json_array_size(tools))
        return true;
    *shown = tools;
    x->plan.output.family = x->form ? x->form->family : NULL;
    if (!x->plan.output.tools)
        x->plan.output.tools = json_incref(tools);
    if (x->plan.output.family)
        return true;
    if (x->plan.output.must_call)
        return params_unsupported(x, "tool_choice", "no syntax of calls is known for this model, see --tool-parser");
    params_warn(x, "tools: rendered into the prompt; calls are not parsed, the answer is text");
    return true;
}
