/* base/power_info.c: class/power_supply and devices/system/cpu of a folder like /sys. */
#include "base/power_info.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 1024, ENTRIES_MAX = 4096 }; /* folders looked at, whatever is there */
static const double clock_fell = 0.85, clock_low = 0.5;

/* The file's first line without its end; false: it is not there. */
static bool read_line(const char *folder, const char *name, char *out, int size)
{
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    bool got = file && fgets(out, size, file);
    if (file)
        fclose(file);
    if (got)
        out[strcspn(out, "\r\n")] = 0;
    return got;
}

static bool read_number(const char *folder, const char *name, uint64_t *out)
{
    char text[32];
    unsigned long long value;
    if (!read_line(folder, name, text, sizeof text) || !isdigit((unsigned char)text[0]) ||
        sscanf(text, "%llu", &value) != 1)
        return false;
    *out = value;
    return true;
}

/* ---- where the power is from ---- */

typedef struct {
    bool line_on, line_off, battery_drains, battery_rests;
} supplies;

static void read_supply(const char *folder, supplies *found)
{
    char type[32] = "", text[32] = "";
    uint64_t online = 0;
    if (!read_line(folder, "type", type, sizeof type) ||
        (read_line(folder, "scope", text, sizeof text) && strcmp(text, "Device") == 0)) /* a mouse's battery */
        return;
    if (strcmp(type, "Battery") == 0 || strcmp(type, "UPS") == 0) {
        if (!read_line(folder, "status", text, sizeof text) || strcmp(text, "Unknown") == 0)
            return;
        if (strcmp(text, "Discharging") == 0)
            found->battery_drains = true;
        else
            found->battery_rests = true;
    } else if (read_number(folder, "online", &online)) { /* Mains, or one of the kinds of USB */
        found->line_on = found->line_on || online > 0;
        found->line_off = found->line_off || (online == 0 && strcmp(type, "Mains") == 0);
    }
}

static power_source read_source(const char *root)
{
    char folder[PATH_SIZE], supply[PATH_SIZE + 300];
    supplies found = {0};
    snprintf(folder, sizeof folder, "%s/class/power_supply", root);
    DIR *entries = opendir(folder);
    struct dirent *entry;
    for (int i = 0; entries && i < ENTRIES_MAX && (entry = readdir(entries)); i++)
        if (entry->d_name[0] != '.') {
            snprintf(supply, sizeof supply, "%s/%.255s", folder, entry->d_name);
            read_supply(supply, &found);
        }
    if (entries)
        closedir(entries);
    if (found.line_on)
        return POWER_MAINS;
    if (found.battery_drains)
        return POWER_BATTERY;
    return found.battery_rests && !found.line_off ? POWER_MAINS : POWER_UNKNOWN;
}

/* ---- how fast the cores are ---- */

static void read_core(const char *folder, power_info *out)
{
    static const char *const counts[] = {"thermal_throttle/core_throttle_count",
                                         "thermal_throttle/package_throttle_count"};
    uint64_t value;
    if (read_number(folder, "cpufreq/scaling_cur_freq", &value) && value > out->clock_khz)
        out->clock_khz = value;
    if (read_number(folder, "cpufreq/cpuinfo_max_freq", &value) && value > out->clock_highest_khz)
        out->clock_highest_khz = value;
    for (int i = 0; i < 2; i++)
        if (read_number(folder, counts[i], &value)) {
            out->throttle_count += value;
            out->throttle_counted = true;
        }
}

static void read_cores(const char *root, power_info *out)
{
    char folder[PATH_SIZE], core[PATH_SIZE + 300];
    snprintf(folder, sizeof folder, "%s/devices/system/cpu", root);
    DIR *entries = opendir(folder);
    struct dirent *entry;
    for (int i = 0; entries && i < ENTRIES_MAX && (entry = readdir(entries)); i++)
        if (strncmp(entry->d_name, "cpu", 3) == 0 && isdigit((unsigned char)entry->d_name[3])) {
            snprintf(core, sizeof core, "%s/%.255s", folder, entry->d_name);
            read_core(core, out);
        }
    if (entries)
        closedir(entries);
}

void power_info_read(power_info *out, const char *root)
{
    root = root ? root : "/sys";
    *out = (power_info){0};
    if (strlen(root) > PATH_SIZE - 64)
        return;
    out->source = read_source(root);
    read_cores(root, out);
}

power_verdict power_between(const power_info *before, const power_info *after)
{
    power_verdict v = {.source = after->source != POWER_UNKNOWN ? after->source : before->source};
    bool counted = before->throttle_counted && after->throttle_counted;
    bool clocks = before->clock_khz && after->clock_khz;
    if (before->source == POWER_BATTERY)
        v.source = POWER_BATTERY;
    v.throttled_known = counted || clocks || (after->clock_khz && after->clock_highest_khz);
    v.throttled = (counted && after->throttle_count > before->throttle_count) ||
                  (clocks && (double)after->clock_khz < (double)before->clock_khz * clock_fell) ||
                  (after->clock_khz && (double)after->clock_khz < (double)after->clock_highest_khz * clock_low);
    return v;
}

const char *power_source_name(power_source source)
{
    return source == POWER_MAINS ? "mains" : source == POWER_BATTERY ? "battery" : "unknown";
}
