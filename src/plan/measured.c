/* plan/measured.c: sets of runs: groups, doubles, outliers, medians. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/measured_private.h"

enum { OTHERS_LEAST = 4, SET_MAX = 2 * RUNS_MAX, FIRST_CAPACITY = 64 };
static const double outlier_factor = 2;

void run_set_free(run_set *s)
{
    free(s->items);
    *s = (run_set){0};
}

status run_set_add(run_set *s, const run_record *r)
{
    if (s->count >= SET_MAX)
        return ERR_LIMIT;
    if (s->count == s->capacity) {
        uint32_t capacity = s->capacity ? s->capacity * 2 : FIRST_CAPACITY;
        run_record *items = realloc(s->items, capacity * sizeof *items);
        if (!items)
            return ERR_MEMORY;
        s->items = items;
        s->capacity = capacity;
    }
    s->items[s->count++] = *r;
    return OK;
}

/* ---- order ---- */

static int by_number(double a, double b)
{
    return (a > b) - (a < b);
}

/* Below the least a decode step costs much the same; a prompt is the slower a token the shorter it is. */
static uint32_t depth_of(const run_record *r)
{
    uint32_t least = r->kind == RUN_PREFILL ? PROMPT_LEAST : DEPTH_LEAST;
    return r->prompt_tokens < least ? least : r->prompt_tokens;
}

/* Depths of one class are about a factor of two apart at most; round figures lie in the middle of theirs. */
static double depth_class(const run_record *r)
{
    return floor(log2((double)depth_of(r) / DEPTH_LEAST) + 0.5);
}

int run_compare_group(const run_record *a, const run_record *b)
{
    int order = strcmp(a->hardware, b->hardware);
    order = order ? order : strcmp(a->model, b->model);
    order = order ? order : strcmp(a->type, b->type);
    order = order ? order : by_number(a->kind, b->kind);
    order = order ? order : by_number(a->batch, b->batch);
    order = order ? order : strcmp(a->runtime, b->runtime);
    order = order ? order : by_number(depth_class(a), depth_class(b));
    return order ? order : by_number(run_hindered(a), run_hindered(b));
}

int run_compare(const run_record *a, const run_record *b)
{
    int order = run_compare_group(a, b);
    order = order ? order : strcmp(b->date, a->date); /* the newest first */
    order = order ? order : by_number(a->tok_s, b->tok_s);
    order = order ? order : by_number(a->tok_s_low, b->tok_s_low);
    order = order ? order : by_number(a->tok_s_high, b->tok_s_high);
    order = order ? order : by_number(a->prompt_tokens, b->prompt_tokens);
    order = order ? order : by_number(a->output_tokens, b->output_tokens);
    order = order ? order : by_number(a->repeats, b->repeats);
    order = order ? order : by_number(a->power, b->power);
    order = order ? order : by_number(a->throttle_known, b->throttle_known);
    order = order ? order : strcmp(a->version, b->version);
    order = order ? order : strcmp(a->sampler, b->sampler);
    return order ? order : strcmp(a->source, b->source);
}

/* ---- import ---- */

typedef struct {
    const run_record *r;
    uint32_t place; /* which goes first of equal ones: those in the set, then by line */
    bool drop;
} place;

static int by_record(const void *a, const void *b)
{
    const place *x = a, *y = b;
    int order = run_compare(x->r, y->r);
    return order ? order : by_number(x->place, y->place);
}

static int by_group_and_rate(const void *a, const void *b)
{
    const place *x = a, *y = b;
    int order = run_compare_group(x->r, y->r);
    order = order ? order : by_number(x->r->tok_s, y->r->tok_s);
    return order ? order : by_number(x->place, y->place);
}

static void reason(import_report *out, uint32_t line, const char *text)
{
    if (!out->first_reason[0])
        snprintf(out->first_reason, sizeof out->first_reason, "line %u: %.200s", line, text);
}

/* The median of a sorted group without one of its members. */
static double median_without(const place *group, uint32_t count, uint32_t skip)
{
    uint32_t others = count - 1, low = (others - 1) / 2, high = others / 2;
    return (group[low + (low >= skip)].r->tok_s + group[high + (high >= skip)].r->tok_s) / 2;
}

static void mark_doubles(place *all, uint32_t count, uint32_t old)
{
    qsort(all, count, sizeof *all, by_record);
    for (uint32_t i = 1; i < count; i++)
        all[i].drop = all[i].place >= old && run_compare(all[i].r, all[i - 1].r) == 0;
}

