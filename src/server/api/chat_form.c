/* server/api/chat_form.c: see chat_form.h. */
#include "server/api/chat_form.h"

#include "server/api/messages.h"
#include "server/api/tool_history.h"
#include "server/api/tool_memory.h"

static const char *chosen(const char *given, const char *found)
{
    return !given ? found : strcmp(given, "none") == 0 ? NULL : given;
}

static bool knows(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

/* Arguments are JSON in this syntax: their text can stand in a prompt as it is. */
static bool writes_json(const char *family)
{
    static const char *const others[] = {"qwen3_coder", "pythonic", "gemma4", "function_gemma"};
    for (size_t i = 0; family && i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], family) == 0)
            return false;
    return true;
}

void chat_form_read(chat_form *out, const server_model *model)
{
    const char *text = model->template_text ? model->template_text : "";
    span all = span_from(text);
    *out = (chat_form){.takes_parts = model->chat_template && messages_template_takes_parts(model->chat_template),
                       .family = chosen(model->tool_parser, output_family_of(all)),
                       .thoughts = chosen(model->reasoning_parser, output_thoughts_of(all)),
                       .short_ids = knows(text, "|length != 9"),
                       .enable_thinking = knows(text, "enable_thinking"),
                       .thinking = knows(text, "thinking is defined") || knows(text, "not thinking"),
                       .thinking_budget = knows(text, "thinking_budget"),
                       .mistral_args = knows(text, "[ARGS]"),
                       .memory = tool_memory_create()};
    tool_history_probe(model->chat_template, &out->takes_object, &out->takes_text);
    out->takes_text = out->takes_text && writes_json(out->family);
    if (!out->takes_text) /* neither: as it was always done */
        out->takes_object = true;
}

void chat_form_close(chat_form *form)
{
    tool_memory_destroy(form->memory);
}
