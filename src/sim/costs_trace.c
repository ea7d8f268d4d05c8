/* sim/costs_trace.c: tables out of a trace that a server wrote (GET /debug/trace): what its steps really took, with all
 * else that the machine did then. Lines are laid by medians of slopes (Theil and Sen), so that a step that was
 * disturbed moves nothing; what it took longer by is counted as a hole. */
#include "sim/costs.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE = 1, REQUESTS = 2 }; /* processes of the trace */
enum {
    TRACE_UNITS = 2048, /* as of a steps.json: the runner looks after each block of rows of each op */
    SLOPES_MAX = 1 << 16,
    CHUNKS_FITTED = 256, /* by pairs: a slope each */
    OPEN_CHUNKS = 1024,
    HOLE_US = 1000,
    APART = 256, /* tokens: nearer ones say nothing of depth */
    STEP_GAP_US = 2000,
};

static const double us_most = 1e10, count_most = 1 << 24, spread_most = 8;

typedef struct {
    double size, place, us; /* rows and what they read; tokens of a chunk and its position */
    double rows;            /* of a fused step */
} timed;

typedef struct {
    timed *items;
    size_t count, capacity;
} timed_list;

typedef struct {
    double request, position, us, done; /* request < 0: nobody's */
} open_chunk;

typedef struct {
    timed_list decodes, chunks, fused;
    timed_list gaps, ways; /* between two steps; of requests, from their last byte to the engine */
    timed_list stalls;     /* between two decode steps: somebody waits for the second, so nobody else is idle */
    bool last_decoded;
    double last_end_us; /* of the step before; 0: none */
    open_chunk *open;   /* by request % OPEN_CHUNKS */
    double *slopes;     /* SLOPES_MAX */
    bool no_memory;
    json_t *about; /* what the trace says of the model; NULL: nothing */
} trace_fit;

/* ---- reading ---- */

static void add(trace_fit *f, timed_list *list, timed item)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 1024;
        timed *grown = realloc(list->items, capacity * sizeof *grown);
        f->no_memory |= !grown;
        if (!grown)
            return;
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

/* False and 0: there is no number from 0 to `most`. */
static bool number(const json_t *object, const char *key, double most, double *out)
{
    const json_t *value = json_object_get(object, key);
    double there = json_number_value(value);
    bool good = json_is_number(value) && there >= 0 && there <= most;
    *out = good ? there : 0;
    return good;
}

/* A run of a chunk. Its time counts with that of the chunk's other runs, once all are there from the first on. */
static void take_run(trace_fit *f, const json_t *args, double us)
{
    double request, tokens, position, done;
    if (!number(args, "request", 1e18, &request) || !number(args, "tokens", count_most, &tokens) || tokens < 1 ||
        !number(args, "position", count_most, &position) || !number(args, "done", 1, &done))
        return;
    open_chunk *c = &f->open[(size_t)fmod(request, OPEN_CHUNKS)];
    bool known = c->request == request, goes_on = known && c->position == position && c->done < done;
    bool ends = !json_is_true(json_object_get(args, "yielded"));
    /* The trace may begin within a chunk: of a request that came before, the first is not known to be whole. */
    double before_us = goes_on ? c->us : known || position == 0 ? 0 : NAN;
    *c = (open_chunk){request, position, before_us + us, ends ? 0 : done};
    if (!ends)
        return;
    if (!isnan(c->us))
        add(f, &f->chunks, (timed){tokens, position, c->us, 0});
    *c = (open_chunk){request, -1, 0, 0};
}

static void take_step(trace_fit *f, const json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    const json_t *args = json_object_get(event, "args");
    double start_us, us, rows, context, tokens, position;
    if (!number(event, "ts", 1e18, &start_us) || !number(event, "dur", us_most, &us) || us <= 0)
        return;
    double between_us = f->last_end_us > 0 ? start_us - f->last_end_us : -1;
    bool decodes = strcmp(name, "decode") == 0;
    if (between_us >= 0 && between_us <= STEP_GAP_US)
        add(f, &f->gaps, (timed){1, 0, between_us, 0});
    if (between_us >= 0 && decodes && f->last_decoded)
        add(f, &f->stalls, (timed){1, 0, between_us, 0});
    f->last_end_us = start_us + us;
    f->last_decoded = decodes;
    number(args, "rows", count_most, &rows);
    if (decodes && rows >= 1 && number(args, "context", 1e12, &context))
        add(f, &f->decodes, (timed){rows, context, us, 0});
    else if (strcmp(name, "prefill") == 0)
        take_run(f, args, us);
    else if (strcmp(name, "fused") == 0 && !json_is_true(json_object_get(args, "yielded")) &&
             number(args, "tokens", count_most, &tokens) && tokens >= 1 &&
             number(args, "position", count_most, &position))
        add(f, &f->fused, (timed){tokens, position, us, rows});
}