/* Marks in `outlier`, by place - old, which of the lines lie apart; doubles are gone from `all`. */
static void mark_outliers(place *all, uint32_t count, uint32_t old, double *outlier)
{
    qsort(all, count, sizeof *all, by_group_and_rate);
    for (uint32_t start = 0, end; start < count; start = end) {
        for (end = start + 1; end < count && run_compare_group(all[start].r, all[end].r) == 0;)
            end++;
        for (uint32_t i = start; i < end && end - start > OTHERS_LEAST; i++) {
            double median = median_without(all + start, end - start, i - start), rate = all[i].r->tok_s;
            if (all[i].place >= old && (rate > median * outlier_factor || rate * outlier_factor < median))
                outlier[all[i].place - old] = median;
        }
    }
}

typedef struct {
    run_set set;
    uint32_t *lines; /* where each of the set's records stood */
} read_lines;

static status read_all(read_lines *fresh, span text, uint64_t now_s, import_report *out, error *err)
{
    uint32_t number = 0, capacity = 0;
    for (size_t at = 0; at < text.size; number++) {
        const char *start = text.data + at, *end = memchr(start, '\n', text.size - at);
        span line = span_of(start, end ? (size_t)(end - start) : text.size - at);
        at += line.size + 1;
        size_t blank = 0;
        while (blank < line.size && memchr(" \t\r", line.data[blank], 3))
            blank++;
        if (blank == line.size)
            continue;
        run_record record;
        error why;
        if (run_record_read(&record, line, &why) || run_record_check(&record, now_s, &why)) {
            out->refused++;
            reason(out, number + 1, why.text);
            continue;
        }
        status st = run_set_add(&fresh->set, &record);
        if (st)
            return error_set(err, st, st == ERR_LIMIT ? "more than %d runs" : "out of memory", SET_MAX);
        if (capacity < fresh->set.capacity) {
            capacity = fresh->set.capacity;
            uint32_t *lines = realloc(fresh->lines, capacity * sizeof *lines);
            if (!lines)
                return error_set(err, ERR_MEMORY, "out of memory");
            fresh->lines = lines;
        }
        fresh->lines[fresh->set.count - 1] = number + 1;
    }
    return OK;
}

static uint32_t without_dropped(place *all, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!all[i].drop)
            all[kept++] = all[i];
    return kept;
}

/* Appends what is neither a double nor an outlier, in the order of the lines. `all` has room for both sets, `outlier`
 * for the lines. */
static status merge(run_set *s, const read_lines *fresh, place *all, double *outlier, import_report *out)
{
    uint32_t old = s->count, count = old + fresh->set.count;
    bool *taken = (bool *)(outlier + fresh->set.count);
    status st = OK;
    for (uint32_t i = 0; i < count; i++)
        all[i] = (place){i < old ? &s->items[i] : &fresh->set.items[i - old], i, false};
    mark_doubles(all, count, old);
    count = without_dropped(all, count);
    out->doubles += old + fresh->set.count - count;
    mark_outliers(all, count, old, outlier);
    for (uint32_t i = 0; i < count; i++)
        if (all[i].place >= old)
            taken[all[i].place - old] = true;
    for (uint32_t i = 0; i < fresh->set.count && !st; i++) {
        const run_record *r = &fresh->set.items[i];
        char text[200];
        if (outlier[i] > 0) {
            out->outliers++;
            snprintf(text, sizeof text, "tok_s: %.6g is more than a factor of two from %.6g, the median of its group",
                     r->tok_s, outlier[i]);
            reason(out, fresh->lines[i], text);
        } else if (taken[i]) {
            st = run_set_add(s, r);
            out->taken++;
        }
    }
    if (st)
        s->count = old;
    return st;
}

status run_set_import(run_set *s, span text, uint64_t now_s, import_report *out, error *err)
{
    read_lines fresh = {0};
    *out = (import_report){0};
    status st = read_all(&fresh, text, now_s, out, err);
    if (!st && fresh.set.count) {
        place *all = malloc(((size_t)s->count + fresh.set.count) * sizeof *all);
        double *outlier = calloc(fresh.set.count, sizeof *outlier + sizeof(bool));
        st = all && outlier ? merge(s, &fresh, all, outlier, out) : ERR_MEMORY;
        if (st)
            error_set(err, st, st == ERR_LIMIT ? "more than %d runs" : "out of memory", SET_MAX);
        free(all);
        free(outlier);
    }
    run_set_free(&fresh.set);
    free(fresh.lines);
    return st;
}

