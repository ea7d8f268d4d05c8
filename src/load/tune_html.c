/* load/tune_html.c: curves.html: the case study's two curves, the chat's rate beside them, cadence's bounds, and what
 * the steps cost. One file of SVG and tables; no script, nothing from elsewhere. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "load/plot.h"
#include "load/tune.h"

typedef double (*pick)(const tune_sample *s);

static double premium_of(const tune_sample *s)
{
    return s->starved ? NAN : s->premium;
}

static double p99_of(const tune_sample *s)
{
    return s->gaps ? s->p99_us / 1e3 : NAN;
}

static double rate_of(const tune_sample *s)
{
    return s->gaps ? s->chat_tokens_per_s : NAN;
}

/* Does one premium dwarf the others? */
static bool is_wide(const plot *p)
{
    for (uint32_t i = 0; i < p->series_count; i++)
        for (uint32_t k = 0; k < p->series[i].count; k++)
            if (p->series[i].y[k] > 5)
                return true;
    return false;
}

static void open_figure(const char *title, buf *out)
{
    buf_text(out, "<figure><figcaption>");
    plot_text(out, title);
    buf_text(out, "</figcaption>");
}

static void figure(const plot *p, buf *out)
{
    open_figure(p->title, out);
    plot_svg(p, out);
    buf_text(out, "</figure>\n");
}

static void key(buf *out, uint32_t hue, const char *name)
{
    buf_printf(out, "<li class=\"s%u\"><i></i><span>", hue);
    plot_text(out, name);
    buf_text(out, "</span></li>");
}

static void add(plot_series *s, double x, double y, double low, double high)
{
    if (s->count == PLOT_POINTS_MAX)
        return;
    s->x[s->count] = x;
    s->y[s->count] = y;
    s->low[s->count] = low;
    s->high[s->count++] = high;
}

/* ---- chunks ---- */

static plot_series *series_of(plot *p, const char *name)
{
    for (uint32_t i = 0; i < p->series_count; i++)
        if (strcmp(p->series[i].name, name) == 0)
            return &p->series[i];
    if (p->series_count == PLOT_SERIES_MAX)
        return NULL;
    plot_series *s = &p->series[p->series_count];
    s->name = name;
    s->hue = p->series_count++;
    s->marked = -1;
    return s;
}

/* `reach`: thin lines from the median gap to the worst. */
static void fill_chunks(const tune_report *r, plot *p, pick value, bool reach)
{
    for (uint32_t i = 0; i < r->point_count; i++) {
        const tune_point *q = &r->points[i];
        const tune_sample *s = tune_value(q);
        plot_series *line = q->bound_sweep ? NULL : series_of(p, q->policy);
        if (!line || !s || line->count == PLOT_POINTS_MAX)
            continue;
        if ((int)i == tune_sweet(r, q->policy))
            line->marked = (int)line->count;
        add(line, q->chunk, value(s), reach ? s->p50_us / 1e3 : 0, reach ? s->worst_us / 1e3 : 0);
    }
}

static void put_chunk_plots(const tune_report *r, plot *p, buf *out)
{
    char bound[64], solo[64];
    snprintf(bound, sizeof bound, "the bound, %.4g ms", (double)r->gap_us / 1e3);
    snprintf(solo, sizeof solo, "alone, %.3g tok/s", r->solo_tokens_per_s);
    *p = (plot){.title = "Document: time to first token, times alone", .x_label = "tokens of a chunk", .x_log = true};
    fill_chunks(r, p, premium_of, false);
    buf_text(out, "<ul class=\"key\">");
    for (uint32_t i = 0; i < p->series_count; i++)
        key(out, p->series[i].hue, p->series[i].name);
    buf_text(out, "<li><i class=\"ring\"></i><span>sweet spot of a policy</span></li></ul>\n<div class=\"plots\">\n");
    p->y_log = is_wide(p);
    p->level = 1;
    p->level_name = "alone";
    figure(p, out);
    *p = (plot){.title = "Chat: gap between tokens, p99, ms",
                .x_label = "tokens of a chunk",
                .x_log = true,
                .y_log = true,
                .level = (double)r->gap_us / 1e3,
                .level_name = bound};
    fill_chunks(r, p, p99_of, true);
    figure(p, out);
    *p = (plot){.title = "Chat: tokens a second beside the document",
                .x_label = "tokens of a chunk",
                .x_log = true,
                .level = r->solo_tokens_per_s,
                .level_name = solo};
    fill_chunks(r, p, rate_of, false);
    figure(p, out);
    buf_text(out, "</div>\n");
}

/* ---- bounds ---- */

static void fill_bounds(const tune_report *r, plot *p, char names[PLOT_SERIES_MAX][24], pick value, bool reach)
{
    for (uint32_t i = 0; i < r->point_count; i++) {
        const tune_point *q = &r->points[i];
        const tune_sample *s = tune_value(q);
        if (!q->bound_sweep || !s)
            continue;
        char name[24];
        snprintf(name, sizeof name, "share %g", q->chat_share);
        plot_series *line = series_of(p, name);
        if (!line)
            continue;
        if (line->name == name) {
            uint32_t index = (uint32_t)(line - p->series);
            memcpy(names[index], name, sizeof name);
            line->name = names[index];
            line->hue = index + 4;
        }
        add(line, (double)q->gap_us / 1e3, value(s), reach ? s->p50_us / 1e3 : 0, reach ? s->worst_us / 1e3 : 0);
    }
}

