/* text/parse/choose.c: which family does a chat template teach? By what it has the model write. */
#include "text/output_parser.h"

static bool has(span text, const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= text.size; i++)
        if (text.data[i] == word[0] && memcmp(text.data + i, word, size) == 0)
            return true;
    return false;
}

static const struct {
    const char *family;
    const char *words[2]; /* all of them; the first row that fits is taken */
} rows[] = {
    {"gemma4", {"<|tool_call>call:", NULL}},
    {"function_gemma", {"<start_function_call>", NULL}},
    {"qwen3_coder", {"<function=", "<parameter="}},
    {"mistral", {"[TOOL_CALLS]", NULL}},
    {"pythonic", {"<|tool_call_start|>", NULL}},
    {"pythonic", {"<|tool_list_start|>", NULL}},
    {"pythonic", {"[func_name1(params_name1=", NULL}},
    {"hermes", {"<tool_call>", "\"arguments\""}},
    {"llama3_json", {"{\"name\": function name, \"parameters\"", NULL}},
};

const char *output_family_of(span chat_template)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (has(chat_template, rows[i].words[0]) && (!rows[i].words[1] || has(chat_template, rows[i].words[1])) &&
            output_family_known(rows[i].family))
            return rows[i].family;
    return NULL;
}

const char *output_families(void)
{
    return "hermes, qwen3_coder, llama3_json, pythonic, mistral, gemma4, function_gemma";
}
