/* text/parse/thoughts.c: see thoughts.h, and the functions about thoughts in text/output_parser.h. */
#include "text/parse/thoughts.h"

#include "base/buf.h"
#include "text/output_parser.h"

/* The first whose marks a template holds is taken: those that hold the marks of another come first. */
static const thought_marks rows[] = {
    {"gemma4", "<|channel>thought", "<channel|>", true},
    {"mistral", "[THINK]", "[/THINK]", true},
    {"seed", "<seed:think>", "</seed:think>", true},
    {"cohere", "<|START_THINKING|>", "<|END_THINKING|>", true},
    {"think", "<think>", "</think>", false},
};
enum { ROWS = sizeof rows / sizeof *rows };

const thought_marks *thought_marks_find(const char *name)
{
    for (int i = 0; name && i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

bool output_thoughts_known(const char *name)
{
    return thought_marks_find(name) != NULL;
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

bool output_thought_is_open(const char *thoughts, span prompt)
{
    const thought_marks *marks = thought_marks_find(thoughts);
    while (prompt.size && strchr(" \n\t\r", prompt.data[prompt.size - 1]))
        prompt.size--;
    size_t size = marks ? strlen(marks->open) : 0;
    return marks && prompt.size >= size && memcmp(prompt.data + prompt.size - size, marks->open, size) == 0;
}

const char *output_thought_end(const char *thoughts)
{
    const thought_marks *marks = thought_marks_find(thoughts);
    return marks ? marks->close : NULL;
}

const char *output_thought_close(const char *thoughts)
{
    const thought_marks *marks = thought_marks_find(thoughts);
    return marks ? marks->close : NULL;
}
