/* plan/hardware.c: finding a row by a name as people write it, and what follows from a row.
 * Two names are the same when their letters and digits are: "RTX 4090", "rtx_4090" and "rtx4090" are "rtx-4090"; a
 * maker's name before it is dropped. The tables hold no two rows that this would mix up (a test says so). */
#include "plan/hardware.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/hardware_rows.h"

enum {
    KEY_MAX = 40,    /* letters and digits of a name; no row has as many, so that a longer name is none of them */
    SHOWN_MAX = 40,  /* bytes of a wrong name in a message */
    NEAREST_MAX = 4, /* names that a message offers */
};

static const hardware_rows *const families[] = {&hardware_apple, &hardware_geforce, &hardware_nvidia,
                                                &hardware_amd,   &hardware_cpu,     &hardware_other};
enum { FAMILIES = sizeof families / sizeof *families };

/* ---- names ---- */

typedef struct {
    char text[KEY_MAX + 1]; /* letters, small, and digits, in order; cut when too long */
    size_t size;
    bool clean; /* nothing else was in the name but what separates words, and it was not cut */
} name_key;

/* Keys of other names that a device goes by. */
static const struct {
    const char *key, *name;
} aliases[] = {
    {"a100sxm", "a100"},
    {"a10080gb", "a100"},
    {"a100sxm80gb", "a100"},
    {"a100sxm480gb", "a100"},
    {"h100sxm5", "h100"},
    {"a10080gbsxm", "a100"},
    {"a6000", "rtx-a6000"},
    {"aimax395", "strix-halo"},
    {"aipror9700", "r9700"},
    {"gb10", "dgx-spark"},
    {"groq", "groq-lpu"},
    {"h100sxm", "h100"},
    {"h100sxm80gb", "h100"},
    {"h10080gb", "h100"},
    {"ironwood", "tpu-v7x"},
    {"m3max40", "m3-max"},
    {"m4max40", "m4-max"},
    {"m5max40", "m5-max"},
    {"orin", "jetson-agx-orin"},
    {"pi5", "raspberry-pi-5"},
    {"prow7900", "w7900"},
    {"rpi5", "raspberry-pi-5"},
    {"rtxpro6000blackwell", "rtx-pro-6000"},
    {"ryzenaimax395", "strix-halo"},
    {"spark", "dgx-spark"},
    {"thor", "jetson-agx-thor"},
    {"trillium", "tpu-v6e"},
};

/* Words before a device's own name, in the order in which they are said. */
static const char *const makers[] = {"apple",    "nvidia", "geforce", "amd", "radeon",
                                     "instinct", "intel",  "google",  "aws"};

static void key_of(const char *name, name_key *out)
{
    char all[KEY_MAX + 1];
    size_t size = 0;
    out->clean = true;
    for (; *name; name++) {
        char c = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;
        bool kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (kept && size < KEY_MAX)
            all[size++] = c;
        else if (kept || !strchr(" \t-_+.,/()", c))
            out->clean = false;
    }
    all[size] = 0;
    const char *rest = all;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        size_t maker = strlen(makers[i]);
        if (strncmp(rest, makers[i], maker) == 0 && rest[maker])
            rest += maker;
    }
    out->size = strlen(rest);
    memcpy(out->text, rest, out->size + 1);
    out->clean = out->clean && out->size > 0;
}

static const hardware *row_of_key(const name_key *key)
{
    const char *wanted = NULL;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases && !wanted; i++)
        if (strcmp(aliases[i].key, key->text) == 0)
            wanted = aliases[i].name;
    for (size_t i = 0; i < hardware_count(); i++) {
        const hardware *row = hardware_at(i);
        name_key own;
        key_of(row->name, &own);
        if (wanted ? strcmp(wanted, row->name) == 0 : strcmp(own.text, key->text) == 0)
            return row;
    }
    return NULL;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to put in, leave out, replace or swap with their neighbour to make one of the other. */
