/* load/tune_text.c: the table for a terminal, and the config file for `serve`. */
#include "load/tune.h"

#include <ctype.h>

enum { VALUE_MAX = 160 }; /* a line of the config file has fewer than 200 bytes */

static void put_row(const tune_report *r, int index, buf *out)
{
    const tune_point *p = &r->points[index];
    const tune_sample *s = tune_value(p);
    const char *mark = index == tune_choice(r)             ? "<- this one"
                       : index == tune_sweet(r, p->policy) ? "* best of its policy"
                                                           : "";
    if (s->starved)
        buf_printf(out, "%-14s %6u %9s", p->policy, p->chunk, "starved");
    else
        buf_printf(out, "%-14s %6u %8.2fx", p->policy, p->chunk, s->premium);
    buf_printf(out, " %9.1f %9.1f %8.1f  %s\n", s->p99_us / 1e3, s->worst_us / 1e3, s->chat_tokens_per_s, mark);
}

void tune_table(const tune_report *r, buf *out)
{
    int choice = tune_choice(r);
    if (!tune_is_steady(r))
        buf_text(out,
                 "The machine was not steady: the same document took different times alone. Figures of such a run\n"
                 "say little.\n\n");
    buf_printf(out,
               "Document of %u tokens alone: %.0f ms to its first token (to %.0f). Chat alone: %.1f tok/s.\n"
               "Bound of a chat's gaps: %.4g ms%s; share of the chat: %g.\n\n"
               "%-14s %6s %9s %9s %9s %8s\n",
               r->document_tokens, r->alone_us.least / 1e3, r->alone_us.most / 1e3, r->solo_tokens_per_s,
               (double)r->gap_us / 1e3, r->gap_auto ? " (auto)" : "", r->chat_share, "policy", "chunk", "document",
               "p99 ms", "worst ms", "tok/s");
    for (uint32_t i = 0; i < r->point_count; i++)
        if (!r->points[i].bound_sweep && tune_value(&r->points[i]))
            put_row(r, (int)i, out);
    if (choice < 0)
        buf_text(out, "\nNo setting let the document through.\n");
    else if (!tune_keeps(r, &r->points[choice]))
        buf_printf(out, "\nNothing kept the bound and the chat's share here; %s with chunks of %u comes nearest.\n",
                   r->points[choice].policy, r->points[choice].chunk);
    else
        buf_printf(out, "\nSweet spot: %s, chunks of %u: the document takes %.2fx, 99 of 100 gaps within %.1f ms.\n",
                   r->points[choice].policy, r->points[choice].chunk, tune_value(&r->points[choice])->premium,
                   tune_value(&r->points[choice])->p99_us / 1e3);
    tune_cache_text(r, out);
}

/* ---- headway.conf ---- */

/* A value that a line of the file can hold as it is. */
static bool is_plain(const char *value)
{
    size_t size = strlen(value);
    if (size == 0 || size > VALUE_MAX || isspace((unsigned char)value[0]) || isspace((unsigned char)value[size - 1]))
        return false;
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == ';' || *c == '#' || *c == 0x7f)
            return false;
    return value[0] != '"' && value[0] != '[';
}

static void put_comment(buf *out, const char *text) /* never more than a line, whatever it holds */
{
    for (size_t i = 0; text[i] && i < VALUE_MAX; i++)
        buf_byte(out, (unsigned char)text[i] < 0x20 ? ' ' : text[i]);
    buf_byte(out, '\n');
}

static void put_why(const tune_report *r, const tune_point *p, buf *out)
{
    const tune_sample *s = tune_value(p);
    if (tune_keeps(r, p))
        buf_text(out,
                 "; The smallest premium of a document (within 5%) that keeps 99 of 100 gaps within the bound and the\n"
                 "; chat's share.\n");
    else
        buf_text(out, "; Nothing measured kept the bound and the chat's share; this came nearest.\n");
    buf_printf(out,
               "; Beside a document of %u tokens: a chat had 99 of 100 gaps within %.1f ms, the worst %.1f ms, and "
               "%.1f of its\n"
               "; %.1f tok/s alone; the document took %.2f times its %.0f ms alone.\n",
               r->document_tokens, s->p99_us / 1e3, s->worst_us / 1e3, s->chat_tokens_per_s, r->solo_tokens_per_s,
               s->premium, r->alone_us.least / 1e3);
}

void tune_config(const tune_report *r, const tune_setting *settings, buf *out)
{
    int choice = tune_choice(r);
    buf_text(out, "; Written by `headway tune`; curves.html beside this file shows what it was chosen from.\n; ");
    put_comment(out, r->machine);
    buf_text(out, "; ");
    put_comment(out, r->model);
    buf_text(out, "[server]\n");
    for (const tune_setting *s = settings; s->name; s++) {
        if (!s->value)
            continue;
        if (is_plain(s->value))
            buf_printf(out, "%s = %s\n", s->name, s->value);
        else
            buf_printf(out, "; %s was set too; this file cannot hold its value: give --%s\n", s->name, s->name);
    }
    buf_text(out, "\n");
    if (choice >= 0) {
        const tune_point *p = &r->points[choice];
        put_why(r, p, out);
        buf_printf(out, "policy = %s\nchunk = %u\n", p->policy, p->chunk);
    }
    buf_printf(out, "\n; The longest gap between two tokens of a stream. This box can keep %.4g ms and more.\n",
               (double)r->smallest_gap_us / 1e3);
    if (r->gap_auto)
        buf_printf(out, "; auto is the larger of 50 ms and 4 decode steps: %.4g ms here.\ngap-ms = auto\n",
                   (double)r->gap_us / 1e3);
    else
        buf_printf(out, "gap-ms = %llu\n", (unsigned long long)(r->gap_us / 1000));
    buf_printf(out,
               "\n; Least part of the device time for chats while documents wait: a bound on gaps is no rate.\n"
               "chat-share = %g\n",
               r->chat_share);
}