static void put_bound_plots(const tune_report *r, plot *p, buf *out)
{
    char names[PLOT_SERIES_MAX][24];
    *p = (plot){.title = "Document: time to first token, times alone", .x_label = "bound, ms", .x_log = true};
    fill_bounds(r, p, names, premium_of, false);
    buf_text(out,
             "<h2>Cadence: the bound and the chat's share</h2>\n<p>The longest gap that a stream is promised (dashed "
             "in the middle) and the least part of the device time for chats, both set by the operator.</p>\n");
    for (uint32_t i = 0; i < r->point_count; i++)
        if (r->points[i].bound_sweep && r->points[i].refused[0]) {
            buf_printf(out, "<p class=\"soft\">Bounds under %.4g ms are refused here.</p>\n",
                       (double)r->smallest_gap_us / 1e3);
            break;
        }
    buf_text(out, "<ul class=\"key\">");
    for (uint32_t i = 0; i < p->series_count; i++)
        key(out, p->series[i].hue, p->series[i].name);
    buf_text(out, "</ul>\n<div class=\"plots\">\n");
    p->y_log = is_wide(p);
    p->level = 1;
    p->level_name = "alone";
    figure(p, out);
    *p = (plot){.title = "Chat: gap between tokens, p99, ms",
                .x_label = "bound, ms",
                .x_log = true,
                .y_log = true,
                .diagonal = true};
    fill_bounds(r, p, names, p99_of, true);
    figure(p, out);
    *p = (plot){.title = "Chat: tokens a second beside the document",
                .x_label = "bound, ms",
                .x_log = true,
                .level = r->solo_tokens_per_s,
                .level_name = "alone"};
    fill_bounds(r, p, names, rate_of, false);
    figure(p, out);
    buf_text(out, "</div>\n");
}

/* ---- steps ---- */

static void put_costs(plot *p, const char *title, const char *x_label, const tune_cost_list *list, uint32_t hue,
                      bool by_position, bool rate, buf *out)
{
    *p = (plot){.title = title, .x_label = x_label, .x_log = !by_position, .y_log = rate, .series_count = 1};
    p->series[0] = (plot_series){.name = title, .hue = hue, .marked = -1};
    for (uint32_t i = 0; i < list->count; i++) {
        const tune_cost *c = &list->items[i];
        double scale = rate ? c->size * 1e6 : 1e-3;
        const tune_spread *us = &c->us;
        if (us->least <= 0)
            continue;
        if (rate)
            add(&p->series[0], c->size, scale / us->median, scale / us->most, scale / us->least);
        else
            add(&p->series[0], by_position ? c->position : c->size, us->median * scale, us->least * scale,
                us->most * scale);
    }
    if (p->series[0].count > 0)
        figure(p, out);
}

static void put_step_plots(const tune_report *r, plot *p, buf *out)
{
    const tune_costs *c = &r->costs;
    buf_text(out, "<h2>This box: steps alone</h2>\n<p class=\"soft\">Medians; thin lines from the least to the most of "
                  "the repetitions.</p>\n<div class=\"plots\">\n");
    if (c->read_count > 0) {
        *p = (plot){.title = "Memory: reading, GB/s", .x_label = "MB read", .x_log = true, .series_count = 1};
        p->series[0] = (plot_series){.name = "read", .hue = 6, .marked = -1};
        for (uint32_t i = 0; i < c->read_count; i++)
            add(&p->series[0], (double)c->reads[i].bytes / 0x1p20, c->reads[i].rate.median / 1e9,
                c->reads[i].rate.least / 1e9, c->reads[i].rate.most / 1e9);
        figure(p, out);
    }
    put_costs(p, "Prefill: tokens a second by chunk", "tokens of a chunk", &c->chunks, 3, false, true, out);
    put_costs(p, "Prefill: ms of one chunk by position", "position of the chunk", &c->positions, 3, true, false, out);
    put_costs(p, "Decode: ms of a step by streams", "streams", &c->rows, 4, false, false, out);
    put_costs(p, "Decode: ms of a step by depth, one stream", "tokens of context", &c->depths, 4, true, false, out);
    buf_text(out, "</div>\n");
}

/* ---- words and tables ---- */

static void put_cache(const tune_report *r, buf *out)
{
    buf text = {0};
    tune_cache_text(r, &text);
    if (text.size) {
        buf_text(out, "<h2>Prefix cache or quantized KV</h2>\n<pre>");
        plot_text(out, text.data + strspn(text.data, "\n"));
        buf_text(out, "</pre>\n");
    }
    buf_free(&text);
}

