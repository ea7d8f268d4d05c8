/* load/plot.c: see the header. */
#include "load/plot.h"

#include <math.h>

enum { WIDTH = 430, HEIGHT = 256, LEFT = 46, RIGHT = 14, TOP = 14, BOTTOM = 42, TICKS_MAX = 24 };

/* ---- the page around ---- */

const char plot_page_style[] =
    ":root{color-scheme:light dark;--ground:#fbfaf8;--card:#fff;--ink:#1c1d21;--soft:#5f636c;--line:#e2e0db;"
    "--s0:#c02626;--s1:#7d7f86;--s2:#6d3fb4;--s3:#b65c00;--s4:#0b6bcb;--s5:#1f7a45;--s6:#0f7f8c;--s7:#a1307e}\n"
    "@media(prefers-color-scheme:dark){:root{--ground:#15171b;--card:#1d2026;--ink:#e8e8e6;--soft:#a3a8b2;"
    "--line:#343840;--s0:#ff7a70;--s1:#a0a4ad;--s2:#b99af0;--s3:#f0a04b;--s4:#63b0ff;--s5:#67c98f;--s6:#4fc3cf;"
    "--s7:#ee88c9}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,"
    "sans-serif}main{max-width:1260px;margin:0 auto;padding:28px 20px 60px}h1{font-size:26px;margin:0;"
    "letter-spacing:-.02em}h2{font-size:18px;margin:40px 0 6px}p{margin:4px 0 "
    "12px;max-width:78ch;overflow-wrap:anywhere}"
    ".soft,figcaption,caption{color:var(--soft);font-size:13.5px}\n"
    ".choice{background:var(--card);border:1px solid var(--line);border-left:4px solid var(--s4);border-radius:8px;"
    "padding:14px 18px;margin:18px 0}.choice b{font-size:20px;letter-spacing:-.01em}.choice p{margin:4px 0 "
    "0;max-width:100ch}"
    "code{font:13.5px ui-monospace,monospace;overflow-wrap:anywhere}pre{font:13.5px/1.5 ui-monospace,monospace;"
    "white-space:pre-wrap}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,350px),1fr));gap:16px}"
    "figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px 8px}"
    "figcaption{color:var(--ink);font-weight:600;font-size:14px;margin-bottom:8px}\n"
    "svg{display:block;width:100%;height:auto;font:12px system-ui,sans-serif}svg text{fill:var(--soft)}"
    ".axis{stroke:var(--line)}.bound{stroke:var(--ink);stroke-dasharray:5 4;fill:none;opacity:.7}"
    "svg "
    ".level{fill:var(--ink);paint-order:stroke;stroke:var(--card);stroke-width:4px}.line{fill:none;stroke:currentColor;"
    "stroke-width:2}.reach{stroke:currentColor;"
    "stroke-width:2;opacity:.35}circle{fill:currentColor}.mark{fill:none;stroke:var(--ink);stroke-width:2}\n"
    ".s0{color:var(--s0)}.s1{color:var(--s1)}.s2{color:var(--s2)}.s3{color:var(--s3)}.s4{color:var(--s4)}"
    ".s5{color:var(--s5)}.s6{color:var(--s6)}.s7{color:var(--s7)}\n"
    "ul.key{list-style:none;display:flex;flex-wrap:wrap;gap:4px 20px;padding:0;margin:8px 0 14px;font-size:14px}"
    "ul.key i{display:inline-block;width:12px;height:12px;border-radius:3px;background:currentColor;margin-right:7px}"
    "ul.key span{color:var(--ink)}ul.key i.ring{background:none;border:2px solid var(--ink);border-radius:50%}\n"
    "details{margin-top:12px}summary{cursor:pointer;color:var(--soft)}.scroll{overflow-x:auto}"
    "table{border-collapse:collapse;font-size:13.5px;font-variant-numeric:tabular-nums;margin:10px 0}"
    "th,td{text-align:right;padding:4px 12px;border-bottom:1px solid var(--line);white-space:nowrap}"
    "th{color:var(--soft);font-weight:600}th:first-child,td:first-child{text-align:left}caption{text-align:left;"
    "padding:0 12px 4px}tr.choice-row td{font-weight:650}\n"
    ":focus-visible{outline:2px solid var(--s4);outline-offset:2px}";

/* ---- numbers and words ---- */

typedef struct {
    double from, to; /* of the values, or of their logarithms */
    bool log;
    double ticks[TICKS_MAX];
    uint32_t tick_count;
} axis;

