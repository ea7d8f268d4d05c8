/* cli/help.c: tables of flags, parsed and printed. */
#include "cli/help.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"

static size_t flag_index(const command_spec *spec, const char *name, size_t size)
{
    size_t i = 0;
    while (spec->flags[i].name && !(strlen(spec->flags[i].name) == size && !memcmp(spec->flags[i].name, name, size)))
        i++;
    return i;
}

static size_t known_index(const command_flags *flags, const char *name)
{
    size_t i = flag_index(flags->spec, name, strlen(name));
    assert(flags->spec->flags[i].name && "a flag that is not in the command's table");
    return i;
}

static size_t columns_of(const char *text, size_t size)
{
    size_t columns = 0;
    for (size_t i = 0; i < size; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80; /* UTF-8: only first bytes count */
    return columns;
}

/* Breaks lines at blanks before column 80; newlines stay. */
static void print_wrapped(const char *text)
{
    size_t used = 0;
    while (*text) {
        size_t size = strcspn(text, " \n"), columns = columns_of(text, size);
        if (used > 0 && used + 1 + columns > 79) {
            putchar('\n');
            used = 0;
        }
        printf("%s%.*s", used > 0 ? " " : "", (int)size, text);
        used += columns + (used > 0 ? 1 : 0);
        text += size;
        if (*text == '\n') {
            putchar('\n');
            used = 0;
        }
        text += *text ? 1 : 0;
    }
    putchar('\n');
}

void command_print_help(const command_spec *spec)
{
    size_t width = strlen("--help");
    for (const flag_spec *f = spec->flags; f->name; f++) {
        size_t size = strlen(f->name) + (f->argument ? strlen(f->argument) + 1 : 0);
        width = size > width ? size : width;
    }
    printf("usage: headway %s%s%s%s\n\n", spec->name, spec->flags[0].name ? " [FLAGS]" : "", spec->operands ? " " : "",
           spec->operands ? spec->operands : "");
    print_wrapped(spec->summary);
    putchar('\n');
    for (const flag_spec *f = spec->flags; f->name; f++) {
        int used = printf("  %s%s%s", f->name, f->argument ? " " : "", f->argument ? f->argument : "");
        printf("%*s%s", (int)width + 4 - used, "", f->text);
        if (f->fallback)
            printf(" [%s]", f->fallback);
        putchar('\n');
    }
    printf("  %-*s  this text\n", (int)width, "--help");
    if (spec->notes) {
        putchar('\n');
        print_wrapped(spec->notes);
    }
}

static int complain(const command_spec *spec, const char *what, const char *argument)
{
    fprintf(stderr, "headway %s: %s: %s (see `headway %s --help`)\n", spec->name, argument, what, spec->name);
    return 2;
}

/* Takes one argument that starts with "--"; *position moves past a value that stands apart. */
static int take_flag(const command_spec *spec, int argc, char **argv, int *position, command_flags *out)
{
    const char *argument = argv[*position];
    const char *equals = strchr(argument, '=');
    size_t index = flag_index(spec, argument, equals ? (size_t)(equals - argument) : strlen(argument));
    const flag_spec *flag = &spec->flags[index];
    if (!flag->name)
        return complain(spec, "no such flag", argument);
    if (!flag->argument && equals)
        return complain(spec, "takes no value", argument);
    if (!flag->argument)
        out->values[index] = "";
    else if (equals)
        out->values[index] = equals + 1;
    else if (*position + 1 < argc)
        out->values[index] = argv[++*position];
    else
        return complain(spec, "a value is missing", argument);
    return COMMAND_RUN;
}

int command_parse(const command_spec *spec, int argc, char **argv, command_flags *out)
{
    *out = (command_flags){.spec = spec};
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        if (!only_operands && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))) {
            command_print_help(spec);
            return 0;
        }
        if (!only_operands && !strcmp(argv[i], "--")) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            int code = take_flag(spec, argc, argv, &i, out);
            if (code != COMMAND_RUN)
                return code;
        } else if (out->operand_count == spec->operand_max) {
            return complain(spec, "one argument too many", argv[i]);
        } else {
            out->operands[out->operand_count++] = argv[i];
        }
    }
    if (out->operand_count < spec->operand_min)
        return complain(spec, "is missing", spec->operands);
    return COMMAND_RUN;
}

bool flag_given(const command_flags *flags, const char *name)
{
    return flags->values[known_index(flags, name)] != NULL;
}

const char *flag_text(const command_flags *flags, const char *name)
{
    size_t i = known_index(flags, name);
    return flags->values[i] ? flags->values[i] : flags->spec->flags[i].fallback;
}

status flag_number(const command_flags *flags, const char *name, uint64_t min, uint64_t max, uint64_t *out, error *err)
{
    const char *text = flag_text(flags, name);
    if (!text)
        return error_set(err, ERR_NOT_FOUND, "%s: not given", name);
    char *end = NULL;
    errno = 0;
    unsigned long long value = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno || value < min || value > max)
        return error_set(err, ERR_INVALID, "%s: '%s' is not a number from %llu to %llu", name, text,
                         (unsigned long long)min, (unsigned long long)max);
    *out = value;
    return OK;
}

status flag_bytes(const command_flags *flags, const char *name, uint64_t *out, error *err)
{
    const char *text = flag_text(flags, name);
    if (!text)
        return error_set(err, ERR_NOT_FOUND, "%s: not given", name);
    if (!decimal_read_bytes(span_from(text), out))
        return error_set(err, ERR_INVALID, "%s: '%s' is not a size such as 512M or 1.5G", name, text);
    return OK;
}

int command_fail(const command_spec *spec, const error *err, int exit_code)
{
    fprintf(stderr, "headway %s: %s\n", spec->name, err->text[0] ? err->text : "failed");
    return exit_code;
}
