/* cli/simulate_sweep.c: the points of a sweep: as a table, as JSON and as two plots. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/simulate.h"
#include "load/plot.h"

enum {
    CHAT_TTFT,
    CHAT_GAP,
    CHAT_P99,
    CHAT_WORST,
    CHAT_TIME,
    CHAT_RATE,
    DOC_TTFT,
    DOC_ALONE,
    PREMIUM,
    OVER,
    PROMPT_RATE,
    OUTPUT_RATE,
    CACHED,
    GOOD,
    REFUSED,
    BUSY
};

const sweep_figure sweep_figures[] = {
    [CHAT_TTFT] = {"chat_ttft_ms", "TTFT ms", 0},
    [CHAT_GAP] = {"chat_gap_ms", "gap ms", 1},
    [CHAT_P99] = {"chat_gap_p99_ms", "p99", 1},
    [CHAT_WORST] = {"chat_gap_worst_ms", "worst", 0},
    [CHAT_TIME] = {"chat_time_gap_ms", "by time", 0},
    [CHAT_RATE] = {"chat_tok_s", "tok/s", 2},
    [DOC_TTFT] = {"document_ttft_s", "doc TTFT s", 2},
    [DOC_ALONE] = {"document_alone_ttft_s", "alone", 2},
    [PREMIUM] = {"premium", "premium", 3},
    [OVER] = {"premium_over_fastest", "over best", 3},
    [PROMPT_RATE] = {"prompt_tok_s", "in tok/s", 0},
    [OUTPUT_RATE] = {"output_tok_s", "out tok/s", 1},
    [CACHED] = {"cached_share", "cached", 3},
    [GOOD] = {"good_share", "good", 3},
    [REFUSED] = {"refused", "refused", 0},
    [BUSY] = {"utilisation", "busy", 3},
    {NULL, NULL, 0},
};

/* ---- reading ---- */

status simulate_axis_read(simulate_axis *out, const char *flag, const char *text, error *err)
{
    const char *equals = strchr(text, '=');
    *out = (simulate_axis){.count = 0};
    if (!equals || equals == text || (size_t)(equals - text) >= sizeof out->name || !equals[1])
        return error_set(err, ERR_INVALID, "%s: '%s', want NAME=VALUE,VALUE,…, e.g. chunk=256,512,1024", flag, text);
    memcpy(out->name, text, (size_t)(equals - text));
    for (const char *at = equals + 1;; at++) {
        size_t size = strcspn(at, ",");
        if (size == 0 || size >= SWEEP_VALUE_SIZE)
            return error_set(err, ERR_INVALID, "%s: '%s': a value is empty or too long", flag, text);
        if (out->count == SWEEP_VALUES_MAX)
            return error_set(err, ERR_INVALID, "%s: more than %d values", flag, SWEEP_VALUES_MAX);
        memcpy(out->values[out->count++], at, size);
        at += size;
        if (!*at)
            return OK;
    }
}

/* ---- figures ---- */

static void sum_tokens(const simulate_result *r, sweep_point *out)
{
    uint64_t prompt = 0, cached = 0, output = 0, judged = 0, good = 0, refused = 0, busy = 0;
    for (uint32_t p = 0; p < r->plan.phase_count; p++)
        for (int role = 0; role < LOAD_ROLES; role++) {
            const load_cell *c = &r->summary.cells[p][role];
            prompt += c->prompt_tokens;
            cached += c->cached_tokens;
            output += c->output_tokens;
            judged += c->judged;
            good += c->good;
            refused += c->refused;
        }
    for (uint32_t i = 0; i < r->world.box_count; i++)
        busy += r->world.boxes[i].busy_us;
    double seconds = (double)(r->summary.end_us - r->summary.start_us) / 1e6;
    out->values[PROMPT_RATE] = seconds > 0 ? (double)prompt / seconds : NAN;
    out->values[OUTPUT_RATE] = seconds > 0 ? (double)output / seconds : NAN;
    out->values[CACHED] = prompt ? (double)cached / (double)prompt : NAN;
    out->values[GOOD] = judged ? (double)good / (double)judged : NAN;
    out->values[REFUSED] = (double)refused;
    out->values[BUSY] = seconds > 0 ? (double)busy / 1e6 / seconds / r->world.box_count : NAN;
}