/* From here on all of its runs are in the trace, those of a turn that begins behind what is cached too. */
static void take_arrival(trace_fit *f, double request, const json_t *args)
{
    double way_us;
    f->open[(size_t)fmod(request, OPEN_CHUNKS)] = (open_chunk){request, -1, 0, 0};
    if (number(args, "way_us", us_most, &way_us) && way_us > 0)
        add(f, &f->ways, (timed){1, 0, way_us, 0});
}

/* An event: a step on the track of the device, or what the trace says of itself. */
static void take_event(trace_fit *f, const json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    double process, track;
    if (!name || !number(event, "pid", 1e9, &process) || !number(event, "tid", 1e18, &track))
        return;
    if (process == DEVICE && track == 1 && json_object_get(event, "dur"))
        take_step(f, event);
    else if (process == REQUESTS && strcmp(name, "arrived") == 0)
        take_arrival(f, track, json_object_get(event, "args"));
    else if (process == DEVICE && strcmp(name, "trace starts") == 0 && !f->about)
        f->about = json_incref(json_object_get(event, "args"));
    else if (process == DEVICE && strcmp(name, "records lost") == 0) {
        f->last_end_us = 0;
        for (size_t i = 0; i < OPEN_CHUNKS; i++)
            f->open[i] = (open_chunk){.request = -1};
    }
}

/* ---- lines ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int by_size(const void *a, const void *b)
{
    const timed *x = a, *y = b;
    return x->size != y->size ? (x->size > y->size) - (x->size < y->size)
                              : (x->place > y->place) - (x->place < y->place);
}

static double median(double *values, size_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static double median_us(trace_fit *f, const timed_list *list)
{
    size_t count = list->count < SLOPES_MAX ? list->count : SLOPES_MAX;
    for (size_t i = 0; i < count; i++)
        f->slopes[i] = list->items[i].us;
    return median(f->slopes, count);
}

static double mean_us(const timed_list *list) /* without holes */
{
    double sum = 0, count = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].us < HOLE_US) {
            sum += list->items[i].us;
            count++;
        }
    return count > 0 ? sum / count : 0;
}

static bool same_size(double a, double b)
{
    return fabs(a - b) <= 0.25 * fmax(a, b);
}

/* What a unit of place adds, from pairs of the sorted list of about one size whose places are APART: per unit of size
 * if `per_size`. 0 where nobody is. */
static double slope_of(trace_fit *f, const timed_list *list, double apart, bool per_size)
{
    size_t step = list->count > CHUNKS_FITTED ? list->count / CHUNKS_FITTED : 1, count = 0;
    for (size_t i = 0; i < list->count; i += step)
        for (size_t j = i + step; j < list->count && count < SLOPES_MAX; j += step) {
            const timed *a = &list->items[i], *b = &list->items[j];
            if (!same_size(a->size, b->size))
                break;
            if (fabs(a->place - b->place) < apart || (!per_size && a->size != b->size))
                continue;
            double per = per_size ? a->us / a->size - b->us / b->size : a->us - b->us;
            f->slopes[count++] = per / (a->place - b->place);
        }
    double slope = median(f->slopes, count);
    return slope > 0 ? slope : 0;
}

static double bucket_of(double size) /* exact where small, then two an octave */
{
    const double exact = 8;
    return size <= exact ? floor(size) : exact + floor(2 * log2(size / exact));
}

/* The points of the sorted list, each with the mean of what lies below its median and a hole: small disorder counts, a
 * hole does not. */
static uint32_t lay_points(trace_fit *f, const timed_list *list, double place_us, bool per_size, cost_point *points)
{
    uint32_t count = 0;
    for (size_t first = 0, end; first < list->count && count < COST_POINTS_MAX - 1; first = end) {
        size_t n = 0;
        double size = 0, us = 0, kept = 0;
        for (end = first; end < list->count && bucket_of(list->items[end].size) == bucket_of(list->items[first].size);
             end++) {
            const timed *one = &list->items[end];
            if (n < SLOPES_MAX)
                f->slopes[n++] = one->us - place_us * one->place * (per_size ? one->size : 1);
        }
        double middle = median(f->slopes, n), most = per_size ? 2 * middle : middle + HOLE_US;
        for (size_t i = 0; i < n; i++)
            if (f->slopes[i] <= most) {
                us += f->slopes[i];
                kept++;
            }
        for (size_t i = first; i < end; i++)
            size += list->items[i].size;
        us = kept > 0 ? us / kept : 0;
        points[count++] = (cost_point){size / (double)(end - first), us > 0 ? us : 0};
    }
    return count;
}