/* ---- trimming ---- */

typedef struct {
    const run_record *r;
    uint32_t rank; /* in its group, the newest is 0 */
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    int order = by_number(x->rank, y->rank);
    order = order ? order : strcmp(y->r->date, x->r->date);
    return order ? order : run_compare(x->r, y->r);
}

static int by_order(const void *a, const void *b)
{
    return run_compare(((const ranked *)a)->r, ((const ranked *)b)->r);
}

status run_set_trim(run_set *s, uint32_t most, error *err)
{
    if (s->count <= most)
        return OK;
    ranked *all = malloc(s->count * sizeof *all);
    run_set kept = {0};
    status st = all ? OK : ERR_MEMORY;
    for (uint32_t i = 0; i < s->count && all; i++)
        all[i] = (ranked){&s->items[i], 0};
    if (all) {
        qsort(all, s->count, sizeof *all, by_order);
        for (uint32_t i = 1; i < s->count; i++)
            all[i].rank = run_compare_group(all[i].r, all[i - 1].r) ? 0 : all[i - 1].rank + 1;
        qsort(all, s->count, sizeof *all, by_rank);
    }
    for (uint32_t i = 0; i < most && !st; i++)
        st = run_set_add(&kept, all[i].r);
    free(all);
    if (st) {
        run_set_free(&kept);
        return error_set(err, st, "out of memory");
    }
    run_set_free(s);
    *s = kept;
    return OK;
}

/* ---- what is known of a pair ---- */

static int by_rate(const void *a, const void *b)
{
    return by_number(*(const double *)a, *(const double *)b);
}

static void add_runtime(run_summary *out, const char *name)
{
    size_t used = strlen(out->runtimes), size = strlen(name);
    for (const char *at = out->runtimes; (at = strstr(at, name)); at += size)
        if ((at == out->runtimes || at[-1] == ' ') && (at[size] == 0 || at[size] == ','))
            return;
    if (used + size + 2 < sizeof out->runtimes)
        snprintf(out->runtimes + used, sizeof out->runtimes - used, "%s%s", used ? ", " : "", name);
}

static void add_to(run_summary *out, const run_record *r, double *rates)
{
    double low = r->tok_s_low > 0 ? r->tok_s_low : r->tok_s, high = r->tok_s_high > 0 ? r->tok_s_high : r->tok_s;
    out->low = out->n == 0 || low < out->low ? low : out->low;
    out->high = high > out->high ? high : out->high;
    if (strcmp(r->date, out->date) > 0)
        memcpy(out->date, r->date, sizeof out->date);
    out->on_battery += r->power == POWER_BATTERY;
    out->throttled += r->throttle_known && r->throttled;
    add_runtime(out, r->runtime);
    rates[out->n++] = r->tok_s;
}

static bool is_of(const run_record *r, const run_record *wanted)
{
    double depth = depth_of(r), other = depth_of(wanted);
    return r->kind == wanted->kind && r->batch == wanted->batch && depth < other * 2 && other < depth * 2 &&
           strcmp(r->hardware, wanted->hardware) == 0 && strcmp(r->model, wanted->model) == 0 &&
           strcmp(r->type, wanted->type) == 0;
}

run_summary run_set_find(const run_set *s, run_kind kind, const char *hardware, const char *model, const char *type,
                         uint32_t batch, uint32_t depth)
{
    run_record wanted = {.kind = kind, .batch = batch, .prompt_tokens = depth};
    run_summary free_ones = {0}, hindered = {0};
    double *rates = malloc((s->count + 1) * sizeof *rates), *slow = malloc((s->count + 1) * sizeof *slow);
    run_name(wanted.hardware, sizeof wanted.hardware, hardware, true);
    run_name(wanted.model, sizeof wanted.model, model, true);
    run_name(wanted.type, sizeof wanted.type, type, false);
    for (uint32_t i = 0; i < s->count && rates && slow; i++)
        if (is_of(&s->items[i], &wanted)) {
            if (run_hindered(&s->items[i]))
                add_to(&hindered, &s->items[i], slow);
            else
                add_to(&free_ones, &s->items[i], rates);
        }
    run_summary *out = free_ones.n ? &free_ones : &hindered;
    double *values = free_ones.n ? rates : slow;
    if (out->n) {
        qsort(values, out->n, sizeof *values, by_rate);
        out->median = (values[(out->n - 1) / 2] + values[out->n / 2]) / 2;
    }
    run_summary result = *out;
    free(rates);
    free(slow);
    return result;
}
