/* metrics/registry.c: families in the order of registration, each with its series. A double is kept as its bits in an
 * atomic word and added to by compare-and-swap. Links are stored with release and followed with acquire. */
#include "metrics/registry.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM } metric_kind;

typedef struct series series;
struct series { /* what a counter, gauge or histogram pointer points to */
    _Atomic(series *) next;
    char *labels;              /* "" or without braces */
    _Atomic uint64_t value;    /* bits of a double: the value, or the sum */
    _Atomic uint64_t *buckets; /* (edge_count + 1), not cumulative */
    double *edges;
    size_t edge_count;
};
struct counter {
    series s;
};
struct gauge {
    series s;
};
struct histogram {
    series s;
};

typedef struct family family;
struct family {
    _Atomic(family *) next;
    char *name, *help;
    metric_kind kind;
    _Atomic(series *) first;
};

struct metrics_registry {
    char *labels;
    _Atomic(family *) first;
};

/* ---- atomics ---- */

static double load_double(const _Atomic uint64_t *at)
{
    uint64_t bits = atomic_load_explicit(at, memory_order_relaxed);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void add_double(_Atomic uint64_t *at, double amount)
{
    uint64_t old = atomic_load_explicit(at, memory_order_relaxed), new;
    do {
        double value;
        memcpy(&value, &old, sizeof value);
        new = bits_of(value + amount);
    } while (!atomic_compare_exchange_weak_explicit(at, &old, new, memory_order_relaxed, memory_order_relaxed));
}

/* ---- registering ---- */

static char *copy_text(const char *text)
{
    size_t size = text ? strlen(text) : 0;
    char *copy = malloc(size + 1);
    if (copy && size)
        memcpy(copy, text, size);
    if (copy)
        copy[size] = '\0';
    return copy;
}

status metrics_registry_create(metrics_registry **out, const char *labels, error *err)
{
    metrics_registry *registry = calloc(1, sizeof *registry);
    if (registry)
        registry->labels = copy_text(labels);
    if (!registry || !registry->labels) {
        free(registry);
        return error_set(err, ERR_MEMORY, "metrics: out of memory");
    }
    *out = registry;
    return OK;
}

static void free_series(series *s)
{
    free(s->labels);
    free(s->buckets);
    free(s->edges);
    free(s);
}

static void free_family(family *f)
{
    for (series *s = f->first, *next; s; s = next) {
        next = s->next;
        free_series(s);
    }
    free(f->name);
    free(f->help);
    free(f);
}

void metrics_registry_destroy(metrics_registry *registry)
{
    if (!registry)
        return;
    for (family *f = registry->first, *next; f; f = next) {
        next = f->next;
        free_family(f);
    }
    free(registry->labels);
    free(registry);
}

static family *find_family(metrics_registry *registry, metric_name name, metric_kind kind)
{
    _Atomic(family *) *at = &registry->first;
    for (family *f = *at; f; at = &f->next, f = *at)
        if (strcmp(f->name, name.name) == 0) {
            assert(f->kind == kind);
            return f;
        }
    family *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->kind = kind;
    f->name = copy_text(name.name);
    f->help = copy_text(name.help);
    if (!f->name || !f->help) {
        free_family(f);
        return NULL;
    }
    atomic_store_explicit(at, f, memory_order_release);
    return f;
}

static series *find_series(metrics_registry *registry, metric_name name, metric_kind kind, const double *edges,
                           size_t edge_count)
{
    family *f = find_family(registry, name, kind);
    if (!f)
        return NULL;
    _Atomic(series *) *at = &f->first;
    for (series *s = *at; s; at = &s->next, s = *at)
        if (strcmp(s->labels, name.labels ? name.labels : "") == 0)
            return s;
    series *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->labels = copy_text(name.labels);
    if (kind == KIND_HISTOGRAM) {
        s->buckets = calloc(edge_count + 1, sizeof *s->buckets);
        s->edges = calloc(edge_count + 1, sizeof *s->edges);
        s->edge_count = edge_count;
    }
    if (!s->labels || (kind == KIND_HISTOGRAM && (!s->buckets || !s->edges))) {
        free_series(s);
        return NULL;
    }
    for (size_t i = 0; i < edge_count; i++) {
        assert(i == 0 || edges[i] > edges[i - 1]);
        s->edges[i] = edges[i];
    }
    atomic_store_explicit(at, s, memory_order_release);
    return s;
}

counter *metrics_counter(metrics_registry *registry, metric_name name)
{
    return (counter *)find_series(registry, name, KIND_COUNTER, NULL, 0);
}

gauge *metrics_gauge(metrics_registry *registry, metric_name name)
{
    return (gauge *)find_series(registry, name, KIND_GAUGE, NULL, 0);
}

histogram *metrics_histogram(metrics_registry *registry, metric_name name, const double *edges, size_t edge_count)
{
    return (histogram *)find_series(registry, name, KIND_HISTOGRAM, edges, edge_count);
}

/* ---- updating ---- */

void counter_add(counter *c, double amount)
{
    assert(amount >= 0);
    if (c)
        add_double(&c->s.value, amount);
}

void counter_reach(counter *c, double value)
{
    if (!c)
        return;
    uint64_t old = atomic_load_explicit(&c->s.value, memory_order_relaxed);
    for (;;) {
        double current;
        memcpy(&current, &old, sizeof current);
        if (value <= current || atomic_compare_exchange_weak_explicit(&c->s.value, &old, bits_of(value),
                                                                      memory_order_relaxed, memory_order_relaxed))
            return;
    }
}

double counter_value(const counter *c)
{
    return c ? load_double(&c->s.value) : 0;
}

void gauge_set(gauge *g, double value)
{
    if (g)
        atomic_store_explicit(&g->s.value, bits_of(value), memory_order_relaxed);
}

double gauge_value(const gauge *g)
{
    return g ? load_double(&g->s.value) : 0;
}

void histogram_observe(histogram *h, double value)
{
    histogram_observe_times(h, value, 1);
}

void histogram_observe_times(histogram *h, double value, uint64_t times)
{
    if (!h || isnan(value) || times == 0)
        return;
    size_t low = 0, high = h->s.edge_count; /* the first edge >= value */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (h->s.edges[middle] >= value)
            high = middle;
        else
            low = middle + 1;
    }
    add_double(&h->s.value, value * (double)times);
    atomic_fetch_add_explicit(&h->s.buckets[low], times, memory_order_relaxed);
}