static void put_choice(const tune_report *r, buf *out)
{
    int choice = tune_choice(r);
    buf_text(out, "<div class=\"choice\">");
    if (choice < 0) {
        buf_text(out, "<b>No setting let the document through.</b></div>\n");
        return;
    }
    const tune_point *p = &r->points[choice];
    const tune_sample *s = tune_value(p);
    buf_printf(out, "<b>%s, chunks of %u tokens</b><p>", p->policy, p->chunk);
    if (tune_keeps(r, p))
        buf_printf(out, "The smallest premium, within 5%%, that keeps the bound of %.4g ms: ", (double)r->gap_us / 1e3);
    else
        buf_printf(out, "Nothing kept the bound of %.4g ms and the chat's share; this comes nearest: ",
                   (double)r->gap_us / 1e3);
    buf_printf(
        out,
        "the document takes %.2f times its time alone, 99 of 100 gaps stay within %.1f ms (worst %.1f), the chat "
        "makes %.1f of its %.1f tok/s.</p><p class=\"soft\"><code>headway serve --config headway.conf</code>, in "
        "the folder of this file.</p></div>\n",
        s->premium, s->p99_us / 1e3, s->worst_us / 1e3, s->chat_tokens_per_s, r->solo_tokens_per_s);
}

static void put_row(const tune_report *r, uint32_t i, buf *out)
{
    const tune_point *p = &r->points[i];
    const tune_sample *s = tune_value(p);
    buf_printf(out, "<tr%s><td>%s</td><td>%u</td><td>%.4g</td><td>%g</td>",
               (int)i == tune_choice(r) ? " class=\"choice-row\"" : "", p->policy, p->chunk, (double)p->gap_us / 1e3,
               p->chat_share);
    if (!s) {
        buf_text(out, "<td colspan=\"5\">refused: this box cannot keep it</td></tr>\n");
        return;
    }
    if (s->starved)
        buf_text(out, "<td>starved</td>");
    else
        buf_printf(out, "<td>%s%.2f</td>", s->estimated ? "about " : "", s->premium);
    buf_printf(out, "<td>%.1f</td><td>%.1f</td><td>%.1f</td><td>%.1f</td></tr>\n", s->p50_us / 1e3, s->p99_us / 1e3,
               s->worst_us / 1e3, s->chat_tokens_per_s);
}

static void put_table(const tune_report *r, buf *out)
{
    buf_text(out, "<details><summary>Every point as a table</summary><div class=\"scroll\"><table><tr>"
                  "<th scope=\"col\">policy</th><th scope=\"col\">chunk</th><th scope=\"col\">bound, ms</th>"
                  "<th scope=\"col\">share</th><th scope=\"col\">document, times alone</th>"
                  "<th scope=\"col\">gap, median ms</th><th scope=\"col\">p99 ms</th><th scope=\"col\">worst ms</th>"
                  "<th scope=\"col\">chat, tok/s</th></tr>\n");
    for (uint32_t i = 0; i < r->point_count; i++)
        put_row(r, i, out);
    buf_text(out, "</table></div></details>\n");
}

static void put_head(const tune_report *r, buf *out)
{
    char date[32] = "";
    struct tm utc;
    time_t seconds = (time_t)r->unix_seconds;
    if (gmtime_r(&seconds, &utc))
        strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
    buf_text(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
                  "content=\"width=device-width, initial-scale=1\">\n<title>headway tune: ");
    plot_text(out, r->model);
    buf_printf(out, "</title>\n<style>\n%s\n</style></head>\n<body><main>\n<h1>headway tune</h1>\n<p class=\"soft\">",
               plot_page_style);
    plot_text(out, r->model);
    buf_text(out, " · ");
    plot_text(out, r->machine);
    buf_printf(out, " · %s%s", date, r->quick ? " · quick" : "");
    if (r->load_average > 0.5)
        buf_printf(out, " · load before the run %.1f", r->load_average);
    buf_text(out, "</p>\n");
    if (!tune_is_steady(r))
        buf_printf(
            out,
            "<p><b>The machine was not steady:</b> the same document took %.0f to %.0f ms alone. Figures of such a "
            "run say little.</p>\n",
            r->alone_us.least / 1e3, r->alone_us.most / 1e3);
}

void tune_html(const tune_report *r, buf *out)
{
    plot *p = malloc(sizeof *p); /* large */
    if (!p) {
        out->failed = true;
        return;
    }
    put_head(r, out);
    put_choice(r, out);
    buf_printf(
        out,
        "<h2>What a document and a chat do to each other</h2>\n<p>A chat decodes; a document of %u tokens "
        "arrives. Alone it takes %.0f ms to its first token, and the chat alone makes %.1f tok/s. Larger chunks "
        "serve the document, smaller ones the chat; each policy trades in its own way. A thin line goes from the "
        "median gap to the worst.</p>\n",
        r->document_tokens, r->alone_us.least / 1e3, r->solo_tokens_per_s);
    put_chunk_plots(r, p, out);
    put_bound_plots(r, p, out);
    put_table(r, out);
    put_step_plots(r, p, out);
    put_cache(r, out);
    buf_text(out, "</main></body></html>\n");
    free(p);
}
