/* cli/main.c: the table of commands. Each command lies in a file of its own and gets argv from its own name on. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"

#ifndef HEADWAY_VERSION
#define HEADWAY_VERSION "0.1.0"
#endif

typedef struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
} command;

static const command commands[] = {
    {"serve", serve_main, "answer OpenAI-compatible requests with a model"},
    {"chat", chat_main, "talk to a model in the terminal"},
    {"inspect", inspect_main, "say what a model file is, what it needs and whether it runs"},
    {"tokenize", tokenize_main, "text on stdin, token ids out"},
    {"render", render_main, "messages on stdin, prompt text out, by a chat template"},
    {"synth", synth_main, "write a model of random weights in the shape of a config.json"},
    {"bench", bench_main, "measure this machine with a model"},
    {"tune", tune_main, "measure this machine under every policy, write settings for serve"},
    {"plan", plan_main, "say what a machine will do with a model, before you buy or load it"},
    {"simulate", simulate_main, "what bench would report on other hardware, on a virtual clock"},
    {"hash-key", hash_key_main, "the hash of an API key, for the config file of serve"},
    {NULL, NULL, NULL},
};

static void print_usage(FILE *out)
{
    fprintf(out, "usage: headway COMMAND [FLAGS]\n\n"
                 "Headway serves open-weight language models over the OpenAI-compatible API.\n\n");
    for (const command *c = commands; c->name; c++)
        fprintf(out, "  %-10s %s\n", c->name, c->text);
    fprintf(out, "\n  headway COMMAND --help   the flags of a command\n"
                 "  headway --version        the version\n\n"
                 "HEADWAY_CPU=generic|avx2|avx512|avx512bf16|neon picks the kernels [best].\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_usage(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("headway " HEADWAY_VERSION);
        return 0;
    }
    for (const command *c = commands; c->name; c++)
        if (!strcmp(argv[1], c->name))
            return c->run(argc - 1, argv + 1);
    fprintf(stderr, "headway: '%s' is not a command (see `headway --help`)\n", argv[1]);
    return 2;
}