/* Of the last phase: all that there is, or both together. */
void sweep_fill(sweep_point *out, const simulate_result *r)
{
    const load_cell *cells = r->summary.cells[r->plan.phase_count - 1];
    const load_cell *chat = &cells[r->summary.resident_role], *document = &cells[LOAD_DOCUMENTS];
    for (const sweep_figure *f = sweep_figures; f->name; f++)
        out->values[f - sweep_figures] = NAN;
    if (chat->ttft_ms.count)
        out->values[CHAT_TTFT] = chat->ttft_ms.median;
    if (chat->itl_ms.count) {
        out->values[CHAT_GAP] = chat->itl_ms.median;
        out->values[CHAT_P99] = chat->itl_ms.p99;
        out->values[CHAT_WORST] = chat->itl_ms.max;
        out->values[CHAT_RATE] = chat->stream_tok_s.count ? chat->stream_tok_s.median : NAN;
    }
    if (document->ttft_ms.count)
        out->values[DOC_TTFT] = document->ttft_ms.median / 1e3;
    if (r->beside.known) { /* then only the time in which documents are read says something */
        out->values[CHAT_TIME] = r->beside.time_gap_ms;
        out->values[CHAT_WORST] = r->beside.longest_gap_ms;
        out->values[CHAT_RATE] = r->beside.chat_tok_s;
        out->values[DOC_ALONE] = r->beside.document_alone_ttft_s;
        out->values[PREMIUM] = r->beside.premium;
    }
    sum_tokens(r, out);
}

/* How much later a document's first token comes than alone under the best of all settings. */
void sweep_compare(simulate_sweep *s)
{
    uint32_t count = (s->by.count ? s->by.count : 1) * s->axis.count;
    double best = INFINITY;
    for (uint32_t i = 0; i < count; i++)
        if (!s->points[i].problem[0] && s->points[i].values[DOC_ALONE] < best)
            best = s->points[i].values[DOC_ALONE];
    for (uint32_t i = 0; i < count; i++)
        s->points[i].values[OVER] = isfinite(best) ? s->points[i].values[DOC_TTFT] / best - 1 : NAN;
}

static const sweep_point *point_at(const simulate_sweep *s, uint32_t by, uint32_t at)
{
    return &s->points[by * s->axis.count + at];
}

static uint32_t rows_of(const simulate_sweep *s)
{
    return s->by.count ? s->by.count : 1;
}

static bool is_used(const simulate_sweep *s, size_t figure)
{
    for (uint32_t i = 0; i < rows_of(s) * s->axis.count; i++)
        if (!s->points[i].problem[0] && isfinite(s->points[i].values[figure]))
            return true;
    return false;
}

static bool varies(const simulate_sweep *s, size_t figure)
{
    double least = INFINITY, most = -INFINITY;
    for (uint32_t i = 0; i < rows_of(s) * s->axis.count; i++)
        if (!s->points[i].problem[0] && isfinite(s->points[i].values[figure])) {
            least = fmin(least, s->points[i].values[figure]);
            most = fmax(most, s->points[i].values[figure]);
        }
    return most > least * 1.02;
}

/* ---- text and JSON ---- */

void sweep_text(const simulate_sweep *s, buf *out)
{
    buf_printf(out, "%s  %s  model %s  seed %llu\n\n", s->options->spec->name, s->box->hardware, s->box->model,
               (unsigned long long)s->options->seed);
    if (s->by.count)
        buf_printf(out, "%-14s", s->by.name);
    buf_printf(out, "%-14s", s->axis.name);
    for (const sweep_figure *f = sweep_figures; f->name; f++)
        if (is_used(s, (size_t)(f - sweep_figures)))
            buf_printf(out, "%11s", f->title);
    buf_byte(out, '\n');
    for (uint32_t b = 0; b < rows_of(s); b++)
        for (uint32_t a = 0; a < s->axis.count; a++) {
            const sweep_point *p = point_at(s, b, a);
            if (s->by.count)
                buf_printf(out, "%-14s", s->by.values[b]);
            buf_printf(out, "%-14s", s->axis.values[a]);
            if (p->problem[0])
                buf_printf(out, "  %s", p->problem);
            for (const sweep_figure *f = sweep_figures; f->name && !p->problem[0]; f++) {
                double value = p->values[f - sweep_figures];
                if (!is_used(s, (size_t)(f - sweep_figures)))
                    continue;
                if (isfinite(value))
                    buf_printf(out, "%11.*f", f->digits, value);
                else
                    buf_printf(out, "%11s", "-");
            }
            buf_byte(out, '\n');
        }
}