void plot_text(buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"' || *text == '\'')
            buf_printf(out, "&#%d;", *text);
        else
            buf_byte(out, *text);
    }
}

void plot_number(buf *out, double value)
{
    static const struct {
        double from;
        const char *unit;
    } units[] = {{1e9, "G"}, {1e6, "M"}, {1e4, "k"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (fabs(value) >= units[i].from * 0.9995) {
            double scale = units[i].from == 1e4 ? 1e3 : units[i].from;
            buf_printf(out, "%.3g%s", value / scale, units[i].unit);
            return;
        }
    if (fabs(value) >= 1000)
        buf_printf(out, "%.0f", value);
    else
        buf_printf(out, "%.3g", value);
}

static bool is_drawn(const plot *p, double x, double y)
{
    return isfinite(x) && isfinite(y) && (x > 0 || !p->x_log) && (y > 0 || !p->y_log);
}

/* ---- axes ---- */

static void widen(axis *a, double value)
{
    if (!isfinite(value) || (a->log && value <= 0))
        return;
    double v = a->log ? log10(value) : value;
    a->from = fmin(a->from, v);
    a->to = fmax(a->to, v);
}

static void add_tick(axis *a, double value)
{
    double v = a->log ? log10(value) : value;
    if (a->tick_count < TICKS_MAX && v >= a->from - 1e-9 && v <= a->to + 1e-9)
        a->ticks[a->tick_count++] = value;
}

/* Linear: from 0 or a round number up to a round number. */
static void round_linear(axis *a, bool from_zero)
{
    if (from_zero && a->from > 0)
        a->from = 0;
    double span = a->to - a->from > 0 ? a->to - a->from : 1, step = pow(10, floor(log10(span)));
    for (int i = 0; span / step > 6; i++)
        step *= i % 2 ? 2.5 : 2;
    if (span / step < 3)
        step /= 2;
    a->from = floor(a->from / step + 1e-9) * step;
    a->to = ceil(a->to / step - 1e-9) * step;
    if (a->to <= a->from)
        a->to = a->from + step;
    for (double v = a->from; v <= a->to + step / 2; v += step)
        add_tick(a, fabs(v) < step / 1e6 ? 0 : v);
}

/* Logarithmic: 1, 2, 5 of each power when the axis is short. */
static void round_log(axis *a)
{
    static const double parts[] = {1, 2, 5};
    if (a->to - a->from < 0.3) {
        a->from -= 0.3;
        a->to += 0.3;
    }
    a->from -= 0.04 * (a->to - a->from);
    a->to += 0.06 * (a->to - a->from);
    bool fine = a->to - a->from < 2.6;
    for (int power = (int)floor(a->from); power <= (int)ceil(a->to); power++)
        for (int i = 0; i < (fine ? 3 : 1); i++)
            add_tick(a, parts[i] * pow(10, power));
}

/* The points' own places, where they stand far enough apart. */
static void own_ticks(axis *a, const plot *p)
{
    double last = -INFINITY, apart = (a->to - a->from) / 10;
    for (;;) { /* the smallest value that is larger than the last one */
        double next = INFINITY;
        for (uint32_t s = 0; s < p->series_count; s++)
            for (uint32_t i = 0; i < p->series[s].count; i++) {
                double v = a->log ? log10(p->series[s].x[i]) : p->series[s].x[i];
                if (is_drawn(p, p->series[s].x[i], p->series[s].y[i]) && v >= last + apart && v < next)
                    next = v;
            }
        if (!isfinite(next))
            return;
        add_tick(a, a->log ? pow(10, next) : next);
        last = next;
    }
}

static bool make_axes(const plot *p, axis *x, axis *y)
{
    *x = (axis){.from = INFINITY, .to = -INFINITY, .log = p->x_log};
    *y = (axis){.from = INFINITY, .to = -INFINITY, .log = p->y_log};
    for (uint32_t s = 0; s < p->series_count; s++) {
        const plot_series *one = &p->series[s];
        for (uint32_t i = 0; i < one->count; i++) {
            if (!is_drawn(p, one->x[i], one->y[i]))
                continue;
            widen(x, one->x[i]);
            widen(y, one->y[i]);
            if (one->high[i] > 0) {
                widen(y, one->low[i]);
                widen(y, one->high[i]);
            }
        }
    }
    if (!isfinite(x->from) || !isfinite(y->from))
        return false;
    if (p->level > 0)
        widen(y, p->level);
    if (p->y_log)
        round_log(y);
    else
        round_linear(y, true);
    double edge = x->to > x->from ? 0.03 * (x->to - x->from) : 0.5;
    x->from -= edge;
    x->to += edge;
    own_ticks(x, p);
    return true;
}

static double place(const axis *a, double value, double start, double end)
{
    double v = a->log ? log10(value) : value;
    return start + (v - a->from) / (a->to - a->from) * (end - start);
}

static double x_of(const axis *a, double value)
{
    return place(a, value, LEFT, WIDTH - RIGHT);
}

static double y_of(const axis *a, double value)
{
    return place(a, value, HEIGHT - BOTTOM, TOP);
}

/* ---- drawing ---- */

static void draw_axes(const plot *p, const axis *x, const axis *y, buf *out)
{
    for (uint32_t i = 0; i < y->tick_count; i++) {
        double at = y_of(y, y->ticks[i]);
        buf_printf(out, "<path class=\"axis\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT,
                   at, WIDTH - RIGHT, LEFT - 7, at + 4);
        plot_number(out, y->ticks[i]);
        buf_text(out, "</text>\n");
    }
    for (uint32_t i = 0; i < x->tick_count; i++) {
        buf_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x_of(x, x->ticks[i]),
                   HEIGHT - BOTTOM + 17);
        plot_number(out, x->ticks[i]);
        buf_text(out, "</text>\n");
    }
    buf_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6);
    plot_text(out, p->x_label);
    buf_text(out, "</text>\n");
    if (p->level > 0)
        buf_printf(out, "<path class=\"bound\" d=\"M%d %.1fH%d\"/>\n", LEFT, y_of(y, p->level), WIDTH - RIGHT);
    if (p->diagonal) {
        double least = fmax(pow(10, x->from), pow(10, y->from)), most = fmin(pow(10, x->to), pow(10, y->to));
        if (p->x_log && p->y_log && most > least)
            buf_printf(out, "<path class=\"bound\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x_of(x, least), y_of(y, least),
                       x_of(x, most), y_of(y, most));
    }
}

