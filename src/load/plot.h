/* load/plot.h: lines over two axes as an SVG element: no script, colours by class, so that the page's style sheet gives
 * them in light and dark. Classes: s0 ... s7 for the series, "axis", "tick", "mark", "bound". One thread. */
#ifndef HEADWAY_LOAD_PLOT_H
#define HEADWAY_LOAD_PLOT_H

#include "base/buf.h"

enum { PLOT_POINTS_MAX = 32, PLOT_SERIES_MAX = 8 };

typedef struct {
    const char *name;
    uint32_t hue; /* 0 to 7 */
    double x[PLOT_POINTS_MAX], y[PLOT_POINTS_MAX];
    double low[PLOT_POINTS_MAX], high[PLOT_POINTS_MAX]; /* a thin line between them; both 0: none */
    uint32_t count;
    int marked; /* the point with a ring; -1: none */
} plot_series;

typedef struct {
    const char *title, *x_label; /* the title says the unit of y */
    bool x_log, y_log;           /* x: powers of two are written out */
    plot_series series[PLOT_SERIES_MAX];
    uint32_t series_count;
    double level; /* a dashed line across; 0: none */
    const char *level_name;
    bool diagonal; /* a dashed line y = x */
} plot;

/* Values that are not finite, or not > 0 on a logarithmic axis, are left out. Nothing at all to draw: nothing is
 * appended. */
void plot_svg(const plot *p, buf *out);
extern const char plot_page_style[];        /* of pages with plots: figures in .plots, ul.key, tables, light and dark */
void plot_text(buf *out, const char *text); /* escaped for HTML */
void plot_number(buf *out, double value);   /* 3 digits, thousands as k, M, G */

#endif