static void put_quoted(const char *text, buf *out)
{
    buf_byte(out, '"');
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == '"' || *text == '\\' || *text == '<')
            buf_printf(out, "\\u%04x", (unsigned char)*text);
        else
            buf_byte(out, *text);
    buf_byte(out, '"');
}

static void put_value(const simulate_axis *axis, uint32_t index, buf *out)
{
    char *end;
    double value = strtod(axis->values[index], &end);
    put_quoted(axis->name, out);
    buf_byte(out, ':');
    if (*end)
        put_quoted(axis->values[index], out);
    else
        buf_printf(out, "%.10g", value);
}

void sweep_json(const simulate_sweep *s, buf *out)
{
    buf_byte(out, '[');
    for (uint32_t b = 0; b < rows_of(s); b++)
        for (uint32_t a = 0; a < s->axis.count; a++) {
            const sweep_point *p = point_at(s, b, a);
            buf_text(out, a + b ? ",\n{" : "\n{");
            if (s->by.count) {
                put_value(&s->by, b, out);
                buf_byte(out, ',');
            }
            put_value(&s->axis, a, out);
            buf_text(out, ",\"problem\":");
            if (p->problem[0])
                put_quoted(p->problem, out);
            else
                buf_text(out, "null");
            for (const sweep_figure *f = sweep_figures; f->name; f++) {
                double value = p->values[f - sweep_figures];
                if (isfinite(value) && !p->problem[0])
                    buf_printf(out, ",\"%s\":%.6g", f->name, value);
                else
                    buf_printf(out, ",\"%s\":null", f->name);
            }
            buf_byte(out, '}');
        }
    buf_text(out, "\n]\n");
}

/* ---- the page ---- */

static double x_of(const simulate_axis *axis, uint32_t index)
{
    char *end;
    double value = strtod(axis->values[index], &end);
    return *end ? index + 1.0 : value; /* words stand side by side */
}

static bool is_wide(const plot *p)
{
    double least = INFINITY, most = 0;
    for (uint32_t i = 0; i < p->series_count; i++)
        for (uint32_t k = 0; k < p->series[i].count; k++) {
            double y = p->series[i].y[k];
            if (!isfinite(y) || y <= 0)
                return false;
            least = fmin(least, y);
            most = fmax(most, y);
        }
    return most > 20 * least;
}

static bool is_geometric(const simulate_axis *axis)
{
    for (uint32_t i = 0; i < axis->count; i++)
        if (x_of(axis, i) <= 0)
            return false;
    return axis->count > 2 && x_of(axis, axis->count - 1) >= 8 * x_of(axis, 0);
}

/* A line for each value of the second axis; `reach`: thin lines up to another figure. */
static void figure(const simulate_sweep *s, const char *title, size_t value, size_t reach, double add, buf *out)
{
    plot *p = calloc(1, sizeof *p);
    if (!p || !is_used(s, value)) {
        free(p);
        return;
    }
    *p = (plot){.title = title, .x_label = s->axis.name, .x_log = is_geometric(&s->axis)};
    for (uint32_t b = 0; b < rows_of(s) && b < PLOT_SERIES_MAX; b++) {
        plot_series *line = &p->series[p->series_count++];
        *line = (plot_series){.name = s->by.count ? s->by.values[b] : s->axis.name, .hue = b, .marked = -1};
        for (uint32_t a = 0; a < s->axis.count && line->count < PLOT_POINTS_MAX; a++) {
            const sweep_point *point = point_at(s, b, a);
            if (point->problem[0] || !isfinite(point->values[value]))
                continue;
            uint32_t k = line->count++;
            line->x[k] = x_of(&s->axis, a);
            line->y[k] = point->values[value] + add;
            if (reach && isfinite(point->values[reach])) {
                line->low[k] = fmin(line->y[k], point->values[reach]);
                line->high[k] = fmax(line->y[k], point->values[reach]);
            }
        }
    }
    p->y_log = is_wide(p);
    buf_text(out, "<figure><figcaption>");
    plot_text(out, title);
    buf_text(out, "</figcaption>");
    plot_svg(p, out);
    buf_text(out, "</figure>\n");
    free(p);
}