static void draw_line(const plot *p, const plot_series *s, const axis *x, const axis *y, buf *out)
{
    bool open = false;
    buf_printf(out, "<g class=\"s%u\">", s->hue % 8);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->high[i] > 0 && is_drawn(p, s->x[i], s->low[i]) && is_drawn(p, s->x[i], s->high[i]))
            buf_printf(out, "<path class=\"reach\" d=\"M%.1f %.1fV%.1f\"/>", x_of(x, s->x[i]), y_of(y, s->low[i]),
                       y_of(y, s->high[i]));
    buf_text(out, "<path class=\"line\" d=\"");
    for (uint32_t i = 0; i < s->count; i++) {
        if (!is_drawn(p, s->x[i], s->y[i])) {
            open = false;
            continue;
        }
        buf_printf(out, "%c%.1f %.1f", open ? 'L' : 'M', x_of(x, s->x[i]), y_of(y, s->y[i]));
        open = true;
    }
    buf_text(out, "\"/>");
    for (uint32_t i = 0; i < s->count; i++) {
        if (!is_drawn(p, s->x[i], s->y[i]))
            continue;
        double px = x_of(x, s->x[i]), py = y_of(y, s->y[i]);
        buf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\"><title>", px, py);
        plot_text(out, s->name);
        buf_text(out, ", ");
        plot_number(out, s->x[i]);
        buf_text(out, ": ");
        plot_number(out, s->y[i]);
        buf_text(out, "</title></circle>");
        if (s->marked == (int)i)
            buf_printf(out, "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"8\"/>", px, py);
    }
    buf_text(out, "</g>\n");
}

/* Last of all, above the lines. */
static void name_level(const plot *p, const axis *y, buf *out)
{
    if (p->level <= 0 || !p->level_name)
        return;
    buf_printf(out, "<text class=\"level\" x=\"%d\" y=\"%.1f\">", LEFT + 6, y_of(y, p->level) - 5);
    plot_text(out, p->level_name);
    buf_text(out, "</text>\n");
}

void plot_svg(const plot *p, buf *out)
{
    axis x, y;
    if (!make_axes(p, &x, &y))
        return;
    buf_printf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    plot_text(out, p->title);
    buf_text(out, "\">\n");
    draw_axes(p, &x, &y, out);
    for (uint32_t s = 0; s < p->series_count; s++)
        draw_line(p, &p->series[s], &x, &y, out);
    name_level(p, &y, out);
    buf_text(out, "</svg>\n");
}
