/* cli/run_names.c: see the header. */
#include "cli/run_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "plan/hardware.h"

enum { CPU_NAME = 160, HARDWARE_NAME = 48, CPUINFO_BYTES = 16384 };
static const char prefix[] = "this-machine-";

/* ---- the machine ---- */

/* The text after "KEY   : " up to the line's end; false: no line has that key. */
static bool value_of(const char *cpuinfo, const char *key, char *out, size_t size)
{
    for (const char *line = cpuinfo; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *colon = line + strcspn(line, ":\n");
        if (*colon != ':')
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(out, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        return true;
    }
    return false;
}

static bool skipped_word(const char *word, size_t size)
{
    static const char *const skipped[] = {"CPU", "Processor", "w/", "with"};
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++)
        if (size == strlen(skipped[i]) && strncasecmp(word, skipped[i], size) == 0)
            return true;
    for (size_t i = 0; i + 5 <= size; i++) /* "96-Core" */
        if (strncasecmp(word + i, "-core", 5) == 0)
            return true;
    return false;
}

/* What a maker calls it, without marks, clock and count of cores: "AMD EPYC 9654 96-Core Processor" is "AMD EPYC 9654".
 */
static void bare_cpu(char *out, size_t size, const char *name)
{
    char plain[CPU_NAME] = "";
    size_t used = 0;
    for (const char *p = name; *p && used + 1 < sizeof plain; p++) {
        if (strncasecmp(p, "(r)", 3) == 0)
            p += 2;
        else if (strncasecmp(p, "(tm)", 4) == 0)
            p += 3;
        else
            plain[used++] = *p;
    }
    plain[used] = 0;
    plain[strcspn(plain, "@")] = 0;
    out[0] = 0;
    for (char *word = plain; *(word += strspn(word, " \t"));) {
        size_t length = strcspn(word, " \t"), have = strlen(out);
        if (strncasecmp(word, "w/", 2) == 0 || strncasecmp(word, "with ", 5) == 0)
            break; /* its graphics */
        if (!skipped_word(word, length))
            snprintf(out + have, size - have, "%s%.*s", have ? " " : "", (int)length, word);
        word += length;
    }
}

static void slug(char *out, size_t size, const char *text)
{
    size_t used = 0;
    for (; *text && used + 1 < size; text++) {
        if (isalnum((unsigned char)*text) || *text == '.')
            out[used++] = (char)tolower((unsigned char)*text);
        else if (used && out[used - 1] != '-')
            out[used++] = '-';
    }
    while (used && out[used - 1] == '-')
        used--;
    out[used] = 0;
}

void run_hardware_name_of(char out[HARDWARE_NAME], const char *cpuinfo, const char *machine, long cores)
{
    char name[CPU_NAME], bare[CPU_NAME], flags[CPUINFO_BYTES];
    const hardware *row;
    if (!value_of(cpuinfo, "model name", name, sizeof name) && !value_of(cpuinfo, "Model", name, sizeof name))
        snprintf(name, sizeof name, "%s", machine);
    bool part = value_of(cpuinfo, "flags", flags, sizeof flags) && strstr(flags, " hypervisor");
    bare_cpu(bare, sizeof bare, name);
    if (!part && bare[0] && hardware_find(&row, bare, NULL) == OK) {
        snprintf(out, HARDWARE_NAME, "%s", row->name);
        return;
    }
    char tail[24];
    snprintf(tail, sizeof tail, "-%ld-core%s", cores % 100000, cores == 1 ? "" : "s");
    memcpy(out, prefix, sizeof prefix);
    slug(out + strlen(prefix), HARDWARE_NAME - strlen(prefix) - strlen(tail), bare[0] ? bare : machine);
    snprintf(out + strlen(out), HARDWARE_NAME - strlen(out), "%s", tail);
}

void run_hardware_name(char out[HARDWARE_NAME])
{
    const char *named = getenv("HEADWAY_HARDWARE");
    if (named && named[0]) {
        snprintf(out, HARDWARE_NAME, "%s", named);
        return;
    }
    char *text = calloc(1, CPUINFO_BYTES);
    FILE *file = fopen("/proc/cpuinfo", "r");
    struct utsname machine;
    bool known = uname(&machine) == 0;
    size_t got = file && text ? fread(text, 1, CPUINFO_BYTES - 1, file) : 0;
    if (text)
        text[got] = 0;
    if (file)
        fclose(file);
    run_hardware_name_of(out, text ? text : "", known ? machine.machine : "unknown", sysconf(_SC_NPROCESSORS_ONLN));
    free(text);
}

/* ---- the model ---- */

/* As far as a step's time depends on it; the vocabulary may be padded. */
static bool same_shape(const model_shape *a, const model_shape *b)
{
    return a->layers == b->layers && a->hidden == b->hidden && a->heads == b->heads && a->kv_heads == b->kv_heads &&
           a->head_dim == b->head_dim && a->attention_layers == b->attention_layers &&
           a->linear_layers == b->linear_layers && a->kv_lora == b->kv_lora && a->feed_forward == b->feed_forward &&
           a->experts == b->experts && a->experts_used == b->experts_used &&
           a->expert_feed_forward == b->expert_feed_forward && a->vocab < b->vocab + b->vocab / 50 &&
           b->vocab < a->vocab + a->vocab / 50;
}

/* Letters and digits only, small. */
static void letters(char *out, size_t size, const char *text)
{
    size_t used = 0;
    for (; *text && used + 1 < size; text++)
        if (isalnum((unsigned char)*text))
            out[used++] = (char)tolower((unsigned char)*text);
    out[used] = 0;
}

/* Of the rows with that shape the one whose name the file's holds, the longest; else the first. */
static const model_shape *row_like(const model_shape *shape)
{
    char name[64], row[64];
    const model_shape *best = NULL;
    size_t most = 0;
    letters(name, sizeof name, shape->name);
    for (size_t i = 0; i < catalogue_count(); i++) {
        if (!same_shape(catalogue_at(i), shape))
            continue;
        letters(row, sizeof row, catalogue_at(i)->name);
        size_t held = strstr(name, row) ? strlen(row) : 0;
        if (!best || held > most) {
            best = catalogue_at(i);
            most = held;
        }
    }
    return best;
}

void run_model_name(char out[64], const model_shape *shape)
{
    const model_shape *named, *like;
    size_t index;
    bool known = catalogue_find(&named, &index, shape->name, NULL) == OK;
    like = known && same_shape(named, shape) ? named : row_like(shape);
    if (like)
        snprintf(out, 64, "%s", like->name);
    else if (known)
        snprintf(out, 64, "%.32s-%u-layers-%u-wide", shape->name, shape->layers, shape->hidden);
    else
        slug(out, 64, shape->name[0] ? shape->name : "unnamed");
}