static void put_table(const simulate_sweep *s, buf *out)
{
    buf_text(out, "<div class=\"scroll\"><table><thead><tr>");
    if (s->by.count)
        buf_printf(out, "<th>%s</th>", s->by.name);
    buf_printf(out, "<th>%s</th>", s->axis.name);
    for (const sweep_figure *f = sweep_figures; f->name; f++)
        if (is_used(s, (size_t)(f - sweep_figures)))
            buf_printf(out, "<th>%s</th>", f->title);
    buf_text(out, "</tr></thead><tbody>\n");
    for (uint32_t b = 0; b < rows_of(s); b++)
        for (uint32_t a = 0; a < s->axis.count; a++) {
            const sweep_point *p = point_at(s, b, a);
            buf_text(out, "<tr><td>");
            plot_text(out, s->by.count ? s->by.values[b] : s->axis.values[a]);
            if (s->by.count) {
                buf_text(out, "</td><td>");
                plot_text(out, s->axis.values[a]);
            }
            buf_text(out, "</td>");
            if (p->problem[0]) {
                buf_text(out, "<td class=\"left\" colspan=\"15\">");
                plot_text(out, p->problem);
                buf_text(out, "</td>");
            }
            for (const sweep_figure *f = sweep_figures; f->name && !p->problem[0]; f++) {
                double value = p->values[f - sweep_figures];
                if (is_used(s, (size_t)(f - sweep_figures)))
                    buf_printf(out, isfinite(value) ? "<td>%.*f</td>" : "<td>-</td>", f->digits, value);
            }
            buf_text(out, "</tr>\n");
        }
    buf_text(out, "</tbody></table></div>\n");
}

void sweep_html(const simulate_sweep *s, buf *out)
{
    buf_text(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                  "content=\"width=device-width, initial-scale=1\"><title>headway simulate</title>\n<style>\n");
    buf_text(out, plot_page_style);
    buf_text(out, "\n</style></head><body><main>\n<h1>headway ");
    plot_text(out, s->options->spec->name);
    buf_text(out, "</h1>\n<p class=\"soft\">Simulated: ");
    plot_text(out, s->box->hardware);
    buf_text(out, ", ");
    plot_text(out, s->box->model);
    buf_printf(out, ", seed %llu. Every point is a run of the shipped scheduler on a virtual clock.</p>\n",
               (unsigned long long)s->options->seed);
    if (s->by.count) {
        buf_text(out, "<ul class=\"key\">");
        for (uint32_t b = 0; b < s->by.count && b < PLOT_SERIES_MAX; b++) {
            buf_printf(out, "<li class=\"s%u\"><i></i><span>", b);
            plot_text(out, s->by.values[b]);
            buf_text(out, "</span></li>");
        }
        buf_text(out, "</ul>\n");
    }
    buf_text(out, "<div class=\"plots\">\n");
    figure(s, "Documents: time to first token, times the fastest alone", OVER, 0, 1, out);
    if (!is_used(s, OVER))
        figure(s, "Time to first token, ms (median)", CHAT_TTFT, 0, 0, out);
    figure(s, "Gap between two tokens of a chat, ms: p99 and worst", CHAT_P99, CHAT_WORST, 0, out);
    figure(s, "Rate of a chat, tokens a second", CHAT_RATE, 0, 0, out);
    if (varies(s, CACHED))
        figure(s, "Part of the prompts that was cached", CACHED, 0, 0, out);
    if (varies(s, BUSY))
        figure(s, "Part of the boxes' time in steps", BUSY, 0, 0, out);
    buf_text(out, "</div>\n<h2>Figures</h2>\n");
    put_table(s, out);
    buf_text(out, "</main></body></html>\n");
}