static void count_hole(double counts[CANARY_SIZES], double us)
{
    uint32_t size = 0;
    if (us < HOLE_US)
        return;
    while (size + 1 < CANARY_SIZES && us >= 2.0 * HOLE_US * (1u << size))
        size++;
    counts[size]++;
}

/* Of decode steps and of the time between them, what is longer than usual. */
static void count_holes(const trace_fit *f, sim_costs *out)
{
    double counts[CANARY_SIZES] = {0}, total_us = 0;
    for (size_t i = 0; i < f->decodes.count; i++) {
        const timed *one = &f->decodes.items[i];
        double usual_us = sim_costs_decode_us(out, one->size, one->place);
        total_us += usual_us;
        count_hole(counts, one->us - usual_us);
    }
    for (size_t i = 0; i < f->stalls.count; i++)
        count_hole(counts, f->stalls.items[i].us - out->step_us);
    for (uint32_t i = 0; total_us > 0 && i < CANARY_SIZES; i++)
        out->holes_s[i] = counts[i] * 1e6 / total_us;
}

/* How far decode steps lie from their line, holes left out: quantiles in equal steps. */
static void spread_steps(trace_fit *f, sim_costs *out)
{
    size_t count = 0, step = f->decodes.count / SLOPES_MAX + 1;
    for (size_t i = 0; i < f->decodes.count; i += step) {
        const timed *one = &f->decodes.items[i];
        double usual_us = sim_costs_decode_us(out, one->size, one->place);
        if (usual_us > 0 && one->us - usual_us < HOLE_US)
            f->slopes[count++] = fmin(fmax(one->us / usual_us, 1 / spread_most), spread_most);
    }
    qsort(f->slopes, count, sizeof *f->slopes, by_value);
    for (size_t i = 0; count > 0 && i < COST_SPREAD; i++)
        out->spread[i] = f->slopes[(2 * i + 1) * count / (2 * COST_SPREAD)];
}

/* What a row adds to a chunk: what fused steps took longer than their chunks, of the smaller chunks, in whose disorder
 * it is not lost; no more than a step of its own. Without such steps it is a token of the chunk more. */
static void fit_fused(trace_fit *f, sim_costs *out)
{
    enum { FEW = 8 };
    const cost_point *largest = &out->chunks[out->chunk_count - 1];
    double token_us = out->chunk_count > 1 ? (largest->us - largest[-1].us) / (largest->x - largest[-1].x) : 0;
    size_t count = 0, enough = f->fused.count / 4 > FEW ? f->fused.count / 4 : FEW;
    out->fused_row_us = token_us > 0 ? token_us : largest->us / largest->x;
    if (f->fused.count)
        qsort(f->fused.items, f->fused.count, sizeof(timed), by_size);
    for (size_t i = 0; i < f->fused.count && i < enough && count < SLOPES_MAX; i++) {
        const timed *one = &f->fused.items[i];
        if (one->rows >= 1)
            f->slopes[count++] = (one->us - sim_costs_prefill_us(out, one->place, one->size)) / one->rows;
    }
    double row_us = median(f->slopes, count), most_us = out->rows[0].us;
    if (count > 0 && row_us > 0)
        out->fused_row_us = row_us < most_us ? row_us : most_us;
}

static void lay_chunks(trace_fit *f, sim_costs *out)
{
    cost_point *chunks = out->chunks + 1;
    qsort(f->chunks.items, f->chunks.count, sizeof(timed), by_size);
    out->depth_us = slope_of(f, &f->chunks, APART, true);
    out->chunk_count = lay_points(f, &f->chunks, out->depth_us, true, chunks);
    if (chunks[0].x > 1) { /* nobody read as little: a token costs what a row does, or its part of the smallest chunk */
        double row_us = out->rows[0].us / out->rows[0].x;
        out->chunks[0] = (cost_point){1, row_us < chunks[0].us ? row_us : chunks[0].us};
        out->chunk_count++;
    } else {
        memmove(out->chunks, chunks, out->chunk_count * sizeof *chunks);
    }
}

/* A policy that mostly runs chunks with rows has few alone, and those of one moment: without its rows each counts. */
static void add_fused_chunks(trace_fit *f, const sim_costs *out)
{
    for (size_t i = 0; i < f->fused.count; i++) {
        const timed *one = &f->fused.items[i];
        double us = one->us - one->rows * out->fused_row_us;
        if (us > 0)
            add(f, &f->chunks, (timed){one->size, one->place, us, 0});
    }
}