uint64_t histogram_count(const histogram *h)
{
    uint64_t count = 0;
    for (size_t i = 0; h && i <= h->s.edge_count; i++)
        count += atomic_load_explicit(&h->s.buckets[i], memory_order_relaxed);
    return count;
}

double histogram_sum(const histogram *h)
{
    return h ? load_double(&h->s.value) : 0;
}

/* ---- rendering ---- */

void label_text(buf *out, const char *key, const char *value)
{
    buf_printf(out, "%s%s=\"", out->size ? "," : "", key);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            buf_byte(out, '\\');
        if (*value == '\n')
            buf_text(out, "\\n");
        else
            buf_byte(out, *value);
    }
    buf_byte(out, '"');
}

static void render_number(buf *out, double value) /* the shortest text that reads back as the same number */
{
    char text[40];
    if (isinf(value) || isnan(value)) {
        buf_text(out, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
        return;
    }
    if (value == floor(value) && fabs(value) < 1e15) {
        buf_printf(out, "%.1f", value); /* "1.0", as the Python client writes it */
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    buf_text(out, text);
}

static void render_labels(buf *out, const metrics_registry *registry, const series *s, const double *edge)
{
    const char *parts[] = {registry->labels, s->labels};
    bool any = false;
    for (int i = 0; i < 2; i++)
        if (parts[i][0]) {
            buf_printf(out, "%c%s", any ? ',' : '{', parts[i]);
            any = true;
        }
    if (edge) {
        buf_printf(out, "%cle=\"", any ? ',' : '{');
        render_number(out, *edge);
        buf_byte(out, '"');
        any = true;
    }
    buf_text(out, any ? "} " : " ");
}

static void render_histogram(buf *out, const metrics_registry *registry, const family *f, const series *s)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= s->edge_count; i++) {
        count += atomic_load_explicit(&s->buckets[i], memory_order_relaxed);
        double edge = i < s->edge_count ? s->edges[i] : INFINITY;
        buf_printf(out, "%s_bucket", f->name);
        render_labels(out, registry, s, &edge);
        buf_printf(out, "%llu\n", (unsigned long long)count);
    }
    buf_printf(out, "%s_count", f->name);
    render_labels(out, registry, s, NULL);
    buf_printf(out, "%llu\n%s_sum", (unsigned long long)count, f->name);
    render_labels(out, registry, s, NULL);
    render_number(out, load_double(&s->value));
    buf_byte(out, '\n');
}

static void render_family(buf *out, const metrics_registry *registry, const family *f)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    const char *suffix = f->kind == KIND_COUNTER ? "_total" : "";
    buf_printf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", f->name, suffix, f->help, f->name, suffix, kinds[f->kind]);
    for (const series *s = f->first; s; s = s->next) {
        if (f->kind == KIND_HISTOGRAM) {
            render_histogram(out, registry, f, s);
            continue;
        }
        buf_printf(out, "%s%s", f->name, suffix);
        render_labels(out, registry, s, NULL);
        render_number(out, load_double(&s->value));
        buf_byte(out, '\n');
    }
}

void metrics_registry_render(const metrics_registry *registry, buf *out)
{
    for (const family *f = registry->first; f; f = f->next)
        render_family(out, registry, f);
}