static size_t distance(const name_key *a, const name_key *b)
{
    size_t table[3][KEY_MAX + 1]; /* three rows of the usual table, the row of i at i % 3 */
    for (size_t j = 0; j <= b->size; j++)
        table[0][j] = j;
    for (size_t i = 1; i <= a->size; i++) {
        size_t *row = table[i % 3], *last = table[(i - 1) % 3], *before = table[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b->size; j++) {
            char x = a->text[i - 1], y = b->text[j - 1];
            row[j] = least(least(row[j - 1], last[j]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == b->text[j - 2] && a->text[i - 2] == y)
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return table[a->size % 3][b->size];
}

/* 0: far away; else the larger the nearer. A piece of a name ("4090") goes before letters changed, and these before a
 * name with something else around it. */
static size_t nearness(const name_key *wanted, const name_key *own)
{
    size_t far = distance(wanted, own);
    if (wanted->size >= 2 && strstr(own->text, wanted->text))
        return 6 * KEY_MAX - far;
    if (far <= (wanted->size + 1) / 3)
        return 4 * KEY_MAX - far;
    return strstr(wanted->text, own->text) ? 2 * KEY_MAX - far : 0;
}

/* "m4-max, m4-pro", the nearest first; "" when there is none. */
static void write_nearest(const name_key *wanted, char *out, size_t room)
{
    struct {
        const char *name;
        size_t nearness;
    } best[NEAREST_MAX] = {{0}};
    for (size_t i = 0; i < hardware_count(); i++) {
        name_key own;
        const char *name = hardware_at(i)->name;
        key_of(name, &own);
        size_t near = nearness(wanted, &own), at = NEAREST_MAX;
        while (at > 0 && near > best[at - 1].nearness)
            at--;
        if (at == NEAREST_MAX)
            continue;
        memmove(&best[at + 1], &best[at], (NEAREST_MAX - 1 - at) * sizeof *best);
        best[at].name = name;
        best[at].nearness = near;
    }
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < NEAREST_MAX && best[i].name && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? ", " : "", best[i].name);
}

/* What of a name a message may show: one line of plain letters. */
static void write_shown(const char *name, char out[SHOWN_MAX + 4])
{
    size_t size = 0;
    for (; name[size] && size < SHOWN_MAX; size++)
        out[size] = name[size] >= ' ' && name[size] < 127 ? name[size] : '?';
    memcpy(out + size, name[size] ? "..." : "", name[size] ? 4 : 1);
}

/* ---- numbers ---- */

typedef struct {
    const char *what, *unit;
    double least, most; /* of a number that is not 0 */
    bool needed;        /* 0 is none */
} number_rule;

static status check_number(const hardware *row, const number_rule *rule, double value, error *err)
{
    const char *name = row->name ? row->name : "hardware";
    if (!isfinite(value))
        return error_set(err, ERR_INVALID, "%.64s: %s: not a finite number", name, rule->what);
    if ((value == 0 && !rule->needed) || (value >= rule->least && value <= rule->most))
        return OK;
    return error_set(err, ERR_INVALID, "%.64s: %s: %g%s cannot be: %g to %g", name, rule->what, value, rule->unit,
                     rule->least, rule->most);
}

/* ---- the contract ---- */

size_t hardware_count(void)
{
    size_t count = 0;
    for (size_t i = 0; i < FAMILIES; i++)
        count += families[i]->count;
    return count;
}

const hardware *hardware_at(size_t index)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        if (index < families[i]->count)
            return &families[i]->rows[index];
        index -= families[i]->count;
    }
    return NULL;
}

status hardware_find(const hardware **out, const char *name, error *err)
{
    static const char all[] = "`headway plan --list hardware` names all";
    name_key key;
    key_of(name ? name : "", &key);
    const hardware *row = key.clean ? row_of_key(&key) : NULL;
    if (row) {
        *out = row;
        return OK;
    }
    if (!err) /* the nearest names take their time */
        return ERR_NOT_FOUND;
    if (!name || !*name)
        return error_set(err, ERR_NOT_FOUND, "hardware: no name; %s", all);
    char shown[SHOWN_MAX + 4], nearest[160];
    write_shown(name, shown);
    write_nearest(&key, nearest, sizeof nearest);
    return error_set(err, ERR_NOT_FOUND, "hardware \"%s\": not in the table%s%s; %s", shown,
                     *nearest ? "; nearest: " : "", nearest, all);
}

status hardware_check(const hardware *row, error *err)
{
    static const number_rule memory = {"memory", " GB", 0.001, 1e5, true};
    static const number_rule bandwidth = {"bandwidth", " GB/s", 0.01, 1e5, true};
    static const number_rule rate = {"matmul rate", " TFLOP/s", 1e-6, 1e5, false};
    static const number_rule link = {"link", " GB/s", 1e-4, 1e4, false};
    static const number_rule watts = {"power", " W", 0.1, 5000, false};
    static const number_rule price = {"price", " USD", 1, 1e6, false};
    status st;
    if ((int)row->kind < 0 || row->kind >= HW_KINDS)
        return error_set(err, ERR_INVALID, "%.64s: no kind of hardware: %d", row->name ? row->name : "hardware",
                         (int)row->kind);
    if ((st = check_number(row, &memory, row->memory_gb, err)) ||
        (st = check_number(row, &bandwidth, row->bandwidth_gb_s, err)))
        return st;
    for (int kind = 0; kind < RATE_KINDS; kind++)
        if ((st = check_number(row, &rate, row->tflops[kind], err)))
            return st;
    if ((st = check_number(row, &link, row->link_gb_s, err)) || (st = check_number(row, &watts, row->watts, err)))
        return st;
    return check_number(row, &price, row->price_usd, err);
}

double hardware_naive_tok_s(const hardware *row)
{
    return 65 * row->bandwidth_gb_s / 546;
}

double hardware_usable_bytes(const hardware *row)
{
    double gb = row->memory_gb, left = 0;
    switch (row->kind) {
    case HW_UNIFIED:
        left = fmin(fmax(gb / 4, 4), 16);
        break;
    case HW_HOST:
        left = fmin(fmax(gb / 8, 1), 32);
        break;
    case HW_SRAM:
        left = gb < 1 ? gb : 0.06 * gb;
        break;
    case HW_CARD:
    case HW_SERVER:
        left = 0.06 * gb;
        break;
    case HW_SSD:
    case HW_KINDS:
        left = gb;
        break;
    }
    return fmax(gb - left, 0) * 1e9;
}

const char *hardware_kind_name(hardware_kind kind)
{
    static const char *const names[HW_KINDS] = {"unified", "card", "server", "host", "sram", "ssd"};
    return (int)kind >= 0 && kind < HW_KINDS ? names[kind] : "?";
}