static status fit(trace_fit *f, sim_costs *out, const char *name, error *err)
{
    bool fused_only = f->chunks.count == 0;
    for (size_t i = 0; fused_only && i < f->fused.count; i++) /* a row is about a token more */
        add(f, &f->chunks,
            (timed){f->fused.items[i].size + f->fused.items[i].rows, f->fused.items[i].place, f->fused.items[i].us, 0});
    if (f->no_memory)
        return error_set(err, ERR_MEMORY, "%s: out of memory", name);
    if (f->decodes.count == 0 || f->chunks.count == 0)
        return error_set(err, ERR_INVALID,
                         "%s: no %s in it: take the trace while the server %s (/debug/trace?seconds=60)", name,
                         f->decodes.count == 0 ? "decode step" : "whole chunk of a prompt",
                         f->decodes.count == 0 ? "answers somebody" : "reads prompts");
    qsort(f->decodes.items, f->decodes.count, sizeof(timed), by_size);
    out->kv_us = slope_of(f, &f->decodes, APART, false);
    out->row_count = lay_points(f, &f->decodes, out->kv_us, false, out->rows);
    lay_chunks(f, out);
    fit_fused(f, out);
    if (!fused_only && f->fused.count) {
        add_fused_chunks(f, out);
        lay_chunks(f, out);
    }
    if (f->no_memory)
        return error_set(err, ERR_MEMORY, "%s: out of memory", name);
    out->step_us = mean_us(&f->gaps);
    count_holes(f, out);
    spread_steps(f, out);
    out->request_us = median_us(f, &f->ways);
    out->units = TRACE_UNITS;
    number(f->about, "weight_bytes", 1e15, &out->weight_bytes);
    number(f->about, "kv_token_bytes", 1e9, &out->kv_token_bytes);
    number(f->about, "state_bytes", 1e9, &out->state_bytes);
    number(f->about, "kv_bytes", 1e15, &out->kv_bytes);
    number(f->about, "context", count_most, &out->context);
    out->weight_bytes_most = out->weight_bytes;
    return OK;
}

static size_t skip_blanks(span text, size_t at)
{
    while (at < text.size && text.data[at] && strchr(" \t\r\n", text.data[at]))
        at++;
    return at;
}

static status wrong_at(span text, size_t at, const char *what, int lines_on, const char *name, error *err)
{
    int line = lines_on;
    for (size_t i = 0; i < at; i++)
        line += text.data[i] == '\n';
    return error_set(err, ERR_INVALID, "%s: line %d: %s", name, line, what);
}

/* One event at a time: a trace is large, and as one tree it may take 80 times its bytes. */
static status take_events(trace_fit *f, span text, const char *name, error *err)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY;
    size_t at = skip_blanks(text, 0);
    if (at == text.size || text.data[at] != '[')
        return wrong_at(text, at, "a trace is a list of events", 1, name, err);
    for (bool first = true;; first = false) {
        at = skip_blanks(text, at + 1); /* behind '[' or ',' */
        if (first && at < text.size && text.data[at] == ']')
            return OK;
        json_error_t where;
        json_t *event = json_loadb(text.data + at, text.size - at, flags, &where);
        if (!event)
            return at == text.size ? wrong_at(text, at, "it ends within the list", 1, name, err)
                                   : wrong_at(text, at, where.text, where.line > 0 ? where.line : 1, name, err);
        take_event(f, event);
        json_decref(event);
        at = skip_blanks(text, at + (size_t)where.position);
        if (f->no_memory || (at < text.size && text.data[at] == ']'))
            return OK;
        if (at == text.size || text.data[at] != ',')
            return wrong_at(text, at, "neither ',' nor ']' behind an event", 1, name, err);
    }
}

status sim_costs_from_trace(sim_costs *out, span text, const char *name, error *err)
{
    *out = (sim_costs){0};
    trace_fit f = {.open = calloc(OPEN_CHUNKS, sizeof *f.open), .slopes = malloc(SLOPES_MAX * sizeof *f.slopes)};
    f.no_memory = !f.open || !f.slopes;
    for (size_t i = 0; f.open && i < OPEN_CHUNKS; i++)
        f.open[i].request = -1;
    status st = f.no_memory ? OK : take_events(&f, text, name, err);
    if (!st)
        st = f.no_memory ? error_set(err, ERR_MEMORY, "%s: out of memory", name) : fit(&f, out, name, err);
    json_decref(f.about);
    free(f.decodes.items);
    free(f.chunks.items);
    free(f.fused.items);
    free(f.gaps.items);
    free(f.ways.items);
    free(f.stalls.items);
    free(f.open);
    free(f.slopes);
    return st;
}
