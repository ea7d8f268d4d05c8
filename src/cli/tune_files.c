/* cli/tune_files.c: see the header. */
#include "cli/tune_files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

static status write_all(const char *path, span text, error *err)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    bool failed = fwrite(text.data, 1, text.size, file) != text.size || fflush(file) != 0 || fsync(fileno(file)) != 0;
    int why = errno;
    if (fclose(file) != 0 && !failed) {
        failed = true;
        why = errno;
    }
    if (failed)
        unlink(path);
    return failed ? error_set(err, ERR_IO, "%s: %s", path, strerror(why)) : OK;
}

static status write_file(const char *folder, const char *name, const buf *text, error *err)
{
    char path[PATH_SIZE], fresh[PATH_SIZE + 8];
    if (text->failed)
        return error_set(err, ERR_MEMORY, "%s: out of memory", name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    status st = write_all(fresh, buf_span(text), err);
    if (!st && rename(fresh, path) != 0) {
        st = error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
        unlink(fresh);
    }
    return st;
}

status tune_folder_open(const char *folder, error *err)
{
    char probe[PATH_SIZE];
    if (strlen(folder) > PATH_SIZE - 64)
        return error_set(err, ERR_INVALID, "--out: the path is too long");
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return error_set(err, ERR_IO, "--out %s: %s", folder, strerror(errno));
    snprintf(probe, sizeof probe, "%s/headway.conf.new", folder);
    status st = write_all(probe, span_from(" "), err);
    if (!st)
        unlink(probe);
    return st;
}

status tune_files_write(const char *folder, const tune_report *r, const tune_setting *settings, error *err)
{
    static const struct {
        const char *name;
        void (*write)(const tune_report *r, buf *out);
    } files[] = {{"steps.json", tune_steps_json}, {"curves.json", tune_curves_json}, {"curves.html", tune_html}};
    buf text = {0};
    status st = OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && !st; i++) {
        buf_clear(&text);
        files[i].write(r, &text);
        st = write_file(folder, files[i].name, &text, err);
    }
    buf_clear(&text);
    tune_config(r, settings, &text);
    if (!st)
        st = write_file(folder, "headway.conf", &text, err);
    buf_free(&text);
    return st;
}

static void read_cpu_name(char *out, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    out[0] = 0;
    while (file && !out[0] && fgets(line, sizeof line, file)) {
        const char *value = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (value)
            snprintf(out, size, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
    }
    if (file)
        fclose(file);
    struct utsname machine;
    if (!out[0])
        snprintf(out, size, "%.60s", uname(&machine) == 0 ? machine.machine : "a machine");
}

void tune_machine_name(char *out, size_t size, uint32_t threads, const char *kernels)
{
    char cpu[160];
    read_cpu_name(cpu, sizeof cpu);
    snprintf(out, size, "%s, %u threads, %s", cpu, threads, kernels);
}
