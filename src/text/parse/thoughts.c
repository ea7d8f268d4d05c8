/* text/parse/thoughts.c: the marks around thoughts, a row a spelling. */
#include "text/output_parser.h"

/* The first whose marks a template holds is taken: those that hold the marks of another come first. */
static const output_marks rows[] = {
    {"gemma4", "<|channel>thought", "<channel|>", "<channel|>", true},
    {"mistral", "[THINK]", "[/THINK]", "[/THINK]", true},
    {"seed", "<seed:think>", "</seed:think>", "</seed:think>", true},
    {"cohere", "<|START_THINKING|>", "<|END_THINKING|>", "<|END_THINKING|>", true},
    {"think", "<think>", "</think>", "\n</think>\n\n", false},
};
enum { ROWS = sizeof rows / sizeof *rows };

const output_marks *output_marks_find(const char *name)
{
    for (int i = 0; name && i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

const char *output_thoughts(void)
{
    return "gemma4, mistral, seed, cohere, think";
}

static size_t last_place(span text, const char *word)
{
    size_t size = strlen(word);
    for (size_t at = text.size; at >= size; at--)
        if (memcmp(text.data + at - size, word, size) == 0)
            return at;
    return 0;
}

const char *output_thoughts_of(span chat_template)
{
    for (int i = 0; i < ROWS; i++)
        if (last_place(chat_template, rows[i].close))
            return rows[i].name;
    return NULL;
}

static bool ends_with(span text, const char *word)
{
    while (text.size && strchr(" \n\t\r", text.data[text.size - 1]))
        text.size--;
    size_t size = strlen(word);
    return text.size >= size && memcmp(text.data + text.size - size, word, size) == 0;
}

bool output_thought_is_open(const output_marks *marks, span prompt)
{
    return marks && ends_with(prompt, marks->open);
}

bool output_thought_is_over(const output_marks *marks, span prompt)
{
    return marks && ends_with(prompt, marks->close);
}
